"""The shard: the networks of all registered queries, stepped from snapshot to snapshot.

It knows no process, no clock and no socket: the endpoint's inline runner and a task on Spark hold the same object and
get the same parts from it. What it needs beyond the store is where each query has come to; the rest it rebuilds."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

import msgspec

from hbase_store import Store
from hbase_store import open as open_store
from hbase_store.errors import SnapshotGone, StoreUnavailable
from stream_ext.arrivals import Arrival, arrivals
from stream_ext.budget import USUAL, Budget
from stream_ext.catalog import Catalog, QueryDefinition
from stream_ext.cohort import Joining
from stream_ext.elsewhere import Elsewhere
from stream_ext.errors import DeadlineExceeded
from stream_ext.faults import fault_of
from stream_ext.operators.service import Unanswered
from stream_ext.outside import NOTHING, Outside
from stream_ext.part import Part, Told
from stream_ext.plan.algebra import Form, Query
from stream_ext.plan.parameters import Parametrised, Template
from stream_ext.query_run import QueryRun
from stream_ext.readings import query_over, reading_of
from stream_ext.schedule import NOWHERE, QueryState, Timing, initial_state
from stream_ext.steps import AFTER_ALL, silent_part
from stream_ext.store_run import StoreRun
from stream_ext.template_run import TemplateRun
from stream_ext.timing import timing_of
from stream_ext.turns import UNHURRIED, Pace, Turn

#: Networks that are begun anew after a fault of one: with one faulty query of a thousand it is twenty.
_TRIES_MAX = 200
#: Of these so many may use up the time of an evaluation, for which all others wait.
_LATE_MAX = 12
#: So many of those that are behind have their windows in memory, where more are behind.
_CATCHING_UP_MAX = 64
_MADE_UP = "what it misses is made up for when there is an answer (resuming the query leaves it out)"
_IN_QUARANTINE = "Quarantine: its step may have killed a worker; it is tried in a process of its own"
_NOT_MADE_UP = "resuming the query leaves out what it has missed"

Run = QueryRun | StoreRun | TemplateRun
Found = TypeVar("Found")
#: Equal for queries that may share a network: the template, and how its streams are called.
Key = tuple[Template, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Asked:
    """A query of the catalog, and what is known of it before it runs. `parametrised` None: it shares no network."""

    number: int
    query: Query
    timing: Timing
    labels: tuple[str, ...]
    parametrised: Parametrised | None
    state: QueryState

    @property
    def key(self) -> Key | None:
        return None if self.parametrised is None else (self.parametrised.template, self.labels)

    @property
    def place(self) -> tuple[object, ...]:
        """Equal for those that are evaluated at the same times from now on, and were so before."""
        last, state = self.state.evaluated, self.state
        at = None if last is None else (last.sn, last.push, last.time)
        return self.timing, at, state.after, state.last, state.stands, state.within and state.within.push

    @property
    def joining(self) -> Joining:
        assert self.parametrised is not None
        return Joining(self.number, self.parametrised.constants, self.state)


Takes = Callable[[QueryDefinition], bool]


def takes_all(query: QueryDefinition) -> bool:
    return True


def takes_beside(query: QueryDefinition) -> bool:
    """The inline runner, while the others are on Spark."""
    return query.home is not None


def takes_on_spark(query: QueryDefinition) -> bool:
    return query.home is None


@dataclass(slots=True, eq=False)
class _Behind:
    """Queries that have fallen behind the others: they were stepped up to snapshot `sn`, and of the next one as far as
    their `states` say (None: they begin in it). `alone`: a shard of these, once they are stepped again.

    Either nobody answered whom they ask elsewhere: then they wait until nothing speaks against asking for `later`. Or
    so much fell due that they did not get through a snapshot while the others waited: they go on by turns."""

    numbers: set[int]
    sn: int
    states: dict[int, QueryState | None]
    unanswered: bool = False
    later: tuple[Hashable, ...] = ()
    alone: Shard | None = None


class Shard:
    """The runs at snapshot `sn` of all queries, or of those that it takes. A query whose step raises is reported in
    `faults` and stepped no more; those that shared a network with it go on without it.

    A query that has no answer from elsewhere is reported, too, and stepped again from where it stands once there may be
    one: what it missed meanwhile is made up for, snapshot by snapshot. So it is with those for which more falls due in
    a snapshot than the others can wait for: they are stepped by `go_on`, a piece at a time, until they have caught up.

    Queries of one template share a run where they are evaluated at the same times; one that has no such other runs
    alone. A store that does not answer is no query's fault: StoreUnavailable goes to the runner, which builds a new
    shard."""

    def __init__(
        self,
        store: Store,
        takes: Takes = takes_all,
        outside: Outside = NOTHING,
        elsewhere: Elsewhere | None = None,
        budget: Budget = USUAL,
        pace: Pace = UNHURRIED,
        interrupted: Callable[[], bool] = lambda: False,
    ) -> None:
        """`outside`: whom SERVICE may ask; or `elsewhere`, which others know, too. `budget`: that of each network. Once
        it is `interrupted`, a step ends after the evaluation that is being made, and this shard is not gone on with."""
        self._store, self._takes, self._budget = store, takes, budget
        self._pace, self._interrupted = pace, interrupted
        self._elsewhere = elsewhere or Elsewhere(outside, lambda sn: store.row(sn).published_ms)
        self.sn = 0
        self.faults: dict[int, str] = {}
        #: Queries in quarantine: from the next step on they stay where they are.
        self.held: Collection[int] = frozenset()
        #: Called before these queries are stepped in a snapshot, or brought to it.
        self.stepping: Callable[[int, Sequence[int]], None] = lambda sn, numbers: None
        self._forget_all()

    def _forget_all(self) -> None:
        self._catalog = Catalog()
        self._behind: dict[int, _Behind] = {}
        self._resumes: dict[int, QueryState] = {}  # of those that are in the middle of the snapshot they begin in
        self._in_step = False  # some run is underway in the next snapshot; else in the one that it began in
        self._turn: Turn | None = None  # of all that this shard does next; None: each run has its own
        self._unsaid: list[Told] = []  # what was known while nothing could be said
        self._runs: dict[int, Run] = {}
        self._stepped: dict[Run, None] = {}  # each once
        self._alone: dict[int, Asked] = {}  # those without others that might have some
        self._templates: dict[Key, list[QueryRun | TemplateRun]] = {}
        self._keys: dict[QueryRun | TemplateRun, Key] = {}

    def build(self, states: Mapping[int, QueryState | None], sn: int) -> None:
        """Silently: every query of the catalog at `sn`, as it was at its state."""
        self.sn, self.faults = sn, {}
        self._forget_all()
        self._elsewhere.comes_to(sn)
        catalog = self._catalog = Catalog.read(self._store, sn)
        together: dict[tuple[object, ...], list[Asked]] = {}
        for definition in filter(self._takes, catalog.queries.values()):
            number = definition.number
            asked = self._guarded((number,), partial(self._read, definition, states.get(number), catalog))
            if asked is not None and number in self.held and asked.state.stands is None:
                self._set_aside(number, sn, asked.state)
            elif asked is not None:
                key: tuple[object, ...] = (asked.number,) if asked.key is None else (asked.key, asked.place)
                together.setdefault(key, []).append(asked)
        for key, alike in [(key, alike) for key, alike in together.items() if alike[0].state.stands is not None]:
            self._stay_behind({asked.number: asked.state for asked in alike})
            del together[key]
        # Those that have never been evaluated may find others that have.
        for alike in sorted(together.values(), key=lambda alike: alike[0].state.evaluated is None):
            self._start(alike)

    def step(self, sn: int) -> list[Told]:
        """The parts of the snapshot after the one that this shard is at."""
        if sn != self.sn + 1:
            raise ValueError(f"the shard is at snapshot {self.sn}: it can step to {self.sn + 1}, not to {sn}")
        self._elsewhere.comes_to(sn)
        parts, self._unsaid = self._unsaid, []
        for unit in [unit for unit in self._units() if unit.unanswered]:
            if not self._is_held(unit) and self._elsewhere.why_not(*unit.later) is None:
                parts += self._guarded(tuple(unit.numbers), partial(self._make_up, unit)) or []
        self.stepping(sn, ())
        runs, pushes = list(self._stepped), self._pushes(sn)
        for run in runs:
            parts += self._stepped_run(run, sn, pushes)
        self.stepping(sn, ())
        self._part_from_those_underway(in_step=True)
        self.sn = sn
        parts += self._follow_catalog(sn)
        self._part_from_those_underway(in_step=False)
        unsaid, self._unsaid = self._unsaid, []
        return parts + unsaid

    def generation(self, number: int) -> int:
        """The snapshot since which a query runs that it has, or had a fault: who is resumed is another from then on."""
        definition = self._catalog.queries.get(number)
        return 0 if definition is None else definition.since

    @property
    def behind(self) -> dict[int, int]:
        """The queries that have fallen behind, and the snapshot at which each of them stands."""
        return {number: unit.sn for number, unit in self._behind.items()}

    @property
    def has_more(self) -> bool:
        """Whether `go_on` has something to do."""
        return any(map(self._goes_on, self._units()))

    def go_on(self) -> list[Told]:
        """A piece of what those have missed that are behind: it is the turn of one of them."""
        ready = [unit for unit in self._units() if self._goes_on(unit)]
        begun = [unit for unit in ready if unit.alone is not None]
        if len(begun) >= _CATCHING_UP_MAX:
            ready = begun
        if not ready:
            return []
        unit, (parts, self._unsaid) = ready[0], (self._unsaid, [])
        parts += self._guarded(tuple(unit.numbers), partial(self._make_up, unit)) or []
        for number in sorted(unit.numbers & self._behind.keys()):  # the next turn is another's
            self._behind[number] = self._behind.pop(number)
        unsaid, self._unsaid = self._unsaid, []
        return parts + unsaid

    def return_to(self, states: Mapping[int, QueryState]) -> None:
        """These queries stand where these states say, wherever they are here: nobody has what they said after that."""
        units: dict[object, dict[int, QueryState]] = {}
        for number, state in states.items():
            definition = self._catalog.queries.get(number)
            if definition is None or not self._takes(definition) or not state.is_catching_up:
                continue
            self._end(number)
            self._forget_fault(number)
            asked = self._guarded((number,), partial(self._read, definition, state, self._catalog))
            if asked is not None and asked.state.stands is not None:
                units.setdefault((asked.key or number, asked.place), {})[number] = asked.state
        for alike in units.values():
            self._stay_behind(alike)

    def _units(self) -> list[_Behind]:
        return list(dict.fromkeys(self._behind.values()))

    def _goes_on(self, unit: _Behind) -> bool:
        return not (unit.unanswered or self._is_held(unit)) and (unit.sn < self.sn or unit.alone is not None)

    def _pushes(self, sn: int) -> list[Arrival]:
        # What nobody reads may have been let go already.
        read = frozenset[int]().union(*(run.streams for run in self._stepped))
        return arrivals(self._store, sn, read) if read else []

    def _turn_of_run(self) -> Turn:
        return self._turn or self._pace.with_all(self._interrupted)

    def refresh(self) -> int:
        """Takes in what has been published; the new head."""
        return int(self._store.refresh())

    def close(self) -> None:
        self._store.close()

    def _follow_catalog(self, sn: int) -> list[Told]:
        """Queries that come and go; what the new ones say at once."""
        before, catalog = self._catalog, self._catalog.followed(self._store, sn)
        self._catalog = catalog
        parts: list[Told] = []
        if catalog.streams.keys() - before.streams.keys():
            self._widen(before, sn)
        changes = [change for change in self._store.row(sn).catalog if change.kind == "query"]
        for change in changes:
            was, definition = before.queries.get(change.number), catalog.queries.get(change.number)
            if was is not None and definition is not None and was.home != definition.home:
                parts += self._move(was, definition, sn)
                continue
            self._end(change.number)
            if (unit := self._behind.get(change.number)) is not None and unit.unanswered:
                self._elsewhere.forgive()
            self._forget_fault(change.number)
            if definition is not None and self._takes(definition):
                parts += self._guarded((change.number,), partial(self._begin, definition, catalog, sn)) or []
        return parts

    def _move(self, was: QueryDefinition, definition: QueryDefinition, sn: int) -> Sequence[Told]:
        """To another shard after this snapshot, or from another to this one."""
        goes, comes = self._takes(was), self._takes(definition)
        if goes and not comes:
            self._end(was.number)
            self._forget_fault(was.number)
        elif comes and not goes and definition.is_evaluated:
            return self._guarded((definition.number,), partial(self._take_over, definition, sn)) or []
        return []

    def _take_over(self, definition: QueryDefinition, sn: int) -> Sequence[Told]:
        """Steps it from where it was left, and goes on as after a restart. What it says up to here counts where whoever
        had it has not said it, for it may have fallen behind there; and it may fall behind here."""
        left, number = definition.left, definition.number
        assert left is not None, "it was moved"
        if left.state.stands is not None or number in self.held:
            state = left.state if left.state.stands is not None else left.state.behind(left.position, unanswered=True)
            self._stay_behind({number: state})
            return [self._taken_over(number, state)]
        parts: list[Told] = []
        try:
            alone = self._alone_again(_Behind({number}, left.position, {number: left.state}))
            parts += self._advanced_to(alone, sn, self._pace.with_all(self._interrupted))
        except SnapshotGone:
            return self._begin_from_here(definition, left.state)
        evaluated = [part for part in parts if isinstance(part, Part) and part.evaluated]
        said = [msgspec.structs.replace(part, taken_over=True) for part in evaluated]
        run = alone._runs.get(number)
        if number in alone.faults:
            self._take_fault(number, alone)
            if (unit := self._behind.get(number)) is not None:
                stood = unit.states[number] or definition.state
                said.append(self._taken_over(number, stood.behind(unit.sn, stood.within, unanswered=True)))
        elif run is not None:
            state = _state_of(run, alone.sn)
            if alone.sn < sn or alone._is_underway:
                state = state if state.stands is not None else state.behind(alone._stands)
                self._behind[number] = _Behind({number}, alone._stands, {number: state}, alone=alone)
            elif (asked := self._read(definition, state, self._catalog)) is not None:
                self._start([asked])
            said.append(self._taken_over(number, state))
        return said

    def _taken_over(self, number: int, state: QueryState) -> Part:
        """Where this one stands with a query, after the snapshot in which it was moved here."""
        kept = self._since_it_runs(number, state)
        return msgspec.structs.replace(silent_part(number, self.sn, AFTER_ALL, kept), taken_over=True)

    def _advanced_to(self, alone: Shard, sn: int, turn: Turn) -> list[Told]:
        """Those that are not there yet are left to the next turn."""
        parts: list[Told] = []
        while (alone.sn < sn or alone._is_underway) and not alone.faults and not (turn.is_over and alone._runs):
            parts += alone._advance(turn)
        return parts

    def _widen(self, before: Catalog, sn: int) -> None:
        """What had a window on every stream gets one on the new ones, and goes on as after a restart."""
        for number, definition in before.queries.items():
            there = number in self._catalog.queries and number not in self.faults and number not in self._behind
            if definition.any_stream and self._takes(definition) and there:
                self._guarded((number,), partial(self._widen_one, definition, sn))

    def _widen_one(self, definition: QueryDefinition, sn: int) -> None:
        run = self._runs.get(definition.number)
        state = None if run is None else _state_of(run, sn)
        self._end(definition.number)
        asked = self._read(definition, state, self._catalog)
        if asked is not None:
            self._start([asked])

    def _begin(self, definition: QueryDefinition, catalog: Catalog, sn: int) -> Sequence[Told]:
        if definition.number in self.held and definition.is_evaluated:
            self._set_aside(definition.number, sn - 1, None)
            return []
        asked = self._read(definition, self._resumes.pop(definition.number, None), catalog)
        if asked is None:
            return []
        self._start([asked])
        return self._started(asked.number, sn - 1)

    def _started(self, number: int, stands: int) -> Sequence[Told]:
        """What it says at once. `stands`: where it does when it has no answer from elsewhere."""
        run = self._runs.get(number)
        if run is None:
            return []
        try:
            return run.start(self.sn, self._turn_of_run())
        except Unanswered as error:
            return self._without_answer(run, error, stands, None)
        except StoreUnavailable:
            raise
        except Exception as error:  # noqa: BLE001  as in `_guarded`
            return self._broken(run, error)

    def _guarded(self, numbers: Sequence[int], call: Callable[[], Found]) -> Found | None:
        """What is found of queries; their fault must not stop the others, and is reported."""
        self.stepping(self.sn, numbers)
        try:
            return call()
        except StoreUnavailable:
            raise
        except Exception as error:  # noqa: BLE001  see above
            for number in numbers:
                self._end(number)
                self._report(number, error, self.sn - 1, None)
            return None

    def _report(self, number: int, error: Exception, sn: int, state: QueryState | None) -> None:
        """`state`: that at `sn`; None: in the snapshot after it the query begins."""
        was_behind = number in self._behind
        self._forget_fault(number)
        if not isinstance(error, Unanswered):
            self.faults[number] = fault_of(error)
            if was_behind:
                self._give_up(number)
            return
        kind = "NotAllowed" if error.forbidden else "ServiceFailed"
        self.faults[number] = f"{kind}: {error}; {_MADE_UP if error.later else _NOT_MADE_UP}"
        if error.later:
            self._behind[number] = _Behind({number}, sn, {number: state}, True, error.later)
        self._say_where(number, sn, state)

    def _say_where(self, number: int, sn: int, state: QueryState | None) -> None:
        """With the next parts: it stands at `sn`."""
        state = state or self._catalog.queries[number].state
        kept = self._since_it_runs(number, state.behind(sn, state.within, unanswered=True))
        k = 0 if state.within is None else state.within.k
        self._unsaid.append(silent_part(number, self.sn if sn == NOWHERE else sn + 1, k, kept))

    def _since_it_runs(self, number: int, state: QueryState) -> QueryState:
        """For what is said of one that was never evaluated."""
        since = self._catalog.queries[number].since
        return state if state.sn >= max(since, 1) else msgspec.structs.replace(state, sn=max(self.sn, since))

    def _give_up(self, number: int) -> None:
        """With the next parts: nobody is to wait for what it has missed, for it is stepped no more."""
        part = silent_part(number, self.sn, AFTER_ALL, self._since_it_runs(number, self._catalog.queries[number].state))
        self._unsaid.append(msgspec.structs.replace(part, given_up=True))

    def _forget_fault(self, number: int) -> None:
        self.faults.pop(number, None)
        unit = self._behind.pop(number, None)
        if unit is not None:
            unit.numbers.discard(number)
            if unit.alone is not None:
                unit.alone._end(number)

    # ---- those that have fallen behind: so much fell due, nobody answered them, or they are in quarantine

    def _set_aside(self, number: int, sn: int, state: QueryState | None) -> None:
        """As in `_report`; it is a matter of seconds until it goes on, or is parked."""
        self._forget_fault(number)
        self.faults[number] = _IN_QUARANTINE
        self._behind[number] = _Behind({number}, sn, {number: state}, True)
        self._say_where(number, sn, state)

    def _is_held(self, unit: _Behind) -> bool:
        return any(number in self.held for number in unit.numbers)

    def _stay_behind(self, states: Mapping[int, QueryState]) -> None:
        """As they were when that was told last: queries that may share a run."""
        state = next(iter(states.values()))
        assert state.stands is not None, "it stands somewhere"
        own: dict[int, QueryState | None] = {}
        is_held = any(number in self.held for number in states)
        for number, each in states.items():
            begins = state.stands < self._catalog.queries[number].since
            own[number] = None if begins and each.within is None else each
            if is_held:
                self.faults[number] = _IN_QUARANTINE
            elif state.unanswered:
                why = f"ServiceFailed: an endpoint did not answer in snapshot {state.stands + 1}"
                self.faults[number] = f"{why}; {_MADE_UP}"
        unit = _Behind(set(states), state.stands, own, state.unanswered or is_held)
        self._behind |= dict.fromkeys(states, unit)

    def _part_from_those_underway(self, in_step: bool) -> None:
        """Those that did not get through the next snapshot; else, through the one that they began in, which is this."""
        for run in [run for run in self._stepped if run.is_underway]:
            numbers = set(run.numbers)
            alone = self._shard_of(numbers)
            alone.sn, alone._catalog, alone._in_step = self.sn, self._catalog, in_step
            alone._take_in(self, [run])
            unit = _Behind(numbers, alone._stands, {}, alone=alone)
            self._behind |= dict.fromkeys(numbers, unit)

    def _take_in(self, other: Shard, runs: Sequence[Run]) -> None:
        """These runs of another shard are this one's from now on."""
        for run in runs:
            numbers = run.numbers
            key = None if isinstance(run, StoreRun) else other._keys.get(run)
            alone = {number: other._alone[number] for number in numbers if number in other._alone}
            for number in numbers:
                del other._runs[number]
            other._forget(run)
            self._runs |= dict.fromkeys(numbers, run)
            self._stepped[run] = None
            self._alone |= alone
            if key is not None:
                assert not isinstance(run, StoreRun)
                self._keep(run, key)

    def _make_up(self, unit: _Behind) -> Sequence[Told]:
        """What they have missed, as far as their turn goes; then the others go on."""
        alone, parts = unit.alone, list[Told]()
        if unit.sn < self._store.oldest():
            return self._begin_all_from_here(unit)
        try:
            if alone is None:
                alone = self._alone_again(unit)
            parts += self._advanced_to(alone, self.sn, self._pace.behind(self._interrupted))
        except SnapshotGone:  # it was let go meanwhile
            return [*parts, *self._begin_all_from_here(unit)]
        for number in sorted(alone.faults.keys() & unit.numbers):
            self._take_fault(number, alone)
        unsaid, alone._unsaid = alone._unsaid, []
        self._unsaid += unsaid
        return [*parts, *self._end_turn(unit, alone)]

    def _end_turn(self, unit: _Behind, alone: Shard) -> Sequence[Told]:
        """Where they stand now; those that have caught up are with the others again."""
        for number in unit.numbers - alone._runs.keys():  # they have ended
            if self._behind.get(number) is unit:
                self._forget_fault(number)
        if not alone._runs:
            return []
        unit.alone, unit.unanswered, unit.later, unit.sn = alone, False, (), alone._stands
        for number in unit.numbers:
            self.faults.pop(number, None)
        if alone._is_underway:
            return []  # where they stand was said with what they said
        caught_up = alone.sn == self.sn
        parts = [
            part for run in alone._stepped for part in _silent_parts(run, alone.sn, None if caught_up else alone.sn)
        ]
        if caught_up:
            for number in unit.numbers:
                del self._behind[number]
            self._take_in(alone, list(alone._stepped))
        return parts

    @property
    def _is_underway(self) -> bool:
        return any(run.is_underway for run in self._stepped)

    @property
    def _stands(self) -> int:
        """The last snapshot that all here have got through."""
        return self.sn - (self._is_underway and not self._in_step)

    def _advance(self, turn: Turn) -> list[Told]:
        """More of what the queries of this shard are underway in, else the next snapshot, as far as the turn goes."""
        self._turn = turn
        parts: list[Told] = []
        underway, in_step = [run for run in self._stepped if run.is_underway], self._in_step
        if underway:
            for run in underway:
                parts += self._stepped_run(run, self.sn + in_step, [])
        else:
            turn.spend()
            self._elsewhere.comes_to(self.sn + 1)
            pushes, in_step = self._pushes(self.sn + 1), True
            for run in list(self._stepped):
                parts += self._stepped_run(run, self.sn + 1, pushes)
        self._in_step = in_step and self._is_underway
        if in_step and not self._in_step:
            self.sn += 1
            parts += self._follow_catalog(self.sn)
        return parts

    def _shard_of(self, numbers: set[int], begins_after: int = -1) -> Shard:
        """One of these queries, as long as they are among `numbers`."""

        def takes(query: QueryDefinition) -> bool:
            return query.number in numbers and query.since > begins_after

        alone = Shard(
            self._store, takes, elsewhere=self._elsewhere, budget=self._budget, pace=self._pace,
            interrupted=self._interrupted,
        )  # fmt: skip
        alone.stepping = self.stepping
        return alone

    def _alone_again(self, unit: _Behind) -> Shard:
        """A shard of these queries as they stand."""
        queries = self._catalog.queries
        # One that begins after that was, before it was resumed, another.
        begin = any(state is None or unit.sn < queries[number].since for number, state in unit.states.items())
        alone = self._shard_of(unit.numbers, unit.sn if begin else -1)
        known = {
            number: msgspec.structs.replace(state, stands=None, unanswered=False)
            for number, state in unit.states.items()
            if state is not None
        }
        alone.build({} if begin else known, unit.sn)
        alone._resumes = known if begin else {}
        return alone

    def _take_fault(self, number: int, alone: Shard) -> None:
        self._forget_fault(number)
        self.faults[number] = alone.faults.pop(number)
        if number in alone._behind:
            self._behind[number] = alone._behind.pop(number)
        else:
            self._give_up(number)

    def _begin_all_from_here(self, unit: _Behind) -> Sequence[Told]:
        parts: list[Told] = []
        for number in sorted(unit.numbers):
            definition = self._catalog.queries[number]
            run = None if unit.alone is None else unit.alone._runs.get(number)
            state = (run.state_of(number) if run else unit.states.get(number)) or definition.state
            self._forget_fault(number)
            parts += self._begin_from_here(definition, state)
        return parts

    def _begin_from_here(self, definition: QueryDefinition, state: QueryState) -> Sequence[Told]:
        """What it would make up for is gone: it begins anew, as one that is resumed, and its next emission says so."""
        timing = timing_of(query_over(definition, self._catalog), self._catalog, state.t0)
        begins = msgspec.structs.replace(initial_state(timing, self._store.vts(self.sn)), t0=state.t0, gap=True)
        asked = self._read(definition, None, self._catalog)
        if asked is None:
            return []
        self._start([replace(asked, timing=timing, state=begins)])
        where = silent_part(asked.number, self.sn, 0, msgspec.structs.replace(begins, sn=self.sn))
        return [where, *self._started(asked.number, NOWHERE)]

    # ---- faults of those that share a network

    def _stepped_run(self, run: Run, sn: int, pushes: Sequence[Arrival]) -> Sequence[Told]:
        """What a run says; where its step fails, what those of its queries say whose fault it is not."""
        asks = not isinstance(run, TemplateRun) and run.asks_elsewhere
        stood = _state_of(run, self.sn) if asks else None
        self.stepping(sn, run.numbers)
        turn, was_underway = self._turn_of_run(), run.is_underway
        try:
            if was_underway:
                assert not isinstance(run, StoreRun)
                return run.go_on(turn)
            return run.step(sn, pushes, turn)
        except StoreUnavailable:
            raise
        except Unanswered as error:
            return self._without_answer(run, error, self.sn, stood)
        except Exception as error:  # noqa: BLE001  as in `_guarded`
            before = run.joining_before() if isinstance(run, TemplateRun) else []
            if not before:
                return self._broken(run, error)
            self._drop(run.numbers)
            queries, catalog = self._catalog.queries, self._catalog
            found = (self._read(queries[each.number], each.state, catalog) for each in before)
            alike = [asked for asked in found if asked is not None]
            again = arrivals(self._store, sn, run.streams) if was_underway else pushes
            return self._without_faulty(
                alike, error, lambda some: self._runs[some[0].number].step(sn, again, self._turn_of_run())
            )

    def _without_answer(self, run: Run, error: Unanswered, sn: int, stood: QueryState | None) -> Sequence[Told]:
        """What it said before. It stood at `sn`, and began after it where it `stood` nowhere."""
        assert not isinstance(run, TemplateRun), "who asks elsewhere is alone"
        parts, state = run.stands_without_answer()
        if state is None or (stood is None and state.within is None):
            state = stood
        self._drop(run.numbers)
        self._report(run.number, error, sn if state is None or state.stands is None else state.stands, state)
        return parts

    def _broken(self, run: Run, error: Exception) -> Sequence[Told]:
        """What it said before it raised."""
        parts = [] if isinstance(run, TemplateRun) else run.told_before_fault()
        numbers = run.numbers
        self._drop(numbers)
        for number in numbers:
            self._report(number, error, self.sn, None)
        return parts

    def _without_faulty(
        self, alike: Sequence[Asked], error: Exception, go_on: Callable[[Sequence[Asked]], Sequence[Told]]
    ) -> list[Told]:
        """Who fails alone is found by halves, and reported; the others go on in networks of their own."""
        parts: list[Told] = []
        waiting, tries, late = _halves(alike), 0, 0
        while waiting:
            some = waiting.pop()
            tries += 1
            self.stepping(self.sn, [asked.number for asked in some])
            try:
                if tries > _TRIES_MAX or late > _LATE_MAX:
                    raise error
                self._start_apart(some)
                parts += go_on(some)
            except StoreUnavailable:
                raise
            except Exception as fault:  # noqa: BLE001  as in `_guarded`
                run = self._runs.get(some[0].number)
                if isinstance(run, QueryRun):
                    parts += run.told_before_fault()
                self._drop([asked.number for asked in some])
                late += isinstance(fault, DeadlineExceeded)
                if len(some) > 1 and tries <= _TRIES_MAX and late <= _LATE_MAX:
                    waiting += _halves(some)
                    continue
                for asked in some:
                    self._report(asked.number, fault, self.sn, asked.state)
        return parts

    def _start_apart(self, alike: Sequence[Asked]) -> None:
        if len(alike) > 1:
            self._share(alike)
        else:
            self._start_alone(alike[0])

    def _drop(self, numbers: Sequence[int]) -> None:
        """Their runs, which are of no others."""
        runs = [run for number in numbers if (run := self._runs.pop(number, None)) is not None]
        for run in dict.fromkeys(runs):
            self._forget(run)

    # ---- who runs with whom

    def _read(self, definition: QueryDefinition, state: QueryState | None, catalog: Catalog) -> Asked | None:
        """None: it is paused, has failed, or waits for a stream to be there."""
        if not definition.is_evaluated:
            return None
        query, standing = query_over(definition, catalog), definition.standing(state)
        if definition.any_stream and not query.windows:
            return None
        timing = timing_of(query, catalog, standing.t0)
        streams = [catalog.streams[window.stream] for window in timing.windows]
        labels = tuple(stream.name or stream.iri for stream in streams)
        shared = None
        # Arrivals are evaluated one by one, windows of the past once; and one on a variable may get more windows.
        alone = timing.arrivals or timing.ends_at is not None or definition.any_stream
        if query.windows and not alone and query.form is not Form.CONSTRUCT:
            shared = reading_of(definition.text, definition.base).parametrised
        return Asked(definition.number, query, timing, labels, shared, standing)

    def _start(self, alike: Sequence[Asked]) -> None:
        """Queries of one template that stand at one place; or one query."""
        self.stepping(self.sn, [asked.number for asked in alike])
        try:
            self._start_with_others(alike)
        except StoreUnavailable:
            raise
        except Exception as error:  # noqa: BLE001  as in `_guarded`
            left = [asked for asked in alike if asked.number not in self._runs]
            self._without_faulty(left, error, lambda asked: [])

    def _start_with_others(self, alike: Sequence[Asked]) -> None:
        left = [asked for asked in alike if asked.key is None or not self._finds_others(asked, asked.key)]
        if len(left) > 1:
            self._share(left)
        elif left:
            self._start_alone(left[0])

    def _finds_others(self, asked: Asked, key: Key) -> bool:
        for run in self._templates.get(key, ()):
            if run.accepts(asked.timing, asked.state):
                if isinstance(run, TemplateRun):
                    run.join(asked.joining, self.sn)
                    self._runs[asked.number] = run
                else:
                    other = replace(self._alone[run.number], state=run.state_now(self.sn), timing=run.timing)
                    self._share([other, asked])
                    self._forget(run)
                return True
        return False

    def _start_alone(self, asked: Asked) -> None:
        if not asked.query.windows:
            over_store = StoreRun(asked.number, asked.query, self._store, self._elsewhere, self._budget)
            over_store.resume(asked.state, self.sn)
            self._run([asked], over_store)
            return
        alone = QueryRun(
            asked.number, asked.query, asked.timing, asked.labels, self._store, self._elsewhere, self._budget
        )
        alone.resume(asked.state, self.sn)
        self._run([asked], alone)
        if asked.key is not None:
            self._alone[asked.number] = asked
            self._keep(alone, asked.key)

    def _share(self, alike: Sequence[Asked]) -> None:
        first = alike[0]
        assert first.parametrised is not None and first.key is not None
        shared = TemplateRun(
            first.parametrised.template, first.query, first.timing, first.labels, self._store, self._budget
        )
        shared.build([asked.joining for asked in alike], self.sn)
        self._run(alike, shared)
        self._keep(shared, first.key)

    def _run(self, alike: Sequence[Asked], run: Run) -> None:
        self._runs |= dict.fromkeys((asked.number for asked in alike), run)
        self._stepped[run] = None

    def _keep(self, run: QueryRun | TemplateRun, key: Key) -> None:
        self._keys[run] = key
        self._templates.setdefault(key, []).append(run)

    def _end(self, number: int) -> None:
        run = self._runs.pop(number, None)
        if isinstance(run, TemplateRun):
            run.leave(number)
            if run.is_empty:
                self._forget(run)
        elif run is not None:
            self._forget(run)

    def _forget(self, run: Run) -> None:
        """It is stepped no more, and nobody joins it."""
        self._stepped.pop(run, None)
        if isinstance(run, StoreRun):
            return
        if isinstance(run, QueryRun):
            self._alone.pop(run.number, None)
        key = self._keys.pop(run, None)
        if key is not None:
            self._templates[key].remove(run)
            if not self._templates[key]:
                del self._templates[key]


def _halves(some: Sequence[Asked]) -> list[Sequence[Asked]]:
    middle = len(some) // 2
    return [half for half in (some[:middle], some[middle:]) if half]


def _state_of(run: Run, sn: int) -> QueryState:
    """Of a run of one query."""
    assert not isinstance(run, TemplateRun)
    return run.stand(sn)


def _silent_parts(run: Run, sn: int, stands: int | None) -> Sequence[Told]:
    """How far its queries have come; `stands`: they are behind the others."""
    if isinstance(run, TemplateRun):
        return run.silent_parts(sn, stands)
    state = run.state_now(sn)
    return [silent_part(run.number, sn, AFTER_ALL, state if stands is None else state.behind(stands))]


def open_shard(
    store_url: str, base: str, outside: Outside, budget: Budget, only: Collection[int] | None = None
) -> Shard:
    """For a process of its own (a Spark task, or a trial of these queries): a reader of the store, and a shard over
    it."""
    takes = takes_on_spark if only is None else lambda query: query.number in only
    return Shard(open_store(store_url, read_only=True), takes, outside, budget=budget, pace=Pace())
