"""The evaluations of one query, or of several that are evaluated together, in one snapshot, on their way to parts.

A run of more than 1,000 answers to empty windows is told as one where each says nothing or, under RSTREAM, the same: a
stream may be silent for a year, or leap from small abstract times to the clock's, and every close in between falls due.
Evaluations that make no emission are told as one, however many."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import numpy as np

from stream_ext.windows.grids import Grid, Run
from stream_ext.windows.part import Ids, Part, SharedPart, WindowBounds
from stream_ext.windows.schedule import Due, LastEvaluation, QueryState

RUN_TOLD_SINGLY_MAX = 1000

#: The place of what is said after all evaluations of a snapshot.
AFTER_ALL = 1 << 62
#: Columns, boolean, and whether it is an emission at all.
Said = tuple[list[Ids], bool | None, bool]
Made = TypeVar("Made", Part, SharedPart)
Made_co = TypeVar("Made_co", Part, SharedPart, covariant=True)


class Teller(Protocol[Made_co]):
    """What is known of the query, or the queries. `repeats`: it says its whole answer each time (RSTREAM)."""

    repeats: bool
    evaluated: LastEvaluation | None

    def part(self, evaluated: LastEvaluation, said: Said) -> Made_co:
        """Of the evaluation after `self.evaluated`, which it is from now on."""
        ...


@dataclass(frozen=True, slots=True)
class _Untold:
    """Evaluations one after the other, from the one that is number `k` in the snapshot."""

    run: Run
    push: int
    k: int
    arrived_at: int | None = None

    def at(self, sn: int, k: int, time: int) -> LastEvaluation:
        return LastEvaluation(sn, self.push, k, time, self.arrived_at is not None, self.arrived_at)


class Steps(Generic[Made]):
    def __init__(self, query: Teller[Made], sn: int, count: int = 0) -> None:
        """`count`: of the evaluations in this snapshot that were told before."""
        self._query: Teller[Made] = query
        self._sn = sn
        self.count = count  # of evaluations so far
        self._parts: list[Made] = []
        self._untold: list[_Untold] = []  # all that say `_said`; of a long run the first and the last
        self._untold_count = 0
        self._said: Said = [], None, False

    @property
    def told_up_to(self) -> int:
        """How many are told: those that come next may say the same as those that are not."""
        return self._untold[0].k if self._untold else self.count

    def add(self, due: Due, push: int, over_nothing: bool, said: Said) -> None:
        """`over_nothing`: all windows are empty."""
        *_, emits = said
        told = _Untold(one(due.time), push, self._next_k(1), due.arrived)
        if not emits or (over_nothing and (self._query.repeats or is_empty(said))):
            self._add_untold(told, 1, said)
            return
        self._tell()
        self._parts.append(self._query.part(told.at(self._sn, told.k, due.time), said))

    def add_run(self, run: Run, push: int, said: Said) -> None:
        """Over empty windows; each says this."""
        count = run.count()
        self._add_untold(_Untold(run, push, self._next_k(count)), count, said)

    def parts(self) -> list[Made]:
        """All, for there is no more to come."""
        self._tell()
        return self.told()

    def told(self) -> list[Made]:
        """What is told by now, each once."""
        parts, self._parts = self._parts, []
        return parts

    def _next_k(self, count: int) -> int:
        first = self.count
        self.count += count
        return first

    def _add_untold(self, untold: _Untold, count: int, said: Said) -> None:
        if self._untold and not _is_same(self._said, said):
            self._tell()
        self._said = said
        self._untold_count += count
        if self._untold_count > RUN_TOLD_SINGLY_MAX:
            del self._untold[1:]
        self._untold.append(untold)

    def _tell(self) -> None:
        if not self._untold:
            return
        untold, said, count = self._untold, self._said, self._untold_count
        self._untold, self._untold_count = [], 0
        *_, emits = said
        if count > RUN_TOLD_SINGLY_MAX or (count > 1 and not emits):
            first, last = untold[0], untold[-1]
            part = self._query.part(last.at(self._sn, first.k + count - 1, last.run.last), said)
            part.repeated, part.first = count, first.run.first
            self._parts.append(part)
            return
        for entry in untold:
            for k, time in enumerate(entry.run.times(), entry.k):
                self._parts.append(self._query.part(entry.at(self._sn, k, time), said))


def is_empty(said: Said) -> bool:
    columns, boolean, _ = said
    return not boolean and not any(map(len, columns))


def _is_same(said: Said, other: Said) -> bool:
    (columns, *rest), (others, *others_rest) = said, other
    return rest == others_rest and len(columns) == len(others) and all(map(np.array_equal, columns, others))


def one(time: int) -> Run:
    return Run((Grid(time, 1, 1),))


class Single(Protocol):
    """What a part needs to know of its query."""

    number: int
    evaluated: LastEvaluation | None

    def tell_gap(self) -> bool: ...
    def bounds_at(self, time: int, arrived: bool) -> list[WindowBounds]: ...
    def portable(self, columns: list[Ids]) -> tuple[list[Ids], list[bytes]]: ...
    def state_after(self, evaluated: LastEvaluation) -> QueryState: ...


def silent_part(query: int, sn: int, k: int, state: QueryState) -> Part:
    """Says nothing, and keeps how far the query has come."""
    return Part(query, sn, k, state.after or 0, [], [], None, 0, None, state, False, evaluated=False)


def part_of(query: Single, evaluated: LastEvaluation, said: Said) -> Part:
    columns, boolean, emits = said
    gap, before = emits and query.tell_gap(), query.evaluated
    state = query.state_after(evaluated)
    bounds = query.bounds_at(evaluated.time, evaluated.arrived)
    columns, made = query.portable(columns) if any(map(len, columns)) else (columns, [])
    return Part(
        query.number, evaluated.sn, evaluated.k, evaluated.time, bounds, columns, boolean, 0, None, state, emits, made,
        gap, before,
    )  # fmt: skip
