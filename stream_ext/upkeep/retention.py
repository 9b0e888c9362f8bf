"""Retention: what a running service still needs of its store. The store may delete the rest.

    floor      the oldest snapshot that may be read: that of `snapshots_ms` ago; or an older one from which a registered
               query would continue after a restart
    horizon    of each stream, the oldest snapshot whose elements are needed: by a window of a registered query (as it
               would be rebuilt, or was at the floor), or for the stream's own `retention`
    emissions  those of the last `emissions_ms`

All of it is computed in the writer's thread, in the order of the registrations: so what a query finds at its
registration does not depend on the runner that builds it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from hbase_store import Store
from hbase_store.errors import StoreUnavailable
from hbase_store.terms.transient import BYTES_MAX as TRANSIENT_BYTES_MAX
from stream_ext.catalog.catalog import Catalog, StreamDefinition
from stream_ext.catalog.registered import Registered
from stream_ext.clock import Clock
from stream_ext.emissions.groups import Stored
from stream_ext.emissions.saved_windows import SavedWindows
from stream_ext.errors import Overload, RilletError
from stream_ext.language.algebra.walk import reads_store
from stream_ext.upkeep.alarms import Alarms
from stream_ext.upkeep.stream_history import StreamHistory
from stream_ext.windows.arrivals import Reach, first_needed
from stream_ext.windows.occupancy import reach
from stream_ext.windows.query_state import QueryState
from stream_ext.windows.timing import Timing
from stream_ext.writer.change import Change, HeadView, Intent

#: The time between two computations; and the same while windows alone fill the budget.
_EVERY_MS, _FULL_EVERY_MS = 10_000, 1_000


@dataclass(frozen=True, slots=True)
class Retain:
    """`timing_bytes`: the limit for the elements of all streams, as far as the store does not absorb them."""

    snapshots_ms: int = 300_000
    emissions_ms: int = 3_600_000
    timing_bytes: int = 1 << 30


@dataclass(slots=True, unsafe_hash=True)
class _Needs:
    """What registered queries read: windows at their evaluation times, and perhaps the store."""

    timing: Timing
    reads_store: bool
    pace_ms: int  # between two evaluations, at most
    queries: int = field(default=0, compare=False)  # so many

    @property
    def streams(self) -> frozenset[int]:
        return frozenset(window.stream for window in self.timing.windows)


#: Queries that read the same and have the same state: one of them, what it reads, and its state.
_Place = tuple[int, _Needs, QueryState]


class Retention:
    def __init__(
        self,
        store: Store,
        clock: Clock,
        alarms: Alarms,
        stored: Callable[[], Stored],
        retain: Retain,
        submit: Callable[[Change], Future[Any]],
        collect_emissions: Callable[[int], None],
        saved: Callable[[int], SavedWindows | None],
    ) -> None:
        """`submit` executes a change in the writer's thread; `collect_emissions` deletes emissions of before a time;
        `saved` is what is saved of a query's windows that hold all."""
        self._collect, self._saved = collect_emissions, saved
        self._store, self._clock, self._alarms, self._retain = store, clock, alarms, retain
        self._stored, self._submit = stored, submit
        self._histories: dict[int, StreamHistory] = {}
        self._queries: dict[int, _Needs] = {}
        #: Streams of queries that have ended, and the snapshot from which on they do not read them.
        self._left: list[tuple[int, frozenset[int]]] = []
        self._needs: dict[_Needs, _Needs] = {}  # those that are equal are one
        self._last: tuple[Registered, _Needs] | None = None  # of the query that was followed last
        self._collected_batches = self._collected_bytes = 0
        self._floor_holder: str | None = None
        self._holders: dict[int, str] = {}  # of streams of which queries need more than the stream's own retention
        self._fault: str | None = None
        self.is_full = False

    def start(self, catalog: Catalog) -> None:
        """Call it when the queries of the catalog are followed."""
        for stream in catalog.streams:
            self._histories[stream] = StreamHistory.read(self._store, stream)
        # Which queries read which streams between their position and the head is not known here.
        self._left = [(int(self._store.head()), frozenset(catalog.streams))]
        self._alarms.set("retention", self._clock.now_ms() + _EVERY_MS, self._due)

    # ---- in the writer's thread --------------------------------------------------------------------------------

    def follow(self, query: int, registered: Registered) -> None:
        timing = registered.timing
        if not timing.windows:
            return  # it is built at the position of all queries, and needs nothing older
        self._release(query)
        self._queries[query] = needs = self._needs_of(registered)
        needs.queries += 1

    def _needs_of(self, registered: Registered) -> _Needs:
        timing, last = registered.timing, self._last
        if last is not None and last[0].timing is timing and last[0].like is registered.like and last[1].queries:
            return last[1]
        pace_ms = max([*(window.step_ms for window in timing.windows), *timing.every_ms])
        needs = _Needs(timing, reads_store(registered.like), pace_ms)
        needs = self._needs.setdefault(needs, needs)
        self._last = registered, needs
        return needs

    def timing_of(self, query: int) -> Timing | None:
        """Any thread may call. None: it has no windows, or is not evaluated."""
        needs = self._queries.get(query)
        return None if needs is None else needs.timing

    def forget(self, query: int, sn: int) -> None:
        """The query is not stepped any more from this snapshot on."""
        if (needs := self._release(query)) is not None:
            self._left.append((sn, needs.streams))

    def _release(self, query: int) -> _Needs | None:
        needs = self._queries.pop(query, None)
        if needs is not None:
            needs.queries -= 1
            if not needs.queries:
                del self._needs[needs]
        return needs

    def published(self, sn: int, view: HeadView) -> None:
        row = self._store.row(sn)
        for place in row.places:
            time = view.positions[place.stream].time_last
            if time is not None:
                if (history := self._histories.get(place.stream)) is None:
                    history = self._histories[place.stream] = StreamHistory()
                history.append(sn, time, row.published_ms, place.slice_bytes)
        for gone in [stream for stream in self._histories if stream not in view.catalog.streams]:
            del self._histories[gone]
        if self._timing_bytes() > self._retain.timing_bytes and not self.is_full:
            self._look(view)

    def _timing_bytes(self) -> int:
        return sum(
            history.nbytes for history in list(self._histories.values())
        )  # called by any thread, while the writer adds

    def _look(self, view: HeadView) -> Intent:
        """Computes floor and horizons, and sets them. A change that the alarms submit; it publishes no snapshot."""
        stored = self._stored()
        places = _since(int(self._store.oldest()), self._places(view, stored))
        try:
            floor, horizons = self._needed(view, stored.position, places)
            if self._bytes_from(horizons) > self._retain.timing_bytes:
                # Over the budget, queries that wait for a remote endpoint lose what only they need.
                there = self._floor(view, stored.position, [place for place in places if _behind_at(place[2]) is None])
                floor, horizons = self._needed(view, stored.position, _since(there, places))
            self._store.floor(floor, horizons)
            self._fault = None
        except StoreUnavailable as error:  # shown in the status; the next alarm tries again
            self._fault = str(error)
        for stream, history in self._histories.items():
            batches, size = history.drop_below(self._store.horizon(stream))
            self._collected_batches += batches
            self._collected_bytes += size
        self.is_full = self._timing_bytes() > self._retain.timing_bytes
        if self.is_full:
            self._alarms.set("retention", self._clock.now_ms() + _FULL_EVERY_MS, self._due)
        return Intent(result=lambda _: None)

    def _needed(self, view: HeadView, position: int, places: Sequence[_Place]) -> tuple[int, dict[int, int]]:
        """The oldest snapshot that is needed, and for each stream the oldest whose elements are needed."""
        floor = self._floor(view, position, places)
        position = min([position, *(sn for *_, state in places if (sn := _behind_at(state)) is not None)])
        return floor, self._horizons(view, floor, position, places)

    def _bytes_from(self, horizons: Mapping[int, int]) -> int:
        return sum(self._histories[stream].nbytes_from(horizon) for stream, horizon in horizons.items())

    def _places(self, view: HeadView, stored: Stored) -> list[_Place]:
        """The different states of queries, each once, however many queries have it."""
        found: dict[tuple[object, ...], _Place] = {}
        for number in self._queries.keys() - stored.grouped:
            needs = self._queries[number]
            state = view.catalog.queries[number].current_state(stored.states.get(number))
            # What is saved of windows that hold all is saved for each query.
            own = number if any(window.holds_all for window in needs.timing.windows) else None
            key = (
                id(needs),
                state.t0,
                state.registered,
                state.evaluated,
                state.after,
                state.last,
                state.behind_at,
                own,
            )
            found.setdefault(key, (number, needs, state))
        # The queries of a group read the same, and have its state, or a later one if they were resumed since.
        for queries, state in stored.groups:
            some = next((number for number in map(int, queries) if number in self._queries), None)
            if some is not None:
                found[some,] = some, self._queries[some], state
        return list(found.values())

    def _floor(self, view: HeadView, position: int, places: Sequence[_Place]) -> int:
        """The snapshot that was the newest `snapshots_ms` ago, or an older one that a query needs."""
        by_time = self._newest_before(self._clock.now_ms() - self._retain.snapshots_ms, view.head)
        oldest_by_holder = {"the queries' position": position}
        for number, needs, state in places:
            if needs.reads_store and state.evaluated is not None:
                oldest_by_holder[view.catalog.queries[number].name] = state.evaluated.sn
            if (behind_at := _behind_at(state)) is not None:
                name = view.catalog.queries[number].name
                oldest_by_holder[name] = min(oldest_by_holder.get(name, behind_at), behind_at)
        holder = min(oldest_by_holder, key=lambda name: oldest_by_holder[name])
        self._floor_holder = holder if oldest_by_holder[holder] < by_time else None
        return min(by_time, oldest_by_holder[holder])

    def _newest_before(self, time_ms: int, head: int) -> int:
        low, high = int(self._store.oldest()), head
        while low < high:
            middle = (low + high + 1) // 2
            if self._store.row(middle).published_ms <= time_ms:
                low = middle
            else:
                high = middle - 1
        return low

    def _horizons(self, view: HeadView, floor: int, position: int, places: Sequence[_Place]) -> dict[int, int]:
        windows = {stream: history.end for stream, history in self._histories.items()}
        horizons = dict(windows)
        for stream, history in self._histories.items():
            retention_ms = view.catalog.streams[stream].options.retention_ms
            horizons[stream] = history.first_published(self._clock.now_ms() - retention_ms)
        holders: dict[int, str] = {}
        for number, needs, state in places:
            at = min(position, floor, *([] if state.evaluated is None else [state.evaluated.sn]))
            timed, reference = needs.timing.windows, needs.timing.reference(state)
            saved = self._saved_up_to(number, needs, state, at)
            needed = self._lower(windows, reach(timed, reference, (at, 0), saved), view.head)
            then = self._reference_at(floor, view, state, needs)
            lowered = self._lower(horizons, reach(timed, then, (at, 0), saved), view.head)
            later = [stream for stream in needed if windows[stream] < horizons[stream]]
            holders.update(dict.fromkeys([*lowered, *later], view.catalog.queries[number].name))
        self._holders = holders
        # A runner reads all elements after `position`, even those that are too late for every window.
        self._left = [(sn, streams) for sn, streams in self._left if sn > position]
        different = {id(needs): needs for needs in self._queries.values()}.values()
        stepped = [needs.streams for needs in different] + [streams for _, streams in self._left]
        for stream in windows.keys() & frozenset[int]().union(*stepped):
            windows[stream] = min(windows[stream], self._histories[stream].first_after(position))
        horizons = {stream: min(horizon, windows[stream]) for stream, horizon in horizons.items()}
        return self._within_budget(horizons, windows)

    def _saved_up_to(self, query: int, needs: _Needs, state: QueryState, before: int) -> dict[int, int]:
        """Of each stream the snapshot up to which windows that hold all are saved, for an evaluation in `before`."""
        if state.evaluated is None or not any(window.holds_all for window in needs.timing.windows):
            return {}
        saved = self._saved(query)
        return {} if saved is None else saved.up_to(state.began, before)

    def _lower(self, horizons: dict[int, int], needs: Mapping[int, Reach], head: int) -> list[int]:
        """Lowers the horizons to what is needed; returns the streams whose horizon was lowered."""
        lowered = []
        for stream, reach_back in needs.items():
            if stream in horizons:
                history, time = self._histories[stream], reach_back.oldest
                needed = history.begin if time is None else history.first_at(time)
                if reach_back.after is not None:
                    needed = min(needed, history.first_after(reach_back.after))
                if reach_back.counts and time is not None:
                    # Which elements are the last ones is in the store; it has them as long as they are.
                    first = first_needed(self._store, stream, head, reach_back)
                    needed = needed if first is None else min(needed, first)
                if needed < horizons[stream]:
                    horizons[stream] = needed
                    lowered.append(stream)
        return lowered

    def _reference_at(self, floor: int, view: HeadView, state: QueryState, needs: _Needs) -> int | None:
        """The last evaluation at the floor, or one before it; None: there was none."""
        reference, vector = needs.timing.reference(state), self._store.vts(floor)
        if reference is None:
            return None
        # A stream without any time has held back no evaluation since the floor.
        windows = [w for w in needs.timing.windows if w.stream in vector or w.stream in view.positions]
        reached = [w.closed_up_to(vector[w.stream]) if w.stream in vector else None for w in windows]
        known = [time for time in reached if time is not None]
        if not known or (len(known) < len(reached) and needs.timing.has_beats):
            return None
        return min(reference, min(known) - needs.pace_ms)

    def _within_budget(self, horizons: dict[int, int], windows: Mapping[int, int]) -> dict[int, int]:
        """Over the budget, elements that no window needs are given up, the oldest first."""
        left = self._bytes_from(horizons)
        if left <= self._retain.timing_bytes:
            return horizons
        spare = sorted(
            entry
            for stream, horizon in horizons.items()
            for entry in self._histories[stream].between(stream, horizon, windows[stream])
        )
        for _, stream, sn, size in spare:
            if left <= self._retain.timing_bytes:
                break
            horizons[stream] = sn + 1
            left -= size
        return horizons

    # ---- any thread --------------------------------------------------------------------------------------------

    def check_room(self, stream: StreamDefinition) -> None:
        if self.is_full and stream.options.timeless is not True:
            raise Overload(
                f"the windows of the registered queries contain {self._timing_bytes()} bytes of elements, "
                f"more than --timing-bytes {self._retain.timing_bytes}: push again when the windows have "
                "moved on (a heartbeat advances a silent stream), shorten the windows, or raise the limit",
                1,
            )

    def look(self) -> None:
        """Computes floor and horizons at once, not at the next alarm."""
        self._submit(self._look).result()
        self._collect_emissions()

    def _collect_emissions(self) -> None:
        self._collect(self._clock.now_ms() - self._retain.emissions_ms)

    def _due(self) -> None:
        """In the alarms' thread."""
        self._alarms.set("retention", self._clock.now_ms() + _EVERY_MS, self._due)
        try:
            self._submit(self._look).add_done_callback(self._looked)
        except RilletError as error:  # the writer has stopped, or has too much to do: the next alarm tries again
            self._fault = str(error)
            return
        try:
            self._collect_emissions()
        except StoreUnavailable as error:  # shown in the status; the next alarm tries again
            self._fault = str(error)

    def _looked(self, done: Future[Any]) -> None:
        if not done.cancelled() and (error := done.exception()) is not None:
            self._fault = f"{type(error).__name__}: {error}"

    def status(self, catalog: Catalog) -> dict[str, Any]:
        terms, size = self._store.transient_terms()
        streams = {
            catalog.streams[stream].name: {
                "from": int(self._store.horizon(stream)),
                "oldest_time": history.oldest_time,
                "timing_bytes": history.nbytes,
                "held_by": self._holders.get(stream),
            }
            for stream, history in self._histories.copy().items()
            if stream in catalog.streams
        }
        return {
            "oldest_snapshot": int(self._store.oldest()),
            "held_by": self._floor_holder,
            "snapshots_ms": self._retain.snapshots_ms,
            "emissions_ms": self._retain.emissions_ms,
            "streams": streams,
            "timing_bytes": self._timing_bytes(),
            "timing_bytes_max": self._retain.timing_bytes,
            "transient_terms": {"count": terms, "bytes": size, "bytes_max": TRANSIENT_BYTES_MAX},
            "full": self.is_full,
            "collected": {"batches": self._collected_batches, "bytes": self._collected_bytes},
            "fault": self._fault,
        }


def _since(floor: int, places: Sequence[_Place]) -> list[_Place]:
    """Without queries that would continue before this snapshot: they begin anew."""
    return [place for place in places if (sn := _behind_at(place[2])) is None or sn >= floor]


def _behind_at(state: QueryState) -> int | None:
    """The snapshot from which the query will continue; None: it is not behind."""
    return state.behind_at if state.behind_at is not None and state.behind_at >= 0 else None
