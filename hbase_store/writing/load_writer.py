"""What a bulk load writes: its terms into pages, its edges and the hashes of its new terms into a run of its own.

All of it is written before anybody knows of it. Batches may be published meanwhile; if one of them brought a term
that the load took for new, the load adopts that term's id and writes its run again. A term that was transient keeps its
id, and the load writes its text."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain

import numpy as np
import numpy.typing as npt

from hbase_store.arrays import Ids
from hbase_store.backends.keyvalue import KeyValue
from hbase_store.layout.run_blocks import HASH_COLUMN
from hbase_store.layout.run_list import RunEntry
from hbase_store.layout.slab import TermsChunk
from hbase_store.layout.terms import BLANK, INTEGER, NO_TERM, TAG_SHIFT, check_numbers
from hbase_store.layout.transient_rows import Texts
from hbase_store.sorted.view import view_of
from hbase_store.terms.dictionary import Dictionary
from hbase_store.terms.pages import PageRange, page_of
from hbase_store.terms.transient import TransientTerms
from hbase_store.writing.batch import NUMBERS
from hbase_store.writing.divided_loading import DividedLoading, NewTerms
from hbase_store.writing.folding import FoldWriter
from hbase_store.writing.loading import Numbers32, Terms, edge_columns, sorted_hashes


class LoadWriter:
    def __init__(self, kv: KeyValue, dictionary: Dictionary, terms: Terms, give_way: Callable[[], None]) -> None:
        self._kv, self._pages, self._terms, self._give_way = kv, dictionary.pages, terms, give_way
        self._ids = self._own_ids()
        for place, id in dictionary.known(terms.hashes[: len(terms)], terms.text):
            if self._ids[place] == NO_TERM:
                self._ids[place] = id
        self._new = np.flatnonzero(self._ids == NO_TERM)
        self._first = self._take_ids()
        self._ids[self._new] = np.arange(self._first, self._first + len(self._new), dtype=np.uint64)
        self._by_hash: tuple[Ids, npt.NDArray[np.int64]] | None = None
        # Transient terms, which become permanent by what is written here.
        self._promoted: set[int] = set()
        self._agrees_with_transient(dictionary.transient)

    def _own_ids(self) -> Ids:
        from hbase_store.writing.line_kernels import own_ids

        terms = self._terms
        ids = np.zeros(len(terms), np.uint64)
        blanks = own_ids(
            terms.arena, terms.offsets, np.uint64(INTEGER << TAG_SHIFT), np.uint64(BLANK << TAG_SHIFT), ids
        )
        if blanks:
            # The numbers were given from 0 on; how many there are is only known now.
            ids[ids >= np.uint64(BLANK << TAG_SHIFT)] += np.uint64(self._allocate("blank", blanks))
        return ids

    def _take_ids(self) -> int:
        """By whole pages, as batches take them."""
        return self._allocate("term", -(-max(len(self._new), 1) // NUMBERS) * NUMBERS)

    def _allocate(self, counter: str, count: int) -> int:
        first = self._kv.allocate(counter, count)
        check_numbers(counter, first + count - 1)
        return first

    def write(self, rows: Sequence[Numbers32] | DividedLoading, sn: int) -> RunEntry:
        """`sn` is the snapshot that it will be, if nobody publishes before."""
        writer = FoldWriter(self._kv, sn, self._give_way)
        if len(self._new):
            last = self._first + len(self._new) - 1
            writer.announce_pages(PageRange(page_of(self._first), page_of(last)))
        if isinstance(rows, DividedLoading):
            new = NewTerms(self._new, self._first, self._hash_rows())
            return rows.write(writer, self._pages, self._ids, new, self._promoted_chunks(), sn)
        chunks = [self._terms.chunk(self._first, self._new), *self._promoted_chunks()] if len(self._new) else []
        writer.write_pages(self._pages, chunks)
        hashes = sorted_hashes(*self._hash_rows())
        columns = [(HASH_COLUMN, view_of(hashes, None))] if len(hashes[0]) else []
        return writer.write(chain(columns, edge_columns(rows, self._ids)), sn)

    def _hash_rows(self) -> tuple[Ids, Ids]:
        """The hashes and ids of new terms; terms that had a permanent id before have their row already."""
        ids = self._ids[self._new]
        ours = ids == np.arange(self._first, self._first + len(ids), dtype=np.uint64)
        if self._promoted:
            ours |= np.isin(self._new, list(self._promoted))
        return self._terms.hashes[self._new][ours], ids[ours]

    def _promoted_chunks(self) -> Iterator[TermsChunk]:
        for number in sorted(self._promoted, key=lambda number: int(self._ids[number])):
            text = self._terms.text(number)
            yield TermsChunk(int(self._ids[number]), np.array([0, len(text)], np.int64), text, promoted=True)

    def agrees_with(self, published: Mapping[bytes, int], transient: TransientTerms) -> bool:
        """Whether none of our new terms was published meanwhile; if one was, it has that id from now on."""
        if not len(self._new):
            return True
        agreed = self._agrees_with_transient(transient)
        if published:
            from hbase_store.layout.hashing import hash_texts

            texts = list(published)
            for number, place in self._same(hash_texts(texts), texts.__getitem__):
                if self._ids[number] != published[texts[place]]:
                    self._ids[number] = published[texts[place]]
                    agreed = False
        return agreed

    def _agrees_with_transient(self, transient: TransientTerms) -> bool:
        agreed = True
        for level in transient.levels() if len(self._new) else ():
            hashes, places = level.by_hash()
            for number, place in self._same(hashes, partial(_text_at, level, places)):
                id = level.ids[int(places[place])]
                agreed &= number in self._promoted and self._ids[number] == id
                self._promoted.add(number)
                self._ids[number] = id
        return agreed

    def _same(self, hashes: Ids, text_of: Callable[[int], bytes]) -> Iterator[tuple[int, int]]:
        """(number of a new term of ours, place of the same term among others, of which the hashes are given)."""
        if self._by_hash is None:
            mine = self._terms.hashes[self._new]
            order = np.argsort(mine, kind="stable")
            self._by_hash = mine[order], order
        mine, order = self._by_hash
        starts, ends = mine.searchsorted(hashes, "left"), mine.searchsorted(hashes, "right")
        for place in np.flatnonzero(ends > starts).tolist():
            for number in self._new[order[starts[place] : ends[place]]].tolist():
                if self._terms.text(number) == text_of(place):
                    yield number, place


def _text_at(texts: Texts, places: Ids, at: int) -> bytes:
    return texts.text(int(places[at]))
