"""The verbs of a Thrift 1 client of HBase, each one or few calls, and how rows lie in its tables.

Rows of one table are spread over 8 buckets by a hash of their key, put in front of it as one byte (the salt): otherwise
all new rows, which have the highest keys, would go to one region."""

from __future__ import annotations

import zlib
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from hbase_store.backends.keyvalue import ANSWER_BYTES_MAX, CALL_BYTES_MAX, CompareAndSet, Key, Put, Value
from hbase_store.backends.meta_cells import check_put
from hbase_store.backends.thrift_connections import thrift

Row = tuple[Key, Value]

BUCKETS = 8
COLUMN = b"n:v"

# An answer has at most ROWS_MAX rows. If the caller knows their sizes, it has at most ANSWER_BYTES_MAX bytes; else
# about CALL_BYTES_MAX, estimated by the largest row of recent answers. At least ROWS_MIN rows are requested, also the
# first time, when nothing is known, and after an answer that did not arrive in time.
ROWS_MIN = 2
ROWS_MAX = 256
CHUNK_ROWS = 4096
#: What a row costs in a call besides its key and value.
ROW_BYTES = 64


def create_table(client: Any, name: bytes, compression: str = "NONE") -> None:
    # None of this is a default of HBase.
    family = thrift.ColumnDescriptor(
        name=b"n:", maxVersions=1, bloomFilterType=b"ROW", blockCacheEnabled=True, compression=compression.encode()
    )
    try:
        client.createTable(name, [family])
    except thrift.AlreadyExists:
        return  # another process was quicker, or a call was repeated


def delete_table(client: Any, name: bytes) -> None:
    if client.isTableEnabled(name):
        client.disableTable(name)
    client.deleteTable(name)


def regions_of(client: Any, name: bytes) -> list[Any]:
    regions: list[Any] = client.getTableRegions(name)
    return regions


def family_of(client: Any, name: bytes) -> Any:
    """The description of the family `n`; None: there is none."""
    return {bytes(key): found for key, found in client.getColumnDescriptors(name).items()}.get(b"n:")


def get_rows(client: Any, name: bytes, rows: Sequence[bytes]) -> list[Row]:
    """The salted rows that are there."""
    return _rows(client.getRowsWithColumns(name, rows, [COLUMN], {}))


def scan_chunk(client: Any, name: bytes, scan: Any, row_count: int) -> tuple[list[Row], bool]:
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


def that_fit(wanted: Sequence[bytes], start: int, size_of: Mapping[bytes, int]) -> int:
    """How many rows from `start` on fit into one answer; at least one."""
    size = count = 0
    for row in wanted[start : start + ROWS_MAX]:
        size += size_of[row] + len(row) + ROW_BYTES
        if count and size > ANSWER_BYTES_MAX:
            break
        count += 1
    return count


def to_border(wanted: Sequence[bytes], start: int, end: int, most: int) -> int:
    """`end`, or where a bucket ends near it, if these are at most `most` rows: tables are split at buckets, so a call
    for whole buckets goes to fewer regions."""
    if end >= len(wanted):
        return len(wanted)
    salt = wanted[end][0]
    borders = bisect_left(wanted, bytes([salt]), start), bisect_left(wanted, bytes([salt + 1]), end)
    nearest = min(borders, key=lambda border: abs(border - end))
    is_near = 4 * abs(nearest - end) <= end - start
    return nearest if start < nearest <= start + most and is_near else end


def mutate(client: Any, name: bytes, mutations: Sequence[Any], cell_time: int) -> None:
    client.mutateRowsTs(name, mutations, cell_time, {})


def increment(client: Any, name: bytes, key: Key, count: int) -> int:
    end: int = client.atomicIncrement(name, key, COLUMN, count)
    return end


def check_and_put(client: Any, name: bytes, change: CompareAndSet) -> bool:
    done: bool = client.checkAndPut(name, change.key, COLUMN, change.expected, _insertion(change.new), {})
    return done


def _insertion(value: Value) -> Any:
    return thrift.Mutation(isDelete=False, column=COLUMN, value=value, writeToWAL=True)


def deletion() -> Any:
    return thrift.Mutation(isDelete=True, column=COLUMN, writeToWAL=True)


def calls_of(puts: Iterable[Put]) -> Iterator[tuple[dict[tuple[str, int], list[Any]], int]]:
    """Puts as mutations by table and cell time, and their size, of at most CALL_BYTES_MAX together: a call has one
    table and one time."""
    calls: dict[tuple[str, int], list[Any]] = {}
    size = 0
    for put in puts:
        check_put(put)
        put_bytes = len(put.key) + len(put.value) + ROW_BYTES
        if size + put_bytes > CALL_BYTES_MAX:
            yield calls, size
            calls, size = {}, 0
        mutation = thrift.BatchMutation(salted(put.table, put.key), [_insertion(put.value)])
        calls.setdefault((put.table, put.time), []).append(mutation)
        size += put_bytes
    yield calls, size


# ---- salt


def salted(table: str, key: Key) -> bytes:
    return key if table == "meta" else bytes([zlib.crc32(key) % BUCKETS]) + key


def salts(table: str) -> list[bytes]:
    return [b""] if table == "meta" else [bytes([bucket]) for bucket in range(BUCKETS)]


def after(salt: bytes) -> bytes | None:
    return bytes([salt[0] + 1]) if salt else None
