"""The membership of a run in a timing class: while it is in one, the class has its schedule and the occupancy of its
windows, and says with each snapshot what it is stepped through."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from stream_ext.continuous.course import Course
from stream_ext.continuous.joint_parts import JointParts, fits
from stream_ext.continuous.results import Result
from stream_ext.continuous.shared_stages import SharedStages
from stream_ext.windows.occupancy import Occupancy
from stream_ext.windows.schedule import Schedule

if TYPE_CHECKING:
    from stream_ext.continuous.run import Run


class ClassMembership:
    """`course`: of the snapshot that the run is stepped in, or is to be stepped in next; None: it is in no class."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self.course: Course | None = None
        self._leaves = False  # when the course is done
        self._shared: SharedStages | None = None  # of the class that it is in
        self.joint: JointParts | None = None  # its parts are those of these members

    def join(self, schedule: Schedule, shared: SharedStages) -> None:
        self._run.cohorts[0].join_class(schedule)
        self._shared = shared
        self.renewed()

    def released(self) -> None:
        """The run's network is about to be replaced by another one."""
        if self._shared is not None:
            self._shared.leave(self._run, is_over=True)

    def renewed(self) -> None:
        """The run has a network of its own."""
        if self._shared is not None:
            self._run.evaluator.triggered(False).join_class()
            self._shared.join(self._run)

    def may_emit_together(self) -> bool:
        """Whether its results, whatever they are, may be in one part with those of others."""
        run = self._run
        if run.plan.is_shared or not run.plan.width or not run.plan.reports or run.ranked() is not None:
            return False
        cohort = run.cohorts[0]
        return not cohort.has_gap(cohort.only)

    def emits_together(self, k: int, result: Result) -> bool:
        """Whether the result at close `k` is in the part of all; else in one of its own."""
        if self.joint is None or not self.joint.is_under_way:
            return False
        if not fits(result):
            self.part_from_joint()
            return False
        self.joint.add(self._run, k, result)
        return True

    def part_from_joint(self) -> None:
        """From now on it has parts of its own."""
        if self.joint is not None:
            self.joint.leave(self._run)
            self.joint = None

    def cut(self) -> None:
        """The run's turn ends in the middle of the course; it goes on when others are further."""
        self.part_from_joint()
        if self._shared is not None and self.course is not None:
            sn, evaluator = self.course.sn, self._run.evaluator
            triggered = evaluator.triggered(False)
            arrivals = (
                (arrival, [evaluator.moment(triggered, sn, close.due.time, b"") for close in closes])
                for arrival, closes in self.course.steps
            )
            self._shared.read_ahead(self._run, arrivals)

    def begin_asleep(self, course: Course) -> None:
        """The run sleeps through the evaluations of a snapshot, or is emitted with others."""
        self._run.begin_asleep(course.sn, course.bounds.setdefault(self._run.plan.labels, {}))

    def wake(self) -> None:
        evaluated = self._run.cohorts[0].evaluated
        assert evaluated is not None, "it was evaluated before it slept"
        self._run.evaluations.time = evaluated.time
        self._run.evaluator.triggered(False).pass_by(evaluated.sn, evaluated.time)

    def end_course(self, course: Course) -> None:
        self._run.cohorts[0].schedule = course.schedule
        self._run.evaluator.triggered(False).end_reading_ahead()
        if self._leaves:
            self._leave(course.occupancy)

    def leave(self, occupancy: Sequence[Occupancy], is_over: bool) -> None:
        """`occupancy`: that of the class. A run that is underway leaves at the end of its course. `is_over`: it is not
        stepped any more."""
        self.part_from_joint()
        if self._shared is not None:
            self._shared.leave(self._run, is_over)
            self._shared = None
        self._leaves = self._run.is_underway
        if not self._leaves:
            self._leave(occupancy)

    def _leave(self, occupancy: Sequence[Occupancy]) -> None:
        cohort = self._run.cohorts[0]
        assert cohort.evaluated is not None, "it was evaluated before it joined"
        self._leaves, self.course = False, None
        cohort.leave_class()
        self._run.evaluator.triggered(False).leave_class(occupancy, cohort.evaluated.time)
