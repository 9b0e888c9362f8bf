"""Tasks of divided queries and loads: given to Spark, a few at a time, and their results.

At most `lanes` tasks are with Spark: as many as it has slots beside those of the registered queries. Jobs (the tasks of
one query, or one of a load) take turns: the one with the fewest tasks under way is next."""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Callable, Generator, Sequence
from itertools import count
from pathlib import Path
from typing import Any, Protocol

from stream_ext.errors import JobFailed, Overload
from stream_ext.evaluation_budget import Control
from stream_ext.runners.spark.driver_tasks import TaskOrder, TaskReport

#: Of a task that is not tried again.
PROCESS_DIED = "its process died"
#: How often a query that waits looks whether it is to end.
_LOOK_S = 0.1
#: Divided queries at a time.
JOBS_MAX = 4
_RETRY_S = 5


class Task(Protocol):
    """A value that is sent to another process."""

    def run_task(self) -> bytes: ...


class TaskDriver(Protocol):
    """The process that runs tasks."""

    @property
    def path(self) -> Path:
        """A folder that only it and we use."""

    def order(self, order: TaskOrder) -> None: ...


class _Job:
    """Tasks that belong together. `waiting`: its tasks by their places; `results`: of those that are done. `ahead`: so
    many are given before the result of the first of them is taken; None: all."""

    def __init__(self, tasks: Sequence[bytes], is_query: bool, ahead: int | None) -> None:
        self.is_query, self._ahead, self.taken = is_query, ahead, 0
        self.waiting = deque(enumerate(tasks))
        self.under_way: dict[int, int] = {}  # the numbers of tasks, to their places
        self.results: dict[int, bytes] = {}
        self.failed = ""

    @property
    def may_give(self) -> bool:
        if not self.waiting or self.failed:
            return False
        return self._ahead is None or self.waiting[0][0] < self.taken + self._ahead

    @property
    def waiting_bytes(self) -> int:
        return sum(map(len, self.results.values()))


class SparkTasks:
    """One for each runner of Spark; any thread may use it."""

    def __init__(self, lanes: int, why_down: Callable[[], str] = lambda: "") -> None:
        """`why_down`: while there is no driver, why there will be none soon; empty: one is about to start."""
        self.lanes, self._why_down = lanes, why_down
        self._changed = threading.Condition()
        self._driver: TaskDriver | None = None
        self._jobs: list[_Job] = []
        self._cancelled: set[int] = set()  # tasks that nobody waits for, until the driver has reported their end
        self._numbers = count(1)
        self._ended = ""  # why there will be no driver any more
        self.done = 0

    # ---- the driver

    def begin(self, driver: TaskDriver) -> None:
        """A driver is ready."""
        with self._changed:
            if self._driver is not driver:
                self._driver = driver
                self._give()
                self._changed.notify_all()

    def end(self, why: str, forever: bool = False) -> None:
        """The driver has ended; `forever`: there will be no other."""
        with self._changed:
            self._driver, self._ended = None, self._ended or (why if forever else "")
            self._cancelled.clear()
            for job in self._jobs:
                if job.under_way:
                    job.failed = job.failed or f"Spark ended: {why}"
                    job.under_way.clear()
            self._changed.notify_all()

    def reported(self, report: TaskReport) -> None:
        body = _taken(report.file)
        with self._changed:
            self._cancelled.discard(report.task)
            for job in self._jobs:
                place = job.under_way.pop(report.task, None)
                if place is not None:
                    self.done += 1
                    if body is None:
                        job.failed = report.failed or "its result was not written"
                    else:
                        job.results[place] = body
            self._give()
            self._changed.notify_all()

    # ---- jobs

    @property
    def is_ready(self) -> bool:
        """Whether there is a driver."""
        return self._driver is not None

    def run(
        self, tasks: Sequence[Task], control: Control, is_query: bool = True, ahead: int | None = None
    ) -> Generator[bytes, None, None]:
        """The results, in the order of the tasks; those that wait for their turn count for the memory of the query, and
        at most `ahead` tasks run or wait so. Too many queries at a time are rejected; loads and replays, which last,
        are not counted."""
        from pyspark import cloudpickle

        job = _Job([cloudpickle.dumps(task) for task in tasks], is_query, ahead)
        with self._changed:
            if is_query and sum(each.is_query for each in self._jobs) >= JOBS_MAX:
                raise Overload(f"{JOBS_MAX} queries are evaluated by Spark: send this one again later", _RETRY_S)
            self._jobs.append(job)
            self._give()
            self._changed.notify_all()
        try:
            for place in range(len(tasks)):
                yield self._result(job, place, control)
        finally:
            with self._changed:
                self._jobs.remove(job)
                self._cancelled.update(job.under_way)
                for number in job.under_way:
                    self._order(TaskOrder(number))

    def status(self) -> dict[str, Any]:
        with self._changed:
            under_way = self._under_way()
            waiting = sum(len(job.waiting) for job in self._jobs)
            return {
                "lanes": self.lanes,
                "jobs": len(self._jobs),
                "under_way": under_way,
                "waiting": waiting,
                "done": self.done,
            }

    def _result(self, job: _Job, place: int, control: Control) -> bytes:
        with self._changed:
            while place not in job.results:
                control.check()
                why = job.failed or (self._driver is None and (self._ended or self._why_down()))
                if why:
                    raise JobFailed(f"Spark has not done it: {why}")
                control.alive(job.waiting_bytes)
                self._changed.wait(_LOOK_S)
            result = job.results.pop(place)
            job.taken = place + 1
            self._give()
            control.alive(job.waiting_bytes)
            return result

    # ---- under the lock

    def _give(self) -> None:
        """Gives the driver as many tasks as there are lanes."""
        while self._driver is not None and self._under_way() < self.lanes:
            able = [job for job in self._jobs if job.may_give]
            if not able:
                return
            job = min(able, key=lambda each: len(each.under_way))
            place, body = job.waiting.popleft()
            number = next(self._numbers)
            file = self._driver.path / f"task-{number}"
            try:
                file.write_bytes(body)
            except OSError as error:
                job.failed = f"its task cannot be written: {error}"
                continue
            job.under_way[number] = place
            self._order(TaskOrder(number, str(file)))

    def _under_way(self) -> int:
        """How many slots of Spark are taken."""
        return len(self._cancelled) + sum(len(job.under_way) for job in self._jobs)

    def _order(self, order: TaskOrder) -> None:
        if self._driver is not None:
            self._driver.order(order)


def _taken(file: str) -> bytes | None:
    """The content of a file, which is removed."""
    if not file:
        return None
    try:
        return Path(file).read_bytes()
    except OSError:
        return None
    finally:
        with contextlib.suppress(OSError):
            Path(file).unlink()
