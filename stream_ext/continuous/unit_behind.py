"""A unit behind: queries that are evaluated together, and are behind the other queries of their shard.

A query with much to evaluate may be evaluated by other processes meanwhile; the shard hands on what they find:

    unit behind  --begin-->  Replay  --take, a piece at a time-->  parts, and the state after them

What a piece has is what the shard would have evaluated itself, so the state after it is one from which the shard, or
another replay, may go on. Who the others are is the business of `stream_ext.runners.replays`."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING, Protocol

from stream_ext.continuous.run_plan import PlannedQuery
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
class Spent:
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
    processes evaluate what they have missed. `spent`: by the shard itself, since they fell behind."""

    numbers: set[int]
    sn: int
    states: dict[int, QueryState | None]
    unanswered: bool = False
    later: tuple[Hashable, ...] = ()
    own_shard: Shard | None = None
    slowed: str = ""
    replay: Replay | None = None
    spent: Spent = field(default_factory=lambda: Spent())

    def end_replay(self) -> None:
        if self.replay is not None:
            self.replay.cancel()
            self.replay = None

    @property
    def is_there(self) -> bool:
        """Whether it has nothing to do before the next snapshot."""
        return bool(self.slowed) and self.own_shard is not None and not self.own_shard.runs.underway
