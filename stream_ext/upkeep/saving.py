"""Saving: the content of windows that hold all ([ALL]) is saved regularly, so that their streams' history can go.

Every 30 seconds, for each query with such a window:

    1. the elements that came since the last save, up to the last evaluation that is stored, are read and folded into
       few rows (`SavedContent`);
    2. their terms become permanent: their ids stay in the query's network when the elements are gone;
    3. the rows are stored in the emission log, and then a commit names them: from there on the save counts.

When what came since is more than the oldest point has, points become one, as far as nobody continues from before them;
so a save costs what came, and what is stored is as large as the content. A runner that builds a query's network reads
the saved content, and of the stream only what came after it; retention keeps no more (`Retention`)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec
import numpy as np

from hbase_store import Batch, EmissionRow, Store
from hbase_store.layout.terms import inline_id
from stream_ext.catalog.registered import Registered
from stream_ext.clock import Clock
from stream_ext.emissions.merge import Merge
from stream_ext.emissions.saved_windows import SavedPoint, SavedWindows, content_of
from stream_ext.network.operators.core.pattern import IdPattern, id_pattern
from stream_ext.upkeep.alarms import Alarms
from stream_ext.upkeep.read_of_windows import ReadOfWindows
from stream_ext.windows.arrivals import Ids, Mask, Reach, history
from stream_ext.windows.query_state import QueryState
from stream_ext.windows.saved_content import Keeping, SavedContent
from stream_ext.windows.scheduled_window import ALWAYS, NEVER
from stream_ext.windows.timing import Timing
from stream_ext.writer.change import Change, HeadView, Intent

EVERY_MS = 30_000
#: So long rows stay that a save has replaced: a runner may be reading them.
_GRACE_MS = 300_000
#: So many rows are folded at once; are in one row of the log; and so many terms are made permanent at once.
_AT_ONCE, _ROWS_TOGETHER, _TERMS_TOGETHER = 1 << 20, 1 << 17, 1 << 16
#: Points with so few rows more are not worth a new whole one, unless they are so many.
_FEW, _POINTS_MAX = 4096, 64
#: Stands for any term that nothing looks at.
_ANY_TERM = np.uint64(inline_id(b'"true"^^<http://www.w3.org/2001/XMLSchema#boolean>'))


@dataclass(frozen=True, slots=True)
class _Retained:
    """What a query's windows that hold all contain of one stream. `patterns` None: everything."""

    keeping: Keeping
    patterns: tuple[IdPattern, ...] | None
    unread: tuple[int, ...]

    def of(self, content: SavedContent) -> SavedContent:
        """Of new content what the query reads."""
        columns = [content.s, content.p, content.o, content.g]
        if self.patterns is not None:
            fits: Mask = np.zeros(len(content), np.bool_)
            for pattern in self.patterns:
                fits |= pattern.match_in_window(columns)[0]
            content = content.where(fits)
        return content.without(self.unread, _ANY_TERM)


@dataclass(frozen=True, slots=True)
class _Query:
    registered: Registered
    streams: tuple[int, ...]  # of which a window holds all


class Saving:
    """`look` is called by one thread at a time: that of the alarms' call, or a test."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        alarms: Alarms,
        merge: Merge,
        submit: Callable[[Change], Future[Any]],
        new_number: Callable[[], int],
    ) -> None:
        self._store, self._clock, self._alarms, self._merge = store, clock, alarms, merge
        self._submit, self._new_number = submit, new_number
        self._queries: dict[int, _Query] = {}
        self._left: set[int] = set()  # queries that are not evaluated any more
        self._replaced: dict[int, list[tuple[int, int]]] = {}  # of records: when, and up to which row
        self._looking = threading.Lock()
        self._due, self._closed = threading.Event(), False
        self._thread = threading.Thread(target=self._run, name="rillet-saving", daemon=True)
        self.fault: str | None = None

    # ---- in the writer's thread --------------------------------------------------------------------------------

    def follow(self, query: int, registered: Registered) -> None:
        streams = tuple(sorted({window.stream for window in registered.timing.windows if window.holds_all}))
        if streams and registered.timing.ends_at is None:
            self._queries[query] = _Query(registered, streams)

    def forget(self, query: int) -> None:
        if self._queries.pop(query, None) is not None:
            self._left.add(query)

    def start(self) -> None:
        self._alarms.set("saving", self._clock.now_ms() + EVERY_MS, self._alarm)
        self._thread.start()

    def close(self) -> None:
        self._closed = True
        self._due.set()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join()

    def _alarm(self) -> None:
        self._alarms.set("saving", self._clock.now_ms() + EVERY_MS, self._alarm)
        self._due.set()

    def _run(self) -> None:
        while True:
            self._due.wait()
            self._due.clear()
            if self._closed:
                return
            try:
                self.look()
                self.fault = None
            except Exception as error:  # noqa: BLE001 -- shown in the status; the history stays, and the next alarm tries
                self.fault = f"{type(error).__name__}: {error}"

    # ---- saving ------------------------------------------------------------------------------------------------

    def look(self) -> None:
        """Saves what has changed. If that fails for a query, the others are saved all the same."""
        failed: list[Exception] = []
        with self._looking:
            for number in self._left - self._queries.keys():
                self._merge.save(number, None)
            self._left.clear()
            states = self._merge.stored().states if self._queries else {}
            for number, query in self._queries.copy().items():
                state = states.get(number)
                if state is not None and state.evaluated is not None and not self._closed:
                    try:
                        self._save(number, query, state)
                    except Exception as error:  # noqa: BLE001 -- raised below
                        failed.append(error)
            self._delete_replaced()
        if failed:
            raise failed[0]

    def _save(self, number: int, query: _Query, state: QueryState) -> None:
        saved = self._merge.saved(number) or SavedWindows(self._new_number(), number)
        writing = _Writing(saved.number, self._store.emissions.last(saved.number))
        points = [point for stream in query.streams for point in self._points(stream, query, state, saved, writing)]
        if not writing.rows:
            return
        self._make_permanent(writing.ids)
        new = msgspec.structs.replace(saved, points=points)
        self._merge.save(number, new, writing.rows)
        if (first := new.first_number) is not None:
            self._replaced.setdefault(saved.number, []).append((self._clock.now_ms(), first - 1))

    def _points(
        self, stream: int, query: _Query, state: QueryState, saved: SavedWindows, writing: _Writing
    ) -> list[SavedPoint]:
        """The points of a stream from now on."""
        evaluated, timing = state.evaluated, query.registered.timing
        assert evaluated is not None, "it is saved as of its last evaluation"
        points = self._merged(saved, saved.of(stream, state.began), evaluated.sn, writing)
        after, sn = points[-1].sn if points else None, evaluated.sn - 1
        if sn <= max(state.began, after or 0):
            return points
        retained, time = self._retained(query.registered, stream), _reached_by(timing, state)
        came = self._came(stream, after, sn, retained, time)
        if came is None:
            return points
        return [*points, SavedPoint(stream, sn, time, retained.keeping, len(came), writing.add(came))]

    def _merged(
        self, saved: SavedWindows, points: list[SavedPoint], evaluated: int, writing: _Writing
    ) -> list[SavedPoint]:
        """The same points, or one in place of the first ones, if these have become many."""
        limit = min(int(self._store.oldest()), evaluated)
        some = [point for point in points if point.sn < limit]
        if sum(point.rows for point in some[1:]) <= (some[0].rows + _FEW if some else 0) and len(some) <= _POINTS_MAX:
            return points
        last = some[-1]
        content = SavedContent.joined([content_of(self._store.emissions, saved, point) for point in some])
        content = content.folded(last.keeping, last.time)
        whole = SavedPoint(last.stream, last.sn, last.time, last.keeping, len(content), writing.add(content))
        return [whole, *points[len(some) :]]

    def _came(self, stream: int, after: int | None, sn: int, retained: _Retained, time: int) -> SavedContent | None:
        """What came after the snapshot `after`, up to `sn`; None: nothing."""
        parts, rows = list[SavedContent](), 0
        needed = Reach(None) if after is None else Reach(ALWAYS, after=after)
        for arrival in history(self._store, stream, sn, needed):
            parts.append(retained.of(SavedContent.of(arrival)))
            rows += len(parts[-1])
            if rows > _AT_ONCE:
                parts, rows = [SavedContent.joined(parts).folded(retained.keeping, time)], 0
        return SavedContent.joined(parts).folded(retained.keeping, time) if parts else None

    def _make_permanent(self, ids: Ids) -> None:
        transient = ids[self._store.are_transient(ids)]
        for start in range(0, len(transient), _TERMS_TOGETHER):
            texts = self._store.terms(transient[start : start + _TERMS_TOGETHER])
            self._submit(partial(_permanent, texts)).result()

    def _delete_replaced(self) -> None:
        before_ms = self._clock.now_ms() - _GRACE_MS
        for number, replaced in list(self._replaced.items()):
            due = [last for at_ms, last in replaced if at_ms <= before_ms]
            if due:
                self._store.emissions.let_go(number, due[-1])
                self._replaced[number] = [(at_ms, last) for at_ms, last in replaced if at_ms > before_ms]

    def _retained(self, registered: Registered, stream: int) -> _Retained:
        windows = {w.name: w for w in registered.timing.windows if w.stream == stream and w.holds_all}
        read = ReadOfWindows.of(registered.select, windows.keys())
        bag = any(window.bag for window in windows.values())
        keeping = Keeping.LATEST if not bag else Keeping.EACH if read.ordered else Keeping.COUNTED
        if read.patterns is None:
            return _Retained(keeping, None, ())
        patterns = tuple(id_pattern(each, self._resolve) for each in read.patterns)
        return _Retained(keeping, patterns, read.unread if keeping is Keeping.COUNTED else ())

    def _resolve(self, text: bytes) -> int:
        return int(self._store.ids([text])[0])


class _Writing:
    """New rows of a save, and the ids in them."""

    def __init__(self, number: int, last: int) -> None:
        self._number, self._last = number, last
        self.rows: list[EmissionRow] = []
        self._ids: list[Ids] = []

    def add(self, content: SavedContent) -> list[int]:
        """The numbers of its rows of the log."""
        first = self._last + 1
        for start in range(0, max(len(content), 1), _ROWS_TOGETHER):
            part = content.where(np.arange(start, min(start + _ROWS_TOGETHER, len(content))))
            self._last += 1
            self.rows.append(EmissionRow(self._number, self._last, part.pack()))
        self._ids += [np.unique(column) for column in (content.s, content.p, content.o, content.g)]
        return list(range(first, self._last + 1))

    @property
    def ids(self) -> Ids:
        found: Ids = np.unique(np.concatenate(self._ids))
        named: Ids = found[found != 0]
        return named


def _permanent(texts: Sequence[bytes], view: HeadView) -> Intent:
    """A change that makes terms permanent, under the ids that they have."""

    def write(batch: Batch) -> None:
        batch.encode(texts)

    return Intent(result=lambda sn: sn, write=write)


def _reached_by(timing: Timing, state: QueryState) -> int:
    """The time up to which elements are in the windows at each later evaluation."""
    assert state.evaluated is not None
    if not timing.has_beats:
        return state.evaluated.time
    closed = state.evaluated.time if not timing.arrivals else min(state.evaluated.time, state.after or NEVER)
    return closed - 1 if closed > NEVER else NEVER  # an element at a close may belong to the next instance
