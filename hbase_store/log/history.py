"""History: the position of each stream, and the catalog, at each snapshot.

Both are sums over the rows of the snapshots. Every 256th row is stored with the sums up to it; so to open the store, or
to read an older snapshot, it is enough to read that row and the few rows after it."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence

import msgspec

from hbase_store.cache import RecentlyUsed
from hbase_store.layout.rows import CatalogChange, Sn, SnRow, StreamPosition, moved

WHOLE_EVERY = 256
ROWS_MAX = 1024
ROWS_FETCHED = 256
# Of a stream that comes in so many snapshots, or more often, rows are fetched by the hundred.
_DENSE = 8
WHOLES_MAX = 8

Vector = dict[int, StreamPosition]
CatalogKey = tuple[str, int]


class Whole(msgspec.Struct, array_like=True):
    """The sums up to one row."""

    vector: list[StreamPosition]
    catalog: list[CatalogChange]


class _Sums:
    def __init__(self, whole: Whole) -> None:
        self.vector: Vector = {position.stream: position for position in whole.vector}
        self._catalog: dict[str, dict[int, bytes]] = {}  # by kind: a key of two is an object of its own
        self._change_catalog(whole.catalog)

    def add(self, row: SnRow) -> None:
        _move(self.vector, row)
        self._change_catalog(row.catalog)

    def _change_catalog(self, changes: Sequence[CatalogChange]) -> None:
        for change in changes:
            bodies = self._catalog.setdefault(change.kind, {})
            if change.body is None:
                bodies.pop(change.number, None)
            else:
                bodies[change.number] = change.body

    def catalog(self) -> dict[CatalogKey, bytes]:
        return {(kind, number): body for kind, bodies in self._catalog.items() for number, body in bodies.items()}

    def whole(self) -> Whole:
        catalog = [
            CatalogChange(kind, number, body)
            for kind, bodies in self._catalog.items()
            for number, body in bodies.items()
        ]
        return Whole(list(self.vector.values()), catalog)


class History:
    """Many threads read, one at a time adds. `read_rows` reads the rows of some snapshots, `read_present` those that
    still exist, `read_whole` the sums that are stored with the row of one."""

    def __init__(
        self,
        read_rows: Callable[[Sequence[int]], list[SnRow]],
        read_present: Callable[[Sequence[int]], list[SnRow]],
        read_whole: Callable[[SnRow], Whole],
    ) -> None:
        self._read_rows, self._read_present, self._read_whole = read_rows, read_present, read_whole
        self.sn = Sn(0)
        self._sums = _Sums(Whole([], []))
        self._rows: OrderedDict[int, SnRow] = OrderedDict()
        self._wholes: RecentlyUsed[int, Whole] = RecentlyUsed(WHOLES_MAX)
        self._lock = threading.Lock()

    def skip_to(self, head: int) -> None:
        """Takes in the rows up to the last whole one below `head` by taking in that one."""
        whole = head - head % WHOLE_EVERY
        if whole > self.sn:
            sums = _Sums(self._whole(whole))
            with self._lock:
                self._sums, self.sn = sums, Sn(whole)

    def take_in(self, row: SnRow) -> None:
        """The rows come in order, without gap; those that were skipped may come again."""
        with self._lock:
            if row.sn <= self.sn:
                return
            assert row.sn == self.sn + 1
            self._sums.add(row)
            self._remember(row)
            self.sn = Sn(row.sn)

    def whole_after(self, row: SnRow) -> Whole | None:
        """The sums to be stored with the next row; None if it is a row without them."""
        if row.sn % WHOLE_EVERY:
            return None
        with self._lock:
            sums = _Sums(self._sums.whole())
        sums.add(row)
        return sums.whole()

    def row(self, sn: int) -> SnRow:
        with self._lock:
            known = self._rows.get(sn)
        return known or self._range(sn, sn)[0]

    def position(self, stream: int) -> StreamPosition | None:
        """The position of one stream after the last row that was added."""
        with self._lock:
            return self._sums.vector.get(stream)

    def vector(self, sn: int) -> Vector:
        with self._lock:
            if sn == self.sn:
                return dict(self._sums.vector)
        start = sn - sn % WHOLE_EVERY
        vector = {position.stream: position for position in self._whole(start).vector}
        for row in self._range(start + 1, sn):
            _move(vector, row)
        return vector

    def catalog(self, sn: int) -> dict[CatalogKey, bytes]:
        with self._lock:
            if sn == self.sn:
                return self._sums.catalog()
        return self._summed(sn).catalog()

    def snapshots_with_elements(
        self, position: StreamPosition | None, horizon: int
    ) -> Iterator[tuple[SnRow | None, int, int | None]]:
        """The snapshots up to a position that brought elements of its stream, newest first: the row, its number, and
        the stream's time after it. The first one below `horizon` comes last, and without a row."""
        if position is None:
            return
        sn, time, gap = position.last, position.time_last, 1
        while sn > 0:
            if sn < horizon:
                yield None, sn, time
                return
            if gap <= _DENSE:
                self._fetch(range(max(horizon, sn - ROWS_FETCHED + 1, 1), sn + 1))
            row = self.row(sn)
            yield row, sn, time
            move = next(move for move in row.moves if move.stream == position.stream)
            sn, time, gap = move.before, move.time_before, sn - move.before

    def _fetch(self, sns: Sequence[int]) -> None:
        """Reads these rows, unless the last of them is in memory: a walk back reads those before it next."""
        with self._lock:
            missing = [] if sns[-1] in self._rows else [sn for sn in sns if sn not in self._rows]
        found = self._read_present(missing) if missing else []
        with self._lock:
            for row in found:
                self._remember(row)

    def _summed(self, sn: int) -> _Sums:
        start = sn - sn % WHOLE_EVERY
        sums = _Sums(self._whole(start))
        for row in self._range(start + 1, sn):
            sums.add(row)
        return sums

    def _whole(self, sn: int) -> Whole:
        if sn == 0:
            return Whole([], [])
        with self._lock:
            whole = self._wholes.get(sn)
        if whole is None:
            whole = self._read_whole(self._read_rows([sn])[0])
            with self._lock:
                self._wholes.put(sn, whole)
        return whole

    def _range(self, first: int, last: int) -> list[SnRow]:
        with self._lock:
            known = [self._rows.get(sn) for sn in range(first, last + 1)]
        missing = [sn for sn, row in enumerate(known, first) if row is None]
        found = self._read_rows(missing) if missing else []
        with self._lock:
            for row in found:
                self._remember(row)
        read = iter(found)
        return [row or next(read) for row in known]

    def _remember(self, row: SnRow) -> None:
        """The newest row is never forgotten, however many old ones are read meanwhile: its writer still needs it."""
        self._rows[row.sn] = row
        if len(self._rows) > ROWS_MAX:
            if next(iter(self._rows)) == self.sn:
                self._rows.move_to_end(self.sn)
            self._rows.popitem(last=False)


def _move(vector: Vector, row: SnRow) -> None:
    for move in row.moves:
        vector[move.stream] = moved(vector.get(move.stream), move, row.sn)
    for change in row.catalog:
        if change.kind == "stream" and change.body is None:
            vector.pop(change.number, None)
