"""A source beside our own store gives the emissions that one store with the data of both gives, whatever happens."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from stream_ext.clock import ManualClock, SystemClock
from stream_ext.errors import SourceFailed
from stream_ext.runners.spark.settings import SparkSettings
from stream_ext.service.service import Service
from tests.stream_ext.attached.pretended_source import PretendedSource
from tests.stream_ext.opened import EX, emissions_of, open_service, push, triple
from tests.stream_ext.runners.spark.doubles import PATIENCE_S
from tests.stream_ext.runners.spark.stand_in import DRIVER

QUERIES = [
    "SELECT ?t ?c { WINDOW :w { ?t :in ?z } ?z :partOf ?c }",
    "SELECT ?t { WINDOW :w { ?t :in ?z } ?z :partOf :c1 }",
    "SELECT ?t { WINDOW :w { ?t :in ?z } ?z :partOf :c2 }",
    "SELECT ?t ?c { WINDOW :w { ?t :in ?z } ?z :partOf+ ?c }",
    "SELECT ?t ?c { WINDOW :w { ?t :in ?z } ?z (:partOf|:near)* ?c }",
    "SELECT ?t ?g { WINDOW :w { ?t :in ?z } GRAPH ?g { ?z :partOf ?c } }",
    "SELECT ?t ?g { WINDOW :w { ?t :in ?z } GRAPH ?g { ?z :partOf ?c MINUS { ?c :near ?d } } }",
    "SELECT ?t ?c FROM :g1 FROM :g2 { WINDOW :w { ?t :in ?z } ?z :partOf ?c }",
    "SELECT ?c (COUNT(?t) AS ?n) { WINDOW :w { ?t :in ?z } ?z :partOf ?c } GROUP BY ?c",
    "SELECT ?t (COUNT(?c) AS ?n) { WINDOW :w { ?t :in ?z } ?z :partOf ?c . ?c :near ?d } GROUP BY ?t",
    "SELECT ?t { WINDOW :w { ?t :in ?z } FILTER NOT EXISTS { ?z :near ?d } }",
    "SELECT ?t ?c { WINDOW :w { ?t :in ?z } OPTIONAL { ?z :partOf ?c . ?c :near ?z } }",
    "SELECT ?t ?p ?o { WINDOW :w { ?t :in ?z } ?z ?p ?o }",
    "SELECT ?t ?g { WINDOW :w { ?t :in ?z } GRAPH ?g {} }",
    "SELECT ?t ?a ?b { WINDOW :w { ?t :in ?z } ?z :near ?a . ?a :near ?b . ?b :near ?z }",
    "ASK { WINDOW :w { ?t :in ?z } ?z :partOf ?c . ?z :near ?c }",
    "SELECT ?z ?c { ?z :partOf ?c . ?c :near ?d }",
    "SELECT ?z ?c { GRAPH ?g { ?z :partOf/:near ?c } }",
]


class Both:
    """One service whose store has everything, and one with a source, of which the store has a part."""

    def __init__(self, folder: Path, seed: int, spark: SparkSettings | None = None) -> None:
        """`spark`: the queries over the source run there."""
        self.spark = spark
        self.chance, self.folder = random.Random(seed), folder
        self.source = PretendedSource()
        self.clock = ManualClock(1_000_000)
        self.merged = open_service(folder / "merged", self.clock)
        self.split = self.open_split()
        self.parts: tuple[set[str], set[str]] = (set(), set())  # quads of our own store, and of the source
        self.time = 1_000

    def open_split(self) -> Service:
        if self.spark is None:
            return open_service(self.folder / "split", self.clock, sources=[self.source])
        service = open_service(
            self.folder / "split", SystemClock(), sources=[self.source], engine="spark", spark=self.spark
        )
        assert service._engine.spark is not None
        assert service._engine.spark.wait_for("up", PATIENCE_S)
        return service

    def quad(self) -> str:
        s, o = (f"<{EX}{self.chance.choice(('z1', 'z2', 'z3', 'c1', 'c2'))}>" for _ in range(2))
        p = self.chance.choice(("partOf", "partOf", "near"))
        graph = self.chance.choice(("", "", "", f"<{EX}g1> ", f"<{EX}g2> "))
        return f"{s} <{EX}{p}> {o} {graph}."

    def change(self) -> None:
        """Inserts or deletes some quads, of our own store or of the source; the merged store has what either has."""
        before = self.parts[0] | self.parts[1]
        which = self.chance.randrange(2)
        some = {self.quad() for _ in range(self.chance.randrange(1, 5))}
        if self.chance.random() < 0.4:
            some |= set(self.chance.sample(sorted(before), k=min(3, len(before))))
        inserts = {quad for quad in some if self.chance.random() < 0.6}
        deletes = (some - inserts) & self.parts[which]
        if which == 0:
            deletes -= self.parts[1]  # what the source holds, too, is not deleted here
        self.parts[which].difference_update(deletes)
        self.parts[which].update(inserts)
        now = self.parts[0] | self.parts[1]
        text = update(now - before, before - now)
        if text:
            self.merged.update(text, "evaluated")
        own = update(inserts, deletes)
        if which == 0 and own:
            self.split.update(own, "evaluated")
        elif which == 1:
            self.source.store.update(own)
            self.split.refresh_source("main", "evaluated")

    def push(self) -> None:
        self.time += self.chance.choice((200, 700, 1_500))
        taxis = [triple(f"t{self.chance.randrange(3)}", f"z{self.chance.randrange(1, 4)}", "in") for _ in range(2)]
        for service in (self.merged, self.split):
            push(service, "taxis", self.time, *taxis)

    def restart(self) -> None:
        """Perhaps while the source is away."""
        self.split.close()
        self.source.away = self.chance.random() < 0.5
        self.split = self.open_split()
        if self.source.away:
            self.push()
            with pytest.raises(SourceFailed):
                self.split.refresh_source("main")
            self.source.away = False
        self.split.refresh_source("main", "evaluated")

    def close(self) -> None:
        self.merged.close()
        self.split.close()


def update(inserts: set[str], deletes: set[str]) -> str:
    parts = []
    for verb, quads in (("DELETE", deletes), ("INSERT", inserts)):
        if quads:
            parts.append(f"{verb} DATA {{ {' '.join(map(in_graph, sorted(quads)))} }}")
    return "; ".join(parts)


def in_graph(quad: str) -> str:
    s, p, o, *graph = quad.removesuffix(" .").removesuffix(".").split()
    return f"GRAPH {graph[0]} {{ {s} {p} {o} }}" if graph else f"{s} {p} {o} ."


def registered(query: str, name: str, r2s: str) -> str:
    head, brace, pattern = query.partition("{")
    windows = "FROM NAMED WINDOW :w ON taxis [RANGE PT3S STEP PT1S] " if "WINDOW" in pattern else ""
    head = head.replace("FROM :g1", windows + "FROM :g1") if "FROM" in head else head + windows
    return f"PREFIX : <{EX}> REGISTER {r2s} {name} AS {head} {brace}{pattern}"


def shown(service: Service, name: str) -> list[tuple[Any, ...]]:
    """What each emission says, but for the snapshots, of which a source makes others."""
    found = []
    for each in emissions_of(service, name):
        bindings = each.get("results", {}).get("bindings", each.get("boolean"))
        rows = sorted(map(str, bindings)) if isinstance(bindings, list) else bindings
        time = each["time"] if each["windows"] else None
        found.append((time, each.get("repeated", 0), rows))
    return found


def unordered(emission: dict[str, Any]) -> dict[str, Any]:
    if "results" not in emission:
        return emission
    return emission | {"results": sorted(map(str, emission["results"]["bindings"]))}


@pytest.mark.parametrize("seed", range(12))
def test_emissions_are_those_of_one_store_with_the_data_of_both(tmp_path: Path, seed: int) -> None:
    play(tmp_path, seed)


@pytest.mark.parametrize("seed", range(100, 103))
def test_it_is_so_where_tasks_of_spark_step_the_queries(tmp_path: Path, seed: int) -> None:
    play(tmp_path, seed, SparkSettings(epoch_s=0.2, warmup_epochs=1, driver_module=DRIVER))


@pytest.mark.soak
@pytest.mark.parametrize("block", range(10))
def test_it_is_so_for_hundreds_of_histories(tmp_path: Path, block: int) -> None:
    for seed in range(1_000 + 50 * block, 1_050 + 50 * block):
        play(tmp_path / str(seed), seed)


def play(tmp_path: Path, seed: int, spark: SparkSettings | None = None) -> None:
    both = Both(tmp_path, seed, spark)
    names = {}
    try:
        for _ in range(3):
            both.change()
        for number, query in enumerate(both.chance.sample(QUERIES, k=6)):
            r2s = both.chance.choice(("RSTREAM", "ISTREAM", "DSTREAM"))
            names[f"q{number}"] = registered(query, f"q{number}", r2s)
        late = set(both.chance.sample(sorted(names), k=2))
        for name, text in names.items():
            if name not in late:
                both.merged.register(text)
                both.split.register(text)
        both.push()
        for step in range(14):
            if step == 5:
                for name in late:
                    both.merged.register(names[name])
                    both.split.register(names[name])
            if step == 9:
                both.restart()
            (both.push if both.chance.random() < 0.5 else both.change)()
        both.push()
        for name, text in names.items():
            assert shown(both.split, name) == shown(both.merged, name), f"seed {seed}: {text}"
        for name in names:
            for emission in emissions_of(both.split, name)[-2:]:
                again = json.loads(both.split.emission_again(name, emission["emission"]))
                assert unordered(again) == unordered(emission), f"seed {seed}: {names[name]}"
    finally:
        both.close()
