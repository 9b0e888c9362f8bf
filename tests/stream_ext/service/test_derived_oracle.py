"""Chains against the model: what the first query says are the second one's elements, at each evaluation."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pyoxigraph as ox
import pytest

from tests.stream_ext.opened import EX, emissions_of, open_service, push_lines
from tests.stream_ext.timing_model import Element, EmittedAt, Model, Window

Triple = tuple[str, str, str]
Observed = list[tuple[int, Counter[tuple[str, ...]]]]


def extent(window: Window) -> str:
    return f"RANGE {window.range_ms}ms STEP {window.step_ms}ms BOUNDS {window.bounds}"


def random_window(chance: random.Random) -> Window:
    return Window(
        1, chance.choice([5, 10, 30]), chance.choice([5, 7, 10]), bounds=chance.choice(["[)", "[)", "(]", "[]"])
    )


class Stage:
    """One query: the model of its windows, and pyoxigraph for its answers."""

    def __init__(self, window: Window, text: str, r2s: str) -> None:
        self.model, self.text, self.r2s = Model([window]), text, r2s
        self.contents: list[set[Triple]] = []
        self.before: Counter[tuple[str, ...]] = Counter()
        self.observed: Observed = []

    def push(self, elements: list[tuple[int, set[Triple]]], heartbeat: int | None = None) -> Observed:
        found = []
        if elements:
            made = [Element(1, time, len(self.contents) + i) for i, (time, _) in enumerate(elements)]
            self.contents += [triples for _, triples in elements]
            found += self.model.push(1, made)[1]
        if heartbeat is not None:
            found += self.model.heartbeat(1, heartbeat)
        observed = [(each.time, self._emitted(each)) for each in found]
        self.observed += observed
        return observed

    def _emitted(self, each: EmittedAt) -> Counter[tuple[str, ...]]:
        triples = {triple for number in each.contents[0] for triple in self.contents[number]}
        store = ox.Store()
        store.load("\n".join(" ".join(triple) + " ." for triple in triples).encode(), format=ox.RdfFormat.N_TRIPLES)
        answer = store.query(f"PREFIX : <{EX}> {self.text}")
        if isinstance(answer, ox.QueryTriples):
            now: Counter[tuple[str, ...]] = Counter((str(t.subject), str(t.predicate), str(t.object)) for t in answer)
        else:
            assert isinstance(answer, ox.QuerySolutions)
            now = Counter(tuple(str(row[v]) for v in answer.variables) for row in answer)
        before, self.before = self.before, now
        return now if self.r2s == "RSTREAM" else now - before if self.r2s == "ISTREAM" else before - now


FIRST = [
    ("CONSTRUCT { ?b :back ?a }", "?a :p ?b"),
    ("CONSTRUCT { ?a :p ?c . ?c :end :n1 }", "?a :p ?b . ?b :p ?c"),
    ("CONSTRUCT { ?b :p ?n }", "{ SELECT ?b (COUNT(?a) AS ?n) { ?a :p ?b } GROUP BY ?b }"),
]
SECOND = [("SELECT ?x ?y", "?x ?p ?y"), ("SELECT ?p (COUNT(*) AS ?n)", "?x ?p ?y"), ("SELECT ?x", "?x :p/:p? ?y")]


@pytest.mark.parametrize("block", range(4))
def test_what_one_says_the_other_reads(block: int, tmp_path: Path) -> None:
    evaluations = sum(play(seed, tmp_path / str(seed)) for seed in range(block * 10, block * 10 + 10))
    assert evaluations > 60


def play(seed: int, folder: Path) -> int:
    chance = random.Random(seed)
    (construct, pattern), (select, read) = chance.choice(FIRST), chance.choice(SECOND)
    first_window, second_window = random_window(chance), random_window(chance)
    first_r2s, second_r2s = (chance.choice(["RSTREAM", "RSTREAM", "ISTREAM", "DSTREAM"]) for _ in range(2))
    group = " GROUP BY ?p" if "COUNT" in select else ""
    first = Stage(first_window, f"{construct} WHERE {{ {pattern} }}", first_r2s)
    second = Stage(second_window, f"{select} WHERE {{ {read} }}{group}", second_r2s)
    service = open_service(folder)
    service.register(_text("one", "s", first_r2s, construct, first_window, pattern))
    service.register(_text("two", "one", second_r2s, select, second_window, read) + group)
    now = chance.randrange(20)
    for _ in range(chance.randrange(6, 14)):
        elements = []
        for _ in range(chance.randrange(1, 4)):
            now += chance.choice([0, 1, 2, 6])
            elements.append(
                (max(0, now - chance.choice([0, 0, 3])), {_triple(chance) for _ in range(chance.randrange(1, 4))})
            )
        lines = [{"timestamp": t, "data": "\n".join(" ".join(x) + " ." for x in sorted(ts))} for t, ts in elements]
        push_lines(service, "s", *lines)
        for time, observed in first.push(elements):
            made = {(s, p, o) for s, p, o in observed}
            second.push([(time, made)] if made else [], time)
        if chance.random() < 0.2:
            service.close()
            service = open_service(folder)
    found = [(emission["time"], _bag(emission)) for emission in emissions_of(service, "two")]
    assert found == second.observed, f"seed {seed}: {construct} {pattern} / {select} {read}"
    graphs = [(e["time"], Counter(map(_split, e["graph"].splitlines()))) for e in emissions_of(service, "one")]
    assert graphs == first.observed, f"seed {seed}"
    service.close()
    return len(first.observed) + len(second.observed)


def _text(name: str, stream: str, r2s: str, form: str, window: Window, pattern: str) -> str:
    return (
        f"PREFIX : <{EX}> REGISTER {r2s} {name} AS {form} FROM NAMED WINDOW :w ON {stream} [{extent(window)}] "
        f"WHERE {{ WINDOW :w {{ {pattern} }} }}"
    )


def _triple(chance: random.Random) -> Triple:
    a, b = (f"<{EX}n{chance.randrange(1, 5)}>" for _ in range(2))
    return (a, f"<{EX}p>", b)


def _split(line: str) -> tuple[str, ...]:
    s, p, o = line.removesuffix(" .").split(" ", 2)
    return s, p, o


def _bag(emission: dict[str, Any]) -> Counter[tuple[str, ...]]:
    names, rows = emission["head"]["vars"], emission["results"]["bindings"]
    return Counter(tuple(_shown(row[name]) for name in names) for row in rows)


def _shown(cell: dict[str, str]) -> str:
    return f"<{cell['value']}>" if cell["type"] == "uri" else f'"{cell["value"]}"^^<{cell["datatype"]}>'
