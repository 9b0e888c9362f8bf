"""Divided queries on a real Spark, beside registered queries: the same answers, whatever dies or ends meanwhile."""

from __future__ import annotations

import os
import random
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stream_ext.clock import SystemClock
from stream_ext.errors import DeadlineExceeded, QueryCancelled
from stream_ext.evaluation_budget import Control
from stream_ext.oneshot.answers import rows_of
from stream_ext.runners.spark.settings import SparkSettings
from stream_ext.runners.spark.task_process import TASKS_ENVIRON
from stream_ext.service.service import Service
from tests.stream_ext.oneshot.divided.aggregate_queries import PREFIX, random_data
from tests.stream_ext.opened import opened, push, registration, triple
from tests.stream_ext.runners.spark.doubles import PATIENCE_S
from tests.stream_ext.runners.spark.processes import family

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

#: At the lowest priority, tests would wait for all others.
SPARK = SparkSettings(epoch_s=0.5, warmup_epochs=2, tasks_niceness=3)
SHORT = [
    "SELECT ?c (COUNT(*) AS ?n) (SUM(?x) AS ?s) (AVG(?d) AS ?m) { ?k a ?c ; :v ?x ; :d ?d } GROUP BY ?c ORDER BY ?c",
    "SELECT (STR(?x) AS ?t) (COUNT(*) AS ?n) { ?k :v ?x } GROUP BY ?x",
    "SELECT DISTINCT ?w { ?k :w ?w ; :d ?d }",
    "SELECT (COUNT(DISTINCT ?p) AS ?n) (MIN(?o) AS ?least) { ?s ?p ?o }",
]
#: It takes a second or two: many triples of numbers.
LONG = (
    "SELECT ?w (COUNT(*) AS ?n) (SUM(?d * ?e + ?f) AS ?s) "
    "{ ?k :w ?w ; :d ?d ; a :C1 . ?m :d ?e ; a :C2 . ?l :d ?f ; a :C2 FILTER(?e + ?f > ?d) } GROUP BY ?w ORDER BY ?w"
)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("divided")
    with opened(folder, SystemClock(), engine="spark", spark=SPARK) as service:
        service.update(f"{PREFIX}INSERT DATA {{ {' '.join(random_data(random.Random(5), 600))} }}")
        service.create_stream("s", {})
        service.register(registration("whole"))
        assert spark_of(service).wait_for("up", PATIENCE_S)
        yield service


def spark_of(service: Service) -> Any:
    assert service._engine.spark is not None
    return service._engine.spark


def answer(service: Service, text: str, control: Control = Control.FREE) -> list[tuple[bytes | None, ...]]:
    found = service.query(PREFIX + text, by_spark=True, control=control)
    assert found.by_spark, found.why_not_divided
    return rows_of(found)


def processes_of_tasks(service: Service) -> list[int]:
    """Those that evaluate tasks: children of the daemon that starts them."""
    found = []
    for pid in family(spark_of(service).status()["driver_pid"]):
        try:
            environ = Path(f"/proc/{pid}/environ").read_bytes()
        except OSError:
            continue
        if f"{TASKS_ENVIRON}=3".encode() in environ:
            found.append(pid)
    return found[1:]


class Asked(threading.Thread):
    """A query that is evaluated in a thread."""

    def __init__(self, service: Service, text: str, control: Control = Control.FREE) -> None:
        super().__init__()
        self._evaluate = lambda: answer(service, text, control)
        self.found: Any = None
        self.start()

    def run(self) -> None:
        try:
            self.found = self._evaluate()
        except Exception as error:  # noqa: BLE001 -- the test looks at it
            self.found = error


def until_tasks_run(service: Service) -> list[int]:
    waiting = threading.Event()
    for _ in range(int(PATIENCE_S * 20)):
        if len(found := processes_of_tasks(service)) > 0:
            return found
        waiting.wait(0.05)
    raise AssertionError("no task has begun")


def test_answers_are_those_of_one_process(service: Service) -> None:
    for text in SHORT:
        assert answer(service, text) == rows_of(service.query(PREFIX + text)), text
    own = os.getpriority(os.PRIO_PROCESS, 0)
    assert {os.getpriority(os.PRIO_PROCESS, pid) for pid in processes_of_tasks(service)} == {own + 3}


def test_two_queries_at_once_beside_registered_ones(service: Service) -> None:
    queries = [Asked(service, text) for text in SHORT[:2]]
    for time in range(1, 40):
        push(service, "s", time * 250, triple(f"a{time % 7}", time % 3), wait="evaluated")
    for query, text in zip(queries, SHORT, strict=False):
        query.join()
        assert query.found == rows_of(service.query(PREFIX + text))
    assert service.query_status("whole")["emissions"] > 0
    assert service.query_status("whole")["runner"] == "spark"


def test_a_process_that_dies_changes_nothing(service: Service) -> None:
    expected = rows_of(service.query(PREFIX + LONG))
    asked = Asked(service, LONG)
    os.kill(until_tasks_run(service)[-1], signal.SIGKILL)
    asked.join()
    assert asked.found == expected


def test_a_query_that_is_cancelled_or_too_long_ends_its_tasks(service: Service) -> None:
    control = Control()
    asked = Asked(service, LONG, control)
    until_tasks_run(service)
    control.cancel()
    asked.join()
    assert isinstance(asked.found, QueryCancelled)
    with pytest.raises(DeadlineExceeded):
        answer(service, LONG, Control(timeout_s=0.3))
    assert answer(service, SHORT[0]) == rows_of(service.query(PREFIX + SHORT[0]))  # there is a lane for it
    assert spark_of(service).tasks.status()["jobs"] == 0
