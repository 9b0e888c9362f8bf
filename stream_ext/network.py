"""The network: a query's operators, wired; the same for a one-shot question and for one that is asked for ever.

It knows no clock, no process, no store but the snapshot of the moment that it is stepped with. A one-shot query is a
network that is stepped once, with the whole store as the change."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hbase_store import NAMED, Snapshot
from stream_ext.operators.distinct import Distinct
from stream_ext.operators.filter import Filter
from stream_ext.operators.join import Join
from stream_ext.operators.moment import Moment
from stream_ext.operators.pattern import IdPattern, id_pattern
from stream_ext.operators.project import Project
from stream_ext.operators.r2s import Answer
from stream_ext.operators.ranking import Ranking
from stream_ext.operators.store_join import StoreJoin
from stream_ext.operators.window_scan import WindowScan
from stream_ext.plan.algebra import R2S, Form, Query
from stream_ext.plan.expressions import compile_condition
from stream_ext.plan.normalise import Conjunction, Source, Test, flatten
from stream_ext.plan.order import order_sources
from stream_ext.plan.place_filters import place_filters
from stream_ext.schedule import ScheduledWindow
from stream_ext.vocabulary import Decode, Vocabulary
from stream_ext.zset import Columns, Ids, Weights, ZSet, empty, unit

Encode = Callable[[Sequence[bytes]], npt.NDArray[np.uint64]]
Inner = Join | StoreJoin | Filter | Project | Distinct


@dataclass(frozen=True, slots=True)
class Stage:
    """One operator of the chain, and what is joined from the side (None: only what comes down the chain)."""

    operator: Inner
    side: WindowScan | None = None


class Network:
    """A chain of stages that starts with the unit row, or with the first window's scan, and ends in the answer."""

    def __init__(
        self, query: Query, windows: Mapping[str, ScheduledWindow], snapshot: Snapshot, encode: Encode, decode: Decode
    ) -> None:
        self.query = query
        self.scans: list[WindowScan] = []
        self._windows = windows
        self._vocabulary = Vocabulary(encode, decode)
        self._first: WindowScan | None = None
        self._stages: list[Stage] = []
        self._started = False
        flat = flatten(query.pattern)
        # One look-up for all constants: on HBase each is a round trip.
        ids = dict(zip(flat.constants, encode(flat.constants).tolist(), strict=True))
        self._patterns = {source: id_pattern(source.pattern, source.graph, ids) for source in flat.sources}
        self._plan(flat, Estimates(snapshot, self._patterns))
        variables = query.variables if query.form is Form.SELECT else ()
        self._push_stage(Project(self.variables_inside, variables))
        if query.distinct or query.form is Form.ASK:  # an ASK is one empty row or none
            self._push_stage(Distinct(variables))
        self.answer = Answer(variables, query.r2s or R2S.RSTREAM, _ranking(query))

    def _plan(self, flat: Conjunction, estimate: Estimates) -> None:
        self.variables_inside: tuple[str, ...] = ()
        sources = order_sources(flat, estimate)
        tests = place_filters(sources, flat.filters)
        self._test(tests[0])
        for source, then in zip(sources, tests[1:], strict=True):
            self._add_source(source)
            self._test(then)

    def _add_source(self, source: Source) -> None:
        pattern = self._patterns[source]
        if source.window is None:
            self._push_stage(StoreJoin(self.variables_inside, pattern))
            return
        scan = WindowScan(self._windows[source.window], pattern)
        self.scans.append(scan)
        if self._first is None and not self._stages:
            self._first = scan
            self.variables_inside = scan.variables
        else:
            self._push_stage(Join(self.variables_inside, scan.variables), scan)

    def _test(self, tests: tuple[Test, ...]) -> None:
        for test in tests:
            seen = tuple(v if v in test.sees else "" for v in self.variables_inside)
            self._push_stage(Filter(self.variables_inside, compile_condition(test.condition, seen), self._vocabulary))

    def _push_stage(self, operator: Inner, side: WindowScan | None = None) -> None:
        self._stages.append(Stage(operator, side))
        self.variables_inside = operator.variables

    def arrive(self, stream: int, s: Ids, p: Ids, o: Ids, times: npt.NDArray[np.int64]) -> None:
        """Triples of a stream; they count from the first evaluation whose windows hold them."""
        for scan in self.scans:
            if scan.window.stream == stream:
                scan.arrive(s, p, o, times)

    def step(self, moment: Moment) -> tuple[Columns, Weights]:
        """One evaluation: what is emitted of it."""
        change = self._begin(moment)
        for stage in self._stages:
            operator = stage.operator
            if isinstance(operator, Join):
                assert stage.side is not None
                change = operator.step(moment, change, stage.side.step(moment))
            else:
                change = operator.step(moment, change)
        return self.answer.step(moment, change)

    def _begin(self, moment: Moment) -> ZSet:
        started, self._started = self._started, True
        if self._first is not None:
            return self._first.step(moment)
        return empty(0) if started else unit()


def _ranking(query: Query) -> Ranking | None:
    if query.form is not Form.SELECT or (query.limit is None and not query.offset):
        return None
    return Ranking(len(query.variables), query.offset, query.limit)


class Estimates:
    """How many rows a source is expected to have: exact counts by predicate, thinned by what is bound."""

    def __init__(self, snapshot: Snapshot, patterns: Mapping[Source, IdPattern]) -> None:
        self._patterns = patterns
        # Counted once: ordering asks for each source again and again.
        self._rows = {
            source: 1000.0 if source.window is not None else float(_count(snapshot, pattern))
            for source, pattern in patterns.items()
        }

    def __call__(self, source: Source, bound: frozenset[str]) -> float:
        pattern, rows = self._patterns[source], self._rows[source]
        for position in (0, 2):
            if position in pattern.fixed or pattern.binding[position] in bound:
                rows = rows**0.5
        return rows


def _count(snapshot: Snapshot, pattern: IdPattern) -> int:
    graph = pattern.fixed.get(3, NAMED)
    if 1 in pattern.fixed:
        return snapshot.count(pattern.fixed[1], graph=graph)
    return snapshot.count_all(graph=graph)
