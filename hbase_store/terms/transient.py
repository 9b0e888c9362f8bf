"""Transient terms: those that only timing data has. Their texts go when the last slice that has them has gone.

A transient term has an id as any other, and its text stands in rows beside the slices, which are grouped into
generations: a minute of snapshots, or more of them where timing data is kept for long. Each generation that uses a term
writes it once, so that it holds all that its own slices need, and goes as a whole. What makes a term permanent (the
store absorbs it, a query names it) writes its text into a slab, under the id that it has: while anything is retained
that has an id, no other one is given to its term."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from hbase_store.arrays import Ids, Mask
from hbase_store.layout.terms import NO_TERM
from hbase_store.layout.transient_rows import Texts, TransientRow, joined
from hbase_store.memory_only import ShortLock

#: A generation lasts so long, and not less than this part of the time that timing data is kept.
GENERATION_MS = 60_000
_GENERATIONS = 16
#: One with more terms than this has no more.
GENERATION_TERMS = 1 << 19
#: All texts at once, in the memory of each process; terms that come beyond are permanent.
BYTES_MAX = 256 << 20

#: So many small parts are put aside before they are joined, if nobody looks anything up before.
_WAITING_MAX = 256


class Generation:
    """Its texts lie in a few levels, each at least twice as large as the next; many threads read, one adds."""

    def __init__(self, first: int, begun_ms: int) -> None:
        self.first, self.begun_ms = first, begun_ms
        self.streams: set[int] = set()
        self.nbytes = self.count = 0
        self._levels: tuple[Texts, ...] = ()
        self._waiting: list[Texts] = []
        self._lock = ShortLock()

    def add(self, streams: Iterable[int], texts: Texts) -> None:
        self.streams.update(streams)
        if not len(texts):
            return
        with self._lock:
            self._waiting.append(texts)
            self.nbytes += texts.nbytes
            self.count += len(texts)
        if len(self._waiting) > _WAITING_MAX:
            self.levels()

    def levels(self) -> tuple[Texts, ...]:
        if self._waiting:
            with self._lock:
                if self._waiting:
                    levels = [*self._levels, joined(self._waiting)]
                    while len(levels) > 1 and len(levels[-2]) < 2 * len(levels[-1]):
                        levels[-2:] = [joined(levels[-2:])]
                    self._levels = tuple(levels)
                    self._waiting = []
        return self._levels


@dataclass(slots=True)
class OpenGeneration:
    """The generation that the writer adds to: the terms it has written there, with their ids."""

    first: int
    begun_ms: int
    streams: set[int] = field(default_factory=set)
    written: dict[bytes, int] = field(default_factory=dict)


class TransientTerms:
    """The transient terms that are alive. Many threads read, one at a time adds and drops."""

    def __init__(self) -> None:
        self.generations: tuple[Generation, ...] = ()
        self._added = 0
        #: No generation that begins before this snapshot is here.
        self.first = 0
        # The newest one has nothing from this snapshot on; None: it may still grow.
        self._closed: int | None = None

    def __bool__(self) -> bool:
        return bool(self.generations)

    def version(self) -> object:
        return self._added, self.first

    @property
    def nbytes(self) -> int:
        return sum(generation.nbytes for generation in self.generations)

    @property
    def count(self) -> int:
        """How many terms there are; a term counts in each generation that has it."""
        return sum(generation.count for generation in self.generations)

    def add(self, row: TransientRow) -> None:
        if row.generation < self.first:
            return
        newest = self.generations[-1] if self.generations else None
        if newest is None or newest.first != row.generation:
            assert newest is None or newest.first < row.generation
            newest = Generation(row.generation, row.begun_ms)
            self.generations = (*self.generations, newest)
            self._closed = None
        newest.add(row.streams, row.texts)
        self._added += 1

    def drop(self, first: int) -> None:
        """All generations that begin before this snapshot."""
        if first > self.first:
            self.first = first
            self.generations = tuple(generation for generation in self.generations if generation.first >= first)

    def pinned(self) -> TransientTerms:
        """The terms that are alive now, in a copy from which none is dropped."""
        pinned = TransientTerms()
        pinned.first, pinned.generations = self.first, self.generations
        return pinned

    def first_needed(self, horizons: Mapping[int, int]) -> int:
        """The start of the oldest generation that is needed: one of its streams has slices at or above the horizon of
        that stream (or has no horizon), or the generation may still grow."""
        ends = [*(generation.first for generation in self.generations[1:]), self._closed]
        for generation, end in zip(self.generations, ends, strict=bool(self.generations)):
            if end is None or any(horizons.get(stream, 0) < end for stream in generation.streams):
                return generation.first
        return self._closed or self.first

    def next_generation(self, open_: OpenGeneration | None, now_ms: int, sn: int) -> OpenGeneration | None:
        """The generation of a batch; None: there is no room for more terms, and the newest generation is closed."""
        if self.nbytes > BYTES_MAX:
            self._closed = self._closed or sn
            return None
        if open_ is None:
            return OpenGeneration(sn, now_ms)
        age_ms = now_ms - open_.begun_ms
        retained_ms = now_ms - self.generations[0].begun_ms if self.generations else 0
        is_over = age_ms >= max(GENERATION_MS, retained_ms // _GENERATIONS) or len(open_.written) > GENERATION_TERMS
        return OpenGeneration(sn, now_ms) if is_over else open_

    # ---- reading

    def ids(self, texts: Sequence[bytes], before: int | None = None) -> Ids:
        """The ids of terms, or NO_TERM. `before`: only of generations that begin before this snapshot."""
        found = np.full(len(texts), NO_TERM, np.uint64)
        generations = [g for g in reversed(self.generations) if before is None or g.first < before]
        if not generations or not len(texts):
            return found
        from hbase_store.layout.hashing import hash_texts  # numba takes a third of a second to import

        hashes = hash_texts(texts)
        missing = np.argsort(hashes)  # ascending, so that a search goes through memory in one direction
        for generation in generations:
            for level in generation.levels():
                listed = missing.tolist()
                for place, id in level.matches(hashes[missing], [texts[i] for i in listed]):
                    found[listed[place]] = id
                missing = missing[found[missing] == NO_TERM]
                if not len(missing):
                    return found
        return found

    def texts(self, ids: Ids) -> list[bytes]:
        """The texts of ascending ids; b"" for an id that is not among these terms."""
        texts = [b""] * len(ids)
        missing = np.arange(len(ids))
        for generation in reversed(self.generations):
            for level in generation.levels():
                there, places = level.places(ids[missing])
                for i, place in zip(missing[there].tolist(), places[there].tolist(), strict=True):
                    texts[i] = level.text(place)
                missing = missing[~there]
                if not len(missing):
                    return texts
        return texts

    def have(self, ids: Ids) -> Mask:
        found = np.zeros(len(ids), np.bool_)
        for level in self.levels():
            found |= level.places(ids)[0]
        return found

    def levels(self) -> Iterator[Texts]:
        for generation in self.generations:
            yield from generation.levels()
