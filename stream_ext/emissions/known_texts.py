"""Known texts: the terms of answers that several emissions have.

Under RSTREAM a query whose answer did not change emits it again; and queries that read the same rows emit the same
answer. Such answers are the very same arrays. Their terms are numbered and decoded once.

    close 10, q1    columns A    terms are decoded
    close 10, q2    columns A    known
    close 11, q1    columns A    known"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from stream_ext.windows.part import Ids

#: Fewer ids are decoded again: to look for them would take as long.
_CELLS_LEAST = 64
#: So many ids are known at a time, and so many bytes of texts; a term takes some 50 bytes more.
_CELLS_MAX, _BYTES_MAX = 1 << 18, 16 << 20

#: The distinct terms, and of each column the places of its terms there.
Texts = tuple[list[bytes], list[npt.NDArray[np.int32]]]


class _Known(NamedTuple):
    columns: Sequence[Ids]  # as long as they are here, no others have their identities
    texts: Texts
    cells: int
    nbytes: int


class KnownTexts:
    """Not thread-safe."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[int, ...], _Known] = OrderedDict()  # those used last at the end
        self._cells = self._bytes = 0

    def of(self, columns: Sequence[Ids], make: Callable[[], Texts]) -> Texts:
        """`make`: finds them, if they are not known. Arrays that may change are not remembered."""
        cells = len(columns) * len(columns[0]) if columns else 0
        if not _CELLS_LEAST <= cells <= _CELLS_MAX or any(column.flags.writeable for column in columns):
            return make()
        key = tuple(map(id, columns))
        found = self._known.get(key)
        if found is None:
            terms, places = make()
            found = self._known[key] = _Known(tuple(columns), (terms, places), cells, sum(map(len, terms)))
            self._cells, self._bytes = self._cells + cells, self._bytes + found.nbytes
            while self._cells > _CELLS_MAX or self._bytes > _BYTES_MAX:
                _, forgotten = self._known.popitem(last=False)
                self._cells, self._bytes = self._cells - forgotten.cells, self._bytes - forgotten.nbytes
        else:
            self._known.move_to_end(key)
        return found.texts
