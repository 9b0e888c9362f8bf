"""The runs of a shard: which queries share a run.

Queries of one template share a run if they are evaluated at the same times. A query without such another one has a run
of its own; the next query that fits joins it there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from hbase_store import Store
from hbase_store.errors import StoreUnavailable
from stream_ext.continuous.query_budget import Budget
from stream_ext.continuous.run import Run
from stream_ext.continuous.run_plan import Joining, Key, PlannedQuery, RunPlan
from stream_ext.continuous.runs_by_timing import RunsByTiming
from stream_ext.remote.backoff import Backoff
from stream_ext.windows.part import Part
from stream_ext.windows.pushes import PushesOfSnapshot


class Runs:
    def __init__(self, store: Store, backoff: Backoff, budget: Budget) -> None:
        """`budget`: that of each network."""
        self._store, self._backoff, self._budget = store, backoff, budget
        self.of: dict[int, Run] = {}  # by query
        self.all: dict[Run, frozenset[int]] = {}  # with the streams of each
        self.awake: dict[Run, None] = {}  # those of them that are stepped
        self._by_timing = RunsByTiming()
        self._by_stream: dict[int, dict[Run, None]] = {}
        self._by_key: dict[Key, list[Run]] = {}  # those that queries may join
        self._of_several: dict[Key, None] = {}  # the keys of more than one of them
        self._not_shared: set[int] = set()  # queries whose network could not be built together with others
        self._is_quiet = False  # the present snapshot moves no stream that is read, and changes no store that is read
        self._concerned: list[Run] = []  # by the present snapshot, and those that have started in it
        self._over_store: dict[Run, None] = {}
        self._new: dict[Run, None] = {}  # in no class, since the last snapshot that moved a stream

    @property
    def streams(self) -> frozenset[int]:
        """The streams that are read."""
        return frozenset(self._by_stream)

    @property
    def underway(self) -> list[Run]:
        """Those that are in the middle of a snapshot."""
        return [run for run in self._concerned if run.is_underway and run in self.awake]

    @property
    def by_first_query(self) -> dict[int, Run]:
        """As the time that they take is charged."""
        return {run.numbers[0]: run for run in self.all if not run.is_underway}

    def own_ms(self, query_ms: Mapping[int, float]) -> dict[int, float]:
        """CPU milliseconds by first query, where the run that came first was charged for what others read, too; these
        parts are those of 0."""
        own = {0: 0.0}
        for number, ms in query_ms.items():
            run = self.of.get(number)
            for_others_ms = 0.0 if run is None else min(ms, _done_for_others_ms(run))
            own[number] = ms - for_others_ms
            own[0] += for_others_ms
        return own

    # ---- runs in timing classes

    def step_asleep(self, sn: int, pushes: PushesOfSnapshot) -> list[Part]:
        """Wakes the runs that this snapshot may concern; returns the parts of those that sleep on."""
        moved = [move.stream for move in self._store.row(sn).moves if move.stream in self._by_stream]
        reads_store = bool(self._over_store) or self._by_timing.reads_store
        changed = reads_store and self._store.has_changed(sn)
        self._is_quiet = not moved and not changed
        if self._is_quiet:  # as a registration is, beside which ten thousand runs may be awake
            self._concerned = [*self._over_store, *self.underway]
            return []
        self._by_timing.join(self._new)  # as after a restart, or once another query was registered
        self._new.clear()
        woken, parts = self._by_timing.begin(sn, pushes, moved, changed)
        self.awake |= dict.fromkeys(woken)
        of_streams = {run: None for stream in moved for run in self._by_stream[stream] if run in self.awake}
        self._concerned = [*(of_streams | dict.fromkeys((*self._over_store, *self.underway)))]
        return parts

    def in_turn(self) -> list[Run]:
        """The runs that are to be stepped with this snapshot, in this order: those that read a stream which has moved,
        or no stream. To the others nothing happens in it, awake or not."""
        return self._by_timing.in_turn(self._concerned)

    def joint_parts(self) -> list[Part]:
        """After all runs that are concerned were stepped: the parts of those that emit together."""
        return [] if self._is_quiet else self._by_timing.joint_parts()

    def settle(self, sn: int) -> None:
        """After this snapshot: runs with the same evaluations join one class. Those of them sleep to which nothing will
        happen up to their next evaluations, unless something comes."""
        there = [run for run in self._concerned if run in self.awake]
        if there and not self._is_quiet:
            for run in self._by_timing.settle(there, self.awake, sn):
                del self.awake[run]

    def _leave_class(self, run: Run, is_over: bool = False) -> None:
        if run in self._by_timing:
            self._by_timing.leave(run, is_over)
            self.awake[run] = self._new[run] = None

    # ---- queries that start

    def start(self, alike: Sequence[PlannedQuery], sn: int) -> None:
        """Starts queries of one template and one position, or one query; they join runs that exist where they can."""
        left = [planned for planned in alike if planned.key is None or not self._finds_others(planned, planned.key, sn)]
        if left:
            self.start_apart(left, sn)

    def start_apart(self, alike: Sequence[PlannedQuery], sn: int) -> None:
        budget = self._budget.of_range(alike[0].keys)
        run = Run(RunPlan(alike[0], is_shared=len(alike) > 1), self._store, self._backoff, budget)
        run.build([planned.joining for planned in alike], sn)
        self._add(run)

    def _finds_others(self, planned: PlannedQuery, key: Key, sn: int) -> bool:
        for run in self._by_key.get(key, ()):
            self._leave_class(run)
            if run.accepts(planned.timing, planned.state):
                if run.plan.is_shared:
                    run.join(planned.joining, sn)
                    self.of[planned.number] = run
                else:
                    (number,) = run.numbers
                    other = replace(run.plan.first, state=run.state_now(number, sn), timing=run.timing)
                    self.start_apart([other, planned], sn)
                    self._forget(run)
                return True
        return False

    def _add(self, run: Run) -> None:
        self.of |= dict.fromkeys(run.numbers, run)
        self.all[run], self.awake[run] = run.streams, None
        self._concerned.append(run)
        self._new[run] = None
        if run.plan.is_over_store:
            self._over_store[run] = None
        for stream in self.all[run]:
            self._by_stream.setdefault(stream, {})[run] = None
        if run.key is not None:
            self._by_key.setdefault(run.key, []).append(run)
            if len(self._by_key[run.key]) > 1:
                self._of_several[run.key] = None

    def take_in(self, other: Runs, runs: Sequence[Run]) -> None:
        """Moves these runs from `other` to here."""
        for run in runs:
            for number in run.numbers:
                del other.of[number]
            other._leave_class(run)
            other._forget(run)
            self._add(run)

    # ---- queries that have become alike

    def gather(self, sn: int) -> None:
        """After this snapshot: runs of one template that are evaluated at the same arrivals from now on become one."""
        if self._is_quiet:
            return
        for runs in [list(self._by_key[key]) for key in self._of_several]:
            alike: dict[tuple[object, ...], list[Run]] = {}
            for run in runs:
                if (likeness := _likeness(run)) is not None and self._not_shared.isdisjoint(run.numbers):
                    alike.setdefault(likeness, []).append(run)
            for some in alike.values():
                if len(some) > 1:
                    self._make_one_of(some, sn)

    def _make_one_of(self, runs: Sequence[Run], sn: int) -> None:
        into = next((run for run in runs if run.plan.is_shared), None)
        if into is None:
            numbers = [run.numbers[0] for run in runs]
            singles = [
                replace(run.plan.first, state=run.state_now(number, sn), timing=run.timing)
                for run, number in zip(runs, numbers, strict=True)
            ]
            try:
                self.start_apart(singles, sn)
            except StoreUnavailable:
                raise
            except Exception:  # noqa: BLE001  each goes on alone, and reports its own fault, if it has one
                self._not_shared.update(numbers)
                return
            for run in runs:
                self._forget(run)
            return
        for run in runs:
            if run is not into:
                into.join_evaluated(_joining_now(run, sn), sn)
                self.of |= dict.fromkeys(run.numbers, into)
                self._forget(run)

    # ---- queries that end

    def end(self, number: int) -> None:
        run = self.of.pop(number, None)
        self._not_shared.discard(number)
        if run is not None:
            self._leave_class(run, is_over=len(run.numbers) == 1)
            run.leave(number)
            if run.is_empty:
                self._forget(run)

    def drop(self, numbers: Sequence[int]) -> None:
        """Ends the runs of these queries, which have no other queries."""
        runs = [run for number in numbers if (run := self.of.pop(number, None)) is not None]
        for run in dict.fromkeys(runs):
            self._forget(run)

    def _forget(self, run: Run) -> None:
        """The run is not stepped any more, and no query joins it."""
        if run not in self.all:
            return
        self._leave_class(run, is_over=True)
        streams = self.all.pop(run)
        del self.awake[run]
        self._over_store.pop(run, None)
        self._new.pop(run, None)
        for stream in streams:
            del self._by_stream[stream][run]
            if not self._by_stream[stream]:
                del self._by_stream[stream]
        if run.key is not None:
            self._by_key[run.key].remove(run)
            if len(self._by_key[run.key]) <= 1:
                self._of_several.pop(run.key, None)
            if not self._by_key[run.key]:
                del self._by_key[run.key]


def _likeness(run: Run) -> tuple[object, ...] | None:
    """Equal for runs of one template that are evaluated at the same arrivals from now on, and see the same elements as
    new; None: the run has no numbered evaluations, or was not evaluated yet."""
    if run.evaluator.numbered is None or len(run.cohorts) != 1 or not run.cohorts[0].entered:
        return None
    return run.timing, *run.cohorts[0].likeness


def _joining_now(run: Run, sn: int) -> list[Joining]:
    """All its queries, with their states after this snapshot."""
    (cohort,) = run.cohorts
    if run.plan.is_shared:
        return cohort.joining(cohort.whole_state(sn))
    return [replace(run.plan.first, state=run.state_now(cohort.only, sn)).joining]


def _done_for_others_ms(run: Run) -> float:
    found = (each.network.sharing for each in run.evaluator.networks)
    return sum(sharing.done_for_others_ms() for sharing in found if sharing is not None)
