"""History: where each stream had come to at each snapshot, and what the catalog said.

Both are sums of what the sn rows say. Streams are few and move often, so the positions of every 256th snapshot
are remembered, and the rows after it are added again. The catalog may be long and changes seldom, so of each entry
it is remembered since when it says what."""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Sequence

from hbase_store.rows import Sn, SnRow, StreamPosition, moved

WHOLE_EVERY = 256
ROWS_KEPT = 1024

Vector = dict[int, StreamPosition]
CatalogKey = tuple[str, int]


class History:
    """`read_rows` reads the rows of a list of snapshots from the store. Many threads ask, one at a time takes in."""

    def __init__(self, read_rows: Callable[[Sequence[int]], list[SnRow]]) -> None:
        self._read_rows = read_rows
        self._sn = Sn(0)
        self._vector: Vector = {}
        self._whole: list[Vector] = [{}]
        self._catalog: dict[CatalogKey, bytes] = {}
        self._entries: dict[CatalogKey, tuple[list[int], list[bytes | None]]] = {}
        self._rows: OrderedDict[int, SnRow] = OrderedDict()
        self._lock = threading.Lock()

    def take_in(self, row: SnRow) -> None:
        """The rows come in order, without gap."""
        with self._lock:
            assert row.sn == self._sn + 1
            _move(self._vector, row)
            if row.sn % WHOLE_EVERY == 0:
                self._whole.append(dict(self._vector))
            self._change_catalog(row)
            self._rows[row.sn] = row
            if len(self._rows) > ROWS_KEPT:
                self._rows.popitem(last=False)
            self._sn = Sn(row.sn)

    def _change_catalog(self, row: SnRow) -> None:
        for change in row.catalog:
            key = (change.kind, change.number)
            sns, bodies = self._entries.setdefault(key, ([], []))
            sns.append(row.sn)
            bodies.append(change.body)
            if change.body is None:
                self._catalog.pop(key, None)
            else:
                self._catalog[key] = change.body

    def row(self, sn: int) -> SnRow:
        return self._range(sn, sn)[0]

    def vector(self, sn: int) -> Vector:
        with self._lock:
            if sn == self._sn:
                return dict(self._vector)
            vector = dict(self._whole[sn // WHOLE_EVERY])
        for row in self._range(sn - sn % WHOLE_EVERY + 1, sn):
            _move(vector, row)
        return vector

    def catalog(self, sn: int) -> dict[CatalogKey, bytes]:
        with self._lock:
            if sn == self._sn:
                return dict(self._catalog)
            then: dict[CatalogKey, bytes] = {}
            for key, (sns, bodies) in self._entries.items():
                at = bisect_right(sns, sn)
                body = bodies[at - 1] if at else None
                if body is not None:
                    then[key] = body
            return then

    def _range(self, first: int, last: int) -> list[SnRow]:
        with self._lock:
            known = [self._rows.get(sn) for sn in range(first, last + 1)]
        missing = [sn for sn, row in enumerate(known, first) if row is None]
        read = iter(self._read_rows(missing) if missing else ())
        return [row or next(read) for row in known]


def _move(vector: Vector, row: SnRow) -> None:
    for move in row.moves:
        vector[move.stream] = moved(vector.get(move.stream), move)
    for change in row.catalog:
        if change.kind == "stream" and change.body is None:
            vector.pop(change.number, None)
