"""The queries of a shard that are behind its other queries, and how they catch up.

    a remote endpoint did not answer          the query waits until there may be an answer
    the query is in quarantine                it waits until the quarantine ends
    too many evaluations fell due             it is evaluated by turns, a piece at a time
    it has a long past, or has missed much    other processes evaluate it, and what they find is handed on by turns
    the query came from another runner        it continues from the state that this runner left
    the query takes too much of the time      it is evaluated by turns, and stays here until it is released

The position of such a query is a snapshot, or a place in the middle of the next one. A shard of its own steps it from
there; when that shard has reached the snapshot of the others, its runs become runs of the main shard again."""

from __future__ import annotations

import time
from collections.abc import Hashable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from hbase_store.errors import SnapshotGone
from stream_ext.catalog.catalog import QueryDefinition
from stream_ext.continuous.catching_up.turns import Turn
from stream_ext.continuous.catching_up.unit_behind import (
    Replay,
    UnitBehind,
    begin_again,
    begin_if_much,
    replay_of_past,
    take_replayed,
)
from stream_ext.continuous.faults import CAUGHT_UP_LATER, SLOWED
from stream_ext.continuous.run_plan import PlannedQuery
from stream_ext.continuous.steps import AFTER_ALL
from stream_ext.windows.part import Part
from stream_ext.windows.query_state import QueryState

if TYPE_CHECKING:
    from stream_ext.continuous.run import Run
    from stream_ext.continuous.shard import Shard

#: Of the units that are behind, at most so many have their windows in memory.
_CATCHING_UP_MAX = 64
_IN_QUARANTINE = "Quarantine: its step may have killed a worker; it is tried in a process of its own"


class QueriesBehind:
    def __init__(self, shard: Shard) -> None:
        self._shard = shard
        self._units: dict[int, UnitBehind] = {}

    def __contains__(self, number: int) -> bool:
        return number in self._units

    @property
    def positions(self) -> dict[int, int]:
        """The snapshot up to which each query was stepped."""
        return {number: unit.sn for number, unit in self._units.items()}

    @property
    def units(self) -> list[UnitBehind]:
        return list(dict.fromkeys(self._units.values()))

    def unit_of(self, number: int) -> UnitBehind | None:
        """Any thread may call."""
        return self._units.get(number)

    def forget(self, number: int) -> UnitBehind | None:
        """The query is not behind any more, or for another reason; returns its unit."""
        unit = self._units.pop(number, None)
        if unit is not None:
            unit.numbers.discard(number)
            unit.states.pop(number, None)
            unit.end_replay()  # it has no other query
            if unit.own_shard is not None:
                unit.own_shard.runs.end(number)
        return unit

    # ---- queries that fall behind

    def wait(self, number: int, sn: int, state: QueryState | None, later: tuple[Hashable, ...] = ()) -> None:
        """`state`: the state at `sn`; None: the query begins in the snapshot after `sn`."""
        self._units[number] = UnitBehind({number}, sn, {number: state}, True, later)

    def set_aside(self, number: int, sn: int, state: QueryState | None) -> None:
        """For a query that is suspended. Within seconds it continues, or is parked."""
        self._shard.forget_fault(number)
        self._shard.faults[number] = _IN_QUARANTINE
        self.wait(number, sn, state)
        self._shard.report_position(number, sn, state)

    def stay(self, states: Mapping[int, QueryState]) -> None:
        """Queries that may share a run stay where they were when their states were last emitted."""
        shard, state = self._shard, next(iter(states.values()))
        assert state.behind_at is not None, "a query that is behind has a position"
        own: dict[int, QueryState | None] = {}
        is_suspended = any(number in shard.suspended for number in states)
        for number, each in states.items():
            begins = state.behind_at < shard.catalog.queries[number].since
            own[number] = None if begins and each.within is None else each
            if is_suspended:
                shard.faults[number] = _IN_QUARANTINE
            elif state.unanswered:
                why = f"ServiceFailed: an endpoint did not answer in snapshot {state.behind_at + 1}"
                shard.faults[number] = f"{why}; {CAUGHT_UP_LATER}"
        unit = UnitBehind(set(states), state.behind_at, own, state.unanswered or is_suspended)
        self._units |= dict.fromkeys(states, unit)
        begin_again(shard, unit)

    def separate_runs_underway(self, in_step: bool) -> None:
        """Separates the runs that did not get through a snapshot: the next one (`in_step`), else the one they began
        in."""
        shard = self._shard
        for run in shard.runs.underway:
            numbers = set(run.numbers)
            own_shard = shard.restricted_to(numbers)
            own_shard.sn, own_shard.catalog, own_shard.in_step = shard.sn, shard.catalog, in_step
            own_shard.runs.take_in(shard.runs, [run])
            unit = UnitBehind(numbers, own_shard.position, {}, own_shard=own_shard)
            self._units |= dict.fromkeys(numbers, unit)

    def return_to(self, states: Mapping[int, QueryState]) -> None:
        """These queries return to these states, wherever they are here: nobody has what they emitted after that."""
        shard, units = self._shard, dict[object, dict[int, QueryState]]()
        for number, state in states.items():
            definition = shard.catalog.queries.get(number)
            if definition is None or not shard.is_assigned(definition) or not state.is_catching_up:
                continue
            shard.runs.end(number)
            shard.forget_fault(number)
            planned = shard.guarded((number,), partial(shard.read, definition, state, shard.catalog))
            if planned is not None and planned.state.behind_at is not None:
                units.setdefault((planned.key or number, planned.place), {})[number] = planned.state
        for alike in units.values():
            self.stay(alike)

    def slow(self, run: Run, why: str) -> None:
        """Separates a run that is at the snapshot of the others, until it is released."""
        shard, numbers = self._shard, set(run.numbers)
        own_shard = shard.restricted_to(numbers)
        own_shard.sn, own_shard.catalog = shard.sn, shard.catalog
        own_shard.runs.take_in(shard.runs, [run])
        unit = UnitBehind(numbers, shard.sn, {}, own_shard=own_shard, slowed=SLOWED + why)
        self._units |= dict.fromkeys(numbers, unit)
        shard.faults |= dict.fromkeys(numbers, unit.slowed)
        shard.send_later(*run.silent_parts(shard.sn, shard.sn))

    # ---- queries that others replay

    def replays(self, planned: PlannedQuery, sn: int) -> bool:
        """Whether other processes replay the past of a query that begins in snapshot `sn`."""
        if (replay := replay_of_past(self._shard, planned, sn)) is None:
            return False
        number = planned.number
        self._units[number] = UnitBehind({number}, sn - 1, {number: None}, replay=replay)
        state = self._shard.since_it_runs(number, planned.state.behind(sn - 1))
        self._shard.send_later(Part.silent(number, sn, 0, state))
        return True

    def _take_replayed(self, unit: UnitBehind, replay: Replay) -> Sequence[Part] | None:
        shard, (number,) = self._shard, unit.numbers
        parts = take_replayed(shard, unit, replay)
        state = unit.states[number]
        if parts is not None and state is not None and state.behind_at is None:  # it has ended
            unit.end_replay()
            del self._units[number]
            shard.go_on_with(shard.catalog.queries[number], state)
        return parts

    def end_replays(self) -> None:
        """Nobody steps these queries any more."""
        for unit in self.units:
            unit.end_replay()

    @property
    def runs(self) -> list[Run]:
        """Those that have their windows in memory."""
        return [run for unit in self.units if unit.own_shard is not None for run in unit.own_shard.runs.all]

    @property
    def slowed(self) -> dict[int, list[int]]:
        """The queries of each unit that is slowed, by the first of them."""
        return {min(unit.numbers): sorted(unit.numbers) for unit in self.units if unit.slowed}

    def release(self, number: int) -> None:
        """The queries of this unit return to the others when they have reached them."""
        self._units[number].slowed = ""

    # ---- how they catch up

    @property
    def has_more(self) -> bool:
        return bool(self._units) and any(map(self._is_ready, self.units))

    def _is_ready(self, unit: UnitBehind) -> bool:
        if unit.replay is not None:
            return unit.replay.has_more
        waits = unit.unanswered or self._is_suspended(unit)
        return not waits and (unit.sn < self._shard.sn or not unit.is_up_to_date)

    def _is_suspended(self, unit: UnitBehind) -> bool:
        return any(number in self._shard.suspended for number in unit.numbers)

    def step_one(self) -> list[Part]:
        """The next turn of one unit."""
        ready = [unit for unit in self.units if self._is_ready(unit)]
        begun = [unit for unit in ready if unit.own_shard is not None]
        if len(begun) >= _CATCHING_UP_MAX:
            ready = begun
        if not ready:
            return []
        unit = ready[0]
        parts = list(self._guarded(unit))
        for number in sorted(unit.numbers & self._units.keys()):  # the next turn is that of another unit
            self._units[number] = self._units.pop(number)
        return parts

    def ask_again(self) -> list[Part]:
        """Steps the units that waited, and have no reason to wait any more."""
        parts: list[Part] = []
        for unit in [unit for unit in self.units if unit.unanswered]:
            if not self._is_suspended(unit) and self._shard.backoff.why_not(*unit.later) is None:
                parts += self._guarded(unit)
        return parts

    def _guarded(self, unit: UnitBehind) -> Sequence[Part]:
        return self._shard.guarded(tuple(unit.numbers), partial(self._make_up, unit)) or []

    def _make_up(self, unit: UnitBehind) -> Sequence[Part]:
        """Evaluates what the queries of a unit have missed, as far as their turn goes."""
        shard, own_shard, parts = self._shard, unit.own_shard, list[Part]()
        if unit.sn < shard.store.oldest():
            return self._begin_all_from_here(unit)
        if unit.replay is not None and (replayed := self._take_replayed(unit, unit.replay)) is not None:
            return replayed
        turn, began_s = shard.pace.behind(shard.interrupted), time.thread_time()
        try:
            if own_shard is None:
                own_shard = self._own_shard_again(unit)
            parts += _advanced_to(own_shard, shard.sn, turn)
        except SnapshotGone:  # the snapshot was deleted meanwhile
            return [*parts, *self._begin_all_from_here(unit)]
        unit.own_turns.add(time.thread_time() - began_s, turn.made)
        for number in sorted(own_shard.faults.keys() & unit.numbers):
            self._take_fault(number, own_shard)
        shard.send_later(*own_shard.take_unsent())
        return [*parts, *self._end_turn(unit, own_shard)]

    def _end_turn(self, unit: UnitBehind, own_shard: Shard) -> Sequence[Part]:
        """Parts with the new positions; queries that have caught up return to the runs of the main shard."""
        shard = self._shard
        for number in unit.numbers - own_shard.runs.of.keys():  # they have ended
            if self._units.get(number) is unit:
                shard.forget_fault(number)
        if not own_shard.runs.of:
            return []
        unit.own_shard, unit.unanswered, unit.later, unit.sn = own_shard, False, (), own_shard.position
        for number in unit.numbers:
            shard.faults.pop(number, None)
        if unit.slowed:
            shard.faults |= dict.fromkeys(unit.numbers, unit.slowed)
        if own_shard.runs.underway:
            begin_if_much(shard, unit)
            return []  # their parts contain their positions
        caught_up = own_shard.sn == shard.sn and not unit.slowed
        parts = [
            part
            for run in own_shard.runs.all
            for part in run.silent_parts(own_shard.sn, None if caught_up else own_shard.sn)
        ]
        if caught_up:
            for number in unit.numbers:
                del self._units[number]
            shard.runs.take_in(own_shard.runs, list(own_shard.runs.all))
        else:
            begin_if_much(shard, unit)
        return parts

    def _own_shard_again(self, unit: UnitBehind) -> Shard:
        """A shard of these queries at their positions."""
        queries = self._shard.catalog.queries
        # A query that begins after that was resumed: its state is that of the time before.
        begin = any(state is None or unit.sn < queries[number].since for number, state in unit.states.items())
        own_shard = self._shard.restricted_to(unit.numbers, unit.sn if begin else -1)
        known = {
            number: msgspec.structs.replace(state, behind_at=None, unanswered=False)
            for number, state in unit.states.items()
            if state is not None
        }
        own_shard.build({} if begin else known, unit.sn)
        own_shard.resumes = known if begin else {}
        return own_shard

    def _take_fault(self, number: int, own_shard: Shard) -> None:
        shard = self._shard
        shard.forget_fault(number)
        shard.faults[number] = own_shard.faults.pop(number)
        if number in own_shard.all_behind:
            self._units[number] = own_shard.all_behind._units.pop(number)
        else:
            shard.give_up(number)

    def _begin_all_from_here(self, unit: UnitBehind) -> Sequence[Part]:
        shard, parts = self._shard, list[Part]()
        for number in sorted(unit.numbers):
            definition = shard.catalog.queries[number]
            run = None if unit.own_shard is None else unit.own_shard.runs.of.get(number)
            state = (run.state_of(number) if run else unit.states.get(number)) or definition.state
            shard.forget_fault(number)
            parts += shard.begin_from_here(definition, state)
        return parts

    # ---- queries that come from another runner

    def take_over(self, definition: QueryDefinition, sn: int) -> Sequence[Part]:
        """Steps a query that was moved here, from the position where the other runner left it to `sn`.

        The query may have been behind at the other runner: its parts up to `sn` count if that runner has not emitted
        them. It may fall behind here, too."""
        shard, left, number = self._shard, definition.left, definition.number
        assert left is not None, "it was moved"
        if left.state.behind_at is not None or number in shard.suspended:
            state = (
                left.state if left.state.behind_at is not None else left.state.behind(left.position, unanswered=True)
            )
            self.stay({number: state})
            return [self._position_after_move(number, state)]
        try:
            own_shard = self._own_shard_again(UnitBehind({number}, left.position, {number: left.state}))
            parts = _advanced_to(own_shard, sn, shard.pace.with_all(shard.interrupted))
        except SnapshotGone:
            return shard.begin_from_here(definition, left.state)
        evaluated = [part for part in parts if part.evaluated]
        emitted = [msgspec.structs.replace(part, after_move=True) for part in evaluated]
        run = own_shard.runs.of.get(number)
        if number in own_shard.faults:
            self._take_fault(number, own_shard)
            if (unit := self._units.get(number)) is not None:
                reached = unit.states[number] or definition.state
                emitted.append(
                    self._position_after_move(number, reached.behind(unit.sn, reached.within, unanswered=True))
                )
        elif run is not None:
            state = run.query_state(own_shard.sn)
            if own_shard.sn < sn or run.is_underway:
                state = state if state.behind_at is not None else state.behind(own_shard.position)
                self._units[number] = UnitBehind({number}, own_shard.position, {number: state}, own_shard=own_shard)
            else:
                shard.go_on_with(definition, state)
            emitted.append(self._position_after_move(number, state))
        return emitted

    def _position_after_move(self, number: int, state: QueryState) -> Part:
        """A part with the state of a query here, after the snapshot in which the query was moved."""
        shard = self._shard
        current = shard.since_it_runs(number, state)
        return msgspec.structs.replace(Part.silent(number, shard.sn, AFTER_ALL, current), after_move=True)


def _advanced_to(own_shard: Shard, sn: int, turn: Turn) -> list[Part]:
    """Steps to `sn` as far as the turn goes; the rest is left to the next turn."""
    parts: list[Part] = []
    while (
        (own_shard.sn < sn or own_shard.runs.underway)
        and not own_shard.faults
        and not (turn.is_over and own_shard.runs.of)
    ):
        parts += own_shard.advance(turn)
    return parts
