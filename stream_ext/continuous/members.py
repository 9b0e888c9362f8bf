"""A cohort: queries of one template that are evaluated at the same times, and so have one schedule.

An evaluation of a cohort is emitted once, as one `SharedPart`, whatever the number of its queries. What differs for
ever between them (the time that was reached at registration, the first closes, a gap) is stored here for each query,
and emitted when the query is new. Two kinds of queries have a `Part` of their own: the only query of a cohort, and a
query whose run of quiet evaluations differs from that of the others."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple, Protocol

import msgspec
import numpy as np
import numpy.typing as npt

from stream_ext.computed_once import computed_once
from stream_ext.continuous.steps import RUN_EMITTED_SINGLY_MAX, Result, Steps, part_of
from stream_ext.windows.grids import Run
from stream_ext.windows.part import AnyPart, Ids, Part, SharedPart, WindowBounds
from stream_ext.windows.schedule import Due, LastEvaluation, QueryState, Schedule, Within, own_begins

_NONE = np.empty(0, np.uint64)
_NOWHERE = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class Joining:
    """A query that joins: its own constants, and its state."""

    number: int
    constants: tuple[bytes, ...]
    state: QueryState


class Member:
    """One query of a cohort. `begins` are its own first closes; empty: it has those of the schedule."""

    __slots__ = ("begins", "constants", "number", "registered", "row")

    def __init__(self, joining: Joining, row: int) -> None:
        self.number, self.row, self.constants = joining.number, row, joining.constants
        self.registered = joining.state.registered
        self.begins = joining.state.begins


@dataclass(frozen=True, slots=True)
class Evaluation:
    """One evaluation, or a run of evaluations that all have the same result.

    `push`: the push after which it was due. `whose`: for each row of `columns`, the place of its query.
    `over_nothing`: all windows are empty, as they are in a run."""

    run: Run
    push: int
    whose: Ids = field(default_factory=lambda: _NONE)
    columns: Sequence[Ids] = ()
    over_nothing: bool = False
    is_run: bool = False


class Stand(NamedTuple):
    """The position of a cohort: the number of its queries (a query that joins later is added at the end), the state
    that is the same for all of them, and the queries without an emission since their pause."""

    members: int
    state: QueryState
    gaps: Set[int]


class HostRun(Protocol):
    """What a cohort needs of the run that it belongs to."""

    boolean: bool | None
    repeats: bool
    empty_result: Result

    def bounds_at(self, time: int, arrived: bool = False) -> list[WindowBounds]: ...
    def portable(self, columns: list[Ids]) -> tuple[list[Ids], list[bytes]]: ...


class Members:
    """The queries of a cohort. `entered`: their rows are in the network."""

    def __init__(self, schedule: Schedule, evaluated: LastEvaluation | None, run: HostRun) -> None:
        self.schedule, self.evaluated, self.run = schedule, evaluated, run
        self.entered = evaluated is not None
        self.members: dict[int, Member] = {}
        self.pending: list[Evaluation] = []  # evaluations of this snapshot that are not emitted yet
        self.k = 0  # the number of evaluations of this snapshot that are emitted
        self.went_on_silently = False
        self._gaps: set[int] = set()  # queries without an emission since they were paused
        self._joined: dict[int, QueryState] = {}  # the states of queries that no part has contained yet

    # -- who is in it --------------------------------------------------------------------------------------------

    def add(self, member: Member, state: QueryState) -> None:
        self.members[member.number] = self._joined_member(member)
        self._joined[member.number] = state
        if state.gap:
            self._gaps.add(member.number)
        self._forget_places()

    def remove(self, number: int) -> Member:
        self._joined.pop(number, None)
        self._gaps.discard(number)
        self._forget_places()
        return self.members.pop(number)

    def join_one_of(self, cohorts: list[Members]) -> Members:
        """Merges with a cohort that is alike, or is added to `cohorts`; returns the cohort that has the queries now."""
        found = next((other for other in cohorts if other._likeness() == self._likeness()), None)
        if found is None:
            cohorts.append(self)
            return self
        found._take_over(self)
        return found

    def _likeness(self) -> tuple[object, ...]:
        """Equal for cohorts whose next evaluations are the same, and whose windows have begun or not in the same
        way."""
        begun = tuple(begin is None for begin in self.schedule.begins)
        return self.entered, self.evaluated, self.schedule.after, self.schedule.last, begun

    def _take_over(self, other: Members) -> None:
        for member in other.members.values():
            member.begins = other._begun(member)
            self.members[member.number] = self._joined_member(member)
        self._gaps |= other._gaps
        self._joined |= other._joined
        self._forget_places()

    def _joined_member(self, member: Member) -> Member:
        if member.begins == self.schedule.begins:
            member.begins = []
        return member

    @computed_once
    def queries(self) -> Ids:
        """The numbers of the queries, ascending; the same array until a query joins or leaves."""
        return np.array(sorted(self.members), np.uint64)

    @computed_once
    def _place_of_row(self) -> npt.NDArray[np.int64]:
        rows = [self.members[number].row for number in self.queries.tolist()]
        places = np.full(max(rows) + 1, -1, np.int64)
        places[rows] = np.arange(len(rows))
        return places

    def _forget_places(self) -> None:
        self.__dict__.pop("queries", None)
        self.__dict__.pop("_place_of_row", None)

    def places(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The places in `queries` of the queries with these rows of the relation; -1 for a query of another cohort."""
        if not len(rows):
            return _NOWHERE
        known = self._place_of_row
        places = np.full(len(rows), -1, np.int64)
        here = rows < len(known)
        places[here] = known[rows[here]]
        return places

    # -- the states of the queries -------------------------------------------------------------------------------

    def _begun(self, member: Member) -> list[int | None]:
        return own_begins(member.begins, self.schedule.begins)

    def state(self, sn: int) -> QueryState:
        """The state that is the same for all queries."""
        at = self.schedule
        return QueryState(None, self.evaluated, None, at.t0, at.after, at.last, at.begins, sn)

    def state_of(self, number: int, sn: int) -> QueryState:
        return _own_state(self.members[number], self.state(sn), self._gaps)

    def stand(self, sn: int, underway: tuple[int, Within] | None = None) -> Stand:
        """`underway`: the cohort is in the middle of the snapshot after `sn`."""
        state = self.state(sn)
        if underway is not None:
            later, within = underway
            state = msgspec.structs.replace(state, sn=later).behind(sn, msgspec.structs.replace(within, k=self.k))
        return Stand(len(self.members), state, frozenset(self._gaps))

    def joining(self, stand: Stand) -> list[Joining]:
        """The queries of that time with their states of that time, for another network."""
        members = islice(self.members.values(), stand.members)
        return [Joining(each.number, each.constants, _own_state(each, stand.state, stand.gaps)) for each in members]

    def take_gap(self, number: int) -> bool:
        if number not in self._gaps:
            return False
        self._gaps.discard(number)
        return True

    # -- parts ---------------------------------------------------------------------------------------------------

    def parts(self, sn: int) -> list[AnyPart]:
        """The parts of all evaluations of this snapshot that are not emitted yet."""
        pending, self.pending = self.pending, []
        found: list[AnyPart] = []
        if pending:
            places = range(len(self.members)) if len(self.members) == 1 else self._apart(pending)
            before = self.evaluated
            last: LastEvaluation | None = None
            for place in places:
                single = SingleMember(self, int(self.queries[place]), before)
                found += _stepped(Steps(single, sn, self.k), [_of_one(self, each, place) for each in pending])
                last = single.evaluated
            if len(places) < len(self.members):
                together = Together(self, np.delete(self.queries, places) if len(places) else self.queries)
                found += _stepped(Steps(together, sn, self.k), [_of_many(self, each, places) for each in pending])
                last = together.evaluated
            self.evaluated = last
            self.k += sum(each.run.count() for each in pending)
        return found

    def end(self, sn: int) -> list[AnyPart]:
        """Ends the snapshot; returns the remaining parts."""
        found = self.parts(sn)
        if self.went_on_silently:
            self.went_on_silently = False
            found.append(self.silent(sn, self.k, self.state(sn)))
        self.k = 0
        return found

    def pause(self, sn: int, push: int) -> list[AnyPart]:
        """Stops in the middle of a snapshot, after an evaluation over windows that are not empty: all is emitted by
        then."""
        found = self.parts(sn)
        return [*found, self.silent(sn, self.k, self.state(sn).behind(sn - 1, Within(push, self.k)))]

    def _apart(self, pending: Sequence[Evaluation]) -> list[int]:
        """Where runs are emitted: the places of the queries whose runs of quiet evaluations differ from those of the
        others."""
        *_, reports = self.run.empty_result
        quiet = [each for each in pending if each.over_nothing]
        # The result of RSTREAM over empty windows is the same all through a snapshot.
        if not reports or self.run.repeats or sum(each.run.count() for each in quiet) <= RUN_EMITTED_SINGLY_MAX:
            return []
        return [int(place) for place in np.unique(np.concatenate([each.whose for each in quiet]))]

    def silent(self, sn: int, k: int, state: QueryState) -> AnyPart:
        """A part without a result, which stores the progress of the queries."""
        time = self.schedule.after or 0
        if len(self.members) == 1:
            (number,) = self.members
            self.emitted_singly(number)
            own = _own_state(self.members[number], state, self._gaps)
            return Part(number, sn, k, time, [], [], None, 0, None, own, False, evaluated=False)
        joined = self.newly_joined(self.queries)
        *_, reports = self.run.empty_result
        return SharedPart(
            self.queries, sn, k, time, [], _NONE, [], None, reports, 0, None, state, joined, evaluated=False
        )

    def emitted_singly(self, number: int) -> None:
        self._joined.pop(number, None)

    def newly_joined(self, queries: Ids) -> dict[int, QueryState]:
        """The states of the queries that no part has contained; each is returned once."""
        if not self._joined:
            return {}
        joined, self._joined = self._joined, {}
        if len(queries) == len(self.members):
            return joined
        emitted = set(queries.tolist())
        return {number: state for number, state in joined.items() if number in emitted}

    def note_emitted(self, queries: Ids, whose: Ids, reports: bool) -> None:
        if self._gaps:
            self._gaps.difference_update((queries if reports else queries[np.unique(whose)]).tolist())


def _own_state(member: Member, state: QueryState, gaps: Set[int]) -> QueryState:
    begins, gap = own_begins(member.begins, state.begins), member.number in gaps
    return msgspec.structs.replace(state, registered=member.registered, begins=begins, gap=gap)


class SingleMember:
    """One query of a cohort, emitted in parts of its own."""

    def __init__(self, cohort: Members, number: int, evaluated: LastEvaluation | None) -> None:
        self._cohort, self.number, self.evaluated = cohort, number, evaluated
        self.repeats = cohort.run.repeats
        self.bounds_at, self.portable = cohort.run.bounds_at, cohort.run.portable

    def take_gap(self) -> bool:
        return self._cohort.take_gap(self.number)

    def state_after(self, evaluated: LastEvaluation) -> QueryState:
        self.evaluated = evaluated
        self._cohort.emitted_singly(self.number)
        return msgspec.structs.replace(self._cohort.state_of(self.number, evaluated.sn), evaluated=evaluated)

    def part(self, evaluated: LastEvaluation, result: Result) -> Part:
        return part_of(self, evaluated, result)


class Together:
    """Queries of a cohort that are emitted in one part. The first column of a result has the places of the rows'
    queries."""

    def __init__(self, cohort: Members, queries: Ids) -> None:
        self._cohort, self._queries = cohort, queries
        self.evaluated = cohort.evaluated
        self.repeats = cohort.run.repeats

    def part(self, evaluated: LastEvaluation, result: Result) -> SharedPart:
        cohort, (columns, _, _) = self._cohort, result
        *_, reports = cohort.run.empty_result
        whose, *own = columns
        own, created = cohort.run.portable(own) if len(whose) else (own, [])
        before, self.evaluated = self.evaluated, evaluated
        state = msgspec.structs.replace(cohort.state(evaluated.sn), evaluated=evaluated)
        cohort.note_emitted(self._queries, whose, reports)
        return SharedPart(
            self._queries, evaluated.sn, evaluated.k, evaluated.time, cohort.run.bounds_at(evaluated.time), whose, own,
            cohort.run.boolean, reports, 0, None, state, cohort.newly_joined(self._queries), created, before,
        )  # fmt: skip


#: An evaluation, and its result.
_Emitted = tuple[Evaluation, Result]


def _stepped(steps: Steps[Part] | Steps[SharedPart], emitted: Sequence[_Emitted]) -> Sequence[AnyPart]:
    for each, result in emitted:
        if each.is_run:
            steps.add_run(each.run, each.push, result)
        else:
            steps.add(Due(each.run.first, None), each.push, each.over_nothing, result)
    return steps.parts()


def _of_one(cohort: Members, each: Evaluation, place: int) -> _Emitted:
    low, high = each.whose.searchsorted([place, place + 1]).tolist()
    if low == high:
        return each, cohort.run.empty_result
    return each, ([column[low:high] for column in each.columns], cohort.run.boolean, True)


def _of_many(cohort: Members, each: Evaluation, apart: Sequence[int]) -> _Emitted:
    """The result without the rows of queries that have parts of their own."""
    columns, _, reports = cohort.run.empty_result
    whose, columns = each.whose, list(each.columns) or columns
    if apart and len(whose):
        there = ~np.isin(whose, apart)
        remaining = np.delete(np.arange(len(cohort.queries)), apart)
        whose = remaining.searchsorted(whose[there].view(np.int64)).astype(np.uint64)
        columns = [column[there] for column in columns]
    return each, ([whose, *columns], None, reports or len(whose) > 0)
