"""A standalone cluster says what the inline runner says, whatever of it is killed, comes or goes."""

from __future__ import annotations

import random
import signal
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from pathlib import Path

import pytest

from stream_ext.clock import SystemClock
from stream_ext.runners.spark.settings import SparkSettings
from stream_ext.service.service import Service
from tests.parts.waiting import until
from tests.stream_ext.opened import opened
from tests.stream_ext.runners.spark.kills import OF_DRIVERS, OF_WORKERS, Kill, Round
from tests.stream_ext.runners.spark.kills import play as kills_played
from tests.stream_ext.runners.spark.standalone import Standalone
from tests.stream_ext.runners.spark.test_shards_on_spark import (
    all_on_spark,
    assert_same,
    begin,
    kill,
    living,
    said,
    say,
    shards,
)  # fmt: skip

#: A JVM and an executor are started on a machine that does other things.
_STARTS_S = 240


@pytest.fixture
def temporary(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of the driver: what is in it can be hidden from the workers. Its name must be short."""
    with tempfile.TemporaryDirectory(prefix="rl-", dir="/tmp") as folder:
        monkeypatch.setattr(tempfile, "tempdir", folder)
        yield Path(folder)


def settings_of(cluster: Standalone, **others: object) -> SparkSettings:
    address = cluster.address if cluster.has_networks else ""
    named = {"epoch_s": 1.0, "warmup_epochs": 2, "shards": 2, "master": cluster.url, "address": address, **others}
    return SparkSettings(**named)


def on_spark(service: Service) -> None:
    until(lambda: all_on_spark(service), "all shards are on Spark", _STARTS_S)


def inline(folder: Path, times: range) -> dict[str, list[bytes]]:
    with opened(folder) as service:
        begin(service)
        say(service, random.Random(1), times, lambda time: None)
        return said(service)


def without_trials(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is tried apart after a death makes snapshots of its own, and numbers would differ."""
    monkeypatch.setattr("stream_ext.runners.quarantine.Quarantine.hold", lambda self, death: None)


def play(
    folder: Path,
    cluster: Standalone,
    settings: SparkSettings,
    times: range,
    meanwhile: dict[int, Callable[[Service], None]],
) -> dict[str, list[bytes]]:
    with opened(folder, SystemClock(), engine="spark", spark=settings) as service:
        begin(service)
        on_spark(service)
        say(service, random.Random(1), times, lambda time: meanwhile.get(time, lambda service: None)(service))
        return said(service)


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
@pytest.mark.timeout(900)
def test_two_machines_say_what_one_process_says(
    tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker's Python process and an executor die, a machine goes and another one comes."""
    without_trials(monkeypatch)
    times = range(1, 100)
    expected = inline(tmp_path / "inline", times)
    secret = {
        "spark.authenticate": "true",
        "spark.authenticate.secret": "s3cret",
        "spark.network.crypto.enabled": "true",
    }
    with Standalone(tmp_path / "spark", [temporary], secret) as cluster:
        cluster.start_workers(1, 2)

        def both_machines(service: Service) -> None:
            hosts = {shard["host"] for shard in shards(service)}
            assert not cluster.has_networks or hosts == {"rillet-worker1", "rillet-worker2"}
            assert "s3cret" not in command_lines()

        def a_machine_goes(service: Service) -> None:
            cluster.kill("worker2")
            until(lambda: not all_on_spark(service), "a shard is lost", _STARTS_S)

        def a_machine_comes(service: Service) -> None:
            cluster.start_workers(3)
            on_spark(service)

        found = play(tmp_path / "cluster", cluster, settings_of(cluster, conf=secret), times, {
            5: both_machines,
            20: lambda service: kill(living(service)[0]),
            35: on_spark,
            40: lambda service: [kill(pid) for pid in cluster.executors(1)],
            55: on_spark,
            60: a_machine_goes,
            75: a_machine_comes,
        })  # fmt: skip
    assert_same(found, expected)


def command_lines() -> str:
    found = []
    for each in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found.append(each.read_bytes().decode("utf-8", "replace"))
        except OSError:
            continue
    return "\n".join(found)


@pytest.mark.soak
@pytest.mark.spark
@pytest.mark.xdist_group("spark")
@pytest.mark.parametrize("seed", range(500, 504))
def test_whatever_happens_to_machines_changes_nothing(seed: int, tmp_path: Path, temporary: Path) -> None:
    with Standalone(tmp_path / "spark", [temporary]) as cluster:
        cluster.start_workers(1, 2)
        there, numbers = [1, 2], count(3)

        def executor(number: signal.Signals, round: Round) -> None:
            for pid in cluster.executors(round.chance.choice(there)):
                round.signal(pid, number)

        def machine(round: Round) -> None:
            goes, comes = round.chance.choice(there), next(numbers)
            there.remove(goes)
            there.append(comes)
            cluster.kill(f"worker{goes}")
            cluster.start_workers(comes)

        kills: dict[str, Kill] = OF_WORKERS | OF_DRIVERS | {
            "kill an executor": partial(executor, signal.SIGKILL),
            "stop an executor": partial(executor, signal.SIGSTOP),
            "another machine": machine,
        }  # fmt: skip
        settings = settings_of(cluster, step_timeout_s=4.0)
        did = kills_played(seed, tmp_path / "service", settings, kills, pushes=100, rest=25)
    assert did["emissions"] > 100, did


@pytest.mark.soak
@pytest.mark.spark
@pytest.mark.xdist_group("spark")
def test_a_machine_that_has_not_the_file_of_the_store_says_so(tmp_path: Path, temporary: Path) -> None:
    with Standalone(tmp_path / "spark", [temporary]) as cluster:
        if not cluster.has_networks:
            pytest.skip("this user may not make machines (network, mount and process namespaces)")
        cluster.start_workers(1, own_processes=True)
        settings = settings_of(cluster, shards=1)
        with opened(tmp_path / "store", SystemClock(), engine="spark", spark=settings) as service:
            begin(service)
            spark = service._engine.spark
            until(lambda: "cannot read" in spark.why, "Spark says why it is not up", _STARTS_S)
            assert "a worker of Spark on rillet-worker1 cannot read" in spark.why and "HBase" in spark.why
