"""A lens: a query's network, over its windows as they are looked at, either at closes or at arrivals.

Most queries have one. One that is evaluated at closes and at arrivals has two: an arrival waits for no other stream and
no lateness, so the closes come behind, and time goes forward in each of the two only. Each then gives its whole answer,
and `Composed` says of the one that was asked how it differs from the answer before, whosever that was."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from stream_ext.language.algebra.algebra import R2S
from stream_ext.network.network import Network
from stream_ext.network.operators.answers.construct import Construct
from stream_ext.network.operators.answers.cut import Cut
from stream_ext.network.operators.answers.r2s import ResultState
from stream_ext.network.operators.answers.ranking import Orders, own_order
from stream_ext.network.operators.answers.slice import net_change
from stream_ext.network.operators.core.moment import Moment
from stream_ext.rows.zset import Columns, Weights, ZSet, empty, in_order
from stream_ext.windows.arrivals import Arrival
from stream_ext.windows.occupancy import Occupancy, next_entry
from stream_ext.windows.schedule import ScheduledWindow

#: A network over these windows, by their names.
MakeNetwork = Callable[[Mapping[str, ScheduledWindow]], Network]


class Composed:
    """The answer of a query whose evaluations come from several networks."""

    def __init__(self, cut: Cut, r2s: R2S, construct: Construct | None, orders: Orders) -> None:
        self.answer = ResultState(cut, r2s, construct, ranking=own_order(orders, cut))
        self._before = empty(len(cut.variables))

    def said(self, moment: Moment, bag: tuple[Columns, Weights]) -> tuple[Columns, Weights]:
        columns, weights = bag
        now = ZSet(columns, len(weights), weights)
        columns, net = net_change(self._before, now)
        self._before = now
        emitted = self.answer.step(moment, ZSet(columns, len(net), net))
        return emitted if self.answer.is_in_order else in_order(*emitted)


class Lens:
    def __init__(self, make: MakeNetwork, windows: Sequence[ScheduledWindow]) -> None:
        self.network = make({window.name: window for window in windows})
        self.store_sn: int | None = None  # of the last evaluation
        self.was_empty = False  # the windows, at the last evaluation
        self._presence = [Occupancy(window) for window in windows]

    def arrive(self, arrival: Arrival) -> None:
        self.network.arrive(arrival)
        for presence in self._presence:
            if presence.window.stream == arrival.stream:
                presence.arrive(arrival.element_times)

    def move_to(self, time: int) -> None:
        for presence in self._presence:
            presence.move_to(time)

    def holds_anything(self, time: int) -> bool:
        """Call it when moved to `time`, or when nothing can have come in since."""
        return any(presence.is_occupied(time) for presence in self._presence)

    def next_entry(self) -> int:
        return next_entry(self._presence)

    def evaluate(self, moment: Moment) -> tuple[Columns, Weights]:
        self.move_to(moment.time)
        found = self.network.said(moment)
        self.store_sn = int(moment.snapshot.sn)
        self.was_empty = not self.holds_anything(moment.time)
        return found
