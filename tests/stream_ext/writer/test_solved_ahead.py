"""Patterns of updates that are solved before the writer's turn: what is done is what is done without that."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyoxigraph
import pytest

from stream_ext.errors import QueryCancelled
from stream_ext.evaluation_budget import Control
from stream_ext.language.algebra.statements import Update
from stream_ext.oneshot.evaluate import Asking
from stream_ext.plan.refused_syntax.refuse import parse_runnable
from stream_ext.service.service import Service
from stream_ext.writer.change import Change, HeadView, Intent
from stream_ext.writer.updates import change_of, request, solving
from tests.parts.waiting import PATIENCE_S
from tests.stream_ext.opened import BASE, EX, opened, push, triple
from tests.stream_ext.writer.test_updates import HEAD, Writer, _texts, quads, texts_of, update


@pytest.fixture
def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    """All patterns are solved ahead."""
    monkeypatch.setattr(solving, "AHEAD_ROWS", 0.0)
    with opened(tmp_path) as running:
        yield running


@pytest.fixture
def at_its_turn(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A line for each pattern that the writer solves itself."""
    found: list[str] = []
    solutions: Callable[..., Any] = vars(request)["solutions"]

    def noted(asked: solving.PatternRequest, working: Any) -> Any:
        found.append(type(asked.pattern).__name__)
        return solutions(asked, working)

    monkeypatch.setattr(request, "solutions", noted)
    return found


def prepared(service: Service, text: str, asking: Asking | None = None) -> Change:
    """Solved now, for a turn that comes later."""
    unit = parse_runnable(HEAD + text, BASE)
    assert isinstance(unit, Update)
    return change_of(unit, HEAD + text, service.store, service.head(), asking)


def test_what_nothing_has_changed_is_not_solved_again(service: Service, at_its_turn: list[str]) -> None:
    update(service, "INSERT DATA { :a :p 1 . :b :p 2 }")
    update(service, "DELETE { ?s :p ?o } INSERT { ?s :q ?n } WHERE { ?s :p ?o BIND(?o + 10 AS ?n) }")
    update(service, "DELETE WHERE { :a :q ?o }")
    assert (quads(service), at_its_turn) == ({("b", "q", "12")}, [])


@pytest.mark.parametrize(
    ("text", "between", "again"),
    [
        ("INSERT { ?s :r ?o } WHERE { ?s :p ?o }", "INSERT DATA { :b :p 2 }", True),
        ("INSERT { ?s :r ?o } WHERE { ?s :p ?o }", "INSERT DATA { :b :q 2 }", False),
        ("INSERT { ?s :r ?o } WHERE { ?s :p ?o }", "INSERT DATA { :a :p 1 }", False),  # it was there
        ("INSERT { ?s :r ?o } WHERE { ?s :p ?o }", "INSERT DATA { GRAPH :g { :b :p 2 } }", True),  # of that predicate
        ("INSERT { ?s :r ?o } WHERE { ?s ?p ?o }", "INSERT DATA { :b :q 2 }", True),
        ("INSERT { ?s :r ?o } WHERE { ?s :p* ?o }", "INSERT DATA { :b :q 2 }", True),
        ("INSERT { ?s :r ?o } WHERE { ?s (:p|:q) ?o }", "DELETE DATA { :a :p 1 }", True),
        ("INSERT { :it :r ?g } WHERE { GRAPH ?g { } }", "INSERT DATA { GRAPH :g { :b :q 2 } }", True),
        ("INSERT { ?s :r ?o } WHERE { ?s :p ?o FILTER NOT EXISTS { ?s :q 2 } }", "INSERT DATA { :a :q 2 }", True),
        ("INSERT { ?s :r ?n } WHERE { ?s :p ?o BIND(EXISTS { ?s :q 2 } AS ?n) }", "INSERT DATA { :a :q 2 }", True),
        ("INSERT { ?s :r ?n } WHERE { { SELECT ?s (COUNT(?o) AS ?n) { ?s :q ?o } GROUP BY ?s } }",
         "INSERT DATA { :a :q 2 }", True),
        ("INSERT { ?g :r 1 } WHERE { GRAPH ?g { OPTIONAL { ?s :p ?o } } }",
         "INSERT DATA { GRAPH :g { :b :q 2 } }", True),
        # Nobody knew the term, so the solution could not delete anything; by then it can.
        ('DELETE { ?s :q ?v } WHERE { ?s :p ?o BIND("new" AS ?v) }', 'INSERT DATA { :a :q "new" }', True),
        ('DELETE { ?s ?o ?v } WHERE { ?s :p ?o BIND("new" AS ?v) }', 'INSERT DATA { :a :s "new" }', True),
        ('INSERT { ?s :q ?v } WHERE { ?s :p ?o BIND("new" AS ?v) }', 'INSERT DATA { :a :s "new" }', False),
        ("DELETE WHERE { ?s :p ?o }", "INSERT DATA { :b :p 2 }", True),
        ("INSERT { :it :r 1 } WHERE { }", "INSERT DATA { :b :p 2 }", False),
    ],
)  # fmt: skip
def test_what_has_changed_meanwhile_is_solved_again(
    service: Service, at_its_turn: list[str], text: str, between: str, again: bool
) -> None:
    other = pyoxigraph.Store()
    for emitted in ("INSERT DATA { :a :p 1 }", "INSERT DATA { GRAPH :h { :x :p 5 } }"):
        update(service, emitted)
        other.update(HEAD + emitted)
    change = prepared(service, text)
    for emitted in (between, text):
        other.update(HEAD + emitted)
    update(service, between)
    at_its_turn.clear()
    service.change(change)
    assert texts_of(service.store, service.head()) == {_texts(quad) for quad in other}
    assert bool(at_its_turn) == again


def test_pushes_that_only_pass_by_change_nothing(service: Service, at_its_turn: list[str]) -> None:
    service.create_stream("s", {})
    service.create_stream("kept", {"timeless": True})
    update(service, "INSERT DATA { :a :p 1 }")
    change = prepared(service, "INSERT { ?s :q ?o } WHERE { ?s :p ?o }")
    push(service, "s", 1, triple("b", 2))
    service.change(change)
    assert at_its_turn == []
    change = prepared(service, "INSERT { ?s :q ?o } WHERE { ?s :p ?o }")
    push(service, "kept", 1, triple("b", 2))
    service.change(change)
    assert len(at_its_turn) == 1
    assert quads(service) == {("a", "p", "1"), ("a", "q", "1"), ("b", "p", "2"), ("b", "q", "2")}


def test_only_the_first_operation_is_solved_before_its_turn(service: Service, at_its_turn: list[str]) -> None:
    update(service, "INSERT DATA { :a :p 1 }")
    update(service, "INSERT { ?s :q ?o } WHERE { ?s :p ?o } ; INSERT { ?s :r ?o } WHERE { ?s :q ?o }")
    assert (quads(service), len(at_its_turn)) == ({("a", "p", "1"), ("a", "q", "1"), ("a", "r", "1")}, 1)


def test_what_is_not_retained_any_more_is_solved_again(
    service: Service, at_its_turn: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    update(service, "INSERT DATA { :a :p 1 }")
    change = prepared(service, "INSERT { ?s :q ?o } WHERE { ?s :p ?o }")
    monkeypatch.setattr(solving, "_SNAPSHOTS_MAX", 1)
    for n in range(2):
        update(service, f"INSERT DATA {{ :b :s {n} }}")
    service.change(change)
    assert len(at_its_turn) == 1
    assert ("a", "q", "1") in quads(service)


@pytest.mark.parametrize("seed", range(20, 30))
def test_random_requests_that_overtake_each_other_leave_what_pyoxigraph_has(service: Service, seed: int) -> None:
    """Each is solved ahead while the one before it has not had its turn yet."""
    writer, other = Writer(seed), pyoxigraph.Store()
    service.update(writer.request())
    other.update(Writer(seed).request())
    for _ in range(25):
        texts = [writer.request() for _ in range(3)]
        changes = [prepared(service, text) for text in texts]
        for text, change in zip(texts, changes, strict=True):
            service.change(change)
            other.update(text)
            assert texts_of(service.store, service.head()) == {_texts(quad) for quad in other}, texts


def test_counters_that_many_count_lose_nothing(service: Service) -> None:
    """Each increment reads what it replaces: a lost one would show in the sum, a doubled one as two values."""
    counters, clients, each = 3, 6, 15
    update(service, "INSERT DATA { " + " ".join(f":c{n} :is 0 ." for n in range(counters)) + " }")
    begin = threading.Barrier(clients)

    def count(client: int) -> None:
        begin.wait()
        for turn in range(each):
            counter = f":c{(client + turn) % counters}"
            update(service, f"DELETE {{ {counter} :is ?n }} INSERT {{ {counter} :is ?m }} "
                            f"WHERE {{ {counter} :is ?n BIND(?n + 1 AS ?m) }}")  # fmt: skip

    with ThreadPoolExecutor(clients) as pool:
        list(pool.map(count, range(clients)))
    values = [int(value) for _, predicate, value in quads(service) if predicate == "is"]
    assert (len(values), sum(values)) == (counters, clients * each)


def test_an_update_that_is_cancelled_before_its_turn_does_nothing(service: Service) -> None:
    update(service, "INSERT DATA { :a :p 1 }")
    held, control = threading.Event(), Control()

    def hold(view: HeadView) -> Intent:
        held.wait(PATIENCE_S)
        return Intent(lambda sn: sn)

    with ThreadPoolExecutor(2) as pool:
        before = pool.submit(service.change, hold)
        text = f"INSERT {{ ?s <{EX}q> ?o }} WHERE {{ ?s <{EX}p> ?o }}"
        waiting = pool.submit(service.update, text, "published", None, control)
        control.cancel()
        held.set()
        before.result(PATIENCE_S)
        with pytest.raises(QueryCancelled):
            waiting.result(PATIENCE_S)
    assert quads(service) == {("a", "p", "1")}
