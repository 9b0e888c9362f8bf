"""Window scan: one triple pattern over the content of one window, as changes from evaluation to evaluation.

Arrivals wait until the first evaluation whose instance holds them. A window is an RDF graph, a set: a triple that has
arrived several times counts once, for as long as its latest arrival is in the window. Going out is no event: each row
says on entry until when it is valid."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from hbase_store.arrays import concatenate
from stream_ext.operators.moment import Moment
from stream_ext.operators.pattern import IdPattern
from stream_ext.operators.window_content import WindowContent
from stream_ext.schedule import ScheduledWindow
from stream_ext.zset import Columns, Ids, ZSet

Times = npt.NDArray[np.int64]
#: Bindings, the times of their elements, and until when they are in an instance.
Entering = tuple[Columns, Times, Times]


class WindowScan:
    def __init__(self, window: ScheduledWindow, pattern: IdPattern, as_bag: bool = False) -> None:
        """`as_bag`: what follows makes a set of the rows."""
        self.window = window
        self.pattern = pattern
        self.variables = pattern.variables
        self._width = len(self.variables)
        self._content = None if as_bag else WindowContent(self._width)
        self._waiting: list[tuple[Columns, Times]] = []

    def arrive(self, s: Ids, p: Ids, o: Ids, g: Ids, times: Times) -> None:
        """Triples of the window's stream, with the graph and the time of their elements, in order of arrival."""
        fits, columns = self.pattern.match((s, p, o, g))
        graph = self.pattern.graph
        if graph.each is not None:
            fits &= g != 0  # GRAPH ?g ranges over the named ones
        elif graph.one:
            fits &= g == np.uint64(graph.one)
        if fits.all():
            self._waiting.append((tuple(column.copy() for column in columns(slice(None))), times))
        elif fits.any():
            self._waiting.append((columns(fits), times[fits]))

    def step(self, moment: Moment) -> ZSet:
        columns, untils = self._entering(moment)
        if self._content is not None:
            return self._content.step(columns, untils, moment.time)
        return ZSet(columns, len(untils), None, untils)

    def _entering(self, moment: Moment) -> tuple[Columns, Times]:
        entering = self._due(moment)
        if len(entering) == 1:
            columns, _, untils = entering[0]
            return columns, untils
        untils = np.concatenate([np.empty(0, np.int64), *(untils for _, _, untils in entering)])
        return tuple(concatenate([columns[i] for columns, _, _ in entering]) for i in range(self._width)), untils

    def _due(self, moment: Moment) -> list[Entering]:
        """With the ids that the query has for terms that it made before the stream brought them."""
        inward = moment.vocabulary.inward
        due = self._due_at(moment.time)
        return [(tuple(map(inward, columns)), times, untils) for columns, times, untils in due]

    def _due_at(self, time: int) -> list[Entering]:
        """What is in the instance at `time` and has not been before; what can be in no instance any more is dropped."""
        entering, waiting = [], []
        for columns, times in self._waiting:
            due = self.window.valid_from(times) <= time
            if due.all():
                entering.append(self._held(columns, times, time))
            else:
                waiting.append((_taken(columns, ~due), times[~due]))
                entering.append(self._held(_taken(columns, due), times[due], time))
        self._waiting = waiting
        return entering

    def _held(self, columns: Columns, times: Times, time: int) -> Entering:
        """The rows that the instance at `time` holds, and until when they are in one."""
        if len(times) > 1 and (times == times[0]).all():  # as a push often is
            untils = np.full(len(times), self.window.valid_until(times[:1])[0])
        else:
            untils = self.window.valid_until(times)
        held = untils >= time
        return (columns, times, untils) if held.all() else (_taken(columns, held), times[held], untils[held])


def _taken(columns: Columns, which: npt.NDArray[np.bool_]) -> Columns:
    return tuple(column[which] for column in columns)
