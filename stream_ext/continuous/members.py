"""A cohort: queries of one template that are evaluated at the same times, and so have one schedule.

An evaluation of a cohort is told once, as one `SharedPart`, whatever the number of its queries. What differs for ever
between them (the time that was reached at registration, the first closes, a gap) is kept here for each, and told when
a query is new. A query that is alone, and one that cannot be told with the others because its own run of quiet
evaluations is another, has a `Part` of its own."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import NamedTuple, Protocol

import msgspec
import numpy as np
import numpy.typing as npt

from stream_ext.continuous.steps import RUN_TOLD_SINGLY_MAX, Said, Steps, part_of
from stream_ext.windows.grids import Run
from stream_ext.windows.part import AnyPart, Ids, Part, SharedPart, WindowBounds
from stream_ext.windows.schedule import Due, LastEvaluation, QueryState, Schedule, Within, own_begins

_NONE = np.empty(0, np.uint64)
_NOWHERE = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class Joining:
    """A query that joins: the constants that are its own, and where it has come to."""

    number: int
    constants: tuple[bytes, ...]
    state: QueryState


class Member:
    """One of the queries. `begins` are its own first closes; empty: those of the schedule."""

    __slots__ = ("begins", "constants", "number", "registered", "row")

    def __init__(self, joining: Joining, row: int) -> None:
        self.number, self.row, self.constants = joining.number, row, joining.constants
        self.registered = joining.state.registered
        self.begins = joining.state.begins


@dataclass(frozen=True, slots=True)
class Evaluation:
    """One, or a run of them at each of which the same is said: after which push, the places of those who have rows, and
    these. `over_nothing`: all windows are empty, as they are in a run."""

    run: Run
    push: int
    whose: Ids = field(default_factory=lambda: _NONE)
    columns: Sequence[Ids] = ()
    over_nothing: bool = False
    is_run: bool = False


class Stand(NamedTuple):
    """Where a cohort stands: how many they are (who comes, comes behind them), what is the same for all of them, and
    who has said nothing since a pause."""

    members: int
    state: QueryState
    gaps: Set[int]


class HostRun(Protocol):
    """What a cohort asks of the run that it is in."""

    holds: bool | None
    repeats: bool
    empty_said: Said

    def bounds_at(self, time: int, arrived: bool = False) -> list[WindowBounds]: ...
    def portable(self, columns: list[Ids]) -> tuple[list[Ids], list[bytes]]: ...


class Cohort:
    """`entered`: the rows of its queries are in the network."""

    def __init__(self, schedule: Schedule, evaluated: LastEvaluation | None, run: HostRun) -> None:
        self.schedule, self.evaluated, self.run = schedule, evaluated, run
        self.entered = evaluated is not None
        self.members: dict[int, Member] = {}
        self.said: list[Evaluation] = []  # in this snapshot, and not told yet
        self.k = 0  # of the evaluations in this snapshot that are told
        self.went_on_silently = False
        self._gaps: set[int] = set()  # of those that have said nothing since they were paused
        self._joined: dict[int, QueryState] = {}  # the states of those that no part has told of yet

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

    def join_one_of(self, cohorts: list[Cohort]) -> Cohort:
        """Becomes a part of one that is alike, or one more of them; where its queries are now."""
        found = next((other for other in cohorts if other._likeness() == self._likeness()), None)
        if found is None:
            cohorts.append(self)
            return self
        found._take_over(self)
        return found

    def _likeness(self) -> tuple[object, ...]:
        """Equal for those that will be evaluated alike, and have the same windows still to begin."""
        begun = tuple(begin is None for begin in self.schedule.begins)
        return self.entered, self.evaluated, self.schedule.after, self.schedule.last, begun

    def _take_over(self, other: Cohort) -> None:
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

    @cached_property
    def queries(self) -> Ids:
        """Their numbers, ascending; the same array until somebody comes or goes."""
        return np.array(sorted(self.members), np.uint64)

    @cached_property
    def _place_of_row(self) -> npt.NDArray[np.int64]:
        rows = [self.members[number].row for number in self.queries.tolist()]
        places = np.full(max(rows) + 1, -1, np.int64)
        places[rows] = np.arange(len(rows))
        return places

    def _forget_places(self) -> None:
        self.__dict__.pop("queries", None)
        self.__dict__.pop("_place_of_row", None)

    def places(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Where in `queries` those with these rows of the relation are; -1 where they are in another cohort."""
        if not len(rows):
            return _NOWHERE
        known = self._place_of_row
        places = np.full(len(rows), -1, np.int64)
        here = rows < len(known)
        places[here] = known[rows[here]]
        return places

    # -- where they have come to ---------------------------------------------------------------------------------

    def _begun(self, member: Member) -> list[int | None]:
        return own_begins(member.begins, self.schedule.begins)

    def state(self, sn: int) -> QueryState:
        """What is the same for all of them."""
        at = self.schedule
        return QueryState(None, self.evaluated, None, at.t0, at.after, at.last, at.begins, sn)

    def state_of(self, number: int, sn: int) -> QueryState:
        return _own_state(self.members[number], self.state(sn), self._gaps)

    def stand(self, sn: int, underway: tuple[int, Within] | None = None) -> Stand:
        """`underway`: it is in the middle of the snapshot after this one."""
        state = self.state(sn)
        if underway is not None:
            later, within = underway
            state = msgspec.structs.replace(state, sn=later).behind(sn, msgspec.structs.replace(within, k=self.k))
        return Stand(len(self.members), state, frozenset(self._gaps))

    def joining(self, stand: Stand) -> list[Joining]:
        """Those who were there then, as they were, on their way to another network."""
        members = islice(self.members.values(), stand.members)
        return [Joining(each.number, each.constants, _own_state(each, stand.state, stand.gaps)) for each in members]

    def tell_gap(self, number: int) -> bool:
        if number not in self._gaps:
            return False
        self._gaps.discard(number)
        return True

    # -- what is said --------------------------------------------------------------------------------------------

    def parts(self, sn: int) -> list[AnyPart]:
        """All that this snapshot's evaluations say, which were not told."""
        said, self.said = self.said, []
        found: list[AnyPart] = []
        if said:
            places = range(len(self.members)) if len(self.members) == 1 else self._apart(said)
            before = self.evaluated
            last: LastEvaluation | None = None
            for place in places:
                alone = Alone(self, int(self.queries[place]), before)
                found += _stepped(Steps(alone, sn, self.k), [_of_one(self, each, place) for each in said])
                last = alone.evaluated
            if len(places) < len(self.members):
                together = Together(self, np.delete(self.queries, places) if len(places) else self.queries)
                found += _stepped(Steps(together, sn, self.k), [_of_many(self, each, places) for each in said])
                last = together.evaluated
            self.evaluated = last
            self.k += sum(each.run.count() for each in said)
        return found

    def end(self, sn: int) -> list[AnyPart]:
        """The snapshot is over; what is left to tell."""
        found = self.parts(sn)
        if self.went_on_silently:
            self.went_on_silently = False
            found.append(self.silent(sn, self.k, self.state(sn)))
        self.k = 0
        return found

    def pause(self, sn: int, push: int) -> list[AnyPart]:
        """In the middle of a snapshot, after an evaluation over windows that hold something: all is told by then."""
        found = self.parts(sn)
        return [*found, self.silent(sn, self.k, self.state(sn).behind(sn - 1, Within(push, self.k)))]

    def _apart(self, said: Sequence[Evaluation]) -> list[int]:
        """The places of those whose runs of quiet evaluations are not those of the others, where runs are told."""
        *_, reports = self.run.empty_said
        quiet = [each for each in said if each.over_nothing]
        # What RSTREAM says over empty windows is the same all through a snapshot.
        if not reports or self.run.repeats or sum(each.run.count() for each in quiet) <= RUN_TOLD_SINGLY_MAX:
            return []
        return [int(place) for place in np.unique(np.concatenate([each.whose for each in quiet]))]

    def silent(self, sn: int, k: int, state: QueryState) -> AnyPart:
        """Nothing is said, and it is kept how far the queries have come."""
        time = self.schedule.after or 0
        if len(self.members) == 1:
            (number,) = self.members
            self.told_alone(number)
            own = _own_state(self.members[number], state, self._gaps)
            return Part(number, sn, k, time, [], [], None, 0, None, own, False, evaluated=False)
        joined = self.newly_joined(self.queries)
        *_, reports = self.run.empty_said
        return SharedPart(
            self.queries, sn, k, time, [], _NONE, [], None, reports, 0, None, state, joined, evaluated=False
        )

    def told_alone(self, number: int) -> None:
        self._joined.pop(number, None)

    def newly_joined(self, queries: Ids) -> dict[int, QueryState]:
        """The states of those that no part has told of; asked once for each."""
        if not self._joined:
            return {}
        joined, self._joined = self._joined, {}
        if len(queries) == len(self.members):
            return joined
        told = set(queries.tolist())
        return {number: state for number, state in joined.items() if number in told}

    def has_said(self, queries: Ids, whose: Ids, reports: bool) -> None:
        if self._gaps:
            self._gaps.difference_update((queries if reports else queries[np.unique(whose)]).tolist())


def _own_state(member: Member, state: QueryState, gaps: Set[int]) -> QueryState:
    begins, gap = own_begins(member.begins, state.begins), member.number in gaps
    return msgspec.structs.replace(state, registered=member.registered, begins=begins, gap=gap)


class Alone:
    """A query of a cohort, told by itself."""

    def __init__(self, cohort: Cohort, number: int, evaluated: LastEvaluation | None) -> None:
        self._cohort, self.number, self.evaluated = cohort, number, evaluated
        self.repeats = cohort.run.repeats
        self.bounds_at, self.portable = cohort.run.bounds_at, cohort.run.portable

    def tell_gap(self) -> bool:
        return self._cohort.tell_gap(self.number)

    def state_after(self, evaluated: LastEvaluation) -> QueryState:
        self.evaluated = evaluated
        self._cohort.told_alone(self.number)
        return msgspec.structs.replace(self._cohort.state_of(self.number, evaluated.sn), evaluated=evaluated)

    def part(self, evaluated: LastEvaluation, said: Said) -> Part:
        return part_of(self, evaluated, said)


class Together:
    """Queries of a cohort, told as one. The first column of what they say has the places of those whose rows it is."""

    def __init__(self, cohort: Cohort, queries: Ids) -> None:
        self._cohort, self._queries = cohort, queries
        self.evaluated = cohort.evaluated
        self.repeats = cohort.run.repeats

    def part(self, evaluated: LastEvaluation, said: Said) -> SharedPart:
        cohort, (columns, _, _) = self._cohort, said
        *_, reports = cohort.run.empty_said
        whose, *own = columns
        own, made = cohort.run.portable(own) if len(whose) else (own, [])
        before, self.evaluated = self.evaluated, evaluated
        state = msgspec.structs.replace(cohort.state(evaluated.sn), evaluated=evaluated)
        cohort.has_said(self._queries, whose, reports)
        return SharedPart(
            self._queries, evaluated.sn, evaluated.k, evaluated.time, cohort.run.bounds_at(evaluated.time), whose, own,
            cohort.run.holds, reports, 0, None, state, cohort.newly_joined(self._queries), made, before,
        )  # fmt: skip


#: An evaluation, and what its queries say.
_Told = tuple[Evaluation, Said]


def _stepped(steps: Steps[Part] | Steps[SharedPart], told: Sequence[_Told]) -> Sequence[AnyPart]:
    for each, said in told:
        if each.is_run:
            steps.add_run(each.run, each.push, said)
        else:
            steps.add(Due(each.run.first, None), each.push, each.over_nothing, said)
    return steps.parts()


def _of_one(cohort: Cohort, each: Evaluation, place: int) -> _Told:
    low, high = each.whose.searchsorted([place, place + 1]).tolist()
    if low == high:
        return each, cohort.run.empty_said
    return each, ([column[low:high] for column in each.columns], cohort.run.holds, True)


def _of_many(cohort: Cohort, each: Evaluation, apart: Sequence[int]) -> _Told:
    """Without those that are told by themselves."""
    columns, _, reports = cohort.run.empty_said
    whose, columns = each.whose, list(each.columns) or columns
    if apart and len(whose):
        there = ~np.isin(whose, apart)
        kept = np.delete(np.arange(len(cohort.queries)), apart)
        whose = kept.searchsorted(whose[there].view(np.int64)).astype(np.uint64)
        columns = [column[there] for column in columns]
    return each, ([whose, *columns], None, reports or len(whose) > 0)
