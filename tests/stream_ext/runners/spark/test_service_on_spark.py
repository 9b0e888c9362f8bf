"""The same service on both runners: whatever dies in between, they say the same.

Where something dies, the numbers of snapshots are left out: what is tried apart after a death makes a snapshot of its
own (`test_kill_matrix.py`, which compares byte for byte)."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Sequence
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

from stream_ext.clock import SystemClock
from stream_ext.continuous.query_budget import Budget
from stream_ext.remote.allowed_urls import AllowedUrls, places
from stream_ext.runners.spark.settings import SparkSettings
from stream_ext.service.service import Service
from tests.stream_ext.fake_server import Reply, fake_server
from tests.stream_ext.network.test_service_operator import answering, knowing
from tests.stream_ext.opened import opened, push, registration, triple, values
from tests.stream_ext.runners.spark.doubles import PATIENCE_S
from tests.stream_ext.runners.spark.processes import worker

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

#: Short epochs, so that what is said crosses many boundaries.
SPARK = SparkSettings(epoch_s=0.3, warmup_epochs=2)


NAMES = ("whole", "new", "later")
SHARED = tuple(f"{kind}{number}" for kind in ("of", "is") for number in range(4))


def begin(service: Service) -> None:
    service.create_stream("s", {})
    service.register(registration("whole"))
    service.register(registration("new", r2s="ISTREAM"))


def share(service: Service) -> None:
    """Four queries of each of two templates."""
    for number in range(4):
        service.register(registration(f"of{number}", pattern=f":a{number} :p ?y", select="SELECT ?y"))
        service.register(registration(f"is{number}", pattern=f"?x :p {number}", select="ASK", r2s="ISTREAM"))


def say(service: Service, times: range) -> None:
    for time in times:
        push(service, "s", time * 250, triple(f"a{time % 7}", time % 3), triple("b", time))


def emitted(service: Service, names: Sequence[str] = NAMES) -> dict[str, list[bytes]]:
    return {name: [e.json for e in service.emissions(name, 0, None)] for name in names}


def without(emission: bytes, *names: str) -> dict[str, Any]:
    return {name: value for name, value in json.loads(emission).items() if name not in names}


def kill_worker(service: Service) -> None:
    assert service._engine.spark is not None
    os.kill(worker(service._engine.spark.status()["driver_pid"]), signal.SIGKILL)


def on_spark(service: Service) -> bool:
    assert service._engine.spark is not None
    return service._engine.spark.wait_for("up", PATIENCE_S) and service._engine.merge.owner == "spark"


def test_spark_says_what_the_inline_runner_says(tmp_path: Path) -> None:
    with opened(tmp_path / "inline") as service:
        begin(service)
        share(service)
        say(service, range(1, 60))
        service.register(registration("later", window="RANGE PT1S STEP PT1S"))
        say(service, range(60, 160))
        expected = emitted(service, (*NAMES, *SHARED))

    with opened(tmp_path / "spark", SystemClock(), engine="spark", spark=SPARK) as service:
        begin(service)
        share(service)
        say(service, range(1, 20))  # still inline
        assert on_spark(service)
        say(service, range(20, 60))
        service.register(registration("later", window="RANGE PT1S STEP PT1S"))
        say(service, range(60, 100))
        kill_worker(service)
        say(service, range(100, 159))
        assert on_spark(service)
        say(service, range(159, 160))
        found = emitted(service, (*NAMES, *SHARED))
    for name, emissions in expected.items():
        assert [without(each, "snapshot") for each in found[name]] == [without(each, "snapshot") for each in emissions]
    assert all(len(expected[name]) > 20 for name in (*NAMES, "of0", "of3"))
    assert expected["is0"]


def test_a_query_that_exceeds_its_budget_on_spark_fails_for_good(tmp_path: Path) -> None:
    budget = Budget(bytes=4 << 20)
    with opened(tmp_path, SystemClock(), engine="spark", spark=SPARK, budget=budget) as service:
        begin(service)
        assert on_spark(service)
        service.register(registration("pairs", pattern="?x :p ?y . ?z :q ?v", select="SELECT ?x ?z"))
        push(service, "s", 1000, *(triple(f"a{i}", i, p) for i in range(1000) for p in "pq"))
        say(service, range(8, 20))
        ends = monotonic() + PATIENCE_S
        while service.query_definition("pairs").failure is None:
            assert monotonic() < ends
            say(service, range(20, 21))
        assert "1000000 solutions" in service.query_status("pairs")["error"]
        assert service.query_status("whole")["state"] == "running"


def test_a_query_that_is_moved_between_runners_says_what_it_says_inline(tmp_path: Path) -> None:
    with opened(tmp_path / "inline") as service:
        begin(service)
        say(service, range(1, 60))
        service.register(registration("later", window="RANGE PT1S STEP PT1S"))
        say(service, range(60, 160))
        expected = emitted(service)

    with opened(tmp_path / "spark", SystemClock(), engine="spark", spark=SPARK) as service:
        begin(service)
        say(service, range(1, 20))
        assert on_spark(service)
        say(service, range(20, 40))
        sn = service.move_query("new", "inline")
        assert service.query_status("new")["runner"] == "inline"
        assert service.query_status("whole")["runner"] == "spark"
        say(service, range(40, 60))
        assert service.head() > sn
        service.register(registration("later", window="RANGE PT1S STEP PT1S"))
        service.move_query("later", "inline")
        say(service, range(60, 80))
        kill_worker(service)
        say(service, range(80, 100))
        service.move_query("new", "spark")
        service.move_query("whole", "inline")
        say(service, range(100, 120))
        assert on_spark(service)
        assert {name: service.query_status(name)["runner"] for name in expected} == {
            "new": "spark", "whole": "inline", "later": "inline",
        }  # fmt: skip
    with opened(tmp_path / "spark", SystemClock(), engine="spark", spark=SPARK) as service:
        say(service, range(120, 130))
        assert on_spark(service)
        say(service, range(130, 140))
        service.pause_query("later")
        service.resume_query("later")
        service.move_query("whole", "spark")
        service.move_query("later", "spark")
        say(service, range(140, 160))
        assert service._engine.merge.role is None
        found = emitted(service)
    # Moves make snapshots of their own; the pause is told.
    assert [without(each, "snapshot") for each in found["whole"]] == [without(e, "snapshot") for e in expected["whole"]]
    assert [without(each, "snapshot") for each in found["new"]] == [without(e, "snapshot") for e in expected["new"]]
    later = [without(each, "snapshot", "gap") for each in found["later"]]
    assert later == [without(each, "snapshot", "gap") for each in expected["later"]]


def test_a_service_is_asked_from_the_task_and_what_was_missed_is_made_up_for(tmp_path: Path) -> None:
    """What the query says is what one without SERVICE says, with the names that the endpoint has."""
    names = {"0": "zero", "1": "one"}
    known = knowing(" . ".join(f":n{value} :is {value} ; :name '{name}'" for value, name in names.items()))
    asks = "?x :p ?y SERVICE <there> { ?number :is ?y ; :name ?name }"
    with fake_server() as there:
        there.replies["/x"] = answering(known)
        named = {"allowed_urls": AllowedUrls(service=places(there.url))}
        with opened(tmp_path, SystemClock(), engine="spark", spark=SPARK, **named) as service:
            begin(service)
            text = registration("asks", pattern=asks, select="SELECT ?x ?name")
            service.register(text.replace("<there>", f"<{there.url}/x>"))
            say(service, range(1, 20))
            assert on_spark(service)
            say(service, range(20, 40))
            there.replies["/x"] = Reply(503)
            number = 40
            push(service, "s", number * 250, triple("c", 77))
            say(service, range(41, 60))
            assert service.query_status("asks")["state"] == "waiting"
            assert "answered 503" in service.query_status("asks")["error"]
            there.replies["/x"], number = answering(known), 60
            ends = monotonic() + PATIENCE_S
            while service.query_status("asks")["state"] == "waiting":
                assert monotonic() < ends
                say(service, range(number, number + 4))
                number += 4
            assert service._engine.merge.owner == "spark"
            say(service, range(number, number + 8))
            assert service.query_status("asks")["state"] == "running"
            whole, found = (
                [(each["time"], values(each)) for each in map(json.loads, emitted(service, (name,))[name])]
                for name in ("whole", "asks")
            )
    assert found == [(at, sorted((x, names[y]) for x, y in rows if y in names)) for at, rows in whole]
    assert len(found) >= number // 4
