"""Pages: the texts of 256 consecutive ids in one row, which is where a term is that no slab holds any more.

A page is written when the slabs that its terms came in are folded; the last page of a fold is written again, with more
in it, by the next. Writers take ids by whole pages, so two of them never write the same one. A long text has a row of
its own, so that a page always fits into a value."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np

from hbase_store.arrays import Ids, Offsets
from hbase_store.backends.keyvalue import Key, KeyValue, Put, Value
from hbase_store.cache import Cache
from hbase_store.errors import Corrupt
from hbase_store.layout.columns import pack_column, unpack_column
from hbase_store.layout.sealed import corrupt, seal, seal_struct, unseal, unseal_struct
from hbase_store.layout.slab import TermsChunk
from hbase_store.layout.terms import TAG_SHIFT

PAGE_BITS = 8
PAGE_TERMS = 1 << PAGE_BITS
PAGE_CACHE_BYTES = 256 << 20

#: A longer text stands in a row of its own; in its place there is one byte, shorter than any term.
LONG_BYTES = 8192
_LONG = b"+"
_MAGIC, _LONG_MAGIC, _RANGE_MAGIC = b"RT", b"RX", b"RP"
_KEY, _LONG_KEY = struct.Struct(">Q"), struct.Struct(">QH")

_PAGES_AT_ONCE = 64
#: So many bytes of pages are brought before they are needed; and so many pages, until so many were read, as their size
#: is not known before. A page counts as so many bytes at least.
_FETCHED_BYTES, _FETCHED_FIRST, _FETCHED_LEAST = 16 << 20, 8, 16 << 10

# Of fewer terms of a page than this, each is cut out by itself.
_FEW = 32


def page_key(page: int) -> Key:
    return _KEY.pack(page)


def page_of(id: int) -> int:
    return (id - 1) >> PAGE_BITS


class PageRange(msgspec.Struct, array_like=True, frozen=True):
    """The pages first..last. Written before any of them is, so that they are found if nothing comes of it."""

    first: int
    last: int


def pack_range(pages: PageRange) -> Value:
    return seal_struct(_RANGE_MAGIC, pages)


def unpack_range(value: Value, key: Key) -> PageRange:
    return unseal_struct(_RANGE_MAGIC, value, "runindex", key, PageRange)


@dataclass(slots=True)
class Page:
    """Term i is data[offsets[i]:offsets[i + 1]]; empty: there is none. `texts` are all, once they were asked for."""

    number: int
    offsets: list[int]
    data: bytes
    texts: list[bytes] | None = None

    @property
    def nbytes(self) -> int:
        return 2 * len(self.data) + 48 * len(self.offsets)

    def text(self, place: int) -> bytes:
        return self.data[self.offsets[place] : self.offsets[place + 1]] if place + 1 < len(self.offsets) else b""

    def all(self) -> list[bytes]:
        if self.texts is None:
            texts = [self.text(place) for place in range(len(self.offsets) - 1)]
            self.texts = texts + [b""] * (PAGE_TERMS - len(texts))
        return self.texts


def pack_page(offsets: Offsets, data: bytes) -> Value:
    """Layout: the lengths of the texts, as a column; the texts."""
    return seal(_MAGIC, pack_column(np.diff(offsets).astype(np.uint64)) + data)


def unpack_page(value: Value, number: int) -> Page:
    key = page_key(number)
    payload = unseal(_MAGIC, value, "i2t", key)
    try:
        lengths, at = unpack_column(payload, 0)
    except ValueError as error:
        raise corrupt("i2t", key, str(error)) from error
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths.astype(np.int64), out=offsets[1:])
    if len(lengths) > PAGE_TERMS or at + int(offsets[-1]) != len(payload):
        raise corrupt("i2t", key, "its texts do not fit its lengths")
    return Page(number, offsets.tolist(), bytes(payload[at:]))


class Pages:
    """The pages of a store, through a cache; a page that lacks a term is read again, for it may have grown."""

    def __init__(self, kv: KeyValue, bytes_max: int = PAGE_CACHE_BYTES) -> None:
        self._kv = kv
        self._cache: Cache[Page] = Cache(bytes_max)
        self._absent: set[int] = set()  # pages that were fetched in vain: their terms are still in slabs
        self._largest = self._pages_read = 0  # the largest of those that were read of late; and how many were

    @property
    def nbytes(self) -> int:
        """The memory of those that are cached."""
        return self._cache.nbytes

    def fetch(self, ids: Ids) -> None:
        """Brings pages that `texts` will read into the cache, with one request: at most some megabytes of them. While
        nothing is known of their size, with several, each for twice as many as the one before."""
        ids = ids[(ids != 0) & (ids < np.uint64(1 << TAG_SHIFT))]
        numbers = np.unique((ids - np.uint64(1)) >> np.uint64(PAGE_BITS)).tolist()
        missing = [number for number in numbers if number not in self._absent and self._cache.get(number) is None]
        first = _FETCHED_FIRST
        while missing:
            is_known = self._pages_read >= _FETCHED_FIRST
            count, first = _FETCHED_BYTES // self._largest if is_known else first, 2 * first
            self._largest = max(self._largest * 7 // 8, _FETCHED_LEAST)  # it counts less with each request
            pages = self._read(missing[:count])
            self._absent.update(number for number, page in zip(missing, pages, strict=False) if page is None)
            missing = [] if is_known else missing[count:]

    def forget_absent(self) -> None:
        """Pages were written meanwhile."""
        self._absent.clear()

    def texts(self, ids: Ids) -> list[bytes]:
        """The texts of ascending, distinct ids of the dictionary; b"" for an id without a text."""
        numbers = (ids - np.uint64(1)) >> np.uint64(PAGE_BITS)
        starts = np.flatnonzero(np.concatenate(([True], numbers[1:] != numbers[:-1]))).tolist()
        pages = self._read([int(numbers[start]) for start in starts])
        places = ((ids - np.uint64(1)) & np.uint64(PAGE_TERMS - 1)).tolist()
        texts: list[bytes] = []
        for page, start, end in zip(pages, starts, [*starts[1:], len(ids)], strict=True):
            if page is None:
                texts += [b""] * (end - start)
            elif end - start < _FEW:
                texts += map(page.text, places[start:end])
            else:
                texts += map(page.all().__getitem__, places[start:end])
        return self._with_late_and_long(ids, texts)

    def text(self, id: int) -> bytes:
        """As `texts` for one id: mostly of a page that was read before."""
        page = self._cache.get(page_of(id))
        text = b"" if page is None else page.text((id - 1) % PAGE_TERMS)
        if not text or text == _LONG:
            return self.texts(np.array([id], np.uint64))[0]
        return text

    def _with_late_and_long(self, ids: Ids, texts: list[bytes]) -> list[bytes]:
        if b"" in texts:
            for i in [i for i, text in enumerate(texts) if not text]:
                (page,) = self._read([page_of(int(ids[i]))], fresh=True)
                texts[i] = b"" if page is None else page.text((int(ids[i]) - 1) % PAGE_TERMS)
        if _LONG in texts:
            long = [i for i, text in enumerate(texts) if text == _LONG]
            keys = [_long_key(int(ids[i])) for i in long]
            for i, key, value in zip(long, keys, self._kv.get_many("i2t", keys), strict=True):
                texts[i] = bytes(unseal(_LONG_MAGIC, value, "i2t", key))
        return texts

    def _read(self, numbers: Sequence[int], fresh: bool = False) -> list[Page | None]:
        found: list[Page | None] = [None if fresh else self._cache.get(number) for number in numbers]
        missing = [i for i, page in enumerate(found) if page is None]
        if missing:
            values = self._kv.get_many("i2t", [page_key(numbers[i]) for i in missing])
            for i, value in zip(missing, values, strict=True):
                if value is not None:
                    page = found[i] = unpack_page(value, numbers[i])
                    self._cache.put(numbers[i], page, page.nbytes)
            self._note_sizes([each for i in missing if (each := found[i]) is not None])
        return found

    def _note_sizes(self, pages: Sequence[Page]) -> None:
        if pages:
            largest = max(page.nbytes for page in pages)
            self._largest = max(largest, self._largest, _FETCHED_LEAST)
            self._pages_read += len(pages)

    # ---- sweeping

    def sweep(self, pages: PageRange, ids_of: Callable[[list[bytes]], Ids]) -> None:
        """Deletes pages that nothing came of: no text there is found under the id that its place says."""
        for start in range(pages.first, pages.last + 1, _PAGES_AT_ONCE):
            numbers = range(start, min(start + _PAGES_AT_ONCE, pages.last + 1))
            for number, value in zip(numbers, self._kv.get_many("i2t", [*map(page_key, numbers)]), strict=True):
                if value is None:
                    continue
                places = [
                    (i, text) for i, text in enumerate(unpack_page(value, number).all()) if text not in (b"", _LONG)
                ]
                ids = ids_of([text for _, text in places]).tolist()
                if any(id == (number << PAGE_BITS) + place + 1 for id, (place, _) in zip(ids, places, strict=True)):
                    return
        self._kv.delete_range("i2t", page_key(pages.first), page_key(pages.last + 1), (1 << 62) - 1)

    # ---- writing

    def puts(self, chunks: Iterable[TermsChunk], time: int) -> Iterator[Put]:
        """The rows of all these terms; what their pages hold already stays in them."""
        parts: dict[int, list[tuple[int, Offsets, bytes]]] = {}
        for chunk in chunks:
            for number, place, offsets, data in _cut(chunk):
                parts.setdefault(number, []).append((place, offsets, data))
        for number, of_page in sorted(parts.items()):
            place, offsets, data = of_page[0]
            if place or len(of_page) > 1 or len(offsets) <= PAGE_TERMS:
                (old,) = self._read([number], fresh=True)
                yield from _page_puts(number, _together(old, of_page), time)
            else:
                yield from _whole_page_puts(number, offsets, data, time)


def full_page_puts(chunk: TermsChunk, time: int) -> Iterator[Put]:
    """The rows of terms that fill pages, of which nothing was written before."""
    for number, place, offsets, data in _cut(chunk):
        assert place == 0 and len(offsets) == PAGE_TERMS + 1
        yield from _whole_page_puts(number, offsets, data, time)


def _whole_page_puts(number: int, offsets: Offsets, data: bytes, time: int) -> Iterator[Put]:
    if int(np.diff(offsets).max()) > LONG_BYTES:
        yield from _page_puts(number, _together(None, [(0, offsets, data)]), time)
    else:
        yield Put("i2t", page_key(number), pack_page(offsets, data), time)


def _cut(chunk: TermsChunk) -> Iterator[tuple[int, int, Offsets, bytes]]:
    """(page, place of the first term, offsets, texts) of the pages that a chunk has terms of."""
    done, count = 0, len(chunk.offsets) - 1
    while done < count:
        number, place = page_of(chunk.first + done), (chunk.first + done - 1) % PAGE_TERMS
        stop = min(done + PAGE_TERMS - place, count)
        offsets = chunk.offsets[done : stop + 1]
        yield number, place, offsets - offsets[0], chunk.data[int(offsets[0]) : int(offsets[-1])]
        done = stop


def _together(old: Page | None, parts: Sequence[tuple[int, Offsets, bytes]]) -> list[bytes]:
    texts = [b""] * PAGE_TERMS if old is None else list(old.all())
    for place, offsets, data in parts:
        ends = offsets.tolist()
        for i in range(len(ends) - 1):
            texts[place + i] = data[ends[i] : ends[i + 1]]
    return texts


def _page_puts(number: int, texts: list[bytes], time: int) -> Iterator[Put]:
    """The long ones first: a page never points at what is not there."""
    for place, text in enumerate(texts):
        if len(text) > LONG_BYTES:
            yield Put("i2t", _LONG_KEY.pack(number, place), seal(_LONG_MAGIC, text), time)
    short = [_LONG if len(text) > LONG_BYTES else text for text in texts]
    while short and not short[-1]:
        short.pop()
    offsets = np.zeros(len(short) + 1, np.int64)
    np.cumsum([len(text) for text in short], out=offsets[1:])
    yield Put("i2t", page_key(number), pack_page(offsets, b"".join(short)), time)


def _long_key(id: int) -> Key:
    return _LONG_KEY.pack(page_of(id), (id - 1) % PAGE_TERMS)


def unknown(id: int) -> Exception:
    if id == 0:
        return ValueError("id 0 means no term and has no text; leave unbound values out")
    return Corrupt(f"no term has the id {id} in the part of the store that this process has read; refresh it")
