"""A triggered network: the network of a query over its windows, evaluated either at closes or at arrivals.

Most queries have one. A query that is evaluated at closes and at arrivals has two, because time only goes forward in a
network: an arrival waits for no other stream and no lateness, so the closes come later than the arrivals. Each of the
two then returns its whole answer, and `Composed` computes the difference from the previous answer, whichever of the two
gave that."""

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
from stream_ext.windows.scheduled_window import ScheduledWindow

#: A network over these windows, by their names.
MakeNetwork = Callable[[Mapping[str, ScheduledWindow]], Network]


class Composed:
    """The answer of a query whose evaluations come from several networks."""

    def __init__(self, cut: Cut, r2s: R2S, construct: Construct | None, orders: Orders) -> None:
        self.answer = ResultState(cut, r2s, construct, ranking=own_order(orders, cut))
        self._before = empty(len(cut.variables))

    def emitted(self, moment: Moment, bag: tuple[Columns, Weights]) -> tuple[Columns, Weights]:
        columns, weights = bag
        now = ZSet(columns, len(weights), weights)
        columns, net = net_change(self._before, now)
        self._before = now
        emitted = self.answer.step(moment, ZSet(columns, len(net), net))
        return emitted if self.answer.is_in_order else in_order(*emitted)


class TriggeredNetwork:
    def __init__(self, make: MakeNetwork, windows: Sequence[ScheduledWindow]) -> None:
        self.network = make({window.name: window for window in windows})
        self.store_sn: int | None = None  # of the last evaluation
        self.was_empty = False  # the windows, at the last evaluation
        self._windows = windows
        self._occupancies = [Occupancy(window) for window in windows]  # none while a timing class knows it

    def arrive(self, arrival: Arrival) -> None:
        self.network.arrive(arrival)
        for presence in self._occupancies:
            if arrival.reaches(presence.window):
                presence.arrive(arrival.element_times)

    def occupancy(self) -> list[Occupancy]:
        """That of its windows, for others with windows of the same content."""
        return [presence.copy(presence.window) for presence in self._occupancies]

    def join_class(self) -> None:
        """A timing class knows the occupancy of its windows from now on."""
        self._occupancies = []

    def pass_by(self, sn: int, time: int) -> None:
        """Nothing has changed for it, nor in the store, up to the evaluation in snapshot `sn` at this time."""
        self.store_sn = sn
        self.network.pass_by(time)

    def leave_class(self, occupancy: Sequence[Occupancy], time: int) -> None:
        """`occupancy`: that of windows with the same content; `time`: that of the last evaluation."""
        self._occupancies = [there.copy(own) for own, there in zip(self._windows, occupancy, strict=True)]
        self.was_empty = not self.has_content(time)
        self.network.catch_up()

    def end_reading_ahead(self) -> None:
        """As of what it shares with other networks."""
        sharing = self.network.sharing
        if sharing is not None and sharing.is_ahead:
            sharing.end_reading_ahead()

    @property
    def is_lost(self) -> bool:
        """Whether it cannot go on, because of a fault in what it shares."""
        return self.network.sharing is not None and self.network.sharing.is_lost

    def next_change(self, time: int) -> int | None:
        """Before this time the result is the one at `time`, or empty, if nothing arrives; None: that is not known."""
        return self.network.next_change(time)

    def move_to(self, time: int) -> None:
        for presence in self._occupancies:
            presence.move_to(time)

    def has_content(self, time: int) -> bool:
        """Call it when moved to `time`, or when nothing can have come in since."""
        return bool(self._occupancies) and any(presence.is_occupied(time) for presence in self._occupancies)

    def next_entry(self) -> int:
        return next_entry(self._occupancies)

    def oldest(self, window: int, time: int) -> int | None:
        """The least time in a window at `time`, that of the last evaluation, if no length of time limits the window."""
        presence = self._occupancies[window]
        counted = self.network.counted.get(presence.window.name)
        return presence.oldest if counted is None else counted.oldest()

    def settle(self, time: int | None = None) -> None:
        """What has arrived is not new any more; where windows close, what was before their ends at `time`."""
        self.network.settle(time)

    def leave_out_new(self, moment: Moment) -> None:
        """Brings the network to the answer without what has arrived since the last evaluation."""
        self.network.step(moment)
        self.store_sn = int(moment.snapshot.sn)

    def evaluate_in_class(self, moment: Moment) -> tuple[Columns, Weights] | None:
        """As `evaluate`, in a timing class; None: nothing has changed, and it was passed by."""
        found = self.network.emitted_if_changed(moment)
        if found is None:
            self.network.pass_by(moment.time)
        self.store_sn = int(moment.snapshot.sn)
        return found

    def evaluate(self, moment: Moment) -> tuple[Columns, Weights]:
        self.move_to(moment.time)
        found = self.network.emitted(moment)
        self.store_sn = int(moment.snapshot.sn)
        self.was_empty = not self.has_content(moment.time)
        return found
