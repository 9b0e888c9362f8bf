"""Late elements: which elements came too late, and for which queries.

Only their places in the store are retained, those of the latest elements of each stream; their triples are read from
the store when a client requests them."""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from hbase_store import Store, StreamColumns
from hbase_store.errors import SnapshotGone
from hbase_store.layout.terms import parse_term
from stream_ext.errors import TooLarge

RETAINED_MAX = 10_000
#: The limit for late elements that are returned at a time; a single one may be larger.
JSON_BYTES_MAX = 64 << 20


class Late(msgspec.Struct, array_like=True, frozen=True):
    """A late element: its snapshot, its place there (push, and element of the push), and the queries that missed it."""

    sn: int
    push: int
    element: int
    time: int
    queries: tuple[int, ...]


class LateElements:
    """One thread adds; any may read."""

    def __init__(self, retained_max: int = RETAINED_MAX) -> None:
        self._retained_max = retained_max
        self._lock = threading.Lock()
        self._retained: dict[int, deque[Late]] = {}
        self._counted: Counter[int] = Counter()

    def add(self, stream: int, late: Sequence[Late]) -> None:
        with self._lock:
            self._retained.setdefault(stream, deque(maxlen=self._retained_max)).extend(late)
            self._counted[stream] += len(late)

    def restore(self, stream: int, counted: int, late: Sequence[Late]) -> None:
        """Adds elements of before this process started; `counted`: all late elements of the stream by then."""
        with self._lock:
            self._retained.setdefault(stream, deque(maxlen=self._retained_max)).extend(late)
            self._counted[stream] = counted

    def forget(self, stream: int) -> None:
        """The stream was dropped."""
        with self._lock:
            self._retained.pop(stream, None)
            self._counted.pop(stream, None)

    def counted(self, stream: int) -> int:
        """The number of late elements, with those that are not retained any more."""
        return self._counted[stream]

    def retained(self, stream: int, since: int = 0) -> list[Late]:
        """The retained late elements of snapshots after `since`, in order of arrival."""
        with self._lock:
            return [late for late in self._retained.get(stream, ()) if late.sn > since]


def found_late(
    sn: int,
    push: int,
    times: npt.NDArray[np.int64],
    missed: Sequence[tuple[Collection[int], npt.NDArray[np.bool_]]],
) -> list[Late]:
    """`missed`: sets of queries, each with the elements of the push that are late for them."""
    if not missed:
        return []
    masks = np.array([mask for _, mask in missed])
    known: dict[bytes, tuple[int, ...]] = {}  # many elements are late for the same queries
    found = []
    for element in np.flatnonzero(masks.any(axis=0)).tolist():
        whose = masks[:, element]
        queries = known.get(key := whose.tobytes())
        if queries is None:
            some = (missed[place][0] for place in np.flatnonzero(whose).tolist())
            queries = known[key] = tuple(sorted(query for each in some for query in each))
        found.append(Late(sn, push, element, int(times[element]), queries))
    return found


def as_objects(store: Store, stream: int, late: Sequence[Late], names: Mapping[int, str]) -> list[dict[str, Any]]:
    """JSON objects that could be pushed again; elements that the store has collected meanwhile are left out."""
    objects: list[dict[str, Any]] = []
    size = 0
    for each in late:
        try:
            columns = store.stream(each.sn, stream)
        except SnapshotGone:
            continue
        if columns is not None:
            objects.append(_object(store, columns, each, names))
            size += len(objects[-1]["data"]) + sum(map(len, objects[-1]["queries"]))
        if size > JSON_BYTES_MAX and len(objects) > 1:
            raise TooLarge(
                f"these late elements have more than {JSON_BYTES_MAX >> 20} MiB: request fewer at a time, "
                "with limit= and since= (the snapshot of the last one)"
            )
    return objects


def _object(store: Store, columns: StreamColumns, late: Late, names: Mapping[int, str]) -> dict[str, Any]:
    element = int(columns.push.searchsorted(late.push)) + late.element
    start, stop = columns.element.searchsorted([element, element + 1])
    rows = slice(int(start), int(stop))
    graph, graphs = int(columns.graph[element]), columns.graphs(rows)
    if (graphs != graph).any():  # one graph would not be true: N-Quads
        several, where = np.unique(graphs, return_inverse=True)
        ends_of = [b" %s ." % _text(store, each) if each else b" ." for each in several.tolist()]
        ends = [ends_of[place] for place in where.tolist()]
        named = {}
    else:
        ends = [b" ."] * len(graphs)
        named = {"graph": parse_term(_text(store, graph)).value} if graph else {}
    terms = (store.terms(column[rows]) for column in (columns.s, columns.p, columns.o))
    lines = [b"%s %s %s%s" % statement for statement in zip(*terms, ends, strict=True)]
    return {
        "timestamp": late.time,
        **named,
        "data": b"\n".join(lines).decode(),
        "snapshot": late.sn,
        "queries": [names[query] for query in late.queries if query in names],
    }


def _text(store: Store, term: int) -> bytes:
    return store.terms(np.array([term], np.uint64))[0]
