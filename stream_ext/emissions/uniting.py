"""Uniting: of a divided query the parts of all shards become the part that one shard would have made.

    shard 0    (query 7, snapshot 12, k 0)    rows a, d       -->    rows a, b, c, d
    shard 1    (query 7, snapshot 12, k 0)    rows b, c

All shards evaluate a query at the same times, for what decides when it is evaluated is read by all of them; their
states are equal, too. So nothing but rows is united. If anything else differs, for example because one shard did not
get through an evaluation in its time, or because its range was too large for its memory, the query cannot be united,
and is evaluated as a whole by the next plan, from the snapshot before."""

from __future__ import annotations

from collections.abc import Container, Sequence

import msgspec
import numpy as np
import numpy.typing as npt

from hbase_store.arrays import lexicographic
from hbase_store.layout.terms import LOCAL, TAG_SHIFT
from stream_ext.values.vocabulary import is_local
from stream_ext.windows.part import Ids, Part
from stream_ext.windows.query_state import QueryState

_LOCAL_FIRST = np.uint64(LOCAL << TAG_SHIFT)
#: What the part of a range has for itself: its rows, and the texts of terms in them. `joined` has the queries of which
#: the shard sends the first part; another shard may have sent one before. `state` is looked at apart.
_OWN = frozenset({"whose", "columns", "created", "queries", "joined", "state"})


class CannotUnite(Exception):
    """These queries cannot be united, for this reason."""

    def __init__(self, numbers: Sequence[int], why: str) -> None:
        super().__init__(why)
        self.numbers = frozenset(numbers)


def united(senders: Sequence[Sequence[Part]], queries: Container[int]) -> list[Part]:
    """All parts of a snapshot. `senders`: those of each shard that has ranges; of divided queries all have a part of
    each evaluation. `queries`: those that exist; a shard that builds its state when a query is gone, though it is there
    in the snapshots to come, does not know where that was."""
    found = [part for parts in senders for part in parts if not part.is_range]
    there = [[part for part in parts if part.is_range and _exists(part, queries)] for parts in senders]
    ranges = [{_place(part): part for part in parts} for parts in there]
    for parts, places in zip(there, ranges, strict=True):
        if len(places) < len(parts):
            raise CannotUnite(
                [n for part in parts for n in part.queries.tolist()], "a shard sent two parts of one evaluation"
            )
    if not any(ranges):
        return found
    for place, first in ranges[0].items():
        others = [each.pop(place, None) for each in ranges[1:]]
        found.append(_one_of(first, others))
    for left in ranges[1:]:
        for part in left.values():
            raise CannotUnite(part.queries.tolist(), "a shard did not evaluate its range at the same times as another")
    return found


def must_not_be_ranges(pieces: Sequence[Sequence[Part]]) -> None:
    """What is sent by a query that catches up is not united."""
    for part in (part for parts in pieces for part in parts if part.is_range):
        raise CannotUnite(part.queries.tolist(), "a shard fell behind with its range")


def _exists(part: Part, queries: Container[int]) -> bool:
    return any(number in queries for number in part.queries.tolist())


def _place(part: Part) -> tuple[object, ...]:
    return part.sn, part.k, part.evaluated, part.after_move, part.given_up, part.queries.tobytes()


def _one_of(first: Part, others: Sequence[Part | None]) -> Part:
    numbers = first.queries.tolist()
    if first.given_up:
        raise CannotUnite(numbers, "the evaluation of a range failed")
    if first.after_move:
        raise CannotUnite(numbers, "the query was moved")
    if first.state.behind_at is not None:
        raise CannotUnite(numbers, "a shard fell behind with its range")
    there = [other for other in others if other is not None]
    if len(there) < len(others):
        raise CannotUnite(numbers, "a shard did not evaluate its range at the same times as another")
    for other in there:
        if (name := _difference(first, other)) is not None:
            raise CannotUnite(numbers, f"the ranges of two shards differ in more than their rows: {name}")
    parts = [first, *there]
    if first.terms is not None or first.many is not None:
        raise CannotUnite(numbers, "its parts have no ids")
    created, columns = _together(parts)
    whose = np.concatenate([part.whose for part in parts])
    if len(columns) and len(columns[0]):
        order = _order(whose, columns, numbers)
        columns = [column[order] for column in columns]
        whose = whose[order] if len(whose) else whose
    joined = {number: state for part in parts for number, state in part.joined.items()}
    return msgspec.structs.replace(
        first, whose=whose, columns=columns, created=created, joined=joined, is_range=False
    )  # fmt: skip


def _difference(one: Part, other: Part) -> str | None:
    """What is not the same in two parts, though it should be."""
    for name in Part.__struct_fields__:
        if name not in _OWN and getattr(one, name) != getattr(other, name):
            return name
    common = ("registered", "begins", "began") if one.is_shared else ()
    for name in QueryState.__struct_fields__:
        if name not in common and getattr(one.state, name) != getattr(other.state, name):
            return f"state.{name}"
    both = one.joined.keys() & other.joined.keys()
    return "joined" if any(one.joined[number] != other.joined[number] for number in both) else None


def _together(parts: Sequence[Part]) -> tuple[list[bytes], list[Ids]]:
    """The rows of all parts. Of terms that the query made, each part has numbers of its own."""
    places: dict[bytes, int] = {}
    columns: list[list[Ids]] = [[] for _ in parts[0].columns]
    for part in parts:
        known = [places.setdefault(text, len(places)) for text in part.created]
        numbers = np.array(known, np.uint64) + _LOCAL_FIRST
        for found, column in zip(columns, part.columns, strict=True):
            if known and (made := is_local(column)).any():
                column = column.copy()
                column[made] = numbers[(column[made] - _LOCAL_FIRST).astype(np.int64)]
            found.append(column)
    return list(places), [np.concatenate(found) for found in columns]


def _order(whose: Ids, columns: Sequence[Ids], numbers: Sequence[int]) -> npt.NDArray[np.intp]:
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
