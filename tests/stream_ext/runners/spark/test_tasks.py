"""Tasks of divided queries: how many are with Spark at a time, in what order results come, and how it ends."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stream_ext.errors import JobFailed, Overload, QueryCancelled, QueryTooLarge
from stream_ext.evaluation_budget import Control
from stream_ext.runners.spark.driver_tasks import TaskOrder, TaskReport
from stream_ext.runners.spark.settings import SparkSettings
from stream_ext.runners.spark.tasks import JOBS_MAX, SparkTasks


class Driver:
    """A driver that does nothing by itself."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.orders: list[TaskOrder] = []
        self.changed = threading.Condition()

    def order(self, order: TaskOrder) -> None:
        with self.changed:
            self.orders.append(order)
            self.changed.notify_all()

    def awaited(self, count: int) -> list[TaskOrder]:
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.orders) >= count, 10)
            return list(self.orders)

    def does(self, tasks: SparkTasks, task: int, result: bytes) -> None:
        file = self.path / f"result-{task}"
        file.write_bytes(result)
        tasks.reported(TaskReport(task, str(file)))


def started(
    tasks: SparkTasks, count: int, control: Control = Control.FREE, is_query: bool = True, ahead: int | None = None
) -> tuple[list[Any], threading.Thread]:
    """A query with so many tasks, which a thread waits for; what comes of it is in the list."""
    found: list[Any] = []

    def wait() -> None:
        try:
            orders: Any = list(range(count))  # they are never evaluated
            for result in tasks.run(orders, control, is_query, ahead):
                found.append(result)
        except Exception as error:  # noqa: BLE001 -- the test looks at it
            found.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    return found, thread


def until(tasks: SparkTasks, queries: int) -> None:
    """Waits until so many queries have begun."""
    with tasks._changed:
        assert tasks._changed.wait_for(lambda: len(tasks._jobs) >= queries, 10)


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[Driver]:
    yield Driver(tmp_path)


def test_no_more_tasks_than_lanes_and_results_in_their_order(driver: Driver) -> None:
    tasks = SparkTasks(2)
    tasks.begin(driver)
    found, thread = started(tasks, 4)
    assert [order.task for order in driver.awaited(2)] == [1, 2]
    assert tasks.status() == {"lanes": 2, "jobs": 1, "under_way": 2, "waiting": 2, "done": 0}
    driver.does(tasks, 2, b"second")
    assert [order.task for order in driver.awaited(3)] == [1, 2, 3]
    for task, result in ((3, b"third"), (1, b"first"), (4, b"fourth")):
        driver.does(tasks, task, result)
    thread.join(10)
    assert found == [b"first", b"second", b"third", b"fourth"]
    assert not list(driver.path.glob("result-*")), "results are removed when they are read"


def test_results_that_wait_for_their_turn_count_for_the_memory_of_the_query(driver: Driver) -> None:
    tasks, control = SparkTasks(3), Control(bytes_max=1000)
    tasks.begin(driver)
    found, thread = started(tasks, 3, control)
    driver.awaited(3)
    driver.does(tasks, 2, b"x" * 600)
    driver.does(tasks, 3, b"x" * 600)
    thread.join(10)
    assert isinstance(found[0], QueryTooLarge)
    control = Control(bytes_max=1000)
    found, thread = started(tasks, 3, control)
    tasks.reported(TaskReport(1, failed="it was cancelled"))
    driver.awaited(7)
    for task in (5, 4, 6):
        driver.does(tasks, task, b"x" * 300)
    thread.join(10)
    assert found == [b"x" * 300] * 3 and control.left == 1000


def test_who_takes_results_slowly_has_few_of_them_waiting(driver: Driver) -> None:
    tasks = SparkTasks(2)
    tasks.begin(driver)
    _, thread = started(tasks, 4, is_query=False, ahead=2)
    driver.awaited(2)
    driver.does(tasks, 2, b"second")
    assert len(driver.orders) == 2, "the first one is not taken yet"
    driver.does(tasks, 1, b"first")
    driver.awaited(4)
    driver.does(tasks, 3, b"third")
    driver.does(tasks, 4, b"fourth")
    thread.join(10)


def test_queries_take_turns(driver: Driver) -> None:
    tasks = SparkTasks(2)
    first, one = started(tasks, 3)
    until(tasks, 1)
    second, other = started(tasks, 1)
    until(tasks, 2)
    tasks.begin(driver)
    assert tasks.status()["under_way"] == 2
    driver.does(tasks, 2, b"of the second")  # it did not wait for all tasks of the first
    other.join(10)
    assert second == [b"of the second"]
    for task in (1, 3, 4):
        driver.awaited(task)
        driver.does(tasks, task, b"%d" % task)
    one.join(10)
    assert first == [b"1", b"3", b"4"]


def test_a_query_that_ends_early_cancels_its_tasks(driver: Driver) -> None:
    tasks, control = SparkTasks(2), Control()
    tasks.begin(driver)
    found, thread = started(tasks, 3, control)
    driver.awaited(2)
    control.cancel()
    thread.join(10)
    assert isinstance(found[0], QueryCancelled)
    assert driver.awaited(4)[2:] == [TaskOrder(1), TaskOrder(2)]  # without a file: they are cancelled
    assert tasks.status()["under_way"] == 2  # they have their slots until they have ended
    following, thread = started(tasks, 1)
    until(tasks, 1)
    assert len(driver.awaited(4)) == 4
    driver.does(tasks, 1, b"too late")
    tasks.reported(TaskReport(2, failed="it was cancelled"))
    assert driver.awaited(5)[4].task == 3
    driver.does(tasks, 3, b"next")
    thread.join(10)
    assert following == [b"next"]
    assert tasks.status()["under_way"] == 0


def test_the_cause_of_a_failure_is_named(driver: Driver) -> None:
    tasks = SparkTasks(1)
    tasks.begin(driver)
    found, thread = started(tasks, 2)
    driver.awaited(1)
    tasks.reported(TaskReport(1, failed="SparkException: no executor"))
    thread.join(10)
    assert isinstance(found[0], JobFailed)
    assert "SparkException: no executor" in str(found[0])


def test_a_driver_that_ends_ends_what_it_ran_and_the_next_takes_what_waits(driver: Driver, tmp_path: Path) -> None:
    tasks = SparkTasks(1)
    tasks.begin(driver)
    found, thread = started(tasks, 1)
    driver.awaited(1)
    tasks.end("its process was ended by SIGKILL")
    thread.join(10)
    assert "SIGKILL" in str(found[0])
    waiting, thread = started(tasks, 1)  # Spark starts again
    (tmp_path / "next").mkdir()
    following = Driver(tmp_path / "next")
    tasks.begin(following)
    following.awaited(1)
    following.does(tasks, 2, b"done")
    thread.join(10)
    assert waiting == [b"done"]


def test_spark_that_is_down_is_not_awaited() -> None:
    tasks = SparkTasks(1, lambda: "there is no Java")
    found, thread = started(tasks, 1)
    thread.join(10)
    assert "there is no Java" in str(found[0])


def test_too_many_queries_are_rejected(driver: Driver) -> None:
    tasks, control = SparkTasks(1), Control()
    all_ = [started(tasks, 1, control) for _ in range(JOBS_MAX)]
    until(tasks, JOBS_MAX)
    found, thread = started(tasks, 1)
    thread.join(10)
    assert isinstance(found[0], Overload)
    control.cancel()
    for _, thread in all_:
        thread.join(10)


def test_replays_and_loads_do_not_reject_queries(driver: Driver) -> None:
    tasks, control = SparkTasks(1), Control()
    others = [started(tasks, 1, control, is_query=False) for _ in range(JOBS_MAX)]
    until(tasks, JOBS_MAX)
    found, thread = started(tasks, 1, control)
    until(tasks, JOBS_MAX + 1)
    control.cancel()
    for _, each in [*others, (found, thread)]:
        each.join(10)
    assert isinstance(found[0], QueryCancelled)


@pytest.mark.parametrize(("master", "shards", "cores", "lanes"), [
    ("local[*]", 0, 2, 2), ("local[8]", 2, 2, 6), ("local[2]", 1, 2, 2), ("local[*]", 1, 8, 7),
])  # fmt: skip
def test_tasks_have_the_slots_that_seats_leave(master: str, shards: int, cores: int, lanes: int) -> None:
    assert SparkSettings(master=master, shards=shards).lanes(cores) == lanes
