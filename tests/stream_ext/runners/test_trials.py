"""Who is tried, released and parked, without any process: a trial here is a function of the queries that it is of."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

import pytest

from stream_ext.errors import DeadlineExceeded
from stream_ext.runners import quarantine as module
from stream_ext.runners.quarantine import Death, Outcome, Quarantine

PATIENCE_S = 60.0
ALL = tuple(range(1, 65))


class Scene:
    """`deadly` end the process that they are stepped in; where `names`, it is known which it was."""

    def __init__(self, deadly: Collection[int], names: bool = False) -> None:
        self.deadly, self.names = frozenset(deadly), names
        self.trials: list[frozenset[int]] = []
        self.parked: dict[int, str] = {}
        self.since: dict[int, int] = {}
        self.published = 0
        self.position = 5
        self.ends: list[Outcome] = []  # of the first trials, whatever they are of
        self.tried: Callable[[], None] = lambda: None
        self.quarantine = Quarantine(
            self, self, all_queries=lambda: ALL, park=self._park, publish=self._publish, on_change=lambda: None
        )

    def attempt(self, runner: str) -> tuple[int, int, Mapping[int, Any]]:
        return 0, self.position, dict.fromkeys(ALL)

    def run(self, states: Mapping[int, Any], position: int, until: int) -> Outcome:
        self.trials.append(frozenset(states))
        self.tried()
        if self.ends:
            return self.ends.pop(0)
        found = self.deadly & states.keys()
        if not found and None not in self.deadly:
            return Outcome("survived")
        return Outcome("died", "it ended by SIGSEGV", (min(found),) if self.names and found else None)

    def prepare(self) -> None:
        pass

    def close(self) -> None:
        pass

    def _park(self, number: int, why: str, sn: int) -> bool:
        assert number in self.quarantine.suspended, "it is never stepped between the trial and its parking"
        if self.since.get(number, 0) > sn:
            return False
        self.parked[number] = why
        return True

    def _publish(self) -> int:
        self.published += 1
        return 100 + self.published

    def dies(self, numbers: tuple[int, ...] | None, count: int = 1, sn: int = 6) -> int:
        self.quarantine.hold(Death(sn, numbers, count, "it hung"))
        return self.quarantine.wait_until_empty(PATIENCE_S)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PAUSE_S_MIN", 0.001)


@pytest.fixture
def scene() -> Iterator[Callable[..., Scene]]:
    made: list[Scene] = []

    def make(*arguments: Any, **named: Any) -> Scene:
        made.append(Scene(*arguments, **named))
        return made[-1]

    yield make
    for each in made:
        each.quarantine.close()


Make = Callable[..., Scene]


@pytest.mark.parametrize(("count", "trials"), [(1, 2), (2, 1)])
def test_the_one_that_was_named_is_parked_at_its_third_death(scene: Make, count: int, trials: int) -> None:
    at = scene([7])
    at.dies((7,), count)
    assert at.trials == [frozenset([7])] * trials
    assert at.parked == {
        7: "its step killed one worker process after another in snapshot 6 (it hung; in a separate process: it ended "
        "by SIGSEGV)"
    }


@pytest.mark.parametrize("names", [True, False])
@pytest.mark.parametrize("deadly", [[33], [1, 64], [10, 11, 12]])
def test_where_none_was_named_the_culprits_are_found_and_the_others_continue(
    scene: Make, names: bool, deadly: list[int]
) -> None:
    at = scene(deadly, names)
    at.dies(None)
    assert sorted(at.parked) == deadly and at.published
    assert at.trials[:2] == [frozenset(ALL), frozenset()], "then, whether it is any query at all"
    assert len(at.trials) <= 2 + len(deadly) * (4 if names else 15)


def test_what_survives_its_trial_is_released_and_made_up_for_in_a_snapshot_that_is_waited_for(scene: Make) -> None:
    at = scene([])
    assert at.dies((3, 4)) == 101
    assert at.parked == {} and at.trials == [frozenset([3, 4])]


def test_nobody_is_parked_where_a_trial_of_no_query_dies_too(scene: Make) -> None:
    at = scene([None])
    at.dies(None)
    assert at.parked == {} and at.trials == [frozenset(ALL), frozenset()]


def test_where_none_was_named_and_none_is_at_fault_one_trial_is_enough(scene: Make) -> None:
    at = scene([])
    assert at.dies(None) == 101
    assert at.parked == {} and at.trials == [frozenset(ALL)]


def test_a_store_that_does_not_answer_decides_nothing(scene: Make) -> None:
    at = scene([])
    at.ends = [Outcome("away", "nobody answers")] * 7
    at.dies((3,))
    assert at.parked == {} and len(at.trials) == 8


def test_what_cannot_be_tried_is_parked_rather_than_stepped_in_the_server(scene: Make) -> None:
    at = scene([])
    at.ends = [Outcome("failed", "no file descriptor is left")] * 20
    at.dies((3,))
    assert "could not be tried in a separate process: no file descriptor is left" in at.parked[3]


def test_what_is_held_for_the_third_time_within_a_minute_is_parked(scene: Make) -> None:
    at = scene([])
    for _ in range(2):
        at.dies((3,), count=2)
        assert at.parked == {}
    at.dies((3,), count=2)
    assert "again among all other queries" in at.parked[3]


def test_after_a_minute_it_counts_as_the_first_time(scene: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_AGAIN_S", -1.0)
    at = scene([])
    for _ in range(5):
        at.dies((3,), count=2)
    assert at.parked == {}


def test_what_is_parked_stays_held_until_it_is_resumed(scene: Make) -> None:
    """Whoever builds its state before the snapshot that parked it would step it there."""
    at = scene([7])
    at.dies((7, 8))
    assert at.quarantine.suspended == frozenset([7])
    at.quarantine.forget(7)
    assert at.quarantine.suspended == frozenset()


def test_one_that_was_resumed_while_it_was_tried_is_neither_parked_nor_held(scene: Make) -> None:
    at = scene({3, 4})
    at.since[3] = 8
    assert at.dies((3,), sn=6) == 101, "what it missed since is made up for"
    at.dies((4,), sn=6)
    assert set(at.parked) == {4} and at.quarantine.suspended == {4}


def test_where_too_many_are_deadly_the_rest_is_parked_unseen(scene: Make) -> None:
    at = scene(ALL)
    at.dies(tuple(ALL))
    assert set(at.parked) == set(ALL) and len(at.trials) == module.TRIALS_MAX


def test_a_query_that_was_dropped_meanwhile_is_not_tried(scene: Make) -> None:
    at = scene([1_000])
    at.dies((1_000,))
    assert at.parked == {} and at.trials == []


def test_who_waits_for_evaluations_waits_for_what_is_held(scene: Make) -> None:
    at, goes_on = scene([]), threading.Event()
    at.tried = lambda: (goes_on.wait(PATIENCE_S), None)[1]
    at.quarantine.hold(Death(6, (3,), 1, "it hung"))
    with pytest.raises(DeadlineExceeded, match="tried in a separate process"):
        at.quarantine.wait_until_empty(0.01)
    goes_on.set()
    assert at.quarantine.wait_until_empty(PATIENCE_S) == 101
