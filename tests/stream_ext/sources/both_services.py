"""Two services with the same data: one store has all of it, or a source has a part. Their emissions are compared."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pytest

from stream_ext.clock import ManualClock, SystemClock
from stream_ext.errors import SourceFailed
from stream_ext.runners.spark.settings import SparkSettings
from stream_ext.service.service import Service
from tests.parts.waiting import until
from tests.stream_ext.opened import EX, emissions_of, open_service, push, triple
from tests.stream_ext.runners.spark.doubles import PATIENCE_S
from tests.stream_ext.sources.pretended_source import PretendedSource


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

    def register(self, text: str) -> None:
        self.merged.register(text)
        self.split.register(text)

    def close_windows(self) -> None:
        self.push()

    def has_caught_up(self, name: str) -> bool:
        return True

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


def play(both: Both, queries: Sequence[str], seed: int) -> dict[str, str]:
    """A history of changes and pushes, with a restart in it; then the emissions of both services are compared. Returns
    the registered texts, by name."""
    names: dict[str, str] = {}
    for _ in range(3):
        both.change()
    for number, query in enumerate(both.chance.sample(queries, k=6)):
        r2s = both.chance.choice(("RSTREAM", "ISTREAM", "DSTREAM"))
        names[f"q{number}"] = registered(query, f"q{number}", r2s)
    late = set(both.chance.sample(sorted(names), k=2))
    for name in sorted(names.keys() - late):
        both.register(names[name])
    both.push()
    for step in range(14):
        if step == 5:
            for name in sorted(late):
                both.register(names[name])
        if step == 9:
            both.restart()
        (both.push if both.chance.random() < 0.5 else both.change)()
    both.close_windows()
    for name, text in names.items():
        until(lambda name=name: both.has_caught_up(name), f"{name} is evaluated")
        split, merged = shown(both.split, name), shown(both.merged, name)
        assert split == merged, f"seed {seed}: {text}\n{difference(split, merged)}"
    return names


def difference(split: list[tuple[Any, ...]], merged: list[tuple[Any, ...]]) -> str:
    """The emissions in which two services differ, by their places."""
    pairs = enumerate(zip_longest(split, merged), 1)
    return "\n".join(
        f"{place}: {one} of the split, {other} of the merged" for place, (one, other) in pairs if one != other
    )
