"""docs/how_to/patterns.md: each query gives, on the data of the page, the results that stand below it."""

from __future__ import annotations

import json
import re
from typing import Any

import httpx

from tests.docs.pages import DOCS, Page, codes, rows
from tests.docs.test_docs import address as address

PAGE = Page(DOCS / "how_to" / "patterns.md")
EX = "http://example.org/"
_PATTERN = re.compile(r"^```sparql\n(.*?)^```\n\n(\| at \| result \|\n(?:\|[^\n]*\n)+)", re.MULTILINE | re.DOTALL)
_NAME = re.compile(r"REGISTER \w+ (\w+) AS")


def test_each_pattern_gives_the_results_that_the_page_shows(address: str) -> None:
    patterns = [(_NAME.search(found[1]), found[1], found[2]) for found in _PATTERN.finditer(PAGE.text)]
    assert len(patterns) == len([block for block in PAGE.blocks() if block.language == "sparql"]) == 12
    with httpx.Client(base_url=f"http://{address}", timeout=60) as client:
        (facts,) = [block.code for block in PAGE.blocks() if block.language == "turtle"]
        done(client.post("/data?default", content=facts, headers={"content-type": "text/turtle"}))
        for stream in ("readings", "doors"):
            done(client.put(f"/streams/{stream}"))
        for _, text, _ in patterns:
            done(client.post("/queries", content=text, headers={"content-type": "application/sparql-query"}))
        push(client)
        for name, text, table in patterns:
            assert name is not None
            emissions = client.get(f"/queries/{name[1]}/results", params={"since": "0"}).text.splitlines()
            assert [shown(json.loads(each), "ORDER BY" in text) for each in emissions] == promised(table, text), text


def push(client: httpx.Client) -> None:
    """In the order of the table, which is that of time."""
    elements = [[codes(row[0])[0], row[1], codes(row[2])[0]] for row in rows(PAGE.section("The data"))]
    assert len(elements) == 8
    for stream, time, triple in elements:
        done(
            client.post(
                f"/streams/{stream}?timestamp={time.removesuffix('s')}000&wait=evaluated",
                content=f"PREFIX ex: <{EX}> {triple} .", headers={"content-type": "text/turtle"},
            )
        )  # fmt: skip
    for stream in ("readings", "doors"):
        done(client.post(f"/streams/{stream}/heartbeat?timestamp=20000&wait=evaluated"))


def done(answer: httpx.Response) -> None:
    assert answer.is_success, answer.text


def promised(table: str, text: str) -> list[tuple[str, list[str]]]:
    found = [(time, [] if result == "-" else result.split(", ")) for time, result in rows(table)]
    return [(time, result if "ORDER BY" in text else sorted(result)) for time, result in found]


def shown(emission: dict[str, Any], is_ordered: bool) -> tuple[str, list[str]]:
    if "graph" in emission:
        found = [re.sub(r'\^\^<[^>]*>|["<>]', "", line.removesuffix(" .")) for line in emission["graph"].splitlines()]
    else:
        bindings = emission["results"]["bindings"]
        found = [" ".join(term["value"] for term in row.values()) for row in bindings]
    found = [row.replace(EX, "") for row in found]
    return f"{emission['time'] // 1000}s", found if is_ordered else sorted(found)
