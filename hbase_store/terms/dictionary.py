"""The dictionary: which term an id stands for, and which id a term has.

New terms travel in their slab, and are here in memory until the slab is folded. Then their texts stand in pages,
found by their id, and their hashes in the runs, found by the hash; both are asked for in batches. What was asked for
lately is remembered. Terms that only timing data has are kept apart (`transient`): these go again."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import cast

import numpy as np

from hbase_store.arrays import Ids, Mask, distinct_values, gather_ranges
from hbase_store.backends.keyvalue import KeyValue
from hbase_store.layout.run import Run, RunColumn
from hbase_store.layout.run_blocks import HASH_COLUMN
from hbase_store.layout.slab import TermsChunk
from hbase_store.layout.terms import DICTIONARY, NO_TERM, TAG_SHIFT, inline_id, inline_text
from hbase_store.layout.transient_rows import TransientRow
from hbase_store.memory_only import ShortLock, check_may_wait
from hbase_store.terms.pages import PAGE_CACHE_BYTES, Pages, unknown
from hbase_store.terms.predicates import PredicateTexts
from hbase_store.terms.transient import TransientTerms

# Below this many ids, a loop is faster than sorting them.
_FEW = 64
#: Below this many terms, looking each up by itself is faster than all together.
_SINGLE = 5
#: So many terms are remembered twice, and so many bytes of their texts: those asked for since the last clearing, and
#: those of the time before.
REMEMBERED, REMEMBERED_BYTES = 1 << 20, 64 << 20
#: So many texts that were decoded are kept, and so many bytes of them.
DECODED, DECODED_BYTES = 1 << 18, 32 << 20


class _Recent:
    """The terms of slabs that are not folded; many threads read, one at a time adds."""

    def __init__(self) -> None:
        self.firsts: list[int] = []
        self.chunks: list[TermsChunk] = []
        self.sns: list[int] = []
        self.ids: dict[bytes, int] = {}
        self.promoted: list[tuple[int, TermsChunk]] = []
        self._promoted_texts: dict[int, bytes] = {}
        self._not_hashed: list[TermsChunk] = []
        self._lock = ShortLock()

    def add(self, sn: int, chunk: TermsChunk, texts: Sequence[bytes] | None) -> None:
        with self._lock:
            if chunk.promoted:
                self.promoted.append((sn, chunk))
                self._promoted_texts.update(enumerate(chunk.texts() if texts is None else texts, chunk.first))
            else:
                # A writer takes ids in ascending order, and forgets those that it has left when another takes over.
                assert not self.firsts or chunk.first > self.firsts[-1]
                self.sns.append(sn)
                self.chunks.append(chunk)  # before its first id: readers look there first
                self.firsts.append(chunk.first)
            if texts is None or self._not_hashed:
                self._not_hashed.append(chunk)
            else:
                self._hash(chunk.first, texts)

    def _hash(self, first: int, texts: Sequence[bytes]) -> None:
        self.ids.update(zip(texts, range(first, first + len(texts)), strict=True))

    def hashed(self) -> dict[bytes, int]:
        if self._not_hashed:
            check_may_wait()
            with self._lock:
                while self._not_hashed:
                    chunk = self._not_hashed[0]
                    self._hash(chunk.first, chunk.texts())
                    self._not_hashed.pop(0)
        return self.ids

    def chunk_of(self, id: int) -> TermsChunk | None:
        at = bisect_right(self.firsts, id) - 1
        if at >= 0 and id - self.chunks[at].first + 1 < len(self.chunks[at].offsets):
            return self.chunks[at]
        return None

    def all(self) -> Iterator[tuple[int, TermsChunk]]:
        yield from zip(self.sns, self.chunks, strict=True)
        yield from self.promoted

    def since(self, sn: int) -> _Recent:
        later = _Recent()
        for at, chunk in self.all():
            if at > sn:
                later.add(at, chunk, None)
        return later

    def promoted_texts(self, ids: Ids) -> list[bytes]:
        """b"" for one that was not promoted."""
        return [self._promoted_texts.get(id, b"") for id in ids.tolist()]


class Dictionary:
    """Many threads read it, one at a time adds and adopts."""

    def __init__(
        self,
        kv: KeyValue,
        read_dropped: Callable[[], Iterable[TransientRow]] = lambda: (),
        cache_bytes: int = PAGE_CACHE_BYTES,
    ) -> None:
        """`read_dropped` reads what is still there of the generations that are not alive any more. `cache_bytes`: the
        most memory for texts that were read."""
        self.pages = Pages(kv, cache_bytes)
        self._predicates = PredicateTexts(kv, self.pages)
        self.transient = TransientTerms()
        self._read_dropped = read_dropped
        # Replaced together: a term is in one or the other.
        self._places: tuple[_Recent, tuple[RunColumn, ...]] = _Recent(), ()
        self._remembered: dict[bytes, int] = {}
        self._before: dict[bytes, int] = {}
        self._decoded: dict[int, bytes] = {}
        self._remembered_bytes = self._decoded_bytes = 0

    def version(self) -> object:
        """A value that changes whenever terms may have been added."""
        recent, columns = self._places
        return len(recent.chunks), len(recent.promoted), columns, self.transient.version()

    def add(self, sn: int, chunk: TermsChunk, texts: Sequence[bytes] | None = None) -> None:
        """`texts`: the texts of the chunk, if the caller has them: then they need not be cut out for hashing."""
        self._places[0].add(sn, chunk, texts)

    def adopt(self, runs: Sequence[Run], start: int) -> None:
        """The terms of the snapshots up to `start` are in pages and runs from now on."""
        recent, _ = self._places
        columns = tuple(run.columns[HASH_COLUMN] for run in runs if HASH_COLUMN in run.columns)
        if recent.ids:
            self._remember(recent.ids)
        self._places = recent.since(start), columns
        self._predicates.adopt(runs)
        self.pages.forget_absent()

    def recent_chunks(self, sn: int) -> list[TermsChunk]:
        """The terms of the slabs up to `sn` that are not folded."""
        recent, _ = self._places
        return [chunk for at, chunk in recent.all() if at <= sn]

    # ---- text to id

    def ids_of_all(self, texts: Sequence[bytes]) -> Ids:
        """The ids of permanent and transient terms; 0 for a term without one."""
        ids = self.ids(texts)
        if self.transient:
            places = np.flatnonzero(ids == NO_TERM)
            if len(places):
                ids[places] = self.transient.ids([texts[i] for i in places.tolist()])
        return ids

    def lasting(self) -> tuple[Callable[[Sequence[bytes]], Ids], Callable[[Ids], list[bytes]]]:
        """Two functions, from texts to ids and back, for which the terms that are alive now stay known."""
        alive = self.transient.pinned()

        def ids(texts: Sequence[bytes]) -> Ids:
            found = self.ids_of_all(texts)
            if alive.first == self.transient.first:
                return found
            pinned = alive.ids(texts)
            return np.where(pinned != NO_TERM, pinned, found)

        return ids, self.terms

    def are_transient(self, ids: Ids) -> Mask:
        """Which of these ids are those of transient terms, and of no permanent ones."""
        transient = self.transient.have(ids)
        places = np.flatnonzero(transient)
        if len(places):
            known = self.ids(self.terms(ids[places]))
            transient[places] = known != ids[places]
        return transient

    def ids(self, texts: Sequence[bytes]) -> Ids:
        """The ids of permanent terms; 0 for all others."""
        recent, columns = self._places
        if len(texts) == 1:
            return np.array([self._id(texts[0], recent.hashed(), columns)], np.uint64)
        found = list(map(recent.hashed().get, texts))
        missing = [i for i, id in enumerate(found) if id is None]
        missing = _fill_in(found, _fill_in(found, missing, texts, self._remembered), texts, self._before)
        for i in missing:
            # Most terms are IRIs, and none of those carries its term in the id.
            found[i] = NO_TERM if texts[i][:1] == b"<" else inline_id(texts[i])
        ids = np.array(found, np.uint64)
        if columns and missing and not ids[missing].all():
            places = np.flatnonzero(ids == NO_TERM).tolist()
            known = self._looked_up(list(dict.fromkeys([texts[i] for i in places])), columns)
            ids[places] = [known.get(texts[i], NO_TERM) for i in places]
        return ids

    def _id(self, text: bytes, recent: Mapping[bytes, int], columns: Sequence[RunColumn]) -> int:
        """As `ids` of one text, without arrays."""
        for ids in (recent, self._remembered, self._before):
            if (id := ids.get(text)) is not None:
                return id
        if text[:1] != b"<" and (contained := inline_id(text)) != NO_TERM:
            return contained
        return self._looked_up([text], columns).get(text, NO_TERM) if columns else NO_TERM

    def _looked_up(self, missing: list[bytes], columns: Sequence[RunColumn]) -> dict[bytes, int]:
        """What the runs know of these distinct terms, at least."""
        from hbase_store.layout.hashing import hash_texts  # numba takes a third of a second to import

        known = self._predicates.read()
        missing = [text for text in missing if text not in known]
        at_hand = all(column.known() is not None for column in columns)
        if len(missing) == 1 or (len(missing) < _SINGLE and at_hand):  # else with one request for all of them
            known |= {text: id for text in missing if (id := self._match(text, columns)) is not None}
        elif missing:
            found = self._matches(hash_texts(missing), columns, missing.__getitem__)
            known |= {missing[place]: id for place, id in found}
        self._remember(known)
        return known

    def _match(self, text: bytes, columns: Sequence[RunColumn]) -> int | None:
        """As `_matches` for one text."""
        from hbase_store.layout.hashing import hash_text

        hash = hash_text(text)
        for column in columns:
            hashes, ids = (column.known() or column.reach(np.array([hash]))).columns[:2]
            place = int(hashes.searchsorted(hash))
            while place < len(hashes) and hashes[place] == hash:
                if self.pages.text(int(ids[place])) == text:
                    return int(ids[place])
                place += 1
        return None

    def known(self, hashes: Ids, text_of: Callable[[int], bytes]) -> list[tuple[int, int]]:
        """(place, id) of the terms with these hashes that are in runs; each term once."""
        return list(self._matches(hashes, self._places[1], text_of))

    def _matches(
        self, hashes: Ids, columns: Sequence[RunColumn], text_of: Callable[[int], bytes]
    ) -> Iterator[tuple[int, int]]:
        for column in columns:
            ids, places = _candidates(column, hashes)
            if len(ids):
                distinct, inverse = np.unique(ids, return_inverse=True)
                texts = self.pages.texts(distinct)
                for id, at, place in zip(ids.tolist(), inverse.tolist(), places.tolist(), strict=True):
                    if texts[at] == text_of(place):
                        yield place, id

    def recent_ids(self) -> dict[bytes, int]:
        """The terms of slabs that are not folded."""
        return self._places[0].hashed()

    def _remember(self, ids: dict[bytes, int]) -> None:
        size = sum(map(len, ids))
        if size > REMEMBERED_BYTES:
            return
        if len(self._remembered) + len(ids) > REMEMBERED or self._remembered_bytes + size > REMEMBERED_BYTES:
            self._before, self._remembered, self._remembered_bytes = self._remembered, {}, 0
        self._remembered.update(ids)
        self._remembered_bytes += size

    # ---- id to text

    def terms(self, ids: Ids) -> list[bytes]:
        """The texts of ids. Those of recent calls are remembered: what an id means never changes."""
        listed = ids.tolist()
        found = list(map(self._decoded.get, listed))
        if None not in found:
            return found  # type: ignore[return-value]  # mypy sees None in it
        missing = [i for i, text in enumerate(found) if text is None]
        read = self._read_terms(ids[missing] if len(missing) < len(ids) else ids)
        for i, text in zip(missing, read, strict=True):
            found[i] = text
        size = sum(map(len, read))
        if len(missing) <= DECODED // 4 and size <= DECODED_BYTES // 4:
            if len(self._decoded) + len(missing) > DECODED or self._decoded_bytes + size > DECODED_BYTES:
                self._decoded, self._decoded_bytes = {}, 0
            self._decoded.update(zip([listed[i] for i in missing], read, strict=True))
            self._decoded_bytes += size
        return cast(list[bytes], found)

    def _read_terms(self, ids: Ids) -> list[bytes]:
        if len(ids) <= _FEW:
            return self._few(ids.tolist())
        if bool((ids[1:] > ids[:-1]).all()):
            return self._distinct_terms(ids)
        distinct, places = np.unique(ids, return_inverse=True)
        texts: list[bytes] = np.array(self._distinct_terms(distinct), object)[places].tolist()
        return texts

    def _few(self, ids: list[int]) -> list[bytes]:
        recent, _ = self._places
        texts: list[bytes] = []
        paged: dict[int, list[int]] = {}
        for i, id in enumerate(ids):
            if id >> TAG_SHIFT != DICTIONARY:
                texts.append(inline_text(id))
                continue
            chunk = recent.chunk_of(id) if id != NO_TERM else None
            if chunk is None:
                paged.setdefault(id, []).append(i)
                texts.append(b"")
            else:
                start, end = chunk.offsets[id - chunk.first : id - chunk.first + 2].tolist()
                texts.append(chunk.data[start:end])
        if len(paged) == 1:
            ((id, places),) = paged.items()
            text = self.pages.text(id) if id != NO_TERM else b""
            for i in places:
                texts[i] = text or self._paged(np.array([id], np.uint64))[0]
        elif paged:
            distinct = np.array(sorted(paged), np.uint64)
            for id, text in zip(distinct.tolist(), self._paged(distinct), strict=True):
                for i in paged[id]:
                    texts[i] = text
        return texts

    def _distinct_terms(self, ids: Ids) -> list[bytes]:
        """Of ascending ids: dictionary terms come first, those in pages and those of each recent chunk in turn."""
        recent, _ = self._places
        firsts = recent.firsts
        stop = int(np.searchsorted(ids, np.uint64(1 << TAG_SHIFT)))
        texts: list[bytes] = []
        done = 0
        while done < stop:
            first = int(ids[done])
            chunk = recent.chunk_of(first) if first != NO_TERM else None
            if chunk is not None:
                end = done + int(np.searchsorted(ids[done:stop], np.uint64(chunk.first + len(chunk.offsets) - 1)))
                texts += _gather(chunk, ids[done:end])
            else:
                at = bisect_right(firsts, first)
                end = stop if at == len(firsts) else done + int(np.searchsorted(ids[done:stop], np.uint64(firsts[at])))
                texts += self._paged(ids[done:end])
            done = end
        texts += map(inline_text, ids[stop:].tolist())
        return texts

    def _paged(self, ids: Ids) -> list[bytes]:
        """The texts of ascending, distinct ids, from pages and from transient terms."""
        if len(ids) == 0:
            return []
        if ids[0] == NO_TERM:
            raise unknown(NO_TERM)
        sources = [self.pages.texts, self._dropped_texts]
        if self.transient:
            sources.insert(0, self.transient.texts)
        if self._places[0].promoted:
            sources.insert(0, self._places[0].promoted_texts)
        texts = sources[0](ids)
        for source in sources[1:]:
            if b"" not in texts:
                return texts
            missing = [i for i, text in enumerate(texts) if not text]
            for i, text in zip(missing, source(ids[missing]), strict=True):
                texts[i] = text
        if b"" in texts:
            raise unknown(int(ids[texts.index(b"")]))
        return texts

    def _dropped_texts(self, ids: Ids) -> list[bytes]:
        """The texts of transient terms that were deleted lately: a query that read their ids may still run."""
        dropped = TransientTerms()
        for row in self._read_dropped():
            dropped.add(row)
        return dropped.texts(ids)


def _fill_in(found: list[int | None], missing: list[int], texts: Sequence[bytes], known: dict[bytes, int]) -> list[int]:
    """Fills in what was found; returns the places that are still missing."""
    if not known or not missing:
        return missing
    left = []
    for i, id in zip(missing, map(known.get, [texts[i] for i in missing]), strict=True):
        if id is None:
            left.append(i)
        else:
            found[i] = id
    return left


def _candidates(column: RunColumn, hashes: Ids) -> tuple[Ids, Ids]:
    """(ids, and for each which of `hashes` it has)."""
    from hbase_store.sorted.kernels import ranges  # numba takes a third of a second to import

    rows = column.reach(distinct_values(hashes)).columns
    starts, ends = ranges(rows[0], hashes)
    _, places = gather_ranges(starts, ends)
    return rows[1][places], np.repeat(np.arange(len(hashes), dtype=np.uint64), ends - starts)


def _gather(chunk: TermsChunk, ids: Ids) -> list[bytes]:
    places = (ids - np.uint64(chunk.first)).astype(np.int64)
    data = chunk.data
    starts, ends = chunk.offsets[places].tolist(), chunk.offsets[places + 1].tolist()
    return [data[start:end] for start, end in zip(starts, ends, strict=True)]
