"""Window scan: one triple pattern over the content of one window, as changes from evaluation to evaluation.

Arrivals wait until the first evaluation whose instance holds them. A window is an RDF graph, a set: a triple that has
arrived several times counts once, for as long as its latest arrival is in the window. Going out is no event: each row
says on entry until when it is valid."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from stream_ext.operators.distinct import Distinct
from stream_ext.operators.moment import Moment
from stream_ext.operators.pattern import IdPattern
from stream_ext.schedule import ScheduledWindow
from stream_ext.zset import Columns, Ids, ZSet, concat, empty

Times = npt.NDArray[np.int64]


class WindowScan:
    def __init__(self, window: ScheduledWindow, pattern: IdPattern) -> None:
        self.window = window
        self.pattern = pattern
        self.variables = pattern.variables
        self._content = Distinct(self.variables)
        self._waiting: list[tuple[Columns, Times]] = []

    def arrive(self, s: Ids, p: Ids, o: Ids, g: Ids, times: Times) -> None:
        """Triples of the window's stream, with the graph and the time of their elements, in order of arrival."""
        fits, columns = self.pattern.match((s, p, o, g))
        graph = self.pattern.graph
        if graph.each is not None:
            fits &= g != 0  # GRAPH ?g ranges over the named ones
        elif graph.one:
            fits &= g == np.uint64(graph.one)
        if fits.any():
            self._waiting.append((columns(fits), times[fits]))

    def step(self, moment: Moment) -> ZSet:
        return self._content.add_and_show(self._entering(moment.time), moment.time)

    def _entering(self, time: int) -> ZSet:
        changes = [ZSet(c, len(times), None, self.window.valid_until(times)) for c, times in self._due(time)]
        return concat(changes, len(self.variables)) if changes else empty(len(self.variables))

    def _due(self, time: int) -> list[tuple[Columns, Times]]:
        """What is in the instance at `time` and has not been before; what can be in no instance any more is dropped."""
        entering, waiting = [], []
        for columns, times in self._waiting:
            due = self.window.valid_from(times) <= time
            if due.all():
                entering.append((columns, times))
            else:
                waiting.append((_taken(columns, ~due), times[~due]))
                entering.append((_taken(columns, due), times[due]))
        self._waiting = waiting
        held = [(columns, times, self.window.valid_until(times) >= time) for columns, times in entering]
        return [(_taken(columns, which), times[which]) for columns, times, which in held]


def _taken(columns: Columns, which: npt.NDArray[np.bool_]) -> Columns:
    return tuple(column[which] for column in columns)
