"""Chains across dialects against the oracles: what one query emits are the elements of the next one's stream.

Each stage is evaluated at arrivals, in any dialect, or at closes in RSP-QL. An emission with triples is an element, in
the order of its terms; one without triples, and an evaluation that emits nothing, are none."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import pytest

from tests.stream_ext.arrival_scene import ArrivalOracle, ArrivalScene, random_window
from tests.stream_ext.opened import EX, emissions_of, open_service, push_lines
from tests.stream_ext.scene import Bag, Push, Triple
from tests.stream_ext.service.test_derived_oracle import Stage as StageAtCloses
from tests.stream_ext.service.test_derived_oracle import _bag, _split, _text
from tests.stream_ext.service.test_derived_oracle import random_window as random_stepped_window

Elements = Sequence[tuple[int, tuple[Triple, ...]]]
Emitted = list[tuple[int, Bag | bool]]

MAKING = [
    ("CONSTRUCT { ?b :p ?a }", "?a :p ?b"),
    ("CONSTRUCT { ?a :p ?c . ?c :q ?b }", "?a :p ?b . ?b :p ?c"),
    ("CONSTRUCT { ?a :p :n1 . ?a :p ?b }", "?a :p ?b FILTER(?a != :n2)"),
]
READING = [("SELECT ?a ?b", "?a :p ?b"), ("SELECT ?a ?c", "?a :p ?b . ?b :p ?c"), ("SELECT DISTINCT ?b", "?a :p ?b")]


class Stage(Protocol):
    text: str

    def comes(self, elements: Elements, until: int | None) -> Emitted: ...


class AtArrivals:
    def __init__(self, name: str, stream: str, chance: random.Random, form: str, pattern: str) -> None:
        dialect = chance.choice(["cqels", "cqels", "rspql", "csparql"])
        r2s = chance.choice(
            [None, None, "RSTREAM", "DSTREAM"] if dialect == "cqels" else ["ISTREAM", "RSTREAM", "DSTREAM"]
        )
        window = random_window(chance, 1, dialect)
        block = pattern.replace(" FILTER", " . FILTER")
        self._scene = ArrivalScene(dialect, [window], form, f"@1{{ {block} }}", r2s)
        self._oracle = ArrivalOracle(self._scene)
        self.text = self._scene.text.replace(":q AS", f"{name} AS", 1).replace(":s1", stream)
        if dialect == "csparql":
            self.text = self.text.replace(" FROM :g1", "")

    def comes(self, elements: Elements, until: int | None) -> Emitted:
        if not elements:
            return []
        return [(time, rows) for _, time, rows in self._oracle.play(0, [Push(1, tuple(elements))])]


class AtCloses:
    def __init__(self, name: str, stream: str, chance: random.Random, form: str, pattern: str) -> None:
        window, r2s = random_stepped_window(chance), chance.choice(["RSTREAM", "ISTREAM", "DSTREAM"])
        self._stage = StageAtCloses(window, f"{form} WHERE {{ {pattern} }}", r2s)
        self.text = _text(name, stream, r2s, form, window, pattern)

    def comes(self, elements: Elements, until: int | None) -> Emitted:
        return list(self._stage.push([(time, set(triples)) for time, triples in elements], until))


@pytest.mark.parametrize("block", range(3))
def test_what_one_emits_the_next_one_reads(block: int, tmp_path: Path) -> None:
    emitted = sum(play(seed, tmp_path / str(seed)) for seed in range(block * 12, block * 12 + 12))
    assert emitted > 150


@pytest.mark.soak
@pytest.mark.parametrize("block", range(20))
def test_hundreds_of_chains(block: int, tmp_path: Path) -> None:
    for seed in range(10_000 + block * 50, 10_000 + block * 50 + 50):
        play(seed, tmp_path / str(seed))


def play(seed: int, folder: Path) -> int:
    chance = random.Random(seed)
    service, stages, names = open_service(folder), list[Stage](), ["s", "one", "two", "three"]
    service.create_stream("s", {})
    length = chance.choice([2, 2, 3])
    for place in range(length):
        form, pattern = chance.choice(READING if place == length - 1 else MAKING)
        kind = chance.choice([AtArrivals, AtArrivals, AtCloses])
        stages.append(kind(names[place + 1], names[place], chance, form, pattern))
        service.register(stages[-1].text)
    expected: list[Emitted] = [[] for _ in stages]
    now = chance.randrange(20)
    for _ in range(chance.randrange(6, 14)):
        elements = []
        for _ in range(chance.randrange(1, 4)):
            now += chance.choice([0, 1, 2, 6])
            triples = tuple(_triple(chance) for _ in range(chance.randrange(1, 4)))
            elements.append((max(0, now - chance.choice([0, 0, 3])), triples))
        lines = [{"timestamp": t, "data": "\n".join(" ".join(x) + " ." for x in triples)} for t, triples in elements]
        push_lines(service, "s", *lines)
        _pass_on(stages, expected, 0, elements, None)
        if chance.random() < 0.2:
            service.close()
            service = open_service(folder)
    for name, observed in zip(names[1:], expected, strict=False):
        found = emissions_of(service, name)
        shown = [
            (each["time"], Bag(map(_split, each["graph"].splitlines())) if "graph" in each else _bag(each))
            for each in found
        ]
        assert shown == observed, f"seed {seed}, {name}: {[each.text for each in stages]}"
    service.close()
    return sum(map(len, expected))


def _pass_on(
    stages: Sequence[Stage], expected: Sequence[Emitted], place: int, elements: Elements, until: int | None
) -> None:
    for time, rows in stages[place].comes(elements, until):
        expected[place].append((time, rows))
        if place + 1 < len(stages):
            assert not isinstance(rows, bool)
            made = tuple(sorted(rows))
            _pass_on(stages, expected, place + 1, [(time, made)] if made else [], time)  # type: ignore[list-item]


def _triple(chance: random.Random) -> Triple:
    a, b = (f"<{EX}n{chance.randrange(1, 5)}>" for _ in range(2))
    return (a, f"<{EX}p>", b)
