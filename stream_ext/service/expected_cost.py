"""What a registered query is expected to cost, from the rates of its streams and the counts of the store.

It is told at registration and by EXPLAIN. The rate of a stream is that of all its triples; how many of them a pattern
takes is that of the last snapshot that brought some, while it is retained. What is not known is guessed; the streams
without a rate are named."""

from __future__ import annotations

import math
from typing import Any

from hbase_store import Store, StreamColumns, StreamPosition
from hbase_store.errors import SnapshotGone
from stream_ext.catalog.catalog import Catalog
from stream_ext.catalog.registered import Registered
from stream_ext.network.estimate import Estimates
from stream_ext.network.operators.core.pattern import IdPattern, id_pattern
from stream_ext.plan.logic import PatternScan, nodes_of
from stream_ext.windows.scheduled_window import ScheduledWindow

#: Of the state: a row of a window or a join; a network; a query of a network that there is already.
_ROW_BYTES, _NETWORK_BYTES, _QUERY_BYTES = 100, 25_000, 2_000
#: CPU milliseconds of an evaluation, and of each row that comes, and each row of the answer, in each operator.
_EVALUATION_MS, _ROW_MS = 0.15, 0.0005
#: Rows in a window whose stream has no rate yet.
_UNKNOWN_ROWS = 1_000.0


def expected_cost(registered: Registered, catalog: Catalog, store: Store, sharing: int) -> dict[str, Any]:
    """`sharing`: how many registered queries have its template already."""
    windows = _Windows(registered, store)
    scans = [node for node in nodes_of(registered.select) if isinstance(node, PatternScan) and node.window is not None]
    in_windows, coming = sum(map(windows.rows, scans)), sum(map(windows.coming, scans))
    estimates = Estimates(store.at(), windows.pattern_of, windows.rows)
    answer = estimates.rows(registered.select, frozenset())
    share = coming / in_windows if in_windows and registered.like.emits.value != "RSTREAM" else 1.0
    rows = answer * min(1.0, share)
    state_bytes = int(_ROW_BYTES * (in_windows + answer)) + (_QUERY_BYTES if sharing else _NETWORK_BYTES)
    cpu_ms = (0.0 if sharing else _EVALUATION_MS) + _ROW_MS * (coming * (1 + len(scans)) + answer)
    cost = {
        "elements": round(in_windows),
        "rows_a_close": _rounded(rows),
        "state_bytes": state_bytes,
        "cpu_ms_a_close": _rounded(cpu_ms),
        "closes_a_second": windows.closes_a_second,
        "sharing": sharing,
        "guessed": windows.guessed,
    }
    return {**cost, "says": _in_words(cost)}


class _Windows:
    """How many rows the patterns of a query have in their windows. `guessed`: the streams without a rate."""

    def __init__(self, registered: Registered, store: Store) -> None:
        self._windows, self._store = registered.timing.windows, store
        self._positions = store.vts(int(store.head()))
        self.guessed: list[str] = []
        for window, label in zip(self._windows, registered.labels, strict=True):
            if label not in self.guessed and self._rate(window) is None:
                self.guessed.append(label)

    @property
    def closes_a_second(self) -> float | None:
        """None: it is evaluated at arrivals."""
        steps = [window.step_ms for window in self._windows if window.step_ms]
        return round(1000 / min(steps), 3) if steps else None

    def pattern_of(self, scan: PatternScan) -> IdPattern:
        return id_pattern(scan, lambda text: int(self._store.ids([text])[0]))

    def rows(self, scan: PatternScan) -> float:
        """In the window at a time."""
        window = self._window(scan)
        rate, share = self._rate(window), self._share(scan, window)
        if window.count is not None:
            return window.count.most * share
        if rate is None:
            return _UNKNOWN_ROWS * share
        position = self._positions[window.stream]
        return share * (position.triples_total if window.holds_all else rate * max(1, window.range_ms))

    def coming(self, scan: PatternScan) -> float:
        """From one close to the next."""
        window = self._window(scan)
        rate, rows = self._rate(window), self.rows(scan)
        if rate is None or not window.step_ms:
            return min(1.0, rows)
        return min(rows, rate * window.step_ms * self._share(scan, window))

    def _window(self, scan: PatternScan) -> ScheduledWindow:
        return next((each for each in self._windows if each.name == scan.window), self._windows[0])

    def _rate(self, window: ScheduledWindow) -> float | None:
        """Triples a millisecond of the stream's time."""
        position: StreamPosition | None = self._positions.get(window.stream)
        if position is None or position.latest is None or position.first is None:
            return None
        passed_ms = position.latest - position.first
        return position.triples_total / passed_ms if passed_ms > 0 else None

    def _share(self, scan: PatternScan, window: ScheduledWindow) -> float:
        """Which part of the stream's triples the pattern takes."""
        pattern = self.pattern_of(scan)
        if not pattern.fixed:
            return 1.0
        columns = self._last_columns(window.stream)
        if columns is None or not len(columns.s):
            return 1.0 if len(pattern.fixed) == 1 else 0.1
        fits, _ = pattern.match((columns.s, columns.p, columns.o))
        return max(float(fits.mean()), 0.1 / len(fits))

    def _last_columns(self, stream: int) -> StreamColumns | None:
        """The elements of the last snapshot that brought some; None: there is none, or they are no longer retained."""
        position = self._positions.get(stream)
        if position is None or not position.last:
            return None
        try:
            return self._store.stream(position.last, stream)
        except SnapshotGone:  # the stream has been silent for longer than elements are retained
            return None


def _in_words(cost: dict[str, Any]) -> str:
    guessed = f"; nothing is known yet of stream {', '.join(cost['guessed'])}" if cost["guessed"] else ""
    shared = f", in a network that it shares with {cost['sharing']} others" if cost["sharing"] else ""
    each = (
        "each evaluation" if cost["closes_a_second"] is None else f"each close ({cost['closes_a_second']:g} a second)"
    )
    return (
        f"about {cost['elements']:,} rows in its windows, {cost['rows_a_close']:g} rows and "
        f"{cost['cpu_ms_a_close']:g} ms of CPU at {each}, {_size(cost['state_bytes'])} of memory{shared}{guessed}"
    )


def _size(nbytes: int) -> str:
    return f"{nbytes / 1e6:,.1f} MB" if nbytes >= 100_000 else f"{nbytes / 1e3:,.0f} kB"


def _rounded(figure: float) -> float:
    """To two digits: it is an estimate."""
    if figure <= 0:
        return 0.0
    digits = 1 - math.floor(math.log10(figure))
    return round(figure, digits)
