"""Queries that came from Spark for what they have missed go back, whatever happens to them meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from stream_ext.catalog.catalog import Catalog, QueryDefinition, StreamDefinition
from stream_ext.catalog.options import StreamOptions
from stream_ext.clock import ManualClock
from stream_ext.emissions.merged_progress import Runner
from stream_ext.emissions.placement import ShardPlan
from stream_ext.runners.replays.replays import REPLAYS_MAX
from stream_ext.service import far_behind
from stream_ext.service.far_behind import FarBehind
from stream_ext.windows.query_state import QueryState
from tests.stream_ext.scene import BASE

_TEXT = (
    "REGISTER RSTREAM q AS SELECT ?x FROM NAMED WINDOW <w> ON <s> [RANGE PT1S STEP PT1S] { WINDOW <w> { ?x ?y ?z } }"
)
_LEAST_S, _LATER_MS = 0.1, 1_000


class _Server:
    """Moves are published at once, unless they are rejected (`is_full`), or after the catalog was read (`is_slow`)."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, queries: int) -> None:
        monkeypatch.setattr(far_behind, "move_query", lambda name, home, left: (name, home))
        streams = {1: StreamDefinition(1, "s", f"{BASE}s", StreamOptions())}
        self._catalog = Catalog(streams, {number: self._definition(number) for number in range(1, queries + 1)})
        self.behind: set[int] = set()
        self.moved: list[tuple[str, str | None]] = []
        self.is_full = self.is_slow = False
        self._waiting: list[tuple[tuple[str, Any], Future[int]]] = []
        self._clock, self._look = ManualClock(), lambda: None
        merge: Any = SimpleNamespace(
            plan=ShardPlan(), catching_up=lambda: dict.fromkeys(self.behind, QueryState(behind_at=3)),
            runner_of=lambda query: Runner.SPARK, state=lambda number: None, left=None,
        )  # fmt: skip
        replays: Any = SimpleNamespace(least_s=_LEAST_S, why_not_missed=lambda registered, state: "")
        mine: Any = self
        FarBehind(self._clock, mine, merge, mine, replays).start()

    @staticmethod
    def _definition(number: int) -> QueryDefinition:
        return QueryDefinition(
            number, f"q{number}", f"{BASE}q{number}", _TEXT, BASE, "RSTREAM", ["x"], [1], 1, QueryState()
        )

    def set(self, name: str, at_ms: int, look: Callable[[], None]) -> None:
        self._look = look

    @property
    def catalog(self) -> Catalog:
        found, waiting, self._waiting = self._catalog, self._waiting, []
        for change, done in waiting:
            self._publish(change, done)
        return found

    def own_change(self, change: tuple[str, Any]) -> Future[int]:
        done: Future[int] = Future()
        if self.is_full:
            done.set_exception(OSError("the disk is full"))
        elif self.is_slow:
            self._waiting.append((change, done))
        else:
            self._publish(change, done)
        return done

    def _publish(self, change: tuple[str, Any], done: Future[int]) -> None:
        self.moved.append(change)
        self.change(int(change[0][1:]), home=change[1])
        done.set_result(0)

    def change(self, number: int, **fields: Any) -> None:
        known = self._catalog
        changed = msgspec.structs.replace(known.queries[number], **fields)
        self._catalog = Catalog(known.streams, {**known.queries, number: changed})

    def fall_behind(self, *numbers: int) -> None:
        self.behind |= {*numbers}
        self.look()
        self.look()

    def look(self) -> None:
        self._clock.advance(_LATER_MS)
        self._look()


def test_a_query_that_was_paused_goes_back_when_it_is_resumed(monkeypatch: pytest.MonkeyPatch) -> None:
    server = _Server(monkeypatch, 1)
    server.fall_behind(1)
    server.change(1, paused=True)
    server.behind.clear()
    server.look()
    assert server.moved == [("q1", "replay")]  # nobody evaluates it
    server.change(1, paused=False)
    server.look()
    assert server.moved == [("q1", "replay"), ("q1", None)]


def test_queries_that_clients_moved_leave_their_place_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    server = _Server(monkeypatch, 2 * REPLAYS_MAX)
    server.fall_behind(*range(1, 2 * REPLAYS_MAX + 1))
    taken = [name for name, _ in server.moved]
    assert len(taken) == REPLAYS_MAX
    for name in taken:
        server.change(int(name[1:]), home="inline")
        server.behind.discard(int(name[1:]))
    server.look()
    server.look()
    assert len(server.moved) == 2 * REPLAYS_MAX and not {*taken} & {name for name, _ in server.moved[REPLAYS_MAX:]}


def test_a_move_that_was_rejected_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    server = _Server(monkeypatch, 1)
    server.is_full = True
    server.fall_behind(1)
    server.is_full = False
    server.look()
    server.look()
    assert server.moved == [("q1", "replay")]
    server.is_full = True
    server.behind.clear()
    server.look()
    server.is_full = False
    server.look()
    assert server.moved == [("q1", "replay"), ("q1", None)]


def test_a_move_may_be_published_while_it_is_looked_who_is_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    server = _Server(monkeypatch, 1)
    server.is_slow = True
    server.behind.add(1)
    while not server.moved:
        server.look()
    server.behind.clear()
    for _ in range(3):
        server.look()
    assert server.moved == [("q1", "replay"), ("q1", None)]
