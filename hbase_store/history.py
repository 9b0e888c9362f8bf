"""History: where each stream had come to at each snapshot, and what the catalog said.

Both are sums of what the sn rows say. The newest is kept up to date row by row; for an older one the sum of
every 256th row is remembered, and the rows after it are added again."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence

from hbase_store.rows import Sn, SnRow, StreamPosition, moved

WHOLE_EVERY = 256
ROWS_KEPT = 1024

Vector = dict[int, StreamPosition]
Catalog = dict[tuple[str, int], bytes]


class History:
    """`read_rows` reads the rows of a list of snapshots from the store. Many threads ask, one at a time takes in."""

    def __init__(self, read_rows: Callable[[Sequence[int]], list[SnRow]]) -> None:
        self._read_rows = read_rows
        self._newest: tuple[Sn, Vector, Catalog] = (Sn(0), {}, {})
        self._whole: list[tuple[Vector, Catalog]] = [({}, {})]
        self._rows: OrderedDict[int, SnRow] = OrderedDict()
        self._lock = threading.Lock()

    def take_in(self, row: SnRow) -> None:
        """The rows come in order, without gap."""
        with self._lock:
            sn, vector, catalog = self._newest
            assert row.sn == sn + 1
            vector, catalog = _added(vector, catalog, row)
            if row.sn % WHOLE_EVERY == 0:
                self._whole.append((vector, catalog))
            self._rows[row.sn] = row
            if len(self._rows) > ROWS_KEPT:
                self._rows.popitem(last=False)
            self._newest = (Sn(row.sn), vector, catalog)

    def row(self, sn: int) -> SnRow:
        return self._range(sn, sn)[0]

    def vector(self, sn: int) -> Vector:
        return dict(self._at(sn)[0])

    def catalog(self, sn: int) -> Catalog:
        return dict(self._at(sn)[1])

    def _at(self, sn: int) -> tuple[Vector, Catalog]:
        newest, vector, catalog = self._newest
        if sn != newest:
            first = sn // WHOLE_EVERY
            vector, catalog = self._whole[first]
            for row in self._range(first * WHOLE_EVERY + 1, sn):
                vector, catalog = _added(vector, catalog, row)
        return vector, catalog

    def _range(self, first: int, last: int) -> list[SnRow]:
        with self._lock:
            known = [self._rows.get(sn) for sn in range(first, last + 1)]
        missing = [sn for sn, row in enumerate(known, first) if row is None]
        read = iter(self._read_rows(missing) if missing else ())
        return [row or next(read) for row in known]


def _added(vector: Vector, catalog: Catalog, row: SnRow) -> tuple[Vector, Catalog]:
    """New dictionaries where something changed: those before are remembered elsewhere."""
    dropped = [change.number for change in row.catalog if change.kind == "stream" and change.body is None]
    if row.moves or dropped:
        vector = dict(vector)
        for move in row.moves:
            vector[move.stream] = moved(vector.get(move.stream), move)
        for number in dropped:
            vector.pop(number, None)
    if row.catalog:
        catalog = dict(catalog)
        for change in row.catalog:
            if change.body is None:
                catalog.pop((change.kind, change.number), None)
            else:
                catalog[change.kind, change.number] = change.body
    return vector, catalog
