"""A server whose queries run inline, on one and on two shards of Spark: what a client of it notices.

start      from `rillet serve` until all shards are Spark's
push       from a push's first byte to the emission that it made due: 500 elements a second, 10 queries
idle       the CPU of each process while nothing comes; memory, pages that are shared divided among those who do
silence    the longest such time of each query after a SIGKILL of a worker, the JVM, the driver, in order: a query that
           was being evaluated then is tried in a process of its own before it goes on, the others are not; and after
           a SIGSTOP of each, with `--step-timeout 3s`
elements   how many a second come in over HTTP, and what each costs the server and the others, when the start is over;
           in `elements`, as many again on the same server

python -m tests.benchmarks.spark_served [start] [elements]     these two alone: three starts, and 596,000 elements with
                                                               each way to run the queries; some three minutes"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

from tests.benchmarks.line import Arrived, subscriber
from tests.benchmarks.server import Server

Figures = dict[str, Any]

_TICKS = os.sysconf("SC_CLK_TCK")
_STARTS_S = 600
#: The first is the one that the subscriber hears.
_NAMES = ("near", *(f"q{number}" for number in range(9)))
_STEP_MS = 20
STEP_TIMEOUT = ("--step-timeout", "3s")
_NDJSON = {"content-type": "application/x-ndjson"}


def query(
    name: str, pattern: str, window: str, select: str = "SELECT *", behind: str = "", r2s: str = "RSTREAM"
) -> str:
    return (
        f"PREFIX : <http://ex/> REGISTER {r2s} {name} AS {select} FROM NAMED WINDOW :w ON s [{window}] "
        f"WHERE {{ WINDOW :w {{ {pattern} }} }} {behind}"
    )


def ten() -> list[str]:
    """Ten queries of different templates."""
    window = f"RANGE PT1S STEP PT0.0{_STEP_MS}S"
    return [
        query(
            name, f"?x :p{place} ?y", window, "SELECT ?y (COUNT(?x) AS ?n)", f"GROUP BY ?y HAVING (COUNT(?x) > {place})"
        )
        for place, name in enumerate(_NAMES)
    ]


def heavy() -> list[str]:
    """A join and an aggregate."""
    return [
        query("near", "?x :in ?z . ?y :at ?z", "RANGE PT1S STEP PT1S", "SELECT ?x ?y", r2s="ISTREAM"),
        query("counts", "?x :in ?z", "RANGE PT10S STEP PT1S", "SELECT ?z (COUNT(?x) AS ?n)", "GROUP BY ?z"),
    ]


@dataclass
class Served:
    """A server with a stream and queries. `shards`: 0: inline."""

    folder: Path
    shards: int
    queries: Sequence[str]
    flags: Sequence[str] = ()
    start: Figures = field(default_factory=dict)
    _time: int = 1_000_000

    @contextlib.contextmanager
    def running(self) -> Iterator[Served]:
        spark = ("--spark-shards", str(self.shards)) if self.shards else ()
        began = time.perf_counter()
        with Server(self.folder, "spark" if self.shards else "inline", *spark, *self.flags) as self.server:
            self.client = self.server.client()
            self.start["ready_s"] = round(time.perf_counter() - began, 2)
            self.client.put("/streams/s", json={}).raise_for_status()
            for text in self.queries:
                answer = self.client.post(
                    "/queries", content=text, headers={"content-type": "application/sparql-query"}
                )
                answer.raise_for_status()
            self.until_on_spark()
            self.start["all_shards_s"] = round(time.perf_counter() - began, 2)
            self.start["cpu_s"] = by_kind(self.server.pid, self.cpu_s())
            yield self

    @property
    def spark(self) -> Figures:
        return self.client.get("/$/stats").json()["spark"] or {"shards": [], "driver_pid": None}

    def until_on_spark(self) -> None:
        self.server.wait_for(lambda: all(shard["runner"] == "spark" for shard in self.spark["shards"]), _STARTS_S)

    def until_at_rest(self) -> None:
        """Until nothing of the start is under way: the process that forks trials begins when Spark is up."""
        while True:
            before = self.cpu_s()
            time.sleep(1)
            if sum(since(before, self.cpu_s()).values()) < 0.1:
                return

    def worker(self) -> int:
        return next(int(shard["pid"]) for shard in self.spark["shards"] if shard["pid"])

    def driver(self) -> int:
        return int(self.spark["driver_pid"])

    def jvm(self) -> int:
        return next(pid for pid in family(self.driver()) if kind_of(pid) == "jvm")

    def cpu_s(self) -> dict[int, float]:
        """Of each process, since it was started."""
        return cpu_of_family(self.server.pid)

    def shares(self, before: dict[int, float], seconds: float) -> dict[str, float]:
        """Parts of a core, since `before`."""
        spent = by_kind(self.server.pid, since(before, self.cpu_s()))
        return {kind: round(each / seconds, 3) for kind, each in spent.items()}

    def pss_mb(self) -> dict[str, float]:
        return by_kind(self.server.pid, {pid: pss_of(pid) / 1024 for pid in family(self.server.pid)})

    # ---- pushes

    def push(self, elements: int) -> float:
        """So many elements, at the time of the next close."""
        self._time += _STEP_MS
        body = "\n".join(
            f'{{"timestamp":{self._time},"data":"<http://ex/a{place}> <http://ex/p{place % 10}> <http://ex/b> ."}}'
            for place in range(elements)
        )
        began = time.perf_counter()
        while (answer := self.client.post("/streams/s", content=body.encode(), headers=_NDJSON)).status_code == 429:
            time.sleep(0.05)  # the queries are behind
        answer.raise_for_status()
        return began

    def paced(self, arrived: Arrived, seconds: float) -> list[float]:
        """Milliseconds from push to emission, 50 pushes of 10 elements a second."""
        return _waited(self.pushed(seconds), arrived)

    def pushed(self, seconds: float, happens: Callable[[], None] = lambda: None) -> list[tuple[int, float]]:
        """The close that each push makes due, and when it was pushed. `happens` a second after the first."""
        pushed: list[tuple[int, float]] = []
        start = time.perf_counter()
        for number in range(int(seconds * 50)):
            time.sleep(max(0.0, start + number / 50 - time.perf_counter()))
            if number == 50:
                happens()
            pushed.append((self._time + _STEP_MS, self.push(10)))
        return pushed


def _waited(pushed: Sequence[tuple[int, float]], arrived: Arrived) -> list[float]:
    """The element that makes a close due is not in it: of the first push nothing is said."""
    return [(arrived.wait_for(at, 120) - began) * 1e3 for at, began in pushed[1:]]


def measure(shards: int, seconds: float, elements: int) -> Figures:
    """All figures of one way to run the queries."""
    found: Figures = {}
    with tempfile.TemporaryDirectory(prefix="rillet-bench-") as name:
        with Served(Path(name, "ten"), shards, ten()).running() as served, subscriber(served.server) as arrived:
            found["start"] = served.start
            served.paced(arrived, 3)
            before = served.cpu_s()
            found["push_ms"] = percentiles(served.paced(arrived, seconds))
            found["push_cpu"] = served.shares(before, seconds)
            before = served.cpu_s()
            time.sleep(seconds)
            found["idle_cpu"] = served.shares(before, seconds)
            found["pss_mb"] = served.pss_mb()
        if shards:
            found.update(silences(shards))
        for readers in (0, None):
            flags = () if readers is None else ("--push-readers", str(readers))
            with Served(Path(name, f"heavy{readers}"), shards, heavy(), flags).running() as served:
                served.until_at_rest()
                found["elements" if readers is None else "elements_read_by_the_server"] = over_http(served, elements)
    return found


def silences(shards: int) -> Figures:
    """Of a server that holds a silent process for hung after three seconds, not ten."""
    with (
        tempfile.TemporaryDirectory(prefix="rillet-bench-") as name,
        Served(Path(name, "ten"), shards, ten(), STEP_TIMEOUT).running() as served,
    ):
        ways = {"worker": served.worker, "jvm": served.jvm, "driver": served.driver}
        killed = {what: lambda pid=pid: os.kill(pid(), signal.SIGKILL) for what, pid in ways.items()}
        stopped = {what: lambda pid=pid: os.kill(pid(), signal.SIGSTOP) for what, pid in ways.items()}
        return {"silence_ms": silences_after(served, killed), "silence_if_stopped_ms": silences_after(served, stopped)}


def silences_after(served: Served, events: Mapping[str, Callable[[], None]]) -> dict[str, list[float]]:
    """For each event, the longest time from a push to its emission, of each query. Then waits until Spark is back."""
    found = {}
    with contextlib.ExitStack() as stack:
        subscribers = [stack.enter_context(subscriber(served.server, name)) for name in _NAMES]
        for what, happens in events.items():
            pushed = served.pushed(6, happens)
            found[what] = sorted(round(max(_waited(pushed, each)), 1) for each in subscribers)
            served.until_on_spark()
    return found


def over_http(served: Served, elements: int, first: int = 0) -> Figures:
    """Bodies of 1,000 lines by four connections; a subscriber of each query takes what is said. `first`: so many
    elements have come before."""
    ends = [listen(served.server.port, name) for name in ("near", "counts")]
    bodies = [body(start) for start in range(first, first + elements, 1_000)]
    for each in bodies[:20]:
        send(HTTPConnection("127.0.0.1", served.server.port), each, "published")
    before, began = served.cpu_s(), time.perf_counter()
    rest, turn = iter(bodies[20:-1]), threading.Lock()

    def pushing() -> None:
        connection = HTTPConnection("127.0.0.1", served.server.port)
        while True:
            with turn:
                taken = next(rest, None)
            if taken is None:
                return
            send(connection, taken, "published")

    threads = [threading.Thread(target=pushing) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    send(HTTPConnection("127.0.0.1", served.server.port), bodies[-1], "evaluated")
    wall_s, count = time.perf_counter() - began, elements - 20_000
    spent = by_kind(served.server.pid, since(before, served.cpu_s()))
    for end in ends:
        end.set()
    return {
        "elements": count,
        "elements_per_s": round(count / wall_s),
        "server_cpu_s": spent["server"],
        "server_us_an_element": round(spent["server"] / count * 1e6, 2),
        "cpu_s": spent,
        # What two cores could do that have nothing else to do, if all of it can be done side by side.
        "elements_per_two_core_seconds": round(count / max(sum(spent.values()) / 2, spent["server"])),
    }


def body(start: int) -> bytes:
    chance = random.Random(start)
    lines = []
    for number in range(start, start + 1_000):
        kind, zone = ("at", "in")[number % 2], chance.randrange(20_000)
        data = f"<http://ex/car{chance.randrange(5_000)}> <http://ex/{kind}> <http://ex/zone{zone}> ."
        lines.append(f'{{"timestamp":{1_000_000 + number // 20},"data":"{data}"}}')
    return "\n".join(lines).encode()


def send(connection: HTTPConnection, data: bytes, wait: str) -> None:
    while True:
        connection.request("POST", f"/streams/s?wait={wait}", body=data, headers=_NDJSON)
        answer = connection.getresponse()
        said = answer.read()
        if answer.status == 202:
            return
        if answer.status != 429:
            raise RuntimeError(said.decode())
        time.sleep(0.05)  # the queries are behind


def listen(port: int, name: str) -> threading.Event:
    """A subscriber that takes everything, until the event is set and more comes, or the server ends."""
    done, there = threading.Event(), threading.Event()

    def listening() -> None:
        connection = HTTPConnection("127.0.0.1", port)
        connection.request("GET", f"/queries/{name}/results", headers={"accept": "text/event-stream"})
        answer = connection.getresponse()
        there.set()
        with contextlib.suppress(OSError):
            while not done.is_set() and answer.read1(1 << 20):
                pass
        connection.close()

    threading.Thread(target=listening, daemon=True).start()
    there.wait(60)
    return done


# ---- processes ---------------------------------------------------------------------------------------------------


def family(pid: int | None) -> list[int]:
    """A process and all below it."""
    if pid is None:
        return []
    below: list[int] = []
    for file in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):  # the thread has ended
            below += [each for child in file.read_text().split() for each in family(int(child))]
    return [pid, *below]


def cpu_of(pid: int | None) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0  # it has ended
    return (int(fields[11]) + int(fields[12])) / _TICKS


def cpu_of_family(pid: int | None) -> dict[int, float]:
    return {each: cpu_of(each) for each in family(pid)}


def since(before: dict[int, float], after: dict[int, float]) -> dict[int, float]:
    """What each process has spent that is still there; one that has ended meanwhile takes nothing away."""
    return {pid: max(0.0, spent - before.get(pid, 0.0)) for pid, spent in after.items()}


def by_kind(server: int, figures: dict[int, float]) -> dict[str, float]:
    found: dict[str, float] = {}
    for pid, figure in figures.items():
        kind = "server" if pid == server else kind_of(pid)
        found[kind] = found.get(kind, 0.0) + figure
    return {kind: round(figure, 2) for kind, figure in found.items()}


def pss_of(pid: int) -> int:
    """In KiB: shared pages are divided among those that share them."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1])
    return 0


_KINDS = {
    "push_reader": "push readers",
    "query_workers": "query worker",
    "spark.driver": "driver",
    "runners.trial": "trials",
}


def kind_of(pid: int) -> str:
    with contextlib.suppress(OSError):
        command = Path(f"/proc/{pid}/cmdline").read_bytes().decode()
        if "java" in command.partition("\0")[0]:
            return "jvm"
        if "worker_module" in command:
            return "workers"
        return next((kind for part, kind in _KINDS.items() if part in command), "Spark's other Python")
    return "ended"


def percentiles(times: Sequence[float]) -> Figures:
    ordered = sorted(times)
    return {"p50": round(statistics.median(ordered), 2), "p99": round(ordered[int(len(ordered) * 0.99)], 2)}


# ---- two figures alone ---------------------------------------------------------------------------------------------

_ELEMENTS = 616_000  # 20,000 of them come before it is measured


def starts(rounds: int = 3, shards: int = 2) -> Figures:
    """Of servers with ten queries, each in a folder of its own."""
    found = []
    for _ in range(rounds):
        with (
            tempfile.TemporaryDirectory(prefix="rillet-bench-") as name,
            Served(Path(name, "ten"), shards, ten()).running() as served,
        ):
            found.append(served.start)
    return {"all_shards_s": [each["all_shards_s"] for each in found], "cpu_s": [each["cpu_s"] for each in found]}


def elements_alone(elements: int = _ELEMENTS) -> Figures:
    found: Figures = {}
    for way, shards in (("inline", 0), ("one", 1), ("two", 2)):
        with (
            tempfile.TemporaryDirectory(prefix="rillet-bench-") as name,
            Served(Path(name, "heavy"), shards, heavy()).running() as served,
        ):
            served.until_at_rest()
            # The first time, compiled loops are loaded when they are first needed: for the first fold, above all.
            found[way] = over_http(served, elements) | {"again": over_http(served, elements, elements)}
        print(way, json.dumps(found[way]), file=sys.stderr, flush=True)
    return found


if __name__ == "__main__":
    wanted = sys.argv[1:] or ["start", "elements"]
    ways: dict[str, Callable[[], Figures]] = {"start": starts, "elements": elements_alone}
    print(json.dumps({name: ways[name]() for name in wanted}, indent=2))
