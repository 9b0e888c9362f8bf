"""What a query has evaluated before its step raised is said, also where it is behind the others; then it has failed."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from stream_ext.clock import ManualClock
from stream_ext.continuous.catching_up.turns import TurnLimits
from stream_ext.continuous.run import Run
from stream_ext.errors import QueryTooLarge
from stream_ext.remote.allowed_urls import AllowedUrls, places
from stream_ext.service.service import Limits, Service
from tests.parts.waiting import until
from tests.stream_ext.continuous.broken import after_evaluations
from tests.stream_ext.fake_server import Asked, FakeServer, Reply, fake_server
from tests.stream_ext.network.test_service_operator import answering, knowing
from tests.stream_ext.opened import EX, emissions_of, opened, push, push_lines, registration, times, triple

SECOND = "RANGE PT1S STEP PT1S"


@pytest.fixture
def faulty(monkeypatch: pytest.MonkeyPatch) -> dict[int, tuple[int, Exception]]:
    """From which time on evaluations of these queries raise what, in whichever network they are."""
    faulty: dict[int, tuple[int, Exception]] = {}

    def fail(run: Run, time: int) -> None:
        for number in run.numbers:
            if number in faulty and time >= faulty[number][0]:
                raise faulty[number][1]

    after_evaluations(monkeypatch, fail)
    return faulty


def number_of(service: Service, name: str) -> int:
    return service.query_definition(name).number


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("error", [ArithmeticError("no"), QueryTooLarge("it took too much")])
def test_what_was_evaluated_before_the_fault_is_emitted(
    error: Exception, shared: bool, tmp_path: Path, faulty: dict[int, tuple[int, Exception]]
) -> None:
    with opened(tmp_path) as service:
        for name in ("q", "other") if shared else ("q",):
            service.register(registration(name, window="RANGE PT1H STEP PT1S"))
        faulty[number_of(service, "q")] = 4000, error
        push(service, "s", 100, triple("a", 1))
        push(service, "s", 6100, triple("b", 1))
        assert times(emissions_of(service)) == [1000, 2000, 3000]
        until(lambda: service.query_status("q")["state"] == "failed", "q has failed")
        if shared:
            assert times(emissions_of(service, "other")) == [1000, 2000, 3000, 4000, 5000, 6000]
            assert service.query_status("other")["state"] == "running"
    faulty.clear()
    with opened(tmp_path) as service:  # numbers have no gap
        if isinstance(error, QueryTooLarge):
            service.resume_query("q")
        push(service, "s", 7100, triple("c", 1))
        push(service, "s", 8100, triple("c", 1))
        found = emissions_of(service)
        assert [each["emission"] for each in found] == list(range(1, len(found) + 1))
        assert Counter(times(found)).most_common(1)[0][1] == 1, "each evaluation is said once"
        assert times(found)[-1] == 8000


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("error", [ArithmeticError("no"), QueryTooLarge("it took too much")])
def test_nobody_waits_for_one_that_is_behind_and_has_failed(
    error: Exception,
    count: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    faulty: dict[int, tuple[int, Exception]],
) -> None:
    monkeypatch.setattr(TurnLimits, "with_all", TurnLimits.behind)
    names = [f"q{number}" for number in range(count)]
    with opened(tmp_path, ManualClock(100_000_000), limits=Limits(evaluated_s=60.0)) as service:
        for name in names:
            service.register(registration(name, window="RANGE P1D STEP PT0.001S"))
            faulty[number_of(service, name)] = 3000, error
        push(service, "s", 0, triple("a", 1))
        assert not push(service, "s", 80_000_000, triple("b", 1)).pending, "it is answered as for any faulty query"
        for name in names:
            status = service.query_status(name)
            assert status["behind"] is None and status["state"] == "failed"
            assert times(emissions_of(service, name)) == list(range(1, 3000))
        assert not push(service, "s", 80_000_001, triple("c", 1)).pending


@pytest.fixture
def there() -> Any:
    with fake_server() as server:
        yield server


def test_what_was_answered_before_an_endpoint_failed_is_emitted(tmp_path: Path, there: FakeServer) -> None:
    """Of several evaluations in one snapshot; the others are made up for when there is an answer."""
    knows = answering(knowing(" . ".join(f":n{n} :name '{n}'" for n in range(1, 7))))
    there.replies["/x"] = lambda asked: Reply(503) if asks_for(asked, "n4") else knows(asked)
    clock = ManualClock(1_000_000)
    with opened(tmp_path, clock, allowed_urls=AllowedUrls(service=places(there.url), refresh_s=0)) as service:
        pattern = f"?x :p ?y }} SERVICE <{there.url}/x> {{ ?y :name ?n"
        service.register(registration(window=SECOND, pattern=pattern, select="SELECT ?n"))
        elements = [{"timestamp": n * 1000 - 500, "data": triple("a", f"n{n}")} for n in range(1, 7)]
        push_lines(service, "s", *elements, {"timestamp": 6_100, "data": triple("b", "n1")})
        assert times(emissions_of(service)) == [1000, 2000, 3000]
        assert service.query_status("q")["state"] == "waiting"
        there.replies["/x"] = knows
        clock.advance(100_000)
        push(service, "s", 6_900, triple("b", "n1"))
        assert times(emissions_of(service)) == [1000, 2000, 3000, 4000, 5000, 6000]
        assert [each["results"]["bindings"][0]["n"]["value"] for each in emissions_of(service)] == list("123456")


def asks_for(asked: Asked, name: str) -> bool:
    return f"{EX}{name}".encode() in asked.body or f"%2F{name}".encode() in asked.body
