"""The evaluations of one query in one snapshot, on their way to parts.

A run of more than 1,000 empty answers to empty windows is told as one: a stream may be silent for a year, or leap from
small abstract times to the clock's, and every close in between falls due."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from stream_ext.grids import Grid, Run
from stream_ext.part import Ids, Part, WindowBounds
from stream_ext.schedule import Evaluated, QueryState

RUN_TOLD_SINGLY_MAX = 1000


class Teller(Protocol):
    """What a part needs to know of its query."""

    number: int
    empty_said: tuple[list[Ids], bool | None, bool]
    evaluated: Evaluated | None

    def tell_gap(self) -> bool: ...
    def bounds_at(self, time: int) -> list[WindowBounds]: ...
    def portable(self, columns: list[Ids]) -> tuple[list[Ids], list[bytes]]: ...
    def state_at(self, sn: int, push: int, k: int, time: int) -> QueryState: ...


@dataclass(frozen=True, slots=True)
class QuietRun:
    """Empty answers to empty windows, not told yet."""

    run: Run
    push: int
    k: int


class Steps:
    def __init__(self, query: Teller, sn: int) -> None:
        self._query, self._sn = query, sn
        self.count = 0  # of evaluations so far
        self._parts: list[Part] = []
        self._quiet: list[QuietRun] = []

    def add(self, time: int, push: int, quiet: bool, columns: list[Ids], boolean: bool | None, emits: bool) -> None:
        if quiet and emits and not boolean and not any(map(len, columns)):
            self._quiet.append(QuietRun(Run((Grid(time, 1, 1),)), push, self._next_k(1)))
            return
        self._tell_quiet()
        self._parts.append(self._part(time, push, self._next_k(1), columns, boolean, emits))

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
        quiet, self._quiet = self._quiet, []
        count = sum(entry.run.count() for entry in quiet)
        columns, boolean, emits = self._query.empty_said
        if count > RUN_TOLD_SINGLY_MAX or (quiet and not emits):
            last = quiet[-1]
            part = self._part(last.run.last, last.push, quiet[0].k + count - 1, columns, boolean, emits)
            part.repeated, part.first = count, quiet[0].run.first
            self._parts.append(part)
            return
        for entry in quiet:
            for k, time in enumerate(entry.run.times(), entry.k):
                self._parts.append(self._part(time, entry.push, k, columns, boolean, emits))

    def _part(self, time: int, push: int, k: int, columns: list[Ids], boolean: bool | None, emits: bool) -> Part:
        gap = emits and self._query.tell_gap()
        before = self._query.evaluated
        state = self._query.state_at(self._sn, push, k, time)
        bounds = self._query.bounds_at(time)
        columns, made = self._query.portable(columns)
        return Part(
            self._query.number, self._sn, k, time, bounds, columns, boolean, 0, None, state, emits, made, gap, before
        )
