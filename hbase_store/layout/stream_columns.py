"""Columns of a stream: what came in one snapshot, in document order, as windows need it.

A set of triples would lose which element a triple came in, when, and in which push. What is absorbed into the
store is written in the slab and the rest in a slice of the stream, each triple once; rows carry their number in
the document, so that both together give the columns back as they came."""

from __future__ import annotations

import struct
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hbase_store.arrays import Ids, Mask, as_ids, frozen
from hbase_store.layout.columns import from_signed, pack_column, to_signed, unpack_column

Times = npt.NDArray[np.int64]
Ordinals = npt.NDArray[np.int32]

#: Elements and triples of one record: the widest columns that there can be still fit into one piece.
PART_ROWS = 32768
_HEADER = struct.Struct("<QII")
_ALL = slice(None)


@dataclass(frozen=True, slots=True)
class StreamColumns:
    """Per element `time`, `graph` (0: the default graph) and `push`; per triple `element`, `s`, `p`, `o`.

    `g`: the graph of each triple, where some element has triples in several graphs. None: each triple is in the graph
    of its element."""

    stream: int
    time: Times
    graph: Ids
    push: Ordinals
    element: Ordinals
    s: Ids
    p: Ids
    o: Ids
    g: Ids | None = None

    def __post_init__(self) -> None:
        if not len(self.time) == len(self.graph) == len(self.push):
            raise ValueError("the element columns of a stream differ in length")
        if not len(self.element) == len(self.s) == len(self.p) == len(self.o):
            raise ValueError("the triple columns of a stream differ in length")
        if self.g is not None and len(self.g) != len(self.s):
            raise ValueError("the triple columns of a stream differ in length")

    def frozen(self) -> StreamColumns:
        """The same columns, read-only."""
        of_elements = (frozen(self.time), frozen(self.graph), frozen(self.push))
        s, p, o, g = frozen(self.s), frozen(self.p), frozen(self.o), None if self.g is None else frozen(self.g)
        return StreamColumns(self.stream, *of_elements, frozen(self.element), s, p, o, g)

    def graphs(self, rows: slice | Mask = _ALL) -> Ids:
        """The graph of each of these triples."""
        return self.graph[self.element[rows]] if self.g is None else self.g[rows]

    @property
    def nbytes(self) -> int:
        of_elements = self.time.nbytes + self.graph.nbytes + self.push.nbytes
        of_rows = self.element.nbytes + self.s.nbytes + self.p.nbytes + self.o.nbytes
        return of_elements + of_rows + (0 if self.g is None else self.g.nbytes)


@dataclass(frozen=True, slots=True)
class StreamPart:
    """Some elements and some triples of a stream's columns; `elements` and `rows` say which, in document order. All
    parts of the same columns have a `g`, or none has."""

    stream: int
    elements_total: int
    rows_total: int
    elements: Ids
    time: Times
    graph: Ids
    push: Ordinals
    rows: Ids
    element: Ordinals
    s: Ids
    p: Ids
    o: Ids
    g: Ids | None = None


def split(columns: StreamColumns, absorbed: Mask | None) -> tuple[StreamPart | None, StreamPart | None]:
    """(what goes into the slab, what goes into the slice); elements without triples are in the slice."""
    if absorbed is None or not absorbed.any():
        return None, _whole(columns)
    in_slab = np.zeros(len(columns.time), bool)
    in_slab[columns.element[absorbed]] = True
    in_slice = ~in_slab
    in_slice[columns.element[~absorbed]] = True
    slab = _part(columns, in_slab, absorbed)
    return slab, _part(columns, in_slice, ~absorbed) if in_slice.any() else None


def _whole(columns: StreamColumns) -> StreamPart:
    elements, rows = len(columns.time), len(columns.s)
    return StreamPart(
        columns.stream,
        elements,
        rows,
        np.arange(elements, dtype=np.uint64),
        columns.time,
        columns.graph,
        columns.push,
        np.arange(rows, dtype=np.uint64),
        columns.element,
        columns.s,
        columns.p,
        columns.o,
        columns.g,
    )


def _part(columns: StreamColumns, elements: Mask, rows: Mask) -> StreamPart:
    return StreamPart(
        columns.stream,
        len(columns.time),
        len(columns.s),
        np.flatnonzero(elements).astype(np.uint64),
        columns.time[elements],
        columns.graph[elements],
        columns.push[elements],
        np.flatnonzero(rows).astype(np.uint64),
        columns.element[rows],
        columns.s[rows],
        columns.p[rows],
        columns.o[rows],
        None if columns.g is None else columns.g[rows],
    )


def merge(parts: Sequence[StreamPart]) -> StreamColumns:
    """The columns of a push from all its parts, in the order of the push; a ValueError if a row is missing."""
    elements_total, rows_total = parts[0].elements_total, parts[0].rows_total
    elements = np.concatenate([part.elements for part in parts]).astype(np.int64)
    rows = np.concatenate([part.rows for part in parts]).astype(np.int64)
    if len(rows) != rows_total or len(np.unique(elements)) != elements_total:
        raise ValueError(f"{len(rows)} of {rows_total} triples are there, or an element is missing")
    if len({part.g is None for part in parts}) > 1:
        raise ValueError("some triples have graphs of their own, and others have not")

    def scattered(name: str, places: npt.NDArray[np.int64], total: int) -> npt.NDArray[np.int64]:
        column = np.concatenate([getattr(part, name) for part in parts])
        whole = np.empty(total, column.dtype)
        whole[places] = column
        whole.flags.writeable = False
        return whole

    by_element = (scattered(name, elements, elements_total) for name in ("time", "graph", "push"))
    of_rows = ("element", "s", "p", "o") if parts[0].g is None else ("element", "s", "p", "o", "g")
    by_row = (scattered(name, rows, rows_total) for name in of_rows)
    return StreamColumns(parts[0].stream, *by_element, *by_row)  # type: ignore[arg-type]  # dtypes differ by column


def graphs_of(parts: Sequence[StreamPart]) -> list[Ids]:
    """For each part the graph of each of its triples; their elements are somewhere among the parts."""
    graph = np.zeros(parts[0].elements_total, np.uint64)
    for part in parts:
        graph[part.elements.astype(np.int64)] = part.graph
    return [graph[part.element] if part.g is None else part.g for part in parts]


def pack_part(part: StreamPart) -> Iterator[bytes]:
    """Records of at most PART_ROWS elements and triples each.

    Layout: stream (8 bytes), number of all elements and of all triples of the batch (4 bytes each), then the
    columns elements, time, graph, push, rows, element, s, p, o, and then g if the part has it."""
    header = _HEADER.pack(part.stream, part.elements_total, part.rows_total)
    of_elements = (part.elements, from_signed(part.time), part.graph, as_ids(part.push))
    of_rows = (part.rows, as_ids(part.element), part.s, part.p, part.o, *(() if part.g is None else (part.g,)))
    for start in range(0, max(len(part.elements), len(part.rows), 1), PART_ROWS):
        columns = (column[start : start + PART_ROWS] for column in (*of_elements, *of_rows))
        yield header + b"".join(map(pack_column, columns))


def unpack_part(data: memoryview, has_graphs: bool = False) -> StreamPart:
    """A ValueError if `data` is no record of a stream. `has_graphs`: its triples have graphs of their own."""
    if len(data) < _HEADER.size:
        raise ValueError("a record of a stream is cut off")
    stream, elements_total, rows_total = _HEADER.unpack_from(data)
    at, columns = _HEADER.size, []
    for _ in range(9 + has_graphs):
        column, at = unpack_column(data, at)
        columns.append(column)
    elements, time, graph, push, rows, element, s, p, o, *graphs = columns
    if len({*map(len, columns[:4])}) > 1 or len({*map(len, columns[4:])}) > 1:
        raise ValueError("the columns of a stream do not fit each other")
    ordinals = push.astype(np.int32), element.astype(np.int32)
    of_elements = (elements, to_signed(time), graph, ordinals[0])
    return StreamPart(stream, elements_total, rows_total, *of_elements, rows, ordinals[1], s, p, o, *graphs)


class RecentStreams:
    """The columns last written or read, up to so many bytes, so that a reader at the head reads nothing twice."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._bytes = 0
        self._columns: OrderedDict[tuple[int, int], StreamColumns] = OrderedDict()
        self._lock = threading.Lock()

    @property
    def nbytes(self) -> int:
        return self._bytes

    def get(self, sn: int, stream: int) -> StreamColumns | None:
        with self._lock:
            columns = self._columns.get((sn, stream))
            if columns is not None:
                self._columns.move_to_end((sn, stream))
            return columns

    def put(self, sn: int, columns: StreamColumns) -> None:
        with self._lock:
            if (sn, columns.stream) in self._columns:
                return
            self._columns[sn, columns.stream] = columns
            self._bytes += columns.nbytes
            while self._bytes > self._bytes_max and len(self._columns) > 1:
                _, oldest = self._columns.popitem(last=False)
                self._bytes -= oldest.nbytes

    def drop_below(self, horizon: Callable[[int], int]) -> None:
        """Drops what is not retained any more; `horizon` gives the oldest retained snapshot of a stream."""
        with self._lock:
            firsts = {stream: horizon(stream) for stream in {stream for _, stream in self._columns}}
            for key in [(sn, stream) for sn, stream in self._columns if sn < firsts[stream]]:
                self._bytes -= self._columns.pop(key).nbytes
