"""A unit behind: queries that are evaluated together, and are behind the other queries of their shard.

A query with much to evaluate may be evaluated by other processes meanwhile; the shard hands on what they find:

    unit behind  --begin-->  Replay  --take, a piece at a time-->  parts, and the state after them

What a piece has is what the shard would have evaluated itself, so the state after it is one from which the shard, or
another replay, may go on. Who the others are is the business of `stream_ext.runners.replays`. They begin when

    a query begins over a long past              before its first evaluation
    it was replayed when the server ended        when it is there again
    it came for that from another runner         at once
    it is behind, and has much to evaluate       after it has taken some seconds here"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import TYPE_CHECKING, Protocol

import msgspec

from stream_ext.continuous.run_plan import PlannedQuery
from stream_ext.continuous.steps import AFTER_ALL
from stream_ext.windows.part import Part
from stream_ext.windows.query_state import QueryState

if TYPE_CHECKING:
    from stream_ext.continuous.shard import Shard


@dataclass(frozen=True, slots=True)
class ReplayedPiece:
    """The parts of some evaluations, and the state after them; a query that has ended is not behind any more."""

    parts: Sequence[Part]
    state: QueryState


class Replay(Protocol):
    """The replay of one query."""

    @property
    def has_more(self) -> bool:
        """Whether `take` does not wait."""
        ...

    def take(self) -> ReplayedPiece | None:
        """The next piece; None: there is none, and the shard goes on itself."""
        ...

    def cancel(self) -> None:
        """Nobody takes more of it. Idempotent."""


class Replays(Protocol):
    @property
    def least_s(self) -> float:
        """What takes less is not worth it."""
        ...

    def begin(self, planned: PlannedQuery, defined_at: int, head: int, close_s: float | None = None) -> Replay | None:
        """Of a query that is behind, and continues from the state of `planned` to snapshot `head`. `defined_at`: a
        snapshot whose catalog has it; `close_s`: how long an evaluation takes, if that is known. None: the shard
        evaluates it itself."""
        ...


class NoReplays:
    """A shard that evaluates everything itself."""

    least_s = inf

    def begin(self, planned: PlannedQuery, defined_at: int, head: int, close_s: float | None = None) -> Replay | None:
        return None


@dataclass(slots=True)
class OwnTurns:
    """What the shard itself has done for queries that are behind: `seconds` for so many `evaluations`. Once these are
    `again_s`, it is considered again whether others should go on."""

    seconds: float = 0.0
    evaluations: int = 0
    again_s: float = 0.0

    def add(self, seconds: float, evaluations: int) -> None:
        self.seconds += seconds
        self.evaluations += evaluations

    def is_much(self, least_s: float) -> bool:
        """Whether it is time to consider it; `least_s`: what takes less is not worth it."""
        if self.seconds < max(self.again_s, least_s / 2):
            return False
        self.again_s = self.seconds + max(least_s, self.seconds / 2)
        return True

    @property
    def each_s(self) -> float | None:
        """How long an evaluation takes; None: none was made."""
        return self.seconds / self.evaluations if self.evaluations else None


@dataclass(slots=True, eq=False)
class UnitBehind:
    """Queries that were stepped up to snapshot `sn`, and through the next one as far as their `states` say (None: they
    begin in it). `own_shard`: a shard of these queries, once they are stepped again.

    `unanswered`: they wait until the endpoints of `later` may be requested again, and until they are not suspended;
    else they continue by turns. `slowed`: why they stay behind even if they have reached the others. `replay`: other
    processes evaluate what they have missed. `own_turns`: those that they had here, since they fell behind."""

    numbers: set[int]
    sn: int
    states: dict[int, QueryState | None]
    unanswered: bool = False
    later: tuple[Hashable, ...] = ()
    own_shard: Shard | None = None
    slowed: str = ""
    replay: Replay | None = None
    own_turns: OwnTurns = field(default_factory=OwnTurns)

    def end_replay(self) -> None:
        if self.replay is not None:
            self.replay.cancel()
            self.replay = None

    @property
    def is_up_to_date(self) -> bool:
        """Whether it has nothing to do before the next snapshot."""
        return bool(self.slowed) and self.own_shard is not None and not self.own_shard.runs.underway


# ---- units that others evaluate


def replay_of_past(shard: Shard, planned: PlannedQuery, sn: int) -> Replay | None:
    """The replay of the past of a query that begins in snapshot `sn`; None: the shard replays it itself, if it has a
    past at all."""
    if planned.timing.ends_at is None:
        return None
    state = planned.state.behind(sn - 1, planned.state.within)
    return shard.replays.begin(replace(planned, state=state), sn, sn)


def begin_again(shard: Shard, unit: UnitBehind) -> None:
    """Of a unit that is where it was before a restart, perhaps in the middle of its past, or at another runner."""
    if len(unit.numbers) == 1 and not unit.unanswered:
        ((number, state),) = unit.states.items()
        query = shard.catalog.queries[number]
        if unit.sn < query.since or query.home == "replay":
            _begin(shard, unit, state)


def begin_if_much(shard: Shard, unit: UnitBehind) -> None:
    """After a turn of a unit. The windows that it has in memory are not needed then."""
    own_shard = unit.own_shard
    if own_shard is None or unit.slowed or len(unit.numbers) > 1 or not unit.own_turns.is_much(shard.replays.least_s):
        return
    (number,) = unit.numbers
    if (run := own_shard.runs.of.get(number)) is None:
        return
    state = run.query_state(own_shard.sn)
    if state.behind_at is None:
        state = state.behind(own_shard.position)
    _begin(shard, unit, state)
    if unit.replay is not None:
        unit.own_shard, unit.states = None, {number: state}


def _begin(shard: Shard, unit: UnitBehind, state: QueryState | None) -> None:
    (number,) = unit.numbers
    definition = shard.catalog.queries[number]
    known = None if state is None else msgspec.structs.replace(state, behind_at=None, unanswered=False)
    planned = shard.read(definition, known, shard.catalog)
    if planned is None:
        return
    is_over_past = planned.timing.ends_at is not None
    if unit.sn < definition.since and not is_over_past:
        return
    planned = replace(planned, state=planned.state.behind(unit.sn, planned.state.within))
    defined_at, head = (unit.sn + 1, unit.sn + 1) if is_over_past else (unit.sn, shard.sn)
    unit.replay = shard.replays.begin(planned, defined_at, head, unit.own_turns.each_s)


def take_replayed(shard: Shard, unit: UnitBehind, replay: Replay) -> Sequence[Part] | None:
    """The next parts; None: there are no more, and the shard goes on itself."""
    (number,) = unit.numbers
    if (piece := replay.take()) is None:
        unit.end_replay()
        return None
    state = unit.states[number] = piece.state
    if state.behind_at is None:  # it has ended
        return [*piece.parts, Part.silent(number, unit.sn + 1, AFTER_ALL, state)]
    unit.sn = state.behind_at
    at, k = (unit.sn, AFTER_ALL) if state.within is None else (unit.sn + 1, state.within.k)
    return [*piece.parts, Part.silent(number, at, k, state)]
