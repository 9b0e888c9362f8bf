"""How a column of numbers is written: as distances from a base, in as few bytes each as the largest needs.

A sorted column is written as steps, any other as distances from its smallest value. The layout of one column,
little-endian: mode (1 byte: 0 distances, 1 steps), width (1 byte: 0, 1, 2, 4 or 8), 2 bytes of zero, count
(4 bytes), base (8 bytes), then count numbers of that width. A width of 0 says that all of them are 0."""

from __future__ import annotations

import struct

import numpy as np
import numpy.typing as npt

from hbase_store.arrays import Ids

_HEADER = struct.Struct("<BBxxIQ")
HEADER_BYTES = _HEADER.size
_DISTANCES, STEPS = 0, 1
_TYPES: dict[int, np.dtype[np.unsignedinteger]] = {
    1: np.dtype("<u1"),
    2: np.dtype("<u2"),
    4: np.dtype("<u4"),
    8: np.dtype("<u8"),
}
_SIGN = np.uint64(1 << 63)
#: For so few, lists are quicker than arrays.
_FEW = 64


def pack_column(column: Ids) -> bytes:
    if len(column) < 2:
        return _HEADER.pack(_DISTANCES, 0, len(column), int(column[0]) if len(column) else 0)
    smallest, largest = _extremes(column)
    width = _width(largest - smallest)
    if not width:
        return _HEADER.pack(_DISTANCES, 0, len(column), smallest)
    mode, base, numbers = _DISTANCES, smallest, column
    if width > 1 and bool((column[:-1] <= column[1:]).all()):
        steps = np.diff(column)
        steps_width = _width(int(steps.max()))
        if steps_width < width:
            mode, base, width = STEPS, int(column[0]), steps_width
            numbers = np.concatenate(([np.uint64(0)], steps))
    if mode == _DISTANCES:
        numbers = column - np.uint64(base)
    body = numbers.astype(_TYPES[width]).tobytes() if width else b""
    return _HEADER.pack(mode, width, len(column), base) + body


def _extremes(column: Ids) -> tuple[int, int]:
    """The least and the greatest."""
    if len(column) > _FEW:
        return int(column.min()), int(column.max())
    listed = column.tolist()
    return min(listed), max(listed)


def unpack_column(data: memoryview, at: int) -> tuple[Ids, int]:
    """The column that begins at `at`, and where what follows begins; a ValueError if it cannot be one."""
    if at + _HEADER.size > len(data):
        raise ValueError("a column is cut off")
    mode, width, count, base = _HEADER.unpack_from(data, at)
    at += _HEADER.size
    if mode not in (_DISTANCES, STEPS) or (width and width not in _TYPES):
        raise ValueError(f"a column of mode {mode} and width {width}")
    if at + width * count > len(data):
        raise ValueError("a column is cut off")
    if width == 0:
        return np.full(count, base, np.uint64), at
    numbers = np.frombuffer(data, _TYPES[width], count, at).astype(np.uint64)
    if mode == STEPS:
        np.cumsum(numbers, out=numbers)
    numbers += np.uint64(base)
    return numbers, at + width * count


def from_signed(column: npt.NDArray[np.int64]) -> Ids:
    """Signed numbers as unsigned ones in the same order, so that those around 0 lie close together."""
    return np.ascontiguousarray(column, np.int64).view(np.uint64) ^ _SIGN


def to_signed(column: Ids) -> npt.NDArray[np.int64]:
    return (column ^ _SIGN).view(np.int64)


def _width(largest: int) -> int:
    if largest == 0:
        return 0
    size = (largest.bit_length() + 7) // 8
    return 1 if size == 1 else 2 if size == 2 else 4 if size <= 4 else 8
