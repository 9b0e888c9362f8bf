"""A writer that is killed at one point: `python -m tests.hbase_store.victim URL WHAT`.

load     a thousand statements are loaded, and killed when the first block of the run is about to be written
stream   a stream is dropped, and what it had is being deleted: killed before its slices are gone"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterable, Sequence
from functools import partial

import hbase_store
from hbase_store import Loading, Store
from hbase_store.backends.keyvalue import Key, Put
from hbase_store.backends.lmdb import LmdbKeyValue
from stream_ext.rdf import careful_rows

STREAM, STATEMENTS = 4, 1000


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def load(store: Store) -> None:
    loading = Loading(partial(careful_rows, quads=False))
    for i in range(STATEMENTS):
        loading.read(b'<http://ex/%d> <http://ex/p> "a text of number %d" .\n' % (i, i))
    store.load(loading)


def killed_loading(store: Store) -> None:
    put_many = LmdbKeyValue.put_many

    def until_the_run(kv: LmdbKeyValue, puts: Iterable[Put]) -> None:
        def before(put: Put) -> Put:
            if put.table == "run":
                die()
            return put

        put_many(kv, map(before, puts))

    LmdbKeyValue.put_many = until_the_run  # type: ignore[method-assign]
    load(store)


def killed_dropping(store: Store) -> None:
    batch = store.begin()
    batch.catalog("stream", STREAM, None)
    store.commit(batch)
    store.fold()
    delete, delete_range = LmdbKeyValue.delete, LmdbKeyValue.delete_range

    def until_slices(kv: LmdbKeyValue, table: str, keys: Sequence[Key], time: int) -> None:
        if table == "slice":
            die()
        delete(kv, table, keys, time)

    def until_ranges_of_slices(kv: LmdbKeyValue, table: str, start: Key, stop: Key | None, time: int) -> None:
        if table == "slice":
            die()
        delete_range(kv, table, start, stop, time)

    LmdbKeyValue.delete = until_slices  # type: ignore[method-assign]
    LmdbKeyValue.delete_range = until_ranges_of_slices  # type: ignore[method-assign]
    store.floor(store.head())
    store.collect()


def main(url: str, what: str) -> None:
    {"load": killed_loading, "stream": killed_dropping}[what](hbase_store.open(url, folding=False))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
