"""The hash by which a term is found: 64 bits of its bytes, the same on every machine and for ever.

Two terms may have the same hash, so the text is compared, too."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numba import njit

from hbase_store.arrays import Ids, Offsets, frozen

_SEED = np.uint64(0x9E3779B97F4A7C15)
_FACTOR = np.uint64(0xBF58476D1CE4E5B9)
_LAST = np.uint64(0x94D049BB133111EB)


@njit(cache=True, nogil=True, inline="always")
def hash_bytes(data, start, end):  # type: ignore[no-untyped-def]
    """Eight bytes at a time, little-endian; the length is in it too, so that padding means nothing."""
    value = _SEED ^ np.uint64(end - start)
    # Unsigned, so that no index is asked whether it counts from the end; then eight loads become one.
    at, stop = np.uint64(start), np.uint64(end)
    while at + np.uint64(8) <= stop:
        word = np.uint64(data[at])
        word |= np.uint64(data[at + np.uint64(1)]) << np.uint64(8)
        word |= np.uint64(data[at + np.uint64(2)]) << np.uint64(16)
        word |= np.uint64(data[at + np.uint64(3)]) << np.uint64(24)
        word |= np.uint64(data[at + np.uint64(4)]) << np.uint64(32)
        word |= np.uint64(data[at + np.uint64(5)]) << np.uint64(40)
        word |= np.uint64(data[at + np.uint64(6)]) << np.uint64(48)
        word |= np.uint64(data[at + np.uint64(7)]) << np.uint64(56)
        value = (value ^ word) * _FACTOR
        value ^= value >> np.uint64(32)
        at += np.uint64(8)
    if at < stop:
        word = np.uint64(0)
        shift = np.uint64(0)
        while at < stop:
            word |= np.uint64(data[at]) << shift
            shift += np.uint64(8)
            at += np.uint64(1)
        value = (value ^ word) * _FACTOR
        value ^= value >> np.uint64(32)
    value = (value ^ (value >> np.uint64(29))) * _LAST
    return value ^ (value >> np.uint64(32))


@njit(cache=True, nogil=True)
def _hash_all(data, offsets, out):  # type: ignore[no-untyped-def]
    for i in range(len(out)):
        out[i] = hash_bytes(data, offsets[i], offsets[i + 1])


def hash_column(data: bytes, offsets: Offsets) -> Ids:
    """The hashes of the texts data[offsets[i]:offsets[i + 1]]."""
    out = np.empty(len(offsets) - 1, np.uint64)
    _hash_all(np.frombuffer(data, np.uint8), frozen(offsets), out)
    return out


def hash_texts(texts: Sequence[bytes]) -> Ids:
    offsets = np.zeros(len(texts) + 1, np.int64)
    np.cumsum(np.fromiter(map(len, texts), np.int64, len(texts)), out=offsets[1:])
    return hash_column(b"".join(texts), offsets)


def hash_text(text: bytes) -> np.uint64:
    # A Python number would make numpy convert the column in which it is looked for.
    return np.uint64(_hash_one(np.frombuffer(text, np.uint8), 0, len(text)))


@njit(cache=True, nogil=True)
def _hash_one(data, start, end):  # type: ignore[no-untyped-def]
    return hash_bytes(data, start, end)


def warm() -> None:
    hash_texts([b"<a>"])
    hash_text(b"<a>")
