"""A named graph that is not in the store: the latest result of a registered CONSTRUCT, which queries read as a graph.

It comes to an evaluation as a window does: its triples arrive just before the time of the evaluation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from stream_ext.language.algebra.terms import Constant
from stream_ext.network.operators.core.moment import Moment
from stream_ext.plan.places import window_of_graph
from stream_ext.values.vocabulary import Vocabulary, stored_blank
from stream_ext.windows.arrivals import Arrival
from stream_ext.windows.part import Ids
from stream_ext.windows.scheduled_window import ScheduledWindow


@dataclass(frozen=True, slots=True)
class DerivedGraph:
    """Its terms, and its triples as places among them."""

    name: Constant
    terms: Sequence[bytes]
    triples: Sequence[npt.NDArray[np.int32]]

    def window(self, number: int, time: int) -> ScheduledWindow:
        """A window that contains at `time` what came just before; `number` is the number of no stream."""
        return ScheduledWindow(window_of_graph(self.name), number, 2, 2, t0_ms=time - 2)

    def columns(self, vocabulary: Vocabulary) -> tuple[Ids, Ids, Ids]:
        """Its triples."""
        ids = vocabulary.encode([stored_blank(text) for text in self.terms])
        s, p, o = (ids[places] for places in self.triples)
        return s, p, o

    def arrival(self, window: ScheduledWindow, moment: Moment) -> Arrival:
        s, p, o = self.columns(moment.vocabulary)
        times = np.full(len(s), moment.time - 1)
        graphs, element = np.zeros(len(s), np.uint64), np.zeros(len(s), np.int32)
        return Arrival(0, 0, window.stream, times[:1], s, p, o, graphs, times, element, None, None, False)
