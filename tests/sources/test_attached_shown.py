"""An attached store as people see it: in `rillet status`, in the console, in the log."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pyoxigraph as ox
import pytest

from endpoint.cli.command_line import main
from stream_ext.remote.endpoint_source import SparqlEndpointSource
from stream_ext.remote.source import SourceSettings
from tests.endpoint.console.html import Element, Page, answered, get, post
from tests.endpoint.live import NT, Live, live
from tests.sources.scripted import Scripted, scripted

NAMES = "".join(f'<http://ex/p{n}> <http://ex/name> "name {n}" .\n' for n in range(50))


@pytest.fixture
def source() -> Iterator[Scripted]:
    with scripted() as running:
        running.add(NAMES)
        yield running


@pytest.fixture
def server(source: Scripted, tmp_path: Path) -> Iterator[Live]:
    with live(tmp_path / "store", sources=[SparqlEndpointSource(SourceSettings("main", source.url), 10.0)]) as running:
        yield running


OVER_NAMES = """PREFIX ex: <http://ex/>
REGISTER RSTREAM named_taxis AS SELECT ?name FROM NAMED WINDOW ex:w ON STREAM taxis [RANGE 1s STEP 1s]
WHERE { WINDOW ex:w { ?taxi ex:driver ?person } ?person ex:name ?name }"""


def test_the_status_names_the_store_and_what_is_held_of_it(
    server: Live, source: Scripted, capsys: pytest.CaptureFixture[str]
) -> None:
    server.register(OVER_NAMES).raise_for_status()
    assert main(["status", "--server", server.url]) == 0
    assert f"attached store main at {source.url} is ready; 50 quads of it are held, as of 20" in capsys.readouterr().out
    assert main(["status", "--json", "--server", server.url]) == 0
    assert [each["source"] for each in json.loads(capsys.readouterr().out)["sources"]] == ["main"]


def test_sources_are_listed_and_refreshed_on_the_command_line(
    server: Live, source: Scripted, capsys: pytest.CaptureFixture[str]
) -> None:
    server.register(OVER_NAMES).raise_for_status()
    assert main(["source", "list", "--server", server.url]) == 0
    columns, *_, row = (line.split() for line in capsys.readouterr().out.splitlines())
    assert columns == ["source", "state", "held", "as", "of", "url"]
    assert (row[:3], row[-1]) == (["main", "ready", "50"], source.url)
    source.add('<http://ex/p99> <http://ex/name> "Zoe" .')
    assert main(["source", "refresh", "--server", server.url]) == 0
    assert capsys.readouterr().out.startswith("what is held of main is as new as snapshot ")
    assert main(["source", "list", "--json", "--server", server.url]) == 0
    assert json.loads(capsys.readouterr().out)[0]["held"] == 51
    assert main(["source", "refresh", "bio", "--server", server.url]) == 1
    assert "bio" in capsys.readouterr().err


def test_the_console_says_what_it_counts_and_shows_the_store(server: Live, source: Scripted) -> None:
    server.register(OVER_NAMES).raise_for_status()
    overview = get(server, "/")
    assert overview.facts()["Attached store main"] == f"ready; 50 quads of it are held {source.url}"
    assert "not in attached stores" in " ".join(each.shown for each in overview.all("p"))
    graphs = " ".join(each.shown for each in get(server, "/graphs").all("p"))
    assert source.url in graphs
    assert "There are no named graphs in it" in graphs


def _rows(page: Page) -> list[list[str]]:
    """Of the table of attached stores in a plan."""
    (table,) = (e for e in page.all("div") if e.attributes.get("aria-label") == "Attached stores")
    rows = [e for e in page.all("tr") if e.inside("tbody") and _is_inside(e, table)]
    return [[cell.shown for cell in row.children] for row in rows]


def _is_inside(element: Element, outer: Element) -> bool:
    return element.parent is not None and (element.parent is outer or _is_inside(element.parent, outer))


def test_the_console_has_a_page_of_attached_stores(server: Live, source: Scripted) -> None:
    assert "No registered query needs anything of it." in " ".join(e.shown for e in get(server, "/sources").all("p"))
    server.register(OVER_NAMES).raise_for_status()
    page = get(server, "/sources")
    facts = page.facts()
    assert (facts["Address"], facts["State"], facts["Held"]) == (source.url, "ready", "50 quads")
    assert facts["As of"].startswith("20") and int(facts["Requests"]) > 0 and "01" in facts["Differs"]
    assert page.cells() == [["?s <http://ex/name> ?o", "held", "50"]]
    source.add('<http://ex/p99> <http://ex/name> "Zoe" .')
    assert answered(post(server, "/sources", source="main")).startswith("What is held of main is as new as snapshot ")
    assert get(server, "/sources").facts()["Held"] == "51 quads"
    assert "bio" in answered(post(server, "/sources", 404, source="bio"))


def test_an_explanation_shows_what_is_held_and_asked_with_counts(server: Live) -> None:
    page = post(server, "/explain", query=OVER_NAMES)
    assert ["?s <http://ex/name> ?o", "held", "50"] in _rows(page)
    page = post(server, "/explain", query="SELECT * { ?p <http://ex/name> ?name }")
    assert [row[1:] for row in _rows(page)] == [["asked: only it has data for this", ""]]


def test_the_log_says_in_words_what_a_store_is(server: Live) -> None:
    found = server.service.sources.main
    assert found is not None
    assert found.traits.description.startswith("its default graph has triples of its own")


def test_an_upload_is_reported_to_be_where_it_went(source: Scripted, tmp_path: Path) -> None:
    settings = SourceSettings("main", source.url, update_url=source.url)
    triple = ox.Quad(ox.NamedNode("http://ex/a"), ox.NamedNode("http://ex/p"), ox.NamedNode("http://ex/b"))
    with live(tmp_path / "written", sources=[SparqlEndpointSource(settings, 10.0)]) as server:
        shown = post(
            server, "/upload", text=f"{triple.subject} {triple.predicate} {triple.object} .", type="text/turtle"
        )
        assert triple in source.store
        assert answered(shown) == f"The attached store {source.url} contains the change."
        loaded = "<http://ex/c> <http://ex/p> <http://ex/d> ."
        server.http.post("/$/loads", content=loaded, headers=NT).raise_for_status()
        graphs = get(server, "/graphs")
        assert graphs.cells()[0][:2] == ["default graph", "1"]
        assert graphs.all("details") == [], "what would be refused is not offered"
