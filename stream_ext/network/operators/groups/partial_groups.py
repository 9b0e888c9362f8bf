"""Partial groups: what a task knows of its groups, in a form that another process can add to its own.

Counts are added, and so are sums, which are exact; of MIN and MAX the best value of each task is enough; for what is
DISTINCT, and for GROUP_CONCAT, each value is sent once, with its count."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import msgspec
import numpy as np

from hbase_store.arrays import Ids
from stream_ext.values.vocabulary import Vocabulary

Array = np.typing.NDArray[Any]


class PackedArray(msgspec.Struct, frozen=True, array_like=True):
    kind: str
    shape: tuple[int, ...]
    content: bytes

    @classmethod
    def of(cls, array: Array) -> PackedArray:
        return cls(array.dtype.str, array.shape, np.ascontiguousarray(array).tobytes())

    def array(self) -> Array:
        return np.frombuffer(self.content, self.kind).reshape(self.shape).copy()


class PartialTally(msgspec.Struct, frozen=True, array_like=True):
    """Of all groups of a task. `numbers`: as the tally has them; `ids`: columns of terms; `far`: sums that do not fit
    into numbers, by places in them."""

    numbers: tuple[PackedArray, ...]
    ids: tuple[PackedArray, ...] = ()
    far: dict[int, Decimal] = {}


class PartialGroups(msgspec.Struct, frozen=True, array_like=True):
    """`created`: the texts of the terms that the task made; their ids in all columns are places in this list."""

    keys: tuple[PackedArray, ...]
    rows: PackedArray
    tallies: tuple[PartialTally, ...]
    created: tuple[bytes, ...] = ()

    def portable(self, vocabulary: Vocabulary) -> PartialGroups:
        """For a process that does not have this vocabulary."""
        columns = [each.array() for each in self._columns()]
        found, created = vocabulary.portable(columns)
        return self._with(found, tuple(created))

    def known_to(self, vocabulary: Vocabulary) -> PartialGroups:
        """With the ids that this vocabulary has for the terms."""
        if not self.created:
            return self
        columns = [each.array() for each in self._columns()]
        return self._with(vocabulary.from_portable(columns, self.created), ())

    def _columns(self) -> list[PackedArray]:
        return [*self.keys, *(column for tally in self.tallies for column in tally.ids)]

    def _with(self, columns: Sequence[Ids], created: tuple[bytes, ...]) -> PartialGroups:
        rest = iter([PackedArray.of(column) for column in columns])
        keys = tuple(next(rest) for _ in self.keys)
        tallies = [
            PartialTally(tally.numbers, tuple(next(rest) for _ in tally.ids), tally.far) for tally in self.tallies
        ]
        return PartialGroups(keys, self.rows, tuple(tallies), created)


class PartialRows(msgspec.Struct, frozen=True, array_like=True):
    """Distinct rows of a task; `created` as in PartialGroups."""

    columns: tuple[PackedArray, ...]
    count: int
    created: tuple[bytes, ...] = ()
