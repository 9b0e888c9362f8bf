"""The runs of a shard: who runs with whom.

Queries of one template share a run where they are evaluated at the same times; one that has no such other runs alone,
and is found by the next that comes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from hbase_store import Store
from stream_ext.continuous.members import Joining
from stream_ext.continuous.query_budget import Budget
from stream_ext.continuous.query_run import QueryRun
from stream_ext.continuous.steps import AFTER_ALL, silent_part
from stream_ext.continuous.store_run import StoreRun
from stream_ext.continuous.template_run import TemplateRun
from stream_ext.language.algebra.algebra import Query
from stream_ext.plan.templates import Parametrised, QueryTemplate
from stream_ext.remote.backoff import Backoff
from stream_ext.windows.part import AnyPart
from stream_ext.windows.schedule import QueryState, Timing

Run = QueryRun | StoreRun | TemplateRun
#: Equal for queries that may share a network: the template, and how its streams are called.
Key = tuple[QueryTemplate, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class PlannedQuery:
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
        return self.timing, at, state.after, state.last, state.behind_at, state.within and state.within.push

    @property
    def joining(self) -> Joining:
        assert self.parametrised is not None
        return Joining(self.number, self.parametrised.constants, self.state)


class Runs:
    def __init__(self, store: Store, backoff: Backoff, budget: Budget) -> None:
        """`budget`: that of each network."""
        self._store, self._backoff, self._budget = store, backoff, budget
        self.of: dict[int, Run] = {}  # by query
        self.all: dict[Run, None] = {}  # each once
        self._alone: dict[int, PlannedQuery] = {}  # those without others that might have some
        self._templates: dict[Key, list[QueryRun | TemplateRun]] = {}
        self._keys: dict[QueryRun | TemplateRun, Key] = {}

    @property
    def streams(self) -> frozenset[int]:
        """That are read."""
        return frozenset[int]().union(*(run.streams for run in self.all))

    @property
    def underway(self) -> list[Run]:
        """Those that are in the middle of a snapshot."""
        return [run for run in self.all if run.is_underway]

    # ---- who comes

    def start(self, alike: Sequence[PlannedQuery], sn: int) -> None:
        """Queries of one template that stand at one place, or one query; with those that run already."""
        left = [asked for asked in alike if asked.key is None or not self._finds_others(asked, asked.key, sn)]
        if left:
            self.start_apart(left, sn)

    def start_apart(self, alike: Sequence[PlannedQuery], sn: int) -> None:
        if len(alike) > 1:
            self._share(alike, sn)
        else:
            self._start_alone(alike[0], sn)

    def _finds_others(self, asked: PlannedQuery, key: Key, sn: int) -> bool:
        for run in self._templates.get(key, ()):
            if run.accepts(asked.timing, asked.state):
                if isinstance(run, TemplateRun):
                    run.join(asked.joining, sn)
                    self.of[asked.number] = run
                else:
                    other = replace(self._alone[run.number], state=run.state_now(sn), timing=run.timing)
                    self._share([other, asked], sn)
                    self._forget(run)
                return True
        return False

    def _start_alone(self, asked: PlannedQuery, sn: int) -> None:
        if not asked.query.windows:
            over_store = StoreRun(asked.number, asked.query, self._store, self._backoff, self._budget)
            over_store.resume(asked.state, sn)
            self._run([asked], over_store)
            return
        alone = QueryRun(
            asked.number, asked.query, asked.timing, asked.labels, self._store, self._backoff, self._budget
        )
        alone.resume(asked.state, sn)
        self._run([asked], alone)
        if asked.key is not None:
            self._alone[asked.number] = asked
            self._keep(alone, asked.key)

    def _share(self, alike: Sequence[PlannedQuery], sn: int) -> None:
        first = alike[0]
        assert first.parametrised is not None and first.key is not None
        shared = TemplateRun(
            first.parametrised.template, first.query, first.timing, first.labels, self._store, self._budget
        )
        shared.build([asked.joining for asked in alike], sn)
        self._run(alike, shared)
        self._keep(shared, first.key)

    def _run(self, alike: Sequence[PlannedQuery], run: Run) -> None:
        self.of |= dict.fromkeys((asked.number for asked in alike), run)
        self.all[run] = None

    def _keep(self, run: QueryRun | TemplateRun, key: Key) -> None:
        self._keys[run] = key
        self._templates.setdefault(key, []).append(run)

    def take_in(self, other: Runs, runs: Sequence[Run]) -> None:
        """These are here from now on, and there no more."""
        for run in runs:
            numbers = run.numbers
            key = None if isinstance(run, StoreRun) else other._keys.get(run)
            alone = {number: other._alone[number] for number in numbers if number in other._alone}
            for number in numbers:
                del other.of[number]
            other._forget(run)
            self.of |= dict.fromkeys(numbers, run)
            self.all[run] = None
            self._alone |= alone
            if key is not None:
                assert not isinstance(run, StoreRun)
                self._keep(run, key)

    # ---- who goes

    def end(self, number: int) -> None:
        run = self.of.pop(number, None)
        if isinstance(run, TemplateRun):
            run.leave(number)
            if run.is_empty:
                self._forget(run)
        elif run is not None:
            self._forget(run)

    def drop(self, numbers: Sequence[int]) -> None:
        """Their runs, which are of no others."""
        runs = [run for number in numbers if (run := self.of.pop(number, None)) is not None]
        for run in dict.fromkeys(runs):
            self._forget(run)

    def _forget(self, run: Run) -> None:
        """It is stepped no more, and nobody joins it."""
        self.all.pop(run, None)
        if isinstance(run, StoreRun):
            return
        if isinstance(run, QueryRun):
            self._alone.pop(run.number, None)
        key = self._keys.pop(run, None)
        if key is not None:
            self._templates[key].remove(run)
            if not self._templates[key]:
                del self._templates[key]


def state_of(run: Run, sn: int) -> QueryState:
    """Of a run of one query."""
    assert not isinstance(run, TemplateRun)
    return run.stand(sn)


def silent_parts(run: Run, sn: int, stands: int | None) -> Sequence[AnyPart]:
    """How far its queries have come; `stands`: they are behind the others."""
    if isinstance(run, TemplateRun):
        return run.silent_parts(sn, stands)
    state = run.state_now(sn)
    return [silent_part(run.number, sn, AFTER_ALL, state if stands is None else state.behind(stands))]
