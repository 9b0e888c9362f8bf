"""The stores of others that tests run against are there, and answer as they are known to."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from tests.parts.fuseki.server import Fuseki
from tests.parts.oxigraph import served
from tests.parts.virtuoso import Virtuoso

TWO_GRAPHS = "INSERT DATA { <http://ex/a> <http://ex/p> 01 . GRAPH <http://ex/g> { <http://ex/a> <http://ex/p> 2 } }"
VALUES = "SELECT ?o { <http://ex/a> <http://ex/p> ?o }"


def values(url: str) -> list[str]:
    form = {"accept": "application/sparql-results+json"}
    answer = httpx.post(url, data={"query": VALUES}, headers=form).raise_for_status().json()
    return sorted(row["o"]["value"] for row in answer["results"]["bindings"])


@pytest.mark.fuseki
@pytest.mark.xdist_group("fuseki")
def test_fuseki_answers_and_begins_empty(fuseki: Fuseki) -> None:
    assert values(fuseki.query_url) == []
    fuseki.update(TWO_GRAPHS)
    fuseki.load(b"<http://ex/a> <http://ex/p> <http://ex/more> .\n")
    assert values(fuseki.query_url) == ["01", "http://ex/more"]
    fuseki.empty()
    assert values(fuseki.query_url) == []


@pytest.mark.fuseki
@pytest.mark.xdist_group("fuseki")
def test_a_fuseki_with_a_folder_has_its_data_after_it_was_killed(tmp_path: Path) -> None:
    with Fuseki(tmp_path / "home", data=tmp_path / "data", heap="256m", short_lived=True) as server:
        server.update(TWO_GRAPHS)
        server.kill()
        server.start()
        assert values(server.query_url) == ["1"]  # TDB2 keeps the value of a number, not how it was written


@pytest.mark.virtuoso
@pytest.mark.xdist_group("virtuoso")
def test_the_default_graph_of_virtuoso_is_the_union_of_all(virtuoso: Virtuoso) -> None:
    virtuoso.update("INSERT DATA { GRAPH <http://ex/virtuoso> { <http://ex/a> <http://ex/p> 2 } }")
    assert values(virtuoso.query_url) == ["2"]


def test_an_oxigraph_answers_behind_rdflib_endpoint() -> None:
    with served() as oxigraph:
        oxigraph.dataset.update(TWO_GRAPHS)
        assert values(oxigraph.query_url) == ["1"]  # it keeps the value of a number, not how it was written
