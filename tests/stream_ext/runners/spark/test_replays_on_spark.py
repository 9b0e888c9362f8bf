"""A long past is replayed by tasks of Spark, beside the registered queries: the same emissions, whatever dies."""

from __future__ import annotations

import os
import re
import signal
from contextlib import suppress
from pathlib import Path

import pytest

from stream_ext.clock import SystemClock
from stream_ext.runners.replays import replays
from stream_ext.service.service import Service
from tests.parts.waiting import until
from tests.stream_ext.opened import opened, push, push_lines, registration, triple
from tests.stream_ext.runners.spark.doubles import PATIENCE_S
from tests.stream_ext.runners.spark.test_tasks_on_spark import SPARK, processes_of_tasks, spark_of

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

CLOSES = 3000
GROUPED = registration("past", window=f"START 0 END {CLOSES * 10} STEP 10ms", select="SELECT ?x (COUNT(*) AS ?n)")
TEXT = f"{GROUPED} GROUP BY ?x"


#: Much of it is due in one push, and it is behind for long: Spark has its tasks evaluate it.
MISSED = registration("missed", "late", "RANGE 2s STEP 1ms", select="SELECT ?x (COUNT(*) AS ?n)") + " GROUP BY ?x"
LINES = [{"timestamp": number * 100, "data": triple(f"a{number % 7}", number)} for number in range(300)]
#: Moves are snapshots, too, and come sooner or later.
_SNAPSHOT = re.compile(rb'"snapshot":\d+,')


def catches_up(service: Service) -> list[bytes]:
    service.create_stream("late", {"retention": "1h"})
    service.register(MISSED)
    push_lines(service, "late", *LINES, wait="published")
    service._engine.await_evaluated(service.head(), PATIENCE_S)
    return [_SNAPSHOT.sub(b"", each.json) for each in service.emissions("missed", 0, None)]


def fill(service: Service) -> None:
    service.create_stream("s", {"retention": "1h"})
    for number in range(30):
        push(service, "s", number * CLOSES // 3, triple(f"a{number % 7}", number))


def emitted(service: Service) -> list[bytes]:
    until(lambda: service.query_status("past")["state"] == "ended", "the end of the past", int(PATIENCE_S))
    return [each.json for each in service.emissions("past", 0, None)]


@pytest.mark.timeout(300)
def test_tasks_of_spark_replay_a_past_and_one_that_is_killed_costs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(tmp_path / "one", SystemClock()) as service:
        fill(service)
        service.register(TEXT)
        expected, expected_of_missed = emitted(service), catches_up(service)
    monkeypatch.setattr(replays, "LEAST_S", 0.0)
    with opened(tmp_path / "spark", SystemClock(), engine="spark", spark=SPARK) as service:
        fill(service)
        assert spark_of(service).wait_for("up", PATIENCE_S)
        assert service.explain(TEXT)["replay"] == {"by": "Spark", "tasks": spark_of(service).tasks.lanes}
        service.register(TEXT)
        assert service.query_definition("past").home == "inline"
        until(lambda: spark_of(service).tasks.status()["under_way"], "the first task", int(PATIENCE_S))
        for pid in processes_of_tasks(service):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        assert emitted(service) == expected
        assert spark_of(service).tasks.done >= 2
        before = spark_of(service).tasks.done
        assert catches_up(service) == expected_of_missed
        assert spark_of(service).tasks.done >= before + 2, "tasks did it"
        until(lambda: service.query_definition("missed").home is None, "that it is back", int(PATIENCE_S))
