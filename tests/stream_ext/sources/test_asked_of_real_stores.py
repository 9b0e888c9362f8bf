"""Asking real stores, and moving what streams absorb to them: a Fuseki, and an Oxigraph behind rdflib-endpoint."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from rdflib import Dataset

from stream_ext.clock import ManualClock
from stream_ext.remote.endpoint_source import SparqlEndpointSource
from stream_ext.remote.source import MAIN, SourceSettings
from tests.parts.fuseki.server import Fuseki
from tests.parts.oxigraph import served
from tests.parts.waiting import until
from tests.stream_ext.opened import EX, emissions_of, opened, push, triple, values
from tests.stream_ext.sources.test_held_of_real_stores import DATA, PREFIX

NEAR = f"""{PREFIX} REGISTER RSTREAM near AS SELECT ?t ?c ?n ?price
    FROM NAMED WINDOW :w ON taxis [RANGE PT10S STEP PT1S]
    {{ WINDOW :w {{ ?t :in ?z }} {{ ?z :partOf ?c FILTER(isIRI(?c)) }} UNION {{ ?z :partOf/:in ?c }}
       OPTIONAL {{ ?c :pays ?price FILTER(isLITERAL(?price) && STR(?price) != "1") }}
       OPTIONAL {{ GRAPH :g {{ ?z :near ?n }} }} }}"""


def read(url: str, update_url: str | None = None) -> SparqlEndpointSource:
    """It is closed with the service."""
    settings = SourceSettings(MAIN, url, update_url=update_url, mode="ask", refresh_s=60.0)
    return SparqlEndpointSource(settings, silence_s=10.0, sleep=lambda wait_s: None)


def follow(folder: Path, source: SparqlEndpointSource, update: Callable[[str], object]) -> None:
    update(DATA)
    with opened(folder, sources=[source]) as service:
        service.register(NEAR)
        assert {each["way"] for each in service.source_status("main")["groups"]} == {"asked"}
        push(service, "taxis", 1_500, triple("a", "z1", "in"), triple("b", "z2", "in"))
        push(service, "taxis", 2_500, triple("c", "z9", "in"))
        found = values(emissions_of(service, "near")[-1])
        assert {row[:3] for row in found} == {("a", "c1", "z2"), ("b", "c2", "z3")}
        assert {"x", "x\ny", ""} <= {row[3] for row in found}, service.why_not_evaluated("near")
        update(f"{PREFIX} DELETE DATA {{ GRAPH :g {{ :z2 :near :z3 }} }}; INSERT DATA {{ :z9 :partOf :c9 }}")
        service.refresh_source("main")
        push(service, "taxis", 3_500, triple("d", "z8", "in"))
        now = {("a", "c1", "z2"), ("b", "c2", ""), ("c", "c9", "")}
        assert {row[:3] for row in values(emissions_of(service, "near")[-1])} == now
        assert service.source_status("main")["held"] == 0


@pytest.mark.fuseki
@pytest.mark.xdist_group("fuseki")
def test_a_fuseki_is_asked(fuseki: Fuseki, tmp_path: Path) -> None:
    follow(tmp_path, read(fuseki.query_url), fuseki.update)


@pytest.mark.fuseki
@pytest.mark.xdist_group("fuseki")
def test_what_streams_absorb_is_moved_to_a_fuseki(fuseki: Fuseki, tmp_path: Path) -> None:
    clock, source = ManualClock(1_000_000), read(fuseki.query_url, fuseki.update_url)
    with opened(tmp_path, clock, sources=[source], absorb="source") as service:
        service.create_stream("taxis", {"timeless": True})
        for second in (1, 2):
            push(service, "taxis", 1_000 * second, triple("a", f"c{second}", "livesIn"), triple("b", "c1", "livesIn"))
            clock.advance(1_000)
            until(lambda: not len(service.store.at(service.head()).quads()[0]), "all is moved")
        assert service.query("SELECT * { ?s ?p ?o }").count == 3
        assert service.query("SELECT * { GRAPH ?g { ?s <urn:rillet:absorbed:up-to> ?n } }").count == 1
        service.update(f"DELETE DATA {{ <{EX}b> <{EX}livesIn> <{EX}c1> }}")
        assert service.query("SELECT * { ?s ?p ?o }").count == 2


def test_an_oxigraph_behind_rdflib_endpoint_is_asked(tmp_path: Path) -> None:
    dataset = Dataset(store="Oxigraph")
    with served(dataset) as server:
        follow(tmp_path, read(server.query_url), dataset.update)
