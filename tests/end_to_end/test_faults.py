"""A campaign of faults: a server that is stopped, killed, set back in time, without disk, fenced by another, or whose
Spark hangs, while clients go on. What it emits must be, emission by emission, what the model says.

Each seed chooses the faults and when they strike. The clients do what good clients do: a push that was not acknowledged
is sent again with its number; an update too (it is idempotent). Continuous integration plays a few seeds; `make soak`
plays many, and those on Spark and on HBase."""

from __future__ import annotations

import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from endpoint.trial_hbase.server import HBase
from tests.end_to_end.process import PATIENCE_S, Listener, Process
from tests.end_to_end.test_line import SPARK_FLAGS, Model, Partition, Push, open_line, received, sent, story
from tests.stream_ext.runners.spark.processes import family

#: The clock of the server's process is behind by as many milliseconds as stand in this file.
SLOW_CLOCK = """
import time
_ns, _s, _file = time.time_ns, time.time, {file!r}
def _behind_ms():
    try:
        with open(_file) as file:
            return int(file.read() or 0)
    except FileNotFoundError:
        return 0
time.time_ns = lambda: _ns() - _behind_ms() * 1_000_000
time.time = lambda: _s() - _behind_ms() / 1_000
"""

TICKS = """PREFIX ex: <http://ex/>
REGISTER RSTREAM ticks AS SELECT (COUNT(*) AS ?n)
FROM NAMED WINDOW ex:w ON STREAM wall [RANGE PT1S STEP PT1S]
WHERE { WINDOW ex:w { ?s ex:at ?o } }"""

Fault = Callable[["Campaign"], None]


class Campaign:
    """One server, its clients and its model; `server` is the one that clients talk to."""

    def __init__(self, server: Process, seed: int, folder: Path) -> None:
        self.server, self.folder = server, folder
        self.chance = random.Random(f"faults {seed}")
        self.clock = folder / "behind_ms"

    @property
    def pid(self) -> int:
        assert self.server._process is not None
        return self.server._process.pid

    def soon(self, act: Callable[[], None]) -> threading.Timer:
        """Acts while the next request is under way, or just before or after it."""
        timer = threading.Timer(self.chance.random() * 0.03, act)
        timer.start()
        return timer

    def send(self, number: int, step: Push | Partition) -> None:
        """Until it is acknowledged."""

        def acknowledged() -> bool:
            try:
                with httpx.Client(base_url=self.server.url, timeout=20) as client:
                    answer = sent(client, number, step)
            except httpx.TransportError:
                return False
            assert answer.status_code in (200, 202, 204, 429, 503), (answer.status_code, answer.text)
            return answer.status_code < 300

        self.server.until(acknowledged)


# ---- faults ----------------------------------------------------------------------------------------------------


def mended_after(seconds: float, mend: Callable[[], object]) -> None:
    """The next fault may have killed the process by then."""

    def act() -> None:
        with suppress(ProcessLookupError):
            mend()

    threading.Timer(seconds, act).start()


def stopped(campaign: Campaign) -> None:
    """The process stands still for a while, as under a debugger, or on a machine that is suspended."""
    pid, rest_s = campaign.pid, 0.3 + 2 * campaign.chance.random()

    def stop() -> None:
        os.kill(pid, signal.SIGSTOP)
        mended_after(rest_s, lambda: os.kill(pid, signal.SIGCONT))

    campaign.soon(stop)


def killed(campaign: Campaign) -> None:
    def kill() -> None:
        campaign.server.kill()
        campaign.server.start()

    campaign.soon(kill).join()


def without_disk(campaign: Campaign) -> None:
    """No file of the process may grow any more; then there is room again."""
    pid, room = campaign.pid, (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))
    mended_after(0.5 + campaign.chance.random(), lambda: resource.prlimit(pid, resource.RLIMIT_FSIZE, room))


def set_back(campaign: Campaign) -> None:
    """The wall clock goes back by an hour, and stays so. Streams that run by the clock go on."""
    behind = int(campaign.clock.read_text()) if campaign.clock.exists() else 0
    campaign.clock.write_text(str(behind + 3_600_000))
    with httpx.Client(base_url=campaign.server.url, timeout=PATIENCE_S) as client:
        seen = client.get("/queries/ticks").json()["emissions"]
        campaign.server.until(lambda: client.get("/queries/ticks").json()["emissions"] > seen)


def truncated(campaign: Campaign) -> None:
    """A copy of the store that lacks its end is refused in words; the store itself goes on."""
    campaign.server.kill()
    store = campaign.folder / "store"
    copy = campaign.folder / "cut"
    shutil.copytree(store, copy)
    data = copy / "data.mdb"
    os.truncate(data, data.stat().st_size // 2)
    observed = subprocess.run(
        [sys.executable, "-m", "endpoint", "query", "--store", f"lmdb:{copy}", "SELECT * { ?s ?p ?o }"],
        capture_output=True, text=True, timeout=PATIENCE_S, check=False,
    )  # fmt: skip
    shutil.rmtree(copy)
    assert observed.returncode > 0, f"ended by signal {-observed.returncode}, or as if nothing were wrong"
    assert "it was cut off" in observed.stderr, observed.stderr
    campaign.server.start()


def spark_hangs(campaign: Campaign) -> None:
    """A process below the server's stands still: a worker, the driver or the JVM. It is replaced."""
    below = family(campaign.pid)[1:]
    if below:
        os.kill(campaign.chance.choice(below), signal.SIGSTOP)


def spark_dies(campaign: Campaign) -> None:
    below = family(campaign.pid)[1:]
    if below:
        os.kill(campaign.chance.choice(below), signal.SIGKILL)


# ---- the campaign ------------------------------------------------------------------------------------------------


def open_clock(server: Process) -> None:
    with server.client() as client:
        headers = {"content-type": "application/sparql-query"}
        assert client.post("/queries", content=TICKS, headers=headers).status_code == 201
        at = {"content-type": "application/n-triples"}
        element = "<http://ex/a> <http://ex/at> <http://ex/b> ."
        client.post("/streams/wall", content=element, headers=at).raise_for_status()


@contextmanager
def running(server: Process) -> Iterator[None]:
    """Whatever happens, nothing of it goes on."""
    server.start()
    try:
        yield
    finally:
        if server._process is not None and server._process.poll() is None:
            for pid in family(server._process.pid):
                try:
                    os.kill(pid, signal.SIGCONT)
                except ProcessLookupError:
                    continue
            os.killpg(server._process.pid, signal.SIGKILL)
            server._process.wait()


def play(server: Process, seed: int, folder: Path, faults: list[Fault], many: int, moved: bool = False) -> None:
    steps = story(seed)
    model = Model()
    for step in steps:
        model.play(step)
    campaign = Campaign(server, seed, folder)
    strikes = dict.fromkeys(campaign.chance.sample(range(11, len(steps)), many))
    for number, fault in zip(strikes, campaign.chance.sample(faults * many, many), strict=True):
        strikes[number] = fault
    with running(server):
        open_line(server)
        if set_back in strikes.values():
            open_clock(server)
        listeners = {name: Listener(server.url, name) for name in ("near", "came")}
        if moved:
            server.until(lambda: server.runner_of("near") == "spark")
        for number, step in enumerate(steps, 1):
            if (fault := strikes.get(number)) is not None:
                fault(campaign)
            campaign.send(number, step)
        for name, listener in listeners.items():
            listener.wait_for(len(model.emitted[name]))
            assert received(listener.emissions) == model.emitted[name], f"seed {seed}, {name}"
            listener.close()
        server.stop()


HERE: list[Fault] = [stopped, killed, without_disk, set_back, truncated]


def on_lmdb(folder: Path, engine: str, *flags: str) -> Process:
    before = SLOW_CLOCK.format(file=str(folder / "behind_ms"))
    return Process(f"lmdb:{folder / 'store'}", engine, folder / "log", *flags, before=before)


@pytest.mark.parametrize("fault", HERE, ids=lambda fault: fault.__name__)
def test_the_line_holds_under_each_fault(tmp_path: Path, fault: Fault) -> None:
    play(on_lmdb(tmp_path, "inline"), 1, tmp_path, [fault], many=2)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(100))
def test_the_line_holds_under_many_faults(tmp_path: Path, seed: int) -> None:
    play(on_lmdb(tmp_path, "inline"), seed, tmp_path, HERE, many=5)


@pytest.mark.soak
@pytest.mark.spark
@pytest.mark.parametrize("seed", range(25))
def test_the_line_holds_on_spark_under_many_faults(tmp_path: Path, seed: int) -> None:
    server = on_lmdb(tmp_path, "spark", *SPARK_FLAGS)
    play(server, seed, tmp_path, [*HERE, spark_hangs, spark_hangs, spark_dies], many=5, moved=True)


# ---- a second server takes over a store on HBase ------------------------------------------------------------------


def sent_to(campaign: Campaign, server: Process, numbered: list[tuple[int, Push | Partition]]) -> None:
    campaign.server = server
    for number, step in numbered:
        campaign.send(number, step)


def until_it_writes(server: Process) -> None:
    """Begins as a reader, and becomes the writer when the other one's lease is over."""
    server.until(lambda: bool(httpx.get(server.url + "/$/stats", timeout=PATIENCE_S).json()["role"] == "writer"))


def fence(store: str, seed: int, folder: Path) -> None:
    """The first server is stopped, a second one takes the store over, publishes and ends, and the first goes on."""
    steps = list(enumerate(story(seed), 1))
    model = Model()
    for _, step in steps:
        model.play(step)
    first, second = (Process(store, "inline", folder / name) for name in ("first", "second"))
    campaign = Campaign(first, seed, folder)
    cut, back = sorted(campaign.chance.sample(range(11, len(steps) - 3), 2))
    with running(first):
        open_line(first)
        sent_to(campaign, first, steps[:cut])
        os.kill(campaign.pid, signal.SIGSTOP)
        with running(second):
            until_it_writes(second)
            sent_to(campaign, second, steps[cut:back])
            second.stop()
        os.kill(first._process.pid if first._process else 0, signal.SIGCONT)
        sent_to(campaign, first, steps[back:])
        for name, emitted in model.emitted.items():
            said_by = lambda name=name: _emissions(first.url, name)  # noqa: E731
            first.until(lambda emitted=emitted, said_by=said_by: len(said_by()) >= len(emitted))  # type: ignore[misc]
            assert received(said_by()) == emitted, f"seed {seed}, {name}"


def _emissions(url: str, query: str) -> list[dict[str, Any]]:
    answer = httpx.get(f"{url}/queries/{query}/results?since=0", timeout=PATIENCE_S)
    return [httpx.Response(200, content=line).json() for line in answer.text.splitlines()]


@pytest.mark.soak
@pytest.mark.hbase
@pytest.mark.xdist_group("hbase")
@pytest.mark.parametrize("seed", range(20))
def test_a_server_that_was_stopped_continues_whenever_another_wrote(
    tmp_path: Path, hbase_server: HBase, seed: int
) -> None:
    fence(f"hbase://127.0.0.1:{hbase_server.thrift_port}/fenced{seed}", seed, tmp_path)
