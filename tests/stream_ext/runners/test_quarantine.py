"""Queries that hang, or kill, the worker that steps them: the others go on, the server lives, the culprit is parked."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from stream_ext.clock import SystemClock
from stream_ext.runners.quarantine import Outcome
from stream_ext.runners.spark.settings import SparkSettings
from stream_ext.runners.trial import Process
from stream_ext.service.service import Service
from tests.parts.waiting import until
from tests.stream_ext.opened import emissions_of, opened, push, registration, triple, values
from tests.stream_ext.runners.spark.dangerous import FACTORY, FATAL, begin, calls, register, unregister
from tests.stream_ext.runners.spark.doubles import PATIENCE_S
from tests.stream_ext.runners.spark.processes import family
from tests.stream_ext.runners.spark.stand_in import DRIVER

PATIENT = SparkSettings(epoch_s=30, warmup_epochs=1, shard_factory=FACTORY, driver_module=DRIVER)
#: Who is stopped is killed after two seconds; where nothing else is looked at, who hangs after one.
HASTY = msgspec.structs.replace(PATIENT, step_timeout_s=2.0)
HASTIER = msgspec.structs.replace(PATIENT, step_timeout_s=1.0)


@pytest.fixture(autouse=True)
def dangerous(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name, value in begin(tmp_path).items():
        monkeypatch.setenv(name, value)
    register()
    yield
    unregister()


def on_spark(service: Service) -> bool:
    assert service._engine.spark is not None
    return service._engine.spark.wait_for("up", PATIENCE_S) and service._engine.merge.owner == "spark"


def until_state(service: Service, name: str, state: str) -> dict[str, Any]:
    until(lambda: service.query_status(name)["state"] == state, f"{name} is {state}")
    return service.query_status(name)


def dangerous_query(name: str, function: str) -> str:
    return registration(name, window="RANGE 1s STEP 1s", pattern=f"?x :p ?y FILTER(:{function}(?y))")


def begin_two(service: Service, function: str) -> None:
    service.create_stream("s", {})
    service.register(registration("good", window="RANGE 1s STEP 1s"))
    service.register(dangerous_query("bad", function))
    push(service, "s", 100, triple("a", 1))
    assert on_spark(service)
    push(service, "s", 1100, triple("b", 2))
    assert emissions_of(service, "bad") and emissions_of(service, "good")


@pytest.mark.parametrize(("function", "spark"), [("dies", PATIENT), ("crashes", PATIENT), ("hangs", HASTIER)])
def test_what_ends_its_worker_is_parked_and_the_others_continue(
    function: str, spark: SparkSettings, tmp_path: Path
) -> None:
    with opened(tmp_path, SystemClock(), engine="spark", spark=spark) as service:
        begin_two(service, function)
        push(service, "s", 1200, triple("c", FATAL), wait="published")
        push(service, "s", 2100, triple("d", 3), wait="published")
        status = until_state(service, "bad", "parked")
        assert "its step killed one worker process after another in snapshot" in status["error"]
        push(service, "s", 3100, triple("e", 4))
        assert [(each["time"], values(each)) for each in emissions_of(service, "good")] == [
            (1000, [("a", "1")]), (2000, [("b", "2"), ("c", str(FATAL))]), (3000, [("d", "3")]),
        ]  # fmt: skip
        assert [each["time"] for each in emissions_of(service, "bad")] == [1000]
        made = calls(tmp_path)
        assert "server" not in made and len(made) == 3 and "trial" in made
        assert on_spark(service)
        service.resume_query("bad")
        push(service, "s", 4100, triple("f", 5))
        push(service, "s", 5100, triple("g", 6))
        (*_, last) = emissions_of(service, "bad")
        assert (last["time"], values(last)) == (5000, [("f", "5")])
    with opened(tmp_path) as service:
        assert service.query_status("bad")["state"] == "running"


def test_after_its_first_death_nobody_but_a_trial_steps_it_where_the_driver_dies_too(tmp_path: Path) -> None:
    """No worker tries it a second time then: the queries go back to the server's own process at once."""
    with opened(tmp_path, SystemClock(), engine="spark", spark=PATIENT) as service:
        begin_two(service, "dies_with_its_driver")
        push(service, "s", 1200, triple("c", FATAL), wait="published")
        push(service, "s", 2100, triple("d", 3), wait="published")
        until_state(service, "bad", "parked")
        push(service, "s", 3100, triple("e", 4))
        assert [each["time"] for each in emissions_of(service, "good")] == [1000, 2000, 3000]
        assert [each["time"] for each in emissions_of(service, "bad")] == [1000]
        assert calls(tmp_path)[0] == "worker" and "server" not in calls(tmp_path), calls(tmp_path)
        assert on_spark(service)


def test_who_survives_a_trial_is_made_up_for_and_nothing_is_lost(tmp_path: Path) -> None:
    (tmp_path / "inline").mkdir()
    with opened(tmp_path / "inline") as service:
        service.create_stream("s", {})
        service.register(registration("good", window="RANGE 1s STEP 1s"))
        service.register(dangerous_query("bad", "dies_twice"))
        say(service)
        expected = {name: emissions_of(service, name) for name in ("good", "bad")}
    with opened(tmp_path, SystemClock(), engine="spark", spark=PATIENT) as service:
        begin_two(service, "dies_twice")
        (tmp_path / "calls").unlink()  # those were the inline engine's
        push(service, "s", 1200, triple("c", FATAL), wait="published")
        push(service, "s", 2100, triple("d", 3))  # waits for the evaluations, those of the trial, too
        assert [each["time"] for each in emissions_of(service, "bad")] == [1000, 2000]
        push(service, "s", 3100, triple("e", 4))
        for name, emissions in expected.items():
            found = emissions_of(service, name)
            assert [(each["emission"], each["time"], values(each)) for each in found] == [
                (each["emission"], each["time"], values(each)) for each in emissions
            ]
        assert service.query_status("bad")["state"] == "running"
        assert calls(tmp_path)[:3] == ["worker", "worker", "trial"]


def test_one_that_is_moved_while_it_is_in_quarantine_misses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    moved, run = threading.Event(), Process.run

    def run_later(process: Process, *named: Any) -> Outcome:
        assert moved.wait(PATIENCE_S)
        return run(process, *named)

    monkeypatch.setattr(Process, "run", run_later)
    with opened(tmp_path, SystemClock(), engine="spark", spark=PATIENT) as service:
        begin_two(service, "dies_twice")
        push(service, "s", 1200, triple("c", FATAL), wait="published")
        push(service, "s", 2100, triple("d", 3), wait="published")
        until(lambda: service._engine.quarantine.suspended, "it is in quarantine")
        until(lambda: service._engine.merge.owner == "spark", "a task has the others again")
        service.move_query("bad", "inline")
        moved.set()
        push(service, "s", 3100, triple("e", 4))
        assert [(each["emission"], each["time"], values(each)) for each in emissions_of(service, "bad")] == [
            (1, 1000, [("a", "1")]), (2, 2000, [("b", "2"), ("c", str(FATAL))]), (3, 3000, [("d", "3")]),
        ]  # fmt: skip
        assert not any("gap" in each for each in emissions_of(service, "bad"))
        assert service.query_status("bad")["state"] == "running"


def say(service: Service) -> None:
    for time, name, value in [(100, "a", 1), (1100, "b", 2), (1200, "c", FATAL), (2100, "d", 3), (3100, "e", 4)]:
        push(service, "s", time, triple(name, value))


def test_a_worker_that_is_stopped_is_reported_and_replaced(tmp_path: Path) -> None:
    with opened(tmp_path, SystemClock(), engine="spark", spark=HASTY) as service:
        begin_two(service, "dies")
        assert service._engine.spark is not None
        (worker,) = family(service._engine.spark.status()["driver_pid"])[1:]
        os.kill(worker, signal.SIGSTOP)
        push(service, "s", 1200, triple("c", 7), wait="published")
        until(service.waits.current, "what is waited for is told")
        (wait,) = service.waits.current()
        assert wait.kind == "spark" and "was stepping snapshot" in wait.why
        assert "does not answer" in service.status()["why"]
        push(service, "s", 2100, triple("d", 3))
        assert [each["time"] for each in emissions_of(service, "bad")] == [1000, 2000]
        assert service.waits.current() == ()
        assert on_spark(service)
        assert service.status()["why"] == "Spark is up"


def test_a_driver_that_is_stopped_is_reported_and_replaced_while_the_queries_continue(tmp_path: Path) -> None:
    with opened(tmp_path, SystemClock(), engine="spark", spark=HASTY) as service:
        begin_two(service, "dies")
        assert service._engine.spark is not None
        driver = service._engine.spark.status()["driver_pid"]
        os.kill(driver, signal.SIGSTOP)
        push(service, "s", 2100, triple("d", 3))
        assert [each["time"] for each in emissions_of(service, "bad")] == [1000, 2000]
        until(service.waits.current, "what is waited for is told")
        assert "driver does not answer" in service.status()["why"]
        spark = service._engine.spark
        until(lambda: spark.status()["driver_pid"] not in (driver, None), "there is another driver")
        assert on_spark(service) and service.waits.current() == ()
        push(service, "s", 3100, triple("e", 3))
        assert [each["time"] for each in emissions_of(service, "bad")] == [1000, 2000, 3000]
