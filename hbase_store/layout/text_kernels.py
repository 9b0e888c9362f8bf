"""The loop that gathers texts: of some numbers, one behind the other."""

from __future__ import annotations

from numba import njit


@njit(cache=True, nogil=True)
def gather_texts(arena, offsets, numbers, data):  # type: ignore[no-untyped-def]
    at = 0
    for number in numbers:
        for i in range(offsets[number], offsets[number + 1]):
            data[at] = arena[i]
            at += 1
