"""Those of a shard that are behind its others, and how they come on.

    nobody answered whom they ask elsewhere   they wait until there may be an answer
    they are in quarantine                    they wait until they are held no more
    so much fell due                          they go on by turns, a piece at a time
    they came from another runner             as that one has left them, and through what was missed meanwhile

Each stands at a snapshot, or in the middle of the next one. What it misses is made up for by a shard of its own, which
steps from there; when that one has come to where the others are, its runs are theirs again."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from hbase_store.errors import SnapshotGone
from stream_ext.catalog.catalog import QueryDefinition
from stream_ext.continuous.runs import silent_parts, state_of
from stream_ext.continuous.steps import AFTER_ALL, silent_part
from stream_ext.continuous.turns import Turn
from stream_ext.windows.part import AnyPart, Part
from stream_ext.windows.schedule import QueryState

if TYPE_CHECKING:
    from stream_ext.continuous.shard import Shard

#: So many of those that are behind have their windows in memory, where more are behind.
_CATCHING_UP_MAX = 64
MADE_UP = "what it misses is made up for when there is an answer (resuming the query leaves it out)"
_IN_QUARANTINE = "Quarantine: its step may have killed a worker; it is tried in a process of its own"


@dataclass(slots=True, eq=False)
class UnitBehind:
    """Queries that were stepped up to snapshot `sn`, and of the next one as far as their `states` say (None: they begin
    in it). `alone`: a shard of these, once they are stepped again.

    `unanswered`: they wait until nothing speaks against asking for `later`, and they are held no more; else they go on
    by turns."""

    numbers: set[int]
    sn: int
    states: dict[int, QueryState | None]
    unanswered: bool = False
    later: tuple[Hashable, ...] = ()
    alone: Shard | None = None


class QueriesBehind:
    def __init__(self, shard: Shard) -> None:
        self._shard = shard
        self._units: dict[int, UnitBehind] = {}

    def __contains__(self, number: int) -> bool:
        return number in self._units

    @property
    def stand(self) -> dict[int, int]:
        """The snapshot at which each of them stands."""
        return {number: unit.sn for number, unit in self._units.items()}

    @property
    def units(self) -> list[UnitBehind]:
        return list(dict.fromkeys(self._units.values()))

    def forget(self, number: int) -> UnitBehind | None:
        """It is behind no more, or in another way; the unit that it was of."""
        unit = self._units.pop(number, None)
        if unit is not None:
            unit.numbers.discard(number)
            if unit.alone is not None:
                unit.alone.runs.end(number)
        return unit

    # ---- who falls behind

    def wait(self, number: int, sn: int, state: QueryState | None, later: tuple[Hashable, ...] = ()) -> None:
        """`state`: that at `sn`; None: in the snapshot after it the query begins."""
        self._units[number] = UnitBehind({number}, sn, {number: state}, True, later)

    def set_aside(self, number: int, sn: int, state: QueryState | None) -> None:
        """Of one that is held. It is a matter of seconds until it goes on, or is parked."""
        self._shard.forget_fault(number)
        self._shard.faults[number] = _IN_QUARANTINE
        self.wait(number, sn, state)
        self._shard.say_where(number, sn, state)

    def stay(self, states: Mapping[int, QueryState]) -> None:
        """As they were when that was told last: queries that may share a run."""
        shard, state = self._shard, next(iter(states.values()))
        assert state.behind_at is not None, "it stands somewhere"
        own: dict[int, QueryState | None] = {}
        is_held = any(number in shard.held for number in states)
        for number, each in states.items():
            begins = state.behind_at < shard.catalog.queries[number].since
            own[number] = None if begins and each.within is None else each
            if is_held:
                shard.faults[number] = _IN_QUARANTINE
            elif state.unanswered:
                why = f"ServiceFailed: an endpoint did not answer in snapshot {state.behind_at + 1}"
                shard.faults[number] = f"{why}; {MADE_UP}"
        unit = UnitBehind(set(states), state.behind_at, own, state.unanswered or is_held)
        self._units |= dict.fromkeys(states, unit)

    def part_from_those_underway(self, in_step: bool) -> None:
        """Those that did not get through the next snapshot; else, through the one that they began in, which is this."""
        shard = self._shard
        for run in shard.runs.underway:
            numbers = set(run.numbers)
            alone = shard.of_these(numbers)
            alone.sn, alone.catalog, alone.in_step = shard.sn, shard.catalog, in_step
            alone.runs.take_in(shard.runs, [run])
            unit = UnitBehind(numbers, alone.stands, {}, alone=alone)
            self._units |= dict.fromkeys(numbers, unit)

    def return_to(self, states: Mapping[int, QueryState]) -> None:
        """These queries stand where these states say, wherever they are here: nobody has what they said after that."""
        shard, units = self._shard, dict[object, dict[int, QueryState]]()
        for number, state in states.items():
            definition = shard.catalog.queries.get(number)
            if definition is None or not shard.takes(definition) or not state.is_catching_up:
                continue
            shard.runs.end(number)
            shard.forget_fault(number)
            asked = shard.guarded((number,), partial(shard.read, definition, state, shard.catalog))
            if asked is not None and asked.state.behind_at is not None:
                units.setdefault((asked.key or number, asked.place), {})[number] = asked.state
        for alike in units.values():
            self.stay(alike)

    # ---- how they come on

    @property
    def has_more(self) -> bool:
        return any(map(self._goes_on, self.units))

    def _goes_on(self, unit: UnitBehind) -> bool:
        return not (unit.unanswered or self._is_held(unit)) and (unit.sn < self._shard.sn or unit.alone is not None)

    def _is_held(self, unit: UnitBehind) -> bool:
        return any(number in self._shard.held for number in unit.numbers)

    def go_on(self) -> list[AnyPart]:
        """It is the turn of one of them."""
        ready = [unit for unit in self.units if self._goes_on(unit)]
        begun = [unit for unit in ready if unit.alone is not None]
        if len(begun) >= _CATCHING_UP_MAX:
            ready = begun
        if not ready:
            return []
        unit = ready[0]
        parts = list(self._guarded(unit))
        for number in sorted(unit.numbers & self._units.keys()):  # the next turn is another's
            self._units[number] = self._units.pop(number)
        return parts

    def ask_again(self) -> list[AnyPart]:
        """Those that waited, and have no reason to any more."""
        parts: list[AnyPart] = []
        for unit in [unit for unit in self.units if unit.unanswered]:
            if not self._is_held(unit) and self._shard.backoff.why_not(*unit.later) is None:
                parts += self._guarded(unit)
        return parts

    def _guarded(self, unit: UnitBehind) -> Sequence[AnyPart]:
        return self._shard.guarded(tuple(unit.numbers), partial(self._make_up, unit)) or []

    def _make_up(self, unit: UnitBehind) -> Sequence[AnyPart]:
        """What they have missed, as far as their turn goes; then the others go on."""
        shard, alone, parts = self._shard, unit.alone, list[AnyPart]()
        if unit.sn < shard.store.oldest():
            return self._begin_all_from_here(unit)
        try:
            if alone is None:
                alone = self._alone_again(unit)
            parts += _advanced_to(alone, shard.sn, shard.pace.behind(shard.interrupted))
        except SnapshotGone:  # it was let go meanwhile
            return [*parts, *self._begin_all_from_here(unit)]
        for number in sorted(alone.faults.keys() & unit.numbers):
            self._take_fault(number, alone)
        shard.say(*alone.give_unsaid())
        return [*parts, *self._end_turn(unit, alone)]

    def _end_turn(self, unit: UnitBehind, alone: Shard) -> Sequence[AnyPart]:
        """Where they stand now; those that have caught up are with the others again."""
        shard = self._shard
        for number in unit.numbers - alone.runs.of.keys():  # they have ended
            if self._units.get(number) is unit:
                shard.forget_fault(number)
        if not alone.runs.of:
            return []
        unit.alone, unit.unanswered, unit.later, unit.sn = alone, False, (), alone.stands
        for number in unit.numbers:
            shard.faults.pop(number, None)
        if alone.runs.underway:
            return []  # where they stand was said with what they said
        caught_up = alone.sn == shard.sn
        parts = [
            part for run in alone.runs.all for part in silent_parts(run, alone.sn, None if caught_up else alone.sn)
        ]
        if caught_up:
            for number in unit.numbers:
                del self._units[number]
            shard.runs.take_in(alone.runs, list(alone.runs.all))
        return parts

    def _alone_again(self, unit: UnitBehind) -> Shard:
        """A shard of these queries as they stand."""
        queries = self._shard.catalog.queries
        # One that begins after that was, before it was resumed, another.
        begin = any(state is None or unit.sn < queries[number].since for number, state in unit.states.items())
        alone = self._shard.of_these(unit.numbers, unit.sn if begin else -1)
        known = {
            number: msgspec.structs.replace(state, behind_at=None, unanswered=False)
            for number, state in unit.states.items()
            if state is not None
        }
        alone.build({} if begin else known, unit.sn)
        alone.resumes = known if begin else {}
        return alone

    def _take_fault(self, number: int, alone: Shard) -> None:
        shard = self._shard
        shard.forget_fault(number)
        shard.faults[number] = alone.faults.pop(number)
        if number in alone.those_behind:
            self._units[number] = alone.those_behind._units.pop(number)
        else:
            shard.give_up(number)

    def _begin_all_from_here(self, unit: UnitBehind) -> Sequence[AnyPart]:
        shard, parts = self._shard, list[AnyPart]()
        for number in sorted(unit.numbers):
            definition = shard.catalog.queries[number]
            run = None if unit.alone is None else unit.alone.runs.of.get(number)
            state = (run.state_of(number) if run else unit.states.get(number)) or definition.state
            shard.forget_fault(number)
            parts += shard.begin_from_here(definition, state)
        return parts

    # ---- who comes from another runner

    def take_over(self, definition: QueryDefinition, sn: int) -> Sequence[AnyPart]:
        """Steps a query that was moved here from where it was left, and goes on as after a restart. What it says up to
        here counts where whoever had it has not said it, for it may have fallen behind there; and it may fall behind
        here."""
        shard, left, number = self._shard, definition.left, definition.number
        assert left is not None, "it was moved"
        if left.state.behind_at is not None or number in shard.held:
            state = (
                left.state if left.state.behind_at is not None else left.state.behind(left.position, unanswered=True)
            )
            self.stay({number: state})
            return [self._taken_over(number, state)]
        try:
            alone = self._alone_again(UnitBehind({number}, left.position, {number: left.state}))
            parts = _advanced_to(alone, sn, shard.pace.with_all(shard.interrupted))
        except SnapshotGone:
            return shard.begin_from_here(definition, left.state)
        evaluated = [part for part in parts if isinstance(part, Part) and part.evaluated]
        said = [msgspec.structs.replace(part, after_move=True) for part in evaluated]
        run = alone.runs.of.get(number)
        if number in alone.faults:
            self._take_fault(number, alone)
            if (unit := self._units.get(number)) is not None:
                stood = unit.states[number] or definition.state
                said.append(self._taken_over(number, stood.behind(unit.sn, stood.within, unanswered=True)))
        elif run is not None:
            state = state_of(run, alone.sn)
            if alone.sn < sn or run.is_underway:
                state = state if state.behind_at is not None else state.behind(alone.stands)
                self._units[number] = UnitBehind({number}, alone.stands, {number: state}, alone=alone)
            else:
                shard.go_on_with(definition, state)
            said.append(self._taken_over(number, state))
        return said

    def _taken_over(self, number: int, state: QueryState) -> Part:
        """Where this shard stands with a query, after the snapshot in which it was moved here."""
        shard = self._shard
        kept = shard.since_it_runs(number, state)
        return msgspec.structs.replace(silent_part(number, shard.sn, AFTER_ALL, kept), after_move=True)


def _advanced_to(alone: Shard, sn: int, turn: Turn) -> list[AnyPart]:
    """Those that are not there yet are left to the next turn."""
    parts: list[AnyPart] = []
    while (alone.sn < sn or alone.runs.underway) and not alone.faults and not (turn.is_over and alone.runs.of):
        parts += alone.advance(turn)
    return parts
