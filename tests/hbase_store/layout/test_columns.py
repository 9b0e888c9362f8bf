"""Columns of numbers as they are stored: `pack_column` against its layout, written out number by number."""

import random
import struct
from itertools import pairwise

import numpy as np
import pytest

from hbase_store.layout.columns import pack_column, unpack_column


def as_described(numbers: list[int]) -> bytes:
    """The layout, as its module describes it."""
    if not numbers:
        return struct.pack("<BBxxIQ", 0, 0, 0, 0)
    base, mode = min(numbers), 0
    distances = [number - base for number in numbers]
    width = _width(max(distances))
    if width > 1 and numbers == sorted(numbers):
        steps = [0, *(after - before for before, after in pairwise(numbers))]
        if _width(max(steps)) < width:
            mode, base, width, distances = 1, numbers[0], _width(max(steps)), steps
    body = b"".join(each.to_bytes(width, "little") for each in distances) if width else b""
    return struct.pack("<BBxxIQ", mode, width, len(numbers), base) + body


def _width(largest: int) -> int:
    return next(width for width in (0, 1, 2, 4, 8) if largest < 1 << (8 * width))


@pytest.mark.parametrize("seed", range(40))
def test_columns_of_any_length_are_written_as_described(seed: int) -> None:
    chance = random.Random(seed)
    for count in (0, 1, 2, 3, 17, 63, 64, 65, 200):
        reach = 1 << chance.choice([0, 1, 7, 8, 9, 16, 31, 33, 63])
        base = chance.choice([0, 5, 1 << 40, (1 << 63) - 1])
        numbers = [base + chance.randrange(reach) for _ in range(count)]
        numbers = sorted(numbers) if chance.random() < 0.5 else numbers
        packed = pack_column(np.array(numbers, np.uint64))
        assert packed == as_described(numbers), f"seed {seed}: {numbers}"
        column, end = unpack_column(memoryview(packed), 0)
        assert (column.tolist(), end) == (numbers, len(packed))
