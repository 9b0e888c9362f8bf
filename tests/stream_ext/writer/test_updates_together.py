"""Updates that wait at the same time are published at once; each is a snapshot of its own, and sees those before it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest

from hbase_store import Batch, Store
from hbase_store.errors import Unwritable
from stream_ext.errors import QueryCancelled
from stream_ext.evaluation_budget import Control
from stream_ext.service.service import Service
from stream_ext.writer.change import HeadView, Intent
from stream_ext.writer.updates import Updated
from tests.parts.waiting import PATIENCE_S, until
from tests.stream_ext.opened import EX, opened, push, registration, triple

Outcome = TypeVar("Outcome")

HEAD = f"PREFIX : <{EX}>\n"
ADDS_ONE = "DELETE { :c :is ?n } INSERT { :c :is ?m } WHERE { :c :is ?n BIND(?n + 1 AS ?m) }"


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    with opened(tmp_path) as running:
        yield running


@pytest.fixture
def commits(service: Service, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many batches each commit had."""
    counts: list[int] = []
    commit = service.store.commit

    def counted(*batches: Batch) -> int:
        counts.append(len(batches))
        return commit(*batches)

    monkeypatch.setattr(service.store, "commit", counted)
    return counts


@contextmanager
def busy_writer(service: Service, waiting: int) -> Iterator[None]:
    """The writer is busy until so many requests wait for it."""
    begun, free = threading.Event(), threading.Event()

    def change(view: HeadView) -> Intent:
        begun.set()
        assert free.wait(60)
        return Intent(result=int)

    future: Future[Any] = service._injector.change(change)
    assert begun.wait(60)  # it is not one of those that wait
    yield
    until(lambda: service._injector.status()["queued"] >= waiting, "the requests wait")
    free.set()
    future.result(60)


def at_once(service: Service, *requests: Callable[[], Outcome]) -> list[Outcome | Exception]:
    """The outcomes of requests that wait for the writer in this order."""
    with ThreadPoolExecutor(len(requests)) as pool:
        with busy_writer(service, len(requests)):
            futures = []
            for number, request in enumerate(requests, 1):
                futures.append(pool.submit(request))
                until(lambda number=number: service._injector.status()["queued"] >= number, "it waits")
        return [future.exception() or future.result() for future in futures]  # type: ignore[misc]


def update(service: Service, text: str, **named: Any) -> Callable[[], Updated]:
    return lambda: service.update(HEAD + text, **named)


def rows(service: Service, text: str, snapshot: int | None = None) -> list[tuple[bytes | None, ...]]:
    return sorted(service.decode(service.query(HEAD + text, snapshot)))


def test_each_is_a_snapshot_and_sees_those_before_it(service: Service, commits: list[int]) -> None:
    outcomes = at_once(
        service,
        update(service, "INSERT DATA { :c :is 1 }"),
        update(service, ADDS_ONE),
        update(service, "INSERT DATA { :d :is 1 }"),
        update(service, "DELETE DATA { :c :is :unknown }"),  # makes no snapshot
        update(service, ADDS_ONE),
        update(service, "DELETE WHERE { :d ?p ?o }"),
    )
    assert outcomes == [
        Updated(1, 1, 0),
        Updated(2, 1, 1),
        Updated(3, 1, 0),
        Updated(3, 0, 0),
        Updated(4, 1, 1),
        Updated(5, 0, 1),
    ]
    assert commits == [5]
    counted = [rows(service, "SELECT (STR(?n) AS ?s) { :c :is ?n }", sn) for sn in range(1, 6)]
    assert counted == [[(b'"1"',)], [(b'"2"',)], [(b'"2"',)], [(b'"3"',)], [(b'"3"',)]]


def test_a_runner_is_woken_once_for_snapshots_that_come_together(
    service: Service, commits: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the writer and the runner take turns, and wait for each other at every snapshot."""
    heads: list[int] = []
    inline = service._engine.inline
    moved = inline.head_moved
    monkeypatch.setattr(inline, "head_moved", lambda sn: (heads.append(sn), moved(sn)))
    at_once(service, *(update(service, f"INSERT DATA {{ :c :is {number} }}") for number in range(5)))
    assert (commits, heads) == ([5], [5])
    service._opened.engine.await_evaluated(5, PATIENCE_S)


def test_concurrent_clients_lose_no_update(service: Service, commits: list[int]) -> None:
    service.update(HEAD + "INSERT DATA { :c :is 0 }")
    with ThreadPoolExecutor(8) as pool:
        done = list(pool.map(lambda _: service.update(HEAD + ADDS_ONE), range(160)))
    assert sorted(outcome.snapshot for outcome in done) == list(range(2, 162))
    assert rows(service, "SELECT (STR(?n) AS ?s) { :c :is ?n }") == [(b'"160"',)]
    assert sum(commits) == 161


def test_one_that_fails_fails_alone(service: Service, commits: list[int]) -> None:
    over = Control()
    over.cancel()
    good, bad, other = at_once(
        service,
        update(service, "INSERT DATA { :a :is _:n }"),
        update(service, "INSERT DATA { :b :is 2 }", control=over),
        update(service, "INSERT DATA { :b :is 3 }"),
    )
    assert (good, other) == (Updated(1, 1, 0), Updated(2, 1, 0))
    assert isinstance(bad, QueryCancelled)
    assert rows(service, "SELECT ?s { ?s :is 2 }") == []


def test_if_they_cannot_be_written_together_each_is_written_alone(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = Store.commit

    def refuses(store: Store, *batches: Batch) -> int:
        if len(batches) > 1:
            store.begin()  # they are dropped
            raise Unwritable("too large")
        return commit(store, *batches)

    monkeypatch.setattr(Store, "commit", refuses)
    texts = ["INSERT DATA { :a :is _:n, :new }", "INSERT DATA { :b :is :new }"]
    assert at_once(service, *(update(service, text) for text in texts)) == [Updated(1, 2, 0), Updated(2, 1, 0)]
    assert len(rows(service, "SELECT ?s ?o { ?s :is ?o }")) == 3


def test_long_requests_are_published_alone(service: Service, commits: list[int]) -> None:
    texts = [
        "INSERT DATA { :a :is 1 }",
        "INSERT DATA { GRAPH :g { :b :is 1 } }",
        "CLEAR GRAPH :g",
        "INSERT DATA { :b :is 2 }",
        "INSERT { :c :is ?x } WHERE { :a :is ?x } ; INSERT { :d :is ?x } WHERE { :c :is ?x }",
        "INSERT DATA { :b :is 3 }",
    ]
    outcomes = at_once(service, *(update(service, text) for text in texts))
    assert [outcome.snapshot for outcome in outcomes if isinstance(outcome, Updated)] == [1, 2, 3, 4, 5, 6]
    assert commits == [2, 1, 1, 1, 1]


def test_one_that_reads_the_answer_of_a_query_waits_until_those_before_it_are_published(
    service: Service, commits: list[int]
) -> None:
    service.register(registration("copy", select="CONSTRUCT { ?x :copied ?y }"))
    push(service, "s", 1000, triple("a", "b"))
    push(service, "s", 3000, triple("c", "d"))
    del commits[:]
    first, second, third = at_once(
        service,
        update(service, "INSERT DATA { :a :is 1 }"),
        update(service, "INSERT { ?x :found ?y } WHERE { GRAPH <http://rillet/queries/copy> { ?x :copied ?y } }"),
        update(service, "INSERT DATA { :a :is 2 }"),
    )
    assert isinstance(first, Updated)
    assert second == Updated(first.snapshot + 1, 1, 0)
    assert third == Updated(first.snapshot + 2, 1, 0)
    assert commits == [1, 2]
    assert rows(service, "SELECT ?x { ?x :found :b }") == [(f"<{EX}a>".encode(),)]
