"""A query that has failed for good: evaluated no more, after a restart neither, until it is resumed or replaced."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Literal

import pytest

from stream_ext.catalog.catalog import Failure
from stream_ext.continuous.run import Run
from stream_ext.errors import QueryTooLarge
from stream_ext.service.engine import Engine
from tests.parts.waiting import until
from tests.stream_ext.continuous.broken import after_evaluations
from tests.stream_ext.opened import emissions_of, opened, push, registration, times, triple


@pytest.mark.parametrize(("kind", "state"), [("budget", "failed"), ("worker", "parked"), ("behind", "parked")])
@pytest.mark.parametrize("restart", [False, True])
def test_a_failed_query_says_nothing_until_it_is_resumed_and_tells_the_gap(
    kind: Literal["budget", "worker", "behind"], state: str, restart: bool, tmp_path: Path
) -> None:
    with opened(tmp_path) as service:
        service.register(registration(window="RANGE 2s STEP 1s"))
        push(service, "s", 100, triple("a", 1))
        push(service, "s", 1100, triple("b", 1))
        query = service.query_definition("q")
        service._engine.fail(query.number, Failure(kind, "it took too much"), query.since)
        push(service, "s", 2500, triple("c", 1))
        for act in (lambda: None, lambda: service.pause_query("q")):  # nothing changes by pausing what does not run
            act()
            status = service.query_status("q")
            assert (status["state"], status["error"]) == (state, "it took too much")
        if not restart:
            service.resume_query("q")
    with opened(tmp_path) as service:
        if restart:
            assert service.query_status("q")["state"] == state
            push(service, "s", 3600, triple("d", 1))
            assert times(emissions_of(service)) == [1000]
            service.resume_query("q")
        assert service.query_status("q")["state"] == "running"
        push(service, "s", 4100, triple("e", 1))
        push(service, "s", 5100, triple("f", 1))
        emissions = emissions_of(service)
        assert [emission["emission"] for emission in emissions] == list(range(1, len(emissions) + 1))
        assert emissions[1].get("gap") is True


def test_a_failure_of_a_query_that_was_dropped_meanwhile_changes_nothing(tmp_path: Path) -> None:
    with opened(tmp_path) as service:
        service.register(registration())
        query = service.query_definition("q")
        service.drop_query("q")
        head = service.head()
        service._engine.fail(query.number, Failure("budget", "it took too much"), query.since)
        service.register(registration())
        assert service.head() == head + 1
        assert service.query_status("q")["state"] == "running"


@pytest.fixture
def waiting(monkeypatch: pytest.MonkeyPatch) -> list[Callable[[], object]]:
    """Failures that are found, and wait to be published."""
    waiting: list[Callable[[], object]] = []
    fail = Engine.fail
    monkeypatch.setattr(Engine, "fail", lambda *named: waiting.append(lambda: fail(*named).result()))
    return waiting


def test_a_failure_that_waits_fails_no_query_that_was_resumed_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, waiting: list[Callable[[], object]]
) -> None:
    faulty = set[int]()

    def fail(run: Run, time: int) -> None:
        if faulty & set(run.numbers):
            raise QueryTooLarge("it took too much")

    after_evaluations(monkeypatch, fail, after=False)
    with opened(tmp_path) as service:
        service.register(registration(window="RANGE 1s STEP 1s"))
        push(service, "s", 100, triple("a", 1))
        faulty.add(service.query_definition("q").number)
        push(service, "s", 1100, triple("b", 1))
        until(lambda: len(waiting) == 1, "the failure is found")
        faulty.clear()
        service.resume_query("q")
        waiting[0]()
        assert service.query_status("q")["state"] == "running"
        push(service, "s", 2100, triple("c", 1))
        push(service, "s", 3100, triple("d", 1))
        assert times(emissions_of(service)) == [2000, 3000]


def test_one_that_fails_again_as_soon_as_it_is_resumed_has_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, waiting: list[Callable[[], object]]
) -> None:
    """For the same reason, and before the first failure was published."""

    def fail(run: Run, time: int) -> None:
        raise QueryTooLarge("it took too much")

    after_evaluations(monkeypatch, fail)
    with opened(tmp_path) as service:
        service.register("REGISTER RSTREAM q AS SELECT * { ?s ?p ?o }")
        until(lambda: len(waiting) == 1, "the failure is found")
        service.resume_query("q")
        until(lambda: len(waiting) == 2, "the second one, too")
        waiting[0]()
        assert service.query_definition("q").failure is None
        waiting[1]()
        assert service.query_status("q")["state"] == "failed"
