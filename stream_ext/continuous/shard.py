"""The shard: the networks of all registered queries, stepped from snapshot to snapshot.

It knows no process, no clock and no socket: the endpoint's inline runner and a task on Spark hold the same object and
get the same parts from it. What it needs beyond the store is where each query has come to; the rest it rebuilds."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar

import msgspec

from hbase_store import Store
from hbase_store import open as open_store
from hbase_store.errors import StoreUnavailable
from stream_ext.catalog.catalog import Catalog, QueryDefinition
from stream_ext.catalog.registered import query_over, reading_of
from stream_ext.catalog.timing import timing_of
from stream_ext.continuous.behind import MADE_UP, QueriesBehind, UnitBehind
from stream_ext.continuous.faults import fault_of
from stream_ext.continuous.query_budget import USUAL, Budget
from stream_ext.continuous.query_run import QueryRun
from stream_ext.continuous.runs import PlannedQuery, Run, Runs, state_of
from stream_ext.continuous.steps import AFTER_ALL, silent_part
from stream_ext.continuous.store_run import StoreRun
from stream_ext.continuous.template_run import TemplateRun
from stream_ext.continuous.turns import UNHURRIED, Turn, TurnLimits
from stream_ext.errors import DeadlineExceeded
from stream_ext.language.algebra.algebra import Form
from stream_ext.network.operators.remote.service import Unanswered
from stream_ext.remote.allowed_urls import NOTHING, AllowedUrls
from stream_ext.remote.backoff import Backoff
from stream_ext.windows.arrivals import Arrival, arrivals
from stream_ext.windows.part import AnyPart
from stream_ext.windows.schedule import NOWHERE, QueryState, initial_state

#: Networks that are begun anew after a fault of one: with one faulty query of a thousand it is twenty.
_TRIES_MAX = 200
#: Of these so many may use up the time of an evaluation, for which all others wait.
_LATE_MAX = 12
_NOT_MADE_UP = "resuming the query leaves out what it has missed"

Found = TypeVar("Found")
Takes = Callable[[QueryDefinition], bool]


def takes_all(query: QueryDefinition) -> bool:
    return True


def takes_beside(query: QueryDefinition) -> bool:
    """The inline runner, while the others are on Spark."""
    return query.home is not None


def takes_on_spark(query: QueryDefinition) -> bool:
    return query.home is None


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
        allowed_urls: AllowedUrls = NOTHING,
        backoff: Backoff | None = None,
        budget: Budget = USUAL,
        pace: TurnLimits = UNHURRIED,
        interrupted: Callable[[], bool] = lambda: False,
    ) -> None:
        """`allowed_urls`: which endpoints SERVICE may query; or `backoff`, which contains them and is shared with other
        shards. `budget`: that of each network. Once it is `interrupted`, a step ends after the evaluation that is
        being made, and this shard is not gone on with."""
        self.store, self.takes, self._budget = store, takes, budget
        self.pace, self.interrupted = pace, interrupted
        self.backoff = backoff or Backoff(allowed_urls, lambda sn: store.row(sn).published_ms)
        self.sn = 0
        self.faults: dict[int, str] = {}
        #: Queries in quarantine: from the next step on they stay where they are.
        self.held: Collection[int] = frozenset()
        #: Called before these queries are stepped in a snapshot, or brought to it.
        self.stepping: Callable[[int, Sequence[int]], None] = lambda sn, numbers: None
        self._forget_all()

    def _forget_all(self) -> None:
        self.catalog = Catalog()
        self.those_behind = QueriesBehind(self)
        self.resumes: dict[int, QueryState] = {}  # of those that are in the middle of the snapshot they begin in
        self.in_step = False  # some run is underway in the next snapshot; else in the one that it began in
        self._turn: Turn | None = None  # of all that this shard does next; None: each run has its own
        self._unsaid: list[AnyPart] = []  # what was known while nothing could be said
        self.runs = Runs(self.store, self.backoff, self._budget)

    def build(self, states: Mapping[int, QueryState | None], sn: int) -> None:
        """Silently: every query of the catalog at `sn`, as it was at its state."""
        self.sn, self.faults = sn, {}
        self._forget_all()
        self.backoff.advance_to(sn)
        catalog = self.catalog = Catalog.read(self.store, sn)
        together: dict[tuple[object, ...], list[PlannedQuery]] = {}
        for definition in filter(self.takes, catalog.queries.values()):
            number = definition.number
            asked = self.guarded((number,), partial(self.read, definition, states.get(number), catalog))
            if asked is not None and number in self.held and asked.state.behind_at is None:
                self.those_behind.set_aside(number, sn, asked.state)
            elif asked is not None:
                key: tuple[object, ...] = (asked.number,) if asked.key is None else (asked.key, asked.place)
                together.setdefault(key, []).append(asked)
        for key, alike in [(key, alike) for key, alike in together.items() if alike[0].state.behind_at is not None]:
            self.those_behind.stay({asked.number: asked.state for asked in alike})
            del together[key]
        # Those that have never been evaluated may find others that have.
        for alike in sorted(together.values(), key=lambda alike: alike[0].state.evaluated is None):
            self._start(alike)

    def step(self, sn: int) -> list[AnyPart]:
        """The parts of the snapshot after the one that this shard is at."""
        if sn != self.sn + 1:
            raise ValueError(f"the shard is at snapshot {self.sn}: it can step to {self.sn + 1}, not to {sn}")
        self.backoff.advance_to(sn)
        parts, self._unsaid = self._unsaid, []
        parts += self.those_behind.ask_again()
        self.stepping(sn, ())
        runs, pushes = list(self.runs.all), self._pushes(sn)
        for run in runs:
            parts += self._stepped_run(run, sn, pushes)
        self.stepping(sn, ())
        self.those_behind.part_from_those_underway(in_step=True)
        self.sn = sn
        parts += self._follow_catalog(sn)
        self.those_behind.part_from_those_underway(in_step=False)
        unsaid, self._unsaid = self._unsaid, []
        return parts + unsaid

    def generation(self, number: int) -> int:
        """The snapshot since which a query runs that it has, or had a fault: who is resumed is another from then on."""
        definition = self.catalog.queries.get(number)
        return 0 if definition is None else definition.since

    @property
    def behind(self) -> dict[int, int]:
        """The queries that have fallen behind, and the snapshot at which each of them stands."""
        return self.those_behind.stand

    @property
    def has_more(self) -> bool:
        """Whether `go_on` has something to do."""
        return self.those_behind.has_more

    def go_on(self) -> list[AnyPart]:
        """A piece of what those have missed that are behind: it is the turn of one of them."""
        before = self.give_unsaid()
        parts = self.those_behind.go_on()
        return [*before, *parts, *self.give_unsaid()]

    def return_to(self, states: Mapping[int, QueryState]) -> None:
        """These queries stand where these states say, wherever they are here: nobody has what they said after that."""
        self.those_behind.return_to(states)

    def _pushes(self, sn: int) -> list[Arrival]:
        # What nobody reads may have been let go already.
        read = self.runs.streams
        return arrivals(self.store, sn, read) if read else []

    def _turn_of_run(self) -> Turn:
        return self._turn or self.pace.with_all(self.interrupted)

    def refresh(self) -> int:
        """Takes in what has been published; the new head."""
        return int(self.store.refresh())

    def close(self) -> None:
        self.store.close()

    def _follow_catalog(self, sn: int) -> list[AnyPart]:
        """Queries that come and go; what the new ones say at once."""
        before, catalog = self.catalog, self.catalog.followed(self.store, sn)
        self.catalog = catalog
        parts: list[AnyPart] = []
        if catalog.streams.keys() - before.streams.keys():
            self._widen(before, sn)
        changes = [change for change in self.store.row(sn).catalog if change.kind == "query"]
        for change in changes:
            was, definition = before.queries.get(change.number), catalog.queries.get(change.number)
            if was is not None and definition is not None and was.home != definition.home:
                parts += self._move(was, definition, sn)
                continue
            self.runs.end(change.number)
            if (unit := self.forget_fault(change.number)) is not None and unit.unanswered:
                self.backoff.forgive()
            if definition is not None and self.takes(definition):
                parts += self.guarded((change.number,), partial(self._begin, definition, catalog, sn)) or []
        return parts

    def _move(self, was: QueryDefinition, definition: QueryDefinition, sn: int) -> Sequence[AnyPart]:
        """To another shard after this snapshot, or from another to this one."""
        goes, comes = self.takes(was), self.takes(definition)
        if goes and not comes:
            self.runs.end(was.number)
            self.forget_fault(was.number)
        elif comes and not goes and definition.is_evaluated:
            return self.guarded((definition.number,), partial(self.those_behind.take_over, definition, sn)) or []
        return []

    def _widen(self, before: Catalog, sn: int) -> None:
        """What had a window on every stream gets one on the new ones, and goes on as after a restart."""
        for number, definition in before.queries.items():
            there = number in self.catalog.queries and number not in self.faults and number not in self.those_behind
            if definition.any_stream and self.takes(definition) and there:
                self.guarded((number,), partial(self._widen_one, definition, sn))

    def _widen_one(self, definition: QueryDefinition, sn: int) -> None:
        run = self.runs.of.get(definition.number)
        state = None if run is None else state_of(run, sn)
        self.runs.end(definition.number)
        self.go_on_with(definition, state)

    def go_on_with(self, definition: QueryDefinition, state: QueryState | None) -> None:
        asked = self.read(definition, state, self.catalog)
        if asked is not None:
            self._start([asked])

    def _begin(self, definition: QueryDefinition, catalog: Catalog, sn: int) -> Sequence[AnyPart]:
        if definition.number in self.held and definition.is_evaluated:
            self.those_behind.set_aside(definition.number, sn - 1, None)
            return []
        asked = self.read(definition, self.resumes.pop(definition.number, None), catalog)
        if asked is None:
            return []
        self._start([asked])
        return self._started(asked.number, sn - 1)

    def _started(self, number: int, stands: int) -> Sequence[AnyPart]:
        """What it says at once. `stands`: where it does when it has no answer from elsewhere."""
        run = self.runs.of.get(number)
        if run is None:
            return []
        try:
            return run.start(self.sn, self._turn_of_run())
        except Unanswered as error:
            return self._without_answer(run, error, stands, None)
        except StoreUnavailable:
            raise
        except Exception as error:  # noqa: BLE001  as in `guarded`
            return self._broken(run, error)

    def guarded(self, numbers: Sequence[int], call: Callable[[], Found]) -> Found | None:
        """What is found of queries; their fault must not stop the others, and is reported."""
        self.stepping(self.sn, numbers)
        try:
            return call()
        except StoreUnavailable:
            raise
        except Exception as error:  # noqa: BLE001  see above
            for number in numbers:
                self.runs.end(number)
                self._report(number, error, self.sn - 1, None)
            return None

    def _report(self, number: int, error: Exception, sn: int, state: QueryState | None) -> None:
        """`state`: that at `sn`; None: in the snapshot after it the query begins."""
        was_behind = number in self.those_behind
        self.forget_fault(number)
        if not isinstance(error, Unanswered):
            self.faults[number] = fault_of(error)
            if was_behind:
                self.give_up(number)
            return
        kind = "NotAllowed" if error.forbidden else "ServiceFailed"
        self.faults[number] = f"{kind}: {error}; {MADE_UP if error.later else _NOT_MADE_UP}"
        if error.later:
            self.those_behind.wait(number, sn, state, error.later)
        self.say_where(number, sn, state)

    def say_where(self, number: int, sn: int, state: QueryState | None) -> None:
        """With the next parts: it stands at `sn`."""
        state = state or self.catalog.queries[number].state
        kept = self.since_it_runs(number, state.behind(sn, state.within, unanswered=True))
        k = 0 if state.within is None else state.within.k
        self._unsaid.append(silent_part(number, self.sn if sn == NOWHERE else sn + 1, k, kept))

    def since_it_runs(self, number: int, state: QueryState) -> QueryState:
        """For what is said of one that was never evaluated."""
        since = self.catalog.queries[number].since
        return state if state.sn >= max(since, 1) else msgspec.structs.replace(state, sn=max(self.sn, since))

    def give_up(self, number: int) -> None:
        """With the next parts: nobody is to wait for what it has missed, for it is stepped no more."""
        part = silent_part(number, self.sn, AFTER_ALL, self.since_it_runs(number, self.catalog.queries[number].state))
        self._unsaid.append(msgspec.structs.replace(part, given_up=True))

    def forget_fault(self, number: int) -> UnitBehind | None:
        """Of those that were behind, where it was."""
        self.faults.pop(number, None)
        return self.those_behind.forget(number)

    def say(self, *parts: AnyPart) -> None:
        """With the next parts."""
        self._unsaid += parts

    def give_unsaid(self) -> list[AnyPart]:
        unsaid, self._unsaid = self._unsaid, []
        return unsaid

    # ---- a shard of some queries

    @property
    def stands(self) -> int:
        """The last snapshot that all here have got through."""
        return self.sn - (bool(self.runs.underway) and not self.in_step)

    def advance(self, turn: Turn) -> list[AnyPart]:
        """More of what the queries of this shard are underway in, else the next snapshot, as far as the turn goes."""
        self._turn = turn
        parts: list[AnyPart] = []
        underway, in_step = self.runs.underway, self.in_step
        if underway:
            for run in underway:
                parts += self._stepped_run(run, self.sn + in_step, [])
        else:
            turn.spend()
            self.backoff.advance_to(self.sn + 1)
            pushes, in_step = self._pushes(self.sn + 1), True
            for run in list(self.runs.all):
                parts += self._stepped_run(run, self.sn + 1, pushes)
        self.in_step = in_step and bool(self.runs.underway)
        if in_step and not self.in_step:
            self.sn += 1
            parts += self._follow_catalog(self.sn)
        return parts

    def of_these(self, numbers: set[int], begins_after: int = -1) -> Shard:
        """One of these queries, as long as they are among `numbers`."""

        def takes(query: QueryDefinition) -> bool:
            return query.number in numbers and query.since > begins_after

        alone = Shard(
            self.store, takes, backoff=self.backoff, budget=self._budget, pace=self.pace,
            interrupted=self.interrupted,
        )  # fmt: skip
        alone.stepping = self.stepping
        return alone

    def begin_from_here(self, definition: QueryDefinition, state: QueryState) -> Sequence[AnyPart]:
        """What it would make up for is gone: it begins anew, as one that is resumed, and its next emission says so."""
        timing = timing_of(query_over(definition, self.catalog), self.catalog, state.t0)
        begins = msgspec.structs.replace(initial_state(timing, self.store.vts(self.sn)), t0=state.t0, gap=True)
        asked = self.read(definition, None, self.catalog)
        if asked is None:
            return []
        self._start([replace(asked, timing=timing, state=begins)])
        where = silent_part(asked.number, self.sn, 0, msgspec.structs.replace(begins, sn=self.sn))
        return [where, *self._started(asked.number, NOWHERE)]

    # ---- faults of those that share a network

    def _stepped_run(self, run: Run, sn: int, pushes: Sequence[Arrival]) -> Sequence[AnyPart]:
        """What a run says; where its step fails, what those of its queries say whose fault it is not."""
        asks = not isinstance(run, TemplateRun) and run.asks_elsewhere
        stood = state_of(run, self.sn) if asks else None
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
        except Exception as error:  # noqa: BLE001  as in `guarded`
            before = run.joining_before() if isinstance(run, TemplateRun) else []
            if not before:
                return self._broken(run, error)
            self.runs.drop(run.numbers)
            queries, catalog = self.catalog.queries, self.catalog
            found = (self.read(queries[each.number], each.state, catalog) for each in before)
            alike = [asked for asked in found if asked is not None]
            again = arrivals(self.store, sn, run.streams) if was_underway else pushes
            return self._without_faulty(
                alike, error, lambda some: self.runs.of[some[0].number].step(sn, again, self._turn_of_run())
            )

    def _without_answer(self, run: Run, error: Unanswered, sn: int, stood: QueryState | None) -> Sequence[AnyPart]:
        """What it said before. It stood at `sn`, and began after it where it `stood` nowhere."""
        assert not isinstance(run, TemplateRun), "who asks elsewhere is alone"
        parts, state = run.stands_without_answer()
        if state is None or (stood is None and state.within is None):
            state = stood
        self.runs.drop(run.numbers)
        self._report(run.number, error, sn if state is None or state.behind_at is None else state.behind_at, state)
        return parts

    def _broken(self, run: Run, error: Exception) -> Sequence[AnyPart]:
        """What it said before it raised."""
        parts = [] if isinstance(run, TemplateRun) else run.told_before_fault()
        numbers = run.numbers
        self.runs.drop(numbers)
        for number in numbers:
            self._report(number, error, self.sn, None)
        return parts

    def _without_faulty(
        self,
        alike: Sequence[PlannedQuery],
        error: Exception,
        go_on: Callable[[Sequence[PlannedQuery]], Sequence[AnyPart]],
    ) -> list[AnyPart]:
        """Who fails alone is found by halves, and reported; the others go on in networks of their own."""
        parts: list[AnyPart] = []
        waiting, tries, late = _halves(alike), 0, 0
        while waiting:
            some = waiting.pop()
            tries += 1
            self.stepping(self.sn, [asked.number for asked in some])
            try:
                if tries > _TRIES_MAX or late > _LATE_MAX:
                    raise error
                self.runs.start_apart(some, self.sn)
                parts += go_on(some)
            except StoreUnavailable:
                raise
            except Exception as fault:  # noqa: BLE001  as in `guarded`
                run = self.runs.of.get(some[0].number)
                if isinstance(run, QueryRun):
                    parts += run.told_before_fault()
                self.runs.drop([asked.number for asked in some])
                late += isinstance(fault, DeadlineExceeded)
                if len(some) > 1 and tries <= _TRIES_MAX and late <= _LATE_MAX:
                    waiting += _halves(some)
                    continue
                for asked in some:
                    self._report(asked.number, fault, self.sn, asked.state)
        return parts

    # ---- who runs with whom

    def read(self, definition: QueryDefinition, state: QueryState | None, catalog: Catalog) -> PlannedQuery | None:
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
        return PlannedQuery(definition.number, query, timing, labels, shared, standing)

    def _start(self, alike: Sequence[PlannedQuery]) -> None:
        """Queries of one template that stand at one place; or one query."""
        self.stepping(self.sn, [asked.number for asked in alike])
        try:
            self.runs.start(alike, self.sn)
        except StoreUnavailable:
            raise
        except Exception as error:  # noqa: BLE001  as in `guarded`
            left = [asked for asked in alike if asked.number not in self.runs.of]
            self._without_faulty(left, error, lambda asked: [])


def _halves(some: Sequence[PlannedQuery]) -> list[Sequence[PlannedQuery]]:
    middle = len(some) // 2
    return [half for half in (some[:middle], some[middle:]) if half]


def open_shard(
    store_url: str, base: str, allowed_urls: AllowedUrls, budget: Budget, only: Collection[int] | None = None
) -> Shard:
    """For a process of its own (a Spark task, or a trial of these queries): a reader of the store, and a shard over
    it."""
    takes = takes_on_spark if only is None else lambda query: query.number in only
    return Shard(open_store(store_url, read_only=True), takes, allowed_urls, budget=budget, pace=TurnLimits())
