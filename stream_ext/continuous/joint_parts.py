"""Joint parts: one part for many members of a timing class at a close, whatever is new for each.

What is new for the queries of a class at a close is mostly nothing. So the time, the windows, the state and the number
of the close are in one part, with the rows of those that have some. It is merged and stored as the part of queries that
share a network (docs/decisions/0013): an emission is one record, from which the rows of a query are read.

    close 120     q1: 2 rows     q2: none     q3: none (it sleeps)     q4: 1 row
    one part      queries q1 q2 q3 q4, rows of q1 q1 q4

Queries have parts of their own as long as they are few, and one whose rows are many has its own."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from hbase_store.arrays import frozen
from stream_ext.continuous.course import Close, Course
from stream_ext.continuous.results import Result
from stream_ext.values.vocabulary import shifted
from stream_ext.windows.part import NO_IDS, Ids, Part
from stream_ext.windows.query_state import LastEvaluation

if TYPE_CHECKING:
    from stream_ext.continuous.run import Run

#: Fewer members have parts of their own: a record of all would cost more than it saves.
TOGETHER_MIN = 8
#: Members of one part; rows times columns of one of them in it.
_TOGETHER_MAX, _CELLS_MAX = 1024, 1 << 12

#: Rows of one member, and the texts of the terms that it created.
_Rows = tuple[list[Ids], list[bytes]]


class JointParts:
    """Of members with windows of the same labels, and results of the same width."""

    def __init__(self) -> None:
        self._members: dict[Run, int] = {}
        self._asleep: dict[int, _Rows] = {}  # of those that sleep, under RSTREAM: their last result
        self._queries: Ids | None = None  # as long as the members are the same
        self._unchanged: tuple[Ids, list[Ids], list[bytes]] | None = None  # the rows of those that sleep, put together
        self._course: Course | None = None
        # Of the present snapshot: all queries, and those that are awake.
        self._all = NO_IDS
        self._awake: Sequence[int] = ()
        self._results: list[dict[int, _Rows | None]] = []  # at each close of the snapshot, by those that are awake

    @property
    def members(self) -> Iterable[Run]:
        return self._members.keys()

    @property
    def has_room(self) -> bool:
        return len(self._members) < _TOGETHER_MAX

    @property
    def are_many(self) -> bool:
        return len(self._members) >= TOGETHER_MIN

    @property
    def is_under_way(self) -> bool:
        """Whether the results of this snapshot are joined."""
        return self._course is not None

    def join(self, run: Run) -> None:
        (self._members[run],) = run.numbers
        self._queries = self._unchanged = None

    def leave(self, run: Run) -> None:
        """Its results at closes of this snapshot count."""
        self._asleep.pop(self._members.pop(run), None)
        self._queries = self._unchanged = None

    def sleep(self, run: Run) -> None:
        """From now on its result is the last one, or under ISTREAM and DSTREAM empty."""
        result = run.evaluator.unchanged_result
        if not fits(result):  # it is from when the members were few
            run.in_class.part_from_joint()
            return
        rows = _rows_of(run, result)
        if rows is not None:
            self._asleep[self._members[run]] = rows
            self._unchanged = None

    def wake(self, run: Run) -> None:
        if self._asleep.pop(self._members[run], None) is not None:
            self._unchanged = None

    # ---- one snapshot

    def begin(self, course: Course, awake: Collection[Run]) -> None:
        """`awake`: of all runs of the class."""
        if self._queries is None:
            self._queries = np.array(sorted(self._members.values()), np.uint64)
        self._all, self._first = self._queries, next(iter(self._members))
        self._course, self._results = course, [{} for _ in course.closes]
        self._awake = [self._members[run] for run in awake if run in self._members]

    def add(self, run: Run, k: int, result: Result) -> None:
        """The result of a member that is awake, at the close of this number."""
        self._results[k][self._members[run]] = _rows_of(run, result)

    def parts(self, before: LastEvaluation) -> Iterator[Part]:
        """Of this snapshot; `before`: the evaluation before it."""
        course, self._course = self._course, None
        if course is not None:
            for (_, close), results in zip(course.closes, self._results, strict=True):
                queries = self._queries_of(results)
                if len(queries):
                    yield self._part(course, close, queries, results, before)
                before = close.evaluated

    def _queries_of(self, results: Mapping[int, _Rows | None]) -> Ids:
        """Without those that have failed, or have parts of their own from here on."""
        if len(results) == len(self._awake):
            return self._all
        gone = np.array([number for number in self._awake if number not in results], np.uint64)
        return np.setdiff1d(self._all, gone, assume_unique=True)

    def _part(
        self, course: Course, close: Close, queries: Ids, results: Mapping[int, _Rows | None], before: LastEvaluation
    ) -> Part:
        run = self._first
        awake = {number: each for number, each in results.items() if each is not None}
        whose, columns, created = self._rows_together(queries, awake, run.plan.width)
        run.in_class.begin_asleep(course)  # with the bounds of all
        bounds = run.bounds_at(close.due.time, False)
        return Part(
            queries, course.sn, close.evaluated.k, close.due.time, bounds, whose, columns, None, True, 0, None,
            run.cohorts[0].state_of_all(close), {}, created, before, is_shared=True,
        )  # fmt: skip

    def _rows_together(
        self, queries: Ids, awake: Mapping[int, _Rows], width: int
    ) -> tuple[Ids, list[Ids], list[bytes]]:
        """If none that is awake has rows, they are those of the close before, in the same arrays."""
        if awake or queries is not self._queries:
            return _together(queries, {**self._asleep, **awake}, width)
        if self._unchanged is None:
            self._unchanged = _together(queries, self._asleep, width)
        return self._unchanged


def fits(result: Result) -> bool:
    """Whether a result is one of few rows."""
    columns, *_ = result
    return len(columns[0]) * len(columns) <= _CELLS_MAX


def _rows_of(run: Run, result: Result) -> _Rows | None:
    columns, *_ = result
    if not len(columns[0]):
        return None
    return run.portable(columns) if run.evaluator.created else (columns, [])


def _together(queries: Ids, rows: Mapping[int, _Rows], width: int) -> tuple[Ids, list[Ids], list[bytes]]:
    """The rows of all: the place of each one's query, the columns, and the texts of created terms."""
    if not rows:
        return NO_IDS, [NO_IDS] * width, []
    numbers, created = sorted(rows), list[bytes]()
    parts = [rows[number][0] for number in numbers]
    for at, number in enumerate(numbers):
        if texts := rows[number][1]:
            parts[at] = [shifted(column, len(created)) for column in parts[at]] if created else parts[at]
            created += texts
    places = queries.searchsorted(np.array(numbers, np.uint64)).astype(np.uint64)
    whose = places.repeat([len(columns[0]) for columns in parts])
    return whose, [frozen(np.concatenate([columns[place] for columns in parts])) for place in range(width)], created
