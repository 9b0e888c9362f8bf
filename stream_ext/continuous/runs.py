"""The runs of a shard: which queries share a run.

Queries of one template share a run if they are evaluated at the same times. A query without such another one has a run
of its own; the next query that fits joins it there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from hbase_store import Store
from stream_ext.catalog.registered import Registered
from stream_ext.continuous.members import Joining
from stream_ext.continuous.query_budget import Budget
from stream_ext.continuous.query_run import QueryRun
from stream_ext.continuous.steps import AFTER_ALL, silent_part
from stream_ext.continuous.store_run import StoreRun
from stream_ext.continuous.template_run import TemplateRun
from stream_ext.plan.templates import QueryTemplate
from stream_ext.remote.backoff import Backoff
from stream_ext.windows.part import AnyPart
from stream_ext.windows.schedule import QueryState, Timing

Run = QueryRun | StoreRun | TemplateRun
#: Equal for queries that may share a network: the template, and the names of its streams.
Key = tuple[QueryTemplate, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class PlannedQuery:
    """A query of the catalog that is to run. `timing`: with T0, if it is known."""

    number: int
    registered: Registered
    timing: Timing
    state: QueryState

    @property
    def key(self) -> Key | None:
        shared = self.registered.parametrised
        return None if shared is None else (shared.template, self.registered.labels)

    @property
    def place(self) -> tuple[object, ...]:
        """Equal for queries with the same evaluation times from now on, and the same last evaluation."""
        last, state = self.state.evaluated, self.state
        at = None if last is None else (last.sn, last.push, last.time)
        return self.timing, at, state.after, state.last, state.behind_at, state.within and state.within.push

    @property
    def joining(self) -> Joining:
        shared = self.registered.parametrised
        assert shared is not None, "only queries with a key join others"
        return Joining(self.number, shared.constants, self.state)


class Runs:
    def __init__(self, store: Store, backoff: Backoff, budget: Budget) -> None:
        """`budget`: that of each network."""
        self._store, self._backoff, self._budget = store, backoff, budget
        self.of: dict[int, Run] = {}  # by query
        self.all: dict[Run, None] = {}  # each once
        self._single: dict[int, PlannedQuery] = {}  # queries that may share a run, and have one of their own
        self._templates: dict[Key, list[QueryRun | TemplateRun]] = {}
        self._keys: dict[QueryRun | TemplateRun, Key] = {}

    @property
    def streams(self) -> frozenset[int]:
        """The streams that are read."""
        return frozenset[int]().union(*(run.streams for run in self.all))

    @property
    def underway(self) -> list[Run]:
        """Those that are in the middle of a snapshot."""
        return [run for run in self.all if run.is_underway]

    # ---- queries that start

    def start(self, alike: Sequence[PlannedQuery], sn: int) -> None:
        """Starts queries of one template and one position, or one query; they join runs that exist where they can."""
        left = [planned for planned in alike if planned.key is None or not self._finds_others(planned, planned.key, sn)]
        if left:
            self.start_apart(left, sn)

    def start_apart(self, alike: Sequence[PlannedQuery], sn: int) -> None:
        if len(alike) > 1:
            self._share(alike, sn)
        else:
            self._start_single(alike[0], sn)

    def _finds_others(self, planned: PlannedQuery, key: Key, sn: int) -> bool:
        for run in self._templates.get(key, ()):
            if run.accepts(planned.timing, planned.state):
                if isinstance(run, TemplateRun):
                    run.join(planned.joining, sn)
                    self.of[planned.number] = run
                else:
                    other = replace(self._single[run.number], state=run.state_now(sn), timing=run.timing)
                    self._share([other, planned], sn)
                    self._forget(run)
                return True
        return False

    def _start_single(self, planned: PlannedQuery, sn: int) -> None:
        registered = planned.registered
        if not registered.timing.windows:
            over_store = StoreRun(planned.number, registered.query, self._store, self._backoff, self._budget)
            over_store.resume(planned.state, sn)
            self._run([planned], over_store)
            return
        single = QueryRun(planned.number, registered, planned.timing, self._store, self._backoff, self._budget)
        single.resume(planned.state, sn)
        self._run([planned], single)
        if planned.key is not None:
            self._single[planned.number] = planned
            self._keep(single, planned.key)

    def _share(self, alike: Sequence[PlannedQuery], sn: int) -> None:
        first = alike[0]
        assert first.registered.parametrised is not None and first.key is not None
        shared = TemplateRun(
            first.registered.parametrised.template, first.registered, first.timing, self._store, self._budget
        )
        shared.build([planned.joining for planned in alike], sn)
        self._run(alike, shared)
        self._keep(shared, first.key)

    def _run(self, alike: Sequence[PlannedQuery], run: Run) -> None:
        self.of |= dict.fromkeys((planned.number for planned in alike), run)
        self.all[run] = None

    def _keep(self, run: QueryRun | TemplateRun, key: Key) -> None:
        self._keys[run] = key
        self._templates.setdefault(key, []).append(run)

    def take_in(self, other: Runs, runs: Sequence[Run]) -> None:
        """Moves these runs from `other` to here."""
        for run in runs:
            numbers = run.numbers
            key = None if isinstance(run, StoreRun) else other._keys.get(run)
            single = {number: other._single[number] for number in numbers if number in other._single}
            for number in numbers:
                del other.of[number]
            other._forget(run)
            self.of |= dict.fromkeys(numbers, run)
            self.all[run] = None
            self._single |= single
            if key is not None:
                assert not isinstance(run, StoreRun)
                self._keep(run, key)

    # ---- queries that end

    def end(self, number: int) -> None:
        run = self.of.pop(number, None)
        if isinstance(run, TemplateRun):
            run.leave(number)
            if run.is_empty:
                self._forget(run)
        elif run is not None:
            self._forget(run)

    def drop(self, numbers: Sequence[int]) -> None:
        """Ends the runs of these queries, which have no other queries."""
        runs = [run for number in numbers if (run := self.of.pop(number, None)) is not None]
        for run in dict.fromkeys(runs):
            self._forget(run)

    def _forget(self, run: Run) -> None:
        """The run is not stepped any more, and no query joins it."""
        self.all.pop(run, None)
        if isinstance(run, StoreRun):
            return
        if isinstance(run, QueryRun):
            self._single.pop(run.number, None)
        key = self._keys.pop(run, None)
        if key is not None:
            self._templates[key].remove(run)
            if not self._templates[key]:
                del self._templates[key]


def state_of(run: Run, sn: int) -> QueryState:
    """The state of a run of one query."""
    assert not isinstance(run, TemplateRun)
    return run.stand(sn)


def silent_parts(run: Run, sn: int, behind_at: int | None) -> Sequence[AnyPart]:
    """Parts that store the progress of a run's queries. `behind_at`: the queries are behind the others, at that
    snapshot."""
    if isinstance(run, TemplateRun):
        return run.silent_parts(sn, behind_at)
    state = run.state_now(sn)
    return [silent_part(run.number, sn, AFTER_ALL, state if behind_at is None else state.behind(behind_at))]
