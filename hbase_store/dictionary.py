"""The dictionary: which term an id stands for, and which id a term has.

Terms come in chunks of consecutive ids, so the text of an id is found by its chunk and its place in it. The
other way is a hash table of texts, filled when it is first asked: a process that only decodes never builds it."""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Sequence

import numpy as np

from hbase_store.arrays import Ids
from hbase_store.errors import Corrupt
from hbase_store.slab import TermsChunk
from hbase_store.terms import DICTIONARY, NO_TERM, TAG_SHIFT, inline_id, inline_text

# Below this many ids, a loop is faster than sorting them.
_FEW = 64


class Dictionary:
    """All terms that this process has taken in; many threads read it, one at a time adds."""

    def __init__(self) -> None:
        self._firsts: list[int] = []
        self._chunks: list[TermsChunk] = []
        self._ids: dict[bytes, int] = {}
        self._not_hashed: list[TermsChunk] = []
        self._lock = threading.Lock()

    def add(self, chunk: TermsChunk, texts: Sequence[bytes] | None = None) -> None:
        """`texts` are those of the chunk, if they are at hand: then hashing them costs nothing more."""
        with self._lock:
            # A writer takes ids in ascending order, and forgets those that it has left when another takes over.
            assert not self._firsts or chunk.first > self._firsts[-1]
            self._chunks.append(chunk)  # before its first id: readers look there first
            self._firsts.append(chunk.first)
            if texts is None or self._not_hashed:
                self._not_hashed.append(chunk)
            else:
                self._hash(chunk.first, texts)

    def _hash(self, first: int, texts: Sequence[bytes]) -> None:
        self._ids.update(zip(texts, range(first, first + len(texts)), strict=True))

    def _hashed(self) -> dict[bytes, int]:
        if self._not_hashed:
            with self._lock:
                while self._not_hashed:
                    chunk = self._not_hashed[0]
                    self._hash(chunk.first, chunk.texts())
                    self._not_hashed.pop(0)
        return self._ids

    # ---- text to id

    def ids(self, texts: Sequence[bytes]) -> Ids:
        """0 for a term that has none."""
        known = self._hashed().get
        found = [known(text, NO_TERM) for text in texts]
        if NO_TERM in found:
            found = [id or inline_id(text) for id, text in zip(found, texts, strict=True)]
        return np.array(found, np.uint64)

    # ---- id to text

    def terms(self, ids: Ids) -> list[bytes]:
        if len(ids) <= _FEW:
            return [self._term(id) for id in ids.tolist()]
        distinct, places = np.unique(ids, return_inverse=True)
        texts = self._distinct_terms(distinct)
        return [texts[place] for place in places.tolist()]

    def _term(self, id: int) -> bytes:
        if id >> TAG_SHIFT != DICTIONARY:
            return inline_text(id)
        at = bisect_right(self._firsts, id) - 1
        if at >= 0:
            chunk = self._chunks[at]
            place = id - chunk.first
            if id != NO_TERM and place + 1 < len(chunk.offsets):
                start, end = chunk.offsets[place : place + 2].tolist()
                return chunk.data[start:end]
        raise _unknown(id)

    def _distinct_terms(self, ids: Ids) -> list[bytes]:
        """Of ascending ids: dictionary terms come first, chunk by chunk."""
        texts: list[bytes] = []
        dictionary = int(np.searchsorted(ids, np.uint64(1 << TAG_SHIFT)))
        firsts, chunks = self._firsts, self._chunks
        done = 0
        while done < dictionary:
            at = bisect_right(firsts, int(ids[done])) - 1
            if at < 0:
                raise _unknown(int(ids[done]))
            stop = dictionary
            if at + 1 < len(firsts):
                stop = min(stop, int(np.searchsorted(ids, np.uint64(firsts[at + 1]))))
            texts += _gather(chunks[at], ids[done:stop])
            done = stop
        texts += map(inline_text, ids[dictionary:].tolist())
        return texts


def _gather(chunk: TermsChunk, ids: Ids) -> list[bytes]:
    places = (ids - np.uint64(chunk.first)).astype(np.int64)
    if places[-1] + 1 >= len(chunk.offsets) or ids[0] == NO_TERM:
        raise _unknown(int(ids[-1]))
    data = chunk.data
    starts, ends = chunk.offsets[places].tolist(), chunk.offsets[places + 1].tolist()
    return [data[start:end] for start, end in zip(starts, ends, strict=True)]


def _unknown(id: int) -> Exception:
    if id == NO_TERM:
        return ValueError("id 0 stands for no term and has no text; leave unbound values out")
    return Corrupt(f"no term has the id {id} in table slab, as far as this process has read it; refresh the store")
