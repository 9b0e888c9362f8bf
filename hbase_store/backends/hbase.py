"""The key-value protocol on HBase, through its Thrift 1 servers.

A call is a round trip, so calls are few and large, yet never so large that they kill the server; calls that do not
depend on each other are made at the same time. A scan merges the buckets of a table back into key order."""

from __future__ import annotations

import heapq
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import chain
from operator import itemgetter
from typing import Any, Concatenate, ParamSpec, TypeVar

from hbase_store.backends.calls import Calls
from hbase_store.backends.in_parallel import InParallel
from hbase_store.backends.keyvalue import CALL_BYTES_MAX, TABLES, CompareAndSet, Key, Put, Value
from hbase_store.backends.lease import CellLease
from hbase_store.backends.meta_cells import (
    LAYOUT_KEY,
    LAYOUT_VERSION,
    check_compare_and_set,
    check_layout,
    counter_key,
)
from hbase_store.backends.table_creation import create_tables
from hbase_store.backends.thrift_connections import (
    ConnectionDied,
    Connections,
    NoAnswer,
    ServerAddress,
    broken,
    thrift,
)
from hbase_store.backends.thrift_transports import IN_THE_CLEAR, TIMEOUT_MS, ThriftAccess
from hbase_store.backends.thrift_verbs import (
    COLUMN,
    ROW_BYTES,
    ROWS_MAX,
    ROWS_MIN,
    Row,
    after,
    calls_of,
    check_and_put,
    deletion,
    get_rows,
    increment,
    mutate,
    salted,
    salts,
    scan_chunk,
    that_fit,
    to_border,
)
from hbase_store.clock import Clock
from hbase_store.errors import BadStoreUrl, StoreUnavailable

Parameters = ParamSpec("Parameters")
Answer = TypeVar("Answer")

#: By so much the largest row of late counts less with each answer.
_FORGETS = 7 / 8
DELETE_ROWS = 4096
#: A read that has no answer in time is made so often.
_TRIES = 2
#: So many threads make calls for others; and so many answers of one read are on their way at a time.
_THREADS = 16
_AT_A_TIME = 4
#: Answers of twice so many bytes, as far as that is known, or rows are divided among calls at the same time: of a
#: server of regions a row takes as long as some ten kilobytes, and a call as long as fifty rows.
_DIVIDED_BYTES, _DIVIDED_ROWS = 1 << 20, 48
#: So many calls of a long write are on their way at a time: each takes several times its bytes of a Thrift server.
_WRITES_AT_A_TIME = 3
#: Of the tables: what HBase compresses its files with.
COMPRESSIONS = ("NONE", "SNAPPY", "LZ4", "ZSTD", "GZ")
#: HBase's own namespace, if there is one, and the prefix of the tables.
_NAMESPACE = re.compile(r"(?:[A-Za-z0-9_]+:)?[A-Za-z0-9][A-Za-z0-9_]*")


def table_name(namespace: str, table: str) -> str:
    """`rillet` is a prefix of the tables; with `mine:rillet` they are in HBase's own namespace `mine`, too."""
    return f"{namespace}_{table}"


class HBaseKeyValue:
    """The tables of one namespace behind one or several Thrift servers; they are made when absent.

    Thrift 1 cannot split a table when it makes it, so each then starts as one region and HBase splits it as it
    grows. To have them split from the start, create the tables beforehand, split at the bytes 1 to 7.

    How safe a write is when the power fails is HBase's to decide: Thrift 1 never asks for an fsync."""

    is_remote = True

    def __init__(
        self,
        host: str,
        port: int,
        namespace: str,
        read_only: bool = False,
        timeout_ms: int = TIMEOUT_MS,
        others: Sequence[ServerAddress] = (),
        access: ThriftAccess = IN_THE_CLEAR,
    ) -> None:
        """`others`: further Thrift servers of the same HBase. `access`: how they are spoken to."""
        if not _NAMESPACE.fullmatch(namespace):
            raise BadStoreUrl(
                f"{namespace!r} is not a namespace; use letters, digits and _, as in hbase://host:9090/rillet, or in "
                "hbase://host:9090/mine:rillet for tables in HBase's own namespace"
            )
        servers = [(host, port), *others]
        self.where = f"hbase://{','.join(f'{name}:{number}' for name, number in servers)}/{namespace}"
        self.read_only = read_only
        self._names = {table: table_name(namespace, table).encode() for table in TABLES}
        self._largest = dict.fromkeys(TABLES, 0)  # of late; 0: nothing is known
        self._connections = Connections(servers, timeout_ms, access)
        self._parallel = InParallel(_THREADS)
        self.calls = Calls()
        self._lease: CellLease | None = None
        self._lease_lock = threading.Lock()
        self._open_tables()

    def _open_tables(self) -> None:
        """The layout version is written when all tables are there: if it can be read, none is looked for, which takes
        no right to list or to create tables."""
        found = self._layout()
        if found is None and self.read_only:
            raise StoreUnavailable(
                f"there is no store at {self.where}: check the name, or open it for writing, which creates it"
            )
        if found is None:
            create_tables(self._call, self._parallel, [*self._names.values()], self.where)
            self._compare_and_set(CompareAndSet(LAYOUT_KEY, None, LAYOUT_VERSION))
            found = self._layout()
        check_layout(found, self.where)

    def _layout(self) -> Value | None:
        try:
            return self.get_many("meta", [LAYOUT_KEY])[0]
        except StoreUnavailable as error:
            if is_absent(error):
                return None
            raise

    # ---- reading

    def get_many(self, table: str, keys: Sequence[Key], sizes: Sequence[int] = ()) -> list[Value | None]:
        """The values of some keys, in their order. `sizes`: how long each is about, so that large ones share no
        call.

        What is more than a little is divided among calls at the same time, each for some whole buckets, which are in
        few regions: other threads of the Thrift server, other servers of regions."""
        found: dict[Key, Value] = {}
        wanted = sorted(salted(table, key) for key in dict.fromkeys(keys) if key)
        size_of = {salted(table, key): size for key, size in zip(keys, sizes, strict=True) if key} if sizes else None
        start, tries, share = 0, self._tries(table), self._share(table, wanted, size_of)
        while start < len(wanted):
            calls: list[Callable[[], list[Row]]] = []
            first = start
            while start < len(wanted) and len(calls) < _AT_A_TIME:
                # While nothing is known of the sizes in this table, the first answer is awaited alone.
                if calls and size_of is None and not self._largest[table]:
                    break
                most = self._rows_per_call(table) if size_of is None else that_fit(wanted, start, size_of)
                end = to_border(wanted, start, start + min(most, share), most)
                calls.append(partial(self._read, table, get_rows, wanted[start:end]))
                start = end
            try:
                with self._sizing(table):
                    answers = self._parallel.all(calls)
            except NoAnswer:
                tries -= 1
                if not tries:
                    raise
                start = first
                continue
            for rows in answers:
                found.update(rows)
                self._note_sizes(table, rows)
                self.calls.add_bytes("get_rows", _bytes_of(rows))
        return [found.get(salted(table, key)) if key else None for key in keys]

    def _share(self, table: str, wanted: Sequence[bytes], size_of: Mapping[bytes, int] | None) -> int:
        """How many rows a call has at most, so that several calls are made at the same time where that is quicker."""
        each = self._largest[table] if size_of is None else max(size_of.values(), default=0)
        calls = min(max(len(wanted) * each // _DIVIDED_BYTES, len(wanted) // _DIVIDED_ROWS, 1), _AT_A_TIME)
        return -(-len(wanted) // calls)

    def _tries(self, table: str) -> int:
        """How often rows of a table are asked for until they come. While a region moves, a Thrift server asks for it
        after longer and longer pauses, up to 20 s: a call that is made anew finds it at once. What `meta` says is
        wanted soon or not at all: lease and head."""
        return 1 if table == "meta" else _TRIES

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
        """In chunks, each read by a scanner of its own: none is left open while the caller is busy, to expire. The
        first chunks of all buckets are read at the same time."""
        buckets = [self._scan_chunks(table, salt, start, stop) for salt in salts(table)]
        firsts = self._parallel.all([partial(next, chunks, None) for chunks in buckets])
        rows = (
            _unsalted(len(salt), first, chunks)
            for salt, first, chunks in zip(salts(table), firsts, buckets, strict=True)
            if first is not None
        )
        return heapq.merge(*rows, key=itemgetter(0))

    def _scan_chunks(
        self, table: str, salt: bytes, start: Key, stop: Key | None, keys_only: bool = False
    ) -> Iterator[list[Row]]:
        """Salted rows of one bucket."""
        if stop is not None and stop <= start:
            return
        scan = thrift.TScan(startRow=salt + start, columns=[COLUMN])
        scan.stopRow = salt + stop if stop is not None else after(salt)
        if keys_only:
            scan.filterString = b"KeyOnlyFilter()"
        complete, tries = False, self._tries(table)
        while not complete:
            row_count = ROWS_MAX if keys_only else self._rows_per_call(table)
            try:
                with self._sizing(table):
                    rows, complete = self._read(table, scan_chunk, scan, row_count)
            except NoAnswer:
                tries -= 1
                if not tries:
                    raise
                continue
            if not rows:
                return
            self.calls.add_bytes("scan_chunk", _bytes_of(rows))
            yield rows
            scan.startRow = rows[-1][0] + b"\0"
            if not keys_only:
                self._note_sizes(table, rows)

    # ---- writing

    def put_many(self, puts: Iterable[Put]) -> None:
        self._check_writable()
        groups = self._mutations(puts)
        first, second = next(groups, []), next(groups, None)
        if second is None:
            self._parallel.all(first)
        else:  # much is written: the next is made ready while HBase writes these
            self._parallel.each(chain(first, second, chain.from_iterable(groups)), _WRITES_AT_A_TIME)

    def _mutations(self, puts: Iterable[Put]) -> Iterator[list[Callable[[], object]]]:
        """Calls that write CALL_BYTES_MAX together."""
        for calls, nbytes in calls_of(puts):
            self.calls.add_bytes("mutate", nbytes)
            yield [partial(self._call, mutate, self._names[table], rows, time) for (table, time), rows in calls.items()]

    def delete(self, table: str, keys: Sequence[Key], time: int) -> None:
        self._delete_rows(table, [salted(table, key) for key in keys if key], time)

    def delete_range(self, table: str, start: Key, stop: Key | None, time: int) -> None:
        for salt in salts(table):
            for rows in self._scan_chunks(table, salt, start, stop, keys_only=True):
                self._delete_rows(table, [row for row, _ in rows], time)

    def _delete_rows(self, table: str, rows: Sequence[bytes], cell_time: int) -> None:
        self._check_writable()
        for start in range(0, len(rows), DELETE_ROWS):
            mutations = [thrift.BatchMutation(row, [deletion()]) for row in rows[start : start + DELETE_ROWS]]
            self._call(mutate, self._names[table], mutations, cell_time)

    def allocate(self, counter: str, count: int) -> int:
        """Safe to repeat when the reply was lost: numbers are then left out, never given twice."""
        self._check_writable()
        return self._call(increment, self._names["meta"], counter_key(counter), count) - count + 1

    def publish(self, stages: Sequence[Sequence[Put]], compare_and_set: CompareAndSet) -> bool:
        """Nobody looks at the rows before the cell names them, so those of all stages are written at the same time."""
        check_compare_and_set(compare_and_set)
        self.put_many(chain.from_iterable(stages))
        return self._compare_and_set(compare_and_set)

    def _compare_and_set(self, change: CompareAndSet) -> bool:
        self._check_writable()
        # Not repeated when the reply is lost: the second would find its own work and say False.
        return self._call_once(check_and_put, self._names["meta"], change)

    def sync(self) -> None:
        """HBase has written its log when a call returns; when that reaches the disk is its file system's choice."""

    def _check_writable(self) -> None:
        """Raises StoreUnavailable if the store was opened for reading only."""
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
            self._parallel.close()
            self._connections.close()

    def _read(
        self,
        table: str,
        verb: Callable[Concatenate[Any, bytes, Parameters], Answer],
        *arguments: Parameters.args,
        **options: Parameters.kwargs,
    ) -> Answer:
        if table == "meta":
            return self._call(verb, self._names[table], *arguments, **options)
        with self._connections.reading():
            return self._call(verb, self._names[table], *arguments, **options)

    def _call(
        self,
        verb: Callable[Concatenate[Any, Parameters], Answer],
        *arguments: Parameters.args,
        **options: Parameters.kwargs,
    ) -> Answer:
        """`verb`, which may be repeated; once more if the connection has died."""
        try:
            with self.calls.counted(verb.__name__.lstrip("_")):
                return self._connections.call(verb, *arguments, **options)
        except ConnectionDied:
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
        except ConnectionDied as died:
            raise broken(self.where, died) from died

    def health(self) -> list[tuple[str, bool]]:
        """The Thrift servers, and whether calls go to each now."""
        return self._connections.health()


def is_absent(error: StoreUnavailable) -> bool:
    """Whether HBase says that there is no such table, or namespace."""
    return any(name in str(error) for name in ("TableNotFound", "NamespaceNotFound", "Unknown table"))


def _bytes_of(rows: Sequence[Row]) -> int:
    return sum(len(key) + len(value) for key, value in rows)


def _unsalted(salt_bytes: int, first: list[Row], more: Iterator[list[Row]]) -> Iterator[Row]:
    for rows in chain((first,), more):
        for row, value in rows:
            yield row[salt_bytes:], value
