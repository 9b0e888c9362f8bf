"""The evaluations of one query in one snapshot, on their way to parts.

A run of more than 1,000 empty answers to empty windows is told as one: a stream may be silent for a year, or leap from
small abstract times to the clock's, and every close in between falls due."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from stream_ext.grids import Grid, Run
from stream_ext.part import Ids, Part, WindowBounds
from stream_ext.schedule import Due, Evaluated, QueryState

RUN_TOLD_SINGLY_MAX = 1000


class Teller(Protocol):
    """What a part needs to know of its query."""

    number: int
    empty_said: tuple[list[Ids], bool | None, bool]
    evaluated: Evaluated | None

    def tell_gap(self) -> bool: ...
    def bounds_at(self, time: int, arrived: bool) -> list[WindowBounds]: ...
    def portable(self, columns: list[Ids]) -> tuple[list[Ids], list[bytes]]: ...
    def state_after(self, evaluated: Evaluated) -> QueryState: ...


@dataclass(frozen=True, slots=True)
class QuietRun:
    """Empty answers to empty windows, not told yet."""

    run: Run
    push: int
    k: int
    arrived: bool = False


class Steps:
    def __init__(self, query: Teller, sn: int) -> None:
        self._query, self._sn = query, sn
        self.count = 0  # of evaluations so far
        self._parts: list[Part] = []
        self._quiet: list[QuietRun] = []

    def add(self, due: Due, push: int, quiet: bool, columns: list[Ids], boolean: bool | None, emits: bool) -> None:
        arrived = due.arrived is not None
        if quiet and emits and not boolean and not any(map(len, columns)):
            self._quiet.append(QuietRun(Run((Grid(due.time, 1, 1),)), push, self._next_k(1), arrived))
            return
        self._tell_quiet()
        evaluated = Evaluated(self._sn, push, self._next_k(1), due.time, arrived)
        self._parts.append(self._part(evaluated, columns, boolean, emits))

    def add_run(self, run: Run, push: int) -> None:
        self._quiet.append(QuietRun(run, push, self._next_k(run.count())))

    def parts(self) -> list[Part]:
        self._tell_quiet()
        return self._parts

    def _next_k(self, count: int) -> int:
        first = self.count
        self.count += count
        return first

    def _tell_quiet(self) -> None:
        if not self._quiet:
            return
        quiet, self._quiet = self._quiet, []
        count = sum(entry.run.count() for entry in quiet)
        columns, boolean, emits = self._query.empty_said
        if count > RUN_TOLD_SINGLY_MAX or (quiet and not emits):
            last = quiet[-1]
            evaluated = Evaluated(self._sn, last.push, quiet[0].k + count - 1, last.run.last, last.arrived)
            part = self._part(evaluated, columns, boolean, emits)
            part.repeated, part.first = count, quiet[0].run.first
            self._parts.append(part)
            return
        for entry in quiet:
            for k, time in enumerate(entry.run.times(), entry.k):
                evaluated = Evaluated(self._sn, entry.push, k, time, entry.arrived)
                self._parts.append(self._part(evaluated, columns, boolean, emits))

    def _part(self, evaluated: Evaluated, columns: list[Ids], boolean: bool | None, emits: bool) -> Part:
        gap = emits and self._query.tell_gap()
        before = self._query.evaluated
        state = self._query.state_after(evaluated)
        bounds = self._query.bounds_at(evaluated.time, evaluated.arrived)
        columns, made = self._query.portable(columns) if any(map(len, columns)) else (columns, [])
        return Part(
            self._query.number,
            self._sn,
            evaluated.k,
            evaluated.time,
            bounds,
            columns,
            boolean,
            0,
            None,
            state,
            emits,
            made,
            gap,
            before,
        )
