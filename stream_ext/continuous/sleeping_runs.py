"""Sleeping runs: those of a shard that nothing happens to, in their timing classes; who falls asleep, and who wakes."""

from __future__ import annotations

from collections.abc import Iterable

from hbase_store import Store
from stream_ext.continuous.run import Run
from stream_ext.continuous.timing_class import TimingClass, place_of, timing_without_names, wakers_of
from stream_ext.windows.part import Part
from stream_ext.windows.pushes import PushesOfSnapshot
from stream_ext.windows.timing import Timing

#: Rows times columns of the longest answer that is emitted again without a step.
_CELLS_MAX = 1 << 16
#: To fall asleep and to wake costs about as much as two steps. A run that wakes sooner stays awake for longer each
#: time, up to so many snapshots.
_SHORT, _PATIENCE_MAX = 3, 255


class SleepingRuns:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._classes: list[tuple[Timing, TimingClass]] = []
        self._of: dict[Run, TimingClass] = {}
        self._since: dict[Run, int] = {}  # the snapshot after which each sleeps

    def __contains__(self, run: Run) -> bool:
        return run in self._of

    def wake(self, run: Run) -> None:
        """Whatever is to be done with the run."""
        self._of.pop(run).wake(run)
        del self._since[run]

    def fall_asleep(self, runs: Iterable[Run], sn: int) -> list[Run]:
        """After this snapshot; returns those of the runs that sleep from now on."""
        found = []
        known = {(timing, each.place): each for timing, each in self._classes}
        for run in runs:
            wakes_at = sleeps_until(run, sn)
            if wakes_at is not None:
                timing, place = timing_without_names(run.timing), place_of(run.cohorts[0])
                if (timing, place) not in known:
                    known[timing, place] = TimingClass(run)
                    self._classes.append((timing, known[timing, place]))
                timing_class = self._of[run] = known[timing, place]
                timing_class.add(run, wakes_at)
                self._since[run] = sn
                found.append(run)
        return found

    def woken_by(self, sn: int, pushes: PushesOfSnapshot) -> list[Run]:
        """The runs that this snapshot may concern; they do not sleep any more."""
        if not self._of:
            return []
        arrivals = list(pushes)
        reads = any(each.reads_store for _, each in self._classes)
        changed = reads and len(self._store.net_changes(sn, held=True)) > 0
        wakers = {waker for arrival in arrivals for waker in wakers_of(arrival)}
        woken = [run for _, each in self._classes for run in each.woken_by(arrivals, wakers, changed)]
        for run in woken:
            is_short = sn - self._since[run] < _SHORT
            run.patience = min(2 * run.patience + 1, _PATIENCE_MAX) if is_short else run.patience // 2
            run.awake_until = sn + run.patience
            self.wake(run)
        return woken

    def step(self, sn: int, pushes: PushesOfSnapshot) -> list[Part]:
        """The parts of the runs that sleep through this snapshot."""
        arrivals, parts = list(pushes) if self._of else [], list[Part]()
        self._classes = [(timing, each) for timing, each in self._classes if not each.is_empty]
        for _, each in self._classes:
            parts += each.step(sn, arrivals)
        return parts


def sleeps_until(run: Run, sn: int) -> int | None:
    """The time before which nothing may change its result, after this snapshot; None: the next close may."""
    if sn < run.awake_until or not run.plan.may_sleep or len(run.cohorts) != 1 or run.is_underway:
        return None
    cohort, (columns, *_) = run.cohorts[0], run.evaluator.unchanged_result
    if sum(map(len, columns)) > _CELLS_MAX:
        return None  # emitting it takes the time, and may take more than a turn
    if run.plan.is_shared and not (cohort.entered and run.evaluator.has_all_rows):
        return None
    evaluated, upcoming = cohort.evaluated, cohort.schedule.upcoming()
    if evaluated is None or upcoming is None or not cohort.schedule.has_begun:
        return None
    if run.plan.reads_store and evaluated.sn != sn:
        return None  # the store may have changed since
    change = run.evaluator.triggered(False).next_change(evaluated.time)
    return change if change is not None and change > upcoming else None
