"""Scenes of queries that are evaluated at arrivals, and their oracle.

Instances come from the model of the language's sentences, answers from pyoxigraph. Its graphs are sets, and a window of
CQELS-QL is a bag of arrivals. So each triple that arrived is a graph of its own there, and each triple pattern over a
window asks for a graph that is in the window:

    STREAM :s [...] { ?a :p ?b }    =>    GRAPH ?.1 { ?a :p ?b } GRAPH <urn:held> { ?.1 <urn:in> :w1 }"""

from __future__ import annotations

import itertools
import random
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import pyoxigraph as ox

from tests.stream_ext.arrival_model import ArrivalModel, Element, Evaluation, Item, Window
from tests.stream_ext.scene import EX, Bag, Change, Push, Triple, _batch, _change

Observed = tuple[int, int, Bag | bool]
_BLOCK = re.compile(r"@(\d)\{ ([^}]*) \}")


def extent(window: Window) -> str:
    """As the language writes it."""
    if window.kind in ("NOW", "ALL"):
        return window.kind
    if window.counts:
        return f"{window.kind} {window.count}" + f" STEP {window.count_step}" * bool(window.count_step)
    length = f"RANGE {window.range_ms}ms"
    if window.until_ms:
        length = f"FROM NOW - {window.range_ms}ms TO NOW - {window.until_ms}ms"
    step = f" SLIDE {window.step_ms}ms T0 {window.t0}" if window.step_ms else ""
    return f"{length}{step}" + f" BOUNDS {window.bounds}" * (window.bounds != "(]")


@dataclass
class ArrivalScene:
    """`dialect`: cqels, rspql or csparql. In `pattern`, `@1{ ... }` is a group over the first window."""

    dialect: str
    windows: list[Window]
    select: str
    pattern: str
    r2s: str | None
    content_only: bool = False
    lateness: dict[int, int] = field(default_factory=lambda: {1: 0, 2: 0})
    steps: list[Change | list[Push]] = field(default_factory=list)

    @property
    def text(self) -> str:
        kind = self.r2s or "QUERY"
        report = " REPORT NON_EMPTY_CONTENT" * self.content_only
        if self.content_only:  # with it no other trigger is written, so the default one is
            report += ", CONTENT_CHANGE" * (self.dialect != "cqels")
        extents = [extent(window) + report * (place == 0) for place, window in enumerate(self.windows)]
        froms, pattern = "", self.pattern
        if self.dialect == "cqels":
            pattern = _BLOCK.sub(lambda found: self._streamed(int(found[1]) - 1, extents, found[2]), pattern)
        elif self.dialect == "rspql":
            each = (
                f"FROM NAMED WINDOW :w{i + 1} ON :s{w.stream} [{e}]" for i, (w, e) in enumerate(self._zipped(extents))
            )
            froms, pattern = " ".join(each), _BLOCK.sub(r"WINDOW :w\1 { \2 }", pattern)
        else:
            froms = " ".join(f"FROM STREAM :s{w.stream} [{e}]" for w, e in self._zipped(extents)) + " FROM :g1"
            pattern = _BLOCK.sub(r"\2 .", pattern)
        return f"PREFIX : <{EX}> REGISTER {kind} :q AS {self.select} {froms} WHERE {{ {pattern} }}"

    def _zipped(self, extents: Sequence[str]) -> list[tuple[Window, str]]:
        return list(zip(self.windows, extents, strict=True))

    def _streamed(self, place: int, extents: Sequence[str], inside: str) -> str:
        return f"STREAM :s{self.windows[place].stream} [{extents[place]}] {{ {inside} }}"

    @property
    def plain(self) -> str:
        """What pyoxigraph is asked."""
        fresh = itertools.count(1)

        def held(found: re.Match[str]) -> str:
            if self.dialect == "csparql":
                return f"{found[2]} ."
            if self.dialect == "rspql" or "+" in found[2]:  # the paths of a window are those of a set of triples
                return f"GRAPH <urn:window:{found[1]}> {{ {found[2]} }}"
            parts = []
            for pattern in found[2].split(" . "):
                if pattern.startswith(("FILTER", "BIND")):
                    parts.append(pattern)
                    continue
                item = f"?item{next(fresh)}"
                member = f"GRAPH <urn:held> {{ {item} <urn:in> <urn:window:{found[1]}> }}"
                parts.append(f"GRAPH {item} {{ {pattern} }} {member}")
            return " ".join(parts)

        return f"PREFIX : <{EX}> {self.select} WHERE {{ {_BLOCK.sub(held, self.pattern)} }}"

    def regrouped(self, chance: random.Random) -> list[Change | list[Push]]:
        """The same pushes and changes in the same order, otherwise cut into snapshots."""
        steps: list[Change | list[Push]] = []
        for step in self.steps:
            if isinstance(step, Change):
                steps.append(step)
                continue
            for push in step:
                last = steps[-1] if steps else None
                if isinstance(last, list) and chance.random() < 0.5:
                    last.append(push)
                else:
                    steps.append([push])
        return steps


PATTERNS = [
    ("SELECT ?a ?b", "@1{ ?a :p ?b }", 1),
    ("SELECT ?b", "@1{ ?a :p ?b }", 1),
    ("SELECT DISTINCT ?b", "@1{ ?a :p ?b }", 1),
    ("SELECT ?a ?c", "@1{ ?a :p ?b . ?b :p ?c }", 1),
    ("SELECT ?a ?v", "@1{ ?a :v ?v } FILTER(?v * 2 - 1 > 3 && ?v != 4)", 1),
    ("SELECT ?a", "@1{ ?a :v ?v } @2{ ?a :v ?u } FILTER(?v < ?u)", 2),
    ("SELECT ?a ?b ?c", "@1{ ?a :p ?b } @2{ ?b :p ?c }", 2),
    ("SELECT ?c", "@1{ ?a :p ?b } @2{ ?b :p ?c }", 2),
    ("SELECT DISTINCT ?a", "@1{ ?a :p ?b } @2{ ?b :p ?c }", 2),
    ("SELECT ?a ?k", "@1{ ?a :p ?b } ?b :k ?k .", 1),
    ("SELECT ?a ?k", "@1{ ?a :p ?b } ?b :k ?k . @2{ ?k :p ?c }", 2),
    ("SELECT ?a ?k", "@1{ ?a :p ?b } GRAPH :g1 { ?b :k ?k }", 1),
    ("SELECT ?a ?b ?k", "@1{ ?a :p ?b } OPTIONAL { ?b :k ?k }", 1),
    ("SELECT ?a ?b ?c", "@1{ ?a :p ?b } OPTIONAL { @2{ ?b :p ?c } }", 2),
    ("SELECT ?a ?b", "@1{ ?a :p ?b } MINUS { @2{ ?b :p ?c } }", 2),
    ("SELECT ?a ?b", "@1{ ?a :p ?b } FILTER NOT EXISTS { ?b :k ?k }", 1),
    ("SELECT ?a ?b", "@1{ ?a :p ?b } FILTER NOT EXISTS { @2{ ?b :p ?c } }", 2),
    ("SELECT ?a ?b", "{ @1{ ?a :p ?b } } UNION { ?a :k ?b }", 1),
    ("SELECT ?a ?b", "{ @1{ ?a :p ?b } } UNION { @2{ ?b :p ?a } }", 2),
    ("SELECT ?a (COUNT(?b) AS ?n)", "@1{ ?a :p ?b } } GROUP BY ?a #", 1),
    ("SELECT (COUNT(*) AS ?n)", "@1{ ?a :p ?b }", 1),
    ("SELECT (SUM(?v) AS ?n) (MAX(?v) AS ?m)", "@1{ ?a :v ?v }", 1),
    ("SELECT ?a (MIN(?v) AS ?n)", "@1{ ?a :p ?b } @2{ ?b :v ?v } } GROUP BY ?a HAVING(COUNT(*) < 3) #", 2),
    ("ASK", "@1{ ?a :p :n1 }", 1),
    ("ASK", "@1{ ?a :p ?b } @2{ ?b :p ?c }", 2),
    ("SELECT ?a ?b", "?a :k ?b MINUS { @1{ ?a :p ?k } }", 1),
    ("SELECT ?a ?b ?e", "?a :k ?b BIND(EXISTS { @1{ ?b :p ?c } } AS ?e)", 1),
    ("SELECT ?a ?n", "?a :k ?b { SELECT ?b (COUNT(*) AS ?n) { @1{ ?b :p ?k } } GROUP BY ?b }", 1),
    ("SELECT ?a ?b", "?a :k ?b { SELECT DISTINCT ?b { @1{ ?x :p ?b } } ORDER BY ?b OFFSET 1 LIMIT 2 }", 1),
    ("SELECT ?a ?c", "?a :k ?b . @1{ ?b :p+ ?c }", 1),
    ("SELECT ?a ?c", "@1{ ?a :p+ ?c }", 1),
    ("CONSTRUCT { ?a :r ?b }", "@1{ ?a :p ?b }", 1),
    ("CONSTRUCT { ?a :r ?c . ?c :q ?b }", "@1{ ?a :p ?b } @2{ ?b :p ?c }", 2),
    ("SELECT ?a ?b ?c ?d", "@1{ ?a :p ?b } @2{ ?b :p ?c } @1{ ?c :p ?d }", 2),
    ("SELECT ?a ?v", "@1{ ?a :v ?v } } ORDER BY ?v ?a LIMIT 2 #", 1),
    ("SELECT ?a", "@1{ ?a :p ?b } OPTIONAL { @2{ ?b :p ?c } FILTER(?a != ?c) }", 2),
    ("SELECT ?a ?c ?k", "@1{ ?a :p ?b } OPTIONAL { @2{ ?b :p ?c } } ?a :k ?k", 2),
    ("SELECT DISTINCT ?b ?k", "@1{ ?a :p ?b } OPTIONAL { ?b :k ?k }", 1),
    ("SELECT ?a ?b", "@1{ ?a :p ?b } FILTER EXISTS { @2{ ?b :p ?c } }", 2),
    ("SELECT ?b (COUNT(DISTINCT ?a) AS ?n) (COUNT(*) AS ?m)", "@1{ ?a :p ?b } } GROUP BY ?b #", 1),
    ("SELECT (COUNT(?c) AS ?n)", "@1{ ?a :p ?b } OPTIONAL { @2{ ?b :p ?c } }", 2),
    ("SELECT ?a (MAX(?v) - MIN(?v) AS ?n)", "@1{ ?a :v ?v } } GROUP BY ?a #", 1),
    ("ASK", "@1{ ?a :p ?b } MINUS { @2{ ?b :p ?c } }", 2),
    ("CONSTRUCT { ?b :r ?k }", "@1{ ?a :p ?b } OPTIONAL { @2{ ?b :p ?k } }", 2),
]


def random_window(chance: random.Random, stream: int, dialect: str) -> Window:
    kind = chance.choice(["NOW", "ALL", "TRIPLES", "TRIPLES", "ELEMENTS"] + ["RANGE"] * (6 * (dialect == "cqels")))
    if kind != "RANGE":
        return Window(stream, kind, count=chance.choice([1, 2, 3, 3, 5, 8]))
    step = chance.choice([0, 0, 0, 5, 7, 10, 25])
    until = chance.choice([0, 0, 0, 4])
    bounds = chance.choice(["(]", "(]", "[]", "[)"])
    return Window(stream, "RANGE", chance.choice([5, 10, 20, 30]), step, until, chance.choice([0, 0, 3, 40]), bounds)


def random_arrival_scene(seed: int) -> ArrivalScene:
    chance = random.Random(seed)
    dialect = chance.choice(["cqels"] * 5 + ["rspql", "rspql", "csparql"])
    select, pattern, count = chance.choice(PATTERNS)
    streams = [1, chance.choice([1, 2])][:count]
    windows = [random_window(chance, stream, dialect) for stream in streams]
    if chance.random() < 0.3:
        every = chance.choice([2, 3, 5])
        stepped = [window for window in windows if window.counts]
        windows = [
            Window(w.stream, w.kind, count=w.count, count_step=every) if w in stepped[:2] else w for w in windows
        ]
    r2s = chance.choice(["ISTREAM", "ISTREAM", "RSTREAM", "DSTREAM"])
    scene = ArrivalScene(dialect, windows, select, pattern, None if dialect == "cqels" and r2s == "ISTREAM" else r2s)
    scene.content_only = chance.random() < 0.15
    scene.lateness = {1: chance.choice([0, 0, 8]), 2: 0}
    now = {1: chance.randrange(60), 2: chance.randrange(60)}
    for _ in range(chance.randrange(6, 16)):
        scene.steps.append(_change(chance) if chance.random() < 0.25 else _batch(chance, now))
    return scene


class ArrivalOracle:
    """Times and instances by the model, answers by pyoxigraph."""

    def __init__(self, scene: ArrivalScene) -> None:
        self.scene = scene
        self.model = ArrivalModel(scene.windows, scene.content_only)
        self.store: set[tuple[Triple, str | None]] = set()
        self.before: Bag | bool = False if scene.select == "ASK" else Counter()

    def register(self, before: Sequence[Change | list[Push]]) -> None:
        """After these."""
        for step in before:
            if isinstance(step, Change):
                self.play(0, step)
                continue
            for push in step:
                self.model.comes_before(self._elements(push))

    def play(self, sn: int, step: Change | list[Push]) -> list[Observed]:
        if isinstance(step, Change):
            self.store = (self.store - set(step.delete)) | set(step.insert)
            return []
        observed: list[Observed] = []
        for push in step:
            if push.elements and any(window.stream == push.stream for window in self.scene.windows):
                for evaluation in self.model.push(push.stream, self._elements(push))[1]:
                    observed += self._observed(sn, evaluation)
        return observed

    @staticmethod
    def _elements(push: Push) -> list[Element]:
        return [Element(push.stream, time, triples) for time, triples in push.elements]

    def _observed(self, sn: int, evaluation: Evaluation) -> list[Observed]:
        now = self.answer(evaluation.contents)
        before, self.before = self.before, now
        r2s, is_cqels = self.scene.r2s, self.scene.dialect == "cqels"
        if is_cqels and r2s is None:
            before = self.answer(evaluation.before)
        came = r2s in (None, "ISTREAM")
        observed: Bag | bool
        if r2s == "RSTREAM":
            observed = now
        elif isinstance(now, bool):
            observed = now != before and now is came
            if not observed:
                return []
        else:
            assert isinstance(before, Counter)
            observed = now - before if came else before - now
        if is_cqels and not observed:
            return []  # "nothing is said of an empty answer or `false`"
        return [(sn, evaluation.time, observed)]

    def _lines(self, contents: Sequence[Sequence[Item]]) -> list[str]:
        merged = self.scene.dialect == "csparql"
        lines = []
        for triple, graph in self.store:
            if not merged:
                lines.append(" ".join(triple) + f" {graph or ''} .")
            elif graph == f"<{EX}g1>":
                lines.append(" ".join(triple) + " .")
        for place, held in enumerate(contents, 1):
            for number, at in held:
                triple = " ".join(self.model.elements[number].triples[at])
                item = f"<urn:item:{number}:{at}>"
                lines += [f"{triple} <urn:window:{place}> .", f"{triple} {item} ."]
                lines.append(f"{item} <urn:in> <urn:window:{place}> <urn:held> .")
                lines += [f"{triple} ."] * merged
        return lines

    def answer(self, contents: Sequence[Sequence[Item]]) -> Bag | bool:
        store = ox.Store()
        store.load("\n".join(self._lines(contents)).encode(), format=ox.RdfFormat.N_QUADS)
        answer = store.query(self.scene.plain)
        if isinstance(answer, ox.QueryBoolean):
            return bool(answer)
        if isinstance(answer, ox.QueryTriples):
            return Counter({(str(t.subject), str(t.predicate), str(t.object)) for t in answer})
        return Counter(tuple(str(row[v]) for v in answer.variables) for row in answer)
