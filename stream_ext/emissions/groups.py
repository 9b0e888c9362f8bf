"""Groups: queries whose emissions are stored together, as records of the group."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from stream_ext.windows.part import Ids, Part
from stream_ext.windows.query_state import QueryState


class GroupMembership(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The emissions of a query after number `before` are the records of a group from `first` on.

    `until`: the last of them; None: it is in the group. `gap`: the first of them is the first since a pause."""

    group: int
    first: int
    before: int
    gap: bool = False
    until: int | None = None

    def number(self, record: int) -> int:
        return self.before + record - self.first + 1

    def last(self) -> tuple[int, bool]:
        """The query's number of the last record, and whether that has the gap."""
        assert self.until is not None
        number = self.number(self.until)
        return number, self.has_gap(number)

    def has_gap(self, number: int) -> bool:
        return self.gap and number == self.before + 1

    def record(self, number: int) -> int:
        return number - self.before - 1 + self.first


def with_records(
    past: Mapping[int, Sequence[GroupMembership]], groups: Container[int], oldest: Callable[[int], int]
) -> dict[int, list[GroupMembership]]:
    """The past memberships of each query, without those of which no record is retained; `oldest` is the number of a
    group's oldest one. A query without any stays: it was in groups, so the log alone does not know its emissions."""
    first = cache(oldest)
    kept: dict[int, list[GroupMembership]] = {}  # by the identity of those before: thousands have the same
    for some in past.values():
        if id(some) not in kept:
            kept[id(some)] = [each for each in some if each.group in groups and (each.until or 0) >= first(each.group)]
    return {query: kept[id(some)] for query, some in past.items()}


class EmissionGroup:
    """Queries whose emissions are stored together.

    `queries`: those of the group's last part; `absent`: those of them that have left since. `stored_state`: the state
    as it is in the store."""

    def __init__(self, number: int, reports: bool, state: QueryState, records: int) -> None:
        self.number, self.reports, self.state, self.records = number, reports, state, records
        self.stored_state = state
        self.queries: Ids = np.empty(0, np.uint64)
        self.absent: set[int] = set()
        self.members = 0
        self.evaluations = 0  # since this process started
        self._rows: npt.NDArray[np.int64] = np.empty(0, np.int64)  # of each of `queries`, since `be` was called

    def count_rows(self, part: Part) -> None:
        if part.columns or part.boolean is not None:
            np.add.at(self._rows, part.whose.view(np.int64), 1)

    def rows_of(self, query: int) -> int:
        place = int(self.queries.searchsorted(query))
        return int(self._rows[place]) if place < len(self.queries) and int(self.queries[place]) == query else 0

    def give_rows_of(self, query: int) -> int:
        """Removes the count of a query's rows from here, and returns it."""
        if rows := self.rows_of(query):
            self._rows[self.queries.searchsorted(query)] = 0
        return rows

    def be(self, queries: Ids) -> dict[int, int]:
        """Sets the queries of the group; returns the rows that were counted for the queries before."""
        places = np.flatnonzero(self._rows)
        counted = dict(zip(self.queries[places].tolist(), self._rows[places].tolist(), strict=True))
        self.queries, self._rows = queries, np.zeros(len(queries), np.int64)
        return counted


class LeftGroup(NamedTuple):
    """What a query became that left a group: its `state`, and its `past` memberships. `before`: the state that it
    entered with, its membership, and those before that."""

    before: tuple[QueryState, GroupMembership, list[GroupMembership] | None]
    group_state: QueryState
    records: int
    state: QueryState
    past: list[GroupMembership]

    def is_of(
        self, before: tuple[QueryState, GroupMembership, list[GroupMembership] | None], group: EmissionGroup
    ) -> bool:
        """Whether another one becomes the same. Queries that entered together have the same objects."""
        is_alike = all(one is other for one, other in zip(before, self.before, strict=True))
        return is_alike and group.state is self.group_state and group.records == self.records


class OwnProgress(msgspec.Struct, frozen=True, array_like=True):
    """What is stored of a query that is, or was, in groups. `state`: its own state; in a group, the one it joined
    with."""

    state: QueryState
    memberships: list[GroupMembership]
    last: int


class GroupProgress(msgspec.Struct, frozen=True, array_like=True):
    """What is stored of a group."""

    state: QueryState
    reports: bool


@dataclass(frozen=True, slots=True)
class Stored:
    """From where the queries continue after a restart: the stored position, the stored states of queries in no group,
    and those of the groups, with the numbers of their queries. `grouped`: all queries that are in a group."""

    position: int
    states: Mapping[int, QueryState]
    groups: Sequence[tuple[Ids, QueryState]]
    grouped: frozenset[int] = frozenset()
