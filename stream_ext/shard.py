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
from stream_ext.catalog import Catalog, QueryDefinition
from stream_ext.cohort import Joining
from stream_ext.elsewhere import Elsewhere
from stream_ext.operators.service import Unanswered
from stream_ext.outside import NOTHING, Outside
from stream_ext.part import Told
from stream_ext.plan.algebra import Form, Query
from stream_ext.plan.parameters import Parametrised, Template
from stream_ext.query_run import QueryRun
from stream_ext.readings import query_over, reading_of
from stream_ext.schedule import QueryState, Timing, initial_state
from stream_ext.steps import silent_part
from stream_ext.store_run import StoreRun
from stream_ext.template_run import TemplateRun
from stream_ext.timing import timing_of

#: Networks that are begun anew after a fault of one: with one faulty query of a thousand it is twenty.
_TRIES_MAX = 200
#: Snapshots, or evaluations, that a query makes up for while the others wait for their next step.
_MADE_UP_AT_ONCE = 500
_MADE_UP = "what it misses is made up for when there is an answer (resuming the query leaves it out)"
#: Where a query stands that is to begin anew, wherever that is by then.
_NOWHERE = -1
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
        return self.timing, at, state.after, state.last

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


@dataclass(frozen=True, slots=True)
class _Behind:
    """A query that had no answer from elsewhere: it is as it was at snapshot `sn`, in `state` (None: it begins in the
    next one), until nothing speaks against asking for `later`. `alone`: a shard of it that is there, and has begun to
    make up for what it missed."""

    sn: int
    state: QueryState | None
    later: tuple[Hashable, ...]
    alone: Shard | None = None


class Shard:
    """The runs at snapshot `sn` of all queries, or of those that it takes. A query whose step raises is reported in
    `faults` and stepped no more; those that shared a network with it go on without it.

    A query that has no answer from elsewhere is reported, too, and stepped again from where it stands once there may be
    one: what it missed meanwhile is made up for, snapshot by snapshot.

    Queries of one template share a run where they are evaluated at the same times; one that has no such other runs
    alone. A store that does not answer is no query's fault: StoreUnavailable goes to the runner, which builds a new
    shard."""

    def __init__(
        self, store: Store, takes: Takes = takes_all, outside: Outside = NOTHING, elsewhere: Elsewhere | None = None
    ) -> None:
        """`outside`: whom SERVICE may ask; or `elsewhere`, which others know, too."""
        self._store, self._takes = store, takes
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
            if asked is not None and asked.state.stands is not None:
                self._stay_behind(asked.number, asked.state)
            elif asked is not None and number in self.held:
                self._set_aside(number, sn, asked.state)
            elif asked is not None:
                key = (asked.number,) if asked.key is None else (asked.key, asked.place)
                together.setdefault(key, []).append(asked)
        # Those that have never been evaluated may find others that have.
        for alike in sorted(together.values(), key=lambda alike: alike[0].state.evaluated is None):
            self._start(alike)

    def step(self, sn: int) -> list[Told]:
        """The parts of the snapshot after the one that this shard is at."""
        if sn != self.sn + 1:
            raise ValueError(f"the shard is at snapshot {self.sn}: it can step to {self.sn + 1}, not to {sn}")
        self._elsewhere.comes_to(sn)
        parts, self._unsaid = self._unsaid, []
        for number in [number for number, each in self._behind.items() if self._may_go_on(number, each)]:
            parts += self._guarded((number,), partial(self._make_up, number)) or []
        self.stepping(sn, ())
        runs = list(self._stepped)
        # What nobody reads may have been let go already.
        read = frozenset[int]().union(*(run.streams for run in runs))
        pushes = arrivals(self._store, sn, read) if read else []
        for run in runs:
            parts += self._stepped_run(run, sn, pushes)
        self.stepping(sn, ())
        self.sn = sn
        parts += self._follow_catalog(sn)
        unsaid, self._unsaid = self._unsaid, []
        return parts + unsaid

    @property
    def behind(self) -> dict[int, int]:
        """The queries that wait for an answer from elsewhere, and the snapshot at which each of them stands."""
        return {number: each.sn for number, each in self._behind.items()}

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
            if self._behind.get(change.number) is not None:
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
        """Steps it in silence from where it was left, and goes on as after a restart."""
        left, number = definition.left, definition.number
        assert left is not None, "it was moved"
        if left.state.stands is not None:
            return self._begin_from_here(definition, left.state)
        if number in self.held:
            self._set_aside(number, left.position, left.state)
            return []
        alone = Shard(self._store, lambda query: query.number == number, elsewhere=self._elsewhere)
        alone.stepping = self.stepping
        alone.build({number: left.state}, left.position)
        while alone.sn < sn:
            alone.step(alone.sn + 1)
        if number in alone.faults:
            self._take_fault(number, alone)
            return []
        run = alone._runs.get(number)
        asked = self._read(definition, None if run is None else _state_of(run, sn), self._catalog)
        if asked is not None:
            self._start([asked])
        return []

    def _widen(self, before: Catalog, sn: int) -> None:
        """What had a window on every stream gets one on the new ones, and goes on as after a restart."""
        for number, definition in before.queries.items():
            there = number in self._catalog.queries and number not in self.faults
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
        asked = self._read(definition, None, catalog)
        if asked is None:
            return []
        self._start([asked])
        run = self._runs.get(asked.number)
        return [] if run is None else run.start(sn)

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
        self._forget_fault(number)
        if not isinstance(error, Unanswered):
            self.faults[number] = f"{type(error).__name__}: {error}"
            return
        kind = "NotAllowed" if error.forbidden else "ServiceFailed"
        self.faults[number] = f"{kind}: {error}; {_MADE_UP if error.later else _NOT_MADE_UP}"
        if error.later:
            self._behind[number] = _Behind(sn, state, error.later)
        self._say_where(number, sn, state)

    def _say_where(self, number: int, sn: int, state: QueryState | None) -> None:
        """With the next parts: it stands at `sn`."""
        if state is None:
            state = msgspec.structs.replace(self._catalog.queries[number].state, sn=self.sn)
        kept = msgspec.structs.replace(state, stands=sn)
        self._unsaid.append(silent_part(number, self.sn if sn == _NOWHERE else sn + 1, 0, kept))

    def _forget_fault(self, number: int) -> None:
        self.faults.pop(number, None)
        self._behind.pop(number, None)

    # ---- those that have fallen behind: nobody answered them, or they are in quarantine

    def _set_aside(self, number: int, sn: int, state: QueryState | None) -> None:
        """As in `_report`; it is a matter of seconds until it goes on, or is parked."""
        self._forget_fault(number)
        self.faults[number] = _IN_QUARANTINE
        self._behind[number] = _Behind(sn, state, ())
        self._say_where(number, sn, state)

    def _may_go_on(self, number: int, behind: _Behind) -> bool:
        return number not in self.held and self._elsewhere.why_not(*behind.later) is None

    def _stay_behind(self, number: int, state: QueryState) -> None:
        """As it was reported before this shard was built."""
        assert state.stands is not None, "it stands somewhere"
        begins = state.stands < self._catalog.queries[number].since
        self._behind[number] = _Behind(state.stands, None if begins else state, ())
        waits = f"ServiceFailed: an endpoint did not answer in snapshot {state.stands + 1}; {_MADE_UP}"
        self.faults[number] = _IN_QUARANTINE if number in self.held else waits

    def _make_up(self, number: int) -> Sequence[Told]:
        """What it has missed, as far as it gets; after a long time some of it with each step, so that others go on."""
        behind, definition = self._behind[number], self._catalog.queries[number]
        if behind.sn < self._store.oldest():
            self._forget_fault(number)
            return self._begin_from_here(definition, behind.state or definition.state)

        alone = behind.alone or self._alone_again(number, behind)
        parts: list[Told] = []
        until = min(self.sn, alone.sn + _MADE_UP_AT_ONCE)
        try:
            while alone.sn < self.sn and number not in alone.faults:
                if number in alone._runs and (alone.sn >= until or len(parts) >= _MADE_UP_AT_ONCE):
                    break
                parts += alone.step(alone.sn + 1)
        except SnapshotGone:  # it was let go meanwhile
            self._forget_fault(number)
            return [*parts, *self._begin_from_here(definition, behind.state or definition.state)]
        if number in alone.faults:
            self._take_fault(number, alone)
            return parts
        run = alone._runs.get(number)
        if run is None:
            self._forget_fault(number)
            return parts
        state = _state_of(run, alone.sn)
        if alone.sn < self.sn:
            self._behind[number] = _Behind(alone.sn, state, (), alone)
            state = msgspec.structs.replace(state, stands=alone.sn)
        else:
            self._forget_fault(number)
            self._runs[number] = run
            self._stepped[run] = None
        k = max((part.k for part in parts), default=0) + 1
        parts.append(silent_part(number, alone.sn, k, state))
        return parts

    def _alone_again(self, number: int, behind: _Behind) -> Shard:
        """A shard of this query as it stands."""

        def takes(query: QueryDefinition) -> bool:
            # One that begins after that was, before it was resumed, another.
            return query.number == number and (behind.state is not None or query.since > behind.sn)

        alone = Shard(self._store, takes, elsewhere=self._elsewhere)
        alone.stepping = self.stepping
        state = None if behind.state is None else msgspec.structs.replace(behind.state, stands=None)
        alone.build({number: state}, behind.sn)
        return alone

    def _take_fault(self, number: int, alone: Shard) -> None:
        self._forget_fault(number)
        self.faults[number] = alone.faults[number]
        if number in alone._behind:
            self._behind[number] = alone._behind[number]
        self._unsaid += alone._unsaid

    def _begin_from_here(self, definition: QueryDefinition, state: QueryState) -> Sequence[Told]:
        """What it would make up for is gone: it begins anew, as one that is resumed, and its next emission says so."""
        timing = timing_of(query_over(definition, self._catalog), self._catalog, state.t0)
        begins = msgspec.structs.replace(initial_state(timing, self._store.vts(self.sn)), t0=state.t0, gap=True)
        asked = self._read(definition, None, self._catalog)
        if asked is None:
            return []
        try:
            self._start([replace(asked, timing=timing, state=begins)])
            run = self._runs.get(asked.number)
            return [] if run is None else run.start(self.sn)
        except Unanswered as error:
            self._end(asked.number)
            self._report(asked.number, error, _NOWHERE, None)
            return []

    # ---- faults of those that share a network

    def _stepped_run(self, run: Run, sn: int, pushes: Sequence[Arrival]) -> Sequence[Told]:
        """What a run says; where its step fails, what those of its queries say whose fault it is not."""
        asks = not isinstance(run, TemplateRun) and run.asks_elsewhere
        stood = _state_of(run, self.sn) if asks else None
        self.stepping(sn, run.numbers)
        try:
            return run.step(sn, pushes)
        except StoreUnavailable:
            raise
        except Unanswered as error:
            (number,) = run.numbers
            self._drop(run.numbers)
            self._report(number, error, self.sn, stood)
            return []
        except Exception as error:  # noqa: BLE001  as in `_guarded`
            before = run.joining_before() if isinstance(run, TemplateRun) else []
            self._drop(run.numbers)
            if not before:
                for number in run.numbers:
                    self._report(number, error, self.sn, None)
                return []
            queries, catalog = self._catalog.queries, self._catalog
            found = (self._read(queries[each.number], each.state, catalog) for each in before)
            alike = [asked for asked in found if asked is not None]
            return self._without_faulty(alike, error, lambda some: self._runs[some[0].number].step(sn, pushes))

    def _without_faulty(
        self, alike: Sequence[Asked], error: Exception, go_on: Callable[[Sequence[Asked]], Sequence[Told]]
    ) -> list[Told]:
        """Who fails alone is found by halves, and reported; the others go on in networks of their own."""
        parts: list[Told] = []
        waiting, tries = _halves(alike), 0
        while waiting:
            some = waiting.pop()
            tries += 1
            self.stepping(self.sn, [asked.number for asked in some])
            try:
                if tries > _TRIES_MAX:
                    raise error
                self._start_apart(some)
                parts += go_on(some)
            except StoreUnavailable:
                raise
            except Exception as fault:  # noqa: BLE001  as in `_guarded`
                self._drop([asked.number for asked in some])
                if len(some) > 1 and tries <= _TRIES_MAX:
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
            over_store = StoreRun(asked.number, asked.query, self._store, self._elsewhere)
            over_store.resume(asked.state, self.sn)
            self._run([asked], over_store)
            return
        alone = QueryRun(asked.number, asked.query, asked.timing, asked.labels, self._store, self._elsewhere)
        alone.resume(asked.state, self.sn)
        self._run([asked], alone)
        if asked.key is not None:
            self._alone[asked.number] = asked
            self._keep(alone, asked.key)

    def _share(self, alike: Sequence[Asked]) -> None:
        first = alike[0]
        assert first.parametrised is not None and first.key is not None
        shared = TemplateRun(first.parametrised.template, first.query, first.timing, first.labels, self._store)
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
    return run.state_now(sn)


def open_shard(store_url: str, base: str, outside: Outside, only: Collection[int] | None = None) -> Shard:
    """For a process of its own (a Spark task, or a trial of these queries): a reader of the store, and a shard over
    it."""
    takes = takes_on_spark if only is None else lambda query: query.number in only
    return Shard(open_store(store_url, read_only=True), takes, outside)
