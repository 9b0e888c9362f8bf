"""The key-value protocol on one machine: an LMDB folder that many processes read and one writes at a time.

LMDB is a B+ tree in one memory-mapped file. Readers see the last committed transaction and block nobody; but
an old read transaction keeps every page it can see, so none is held here longer than one call, and what is
read is copied out of the map before the transaction ends. A cell is its time (8 bytes), then its value."""

from __future__ import annotations

import os
import struct
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any

import lmdb

from hbase_store.backends.cut_off import Length, check_not_emptied
from hbase_store.backends.keyvalue import CompareAndSet, Key, Put, Value
from hbase_store.backends.lease import FileLease
from hbase_store.backends.lmdb_opening import (
    CELL_TIME,
    COMPARED_AND_SET,
    Durability,
    named_errors,
    open_environment,
    open_tables,
)
from hbase_store.backends.meta_cells import check_compare_and_set, check_put, counter_key
from hbase_store.clock import Clock
from hbase_store.errors import StoreError, StoreUnavailable

#: Address space, not disk space: reserved once, so that the map never has to grow.
MAP_BYTES = 1 << 40
SYNC_EVERY_S = 1.0

# A write transaction excludes all other writers, so long work is cut into short ones.
WRITE_BYTES = 1 << 20
WRITE_ROWS = 4096
SCAN_BYTES = 1 << 20
SCAN_ROWS = 4096

_COUNT = struct.Struct(">q")


class LmdbKeyValue:
    """One folder, opened at most once per process, because LMDB's locks belong to the process.

    `durability='process'` survives the death of the process (kill -9) and is synced to disk every second;
    `'power'` syncs before a write is acknowledged."""

    is_remote = False

    def __init__(
        self,
        path: str | os.PathLike[str],
        read_only: bool = False,
        durability: Durability = "process",
        map_bytes: int = MAP_BYTES,
    ) -> None:
        self.path = os.path.realpath(path)
        self.read_only = read_only
        self.durability = durability
        self._pid = os.getpid()
        self._calls = threading.Condition()
        self._calls_running = 0
        self._closed = False
        self._lease = FileLease(self.path, survives=durability == "power")
        self._unsynced = False
        self._sync_failure: StoreError | None = None
        self._closing = threading.Event()
        _claim(self)
        try:
            with named_errors(self.path):
                check_not_emptied(self.path)
                self._environment = open_environment(self.path, read_only, durability, map_bytes)
                self._tables = self._open_checked()
        except BaseException:
            _forget(self)
            raise
        self._syncer = threading.Thread(target=self._sync_until_closed, name="lmdb-sync", daemon=True)
        if not read_only and durability == "process":
            self._syncer.start()

    def _open_checked(self) -> dict[str, Any]:
        """The tables, once the file is known to be as long as it must be."""
        self._length = Length(self.path, self.read_only)
        try:
            self._length.check_all_is_there(self._environment)
            return open_tables(self._environment, self.path, self.read_only)
        except BaseException:
            self._length.close()
            self._environment.close()
            raise

    # ---- reading

    def get_many(self, table: str, keys: Sequence[Key], sizes: Sequence[int] = ()) -> list[Value | None]:
        with self._transaction() as transaction:
            get, database = transaction.get, self._tables[table]
            cells = [get(key, db=database) if key else None for key in keys]
            return [None if cell is None else bytes(cell[8:]) for cell in cells]

    def scan(self, table: str, start: Key, stop: Key | None) -> Iterator[tuple[Key, Value]]:
        """In chunks, each from a transaction of its own: rows written meanwhile may or may not be among them."""
        while True:
            rows, complete = self._scan_chunk(table, start, stop)
            yield from rows
            if complete:
                return
            start = rows[-1][0] + b"\0"

    def _scan_chunk(self, table: str, start: Key, stop: Key | None) -> tuple[list[tuple[Key, Value]], bool]:
        """Rows from `start` on, and whether these are all that there are before `stop`."""
        rows: list[tuple[Key, Value]] = []
        size = 0
        with self._transaction() as transaction, transaction.cursor(db=self._tables[table]) as cursor:
            found = cursor.set_range(start) if start else cursor.first()
            while found:
                key = bytes(cursor.key())
                if stop is not None and key >= stop:
                    return rows, True
                if len(rows) >= SCAN_ROWS or size >= SCAN_BYTES:
                    return rows, False
                value = bytes(cursor.value()[8:])
                rows.append((key, value))
                size += len(key) + len(value)
                found = cursor.next()
        return rows, True

    # ---- writing

    def put_many(self, puts: Iterable[Put]) -> None:
        for chunk in _chunks(puts):
            with self._transaction(write=True) as transaction:
                self._put(transaction, chunk)

    def _put(self, transaction: Any, puts: Iterable[Put]) -> None:
        for put in puts:
            transaction.put(put.key, CELL_TIME.pack(put.time) + put.value, db=self._tables[put.table])

    def delete(self, table: str, keys: Sequence[Key], time: int) -> None:
        remaining = iter(keys)
        while chunk := list(islice(remaining, WRITE_ROWS)):
            self._delete_chunk(table, chunk, time)

    def delete_range(self, table: str, start: Key, stop: Key | None, time: int) -> None:
        complete = False
        while not complete:
            rows, complete = self._scan_chunk(table, start, stop)
            self._delete_chunk(table, [key for key, _ in rows], time)
            if not complete:
                start = rows[-1][0] + b"\0"

    def _delete_chunk(self, table: str, keys: Sequence[Key], time: int) -> None:
        database = self._tables[table]
        with self._transaction(write=True) as transaction:
            for key in keys:
                cell = transaction.get(key, db=database) if key else None
                if cell is not None and CELL_TIME.unpack_from(cell)[0] <= time:
                    transaction.delete(key, db=database)

    def allocate(self, counter: str, count: int) -> int:
        database, key = self._tables["meta"], counter_key(counter)
        with self._transaction(write=True) as transaction:
            cell = transaction.get(key, db=database)
            last: int = 0 if cell is None else _COUNT.unpack_from(cell, 8)[0]
            transaction.put(key, CELL_TIME.pack(COMPARED_AND_SET) + _COUNT.pack(last + count), db=database)
        return last + 1

    def publish(self, stages: Sequence[Sequence[Put]], compare_and_set: CompareAndSet) -> bool:
        puts = [_checked(put) for stage in stages for put in stage]
        check_compare_and_set(compare_and_set)
        database = self._tables["meta"]
        with self._transaction(write=True) as transaction:
            # Asked first: nobody can change the cell before this transaction ends, and then there is nothing to undo.
            cell = transaction.get(compare_and_set.key, db=database)
            if (None if cell is None else bytes(cell[8:])) != compare_and_set.expected:
                return False
            self._put(transaction, puts)
            new = CELL_TIME.pack(COMPARED_AND_SET) + compare_and_set.new
            transaction.put(compare_and_set.key, new, db=database)
        return True

    def sync(self) -> None:
        with self._call(), named_errors(self.path):
            self._unsynced = False
            self._environment.sync(True)

    def _sync_until_closed(self) -> None:
        while not self._closing.wait(SYNC_EVERY_S):
            if not self._unsynced:
                continue
            try:
                self.sync()
            except StoreError as failure:
                self._sync_failure = failure  # the next write raises it
                return

    # ---- life

    def lease(self, _clock: Clock) -> FileLease:
        """It needs no clock: the kernel ends it when the process does."""
        return self._lease

    def machine_crashed(self) -> bool:
        """Whether what is in the file may be less, or other, than what was written: see `verification`."""
        return self._lease.machine_crashed()

    def reader_check(self) -> int:
        """Frees the reader slots of processes that died while reading; how many those were."""
        with self._call(), named_errors(self.path):
            freed: int = self._environment.reader_check()
            return freed

    def close(self) -> None:
        """Waits for calls that are running. In a forked child it does nothing."""
        # LMDB would take the child for its parent there, and free the parent's slots in the table of readers.
        if self._pid != os.getpid():
            return
        self._lease.release()
        self._close_environment()
        _forget(self)

    def _close_environment(self) -> None:
        self._closing.set()
        if self._syncer.is_alive():
            self._syncer.join()
        with self._calls, named_errors(self.path):
            self._calls.wait_for(lambda: self._calls_running == 0)
            if self._closed:
                return
            self._closed = True
            if not self.read_only:
                self._environment.sync(True)
            self._environment.close()
            self._length.close()

    def _call(self) -> _Call:
        """While calls are running nobody closes the environment or changes its map."""
        return _Call(self)

    def _call_begins(self) -> None:
        self._check_not_forked()
        with self._calls:
            if self._closed:
                raise StoreUnavailable(f"{self.path} is closed; open it again")
            self._calls_running += 1

    def _call_ends(self) -> None:
        with self._calls:
            self._calls_running -= 1
            self._calls.notify_all()

    def _check_not_forked(self) -> None:
        # Before any lock is taken: another thread may have held it when the process was forked.
        if self._pid != os.getpid():
            raise StoreUnavailable(_forked(self))

    @contextmanager
    def _transaction(self, write: bool = False) -> Iterator[Any]:
        if write:
            self._check_writable()
        with self._call(), named_errors(self.path):
            self._length.check()
            with self._begin(write) as transaction:
                yield transaction
            if write:
                self._unsynced = True  # after the commit: a sync in between leads to one too many, never one too few

    def _check_writable(self) -> None:
        if self.read_only:
            raise StoreUnavailable(f"{self.path} was opened read-only; open it for writing")
        if self._sync_failure is not None:
            raise self._sync_failure

    def _begin(self, write: bool) -> Any:
        try:
            return self._environment.begin(write=write, buffers=True)
        except lmdb.MapResizedError:
            self._adopt_grown_map()
        except lmdb.ReadersFullError:
            self._environment.reader_check()
        return self._environment.begin(write=write, buffers=True)

    def _adopt_grown_map(self) -> None:
        """Another process was opened with a larger map and filled it: take its size, which no transaction may see."""
        with self._calls:
            self._calls_running -= 1  # ours, which has no transaction yet
            self._calls.wait_for(lambda: self._calls_running == 0)
            self._environment.set_mapsize(0)
            self._calls_running += 1


class _Call:
    __slots__ = ("_backend",)

    def __init__(self, backend: LmdbKeyValue) -> None:
        self._backend = backend

    def __enter__(self) -> None:
        self._backend._call_begins()

    def __exit__(self, *error: object) -> None:
        self._backend._call_ends()


# ---- one environment per folder and process

_open_here: dict[str, LmdbKeyValue] = {}
_open_here_lock = threading.Lock()


def _claim(backend: LmdbKeyValue) -> None:
    with _open_here_lock:
        other = _open_here.get(backend.path)
        if other is None:
            _open_here[backend.path] = backend
            return
    if other._pid != os.getpid():
        raise StoreUnavailable(_forked(other))
    raise StoreUnavailable(f"{backend.path} is already open in this process: use that open store, or close it first")


def _forked(backend: LmdbKeyValue) -> str:
    return (
        f"{backend.path} was opened by process {backend._pid}; this process is a fork of that one, and "
        "LMDB does not work after a fork: open the store after forking, or start the process without fork"
    )


def _forget(backend: LmdbKeyValue) -> None:
    with _open_here_lock:
        if _open_here.get(backend.path) is backend:
            del _open_here[backend.path]


# ---- puts


def _checked(put: Put) -> Put:
    check_put(put)
    return put


def _chunks(puts: Iterable[Put]) -> Iterator[list[Put]]:
    """Lists that are taken from `puts` before a transaction begins, so that making them may read the store."""
    chunk: list[Put] = []
    size = 0
    for put in puts:
        check_put(put)
        chunk.append(put)
        size += len(put.key) + len(put.value)
        if size >= WRITE_BYTES or len(chunk) >= WRITE_ROWS:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk
