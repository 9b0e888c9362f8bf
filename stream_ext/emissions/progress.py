"""Progress: the state and the last emission number of each registered query, by itself or as one of a group.

    query 7    emissions 1-4 are its own; from 5 on they are the records of group 9 from 120 on
    group 9    queries 3, 7, 8, ...; 131 records; the state that is the same for all of its queries

Queries that are evaluated together are a group. What changes with an evaluation is stored once, for the group; what a
query has for itself is stored when it joins or leaves. So an evaluation costs the same for any number of queries. When
queries join and leave at the same time, the group of most of them continues; this is a matter of cost alone.

A group without queries is retained as long as its records are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Protocol

import msgspec
import numpy as np
from msgspec.structs import replace

from stream_ext.catalog.catalog import QueryDefinition
from stream_ext.emissions.groups import (
    EmissionGroup,
    GroupMembership,
    GroupProgress,
    LeftGroup,
    OwnProgress,
    Stored,
    with_records,
)
from stream_ext.emissions.saved_windows import SAVED, Saves
from stream_ext.windows.part import Part
from stream_ext.windows.query_state import QueryState, own_begins

# Of a query without groups its state is stored, an array. The other records begin with a byte that begins no array.
_OWN, _GROUP = b"M", b"G"
_encode = msgspec.msgpack.Encoder().encode


class ProgressLog(Protocol):
    """What the progress needs of the emission log."""

    def last(self, query: int) -> int: ...
    def states(self) -> dict[int, bytes]: ...


class Progress:
    """Not thread-safe: the merge has the lock."""

    def __init__(self, log: ProgressLog, queries: Mapping[int, QueryDefinition], new_number: Callable[[], int]) -> None:
        """`new_number` returns a number that no query and no group has had."""
        self._new_number = new_number
        self._states: dict[int, QueryState] = {}  # of queries in a group: the state they joined with
        self._stored_states: dict[int, QueryState] = {}  # of queries in no group, as stored
        self._numbers: dict[int, int] = {}  # the last emission; not of queries in a group that reports
        self._members: dict[int, GroupMembership] = {}
        self._newest: GroupMembership | None = None  # that of the query that entered last
        self._left: LeftGroup | None = None  # what that became which left last
        self._past: dict[int, list[GroupMembership]] = {}
        self._groups: dict[int, EmissionGroup] = {}
        self._evaluations, self._rows = Counter[int](), Counter[int]()
        self._dirty: set[int] = set()
        self._dirty_groups: set[int] = set()
        self._gone: set[int] = set()
        self._catching_up: set[int] = set()  # queries in no group, and groups
        self.moved = False  # a query has joined or left a group: to be stored with the emissions
        self.saves = Saves()  # of windows that hold all
        self._read(log, queries)

    def _read(self, log: ProgressLog, queries: Mapping[int, QueryDefinition]) -> None:
        own: dict[int, OwnProgress] = {}
        decoded: dict[bytes, OwnProgress] = {}  # thousands have the same
        for number, body in log.states().items():
            if body[:1] == _GROUP:
                stored = msgspec.msgpack.decode(body[1:], type=GroupProgress)
                self._groups[number] = EmissionGroup(number, stored.reports, stored.state, log.last(number))
            elif body[:1] == SAVED:
                self.saves.read(number, body, queries)
            elif number not in queries:
                self._gone.add(number)
            elif body[:1] == _OWN:
                if body not in decoded:
                    decoded[body] = msgspec.msgpack.decode(body[1:], type=OwnProgress)
                own[number] = decoded[body]
            else:
                self._states[number] = self._stored_states[number] = msgspec.msgpack.decode(body, type=QueryState)
        self._numbers = {query: log.last(query) for query in queries}
        together: dict[int, list[int]] = {}
        before = {id(each): each.memberships[:-1] for each in decoded.values()}
        for query, progress in own.items():
            self._states[query] = progress.state
            self._numbers[query] = max(self._numbers[query], progress.last)
            latest = progress.memberships[-1] if progress.memberships else None
            if latest is not None and latest.until is None:
                self._members[query], self._past[query] = latest, before[id(progress)]
                together.setdefault(latest.group, []).append(query)
            else:
                self._past[query] = progress.memberships
                self._stored_states[query] = progress.state
        for query, state in self._stored_states.items():
            self._follow(query, state)
        for number, members in together.items():
            group = self._groups[number]
            self._follow(number, group.state)
            group.members = len(members)
            group.be(np.array(sorted(members), np.uint64))

    # ---- reading -----------------------------------------------------------------------------------------------

    def states(self) -> dict[int, QueryState]:
        return {query: self._state(query) for query in self._states}

    def waiting(self) -> Iterator[tuple[int, int]]:
        """The queries that wait for a remote endpoint, and the snapshot up to which each was stepped."""
        return (
            (query, state.behind_at)
            for query, state in self._states.items()
            if state.behind_at is not None and state.unanswered
        )

    def catching_up(self) -> dict[int, QueryState]:
        """The queries that are behind because too many evaluations fell due, with their states."""
        found: dict[int, QueryState] = {}
        for number in self._catching_up:
            if (group := self._groups.get(number)) is None:
                found[number] = self._states[number]
            else:
                found |= {query: self._state(query) for query in group.queries.tolist() if self.is_in(query, group)}
        return found

    def _follow(self, number: int, state: QueryState) -> None:
        """A query or group has this state now."""
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
        emitted = group.reports and group.records >= member.first
        return state.among(group.state, state.gap and not emitted)

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
            found.append(replace(member, until=group.records))
        return found

    def evaluations(self, query: int) -> int:
        """Since this process started."""
        member = self._members.get(query)
        return self._evaluations[query] + (0 if member is None else self._groups[member.group].evaluations)

    def stored_with(self, query: int) -> int:
        """With how many other queries its emissions are stored."""
        member = self._members.get(query)
        return 0 if member is None else self._groups[member.group].members - 1

    def rows(self, query: int) -> int:
        """Since this process started."""
        member = self._members.get(query)
        return self._rows[query] + (0 if member is None else self._groups[member.group].rows_of(query))

    # ---- new evaluations ---------------------------------------------------------------------------------------

    def by_itself(self, query: int, state: QueryState, evaluations: int) -> None:
        """A query in no group has this state now, after so many more evaluations."""
        if query in self._members:
            self._leave(query)
        self._states[query] = state
        self._follow(query, state)
        self._evaluations[query] += evaluations
        self._dirty.add(query)

    def count_emission(self, query: int, rows: int) -> int:
        """The number of the next emission of a query in no group."""
        self._rows[query] += rows
        number = self._numbers[query] = self._numbers.get(query, 0) + 1
        return number

    def count_silent_emission(self, query: int) -> tuple[int, bool]:
        """The number for a query in a group that does not report empty results; and whether it is the first since a
        pause."""
        state = self._states[query]
        if state.gap:
            self._states[query] = replace(state, gap=False)
            self._dirty.add(query)
        return self.count_emission(query, 0), state.gap

    def together(self, part: Part, queries: Mapping[int, QueryDefinition]) -> EmissionGroup | None:
        """The group of this part, updated; None: none of its queries exists any more."""
        group = self._same(part) or self._gathered(part, queries)
        if group is not None:
            group.state = part.state
            self._follow(group.number, group.state)
            group.evaluations += part.evaluations
            group.records += part.emits and part.evaluated
            group.count_rows(part)
            self._dirty_groups.add(group.number)
        return group

    def is_in(self, query: int, group: EmissionGroup) -> bool:
        member = self._members.get(query)
        return member is not None and member.group == group.number

    def _same(self, part: Part) -> EmissionGroup | None:
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

    def _gathered(self, part: Part, queries: Mapping[int, QueryDefinition]) -> EmissionGroup | None:
        """Queries have joined or left, or the part has their states. Only these are looked at."""
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
            if query in queries and not self._continues(query, group, joined):
                if query in self._members:
                    self._leave(query)  # so that its state is the object that others have, too
                self._enter(query, group, joined or self.state(query) or queries[query].state)
        for query in np.setdiff1d(group.queries, part.queries, assume_unique=True).tolist():
            if self.is_in(query, group):
                self._leave(query)
        self._rows.update(group.be(part.queries))
        group.absent = {query for query in looked_at if not self.is_in(query, group)}
        return group if group.members else None

    def _keep_begins(self, group: EmissionGroup, begins: list[int | None]) -> None:
        """Where the first closes of a part differ from those of the group, each query that had those stores them for
        itself: queries of several networks may come to one, and another runner may group them otherwise."""
        if own_begins(group.state.begins, begins) == begins:
            return
        replaced: dict[int, QueryState] = {}  # by the identity of the state before: thousands have one
        for query in group.queries.tolist():
            if not self.is_in(query, group):
                continue
            state = self._states[query]
            if not state.begins or None in state.begins:
                if id(state) not in replaced:
                    replaced[id(state)] = replace(state, begins=own_begins(state.begins, group.state.begins))
                self._states[query] = replaced[id(state)]
                self._dirty.add(query)

    def _that_of_most(self, part: Part) -> EmissionGroup | None:
        """The group that has most queries of the part; mostly the first, the last and the middle query are enough."""
        some = part.queries[[0, len(part.queries) // 2, -1]].tolist()
        for sample in (some, part.queries.tolist()):
            counted = Counter(member.group for query in sample if (member := self._members.get(query)) is not None)
            for number, _ in counted.most_common(1):
                group = self._groups[number]
                common = len(np.intersect1d(group.queries, part.queries, assume_unique=True)) - len(group.absent)
                if 2 * common > group.members and group.reports == part.emits:
                    return group
        return None

    def _new_group(self, part: Part) -> EmissionGroup:
        number = self._new_number()
        group = self._groups[number] = EmissionGroup(number, part.emits, part.state, 0)
        return group

    def _continues(self, query: int, group: EmissionGroup, joined: QueryState | None) -> bool:
        """Whether the query is in the group already, and has not joined anew."""
        if not self.is_in(query, group):
            return False
        state = self._state(query)
        return joined is None or (
            (joined.evaluated, joined.registered, joined.gap) == (state.evaluated, state.registered, state.gap)
        )

    def _enter(self, query: int, group: EmissionGroup, state: QueryState) -> None:
        last = self._numbers.get(query, 0)
        self._states[query] = state
        self._catching_up.discard(query)
        membership = GroupMembership(group.number, group.records + 1, last, state.gap)
        newest = self._newest  # one object for thousands that enter together
        self._members[query] = self._newest = newest if newest is not None and newest == membership else membership
        self._evaluations[query] -= group.evaluations
        group.members += 1
        self._dirty.add(query)
        self.moved = True

    def _leave(self, query: int) -> None:
        before = self._states[query], self._members[query], self._past.get(query)
        last, group, left = self.last(query), self._groups[before[1].group], self._left
        if left is None or not left.is_of(before, group):  # else one object for thousands that leave together
            state, past = self._state(query), self.memberships(query)
            left = self._left = LeftGroup(before, group.state, group.records, state, past)
        del self._members[query]
        self._states[query], self._numbers[query] = left.state, last
        self._follow(query, left.state)
        if left.past:
            self._past[query] = left.past
        self._evaluations[query] += group.evaluations
        self._rows[query] += group.give_rows_of(query)
        group.members -= 1
        group.absent.add(query)
        self._dirty.add(query)
        self.moved = True

    # ---- deleting ----------------------------------------------------------------------------------------------

    def drop(self, query: int) -> None:
        if query in self._members:
            self._leave(query)
        if self._states.pop(query, None) is not None:
            self._gone.add(query)
        self._catching_up.discard(query)
        self.saves.put(query, None)
        self._numbers.pop(query, None)
        self._past.pop(query, None)
        del self._evaluations[query], self._rows[query]

    def collected(self, oldest: Callable[[int], int]) -> None:
        """`oldest` returns the number of a group's oldest retained record. Groups without records are forgotten, and of
        the others the past memberships whose records are gone."""
        for number in [number for number, group in self._groups.items() if not group.members]:
            if oldest(number) > self._groups[number].records:
                del self._groups[number]
                self._catching_up.discard(number)
                self._dirty_groups.discard(number)
                self._gone.add(number)
        self._past = with_records(self._past, self._groups, oldest)

    # ---- storing -----------------------------------------------------------------------------------------------

    def unstored(self) -> dict[int, bytes | None]:
        """The records that differ from the stored ones, encoded; None: to be deleted."""
        groups = ((number, self._groups[number]) for number in self._dirty_groups)
        bodies: dict[bytes, bytes] = {}  # each once: they are held in memory
        own = ((query, self._body(query)) for query in self._dirty if query in self._states)
        return {
            **{query: bodies.setdefault(body, body) for query, body in own},
            **{number: _GROUP + _encode(GroupProgress(group.state, group.reports)) for number, group in groups},
            **self.saves.unstored(),
            **dict.fromkeys(self._gone),
        }

    def _body(self, query: int) -> bytes:
        state, memberships = self._states[query], list(self._stored_memberships(query))
        if not memberships and query not in self._past:  # else the log does not know all of its emissions
            return _encode(state)
        return _OWN + _encode(OwnProgress(state, memberships, self._numbers.get(query, 0)))

    def _stored_memberships(self, query: int) -> Iterator[GroupMembership]:
        yield from (each for each in self._past.get(query, ()) if each.group in self._groups)
        if (member := self._members.get(query)) is not None:
            yield member

    def stored(self) -> None:
        """The records of `unstored` are stored now."""
        for query in self._dirty:
            if query in self._states and query not in self._members:
                self._stored_states[query] = self._states[query]
            else:
                self._stored_states.pop(query, None)
        for number in self._dirty_groups:
            self._groups[number].stored_state = self._groups[number].state
        for number in self._gone:
            self._stored_states.pop(number, None)
        self._dirty.clear()
        self._dirty_groups.clear()
        self.saves.stored()
        self._gone.clear()
        self.moved = False

    def as_stored(self, position: int) -> Stored:
        groups = [(group.queries, group.stored_state) for group in self._groups.values() if group.members]
        return Stored(position, dict(self._stored_states), groups, frozenset(self._members))
