"""Chains of queries and windows on every stream, on a real server whose worker, driver or whole process dies.

    stream a --> one (CONSTRUCT) --> two (CONSTRUCT) --> three, with stream b beside it
    every stream, also what one and two say, and one that comes later --> counted, new

What has to be said is worked out here, in sets of triples: all windows close at the seconds, and no element is late."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import httpx
import pytest

from endpoint.client import Client
from endpoint.trial_hbase.server import HBase
from tests.end_to_end.process import Listener, Process
from tests.stream_ext.runners.spark.processes import worker

EX = "http://ex/"
Triple = tuple[str, str, str]
Bag = Counter[tuple[str, ...]]
Contents = Mapping[str, set[Triple]]  # by stream
Mortal = Literal["worker", "driver", "server"]
LENGTH = 45


def turned(held: Contents) -> Bag:
    return Counter({(y, "p", x) for x, _, y in held["a"]})


def twice(held: Contents) -> Bag:
    return Counter({(x, "p", z) for x, _, y in held["one"] for other, _, z in held["one"] if y == other})


def beside(held: Contents) -> Bag:
    pairs = [(x, z, [y for s, _, y in held["b"] if s == z]) for x, _, z in held["two"]]
    return Counter((x, z, y) for x, z, found in pairs for y in found or [""])


def counted(held: Contents) -> Bag:
    return Counter((stream, str(len(triples))) for stream, triples in held.items() if triples)


def new(held: Contents) -> Bag:
    return Counter((stream, x, y) for stream, triples in held.items() for x, _, y in triples)


@dataclass
class Standing:
    """A registered query; `streams` and the lengths of their windows, or one length for every stream."""

    r2s: str
    form: str
    pattern: str
    windows: Sequence[tuple[str, int]]
    answer: Callable[[Contents], Bag]
    after: int = 0
    before: Bag = field(default_factory=Counter)
    emitted: list[tuple[int, Bag]] = field(default_factory=list)

    def text(self, name: str) -> str:
        windows = " ".join(
            f"FROM NAMED WINDOW :w{i} ON {stream} [RANGE {ms}ms STEP 1s]" for i, (stream, ms) in enumerate(self.windows)
        )
        return f"PREFIX : <{EX}> REGISTER {self.r2s} {name} AS {self.form} {windows} WHERE {{ {self.pattern} }}"


def standing() -> dict[str, Standing]:
    one = "WINDOW :w0 { ?x :p ?y }"
    return {
        "one": Standing("RSTREAM", "CONSTRUCT { ?y :p ?x }", one, [("a", 3000)], turned),
        "two": Standing(
            "ISTREAM", "CONSTRUCT { ?x :p ?z }", "WINDOW :w0 { ?x :p ?y . ?y :p ?z }", [("one", 2000)], twice
        ),
        "three": Standing(
            "RSTREAM",
            "SELECT ?x ?z ?y",
            "WINDOW :w0 { ?x :p ?z } OPTIONAL { WINDOW :w1 { ?z :p ?y } }",
            [("two", 4000), ("b", 2000)],
            beside,
        ),
        "counted": Standing("RSTREAM", "SELECT ?s (COUNT(*) AS ?n)", one + " } GROUP BY ?s #", [("?s", 2000)], counted),
        "new": Standing("ISTREAM", "SELECT ?s ?x ?y", one, [("?s", 3000)], new),
    }


class Model:
    """What the queries say, push by push."""

    def __init__(self) -> None:
        self.queries = standing()
        self.elements: dict[str, list[tuple[int, set[Triple]]]] = {}
        self.times: dict[str, int] = {}

    def push(self, stream: str, time: int, triples: set[Triple]) -> None:
        if triples:
            self.elements.setdefault(stream, []).append((time, triples))
        self.times[stream] = time
        for name, query in self.queries.items():
            lengths = dict(query.windows)
            if "?s" in lengths:  # a stream holds back from its first element on
                lengths = dict.fromkeys(self.elements, lengths["?s"])
            if stream in lengths:
                self._evaluate(name, query, lengths)

    def _evaluate(self, name: str, query: Standing, lengths: Mapping[str, int]) -> None:
        firsts = [self.elements[stream][0][0] for stream in lengths if stream in self.elements]
        come_to = min(self.times.get(stream, -1) for stream in lengths)
        if not firsts:
            return
        for time in range(max(query.after, min(firsts) // 1000 * 1000) + 1000, come_to + 1, 1000):
            held = {stream: self._held(stream, time - ms, time) for stream, ms in lengths.items()}
            now, query.after = query.answer(held), time
            observed = now - query.before if query.r2s == "ISTREAM" else now
            query.before = now
            query.emitted.append((time, observed))
            if query.form.startswith("CONSTRUCT"):
                self.push(name, time, set(observed))  # type: ignore[arg-type]  # rows of three

    def _held(self, stream: str, start: int, end: int) -> set[Triple]:
        found = [triples for time, triples in self.elements.get(stream, []) if start <= time < end]
        return set().union(*found)


Step = tuple[str, int, set[Triple]]


def story(seed: int) -> list[Step]:
    """Streams in step, so that they hold each other back for a while only; c comes in the middle."""
    chance = random.Random(seed)
    steps, now = [], 0
    for number in range(LENGTH):
        now += chance.choice([100, 300, 900])
        stream = "c" if number == LENGTH // 2 else chance.choice("aab" if number < LENGTH // 2 else "aabc")
        node = lambda: f"n{chance.randrange(4)}"  # noqa: E731
        steps.append((stream, now, {(node(), "p", node()) for _ in range(chance.randrange(1, 4))}))
    return steps + [(stream, now + 5000, {("n0", "p", "n1")}) for stream in "bca"]


def play(server: Process, seed: int, deaths: Mapping[int, Mortal], on_spark: Sequence[int] = ()) -> None:
    """`on_spark`: before these steps it is waited for Spark; at those of `deaths` one dies while it is told."""
    chance, steps, model = random.Random(f"deaths {seed}"), story(seed), Model()
    server.start()
    with Client(server.url) as client:
        for stream in "ab":
            client.create_stream(stream)
        for name, query in model.queries.items():
            client.register(query.text(name))
    listeners = {name: Listener(server.url, name) for name in model.queries}
    for number, step in enumerate(steps, 1):
        if number in on_spark:
            server.until(lambda: server.runner_of("three") == "spark")
        if number in deaths:
            dies(server, deaths[number], number, step, chance.random() * 0.03)
        tell(server, number, step)
        model.push(*step)
    for name, listener in listeners.items():
        listener.wait_for(len(model.queries[name].emitted))
        assert [(one["time"], rows(one)) for one in listener.emissions] == model.queries[name].emitted, name
        listener.close()
        assert sum(bool(observed) for _, observed in model.queries[name].emitted) > 5, f"{name} said little"
    server.stop()


def tell(server: Process, number: int, step: Step) -> None:
    stream, time, triples = step
    body = "\n".join(f"<{EX}{s}> <{EX}{p}> <{EX}{o}> ." for s, p, o in sorted(triples))
    with Client(server.url) as client:
        if stream == "c":
            client.create_stream("c")
        client.push(stream, body, timestamp=time, wait="evaluated", source="story", seq=number)


def dies(server: Process, who: Mortal, number: int, step: Step, after_s: float) -> None:
    """In the middle of this step, if it is quick enough; the step is told again then, with the same number."""
    if who == "server":
        kill: Callable[[], object] = server.kill
    else:
        driver = httpx.get(server.url + "/$/stats", timeout=30).json()["spark"]["driver_pid"]
        pid = driver if who == "driver" else worker(driver)
        kill = lambda: os.kill(pid, signal.SIGKILL)  # noqa: E731
    killer = threading.Timer(after_s, kill)
    killer.start()
    with contextlib.suppress(httpx.TransportError):
        tell(server, number, step)
    killer.join()
    if who == "server":
        server.start()


def rows(emission: dict[str, Any]) -> Bag:
    if "graph" in emission:
        lines = [line.removesuffix(" .").split(" ") for line in emission["graph"].splitlines()]
        return Counter(tuple(term.strip("<>").removeprefix(EX) for term in line) for line in lines)
    names = emission["head"]["vars"]
    found = [[row[name]["value"] if name in row else "" for name in names] for row in emission["results"]["bindings"]]
    return Counter(tuple(value.rpartition("/")[2] for value in row) for row in found)


def test_a_chain_holds_inline_when_the_server_dies(tmp_path: Path) -> None:
    server = Process(f"lmdb:{tmp_path / 'store'}", "inline", tmp_path / "log")
    play(server, 0, {9: "server", 30: "server"})


SPARK_FLAGS = ("--spark-epoch", "2s")


@pytest.mark.soak
@pytest.mark.spark
@pytest.mark.xdist_group("spark")
def test_a_chain_holds_on_spark_whoever_dies(tmp_path: Path) -> None:
    server = Process(f"lmdb:{tmp_path / 'store'}", "spark", tmp_path / "log", *SPARK_FLAGS)
    play(server, 6, {12: "worker", 20: "driver", 30: "server"}, on_spark=[8])


@pytest.mark.hbase
@pytest.mark.spark
@pytest.mark.xdist_group("hbase")
def test_a_chain_holds_on_hbase_and_spark_whoever_dies(tmp_path: Path, hbase_server: HBase) -> None:
    store = f"hbase://127.0.0.1:{hbase_server.thrift_port}/chain"
    server = Process(store, "spark", tmp_path / "log", *SPARK_FLAGS)
    play(server, 4, {14: "worker", 26: "server"}, on_spark=[8])
