"""The whole line through real HTTP: streams, updates, registrations, a subscriber that comes back, and kill -9.

The same story is told to each kind of service, once calmly and once with the server killed at a seeded instant. What is
said must be what a model in plain Python says, emission by emission, whatever ran it and whatever happened to it."""

from __future__ import annotations

import contextlib
import json
import random
import threading
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
from SPARQLWrapper import JSON, POST, SPARQLWrapper

from endpoint.trial_hbase.server import HBase
from tests.end_to_end.process import PATIENCE_S, Listener, Process

EX = "http://ex/"
RANGE, STEP = 10_000, 1_000

NEAR = f"""PREFIX ex: <{EX}>
REGISTER RSTREAM near AS SELECT ?taxi ?zone ?city
FROM NAMED WINDOW ex:w ON STREAM taxis [RANGE PT10S STEP PT1S]
WHERE {{ WINDOW ex:w {{ ?taxi ex:in ?zone }} ?zone ex:partOf ?city }}"""

CAME = f"""PREFIX ex: <{EX}>
REGISTER ISTREAM came AS SELECT DISTINCT ?city
FROM NAMED WINDOW ex:w ON STREAM taxis [RANGE PT10S STEP PT1S]
WHERE {{ WINDOW ex:w {{ ?taxi ex:in ?zone }} ?zone ex:partOf ?city FILTER(?city != ex:city0) }}"""

Bag = Counter[tuple[str, ...]]


@dataclass(frozen=True)
class Push:
    time: int
    taxi: int
    zone: int

    @property
    def body(self) -> str:
        return (
            f"<{EX}taxi{self.taxi}> <{EX}in> <{EX}zone{self.zone}> .\n"
            f"<{EX}taxi{self.taxi}> <{EX}livesIn> <{EX}zone{self.taxi % 3}> .\n"
        )


@dataclass(frozen=True)
class Partition:
    """An update: a zone is part of a city from now on, or ceases to be."""

    zone: int
    city: int
    holds: bool

    @property
    def text(self) -> str:
        verb = "INSERT" if self.holds else "DELETE"
        return f"{verb} DATA {{ <{EX}zone{self.zone}> <{EX}partOf> <{EX}city{self.city}> }}"


def story(seed: int) -> list[Push | Partition]:
    chance = random.Random(seed)
    steps: list[Push | Partition] = [Partition(zone, zone % 3, True) for zone in range(4)]
    time = 1_000
    for _ in range(40):
        if chance.random() < 0.2:
            steps.append(Partition(chance.randrange(6), chance.randrange(3), chance.random() < 0.6))
        else:
            time += chance.choice([0, 100, 700, 1500])
            steps.append(Push(time, chance.randrange(8), chance.randrange(6)))
    return [*steps, Push(time + 2_500, 0, 0)]


# ---- the model ---------------------------------------------------------------------------------------------


@dataclass
class Model:
    parts: set[tuple[int, int]] = field(default_factory=set)
    arrived: list[Push] = field(default_factory=list)
    after: int = 0
    emitted: dict[str, list[tuple[int, Bag]]] = field(default_factory=lambda: {"near": [], "came": []})
    before: Bag = field(default_factory=Counter)

    def play(self, step: Push | Partition) -> None:
        if isinstance(step, Partition):
            pair = (step.zone, step.city)
            self.parts = self.parts | {pair} if step.holds else self.parts - {pair}
            return
        self.arrived.append(step)
        first = min(push.time for push in self.arrived)
        for close in range(STEP, step.time + 1, STEP):
            if close > max(first, self.after):
                self.after = close
                self._evaluate(close)

    def _evaluate(self, close: int) -> None:
        inside = {(p.taxi, p.zone) for p in self.arrived if close - RANGE <= p.time < close}
        near: Bag = Counter((f"taxi{t}", f"zone{z}", f"city{c}") for t, z in inside for y, c in self.parts if y == z)
        cities: Bag = Counter({(row[2],): 1 for row in near if row[2] != "city0"})
        self.emitted["near"].append((close, near))
        self.emitted["came"].append((close, cities - self.before))
        self.before = cities


def received(emissions: list[dict[str, Any]]) -> list[tuple[int, Bag]]:
    assert [e["emission"] for e in emissions] == list(range(1, len(emissions) + 1)), "numbers have a gap or repeat"
    out = []
    for emission in emissions:
        assert emission["windows"] == [
            {"stream": "taxis", "from": emission["time"] - RANGE, "to": emission["time"], "bounds": "[)"}
        ]
        names = emission["head"]["vars"]
        rows = [tuple(row[n]["value"].removeprefix(EX) for n in names) for row in emission["results"]["bindings"]]
        out.append((emission["time"], Counter(rows)))
    return out


# ---- the line ----------------------------------------------------------------------------------------------


class Teller:
    """Tells a story to a server; at step `kill_at` the server dies while that step is under way."""

    def __init__(self, server: Process, seed: int) -> None:
        self._server = server
        self._chance = random.Random(seed)

    def tell(self, steps: list[Push | Partition], first: int = 1, kill_at: int | None = None) -> None:
        """The steps are numbered from `first`: told twice, a push counts once, by source and seq."""
        for number, step in enumerate(steps, first):
            if number == kill_at:
                self._die_in_the_middle_of(number, step)
            self._send(number, step)

    def _die_in_the_middle_of(self, number: int, step: Push | Partition) -> None:
        killer = threading.Timer(self._chance.random() * 0.02, self._server.kill)
        killer.start()
        with contextlib.suppress(httpx.TransportError):  # never acknowledged: it is sent again, with the same number
            self._send(number, step)
        killer.join()
        self._server.start()

    def _send(self, number: int, step: Push | Partition) -> None:
        with self._server.client() as client:
            sent(client, number, step).raise_for_status()


def sent(client: httpx.Client, number: int, step: Push | Partition) -> httpx.Response:
    """The answer to this step of a story; a push that is sent again counts once."""
    if isinstance(step, Partition):
        return client.post("/update", data={"update": step.text})
    return client.post(
        f"/streams/taxis?timestamp={step.time}&source=story&seq={number}",
        content=step.body,
        headers={"content-type": "application/n-triples"},
    )


def open_line(server: Process) -> None:
    with server.client() as client:
        options = {"timeless": [f"{EX}livesIn"]}
        assert client.put("/streams/taxis", json=options).status_code == 201
        assert client.put("/streams/taxis", json=options).status_code == 200
        headers = {"content-type": "application/sparql-query"}
        answer = client.post("/queries", content=NEAR, headers=headers)
        assert (answer.status_code, answer.headers["location"]) == (201, f"{server.url}/queries/near")
        assert (answer.json()["query"], answer.json()["dialect"]) == ("near", "RSP-QL")
    wrapper = SPARQLWrapper(server.url + "/sparql")  # the second is registered as SPARQLWrapper would
    wrapper.setMethod(POST)
    wrapper.setReturnFormat(JSON)
    wrapper.setQuery(CAME)
    wrapper.query()


def play(server: Process, seed: int, kill_at: int | None, moved: bool) -> None:
    """The story, told and heard; `moved` waits until the queries run on Spark before the story goes on."""
    steps = story(seed)
    model = Model()
    for step in steps:
        model.play(step)
    server.start()
    open_line(server)
    listeners = {name: Listener(server.url, name) for name in ("near", "came")}
    teller = Teller(server, seed)
    teller.tell(steps[:10])  # inline at first
    if moved:
        server.until(lambda: server.runner_of("near") == "spark" == server.runner_of("came"))
    teller.tell(steps[9:10], 10)  # told again: it must not count again
    teller.tell(steps[10:], 11, kill_at)
    for name, listener in listeners.items():
        listener.wait_for(len(model.emitted[name]))
        assert received(listener.emissions) == model.emitted[name], name
        assert listener.connections >= (1 if kill_at is None else 2)
        listener.close()
    check_by_other_ways(server, steps, model)
    server.stop()


def check_by_other_ways(server: Process, steps: list[Push | Partition], model: Model) -> None:
    """ndjson, the latest answer, the absorbed triples: what SPARQLWrapper and curl would see."""
    lines = httpx.get(f"{server.url}/queries/near/results?since=0", timeout=PATIENCE_S).text.splitlines()
    assert received([json.loads(line) for line in lines]) == model.emitted["near"]
    homes = {(s.taxi, s.taxi % 3) for s in steps if isinstance(s, Push)}
    found = _select(server.url + "/sparql", f"SELECT ?taxi ?zone {{ ?taxi <{EX}livesIn> ?zone }}")
    assert found == Counter((f"taxi{t}", f"zone{z}") for t, z in homes)
    assert _select(server.url + "/sparql", f"SELECT * {{ ?taxi <{EX}in> ?zone }}") == Counter()
    assert _select(server.url + "/queries/near/results", "SELECT * { ?x ?y ?z }") == model.emitted["near"][-1][1]


def _select(url: str, text: str) -> Bag:
    wrapper = SPARQLWrapper(url)
    wrapper.setReturnFormat(JSON)
    wrapper.setQuery(text)
    answer: Any = wrapper.queryAndConvert()
    names = answer["head"]["vars"]
    return Counter(tuple(row[n]["value"].removeprefix(EX) for n in names) for row in answer["results"]["bindings"])


FOLD_OFTEN = "import hbase_store.writing.upkeep; hbase_store.writing.upkeep.FOLD_SLABS = 3"
SPARK_FLAGS = ("--spark-epoch", "3s")


@pytest.mark.parametrize("kill_at", [None, 17])
def test_the_line_holds_on_lmdb_inline(tmp_path: Path, kill_at: int | None) -> None:
    server = Process(f"lmdb:{tmp_path / 'store'}", "inline", tmp_path / "log")
    play(server, 1, kill_at, moved=False)


def test_the_line_holds_while_slabs_are_folded_all_the_time(tmp_path: Path) -> None:
    server = Process(f"lmdb:{tmp_path / 'store'}", "inline", tmp_path / "log", before=FOLD_OFTEN)
    play(server, 5, 30, moved=False)


@pytest.mark.soak
@pytest.mark.parametrize("kill_at", range(11, 40))
@pytest.mark.parametrize("seed", range(4, 14))
def test_the_line_holds_wherever_it_is_cut(tmp_path: Path, seed: int, kill_at: int) -> None:
    play(Process(f"lmdb:{tmp_path / 'store'}", "inline", tmp_path / "log"), seed, kill_at, moved=False)


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
def test_the_line_holds_on_lmdb_and_spark(tmp_path: Path) -> None:
    server = Process(f"lmdb:{tmp_path / 'store'}", "spark", tmp_path / "log", *SPARK_FLAGS, before=FOLD_OFTEN)
    play(server, 2, 23, moved=True)


@pytest.mark.soak
@pytest.mark.spark
@pytest.mark.xdist_group("spark")
def test_the_line_holds_on_spark_with_epochs_of_length_zero(tmp_path: Path) -> None:
    server = Process(f"lmdb:{tmp_path / 'store'}", "spark", tmp_path / "log", "--spark-epoch", "0")
    play(server, 3, 23, moved=True)


@pytest.mark.hbase
@pytest.mark.spark
@pytest.mark.xdist_group("hbase")
def test_the_line_holds_on_hbase_and_spark(tmp_path: Path, hbase_server: HBase) -> None:
    store = f"hbase://127.0.0.1:{hbase_server.thrift_port}/line"
    play(Process(store, "spark", tmp_path / "log", *SPARK_FLAGS), 2, 23, moved=True)
