"""Holding what real stores have: a Fuseki, and an Oxigraph behind rdflib-endpoint."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from rdflib import Dataset

from stream_ext.errors import SourceFailed
from stream_ext.remote.endpoint_source import SparqlEndpointSource
from stream_ext.remote.source import MAIN, SourceSettings
from tests.parts.fuseki.server import Fuseki
from tests.parts.oxigraph import served
from tests.stream_ext.opened import EX, emissions_of, opened, push, triple, values

PREFIX = f"PREFIX : <{EX}>"
DATA = f"""{PREFIX} INSERT DATA {{ :z1 :partOf :c1 . :z2 :partOf [ :in :c2 ] . :c1 :pays 01 , "x"@EN , "x\\ny" .
    GRAPH :g {{ :z1 :near :z2 . :z2 :near :z3 }} }}"""
NEAR = f"""{PREFIX} REGISTER RSTREAM near AS SELECT ?t ?c ?n ?price
    FROM NAMED WINDOW :w ON taxis [RANGE PT10S STEP PT1S]
    {{ WINDOW :w {{ ?t :in ?z }} {{ ?z :partOf ?c FILTER(isIRI(?c)) }} UNION {{ ?z :partOf/:in ?c }}
       OPTIONAL {{ ?c :pays ?price FILTER(isLITERAL(?price) && STR(?price) != "1") }}
       OPTIONAL {{ GRAPH :g {{ ?z :near+ ?n }} }} }}"""


def read(url: str) -> SparqlEndpointSource:
    """It is closed with the service."""
    return SparqlEndpointSource(SourceSettings(MAIN, url), silence_s=10.0, sleep=lambda wait_s: None)


def follow(folder: Path, source: SparqlEndpointSource, update: Callable[[str], object]) -> None:
    update(DATA)
    with opened(folder, sources=[source]) as service:
        service.register(NEAR)
        push(service, "taxis", 1_500, triple("a", "z1", "in"), triple("b", "z2", "in"))
        push(service, "taxis", 2_500, triple("c", "z9", "in"))
        places = {("a", "c1", "z2"), ("a", "c1", "z3"), ("b", "c2", "z3")}
        assert {row[:3] for row in values(emissions_of(service, "near")[-1])} == places
        prices = {row[3] for row in values(emissions_of(service, "near")[-1])}
        assert {"x", "x\ny", ""} <= prices
        head = service.head()
        assert service.refresh_source("main") == head  # blank nodes have other labels, and are the same
        update(f"{PREFIX} DELETE DATA {{ GRAPH :g {{ :z2 :near :z3 }} }}; INSERT DATA {{ :z9 :partOf :c9 }}")
        assert service.refresh_source("main") == head + 1
        push(service, "taxis", 3_500, triple("d", "z8", "in"))
        now = {("a", "c1", "z2"), ("b", "c2", ""), ("c", "c9", "")}
        assert {row[:3] for row in values(emissions_of(service, "near")[-1])} == now
        status = service.source_status("main")
        assert status["state"] == "ready" and status["held"] == 8


@pytest.mark.fuseki
@pytest.mark.xdist_group("fuseki")
def test_a_fuseki_is_held(fuseki: Fuseki, tmp_path: Path) -> None:
    follow(tmp_path, read(fuseki.query_url), fuseki.update)


@pytest.mark.fuseki
@pytest.mark.xdist_group("fuseki")
def test_what_is_held_of_a_fuseki_continues_when_it_does_not_answer(fuseki: Fuseki, tmp_path: Path) -> None:
    fuseki.update(DATA)
    source = read(fuseki.query_url)
    with opened(tmp_path, sources=[source]) as service:
        service.register(NEAR)
    away = read("http://127.0.0.1:9/nobody")
    with opened(tmp_path, sources=[away]) as service:
        push(service, "taxis", 1_500, triple("a", "z1", "in"))
        push(service, "taxis", 2_500, triple("c", "z9", "in"))
        assert {row[:2] for row in values(emissions_of(service, "near")[-1])} == {("a", "c1")}


def test_an_oxigraph_behind_rdflib_endpoint_is_held(tmp_path: Path) -> None:
    dataset = Dataset(store="Oxigraph")
    with served(dataset) as server:
        follow(tmp_path, read(server.query_url), dataset.update)


def test_what_is_no_sparql_endpoint_is_reported_in_its_words(tmp_path: Path) -> None:
    dataset = Dataset(store="Oxigraph")
    with served(dataset) as server:
        dataset.update(DATA)
        source = read(server.query_url.replace("/sparql", "/docs"))
        with opened(tmp_path, sources=[source]) as service:
            with pytest.raises(SourceFailed, match="main"):
                service.register(NEAR)
            assert service.source_status("main")["error"]
