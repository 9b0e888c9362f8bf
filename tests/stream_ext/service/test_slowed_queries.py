"""A query for whose evaluations pushes wait is slowed by name: the others go on, and it loses nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stream_ext.clock import ManualClock
from stream_ext.service.service import Limits, Service
from tests.parts.waiting import until
from tests.stream_ext.opened import opened, push, registration, triple

_TRIPLES, _LIGHT = 700, ("one", "two", "three", "four")


@pytest.fixture(autouse=True)
def little_tells_much(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few milliseconds are enough to say which query is the heavy one."""
    monkeypatch.setattr("stream_ext.continuous.catching_up.fair_share._SPENT_MS_MIN", 1.0)


def registered(service: Service) -> None:
    service.create_stream("s", {})
    heavy = "?x :p ?a . ?z :p ?b FILTER(?a < ?b)"
    service.register(registration("heavy", "s", "RANGE 1s STEP 1s", heavy, select="SELECT (COUNT(*) AS ?n)"))
    for number, name in enumerate(_LIGHT):
        service.register(registration(name, "s", "RANGE 1s STEP 1s", f"?x :p {number}", "RSTREAM", "SELECT ?x"))


def feed(service: Service, step: int) -> None:
    until(lambda: service.status()["lag_ms"] < 6_000, "there is room for a push")
    lines = [triple(f"x{n}", n) for n in range(step, step + _TRIPLES)]
    push(service, "s", step * 1_000, *lines, wait="published")


def state(service: Service, name: str = "heavy") -> str:
    return str(service.query_status(name)["state"])


def until_slowed(service: Service, clock: ManualClock) -> int:
    """Pushes that wait, until the query is slowed; returns the number of pushes."""
    for step in range(1, 200):
        feed(service, step)
        clock.advance(3_000)
        if state(service) == "slowed":
            return step
    raise AssertionError(f"never slowed: {service.query_status('heavy')}")


def emissions(service: Service) -> dict[str, list[Any]]:
    return {name: [each.json for each in service.emissions(name, 0)] for name in ("heavy", *_LIGHT)}


def calm(folder: Path, steps: int) -> dict[str, list[Any]]:
    """What is emitted where nothing waits."""
    with opened(folder, limits=Limits(query_share=1.0)) as service:
        registered(service)
        for step in range(1, steps + 1):
            feed(service, step)
        service.heartbeat("s", (steps + 1) * 1_000, wait="evaluated")
        return emissions(service)


def without_snapshots(all_of: dict[str, list[Any]]) -> dict[str, list[Any]]:
    return {name: [each.split(b'"snapshot"')[0] for each in some] for name, some in all_of.items()}


def test_the_query_that_takes_most_of_the_time_is_slowed_and_loses_nothing(tmp_path: Path) -> None:
    clock = ManualClock(1_000_000)
    with opened(tmp_path / "a", clock) as service:
        registered(service)
        steps = until_slowed(service, clock)
        status = service.query_status("heavy")
        assert "--query-share 25%" in status["error"]
        assert [state(service, name) for name in _LIGHT] == ["running"] * len(_LIGHT)
        (figures,) = [service.query_figures(query) for query in service.queries() if query.name == "heavy"]
        assert (figures["slowed"], figures["failed"], figures["waiting"]) == (True, False, False)
        until(lambda: service.query_status("heavy")["behind"]["snapshot"] > service.head(), "it did what there was")
        clock.advance(700_000)  # longer than --max-catch-up
        service.heartbeat("s", (steps + 1) * 1_000, wait="evaluated")
        assert state(service) == "running", "pushes wait no more"
        until(lambda: service.query_status("heavy")["behind"] is None, "it is with the others again")
        found = emissions(service)
    assert without_snapshots(found) == without_snapshots(calm(tmp_path / "b", steps))


def test_a_slowed_query_that_is_resumed_runs_with_the_others_from_here(tmp_path: Path) -> None:
    clock = ManualClock(1_000_000)
    with opened(tmp_path, clock) as service:
        registered(service)
        steps = until_slowed(service, clock)
        service.resume_query("heavy")
        assert state(service) == "running"
        push(service, "s", (steps + 1) * 1_000, triple("x", 1), triple("y", 2))
        service.heartbeat("s", (steps + 2) * 1_000, wait="evaluated")
        assert b'"value":"1"' in service.emissions("heavy", 0)[-1].json


def test_a_restart_goes_on_where_a_slowed_query_was(tmp_path: Path) -> None:
    clock = ManualClock(1_000_000)
    with opened(tmp_path / "a", clock) as service:
        registered(service)
        steps = until_slowed(service, clock)
    with opened(tmp_path / "a", clock) as service:
        service.heartbeat("s", (steps + 1) * 1_000, wait="evaluated")
        assert state(service) == "running"
        found = emissions(service)
    assert without_snapshots(found) == without_snapshots(calm(tmp_path / "b", steps))


@pytest.mark.parametrize("action", ["pause", "drop"])
def test_a_slowed_query_ends_as_any_other(tmp_path: Path, action: str) -> None:
    clock = ManualClock(1_000_000)
    with opened(tmp_path, clock) as service:
        registered(service)
        steps = until_slowed(service, clock)
        (service.pause_query if action == "pause" else service.drop_query)("heavy")
        service.heartbeat("s", (steps + 1) * 1_000, wait="evaluated")
        assert [query.name for query in service.queries()] == [*(["heavy"] if action == "pause" else []), *_LIGHT]
        if action == "pause":
            assert state(service) == "paused"


def test_a_slowed_query_that_stays_behind_is_parked_also_after_a_restart(tmp_path: Path) -> None:
    clock, limits = ManualClock(1_000_000), Limits(catch_up_ms=1_000)
    with opened(tmp_path, clock, limits=limits) as service:
        registered(service)
        for step in range(1, 400):
            feed(service, step)
            clock.advance(3_000)
            if state(service) == "parked":
                break
        assert "--max-catch-up" in service.query_status("heavy")["error"]
        assert [state(service, name) for name in _LIGHT] == ["running"] * len(_LIGHT)
    with opened(tmp_path, clock, limits=limits) as service:
        assert state(service) == "parked"
        service.resume_query("heavy")
        assert state(service) == "running"
