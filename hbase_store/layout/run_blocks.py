"""The bytes of a run: blocks of sorted rows, and the index that says where each block begins.

A block is at most 8,192 rows of one column: each key once with its number of rows, then the values, of named graphs
the graphs beside, and a bit a row where some of them are deletions. The index of a run lists its columns, and for each
block the first row and the number of rows; so every read of blocks is an exact multi-get."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from hbase_store.arrays import Columns, Ids
from hbase_store.backends.keyvalue import Key, Put, Value
from hbase_store.errors import SnapshotGone
from hbase_store.layout.columns import pack_column, unpack_column
from hbase_store.layout.sealed import corrupt, cut, payload_of, seal, unseal
from hbase_store.sorted.view import FORWARD, View, view_of

BLOCK_ROWS = 8192
#: Hashes are looked up one by one, anywhere: small blocks.
HASH_BLOCK_ROWS = 1024

#: What the rows of a column are: edges of the default graph, edges of the named graphs, hashes of terms.
PLAIN, NAMED_EDGES, HASHES = 0, 1, 2
#: As a predicate: the rows are (vertex or graph, predicate), for each predicate that it has.
PREDICATES = 0

_MAGIC, _INDEX_MAGIC = b"RB", b"RI"
_HEADER = struct.Struct("<BxxxI")
BLOCK_HEADER_BYTES = _HEADER.size
#: The flags of a block: it has graphs, or rows that are deletions.
WIDE, DELETIONS = 1, 2
_KEY = struct.Struct(">QBQBQQQ")
_INDEX_KEY = struct.Struct(">QI")


class ColumnKey(NamedTuple):
    kind: int
    predicate: int
    order: int  # of `hbase_store.sorted.view`


#: The one column of hashes: rows (hash of a term, its id).
HASH_COLUMN = ColumnKey(HASHES, 1, FORWARD)


def is_edges(key: ColumnKey) -> bool:
    return key.kind != HASHES and key.predicate != PREDICATES


def is_derived(key: ColumnKey) -> bool:
    """Whether the column follows from the others of its run."""
    return key.kind != HASHES and key.predicate == PREDICATES


@dataclass(frozen=True, slots=True)
class ColumnIndex:
    """Of each block its first row and number of rows; and what can be known of the column without reading it."""

    first: Columns
    rows: Ids
    deletions: int
    keys: int  # distinct ones, but a key that spans blocks counts in each

    @property
    def total(self) -> int:
        return int(self.rows.sum())


def block_key(run: int, column: ColumnKey, first: Sequence[int]) -> Key:
    graph = first[2] if len(first) == 3 else 0
    return _KEY.pack(run, column.kind, column.predicate, column.order, first[0], first[1], graph)


def run_range(run: int) -> tuple[Key, Key]:
    """The keys of all blocks of a run lie between."""
    return struct.pack(">Q", run), struct.pack(">Q", run + 1)


def run_number(key: Key) -> int:
    number: int = _KEY.unpack(key)[0]
    return number


def index_key(run: int, piece: int) -> Key:
    return _INDEX_KEY.pack(run, piece)


def pages_key(run: int) -> Key:
    """Beside the index of a run that was loaded: which pages of terms came with it."""
    return index_key(run, (1 << 32) - 1)


# ---- blocks


def block_bytes_max(rows: int, width: int) -> int:
    """How large a block of so many rows of so many columns is at most: besides these, each row may have two bytes of a
    count and a bit of a deletion."""
    return rows * (8 * width + 3) + 128


def pack_block(view: View) -> Value:
    keys = view.columns[0]
    starts = np.flatnonzero(np.concatenate(([True], keys[1:] != keys[:-1])))
    counts = np.diff(starts, append=len(keys)).astype(np.uint64)
    deletions = view.inserted is not None and not view.inserted.all()
    flags = (WIDE if len(view.columns) == 3 else 0) | (DELETIONS if deletions else 0)
    parts = [_HEADER.pack(flags, len(keys)), *map(pack_column, (keys[starts], counts, *view.columns[1:]))]
    if view.inserted is not None and deletions:
        parts.append(np.packbits(view.inserted).tobytes())
    return seal(_MAGIC, b"".join(parts))


@dataclass(frozen=True, slots=True)
class StoredBlock:
    """A block as it is stored; its checksum was right."""

    key: Key
    value: Value

    @property
    def nbytes(self) -> int:
        return len(self.value)

    @property
    def payload(self) -> memoryview:
        return payload_of(self.value)


def checked_block(value: Value | None, key: Key) -> StoredBlock:
    return StoredBlock(key, _checked(value, key))


def _checked(value: Value | None, key: Key) -> Value:
    if value is None:
        raise SnapshotGone(f"the block {key.hex()} of table run is gone: its snapshot is no longer retained")
    if len(unseal(_MAGIC, value, "run", key)) < BLOCK_HEADER_BYTES:
        raise corrupt("run", key, "it is cut off")
    return value


def unpack_block(value: Value | None, key: Key) -> View:
    payload = payload_of(_checked(value, key))
    try:
        return _unpack(payload)
    except (ValueError, struct.error) as error:
        raise corrupt("run", key, str(error)) from error


def _unpack(payload: memoryview) -> View:
    flags, rows = _HEADER.unpack_from(payload)
    keys, at = unpack_column(payload, _HEADER.size)
    counts, at = unpack_column(payload, at)
    values, at = unpack_column(payload, at)
    columns: Columns = (keys if len(keys) == rows else np.repeat(keys, counts.astype(np.int64)), values)
    if flags & WIDE:
        graphs, at = unpack_column(payload, at)
        columns = (*columns, graphs)
    if rows > BLOCK_ROWS or {len(column) for column in columns} != {rows} or len(counts) != len(keys):
        raise ValueError("the columns of a block do not fit each other")
    if not flags & DELETIONS:
        return view_of(columns, None)
    if len(payload) - at != (rows + 7) // 8:
        raise ValueError("the deletions of a block are cut off")
    return view_of(columns, np.unpackbits(np.frombuffer(payload, np.uint8, -1, at), count=rows).astype(np.bool_))


# ---- a run, written


class RunWriter:
    """Columns in, rows to put out; the index is for last."""

    def __init__(self, number: int, time: int) -> None:
        self.number = number
        self.rows = 0
        self.nbytes = 0
        self._time = time
        self.columns: dict[ColumnKey, ColumnIndex] = {}

    def add(self, key: ColumnKey, view: View) -> Iterator[Put]:
        """The blocks of one column, as they are made."""
        if len(view) == 0:
            return
        size = HASH_BLOCK_ROWS if key.kind == HASHES else BLOCK_ROWS
        starts = np.arange(0, len(view), size)
        first = tuple(column[starts] for column in view.columns)
        rows = np.diff(starts, append=len(view)).astype(np.uint64)
        deletions = 0 if view.inserted is None else int(len(view) - np.count_nonzero(view.inserted))
        keys = 1 + int(np.count_nonzero(view.columns[0][1:] != view.columns[0][:-1]))
        self.columns[key] = ColumnIndex(first, rows, deletions, keys)
        self.rows += len(view)
        for i, start in enumerate(starts.tolist()):
            part = slice(start, start + size)
            flags = None if view.inserted is None else view.inserted[part]
            value = pack_block(View(tuple(column[part] for column in view.columns), flags))
            self.nbytes += len(value)
            yield Put("run", block_key(self.number, key, [int(c[i]) for c in first]), value, self._time)

    def adopt(self, columns: Mapping[ColumnKey, ColumnIndex], nbytes: int) -> None:
        """Blocks that were packed elsewhere, of so many bytes; they come behind what is there of their columns."""
        for key, index in columns.items():
            self.columns[key] = _together(self.columns[key], index) if key in self.columns else index
            self.rows += index.total
        self.nbytes += nbytes

    def index_puts(self) -> list[Put]:
        return [
            Put("runindex", index_key(self.number, piece), seal(_INDEX_MAGIC, body), self._time)
            for piece, body in enumerate(cut(pack_index(self.columns)))
        ]


def _together(one: ColumnIndex, next_: ColumnIndex) -> ColumnIndex:
    first = tuple(np.concatenate(parts) for parts in zip(one.first, next_.first, strict=True))
    rows = np.concatenate((one.rows, next_.rows))
    return ColumnIndex(first, rows, one.deletions + next_.deletions, one.keys + next_.keys)


def pack_index(columns: dict[ColumnKey, ColumnIndex]) -> bytes:
    """Layout: the columns' kinds, predicates, orders, numbers of blocks, of deletions and of keys; then of all
    blocks the first keys, values and graphs, and the numbers of rows. Each is written as a column."""
    ordered = sorted(columns)
    of_columns = np.array(
        [
            (key.kind, key.predicate, key.order, len(index.rows), index.deletions, index.keys)
            for key, index in ((key, columns[key]) for key in ordered)
        ],
        np.uint64,
    ).reshape(-1, 6)
    of_blocks: list[list[Ids]] = [[], [], [], []]
    for key in ordered:
        index = columns[key]
        graphs = index.first[2] if len(index.first) == 3 else np.zeros(len(index.rows), np.uint64)
        for part, column in zip(of_blocks, (*index.first[:2], graphs, index.rows), strict=True):
            part.append(column)
    joined = [np.concatenate(parts) if parts else np.empty(0, np.uint64) for parts in of_blocks]
    return b"".join(map(pack_column, (*(np.ascontiguousarray(of_columns[:, i]) for i in range(6)), *joined)))


def unpack_index(pieces: Sequence[tuple[Key, Value | None]]) -> dict[ColumnKey, ColumnIndex]:
    for key, value in pieces:
        if value is None:
            raise SnapshotGone(f"the index {key.hex()} of table runindex is gone: its snapshot is no longer retained")
    data = memoryview(b"".join(bytes(unseal(_INDEX_MAGIC, value, "runindex", key)) for key, value in pieces))
    try:
        return unpack_columns(data)
    except ValueError as error:
        raise corrupt("runindex", pieces[0][0], str(error)) from error


def unpack_columns(data: memoryview) -> dict[ColumnKey, ColumnIndex]:
    at, parts = 0, []
    for _ in range(10):
        column, at = unpack_column(data, at)
        parts.append(column)
    kinds, predicates, orders, blocks, deletions, keys = (column.tolist() for column in parts[:6])
    if len({*map(len, parts[6:])}) > 1 or sum(blocks) != len(parts[9]):
        raise ValueError("the columns of an index do not fit each other")
    columns: dict[ColumnKey, ColumnIndex] = {}
    start = 0
    for i, kind in enumerate(kinds):
        key = ColumnKey(kind, predicates[i], orders[i])
        place = slice(start, start + blocks[i])
        wide = kind == NAMED_EDGES and key.predicate != PREDICATES
        first = tuple(column[place] for column in parts[6 : 9 if wide else 8])
        columns[key] = ColumnIndex(first, parts[9][place], deletions[i], keys[i])
        start = place.stop
    return columns
