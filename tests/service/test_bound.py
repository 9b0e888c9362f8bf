"""The bound of a query: never below the rows that it has, and told only where a few look-ups tell it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from stream_ext.bound import rows_at_most
from stream_ext.clock import SystemClock
from stream_ext.plan.algebra import Query
from stream_ext.service import Service
from stream_ext.syntax import parse

BASE = "http://ex/"
EX = "PREFIX : <http://ex/> "


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    with Service.open(f"lmdb:{tmp_path}", base=BASE, clock=SystemClock(), engine="inline") as opened:
        opened.update(EX + "INSERT DATA { :a :p 1, 2, 3 . :b :p 1 . :a :q :b, :c . GRAPH :g { :a :p 4, 5 } }")
        yield opened


def bound(service: Service, text: str) -> int | None:
    query = parse(EX + text, BASE)
    assert isinstance(query, Query)
    return rows_at_most(service.store, query, service.head())


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("SELECT ?o { :a :p ?o }", 3),
        ("SELECT * { ?s :p 1 }", 2),
        ("ASK { :a :p 1 }", 3),
        ("SELECT * { :a :p ?o . :a :q ?r }", 6),
        ("SELECT * { :a :p ?o . ?s :p 1 } LIMIT 1", 6),
        ("SELECT * { :nobody :p ?o }", 0),
        ("SELECT * { :a :nothing ?o . :a :p ?x }", 0),
    ],
)
def test_it_is_the_product_of_what_each_pattern_finds(service: Service, text: str, rows: int) -> None:
    assert bound(service, text) == rows
    answer = service.query(EX + text)
    assert (answer.boolean or answer.count) <= rows


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * { ?s :p ?o }",
        "SELECT * { :a ?p ?o }",
        "SELECT * { :a :p ?o FILTER (?o > 1) }",
        "SELECT * { GRAPH :g { :a :p ?o } }",
        "SELECT * FROM :g { :a :p ?o }",
        "SELECT * { :a :p* ?o }",
        "SELECT * { { :a :p ?o } UNION { :a :q ?o } }",
        "SELECT (COUNT(*) AS ?n) { :a :p ?o }",
        "SELECT * { :a :p ?o } ORDER BY ?o",
        "CONSTRUCT { :a :r ?o } { :a :p ?o }",
        "ASK {}",
    ],
)
def test_elsewhere_it_is_not_told(service: Service, text: str) -> None:
    assert bound(service, text) is None
