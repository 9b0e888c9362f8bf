"""Range sums: the sum of a group in one range of a divided query, on its way to where those of all ranges are added.

A sum of integers is an integer. Any other one travels as all that it is made of, so that nothing is rounded twice: how
many numbers of each kind there are, how many of them are NaN or infinite, the sum of the decimals, and that of the
floats (`ExactSums`). Its text is that of a blank node of the query's own: nobody looks for these in the store."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

_PREFIX = b"_:qsum "


def text_of_sum(counts: Sequence[int], decimals: int, floats: int, far: Decimal) -> bytes:
    """`counts`: of kinds, then of NaN and both infinities. `decimals` and `floats` in the units of `ExactSums`; `far`
    is what does not fit into these."""
    return _PREFIX + " ".join(map(str, (*counts, decimals, floats, far))).encode()


class SumOfRange:
    """As it came from a range."""

    __slots__ = ("counts", "decimals", "far", "floats")

    def __init__(self, text: bytes) -> None:
        *numbers, far = text.removeprefix(_PREFIX).decode().split(" ")
        *self.counts, self.decimals, self.floats = map(int, numbers)
        self.far = Decimal(far)


def is_sum(text: bytes) -> bool:
    return text.startswith(_PREFIX)
