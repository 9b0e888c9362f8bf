"""The contents of the store, counted once for each snapshot."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from resource import getpagesize

import numpy as np

from hbase_store import NAMED, Snapshot, Store

#: The pages show at most so many graphs.
GRAPHS_MAX = 500


@dataclass(frozen=True, slots=True)
class Counts:
    sn: int
    triples: int
    default: int  # triples in the default graph
    graphs: int  # number of named graphs
    named: dict[bytes, int]  # triples of named graphs, the largest first
    predicates: dict[bytes, int]  # triples of each predicate in any graph, the most used first


class Statistics:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._counts: Counts | None = None

    def counts(self) -> Counts:
        """The counts at the latest snapshot. One caller counts; the others wait for its result."""
        with self._lock:
            snapshot = self._store.at()
            if self._counts is None or self._counts.sn != snapshot.sn:
                self._counts = self._count(snapshot)
            return self._counts

    def _count(self, snapshot: Snapshot) -> Counts:
        default = {p: snapshot.count(p) for p in snapshot.predicates().tolist()}
        named = {p: snapshot.count(p, NAMED) for p in snapshot.predicates(NAMED).tolist()}
        graphs = snapshot.graphs()
        shown = Counter({g: snapshot.count_all(g) for g in graphs[:GRAPHS_MAX].tolist()})
        predicates = Counter(default) + Counter(named)
        total = sum(default.values())
        return Counts(
            int(snapshot.sn),
            total + sum(named.values()),
            total,
            len(graphs),
            self._named(shown),
            self._named(predicates),
        )

    def _named(self, counted: Counter[int]) -> dict[bytes, int]:
        ranked = counted.most_common()
        texts = self._store.terms(np.array([id for id, _ in ranked], np.uint64))
        return {text: count for text, (_, count) in zip(texts, ranked, strict=True)}


@dataclass(eq=False)
class Classes:
    """The classes of the store and how many instances each has, counted once for each snapshot that is asked for."""

    _lock: threading.Lock = field(default_factory=threading.Lock)
    _sn: int | None = None
    _counted: list[tuple[str, int]] = field(default_factory=list)

    def at(self, sn: int, count: Callable[[], list[tuple[str, int]]]) -> list[tuple[str, int]]:
        with self._lock:
            if self._sn != sn:
                self._sn, self._counted = sn, count()
            return self._counted


def disk_bytes(url: str) -> int | None:
    """What the files of an embedded store occupy; None: it is elsewhere."""
    scheme, _, folder = url.partition(":")
    if scheme != "lmdb":
        return None
    # A file of LMDB is as long as it may become; only its blocks are there.
    size = 0
    for file in Path(folder).glob("*"):
        with suppress(FileNotFoundError):  # removed meanwhile
            size += file.stat().st_blocks * 512
    return size


def memory_bytes() -> int:
    """The memory that this process uses now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * getpagesize()
