"""A batch: what becomes one snapshot. It collects changes, new terms and moves of streams, and nothing else.

A change is an assertion, not a question: inserting what is there, or deleting what is not, is fine. Of several
operations on one quad the last one wins. New terms get their ids at once, but nobody else knows them until the
batch is committed; a batch that is dropped leaves nothing behind."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from operator import itemgetter

import numpy as np
import numpy.typing as npt

from hbase_store.arrays import Columns, Ids, Mask, as_ids, concatenate, last_of_each
from hbase_store.backends.keyvalue import Value
from hbase_store.errors import StoreError
from hbase_store.layout.blocks import Block, blocks_of, by_predicate
from hbase_store.layout.rows import CatalogChange, StreamMove
from hbase_store.layout.slab import Slab, TermsChunk, check_lengths, chunks_of, pack_slab
from hbase_store.layout.stream_columns import StreamColumns, StreamPart, split
from hbase_store.layout.terms import NO_TERM, blank_ids, check_encodable, check_numbers
from hbase_store.layout.transient_rows import pack_transient
from hbase_store.terms.dictionary import Dictionary
from hbase_store.terms.transient import OpenGeneration

#: Numbers that a writer takes from a counter at once, or a multiple: so two writers never share a page of terms.
NUMBERS = 4096

# What an operation is: the stream's own record in the slab says that its triples are inserted.
_DELETED, _INSERTED, _STREAMED = 0, 1, 2


class Numbers:
    """Numbers from a counter of the store, taken in blocks, handed out in ascending order."""

    def __init__(self, allocate: Callable[[str, int], int], counter: str) -> None:
        self._allocate, self._counter = allocate, counter
        self._next = self._end = 0

    def take(self, count: int) -> list[range]:
        """`count` numbers as runs of consecutive ones: one or two."""
        runs: list[range] = []
        rest = min(count, self._end - self._next)
        if rest:
            runs.append(range(self._next, self._next + rest))
        missing = count - rest
        self._next += rest
        if missing:
            size = -(-missing // NUMBERS) * NUMBERS
            first = self._allocate(self._counter, size)
            check_numbers(self._counter, first + size - 1)
            self._next, self._end = first + missing, first + size
            fresh = range(first, first + missing)
            if runs and runs[-1].stop == first:
                runs[-1] = range(runs[-1].start, fresh.stop)
            else:
                runs.append(fresh)
        return runs

    def forget(self) -> None:
        """Drops the rest of the block: another writer may have taken later numbers meanwhile."""
        self._next = self._end = 0


@dataclass(frozen=True, slots=True)
class Change:
    """The changes of one predicate: rows (s, o[, g]); sorted and distinct where they are net."""

    named: bool
    predicate: int
    columns: Columns
    inserted: Mask


@dataclass(frozen=True, slots=True)
class Packed:
    """The pieces of the slab, the streams of which it has columns, and the net changes that it says."""

    pieces: list[Value]
    streams: frozenset[int]
    changes: list[Change]


class Batch:
    """For one thread. The arrays that it is given must not change until it is committed."""

    def __init__(
        self,
        dictionary: Dictionary,
        terms: Numbers,
        transient: Numbers,
        blanks: Numbers,
        generation: OpenGeneration | None,
        time: int,
        earlier: Sequence[Batch] = (),
    ) -> None:
        """`generation` is that of the snapshot's transient terms; None: new terms are all permanent. `earlier`: batches
        that are committed together with this one, and before it."""
        #: Publication time in ms, by the caller's clock.
        self.time = time
        self.earlier = earlier
        self.generation = generation
        #: Transient terms that the generation has not yet.
        self.transient: dict[bytes, int] = {}
        self.moves: list[StreamMove] = []
        self.columns: dict[int, StreamColumns] = {}
        self.catalog_changes: list[CatalogChange] = []
        self.new_texts: list[tuple[TermsChunk, list[bytes]]] = []
        self._new_ids: dict[bytes, int] = {}
        self._dictionary, self._terms, self._transient_numbers, self._blanks = dictionary, terms, transient, blanks
        self._quads: list[tuple[Ids, Ids, Ids, Ids]] = []
        self._operations: list[npt.NDArray[np.uint8]] = []
        self._slab_parts: dict[int, StreamPart] = {}
        self.slice_parts: dict[int, StreamPart] = {}
        self._packed: tuple[tuple[int, int], Packed] | None = None  # and how much it had been told by then

    # ---- ids

    def encode(self, texts: Sequence[bytes]) -> Ids:
        """The ids of terms; unknown ones get the next ids, in the order in which they come."""
        ids = self._known_ids(texts)
        unknown = np.flatnonzero(ids == NO_TERM).tolist()
        if unknown:
            mine = self._new_ids
            new = list(dict.fromkeys([texts[i] for i in unknown if texts[i] not in mine]))
            if new:
                self._add_terms(self._promoted(new))
            ids[unknown] = [mine[texts[i]] for i in unknown]
        return ids

    def _known_ids(self, texts: Sequence[bytes]) -> Ids:
        """0 for a term that neither the store nor an earlier batch has."""
        ids = self._dictionary.ids(texts)
        if self.earlier:
            for at in np.flatnonzero(ids == NO_TERM).tolist():
                ids[at] = next(
                    (batch._new_ids[texts[at]] for batch in self.earlier if texts[at] in batch._new_ids), NO_TERM
                )
        return ids

    def encode_transient(self, texts: Sequence[bytes]) -> Ids:
        """The ids of terms that only slices of this snapshot have, as far as the caller knows; new ones go with it."""
        if self.generation is None:
            return self.encode(texts)
        ids = _ids_in(self.generation.written, texts)
        missing = np.flatnonzero(ids == NO_TERM)
        for known in (self.transient, self._new_ids):
            if known and len(missing):
                ids[missing] = _ids_in(known, [texts[i] for i in missing.tolist()])
                missing = missing[ids[missing] == NO_TERM]
        if len(missing):
            those = [texts[i] for i in missing.tolist()]
            unknown = list(dict.fromkeys(those))
            new = dict(zip(unknown, self._transient_ids(unknown).tolist(), strict=True))
            ids[missing] = [new[text] for text in those]
        return ids

    def _transient_ids(self, texts: list[bytes]) -> Ids:
        """Of distinct terms that this generation has not: permanent ones keep their ids, and so do those of others."""
        ids = self._dictionary.ids(texts)
        places = np.flatnonzero(ids == NO_TERM)
        if len(places):
            others = [texts[i] for i in places.tolist()]
            check_encodable(others)
            check_lengths(others)
            found = self._dictionary.transient.ids(others, None if self.generation is None else self.generation.first)
            fresh = np.flatnonzero(found == NO_TERM)
            if len(fresh):
                runs = self._transient_numbers.take(len(fresh))
                found[fresh] = np.concatenate([np.arange(run.start, run.stop, dtype=np.uint64) for run in runs])
            self.transient.update(zip(others, found.tolist(), strict=True))
            ids[places] = found
        return ids

    def _promoted(self, texts: list[bytes]) -> list[bytes]:
        """The terms that are not transient; the others become permanent here, under the ids that they have."""
        generation, alive = self.generation, self._dictionary.transient
        if not (alive or self.transient):
            return texts
        before = None if generation is None else generation.first
        ids = dict(zip(texts, alive.ids(texts, before).tolist(), strict=True))
        for known in (self.transient, {} if generation is None else generation.written):
            ids.update((text, known[text]) for text in texts if text in known)
        promoted = sorted((id, text) for text, id in ids.items() if id != NO_TERM)
        self._new_ids.update((text, id) for id, text in promoted)
        start = 0
        for stop in range(1, len(promoted) + 1):
            if stop == len(promoted) or promoted[stop][0] != promoted[stop - 1][0] + 1:
                self._add_chunks(promoted[start][0], [text for _, text in promoted[start:stop]], promoted=True)
                start = stop
        return [text for text, id in ids.items() if id == NO_TERM]

    def _add_terms(self, texts: list[bytes]) -> None:
        check_encodable(texts)
        check_lengths(texts)
        done = 0
        for run in self._terms.take(len(texts)):
            part = texts[done : done + len(run)]
            self._new_ids.update(zip(part, run, strict=True))
            self._add_chunks(run.start, part, promoted=False)
            done += len(run)

    def _add_chunks(self, first: int, texts: list[bytes], promoted: bool) -> None:
        start = 0
        for chunk in chunks_of(first, texts, promoted):
            stop = start + len(chunk.offsets) - 1
            self.new_texts.append((chunk, texts[start:stop]))
            start = stop

    def blanks(self, count: int) -> Ids:
        """Ids of so many blank nodes that nobody else has."""
        return concatenate([blank_ids(run.start, len(run)) for run in self._blanks.take(count)])

    def ids(self, texts: Sequence[bytes]) -> Ids:
        """0 for a term that neither the store nor a batch has; one that only timing data has is none of them."""
        ids = self._known_ids(texts)
        mine = self._new_ids
        if mine:
            for at in np.flatnonzero(ids == NO_TERM).tolist():
                ids[at] = mine.get(texts[at], NO_TERM)
        return ids

    def terms(self, ids: Ids) -> list[bytes]:
        """The texts of ids of the store, of earlier batches and of this one."""
        new = [each for batch in (*self.earlier, self) for each in batch.new_texts]
        if not new:
            return self._dictionary.terms(ids)
        parts = sorted(((chunk.first, texts) for chunk, texts in new), key=itemgetter(0))
        firsts = np.array([first for first, _ in parts], np.uint64)
        ends = firsts + np.array([len(texts) for _, texts in parts], np.uint64)
        part = firsts.searchsorted(ids, "right").astype(np.int64) - 1
        mine = (part >= 0) & (ids < ends[part])
        texts: list[bytes] = [b""] * len(ids)
        for at, which, place in zip(
            np.flatnonzero(mine).tolist(), part[mine].tolist(), (ids[mine] - firsts[part[mine]]).tolist(), strict=True
        ):
            texts[at] = parts[which][1][place]
        known = np.flatnonzero(~mine)
        for at, text in zip(known.tolist(), self._dictionary.terms(ids[known]), strict=True):
            texts[at] = text
        return texts

    # ---- changes

    def insert(self, s: npt.ArrayLike, p: npt.ArrayLike, o: npt.ArrayLike, g: npt.ArrayLike) -> None:
        self._operate(_INSERTED, s, p, o, g)

    def delete(self, s: npt.ArrayLike, p: npt.ArrayLike, o: npt.ArrayLike, g: npt.ArrayLike) -> None:
        self._operate(_DELETED, s, p, o, g)

    def _operate(self, operation: int, *quad: npt.ArrayLike) -> None:
        columns = [np.atleast_1d(as_ids(column)) for column in quad]
        if len({len(column) for column in columns}) > 1:
            columns = [as_ids(column) for column in np.broadcast_arrays(*columns)]
        s, p, o, g = columns
        if not (s.all() and p.all() and o.all()):
            raise ValueError("a quad with id 0 (no term) as subject, predicate or object")
        self._quads.append((s, p, o, g))
        self._operations.append(np.full(len(s), operation, np.uint8))

    def stream(self, move: StreamMove, columns: StreamColumns | None = None, absorbed: Mask | None = None) -> None:
        """Adds to a stream: its move, its elements, and which of their triples the store absorbs (None: none)."""
        if any(earlier.stream == move.stream for earlier in self.moves):
            raise StoreError(f"stream {move.stream} moves twice in one batch; merge its pushes first")
        self.moves.append(move)
        if columns is None:
            return
        self.columns[move.stream] = columns.frozen()
        in_slab, in_slice = split(columns, absorbed)
        if in_slice is not None:
            self.slice_parts[move.stream] = in_slice
        if in_slab is not None:
            self._slab_parts[move.stream] = in_slab
            graphs = columns.graph[in_slab.element] if in_slab.g is None else in_slab.g
            self._operate(_STREAMED, in_slab.s, in_slab.p, in_slab.o, graphs)

    def catalog(self, kind: str, number: int, body: bytes | None) -> None:
        self.catalog_changes.append(CatalogChange(kind, number, body))

    def operations(self) -> int:
        """How many calls have inserted or deleted edges."""
        return len(self._operations)

    def edges(self, after: int) -> Iterator[Change]:
        """The changes of edges after the first `after` calls, in order; a row may be among them more than once."""
        if len(self._quads) == after:
            return
        s, p, o, g = (concatenate(column) for column in zip(*self._quads[after:], strict=True))
        inserted = np.concatenate(self._operations[after:]) != _DELETED
        for named, predicate, columns, rows in by_predicate(s, p, o, g):
            yield Change(named, predicate, columns, inserted[rows])

    @property
    def is_empty(self) -> bool:
        """Whether it changes nothing: its snapshot would be like the one before."""
        return not (self._quads or self.moves or self.catalog_changes)

    # ---- what is committed

    def new_streams(self) -> list[int]:
        """The streams whose first slices in this generation are in this batch."""
        return [] if self.generation is None else sorted(self.slice_parts.keys() - self.generation.streams)

    def pack_transient(self) -> list[Value]:
        """The rows of the generation's transient terms that this snapshot adds."""
        if self.generation is None:
            return []
        return pack_transient(self.generation.first, self.generation.begun_ms, self.new_streams(), self.transient)

    def pack(self, check: Callable[[], object] = lambda: None) -> Packed:
        """The bytes as they will be stored; the same object again if nothing was added since the last call. `check` is
        called again and again meanwhile, and may raise to end it."""
        counts = (len(self._quads), len(self.new_texts))
        if self._packed is None or self._packed[0] != counts:
            self._packed = None
            self._packed = counts, self._pack(check)
        return self._packed[1]

    def _pack(self, check: Callable[[], object]) -> Packed:
        slab = Slab([chunk for chunk, _ in self.new_texts], [], {n: [part] for n, part in self._slab_parts.items()})
        changes: list[Change] = []
        if self._quads:
            s, p, o, g = (concatenate(column) for column in zip(*self._quads, strict=True))
            all_operations = np.concatenate(self._operations)
            for named, predicate, columns, rows in by_predicate(s, p, o, g):
                check()
                operations = all_operations[rows]
                inserted, written = operations != _DELETED, operations != _STREAMED
                if inserted.all() and written.all():
                    net, flags = last_of_each(columns, inserted)
                    slab.blocks.extend(blocks_of(named, predicate, True, net))
                else:
                    net, flags, net_written = _last_operations(columns, inserted, written)
                    slab.blocks.extend(_blocks(named, predicate, net, flags, net_written))
                changes.append(Change(named, predicate, net, flags))
        return Packed(pack_slab(slab, check), frozenset(slab.streams), changes)


def _ids_in(known: Mapping[bytes, int], texts: Sequence[bytes]) -> Ids:
    """The ids of the terms; 0 for one that is not known. Pushes are mostly of known terms, so nothing is looked at one
    by one."""
    return np.fromiter(map(known.get, texts, repeat(NO_TERM)), np.uint64, len(texts))


def _last_operations(columns: Columns, inserted: Mask, written: Mask) -> tuple[Columns, Mask, Mask]:
    """Of each quad the last operation: whether it inserted, and whether a block must say so."""
    # The flags travel as one more column of the row's last occurrence: sort once for each of them.
    net, flags = last_of_each(columns, inserted)
    _, net_written = last_of_each(columns, written)
    return net, flags, net_written


def _blocks(named: bool, predicate: int, columns: Columns, inserted: Mask, written: Mask) -> Iterator[Block]:
    for sign in (True, False):
        there = written & (inserted == sign)
        if there.any():
            yield from blocks_of(named, predicate, sign, tuple(column[there] for column in columns))
