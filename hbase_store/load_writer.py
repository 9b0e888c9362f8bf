"""What a bulk load writes: its terms into pages, its edges and the hashes of its new terms into a run of its own.

All of it is written before anybody knows of it. Batches may be published meanwhile; if one of them brought a term
that the load took for new, the load adopts that term's id and writes its run again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain

import numpy as np

from hbase_store.arrays import Ids, sort_distinct
from hbase_store.batch import NUMBERS
from hbase_store.dictionary import Dictionary
from hbase_store.folding import FoldWriter
from hbase_store.keyvalue import KeyValue
from hbase_store.loading import Numbers32, Terms, edge_columns
from hbase_store.run_blocks import HASH_COLUMN, ColumnKey
from hbase_store.run_list import RunEntry
from hbase_store.terms import BLANK, INTEGER, NO_TERM, TAG_SHIFT, check_numbers
from hbase_store.view import View, view_of


class LoadWriter:
    def __init__(self, kv: KeyValue, dictionary: Dictionary, terms: Terms, give_way: Callable[[], None]) -> None:
        self._kv, self._pages, self._terms, self._give_way = kv, dictionary.pages, terms, give_way
        self._ids = self._own_ids()
        for place, id in dictionary.known(terms.hashes[: len(terms)], terms.text):
            if self._ids[place] == NO_TERM:
                self._ids[place] = id
        self._new = np.flatnonzero(self._ids == NO_TERM)
        self._chunk = terms.chunk(self._take_ids(), self._new)
        self._ids[self._new] = np.arange(self._chunk.first, self._chunk.first + len(self._new), dtype=np.uint64)

    def _own_ids(self) -> Ids:
        from hbase_store.line_kernels import own_ids

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

    def write(self, columns: Sequence[Numbers32], sn: int) -> RunEntry:
        """`sn` is the snapshot that it will be, if nobody publishes before."""
        writer = FoldWriter(self._kv, sn, self._give_way)
        writer.write_pages(self._pages, [self._chunk] if len(self._new) else [])
        return writer.write(chain(self._hash_rows(), edge_columns(columns, self._ids)), sn)

    def _hash_rows(self) -> Iterator[tuple[ColumnKey, View]]:
        """Of the terms that are ours: those whose ids somebody else gave have theirs there already."""
        ids = self._ids[self._new]
        ours = ids == np.arange(self._chunk.first, self._chunk.first + len(ids), dtype=np.uint64)
        if ours.any():
            yield HASH_COLUMN, view_of(sort_distinct((self._terms.hashes[self._new][ours], ids[ours])), None)

    def agrees_with(self, published: Mapping[bytes, int]) -> bool:
        """Whether none of our new terms was published meanwhile; if one was, it has that id from now on."""
        if not published or not len(self._new):
            return True
        from hbase_store.hashing import hash_texts

        texts = list(published)
        mine = self._terms.hashes[self._new]
        order = np.argsort(mine, kind="stable")
        theirs = hash_texts(texts)
        starts, ends = mine[order].searchsorted(theirs, "left"), mine[order].searchsorted(theirs, "right")
        agreed = True
        for i in np.flatnonzero(ends > starts).tolist():
            for number in self._new[order[starts[i] : ends[i]]].tolist():
                if self._terms.text(number) == texts[i] and self._ids[number] != published[texts[i]]:
                    self._ids[number] = published[texts[i]]
                    agreed = False
        return agreed
