"""What elements say of their triples, such as their time: a column with a line for each triple, which is made only of
those lines that somebody reads. Of the triples of a push, few may fit a pattern."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

Item = TypeVar("Item", bound=np.generic)
_ALL = slice(None)


class OfElements(Generic[Item]):
    """`values` of elements; and of each triple the place of its element there."""

    __slots__ = ("_places", "_values", "_whole")

    def __init__(self, values: npt.NDArray[Item], places: npt.NDArray[np.int32]) -> None:
        self._values, self._places = values, places
        self._whole: npt.NDArray[Item] | None = None

    def __len__(self) -> int:
        return len(self._places)

    def __getitem__(self, which: Any) -> npt.NDArray[Item]:
        if self._whole is None and isinstance(which, slice) and which == _ALL:
            self._whole = self._values.take(self._places)  # several threads may do so: each makes the same
        found: npt.NDArray[Item] = self._values.take(self._places[which]) if self._whole is None else self._whole[which]
        return found
