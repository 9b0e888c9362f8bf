"""docs/examples: played as its page says, each file gives the results that it says it gives."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from rdflib import Graph, Literal, URIRef

from tests.docs.pages import DOCS, Page
from tests.docs.test_docs import address as address
from tests.docs.test_docs import at, run

EXAMPLES = DOCS / "examples"
PAGE = Page(EXAMPLES / "README.md")
FILES = sorted((EXAMPLES / "rooms").glob("*.rq"))
EX = "http://example.org/"
_RESULT = re.compile(r"^#   (\d+)s +(.*)$", re.MULTILINE)


@pytest.fixture
def results(address: str, tmp_path: Path) -> Iterator[httpx.Client]:
    folder = tmp_path / "docs" / "examples"
    shutil.copytree(EXAMPLES, folder)
    (block,) = [block for block in PAGE.blocks() if block.language == "sh"]
    run(PAGE, block, at(block.code, address), tmp_path, address)
    with httpx.Client(base_url=f"http://{address}", timeout=60) as client:
        yield client


def test_each_example_gives_what_its_file_says(results: httpx.Client) -> None:
    assert len(FILES) >= 9
    for file in FILES:
        emissions = results.get(f"/queries/{file.stem}/results", params={"since": "0"}).text.splitlines()
        given = {each["time"] // 1000: rows_of(each) for each in map(json.loads, emissions)}
        assert given == promised(file), file.name


def test_the_page_shows_each_example() -> None:
    assert sorted(link for link in PAGE.links() if link.endswith(".rq")) == [f"rooms/{file.name}" for file in FILES]


def promised(file: Path) -> dict[int, list[str]]:
    found = {int(m[1]): m[2] for m in _RESULT.finditer(file.read_text())}
    assert found, f"{file.name} does not say what it gives"
    listed = {time: [] if rows == "no rows" else rows.split(", ") for time, rows in found.items()}
    return {time: in_order(file.read_text(), rows) for time, rows in listed.items()}


def rows_of(emission: dict[str, Any]) -> list[str]:
    file = EXAMPLES / "rooms" / f"{emission['query']}.rq"
    if "graph" in emission:
        graph = Graph()
        graph.parse(data=emission["graph"], format="nt")
        return in_order(file.read_text(), [" ".join(map(short, triple)) for triple in graph])
    rows = [
        " ".join(term["value"].replace(EX, "ex:") for term in row.values()) for row in emission["results"]["bindings"]
    ]
    return in_order(file.read_text(), rows)


def short(term: object) -> str:
    assert isinstance(term, (URIRef, Literal))
    return str(term).replace(EX, "ex:")


def in_order(text: str, rows: list[str]) -> list[str]:
    """Only a query with ORDER BY promises an order."""
    return rows if "ORDER BY" in text else sorted(rows)
