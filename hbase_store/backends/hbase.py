"""The key-value protocol on HBase, through its Thrift 1 server.

A call is a round trip, so calls are few and large, yet never so large that they kill the server. Rows of one
table are spread over 8 buckets by a hash of their key, put in front of it as one byte (the salt): otherwise all
new rows, which have the highest keys, would go to one region. A scan merges the buckets back into key order."""

from __future__ import annotations

import heapq
import os
import re
import struct
import threading
import time
import weakref
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from operator import itemgetter
from typing import Any, Concatenate, ParamSpec, TypeVar

import happybase
import Hbase_thrift as thrift
from thriftpy2.thrift import TException

from hbase_store.backends.calls import Calls
from hbase_store.backends.keyvalue import ANSWER_BYTES_MAX, CALL_BYTES_MAX, TABLES, CompareAndSet, Key, Put, Value
from hbase_store.backends.lease import LEASE_MS, CellLease, Clock
from hbase_store.backends.meta_cells import (
    LAYOUT_KEY,
    LAYOUT_VERSION,
    check_compare_and_set,
    check_layout,
    check_put,
    counter_key,
)
from hbase_store.errors import BadRow, BadStoreUrl, StoreUnavailable

Parameters = ParamSpec("Parameters")
Answer = TypeVar("Answer")
Row = tuple[Key, Value]

BUCKETS = 8
COLUMN = b"n:v"

#: Less than what is left of the writer's lease when it is renewed: after such a wait the process is still the writer.
TIMEOUT_MS = LEASE_MS * 2 // 3
#: The server drops connections that were idle for a minute; ours are replaced before.
IDLE_S_MAX = 30.0

# An answer has at most ROWS_MAX rows. If the caller knows their sizes, it has at most ANSWER_BYTES_MAX bytes; else
# about CALL_BYTES_MAX, estimated by the largest row of recent answers. At least ROWS_MIN rows are requested, also the
# first time, when nothing is known, and after an answer that did not arrive in time.
ROWS_MIN = 2
ROWS_MAX = 256
#: By so much the largest row of late counts less with each answer.
_FORGETS = 7 / 8
CHUNK_ROWS = 4096
DELETE_ROWS = 4096
#: What a row costs in a call besides its key and value.
ROW_BYTES = 64


#: What HBase says of a cell that it takes from nobody; of other arguments that it does not like we are not the cause.
_TOO_LARGE = re.compile("too large|exceeds", re.IGNORECASE)


def table_name(namespace: str, table: str) -> str:
    """Thrift 1 cannot make HBase's own namespaces, so ours is a prefix."""
    return f"{namespace}_{table}"


class HBaseKeyValue:
    """The tables of one namespace behind one Thrift server; they are made when absent.

    Thrift 1 cannot split a table when it makes it, so each then starts as one region and HBase splits it as it
    grows. To have them split from the start, create the tables beforehand, split at the bytes 1 to 7.

    How safe a write is when the power fails is HBase's to decide: Thrift 1 never asks for an fsync."""

    def __init__(
        self, host: str, port: int, namespace: str, read_only: bool = False, timeout_ms: int = TIMEOUT_MS
    ) -> None:
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_]*", namespace):
            raise BadStoreUrl(
                f"{namespace!r} is not a namespace; use letters, digits and _, as in hbase://host:9090/rillet"
            )
        self.where = f"hbase://{host}:{port}/{namespace}"
        self.read_only = read_only
        self._names = {table: table_name(namespace, table).encode() for table in TABLES}
        self._largest = dict.fromkeys(TABLES, 0)  # of late; 0: nothing is known
        self._connections = _Connections(host, port, timeout_ms)
        self.calls = Calls()
        self._lease: CellLease | None = None
        self._lease_lock = threading.Lock()
        self._open_tables()

    def _open_tables(self) -> None:
        there = set(self._call(_table_names))
        absent = [name for name in self._names.values() if name not in there]
        if self.read_only:
            if absent:
                raise StoreUnavailable(
                    f"there is no store at {self.where}: check the name, or open it for writing, which creates it"
                )
        else:
            for name in absent:
                self._call(_create_table, name)
            self._compare_and_set(CompareAndSet(LAYOUT_KEY, None, LAYOUT_VERSION))
        check_layout(self.get_many("meta", [LAYOUT_KEY])[0], self.where)

    # ---- reading

    def get_many(self, table: str, keys: Sequence[Key], sizes: Sequence[int] = ()) -> list[Value | None]:
        found: dict[Key, Value] = {}
        wanted = [_salted(table, key) for key in dict.fromkeys(keys) if key]
        size_of = {_salted(table, key): size for key, size in zip(keys, sizes, strict=True) if key} if sizes else None
        start = 0
        while start < len(wanted):
            count = self._rows_per_call(table) if size_of is None else _that_fit(wanted, start, size_of)
            with self._sizing(table):
                rows = self._call(_get_rows, self._names[table], wanted[start : start + count])
            found.update(rows)
            self._note_sizes(table, rows)
            start += count
        return [found.get(_salted(table, key)) if key else None for key in keys]

    def _rows_per_call(self, table: str) -> int:
        return min(max(CALL_BYTES_MAX // (self._largest[table] or CALL_BYTES_MAX), ROWS_MIN), ROWS_MAX)

    def _note_sizes(self, table: str, rows: Sequence[Row]) -> None:
        if rows:
            largest = max(len(key) + len(value) for key, value in rows) + ROW_BYTES
            self._largest[table] = max(largest, int(self._largest[table] * _FORGETS))

    @contextmanager
    def _sizing(self, table: str) -> Iterator[None]:
        """After an answer that did not arrive, and may have been too large, the next call requests fewer rows."""
        try:
            yield
        except StoreUnavailable:
            self._largest[table] = CALL_BYTES_MAX
            raise

    def scan(self, table: str, start: Key, stop: Key | None) -> Iterator[Row]:
        """In chunks, each read by a scanner of its own: none is left open while the caller is busy, to expire."""
        buckets = (self._scan_bucket(table, salt, start, stop) for salt in _salts(table))
        return heapq.merge(*buckets, key=itemgetter(0))

    def _scan_bucket(self, table: str, salt: bytes, start: Key, stop: Key | None) -> Iterator[Row]:
        for rows in self._scan_chunks(table, salt, start, stop):
            for row, value in rows:
                yield row[len(salt) :], value

    def _scan_chunks(
        self, table: str, salt: bytes, start: Key, stop: Key | None, keys_only: bool = False
    ) -> Iterator[list[Row]]:
        """Salted rows of one bucket."""
        if stop is not None and stop <= start:
            return
        scan = thrift.TScan(startRow=salt + start, columns=[COLUMN])
        scan.stopRow = salt + stop if stop is not None else _after(salt)
        if keys_only:
            scan.filterString = b"KeyOnlyFilter()"
        complete = False
        while not complete:
            row_count = ROWS_MAX if keys_only else self._rows_per_call(table)
            with self._sizing(table):
                rows, complete = self._call(_scan_chunk, self._names[table], scan, row_count)
            if not rows:
                return
            yield rows
            scan.startRow = rows[-1][0] + b"\0"
            if not keys_only:
                self._note_sizes(table, rows)

    # ---- writing

    def put_many(self, puts: Iterable[Put]) -> None:
        self._check_writable()
        for table, cell_time, mutations in _calls(puts):
            self._call(_mutate, self._names[table], mutations, cell_time)

    def delete(self, table: str, keys: Sequence[Key], time: int) -> None:
        self._delete_rows(table, [_salted(table, key) for key in keys if key], time)

    def delete_range(self, table: str, start: Key, stop: Key | None, time: int) -> None:
        for salt in _salts(table):
            for rows in self._scan_chunks(table, salt, start, stop, keys_only=True):
                self._delete_rows(table, [row for row, _ in rows], time)

    def _delete_rows(self, table: str, rows: Sequence[bytes], cell_time: int) -> None:
        self._check_writable()
        for start in range(0, len(rows), DELETE_ROWS):
            mutations = [thrift.BatchMutation(row, [_deletion()]) for row in rows[start : start + DELETE_ROWS]]
            self._call(_mutate, self._names[table], mutations, cell_time)

    def allocate(self, counter: str, count: int) -> int:
        """Safe to repeat when the reply was lost: numbers are then left out, never given twice."""
        self._check_writable()
        return self._call(_increment, self._names["meta"], counter_key(counter), count) - count + 1

    def publish(self, stages: Sequence[Sequence[Put]], compare_and_set: CompareAndSet) -> bool:
        check_compare_and_set(compare_and_set)
        for stage in stages:
            self.put_many(stage)
        return self._compare_and_set(compare_and_set)

    def _compare_and_set(self, change: CompareAndSet) -> bool:
        self._check_writable()
        # Not repeated when the reply is lost: the second would find its own work and say False.
        return self._call_once(_check_and_put, self._names["meta"], change)

    def sync(self) -> None:
        """HBase has written its log when a call returns; when that reaches the disk is its file system's choice."""

    def _check_writable(self) -> None:
        if self.read_only:
            raise StoreUnavailable(f"{self.where} was opened read-only; open it for writing")

    # ---- life

    def lease(self, clock: Clock) -> CellLease:
        with self._lease_lock:
            if self._lease is None:
                self._lease = CellLease(self, clock, self.where)
            return self._lease

    def close(self) -> None:
        try:
            if self._lease is not None:
                self._lease.release()
        finally:
            self._connections.close()

    def _call(
        self,
        verb: Callable[Concatenate[Any, Parameters], Answer],
        *arguments: Parameters.args,
        **options: Parameters.kwargs,
    ) -> Answer:
        """`verb`, which may be repeated, with this thread's client; once more if the connection has died."""
        try:
            with self.calls.counted(verb.__name__.lstrip("_")):
                return self._connections.call(verb, *arguments, **options)
        except _ConnectionDied:
            return self._call_once(verb, *arguments, **options)

    def _call_once(
        self,
        verb: Callable[Concatenate[Any, Parameters], Answer],
        *arguments: Parameters.args,
        **options: Parameters.kwargs,
    ) -> Answer:
        try:
            with self.calls.counted(verb.__name__.lstrip("_")):
                return self._connections.call(verb, *arguments, **options)
        except _ConnectionDied as died:
            raise StoreUnavailable(f"{self.where} broke the connection: {died}; is HBase running?") from died


# ---- the verbs, each one or few calls of a Thrift client


def _table_names(client: Any) -> list[bytes]:
    names: list[bytes] = client.getTableNames()
    return names


def _create_table(client: Any, name: bytes) -> None:
    # None of this is a default of HBase.
    family = thrift.ColumnDescriptor(name=b"n:", maxVersions=1, bloomFilterType=b"ROW", blockCacheEnabled=True)
    try:
        client.createTable(name, [family])
    except thrift.AlreadyExists:
        return  # another process was quicker, or a call was repeated


def _get_rows(client: Any, name: bytes, rows: Sequence[bytes]) -> list[Row]:
    """The salted rows that are there."""
    return _rows(client.getRowsWithColumns(name, rows, [COLUMN], {}))


def _scan_chunk(client: Any, name: bytes, scan: Any, row_count: int) -> tuple[list[Row], bool]:
    """Rows from the start of the scan, and whether these are all. An error leaves the scanner to expire."""
    rows: list[Row] = []
    size = 0
    complete = False
    scanner = client.scannerOpenWithScan(name, scan, {})
    while not complete and len(rows) < CHUNK_ROWS and size < CALL_BYTES_MAX:
        answer = _rows(client.scannerGetList(scanner, row_count))
        rows += answer
        size += sum(len(key) + len(value) for key, value in answer)
        complete = len(answer) < row_count
        if answer:
            largest = max(len(key) + len(value) for key, value in answer) + ROW_BYTES
            row_count = min(max(CALL_BYTES_MAX // largest, ROWS_MIN), ROWS_MAX)
    client.scannerClose(scanner)
    return rows, complete


def _rows(answer: Iterable[Any]) -> list[Row]:
    return [(row.row, row.columns[COLUMN].value) for row in answer]


def _that_fit(wanted: Sequence[bytes], start: int, size_of: Mapping[bytes, int]) -> int:
    """How many rows from `start` on fit into one answer; at least one."""
    size = count = 0
    for row in wanted[start : start + ROWS_MAX]:
        size += size_of[row] + len(row) + ROW_BYTES
        if count and size > ANSWER_BYTES_MAX:
            break
        count += 1
    return count


def _mutate(client: Any, name: bytes, mutations: Sequence[Any], cell_time: int) -> None:
    client.mutateRowsTs(name, mutations, cell_time, {})


def _increment(client: Any, name: bytes, key: Key, count: int) -> int:
    end: int = client.atomicIncrement(name, key, COLUMN, count)
    return end


def _check_and_put(client: Any, name: bytes, change: CompareAndSet) -> bool:
    done: bool = client.checkAndPut(name, change.key, COLUMN, change.expected, _insertion(change.new), {})
    return done


def _insertion(value: Value) -> Any:
    return thrift.Mutation(isDelete=False, column=COLUMN, value=value, writeToWAL=True)


def _deletion() -> Any:
    return thrift.Mutation(isDelete=True, column=COLUMN, writeToWAL=True)


def _calls(puts: Iterable[Put]) -> Iterator[tuple[str, int, list[Any]]]:
    """Puts as (table, cell time, mutations) of at most CALL_BYTES_MAX together: a call has one table and one time."""
    calls: dict[tuple[str, int], list[Any]] = {}
    size = 0
    for put in puts:
        check_put(put)
        put_bytes = len(put.key) + len(put.value) + ROW_BYTES
        if size + put_bytes > CALL_BYTES_MAX:
            yield from ((*table_and_time, mutations) for table_and_time, mutations in calls.items())
            calls, size = {}, 0
        mutation = thrift.BatchMutation(_salted(put.table, put.key), [_insertion(put.value)])
        calls.setdefault((put.table, put.time), []).append(mutation)
        size += put_bytes
    yield from ((*table_and_time, mutations) for table_and_time, mutations in calls.items())


# ---- salt


def _salted(table: str, key: Key) -> bytes:
    return key if table == "meta" else bytes([zlib.crc32(key) % BUCKETS]) + key


def _salts(table: str) -> list[bytes]:
    return [b""] if table == "meta" else [bytes([bucket]) for bucket in range(BUCKETS)]


def _after(salt: bytes) -> bytes | None:
    return bytes([salt[0] + 1]) if salt else None


# ---- connections


class _ConnectionDied(Exception):
    """The connection broke during a call, which may or may not have been done; or HBase has forgotten a scanner."""


class _Connection(happybase.Connection):  # type: ignore[misc]  # happybase has no types
    """A connection that several threads may close at once, which thriftpy2 does not allow: the thread that closes the
    store, the thread whose call fails of that, and the garbage collector when the thread has ended."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self._closing = threading.RLock()
        super().__init__(*arguments, **options)

    def close(self) -> None:
        with self._closing:
            super().close()

    def disown(self) -> None:
        """As `_Connections.disown`; the lock may have been held by a thread that is not in this process."""
        self._closing = threading.RLock()
        if self.transport.is_open():
            self.transport.sock.close()


class _Connections:
    """One connection per thread, as they are not thread-safe."""

    def __init__(self, host: str, port: int, timeout_ms: int) -> None:
        self._host, self._port, self._timeout_ms = host, port, timeout_ms
        self._of_thread = threading.local()
        self._all: weakref.WeakSet[Any] = weakref.WeakSet()
        self._closed = False
        _every.add(self)

    def call(
        self,
        verb: Callable[Concatenate[Any, Parameters], Answer],
        *arguments: Parameters.args,
        **options: Parameters.kwargs,
    ) -> Answer:
        client = self._client()
        try:
            answer = verb(client, *arguments, **options)
        except thrift.IOError as error:
            raise StoreUnavailable(f"HBase at {self._host}:{self._port} failed: {_first_line(error)}") from error
        except thrift.IllegalArgument as error:
            why = _first_line(error)
            if _TOO_LARGE.search(why):
                raise BadRow(f"HBase at {self._host}:{self._port} refused a call: {why}") from error
            # A scanner that has expired, a region that has no place just now: what was asked for is not to blame.
            raise _ConnectionDied(why) from error
        except TimeoutError as error:
            self._discard()
            raise StoreUnavailable(
                f"HBase at {self._host}:{self._port} did not answer within {self._timeout_ms} ms; is it overloaded?"
            ) from error
        except (TException, OSError, EOFError, struct.error, UnicodeDecodeError) as error:
            self._discard()
            raise _ConnectionDied(str(error) or type(error).__name__) from error
        except BaseException as error:
            self._discard()  # half of a reply may still be on its way
            if self._closed:  # under our hands
                raise StoreUnavailable(f"the store at {self._host}:{self._port} is closed; open it again") from error
            raise
        self._of_thread.used_s = time.monotonic()
        return answer

    def _client(self) -> Any:
        if self._closed:
            raise StoreUnavailable(f"the store at {self._host}:{self._port} is closed; open it again")
        connection = getattr(self._of_thread, "connection", None)
        if connection is not None and time.monotonic() - self._of_thread.used_s > IDLE_S_MAX:
            self._discard()
            connection = None
        if connection is None:
            connection = self._of_thread.connection = self._connect()
            self._of_thread.used_s = time.monotonic()  # now, and not after its first answer, which may be an error
            self._all.add(connection)
        return connection.client

    def _connect(self) -> Any:
        try:
            # The compact protocol has no C codec in thriftpy2 and is several times slower.
            return _Connection(
                self._host, self._port, timeout=self._timeout_ms, transport="buffered", protocol="binary"
            )
        except (TException, OSError) as error:
            raise StoreUnavailable(
                f"no HBase Thrift server answers at {self._host}:{self._port}: check the address, or start one"
            ) from error

    def _discard(self) -> None:
        connection = self._of_thread.__dict__.pop("connection", None)
        if connection is not None:
            connection.close()

    def close(self) -> None:
        self._closed = True
        for connection in list(self._all):
            connection.close()

    def disown(self) -> None:
        """In a forked child: forget the parent's sockets without the shutdown that would cut the parent off."""
        for connection in list(self._all):
            connection.disown()
        self._all = weakref.WeakSet()
        self._of_thread = threading.local()


_every: weakref.WeakSet[_Connections] = weakref.WeakSet()


def _disown_all() -> None:
    for connections in list(_every):
        connections.disown()


os.register_at_fork(after_in_child=_disown_all)


def _first_line(error: Any) -> str:
    """HBase sends the whole Java stack trace."""
    message = error.message or b""
    text = message.decode(errors="replace") if isinstance(message, bytes) else str(message)
    return text.strip().partition("\n")[0]
