"""The evaluations of one query, or of several that are evaluated together, in one snapshot, on their way to parts.

A run of more than 1,000 empty answers to empty windows is told as one: a stream may be silent for a year, or leap from
small abstract times to the clock's, and every close in between falls due. Evaluations that say nothing at all are told
as one, however many."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from stream_ext.grids import Grid, Run
from stream_ext.part import Ids, Part, SharedPart, WindowBounds
from stream_ext.schedule import Due, Evaluated, QueryState

RUN_TOLD_SINGLY_MAX = 1000

#: Columns, boolean, and whether it is an emission at all.
Said = tuple[list[Ids], bool | None, bool]
Made = TypeVar("Made", Part, SharedPart)
Made_co = TypeVar("Made_co", Part, SharedPart, covariant=True)


class Teller(Protocol[Made_co]):
    """What is known of the query, or the queries."""

    empty_said: Said
    evaluated: Evaluated | None

    def part(self, evaluated: Evaluated, said: Said) -> Made_co:
        """Of the evaluation after `self.evaluated`, which it is from now on."""
        ...


@dataclass(frozen=True, slots=True)
class Untold:
    """Evaluations that say nothing, or are empty answers to empty windows."""

    run: Run
    push: int
    k: int
    arrived_at: int | None = None

    def at(self, sn: int, k: int, time: int) -> Evaluated:
        return Evaluated(sn, self.push, k, time, self.arrived_at is not None, self.arrived_at)


class Steps(Generic[Made]):
    def __init__(self, query: Teller[Made], sn: int) -> None:
        self._query: Teller[Made] = query
        self._sn = sn
        self.count = 0  # of evaluations so far
        self._parts: list[Made] = []
        self._untold: list[Untold] = []

    def add(self, due: Due, push: int, quiet: bool, said: Said) -> None:
        columns, boolean, emits = said
        told = Untold(one(due.time), push, self._next_k(1), due.arrived)
        if not emits or (quiet and not boolean and not any(map(len, columns))):
            self._untold.append(told)
            return
        self._tell()
        self._parts.append(self._query.part(told.at(self._sn, told.k, due.time), said))

    def add_run(self, run: Run, push: int) -> None:
        self._untold.append(Untold(run, push, self._next_k(run.count())))

    def parts(self) -> list[Made]:
        self._tell()
        return self._parts

    def _next_k(self, count: int) -> int:
        first = self.count
        self.count += count
        return first

    def _tell(self) -> None:
        if not self._untold:
            return
        untold, self._untold = self._untold, []
        count = sum(entry.run.count() for entry in untold)
        said = self._query.empty_said
        *_, emits = said
        if count > RUN_TOLD_SINGLY_MAX or (count > 1 and not emits):
            last = untold[-1]
            evaluated = last.at(self._sn, untold[0].k + count - 1, last.run.last)
            part = self._query.part(evaluated, said)
            part.repeated, part.first = count, untold[0].run.first
            self._parts.append(part)
            return
        for entry in untold:
            for k, time in enumerate(entry.run.times(), entry.k):
                self._parts.append(self._query.part(entry.at(self._sn, k, time), said))


def one(time: int) -> Run:
    return Run((Grid(time, 1, 1),))


class Single(Protocol):
    """What a part needs to know of its query."""

    number: int
    evaluated: Evaluated | None

    def tell_gap(self) -> bool: ...
    def bounds_at(self, time: int, arrived: bool) -> list[WindowBounds]: ...
    def portable(self, columns: list[Ids]) -> tuple[list[Ids], list[bytes]]: ...
    def state_after(self, evaluated: Evaluated) -> QueryState: ...


def silent_part(query: int, sn: int, k: int, state: QueryState) -> Part:
    """Says nothing, and keeps how far the query has come."""
    return Part(query, sn, k, state.after or 0, [], [], None, 0, None, state, False, evaluated=False)


def part_of(query: Single, evaluated: Evaluated, said: Said) -> Part:
    columns, boolean, emits = said
    gap, before = emits and query.tell_gap(), query.evaluated
    state = query.state_after(evaluated)
    bounds = query.bounds_at(evaluated.time, evaluated.arrived)
    columns, made = query.portable(columns) if any(map(len, columns)) else (columns, [])
    return Part(
        query.number, evaluated.sn, evaluated.k, evaluated.time, bounds, columns, boolean, 0, None, state, emits, made,
        gap, before,
    )  # fmt: skip
