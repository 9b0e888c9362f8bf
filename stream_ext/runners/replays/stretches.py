"""Stretches: where the past of a query is cut, so that each stretch of it can be evaluated by itself.

    [START 0 END 24h STEP 1m], two stretches     =>    closes up to 13:20, and those after it

A stretch begins after a close at which a window holds something. At such a close an evaluation is made and ends
whatever was to be emitted together, so the emissions do not depend on the cut. What an ISTREAM or DSTREAM compares with
is the answer at that close, which is evaluated again."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from hbase_store import Store, StreamPosition
from stream_ext.catalog.registered import Registered
from stream_ext.continuous.run_plan import PlannedQuery
from stream_ext.language.algebra.algebra import Form, Query
from stream_ext.language.algebra.terms import BlankLabel
from stream_ext.language.algebra.volatile import is_volatile
from stream_ext.language.algebra.walk import has_services
from stream_ext.plan.logic import Assign, Select, nodes_of
from stream_ext.windows.arrivals import history
from stream_ext.windows.grids import RepeatedTimes
from stream_ext.windows.occupancy import reach
from stream_ext.windows.query_state import LastEvaluation, QueryState, Within
from stream_ext.windows.schedule import Schedule
from stream_ext.windows.scheduled_window import ScheduledWindow, Times

#: CPU seconds of a close, and of an element that comes into the windows: of a query that does little.
CLOSE_S, ELEMENT_S = 0.0005, 0.000_005
#: A stretch is to take about so long: others who wait for tasks of Spark get theirs then.
_STRETCH_S = 5.0
#: At least so many stretches for each task that runs at a time: one that is heavier than the others matters less then.
_STRETCHES_PER_LANE = 2
#: What is longer than so many of them is cut again, while these are evaluated.
_CUTS_MAX = 256
#: Reading what the windows hold where stretches begin may be such a part of all work, if that makes stretches short.
_REREADING = 0.25
#: So many closes are looked at for one at which a window holds something.
_LOOKED_AT = 64


def why_not_divided(registered: Registered, state: QueryState) -> str:
    """Why the past of a query, or what it has missed, is evaluated by one process; empty: it can be divided."""
    query, select, timing = registered.query, registered.select, registered.timing
    if timing.arrivals or not timing.windows:
        return "it is not evaluated at closes alone"
    if any(window.holds_all for window in timing.windows):
        return "a window holds all that ever came, part of which may be saved"
    if registered.remote_patterns or registered.functions or has_services(query) or is_volatile(query):
        return "it has a function or a SERVICE whose value may differ from process to process (NOW, RAND, UUID, ...)"
    if any(window.by_variable for window in timing.windows):
        return "a window is on each stream"
    if any(isinstance(node, Select) and node.is_cut and not node.order for node in nodes_of(select)):
        return "LIMIT or OFFSET without ORDER BY cuts the order in which rows came first, at whatever close that was"
    if (why := why_other_order(query, select)) is not None:
        return why
    if state.gap:
        return "it was resumed, and its next emission says so, whichever stretch that is in"
    return ""


def why_other_order(query: Query, select: Select) -> str | None:
    """Terms that a query computes have other ids in another process, and the rows of an emission may be in the order of
    their ids: why that is so; None: it is not, or rows differ in the columns before."""
    computed = _computed(select)
    if query.form is Form.ASK:
        return None
    if query.form is Form.CONSTRUCT:
        template = query.shape.template or ()
        if any(isinstance(term, BlankLabel) for each in template for term in (each.subject, each.object)):
            return "CONSTRUCT makes blank nodes, which decide the order of the triples"
        return "the order of the triples may depend on what is computed" if computed else None
    place = next((place for place, name in enumerate(select.names) if name in computed), None)
    if place is None or (select.grouping is not None and {*select.grouping.keys} <= {*select.names[:place]}):
        return None
    return f"the order of its rows may depend on ?{select.names[place]}, which is computed"


def _computed(select: Select) -> set[str]:
    """The variables whose values the query makes."""
    found = set[str]()
    for node in nodes_of(select):
        if isinstance(node, Assign):
            found.add(node.variable)
        elif isinstance(node, Select):
            found |= {name for name, _ in (*node.before, *node.after)}
            found |= set() if node.grouping is None else {each.variable for each in node.grouping.aggregates}
    return found


# ---- how long it takes


def schedule_of(planned: PlannedQuery, store: Store, sn: int) -> Schedule:
    """What of the past is due from the state of a query on."""
    return Schedule(planned.timing, planned.state, store.vts(sn))


def expected_s(schedule: Schedule, positions: Mapping[int, StreamPosition]) -> float:
    """How long one process is expected to need for all closes that are due, if the query does little."""
    if (due := _all_due(schedule)) is None:
        return 0.0
    elements = 0.0
    for stream in schedule.streams():
        at = positions.get(stream)
        if at is not None and at.first is not None and at.latest is not None:
            length = max(1, at.latest - at.first)
            within = min(at.latest, due.last) - max(at.first, _start_of(schedule, stream))
            elements += at.elements_total * min(1.0, max(0, within) / length)
    return due.count() * CLOSE_S + elements * ELEMENT_S


def stretch_s(reread_s: float) -> float:
    """How long a stretch should be that first reads, for so long, what its windows hold."""
    return max(_STRETCH_S, reread_s / _REREADING)


class CutMarks(NamedTuple):
    """`work_s`: the work up to each cut. Not `is_all`: there is more behind the last one, which is cut later."""

    work_s: Sequence[float]
    is_all: bool

    @classmethod
    def of(cls, expected_s: float, reread_s: float, lanes: int) -> CutMarks:
        """Of so much work, for so many tasks at a time, if a stretch first reads its windows for `reread_s`."""
        count = max(lanes * _STRETCHES_PER_LANE, int(expected_s / stretch_s(reread_s)))
        cuts = min(count - 1, _CUTS_MAX)
        return cls([expected_s * number / count for number in range(1, cuts + 1)], cuts == count - 1)


class Cuts(msgspec.Struct, frozen=True, tag=True):
    """How long one process is expected to need for all, and the states with which the other stretches begin. Not
    `is_all`: the last of them is where it is to be cut again."""

    expected_s: float
    starts: Sequence[QueryState]
    is_all: bool


def _all_due(schedule: Schedule) -> RepeatedTimes | None:
    bound = schedule.bound()
    return None if bound is None else schedule.run_until(bound)


def _start_of(schedule: Schedule, stream: int) -> int:
    """The least time of an element of the stream in a window."""
    windows = (window for window in schedule.windows if window.stream == stream)
    return min(window.start_ms for window in windows if window.start_ms is not None)


# ---- where the past is cut


def cuts(planned: PlannedQuery, store: Store, sn: int, lanes: int, close_s: float) -> Cuts:
    """Where the past is cut into stretches of about the same work, for so many tasks at a time, if an evaluation takes
    `close_s`."""
    schedule = schedule_of(planned, store, sn)
    due = _all_due(schedule)
    if due is None:
        return Cuts(0.0, [], True)
    times = _times(store, sn, schedule)

    def work_s(time: int) -> float:
        """That of the closes up to this time."""
        run = schedule.run_until(time)
        elements = sum(int(np.searchsorted(each, time)) for each in times.values())
        return elements * ELEMENT_S + (0 if run is None else run.count()) * close_s

    span, whole_s, found = range(due.first, due.last), work_s(due.last), list[int]()
    marks = CutMarks.of(whole_s, (whole_s - due.count() * close_s) / 2, lanes)  # on average half of the elements
    for mark_s in marks.work_s:
        place = bisect_left(span, mark_s, key=work_s)
        cut = _close_with_content(schedule, times, due.first + place)
        if cut is not None and cut < due.last and (not found or cut > found[-1]):
            found.append(cut)
    return Cuts(whole_s, [state_after(planned, store, sn, close) for close in found], marks.is_all or not found)


def _times(store: Store, sn: int, schedule: Schedule) -> dict[int, Times]:
    """Of each stream those of all elements that may be in a window, in order."""
    found: dict[int, Times] = {}
    for stream, needed in reach(schedule.windows, None).items():
        some = [arrival.element_times for arrival in history(store, stream, sn, needed)]
        times = np.sort(np.concatenate([np.empty(0, np.int64), *some]))
        found[stream] = times[np.searchsorted(times, _start_of(schedule, stream)) :]
    return found


def _close_with_content(schedule: Schedule, times: Mapping[int, Times], time: int) -> int | None:
    """The first close from `time` on at which a window holds something; of those at which an element has come into it
    since the close before, if none is in it at first."""
    close = close_from(schedule, time)
    for _ in range(_LOOKED_AT):
        if close is None or any(_holds(window, times[window.stream], close) for window in schedule.windows):
            return close
        entries = [
            int(after[0]) + window.lead_ms
            for window in schedule.windows
            if len(after := _after(times[window.stream], close - window.lead_ms))
        ]
        close = close_from(schedule, min(entries)) if entries else None
    return None


def _after(times: Times, time: int) -> Times:
    return times[np.searchsorted(times, time, "right") :]


def close_from(schedule: Schedule, time: int) -> int | None:
    """The first close from `time` on that is not done."""
    later = schedule.copy()
    if later.after is None or time - 1 > later.after:
        later.done(time - 1)
    return later.upcoming()


def _holds(window: ScheduledWindow, times: Times, close: int) -> bool:
    """Whether an element is in the window at this close: what is later stays longer."""
    place = int(np.searchsorted(times, close - window.lead_ms, "right"))
    return place > 0 and window.last_of(int(times[place - 1])) >= close


def state_after(planned: PlannedQuery, store: Store, sn: int, close: int) -> QueryState:
    """The state of the query after this close, without the number that the evaluation has."""
    schedule = schedule_of(planned, store, sn)
    schedule.done(close)
    evaluated = LastEvaluation(sn, 0, -1, close)
    return within(schedule.state(evaluated, None, sn), sn, 0, 0)


def within(state: QueryState, sn: int, push: int, evaluations: int) -> QueryState:
    """The state as one in the middle of snapshot `sn`, after so many evaluations, of which this push made the last
    due."""
    return msgspec.structs.replace(state, ended=False).behind(sn - 1, Within(push, evaluations))
