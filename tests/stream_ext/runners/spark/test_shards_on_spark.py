"""Several shards say what the inline runner says: with seats that wander, workers that are killed, and new plans."""

from __future__ import annotations

import contextlib
import os
import random
import signal
from collections.abc import Callable
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pytest

from stream_ext.clock import SystemClock
from stream_ext.continuous.shard import Shard
from stream_ext.emissions import emission
from stream_ext.emissions.emission import EmissionBody
from stream_ext.emissions.merged_progress import Runner
from stream_ext.emissions.placement import ShardPlan
from stream_ext.runners.spark.settings import SparkSettings
from stream_ext.service.engine import Engine
from stream_ext.service.service import Service
from tests.parts.waiting import until
from tests.stream_ext.opened import opened, push, registration, triple
from tests.stream_ext.runners.spark.pieces import FACTORY, SMALL
from tests.stream_ext.runners.spark.seats import SeatsWithoutSpark
from tests.stream_ext.runners.spark.test_pieces_on_spark import MOVES, TEXTS
from tests.stream_ext.runners.spark.test_pieces_on_spark import play as play_in_pieces
from tests.stream_ext.runners.spark.test_service_on_spark import SHARED, share

NAMES = (*(f"q{number}" for number in range(6)), *SHARED)


def begin(service: Service) -> None:
    """Six templates of one query, and two of four queries."""
    service.create_stream("s", {})
    for number in range(6):
        kind = ("RSTREAM", "ISTREAM")[number % 2]
        service.register(registration(f"q{number}", window=f"RANGE PT{number + 1}S STEP PT0.5S", r2s=kind))
    share(service)


def say(service: Service, chance: random.Random, times: range, between: Callable[[int], None]) -> None:
    for time in times:
        push(service, "s", time * 250, triple(f"a{chance.randrange(7)}", chance.randrange(3)), triple("b", time))
        between(time)


def said(service: Service) -> dict[str, list[bytes]]:
    return {name: [e.json for e in service.emissions(name, 0, None)] for name in NAMES}


def assert_same(found: dict[str, list[bytes]], expected: dict[str, list[bytes]]) -> None:
    for name, emissions in expected.items():
        for one, other in zip_longest(found[name], emissions):
            assert one == other, name


def with_seats(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stream_ext.runners.spark.runner.DriverProcess", SeatsWithoutSpark)
    monkeypatch.setattr("stream_ext.runners.spark.runner.find_java", lambda environ: None)
    monkeypatch.setattr("stream_ext.runners.spark.runner._RETRY_S_MIN", 0.05)
    # What is tried apart after a death makes snapshots of its own, and numbers would differ: another test is about it.
    monkeypatch.setattr("stream_ext.runners.quarantine.Quarantine.hold", lambda self, death: None)


def shards(service: Service) -> list[dict[str, Any]]:
    assert service._engine.spark is not None
    return service._engine.spark.status()["shards"]  # type: ignore[no-any-return]


def living(service: Service) -> list[int]:
    """The processes that have a shard; between two tasks of a killed one there may be fewer."""
    until(lambda: any(shard["pid"] for shard in shards(service)), "a process has a shard")
    return [int(shard["pid"]) for shard in shards(service) if shard["pid"]]


def kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):  # it has ended, and the next has not come yet
        os.kill(pid, signal.SIGKILL)


def all_on_spark(service: Service) -> bool:
    return all(shard["runner"] == "spark" for shard in shards(service))


@pytest.mark.timeout(300)
@pytest.mark.parametrize("count", [2, 4])
def test_seats_that_wander_and_workers_that_die_change_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    with opened(tmp_path / "inline") as service:
        begin(service)
        say(service, random.Random(1), range(1, 160), lambda time: None)
        expected = said(service)

    with_seats(monkeypatch)
    chance = random.Random(2)
    settings = SparkSettings(epoch_s=0.3, warmup_epochs=1, shards=count)
    with opened(tmp_path / "shards", SystemClock(), engine="spark", spark=settings) as service:
        begin(service)
        plans: list[int] = []

        def between(time: int) -> None:
            if time in (20, 90, 158):
                until(lambda: all_on_spark(service), "all shards are on Spark")
            if time in (30, 60, 100):  # one shard is lost for a while, or tried again
                kill(chance.choice(living(service)))
            if time == 120:  # a plan with other weights begins with the next epoch
                spark = service._engine.spark
                assert spark is not None
                bell, plan = spark._bell, service._engine.merge.plan
                with bell._lock:
                    bell.epochs.next_plan = followed = ShardPlan(plan.number + 1, (3.0, *plan.weights[1:]))
                plans.append(followed.number)

            if time == 140:
                until(lambda: service._engine.merge.plan.number >= plans[0], "the plan is followed")

        say(service, random.Random(1), range(1, 160), between)
        assert_same(said(service), expected)
        status = shards(service)
        assert len(status) == count and service._engine.merge.plan.number >= plans[0]
        placed = {service.query_status(name)["shard"] for name in NAMES}
        assert len(placed) > 1 and {service.query_status(name)["why"] for name in NAMES} == {"Spark is up"}
        assert all(shard["steps"] > 0 for shard in status), status
        for each in (service.query_status(name) for name in NAMES):
            shard, worker = status[each["shard"]], each["worker"]
            assert (worker["host"], worker["pid"]) == (shard["host"], shard["pid"]) and worker["builds"] > 0
    assert all(len(expected[name]) > 10 for name in NAMES if not name.startswith("is"))


@pytest.mark.timeout(300)
def test_two_servers_on_one_machine_do_not_meet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    times, expected = range(1, 60), []
    for seed in (1, 2):
        with opened(tmp_path / f"inline{seed}") as service:
            begin(service)
            say(service, random.Random(seed), times, lambda time: None)
            expected.append(said(service))
    assert expected[0] != expected[1]

    with_seats(monkeypatch)
    settings = SparkSettings(epoch_s=0.3, warmup_epochs=1, shards=2)
    with (
        opened(tmp_path / "one", SystemClock(), engine="spark", spark=settings) as one,
        opened(tmp_path / "other", SystemClock(), engine="spark", spark=settings) as other,
    ):
        begin(one)
        begin(other)
        chances = random.Random(1), random.Random(2)
        for time in times:
            if time in (20, 58):
                for service in (one, other):
                    until(lambda service=service: all_on_spark(service), "all shards are on Spark")
            if time == 30:
                kill(living(one)[0])
            if time == 40:
                assert not set(living(one)) & set(living(other))
            for service, chance in zip((one, other), chances, strict=True):
                say(service, chance, range(time, time + 1), lambda time: None)
        for service, emissions in zip((one, other), expected, strict=True):
            assert_same(said(service), emissions)


@pytest.mark.timeout(300)
def test_what_is_behind_says_the_same_in_two_shards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(tmp_path / "at once") as service:

        def as_many(step: int) -> None:
            for name, runner in MOVES.get(step, ()):
                service.update(f"INSERT DATA {{ <http://ex/{name}> <http://ex/{runner}> {step} }}")

        expected = play_in_pieces(service, 1, as_many)

    with_seats(monkeypatch)

    def small(engine: Engine, role: Runner) -> Shard:
        shard = shard_of(engine, role)
        shard.pace = SMALL
        return shard

    shard_of = Engine._shard
    monkeypatch.setattr(Engine, "_shard", small)
    settings = SparkSettings(epoch_s=0.2, warmup_epochs=0, grace_s=0.05, shard_factory=FACTORY, shards=2)
    with opened(tmp_path / "pieces", SystemClock(), engine="spark", spark=settings) as service:

        def between(step: int) -> None:
            if step in (2, 8):
                until(lambda: service._engine.merge.owner == "spark", "Spark has a shard")
            for name, runner in MOVES.get(step, ()):
                service.move_query(name, runner)
            if step == 5:
                kill(living(service)[0])

        found = play_in_pieces(service, 1, between)
    for name in TEXTS:
        assert found[name] == expected[name], name


@pytest.mark.timeout(300)
def test_the_reason_is_true_while_spark_starts_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with_seats(monkeypatch)
    settings = SparkSettings(epoch_s=60, warmup_epochs=0, shards=2)
    with opened(tmp_path, SystemClock(), engine="spark", spark=settings) as service:
        begin(service)
        spark = service._engine.spark
        assert spark is not None
        until(lambda: all_on_spark(service), "all shards are on Spark")
        states: list[tuple[str, str]] = []
        monkeypatch.setattr(spark, "_on_state", lambda state, why: states.append((state, why)))
        kill(spark.status()["driver_pid"])
        until(lambda: bool(states) and states[-1][0] == "up", "Spark is up again")
        reasons = dict(states)
        assert "it is started again in" in reasons["down"]
        assert reasons["starting"].startswith("Spark is starting again, because it ended: ")
        assert "started again in" not in reasons["starting"] and spark.why == reasons["up"] == ""


@pytest.mark.timeout(300)
def test_what_subscribers_get_was_made_where_the_rows_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with_seats(monkeypatch)
    settings = SparkSettings(epoch_s=60, warmup_epochs=0, shards=2)
    with opened(tmp_path, SystemClock(), engine="spark", spark=settings) as service:
        begin(service)
        subscriptions = {name: service.subscribe(name, 0, lambda: None) for name in ("q0", "of0")}
        until(lambda: all_on_spark(service), "all shards are on Spark")
        subscriptions["q2"] = service.subscribe("q2", 0, lambda: None)
        made_here: list[str] = []
        rows = emission._rows

        def noted(body: EmissionBody) -> list[bytes]:
            made_here.append(body.query)
            return rows(body)

        monkeypatch.setattr(emission, "_rows", noted)
        say(service, random.Random(1), range(1, 40), lambda time: None)
        got = {name: [each.json for each in subscription.take()] for name, subscription in subscriptions.items()}
        assert all(len(emissions) > 5 for emissions in got.values()) and not made_here
        subscriptions["q0"].close()
        say(service, random.Random(1), range(40, 60), lambda time: None)
        assert subscriptions["q2"].take() and service.emissions("q0", 0, None) and set(made_here) == {"q0"}
        for name in ("q0", "of0", "q2"):  # from the log, where the rows are columns
            service._engine.emissions._recent.clear()
            from_log = [each.json for each in service.emissions(name, 0, None)]
            assert got[name] == from_log[: len(got[name])], name
