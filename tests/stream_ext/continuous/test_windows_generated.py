"""Generated questions over windows: what each evaluation said, step by step, is what is found when it is made anew.

The questions are those of the differential test, with graphs become windows; so all ways to combine patterns meet rows
that come, run out, and are late, updates between evaluations, and restarts. Made anew, an emission is answered by the
one evaluation of two snapshots from nothing, which the differential test compares with other engines.

Capacities are set so low that everything is laid out anew, and cleaned, all the time. A failure is played again by

    python -m tests.stream_ext.continuous.test_windows_generated SEED"""

from __future__ import annotations

import json
import random
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from stream_ext.errors import RilletError
from stream_ext.service.service import Service
from tests.stream_ext.generated import PROLOGUE, Asked, Maker, Quad, quads, trig
from tests.stream_ext.low_capacities import low_capacities
from tests.stream_ext.opened import opened

TURTLE = "application/trig"
_QUERIES = 10


def windowed(chance: random.Random, number: int, asked: Asked) -> str:
    """The question with its graphs :g1 and :g2 as windows; GRAPH ?g and what stands outside is of the store."""
    head, group = asked.head, str(asked.group)
    froms = []
    for n in (1, 2):
        group = group.replace(f"GRAPH :g{n} ", f"WINDOW :w{n} ")
        length, step = chance.choice([5, 10, 20, 40]), chance.choice([5, 7, 10])
        bounds = chance.choice(["", "", " BOUNDS (]", " BOUNDS []"])
        extent = f"RANGE {length}ms STEP {step}ms T0 0{bounds}"
        froms.append(f"FROM NAMED WINDOW :w{n} ON s{chance.choice([1, n])} [{extent}]")
    verb = chance.choice(["RSTREAM", "ISTREAM", "DSTREAM"])
    return f"{PROLOGUE} REGISTER {verb} q{number} AS {head} {' '.join(froms)} WHERE {group} {asked.tail}"


class Scene:
    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.data = quads(self.chance, 30)
        self.now = {1: 1, 2: 1}
        self.texts: dict[int, str] = {}
        while len(self.texts) < _QUERIES:
            asked = Maker(self.chance).plain().whole
            if "GRAPH :g" in str(asked.group):
                number = len(self.texts)
                self.texts[number] = windowed(self.chance, number, asked)

    def begin(self, service: Service) -> list[str]:
        for n in (1, 2):
            service.create_stream(f"s{n}", {"lateness": self.chance.choice([0, 0, 6]), "retention": "1h"})
        running = []
        for number, text in self.texts.items():
            try:
                service.register(text)
            except RilletError:
                continue  # refused by name, or a text that is none
            running.append(f"q{number}")
        return running

    def step(self, service: Service) -> None:
        if self.chance.random() < 0.3:
            self._update(service)
            return
        stream = self.chance.choice([1, 1, 2])
        self.now[stream] += self.chance.choice([0, 1, 3, 6, 12])
        if self.chance.random() < 0.15:
            service.heartbeat(f"s{stream}", self.now[stream] + self.chance.choice([0, 5, 30]))
            return
        some = [(s, p, o, "") for s, p, o, _ in self.chance.sample(self.data, self.chance.randrange(1, 8))]
        time = max(0, self.now[stream] - self.chance.choice([0, 0, 0, 3, 9]))
        service.push(f"s{stream}", trig(some).encode(), TURTLE, timestamp=time)

    def _update(self, service: Service) -> None:
        some: list[Quad] = self.chance.sample(self.data, self.chance.randrange(1, 6))
        some = [quad for quad in some if not any(term.startswith("_:") for term in quad)]
        cut = self.chance.randrange(len(some) + 1)
        parts = [f"{verb} DATA {{ {_data(of)} }}" for verb, of in (("INSERT", some[:cut]), ("DELETE", some[cut:]))]
        service.update(f"{PROLOGUE} {' ; '.join(parts)}")


def _data(some: list[Quad]) -> str:
    return " ".join(f"{s} {p} {o} ." if not g else f"GRAPH {g} {{ {s} {p} {o} }}" for s, p, o, g in some)


def bag(emitted: dict[str, Any]) -> object:
    if "graph" in emitted:
        return sorted(emitted["graph"].splitlines())
    if "boolean" in emitted:
        return emitted["boolean"]
    return Counter(json.dumps(row, sort_keys=True) for row in emitted["results"]["bindings"])


def play(seed: int, folder: Path) -> int:
    """How many emissions there were, that said anything."""
    scene = Scene(seed)
    for life in range(3):
        with opened(folder) as service:
            running = scene.begin(service) if life == 0 else [query.name for query in service.queries()]
            for _ in range(12):
                scene.step(service)
            for stream in (1, 2):
                service.heartbeat(f"s{stream}", max(scene.now.values()) + 12 * life, wait="evaluated")
            errors = {name: error for name in running if (error := service.query_status(name)["error"]) is not None}
            assert not errors, f"seed {seed}, life {life}: {errors} {scene.texts}"
    with opened(folder) as service:
        return sum(check(service, name, scene, f"seed {seed}") for name in running)


def check(service: Service, name: str, scene: Scene, seed: str) -> int:
    observed = 0
    for emission in service.emissions(name, 0):
        emitted = bag(json.loads(emission.json))
        if not emitted and scene.chance.random() < 0.8:
            continue  # most are empty
        anew = bag(json.loads(service.emission_again(name, emission.number)))
        text = scene.texts[int(name[1:])]
        assert emitted == anew, f"{seed}, emission {emission.number} of {text}: said {emitted}, anew {anew}"
        observed += bool(emitted)
    return observed


@pytest.mark.timeout(400)  # half a minute alone, and there may be others
@pytest.mark.parametrize("low", [False, True])
@pytest.mark.parametrize("block", range(2))
def test_what_was_emitted_is_what_is_found_anew(block: int, low: bool, tmp_path: Path) -> None:
    observed = 0
    for seed in range(block * 4, block * 4 + 4):
        if low:
            with low_capacities():
                observed += play(seed, tmp_path / str(seed))
        else:
            observed += play(seed, tmp_path / str(seed))
    assert observed > 20, "little was said"


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place, low_capacities():
        for given in sys.argv[1:]:
            print(f"seed {given}: {play(int(given), Path(place) / given)} emissions, nothing is wrong")
