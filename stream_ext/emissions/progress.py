"""Standings: where each registered query has come to, by itself or as one of a group.

    query 7    emissions 1-4 are its own; from 5 on they are the records of group 9 from 120 on
    group 9    queries 3, 7, 8, ...; 131 records; the state that is the same for all of its queries

Queries that are evaluated together are a group: what changes with an evaluation is kept once, for the group, and what
one of them has for itself is written when it comes or goes. So an evaluation costs the same for any number of queries.
Which group it is that goes on, when some come and others go, is a matter of cost alone: that of most of them.

A group whose queries have all left it is kept for as long as records of it are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import msgspec
import numpy as np
import numpy.typing as npt

from stream_ext.catalog.catalog import QueryDefinition
from stream_ext.windows.part import Ids, SharedPart
from stream_ext.windows.schedule import QueryState, own_begins


class GroupMembership(msgspec.Struct, frozen=True, array_like=True):
    """The emissions of a query after number `before` are the records of a group from `first` on.

    `until`: the last of them; None: it is in the group. `gap`: the first of them is the first since a pause."""

    group: int
    first: int
    before: int
    gap: bool = False
    until: int | None = None

    def number(self, record: int) -> int:
        return self.before + record - self.first + 1

    def record(self, number: int) -> int:
        return number - self.before - 1 + self.first


class _Standing(msgspec.Struct, frozen=True, array_like=True):
    """As it is stored of a query that is, or was, in groups. `state` is what is its own: in a group, how it came."""

    state: QueryState
    memberships: list[GroupMembership]
    last: int


class _Together(msgspec.Struct, frozen=True, array_like=True):
    """As it is stored of a group."""

    state: QueryState
    reports: bool


# What is stored of a query by itself is its state, an array; before the others stands a byte that begins no array.
_STANDING, _TOGETHER = b"M", b"G"
_encode = msgspec.msgpack.Encoder().encode


class EmissionGroup:
    """`queries`: those of its last part, and `absent` those of them that are in it no more. `kept`: its state, as it is
    stored."""

    def __init__(self, number: int, reports: bool, state: QueryState, records: int) -> None:
        self.number, self.reports, self.state, self.records = number, reports, state, records
        self.kept = state
        self.queries: Ids = np.empty(0, np.uint64)
        self.absent: set[int] = set()
        self.members = 0
        self.evaluations = 0  # since this process started
        self._rows: npt.NDArray[np.int64] = np.empty(0, np.int64)  # of each of `queries`, since they were these

    def count_rows(self, part: SharedPart) -> None:
        if part.columns or part.boolean is not None:
            np.add.at(self._rows, part.whose.view(np.int64), 1)

    def rows_of(self, query: int) -> int:
        place = int(self.queries.searchsorted(query))
        return int(self._rows[place]) if place < len(self.queries) and int(self.queries[place]) == query else 0

    def give_rows_of(self, query: int) -> int:
        """They are counted elsewhere from now on."""
        if rows := self.rows_of(query):
            self._rows[self.queries.searchsorted(query)] = 0
        return rows

    def be(self, queries: Ids) -> dict[int, int]:
        """These are its queries from now on; the rows that were counted for those of before."""
        places = np.flatnonzero(self._rows)
        counted = dict(zip(self.queries[places].tolist(), self._rows[places].tolist(), strict=True))
        self.queries, self._rows = queries, np.zeros(len(queries), np.int64)
        return counted


@dataclass(frozen=True, slots=True)
class Stored:
    """From where the queries go on after a restart: the stored position, the stored states of those that stand by
    themselves, and those of the groups, with the numbers of its queries. `grouped`: all that are in one."""

    position: int
    states: Mapping[int, QueryState]
    groups: Sequence[tuple[Ids, QueryState]]
    grouped: frozenset[int] = frozenset()


class ProgressLog(Protocol):
    """What of the emission log says where the queries stand."""

    def last(self, query: int) -> int: ...
    def states(self) -> dict[int, bytes]: ...


class Standings:
    """Not safe to use from several threads: the merge has the lock."""

    def __init__(self, log: ProgressLog, queries: Mapping[int, QueryDefinition], new_number: Callable[[], int]) -> None:
        """`new_number`: one that no query and no group has had."""
        self._new_number = new_number
        self._states: dict[int, QueryState] = {}  # of those in a group: how they came
        self._kept: dict[int, QueryState] = {}  # as stored, of those in no group
        self._numbers: dict[int, int] = {}  # the last emission, but for those in a group that reports
        self._members: dict[int, GroupMembership] = {}
        self._past: dict[int, list[GroupMembership]] = {}
        self._groups: dict[int, EmissionGroup] = {}
        self._evaluations: Counter[int] = Counter()
        self._rows: Counter[int] = Counter()
        self._dirty: set[int] = set()
        self._dirty_groups: set[int] = set()
        self._gone: set[int] = set()
        self._catching_up: set[int] = set()  # queries that stand by themselves, and groups
        self.moved = False  # somebody has come to a group, or gone: it must be stored with what is said
        self._read(log, queries)

    def _read(self, log: ProgressLog, queries: Mapping[int, QueryDefinition]) -> None:
        standings: dict[int, _Standing] = {}
        for number, body in log.states().items():
            if body[:1] == _TOGETHER:
                stored = msgspec.msgpack.decode(body[1:], type=_Together)
                self._groups[number] = EmissionGroup(number, stored.reports, stored.state, log.last(number))
            elif number not in queries:
                self._gone.add(number)
            elif body[:1] == _STANDING:
                standings[number] = msgspec.msgpack.decode(body[1:], type=_Standing)
            else:
                self._states[number] = self._kept[number] = msgspec.msgpack.decode(body, type=QueryState)
        self._numbers = {query: log.last(query) for query in queries}
        together: dict[int, list[int]] = {}
        for query, standing in standings.items():
            self._states[query] = standing.state
            self._numbers[query] = max(self._numbers[query], standing.last)
            past = self._past[query] = standing.memberships
            if past and past[-1].until is None:
                member = self._members[query] = past.pop()
                together.setdefault(member.group, []).append(query)
            else:
                self._kept[query] = standing.state
        for query, state in self._kept.items():
            self._follow(query, state)
        for number, members in together.items():
            group = self._groups[number]
            self._follow(number, group.state)
            group.members = len(members)
            group.be(np.array(sorted(members), np.uint64))

    # ---- what anybody may ask ----------------------------------------------------------------------------------

    def states(self) -> dict[int, QueryState]:
        return {query: self._state(query) for query in self._states}

    def waiting(self) -> Iterator[tuple[int, int]]:
        """The queries that wait for an answer from elsewhere, and where each stands."""
        return (
            (query, state.behind_at)
            for query, state in self._states.items()
            if state.behind_at is not None and state.unanswered
        )

    def catching_up(self) -> dict[int, QueryState]:
        """The queries for which more fell due than the others could wait for, and where each stands."""
        found: dict[int, QueryState] = {}
        for number in self._catching_up:
            if (group := self._groups.get(number)) is None:
                found[number] = self._states[number]
            else:
                found |= {query: self._state(query) for query in group.queries.tolist() if self.is_in(query, group)}
        return found

    def _follow(self, number: int, state: QueryState) -> None:
        """Of a query or group that has come to this state."""
        if state.is_catching_up:
            self._catching_up.add(number)
        else:
            self._catching_up.discard(number)

    def state(self, query: int) -> QueryState | None:
        return self._state(query) if query in self._states else None

    def _state(self, query: int) -> QueryState:
        state, member = self._states[query], self._members.get(query)
        if member is None:
            return state
        group = self._groups[member.group]
        said = group.reports and group.records >= member.first
        return state.among(group.state, state.gap and not said)

    def last(self, query: int) -> int:
        """The number of its last emission."""
        member = self._members.get(query)
        if member is not None and (group := self._groups[member.group]).reports:
            return member.number(group.records)
        return self._numbers.get(query, 0)

    def memberships(self, query: int) -> list[GroupMembership]:
        """Which of its emissions are records of groups, the oldest first; of groups that are still known."""
        found = [each for each in self._past.get(query, ()) if each.group in self._groups]
        member = self._members.get(query)
        if member is not None and (group := self._groups[member.group]).reports and group.records >= member.first:
            found.append(msgspec.structs.replace(member, until=group.records))
        return found

    def evaluations(self, query: int) -> int:
        """Since this process started."""
        member = self._members.get(query)
        return self._evaluations[query] + (0 if member is None else self._groups[member.group].evaluations)

    def rows(self, query: int) -> int:
        """Since this process started."""
        member = self._members.get(query)
        return self._rows[query] + (0 if member is None else self._groups[member.group].rows_of(query))

    # ---- what is said ------------------------------------------------------------------------------------------

    def by_itself(self, query: int, state: QueryState, evaluations: int) -> None:
        """It has come to this state."""
        if query in self._members:
            self._leave(query)
        self._states[query] = state
        self._follow(query, state)
        self._evaluations[query] += evaluations
        self._dirty.add(query)

    def say(self, query: int, rows: int) -> int:
        """The number of what a query says by itself."""
        self._rows[query] += rows
        number = self._numbers[query] = self._numbers.get(query, 0) + 1
        return number

    def say_in_silence(self, query: int) -> tuple[int, bool]:
        """The same for one of a group that does not report, and whether it is the first since a pause."""
        state = self._states[query]
        if state.gap:
            self._states[query] = msgspec.structs.replace(state, gap=False)
            self._dirty.add(query)
        return self.say(query, 0), state.gap

    def together(self, part: SharedPart, queries: Mapping[int, QueryDefinition]) -> EmissionGroup | None:
        """The group that this part is of, after it; None: none of its queries is there any more."""
        group = self._same(part) or self._gathered(part, queries)
        if group is not None:
            group.state = part.state
            self._follow(group.number, group.state)
            group.evaluations += max(1, part.repeated) * part.evaluated
            group.records += part.reports and part.evaluated
            group.count_rows(part)
            self._dirty_groups.add(group.number)
        return group

    def is_in(self, query: int, group: EmissionGroup) -> bool:
        member = self._members.get(query)
        return member is not None and member.group == group.number

    def _same(self, part: SharedPart) -> EmissionGroup | None:
        member = self._members.get(int(part.queries[0]))
        if member is None or part.joined:
            return None
        group = self._groups[member.group]
        if group.absent:
            return None
        if group.queries is not part.queries:
            if not np.array_equal(group.queries, part.queries):
                return None
            group.queries = part.queries  # the next is compared by identity
        self._keep_begins(group, part.state.begins)
        return group

    def _gathered(self, part: SharedPart, queries: Mapping[int, QueryDefinition]) -> EmissionGroup | None:
        """Somebody has come or gone, or says how it came. Looked at are these; the others are where they were."""
        group = self._that_of_most(part)
        if group is None:
            if not any(query in queries for query in part.queries.tolist()):
                return None
            group = self._new_group(part)
        self._keep_begins(group, part.state.begins)
        come = np.setdiff1d(part.queries, group.queries, assume_unique=True).tolist()
        back = group.absent.intersection(part.queries.tolist()) if group.absent else ()
        looked_at = dict.fromkeys((*come, *sorted(back), *part.joined))
        for query in looked_at:
            joined = part.joined.get(query)
            if query in queries and not self._goes_on(query, group, joined):
                self._enter(query, group, joined or self.state(query) or queries[query].state)
        for query in np.setdiff1d(group.queries, part.queries, assume_unique=True).tolist():
            if self.is_in(query, group):
                self._leave(query)
        self._rows.update(group.be(part.queries))
        group.absent = {query for query in looked_at if not self.is_in(query, group)}
        return group if group.members else None

    def _keep_begins(self, group: EmissionGroup, begins: list[int | None]) -> None:
        """Those whose first closes are the group's have them for themselves, where those of the part are other ones:
        queries come to one network from several, and another runner may put them together in another way."""
        if own_begins(group.state.begins, begins) == begins:
            return
        for query in group.queries.tolist():
            if not self.is_in(query, group):
                continue
            state = self._states[query]
            if not state.begins or None in state.begins:
                mine = own_begins(state.begins, group.state.begins)
                self._states[query] = msgspec.structs.replace(state, begins=mine)
                self._dirty.add(query)

    def _that_of_most(self, part: SharedPart) -> EmissionGroup | None:
        """The first, the last and the one in the middle mostly say which it is."""
        some = part.queries[[0, len(part.queries) // 2, -1]].tolist()
        for asked in (some, part.queries.tolist()):
            counted = Counter(member.group for query in asked if (member := self._members.get(query)) is not None)
            for number, _ in counted.most_common(1):
                group = self._groups[number]
                common = len(np.intersect1d(group.queries, part.queries, assume_unique=True)) - len(group.absent)
                if 2 * common > group.members and group.reports == part.reports:
                    return group
        return None

    def _new_group(self, part: SharedPart) -> EmissionGroup:
        number = self._new_number()
        group = self._groups[number] = EmissionGroup(number, part.reports, part.state, 0)
        return group

    def _goes_on(self, query: int, group: EmissionGroup, joined: QueryState | None) -> bool:
        """Whether it is in the group already, and is not one that came anew."""
        if not self.is_in(query, group):
            return False
        state = self._state(query)
        return joined is None or (
            (joined.evaluated, joined.registered, joined.gap) == (state.evaluated, state.registered, state.gap)
        )

    def _enter(self, query: int, group: EmissionGroup, state: QueryState) -> None:
        if query in self._members:
            self._leave(query)
        last = self._numbers.get(query, 0)
        self._states[query] = state
        self._catching_up.discard(query)
        self._members[query] = GroupMembership(group.number, group.records + 1, last, state.gap)
        self._evaluations[query] -= group.evaluations
        group.members += 1
        self._dirty.add(query)
        self.moved = True

    def _leave(self, query: int) -> None:
        state, last, past = self._state(query), self.last(query), self.memberships(query)
        group = self._groups[self._members.pop(query).group]
        self._states[query], self._numbers[query] = state, last
        self._follow(query, state)
        if past:
            self._past[query] = past
        self._evaluations[query] += group.evaluations
        self._rows[query] += group.give_rows_of(query)
        group.members -= 1
        group.absent.add(query)
        self._dirty.add(query)
        self.moved = True

    # ---- what comes to an end ----------------------------------------------------------------------------------

    def drop(self, query: int) -> None:
        if query in self._members:
            self._leave(query)
        if self._states.pop(query, None) is not None:
            self._gone.add(query)
        self._catching_up.discard(query)
        self._numbers.pop(query, None)
        self._past.pop(query, None)
        del self._evaluations[query], self._rows[query]

    def collected(self, oldest: Callable[[int], int]) -> None:
        """`oldest`: the number of a group's oldest record that is kept. Groups without any are forgotten."""
        for number in [number for number, group in self._groups.items() if not group.members]:
            if oldest(number) > self._groups[number].records:
                del self._groups[number]
                self._catching_up.discard(number)
                self._dirty_groups.discard(number)
                self._gone.add(number)

    # ---- what is stored ----------------------------------------------------------------------------------------

    def unstored(self) -> dict[int, bytes | None]:
        """What differs from what is stored, as it is stored."""
        groups = ((number, self._groups[number]) for number in self._dirty_groups)
        return {
            **{query: self._body(query) for query in self._dirty if query in self._states},
            **{number: _TOGETHER + _encode(_Together(group.state, group.reports)) for number, group in groups},
            **dict.fromkeys(self._gone),
        }

    def _body(self, query: int) -> bytes:
        state, memberships = self._states[query], list(self._stored_memberships(query))
        if not memberships and query not in self._past:  # else the log does not know of all that it has said
            return _encode(state)
        return _STANDING + _encode(_Standing(state, memberships, self._numbers.get(query, 0)))

    def _stored_memberships(self, query: int) -> Iterator[GroupMembership]:
        yield from (each for each in self._past.get(query, ()) if each.group in self._groups)
        if (member := self._members.get(query)) is not None:
            yield member

    def stored(self) -> None:
        """What `unstored` said is stored now."""
        for query in self._dirty:
            if query in self._states and query not in self._members:
                self._kept[query] = self._states[query]
            else:
                self._kept.pop(query, None)
        for number in self._dirty_groups:
            self._groups[number].kept = self._groups[number].state
        for number in self._gone:
            self._kept.pop(number, None)
        self._dirty.clear()
        self._dirty_groups.clear()
        self._gone.clear()
        self.moved = False

    def as_stored(self, position: int) -> Stored:
        groups = [(group.queries, group.kept) for group in self._groups.values() if group.members]
        return Stored(position, dict(self._kept), groups, frozenset(self._members))
