"""RAND, UUID, STRUUID and BNODE: functions of the scope's seed, the place of the call and the row.

So an evaluation that is repeated has the same chances. BNODE("x") leaves the place out: in one solution the same label
is the same node, wherever it is asked for."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from stream_ext.values import known_values
from stream_ext.values.expressions.nodes import Node
from stream_ext.values.expressions.rows import Rows
from stream_ext.values.expressions.vectors import Factored, NumericVector, Pool, Vector

_Bits = npt.NDArray[np.uint64]


def _bits(rows: Rows, salt: str) -> _Bits:
    """Two words of 64 bits for each row: splitmix64 from a start that seed and salt decide."""
    digest = hashlib.blake2b(rows.scope.seed + b"\0" + salt.encode(), digest_size=16).digest()
    starts = np.frombuffer(digest, np.uint64)
    numbers = np.arange(rows.count) if rows.numbers is None else rows.numbers
    state = starts[:, None] + (numbers.astype(np.uint64)[None, :] + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(state ^ (state >> np.uint64(31)))


@dataclass(frozen=True, slots=True)
class Rand:
    salt: str
    used: frozenset[int] = frozenset()

    def evaluate(self, rows: Rows) -> Vector:
        return NumericVector(known_values.DOUBLE, (_bits(rows, self.salt)[0] >> np.uint64(11)) * 2.0**-53)


@dataclass(frozen=True, slots=True)
class Uuid:
    salt: str
    as_iri: bool
    used: frozenset[int] = frozenset()

    def evaluate(self, rows: Rows) -> Vector:
        high, low = _bits(rows, self.salt).tolist()
        uuids = [_uuid(*words) for words in zip(high, low, strict=True)]
        codes = np.arange(rows.count, dtype=np.int32)
        if self.as_iri:
            return Factored(Pool(texts=[f"<urn:uuid:{uuid}>".encode() for uuid in uuids]), codes)
        return Factored(Pool(list(uuids)), codes)


def _uuid(high: int, low: int) -> str:
    """Version 4, variant 1 (RFC 4122)."""
    number = (high << 64 | low) & ~(0xF << 76) & ~(0x3 << 62) | 4 << 76 | 2 << 62
    digits = f"{number:032x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


@dataclass(frozen=True, slots=True)
class FreshNode:
    """BNODE() and BNODE(label)."""

    salt: str
    label: Node | None
    used: frozenset[int]

    def evaluate(self, rows: Rows) -> Vector:
        codes = np.arange(rows.count, dtype=np.int32)
        # Rows that were counted otherwise are other solutions: they must not share a node by their number.
        high, low = _bits(rows, f"of {rows.total}" if self.label else self.salt).tolist()
        if self.label is None:
            return Factored(Pool(texts=[b"_:q%016x%016x" % words for words in zip(high, low, strict=True)]), codes)
        labels = rows.factored(self.label.evaluate(rows))
        values = labels.pool.values
        places = np.zeros(rows.count, np.int32) if labels.codes is None else labels.codes
        marks = [_mark(value) if isinstance(value, str) else None for value in values]
        found = zip(high, low, places.tolist(), strict=True)
        return Factored(Pool(texts=[_node(marks[place], a, b) for a, b, place in found]), codes)


def _mark(label: str) -> bytes:
    return hashlib.blake2b(label.encode(), digest_size=8).hexdigest().encode()


def _node(mark: bytes | None, high: int, low: int) -> bytes | None:
    return None if mark is None else b"_:q%016x%016x%s" % (high, low, mark)
