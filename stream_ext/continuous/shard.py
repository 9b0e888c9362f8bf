"""The shard: the networks of all registered queries, stepped from snapshot to snapshot.

It knows no process, no clock and no socket: the endpoint's inline runner and a task on Spark use the same class and get
the same parts from it. Beyond the store, it needs only the state of each query; it rebuilds the rest."""

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
from stream_ext.catalog.registered import Handed
from stream_ext.continuous.assignment import DividedQueries, IsAssigned, RangesOf, all_assigned, divides_none, on_spark
from stream_ext.continuous.catching_up.queries_behind import QueriesBehind
from stream_ext.continuous.catching_up.turns import UNHURRIED, Turn, TurnLimits
from stream_ext.continuous.catching_up.unit_behind import NoReplays, Replays, UnitBehind
from stream_ext.continuous.faults import CAUGHT_UP_LATER, fault_of
from stream_ext.continuous.faulty_runs import FaultyRuns
from stream_ext.continuous.query_budget import USUAL, Budget
from stream_ext.continuous.run import Run
from stream_ext.continuous.run_plan import PlannedQuery
from stream_ext.continuous.runs import Runs
from stream_ext.continuous.steps import AFTER_ALL
from stream_ext.emissions.finishing import finish
from stream_ext.network.operators.remote.service import Unanswered
from stream_ext.remote.allowed_urls import NOTHING, AllowedUrls
from stream_ext.remote.backoff import Backoff
from stream_ext.remote.sources import NO_SOURCES, Sources
from stream_ext.windows.part import Part
from stream_ext.windows.pushes import PushesOfSnapshot
from stream_ext.windows.query_state import NOWHERE, QueryState
from stream_ext.windows.schedule import initial_state

_NOT_CAUGHT_UP = "a resumed query skips what it has missed"

Found = TypeVar("Found")


class Shard:
    """The runs at snapshot `sn` of all queries, or of those that are assigned to the shard. A query whose step raises
    is reported in `faults` and not stepped again; the queries that shared a network with it continue without it.

    A query without an answer from a remote endpoint is reported, too. It is stepped again from its position, snapshot
    by snapshot, once there may be an answer. The same holds for queries with more due evaluations in a snapshot than
    the others can wait for: `step_one_behind` steps them, a piece at a time, until they have caught up.

    Queries of one template share a run if they are evaluated at the same times; any other query has a run of its own.
    A store that does not answer is no query's fault: StoreUnavailable goes to the runner, which builds a new shard."""

    def __init__(
        self,
        store: Store,
        is_assigned: IsAssigned = all_assigned,
        allowed_urls: AllowedUrls = NOTHING,
        backoff: Backoff | None = None,
        budget: Budget = USUAL,
        pace: TurnLimits = UNHURRIED,
        interrupted: Callable[[], bool] = lambda: False,
        sources: Sources = NO_SOURCES,
        clock_ms: Callable[[], int] | None = None,
        ranges_of: RangesOf = divides_none,
        handed: Handed | None = None,
    ) -> None:
        """`allowed_urls` and `sources`: what SERVICE may ask; or a `backoff` that several shards share, which knows
        them. `budget`: that of each network. Once the shard is `interrupted`, a step ends after the evaluation that is
        under way, and the shard is not stepped again. `clock_ms` says when a source was asked; `ranges_of`: see
        `DividedQueries`; `handed`: what the writer has found out about the latest registrations."""
        self._handed = handed or Handed()
        self.store, self.is_assigned, self._budget = store, is_assigned, budget
        self.pace, self.interrupted = pace, interrupted
        self.backoff = backoff or Backoff(allowed_urls, lambda sn: store.row(sn).published_ms, sources, clock_ms)
        self._faulty, self.divided = FaultyRuns(self), DividedQueries(ranges_of)
        self.sn = 0
        self.faults: dict[int, str] = {}
        #: Queries in quarantine: from the next step on they are not stepped.
        self.suspended: Collection[int] = frozenset()
        self.replays: Replays = NoReplays()  # by other processes
        #: Called before these queries are stepped in a snapshot, or brought to it.
        self.stepping: Callable[[int, Sequence[int]], None] = lambda sn, numbers: None
        self._forget_all()

    def _forget_all(self) -> None:
        self.catalog = Catalog()
        self.all_behind = QueriesBehind(self)
        self.resumes: dict[int, QueryState] = {}  # of queries in the middle of the snapshot in which they begin
        self.in_step = False  # runs that are underway are in the next snapshot; else in the one in which they began
        self._turn: Turn | None = None  # the turn of all runs together; None: each run has its own
        self._unsent: list[Part] = []  # parts that are returned with the next ones
        self.runs = Runs(self.store, self.backoff, self._budget)

    def build(self, states: Mapping[int, QueryState | None], sn: int) -> None:
        """Without results: every query of the catalog at `sn`, from its state."""
        self.sn, self.faults = sn, {}
        self._forget_all()
        self.backoff.advance_to(sn)
        catalog = self.catalog = Catalog.read(self.store, sn)
        together: dict[tuple[object, ...], list[PlannedQuery]] = {}
        for definition in filter(self.is_assigned, catalog.queries.values()):
            number = definition.number
            planned = self.guarded((number,), partial(self.read, definition, states.get(number), catalog))
            if planned is not None and number in self.suspended and planned.state.behind_at is None:
                self.all_behind.set_aside(number, sn, planned.state)
            elif planned is not None:
                key: tuple[object, ...] = (planned.number,) if planned.key is None else (planned.key, planned.place)
                together.setdefault(key, []).append(planned)
        for key, alike in [(key, alike) for key, alike in together.items() if alike[0].state.behind_at is not None]:
            self.all_behind.stay({planned.number: planned.state for planned in alike})
            del together[key]
        # Queries that were never evaluated may join runs of queries that were.
        for alike in sorted(together.values(), key=lambda alike: alike[0].state.evaluated is None):
            self._start(alike)

    def step(self, sn: int) -> list[Part]:
        """The parts of the snapshot after the one that this shard is at."""
        if sn != self.sn + 1:
            raise ValueError(f"the shard is at snapshot {self.sn}: it can step to {self.sn + 1}, not to {sn}")
        self.backoff.advance_to(sn)
        parts = [*self.take_unsent(), *self.all_behind.ask_again()]
        self.stepping(sn, ())
        pushes = PushesOfSnapshot(self.store, sn, self.runs.streams)
        parts += self.runs.step_asleep(sn, pushes)
        for run in self.runs.in_turn():
            parts += self._faulty.stepped(run, sn, pushes)
        self.stepping(sn, ())
        parts += self.runs.joint_parts()
        self.all_behind.separate_runs_underway(in_step=True)
        self.sn = sn
        self.runs.gather(sn)
        self.runs.settle(sn)
        parts += self._follow_catalog(sn)
        self.all_behind.separate_runs_underway(in_step=False)
        return self.divided.marked(parts + self.take_unsent())

    def finished(self, parts: Sequence[Part], subscribed: Collection[int]) -> list[Part]:
        """The parts with the texts of their terms, and of `subscribed` queries with their rows as JSON."""
        stepping = partial(self.stepping, self.sn)
        return [finish(part, self.store.terms, self.catalog.queries, subscribed, stepping) for part in parts]

    def generation(self, number: int) -> int:
        """The snapshot since which a query runs; a query that is resumed has a new one, and so a new fault."""
        definition = self.catalog.queries.get(number)
        return 0 if definition is None else definition.since

    @property
    def own_faults(self) -> dict[int, str]:
        """Without those of divided queries, which are evaluated again as a whole."""
        return self.divided.without_them(self.faults)

    @property
    def behind(self) -> dict[int, int]:
        """The queries that have fallen behind, and the snapshot up to which each was stepped. Those that are divided
        cannot; as a whole they may."""
        return self.divided.without_them(self.all_behind.positions)

    @property
    def has_more(self) -> bool:
        """Whether `step_one_behind` has something to do."""
        return self.all_behind.has_more

    def step_one_behind(self) -> list[Part]:
        """Steps one of the queries that are behind, for one turn."""
        before = self.take_unsent()
        parts = self.all_behind.step_one()
        return self.divided.marked([*before, *parts, *self.take_unsent()])

    def return_to(self, states: Mapping[int, QueryState]) -> None:
        """These queries return to these states, wherever they are here: nobody has what they emitted after that."""
        self.all_behind.return_to(states)

    def turn_of_run(self, run: Run) -> Turn:
        return self._turn or (self.pace if run.plan.keys is None else self.pace.of_range).with_all(self.interrupted)

    def refresh(self) -> int:
        """Reads what has been published; returns the new head."""
        return int(self.store.refresh())

    def close(self) -> None:
        self.store.close()

    def _follow_catalog(self, sn: int) -> list[Part]:
        """Starts and ends queries as the catalog changed; returns the first parts of the new ones."""
        before = self.catalog
        self.catalog = catalog = before.followed(self.store, sn, self._handed.definition)
        parts: list[Part] = []
        if catalog.streams.keys() - before.streams.keys():
            self._widen(before, sn)
        if catalog.main is not None and (before.main is None or catalog.main.is_fresher_than(before.main)):
            self.backoff.of_main.end_turn()
        changes = [change for change in self.store.row(sn).catalog if change.kind == "query"]
        for change in changes:
            was, definition = before.queries.get(change.number), catalog.queries.get(change.number)
            if was is not None and definition is not None and was.home != definition.home:
                parts += self._move(was, definition, sn)
                continue
            self.runs.end(change.number)
            if (unit := self.forget_fault(change.number)) is not None and unit.unanswered:
                self.backoff.forgive()
            if definition is not None and self.is_assigned(definition):
                parts += self.guarded((change.number,), partial(self._begin, definition, catalog, sn)) or []
        return parts

    def _move(self, was: QueryDefinition, definition: QueryDefinition, sn: int) -> Sequence[Part]:
        """A query moves to another shard after this snapshot, or from another shard to this one."""
        leaves, enters = self.is_assigned(was), self.is_assigned(definition)
        if leaves and not enters:
            self.runs.end(was.number)
            self.forget_fault(was.number)
        elif enters and not leaves and definition.is_evaluated:
            return self.guarded((definition.number,), partial(self.all_behind.take_over, definition, sn)) or []
        return []

    def _widen(self, before: Catalog, sn: int) -> None:
        """Queries with a window on every stream get one on each new stream, and continue as after a restart."""
        for number, definition in before.queries.items():
            there = number in self.catalog.queries and number not in self.faults and number not in self.all_behind
            if definition.any_stream and self.is_assigned(definition) and there:
                self.guarded((number,), partial(self._widen_one, definition, sn))

    def _widen_one(self, definition: QueryDefinition, sn: int) -> None:
        run = self.runs.of.get(definition.number)
        state = None if run is None else run.query_state(sn)
        self.runs.end(definition.number)
        self.go_on_with(definition, state)

    def go_on_with(self, definition: QueryDefinition, state: QueryState | None) -> None:
        planned = self.read(definition, state, self.catalog)
        if planned is not None:
            self._start([planned])

    def _begin(self, definition: QueryDefinition, catalog: Catalog, sn: int) -> Sequence[Part]:
        if definition.number in self.suspended and definition.is_evaluated:
            self.all_behind.set_aside(definition.number, sn - 1, None)
            return []
        planned = self.read(definition, self.resumes.pop(definition.number, None), catalog)
        if planned is None or self.all_behind.replays(planned, sn):
            return []
        self._start([planned])
        return self._started(planned.number, sn - 1)

    def _started(self, number: int, behind_at: int) -> Sequence[Part]:
        """The first parts of a query. `behind_at`: its position if a remote endpoint does not answer."""
        run = self.runs.of.get(number)
        if run is None:
            return []
        try:
            return run.start(self.sn, self.turn_of_run(run))
        except Unanswered as error:
            return self._faulty.without_answer(run, error, behind_at, None)
        except StoreUnavailable:
            raise
        except Exception as error:  # noqa: BLE001  as in `guarded`
            return self._faulty.broken(run, error)

    def guarded(self, numbers: Sequence[int], call: Callable[[], Found]) -> Found | None:
        """The result of `call`, a step of these queries. A fault does not stop the other queries; it is reported."""
        self.stepping(self.sn, numbers)
        try:
            return call()
        except StoreUnavailable:
            raise
        except Exception as error:  # noqa: BLE001  see above
            for number in numbers:
                self.runs.end(number)
                self.report(number, error, self.sn - 1, None)
            return None

    def report(self, number: int, error: Exception, sn: int, state: QueryState | None) -> None:
        """`state`: the state at `sn`; None: the query begins in the snapshot after `sn`."""
        is_awaited = number in self.all_behind or number in self.divided
        self.forget_fault(number)
        if not isinstance(error, Unanswered):
            self.faults[number] = fault_of(error)
            if is_awaited:
                self.give_up(number)
            return
        kind = "SourceFailed" if error.position is None else "NotAllowed" if error.forbidden else "ServiceFailed"
        self.faults[number] = f"{kind}: {error}; {CAUGHT_UP_LATER if error.later else _NOT_CAUGHT_UP}"
        if error.later:
            self.all_behind.wait(number, sn, state, error.later)
        self.report_position(number, sn, state)

    def report_position(self, number: int, sn: int, state: QueryState | None) -> None:
        """Adds to the next parts that the query is behind, at `sn`."""
        state = state or self.catalog.queries[number].state
        state_of_part = self.since_it_runs(number, state.behind(sn, state.within, unanswered=True))
        k = 0 if state.within is None else state.within.k
        self._unsent.append(Part.silent(number, self.sn if sn == NOWHERE else sn + 1, k, state_of_part))

    def since_it_runs(self, number: int, state: QueryState) -> QueryState:
        """The state, but not older than the query: of a query that was never evaluated it may be."""
        since = self.catalog.queries[number].since
        return state if state.sn >= max(since, 1) else msgspec.structs.replace(state, sn=max(self.sn, since))

    def give_up(self, number: int) -> None:
        """Adds to the next parts that nobody is to wait for what the query missed: it is not stepped again."""
        part = Part.silent(number, self.sn, AFTER_ALL, self.since_it_runs(number, self.catalog.queries[number].state))
        self._unsent.append(msgspec.structs.replace(part, given_up=True))

    def forget_fault(self, number: int) -> UnitBehind | None:
        """Returns the unit of a query that was behind."""
        self.faults.pop(number, None)
        return self.all_behind.forget(number)

    def send_later(self, *parts: Part) -> None:
        """Adds these to the next parts."""
        self._unsent += parts

    def take_unsent(self) -> list[Part]:
        unsent, self._unsent = self._unsent, []
        return unsent

    # ---- a shard of some queries

    @property
    def position(self) -> int:
        """The last snapshot that all queries of this shard have completed."""
        return self.sn - (bool(self.runs.underway) and not self.in_step)

    def advance(self, turn: Turn) -> list[Part]:
        """Continues the snapshot that the queries are underway in, else steps the next one, as far as the turn goes."""
        self._turn, parts = turn, list[Part]()
        underway, in_step = self.runs.underway, self.in_step
        if underway:
            for run in underway:
                parts += self._faulty.stepped(run, self.sn + in_step, PushesOfSnapshot(self.store, self.sn, ()))
        else:
            turn.spend()
            self.backoff.advance_to(self.sn + 1)
            pushes, in_step = PushesOfSnapshot(self.store, self.sn + 1, self.runs.streams), True
            for run in list(self.runs.all):
                parts += self._faulty.stepped(run, self.sn + 1, pushes)
        self.in_step = in_step and bool(self.runs.underway)
        if in_step and not self.in_step:
            self.sn += 1
            parts += self._follow_catalog(self.sn)
        return parts

    def restricted_to(self, numbers: set[int], begins_after: int = -1) -> Shard:
        """A shard of the queries in `numbers`, a set that may shrink, which run since a snapshot after
        `begins_after`."""

        def among(query: QueryDefinition) -> bool:
            return query.number in numbers and query.since > begins_after

        pace, interrupted = self.pace, self.interrupted
        shard = Shard(self.store, among, backoff=self.backoff, budget=self._budget, pace=pace, interrupted=interrupted)
        shard.stepping, shard.divided = self.stepping, self.divided
        return shard

    def begin_from_here(self, definition: QueryDefinition, state: QueryState) -> Sequence[Part]:
        """What the query missed is deleted: it begins anew, like a resumed query, and its next emission has `gap`."""
        planned = self.read(definition, None, self.catalog)
        if planned is None:
            return []
        timing = planned.registered.timing_from(state.t0)
        begins = msgspec.structs.replace(
            initial_state(timing, self.store.vts(self.sn), self.sn, state), t0=state.t0, gap=True
        )
        self._start([replace(planned, timing=timing, state=begins)])
        where = Part.silent(planned.number, self.sn, 0, msgspec.structs.replace(begins, sn=self.sn))
        return [where, *self._started(planned.number, NOWHERE)]

    # ---- which queries share a run

    def read(self, definition: QueryDefinition, state: QueryState | None, catalog: Catalog) -> PlannedQuery | None:
        """How a query is evaluated; None: it is paused, has failed, or waits for a first stream."""
        if not definition.is_evaluated:
            return None
        registered, state_now = self._handed.take(definition, catalog), definition.current_state(state)
        if definition.any_stream and not registered.timing.windows:
            return None
        keys = self.divided.range_of(definition, registered)
        return PlannedQuery(definition.number, registered, registered.timing_from(state_now.t0), state_now, keys)

    def _start(self, alike: Sequence[PlannedQuery]) -> None:
        """Starts queries of one template and one position, or one query."""
        self.stepping(self.sn, [planned.number for planned in alike])
        try:
            self.runs.start(alike, self.sn)
        except StoreUnavailable:
            raise
        except Exception as error:  # noqa: BLE001  as in `guarded`
            left = [planned for planned in alike if planned.number not in self.runs.of]
            self._faulty.without_them(left, error, lambda planned: [])


def open_shard(
    store_url: str, base: str, allowed_urls: AllowedUrls, budget: Budget, only: Collection[int] | None = None
) -> Shard:
    """For a process of its own (a Spark task, or a trial of these queries): a reader of the store, and a shard over
    it."""
    is_assigned = on_spark if only is None else lambda query: query.number in only
    return Shard(open_store(store_url, read_only=True), is_assigned, allowed_urls, budget=budget, pace=TurnLimits())
