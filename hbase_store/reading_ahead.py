"""Reading ahead: a store of another process is brought into memory when a server starts, before anybody asks.

    bytes_max = 64 MiB      a store of a million triples: all of it, some tens of large requests
                            a larger one: its smallest columns, and as many texts as have room

What is asked first would otherwise wait for one round trip after the other, for a Java process that has not answered
anything like it yet, and for the loops that look things up, which are loaded in a fifth of a second."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from hbase_store.arrays import NO_IDS, Ids, concatenate
from hbase_store.backends.keyvalue import KeyValue
from hbase_store.layout.run import Run, RunColumn, fetch_whole
from hbase_store.layout.run_blocks import HASH_COLUMN
from hbase_store.terms.pages import PAGE_BITS, Pages

#: Texts have half as much memory as rows, as in the caches.
_TEXTS = 2
#: A request is for so many bytes of rows in memory, or for so many pages of texts; between two of them others get on.
_ROWS_AT_ONCE, _PAGES_AT_ONCE = 8 << 20, 256


def read_ahead(
    kv: KeyValue, runs: Sequence[Run], pages: Pages, bytes_max: int, goes_on: Callable[[], bool] = lambda: True
) -> int:
    """Brings columns of the runs into the cache, the smallest first, as long as they take `bytes_max` together; then
    texts, half as many bytes. Ends early when `goes_on` says so. Returns the bytes of the columns."""
    brought = 0
    columns = list(_that_fit(runs, bytes_max))
    for group in _groups(columns):
        if not goes_on():
            return brought
        fetch_whole(kv, group)
        brought += sum(column.nbytes for column in group)
    _read_texts(columns, pages, bytes_max // _TEXTS, goes_on)
    _load_loops()
    return brought


def _load_loops() -> None:
    """Those that nearly each query needs."""
    from hbase_store.layout import hashing  # numba takes a third of a second to import
    from hbase_store.sorted import hops

    hashing.warm()
    hops.warm()


def _that_fit(runs: Sequence[Run], bytes_max: int) -> Iterator[RunColumn]:
    every = (column for run in runs for column in run.columns.values() if column.fits)
    for column in sorted(every, key=lambda column: column.nbytes):
        bytes_max -= column.nbytes
        if bytes_max < 0:
            return
        yield column


def _groups(columns: Sequence[RunColumn]) -> Iterator[list[RunColumn]]:
    group: list[RunColumn] = []
    for column in columns:
        if group and sum(each.nbytes for each in group) + column.nbytes > _ROWS_AT_ONCE:
            yield group
            group = []
        group.append(column)
    if group:
        yield group


def _read_texts(columns: Sequence[RunColumn], pages: Pages, bytes_max: int, goes_on: Callable[[], bool]) -> None:
    """Those of the terms whose hashes were brought, in the order of their ids."""
    bytes_max += pages.nbytes
    firsts = _first_ids([column.whole().columns[1] for column in columns if column.key == HASH_COLUMN])
    for start in range(0, len(firsts), _PAGES_AT_ONCE):
        if pages.nbytes >= bytes_max or not goes_on():
            return
        pages.fetch(firsts[start : start + _PAGES_AT_ONCE])


def _first_ids(ids: Sequence[Ids]) -> Ids:
    """An id of each page that has one of these."""
    bits = np.uint64(PAGE_BITS)
    numbers = np.unique((concatenate(ids) - np.uint64(1)) >> bits) if ids else NO_IDS
    return (numbers << bits) + np.uint64(1)
