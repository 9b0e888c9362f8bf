"""Rows of ranges: those that several shards have of one divided query, put together and in order."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from hbase_store.arrays import lexicographic
from hbase_store.layout.terms import LOCAL, TAG_SHIFT
from stream_ext.values.vocabulary import is_local, with_ids
from stream_ext.windows.part import Ids, Part

_LOCAL_FIRST = np.uint64(LOCAL << TAG_SHIFT)


class CannotUnite(Exception):
    """These queries cannot be united, for this reason. `is_late`: a shard did not get through its range in time."""

    def __init__(self, numbers: Sequence[int], why: str, is_late: bool = False) -> None:
        super().__init__(why)
        self.numbers, self.is_late = frozenset(numbers), is_late

    @classmethod
    def fell_behind(cls, numbers: Sequence[int]) -> CannotUnite:
        return cls(numbers, "a shard fell behind with its range", is_late=True)

    @classmethod
    def at_other_times(cls, numbers: Sequence[int]) -> CannotUnite:
        return cls(numbers, "a shard did not evaluate its range at the same times as another")

    @classmethod
    def has_no_ids(cls, numbers: Sequence[int]) -> CannotUnite:
        return cls(numbers, "its parts have no ids")


def together(parts: Sequence[Part]) -> tuple[list[bytes], list[Ids]]:
    """The rows of all parts. Of terms that the query made, each part has numbers of its own."""
    places: dict[bytes, int] = {}
    columns: list[list[Ids]] = [[] for _ in parts[0].columns]
    for part in parts:
        known = [places.setdefault(text, len(places)) for text in part.created]
        own = part.columns if not known else with_ids(part.columns, np.array(known, np.uint64) + _LOCAL_FIRST)
        for found, column in zip(columns, own, strict=True):
            found.append(column)
    return list(places), [np.concatenate(found) for found in columns]


def in_order(whose: Ids, columns: Sequence[Ids], numbers: Sequence[int]) -> npt.NDArray[np.intp]:
    """The order in which one shard has these rows: by the ids of their terms. Computed terms have other ids in each
    process, after those of all other terms. They come after what they are computed of, and so decide nothing among
    themselves."""
    keys, made = ([whose] if len(whose) else []), list[tuple[int, Ids]]()
    for column in columns:
        own = is_local(column)
        if own.any():
            made.append((len(keys), column))
            column = np.where(own, _LOCAL_FIRST, column)
        keys.append(column)
    order = lexicographic(tuple(keys))
    for place, column in made:
        if _decides(column[order], [key[order] for key in keys[: place + 1]]):
            raise CannotUnite(numbers, "rows differ only in terms that the query made")
    return order


def _decides(column: Ids, before: Sequence[Ids]) -> bool:
    """Whether rows, in order, that are the same in the columns before this one differ in it."""
    other = column[1:] != column[:-1]
    for key in before:
        other &= key[1:] == key[:-1]
    return bool(other.any())
