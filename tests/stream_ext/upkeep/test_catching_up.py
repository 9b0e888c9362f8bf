"""Much that falls due at once: the others go on meanwhile, and a drop, a pause or a stop takes effect at once."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from stream_ext.clock import ManualClock
from stream_ext.continuous.catching_up.turns import TurnLimits
from stream_ext.emissions.accounts import Accounts
from stream_ext.emissions.merge import Merge
from stream_ext.runners.inline import InlineRunner
from stream_ext.service.service import Limits, Service
from stream_ext.windows.part import Part
from stream_ext.windows.query_state import QueryState
from tests.parts.waiting import until
from tests.stream_ext.opened import emissions_of, open_service, opened, push, registration, times, triple

NOW = 1_000_000_000_000
#: Of windows that hold something at each of a billion closes.
ENDLESS = registration("endless", window="RANGE P36500D STEP PT0.001S")


def emissions(service: Service, name: str) -> int:
    return int(service.query_status(name)["emissions"])


@pytest.mark.timeout(120)
def test_a_wrong_timestamp_makes_a_billion_closes_of_a_count_one_emission(tmp_path: Path) -> None:
    with opened(tmp_path, ManualClock(NOW)) as service:
        service.register(registration("count", window="RANGE PT1S STEP PT1S", select="SELECT (COUNT(*) AS ?n)"))
        push(service, "s", 0, triple("a", 1))
        push(service, "s", NOW, triple("b", 1))
        assert [(e["time"], e.get("repeated")) for e in emissions_of(service, "count")] == [
            (1000, None),
            (NOW, NOW // 1000 - 1),
        ]


@pytest.mark.timeout(120)
def test_the_others_continue_while_a_query_is_endlessly_behind_and_a_drop_ends_it(tmp_path: Path) -> None:
    with opened(tmp_path, ManualClock(NOW)) as service:
        service.register(ENDLESS)
        service.register(registration("other", "t", window="RANGE PT1S STEP PT1S"))
        service.register(registration("same", window="RANGE PT1S STEP PT1S"))
        push(service, "s", 0, triple("a", 1))
        push(service, "s", NOW, triple("b", 1), wait="published")
        for second in range(1, 6):
            push(service, "t", second * 1000, triple("a", second), wait="published")
            until(lambda: emissions(service, "other") >= second - 1, f"emission {second - 1}")  # noqa: B023  waited for here
        until(lambda: emissions(service, "same") == 2, "what the stream's other query says")
        observed = emissions(service, "endless")
        until(lambda: emissions(service, "endless") > observed, "more of what is due")
        status = service.query_status("endless")
        assert status["state"] == "running" and status["behind"]["snapshot"] < service.head()
        assert service.status()["lag"] == 0, "who waits for it is not behind"
        service.pause_query("endless")
        observed = emissions(service, "endless")
        push(service, "t", 6000, triple("a", 6))
        assert emissions(service, "endless") == observed
        service.drop_query("endless")
        push(service, "s", NOW + 2000, triple("c", 1))
        assert times(emissions_of(service, "same"))[-1] == NOW + 1000 // 1000 * 2000


@pytest.mark.timeout(120)
def test_a_past_that_is_replayed_at_every_millisecond_ends_nowhere_and_holds_nobody_up(tmp_path: Path) -> None:
    with opened(tmp_path, ManualClock(NOW)) as service:
        service.create_stream("s", {"retention": "1h"})
        push(service, "s", 0, triple("a", 1))
        push(service, "s", NOW, triple("b", 1))
        service.register(registration("past", window=f"START 0 END {NOW} STEP PT0.001S"))
        service.register(registration("other", "t", window="RANGE PT1S STEP PT1S"))
        push(service, "t", 1, triple("a", 1), wait="published")
        push(service, "t", 1000, triple("a", 2), wait="published")
        until(lambda: emissions(service, "other") == 1, "the other's emission")
        service.drop_query("past")
        push(service, "t", 2000, triple("a", 2))
        assert times(emissions_of(service, "other")) == [1000, 2000]


@pytest.mark.timeout(120)
@pytest.mark.parametrize("text", [ENDLESS, registration("endless", window=f"START 0 END {NOW} STEP PT0.001S")])
def test_it_continues_where_it_was_after_a_stop_and_what_was_dropped_is_not_made_up_for(
    tmp_path: Path, text: str
) -> None:
    service = open_service(tmp_path, ManualClock(NOW))
    service.create_stream("s", {"retention": "1h"})
    if "START" not in text:
        service.register(text)
    push(service, "s", 0, triple("a", 1))
    push(service, "s", NOW, triple("b", 1), wait="published")
    if "START" in text:
        service.register(text)
    for opens in range(2):
        observed = emissions(service, "endless")
        until(lambda: emissions(service, "endless") > observed + 100, "more of what is due")  # noqa: B023  waited for here
        service.close()
        service = open_service(tmp_path, ManualClock(NOW))
        assert emissions(service, "endless") >= observed + 100, opens
    found = emissions_of(service, "endless", since=emissions(service, "endless") - 200)
    assert times(found) == list(range(found[0]["time"], found[-1]["time"] + 1))
    assert found[0]["time"] == found[0]["emission"] + ("START" in text) * 0
    service.drop_query("endless")
    service.close()
    service = open_service(tmp_path, ManualClock(NOW))
    push(service, "s", NOW + 1, triple("c", 1))
    assert service.queries() == []
    service.close()


@pytest.mark.timeout(120)
def test_who_waits_for_an_evaluation_learns_when_it_is_still_to_come(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TurnLimits, "with_all", TurnLimits.behind)
    with opened(tmp_path, ManualClock(NOW), limits=Limits(evaluated_s=2.0)) as service:
        service.register(ENDLESS)
        assert not push(service, "s", 0, triple("a", 1)).pending
        assert push(service, "s", NOW, triple("b", 1)).pending
        assert not push(service, "s", NOW, triple("b", 2), wait="published").pending
        service.pause_query("endless")
        assert not push(service, "s", NOW + 1, triple("c", 1)).pending


@pytest.mark.timeout(120)
def test_a_query_that_stays_behind_for_too_long_is_parked_and_continues_from_the_head(tmp_path: Path) -> None:
    clock = ManualClock(NOW)
    with opened(tmp_path, clock, limits=Limits(catch_up_ms=60_000)) as service:
        service.register(ENDLESS)
        push(service, "s", 0, triple("a", 1))
        push(service, "s", NOW, triple("b", 1), wait="published")
        until(lambda: emissions(service, "endless") > 10, "some of what is due")
        clock.advance(59_999)
        assert service.query_status("endless")["state"] == "running"

        def is_parked() -> bool:
            clock.advance(10_000)
            return bool(service.query_status("endless")["state"] == "parked")

        until(is_parked, "giving up")
        assert "longer than 60 s (--max-catch-up)" in service.query_status("endless")["error"]
        push(service, "s", NOW + 10, triple("c", 1))
        observed = emissions(service, "endless")
        service.resume_query("endless")
        push(service, "s", NOW + 12, triple("d", 1))
        assert [(e["time"], e.get("gap")) for e in emissions_of(service, "endless", observed)] == [
            (NOW + 11, True),
            (NOW + 12, None),
        ]


@pytest.mark.timeout(120)
def test_what_a_construct_says_of_much_at_once_waits_for_the_writer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stream_ext.writer.derived_streams._UNDERWAY_MAX", 20)
    monkeypatch.setattr(TurnLimits, "with_all", TurnLimits.behind)
    with opened(tmp_path, ManualClock(NOW)) as service:
        text = "RSTREAM out AS CONSTRUCT { ?x :q ?y }"
        service.register(
            registration().replace("RSTREAM q AS SELECT ?x ?y", text).replace("PT3S STEP PT1S", "PT1.5S STEP PT0.001S")
        )
        service.register(registration("reader", "out", window="RANGE PT0.001S STEP PT0.001S", pattern="?x :q ?y"))
        push(service, "s", 0, triple("a", 1))
        push(service, "s", 1_500, triple("b", 1), triple("a", 1))
        found = emissions_of(service, "reader")
        assert times(found) == list(range(2, 1_501)), "it came in order, each once"
        assert all(len(e["results"]["bindings"]) == 1 for e in found)


class _Slow:
    """A shard with one query that is behind for ever, and a merge: a snapshot takes 2 ms, a piece of what is behind
    100 ms."""

    position, role, fault, has_more = 0, "inline", None, True
    pace, all_behind = TurnLimits(), SimpleNamespace(slowed={}, runs=[], end_replays=lambda: None)
    runs = SimpleNamespace(all=(), by_first_query={}, own_ms=dict)

    def __init__(self, clock: ManualClock) -> None:
        self.clock, self.sn, self.at_once, self.pieces = clock, 0, 0, 0
        self.faults: dict[int, str] = {}
        self.own_faults: dict[int, str] = {}
        self.suspended: Collection[int] = ()
        self.accounts = Accounts(dict)

    def build(self, states: Mapping[int, QueryState | None], sn: int) -> None:
        pass

    def step(self, sn: int) -> list[Part]:
        self.clock.advance(2)
        self.sn = sn
        return []

    def step_one_behind(self) -> list[Part]:
        self.clock.advance(100)
        self.pieces += 1
        return []

    def attempt(self, runner: str) -> tuple[int, int, dict[int, QueryState]]:
        return 1, 0, {}

    def is_current(self, role: str) -> bool:
        return True

    def take(self, runner: str, sn: int, parts: list[Part]) -> None:
        self.position, self.at_once = sn, self.pieces

    def take_piece(self, runner: str, parts: list[Part]) -> None:
        pass


def test_who_is_behind_has_a_quarter_of_the_time_while_snapshots_wait() -> None:
    clock = ManualClock()
    slow = _Slow(clock)
    runner = InlineRunner(cast(Merge, slow), lambda role: cast(Any, slow), clock=clock)
    runner.head_moved(1_000)
    runner.start()
    until(lambda: slow.position == 1_000, "the head")
    until(lambda: slow.pieces > slow.at_once + 3, "what is behind, now that nothing waits")
    runner.close()
    assert runner.fault is None and 6 <= slow.at_once <= 8


@pytest.mark.timeout(120)
def test_what_leaves_quarantine_and_is_behind_then_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(tmp_path, ManualClock(NOW), limits=Limits(evaluated_s=2.0)) as service:
        service.register(ENDLESS)
        push(service, "s", 0, triple("a", 1))

        def released(deadline_s: float) -> int:
            push(service, "s", NOW, triple("b", 1), wait="published")
            until(lambda: service._engine.merge.position == service.head(), "the snapshot")
            return service.head()

        monkeypatch.setattr(service._engine.quarantine, "wait_until_empty", released)
        assert push(service, "s", 1, triple("a", 2)).pending
