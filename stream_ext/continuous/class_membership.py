"""The membership of a run in a timing class: while it is in one, the class has its schedule and the occupancy of its
windows, and says with each snapshot what it is stepped through."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from stream_ext.continuous.course import Course
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

    def join(self, schedule: Schedule) -> None:
        self._run.cohorts[0].join_class(schedule)
        self._run.evaluator.triggered(False).join_class()

    def begin_asleep(self, course: Course) -> None:
        """The run sleeps through the evaluations of a snapshot."""
        self._run.begin_asleep(course.sn, course.bounds.setdefault(self._run.plan.labels, {}))

    def wake(self) -> None:
        evaluated = self._run.cohorts[0].evaluated
        assert evaluated is not None, "it was evaluated before it slept"
        self._run.evaluations.time = evaluated.time
        self._run.evaluator.triggered(False).wake(evaluated.sn)

    def end_course(self, course: Course) -> None:
        self._run.cohorts[0].schedule = course.schedule
        if self._leaves:
            self._leave(course.occupancy)

    def leave(self, occupancy: Sequence[Occupancy]) -> None:
        """`occupancy`: that of the class. A run that is underway leaves at the end of its course."""
        self._leaves = self._run.is_underway
        if not self._leaves:
            self._leave(occupancy)

    def _leave(self, occupancy: Sequence[Occupancy]) -> None:
        cohort = self._run.cohorts[0]
        assert cohort.evaluated is not None, "it was evaluated before it joined"
        self._leaves, self.course = False, None
        cohort.leave_class()
        self._run.evaluator.triggered(False).leave_class(occupancy, cohort.evaluated.time)
