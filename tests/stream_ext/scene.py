"""A scene: seeded streams, updates and queries, played into a real store; and what must be said of it, by the oracle.

The oracle shares no code with the engine: window contents and evaluation times come from the model of the language's
sentences, and each evaluation's answer from pyoxigraph, over the windows as named graphs and the store as it was at
that snapshot."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import msgspec
import numpy as np
import numpy.typing as npt
import pyoxigraph as ox

import hbase_store
from hbase_store import PushMark, Store, StreamColumns, StreamMove
from hbase_store.arrays import Ids
from hbase_store.layout.terms import HELD_BASE
from stream_ext.catalog.catalog import CatalogStep, QueryDefinition, StreamDefinition
from stream_ext.catalog.options import StreamOptions
from stream_ext.catalog.registered_text import constants_of, query_of
from stream_ext.catalog.timing import timing_of
from stream_ext.continuous.shard import Shard
from stream_ext.language.algebra.algebra import R2S, Query
from stream_ext.values.vocabulary import decoder
from stream_ext.windows.openings import Openings, opened
from stream_ext.windows.part import Part
from stream_ext.windows.schedule import initial_state
from tests.stream_ext.timing_model import Element, EmittedAt, Model
from tests.stream_ext.timing_model import Window as ModelWindow

EX = "http://ex/"
BASE = "http://rillet/"
Triple = tuple[str, str, str]
Bag = Counter[tuple[str, ...]]


@dataclass(frozen=True)
class Window:
    name: str
    stream: int
    range_ms: int
    step_ms: int
    t0_ms: int | None = 0  # None: by the first push
    until_ms: int = 0
    bounds: str = "[)"
    lateness_ms: int | None = None  # None: the stream's
    kind: str = "RANGE"  # or ALL, ELEMENTS, TRIPLES
    count: int = 0

    @property
    def extent(self) -> str:
        """As the language writes it."""
        if self.kind != "RANGE":
            return f"{self.kind} {self.count}" if self.count else self.kind
        length = f"RANGE {self.range_ms}ms"
        if self.until_ms:
            length = f"FROM NOW - {self.range_ms}ms TO NOW - {self.until_ms}ms"
        lateness = "" if self.lateness_ms is None else f" LATENESS {self.lateness_ms}ms"
        bounds = "" if self.bounds == "[)" else f" BOUNDS {self.bounds}"
        t0 = "" if self.t0_ms is None else f" T0 {self.t0_ms}"
        return f"{length} STEP {self.step_ms}ms{t0}{bounds}{lateness}"


@dataclass(frozen=True)
class Push:
    """Elements (time, triples) of one stream, or a heartbeat."""

    stream: int
    elements: tuple[tuple[int, tuple[Triple, ...]], ...]
    heartbeat: int | None = None


@dataclass(frozen=True)
class Change:
    """An update of the store: quads (graph None: the default one)."""

    insert: tuple[tuple[Triple, str | None], ...]
    delete: tuple[tuple[Triple, str | None], ...]


@dataclass
class Scene:
    """`steps` are snapshots: an update, or the pushes of one batch (at most one batch a stream)."""

    windows: list[Window]
    pattern: str
    select: str
    r2s: str
    lateness: dict[int, int]
    steps: list[Change | list[Push]] = field(default_factory=list)
    report: tuple[str, ...] = ()  # of the first window
    merged: bool = False  # C-SPARQL: the windows are merged, with the graph :g1 where `static` says so
    static: bool = False
    cqels: bool = False  # CQELS-QL: a window is declared where it is read

    @property
    def text(self) -> str:
        if self.cqels:
            pattern = re.sub(r"WINDOW :w(\d)", self._stream, self.pattern)
            return f"PREFIX : <{EX}> REGISTER {self.r2s} :q AS {self.select} WHERE {{ {pattern} }}"
        reports = f" REPORT {', '.join(self.report)}" if self.report else ""
        froms = (
            " ".join(
                f"{'FROM' if self.merged else f'FROM NAMED WINDOW :{w.name} ON'} STREAM :s{w.stream} "
                f"[{w.extent}{reports if w is self.windows[0] else ''}]"
                for w in self.windows
            )
            + " FROM :g1" * self.static
        )
        return f"PREFIX : <{EX}> REGISTER {self.r2s} :q AS {self.select} {froms} WHERE {{ {self.pattern} }}"

    def _stream(self, found: re.Match[str]) -> str:
        window = self.windows[int(found[1]) - 1]
        reports = f" REPORT {', '.join(self.report)}" if self.report and window is self.windows[0] else ""
        bounds = " BOUNDS [)" if window.bounds == "[)" else ""
        return f"STREAM :s{window.stream} [{window.extent}{bounds}{reports}]"

    @property
    def plain(self) -> str:
        return f"PREFIX : <{EX}> {self.select} WHERE {{ {self.pattern.replace('WINDOW', 'GRAPH')} }}"


PATTERNS = [
    ("SELECT ?a ?b", "WINDOW :w1 { ?a :p ?b }", 1),
    ("SELECT ?b", "WINDOW :w1 { ?a :p ?b }", 1),
    ("SELECT DISTINCT ?b", "WINDOW :w1 { ?a :p ?b }", 1),
    ("SELECT ?a ?c", "WINDOW :w1 { ?a :p ?b . ?b :p ?c }", 1),
    ("SELECT *", "WINDOW :w1 { ?a :p ?a }", 1),
    ("SELECT *", "WINDOW :w1 { ?a ?any :n2 }", 1),
    ("SELECT ?a ?v", "WINDOW :w1 { ?a :v ?v } FILTER(?v * 2 - 1 > 3 && ?v != 4)", 1),
    ("SELECT ?a", "WINDOW :w1 { ?a :v ?v } WINDOW :w2 { ?a :v ?u } FILTER(?v < ?u)", 2),
    ("SELECT ?a ?b ?c", "WINDOW :w1 { ?a :p ?b } WINDOW :w2 { ?b :p ?c }", 2),
    ("SELECT DISTINCT ?a", "WINDOW :w1 { ?a :p ?b } WINDOW :w2 { ?b :p ?c }", 2),
    ("SELECT ?a ?k", "WINDOW :w1 { ?a :p ?b } ?b :k ?k", 1),
    ("SELECT ?a ?k ?j", "WINDOW :w1 { ?a :p ?b } ?b :k ?k . ?k :k ?j", 1),
    ("SELECT ?a", "WINDOW :w1 { ?a :p ?b } ?a :k ?b", 1),
    ("SELECT ?a ?any ?k", "WINDOW :w1 { ?a :p :n1 } ?a ?any ?k", 1),
    ("SELECT ?a ?g ?k", "WINDOW :w1 { ?a :p ?b } GRAPH ?g { ?b :k ?k }", 1),
    ("SELECT ?a ?k", "WINDOW :w1 { ?a :p ?b } GRAPH :g1 { ?b :k ?k } FILTER(?k != :n3)", 1),
    ("SELECT ?k", "WINDOW :w1 { ?a :p ?b } :n1 :k ?k", 1),
    ("SELECT ?a ?t", 'WINDOW :w1 { ?a :v ?v BIND(CONCAT("t", STR(?v)) AS ?t) }', 1),
    ("SELECT ?a ?b ?k", "WINDOW :w1 { ?a :p ?b } OPTIONAL { ?b :k ?k }", 1),
    ("SELECT ?a ?b ?c", "WINDOW :w1 { ?a :p ?b } OPTIONAL { WINDOW :w2 { ?b :p ?c } }", 2),
    ("SELECT ?a ?b", "WINDOW :w1 { ?a :p ?b } MINUS { WINDOW :w2 { ?b :p ?c } }", 2),
    ("SELECT ?a ?b", "WINDOW :w1 { ?a :p ?b } FILTER NOT EXISTS { ?b :k ?k }", 1),
    ("SELECT ?a ?b", "{ WINDOW :w1 { ?a :p ?b } } UNION { ?a :k ?b }", 1),
    ("SELECT ?a (COUNT(?b) AS ?n)", "WINDOW :w1 { ?a :p ?b } } GROUP BY ?a #", 1),
    ("SELECT (SUM(?v) AS ?n) (MAX(?v) AS ?m)", "WINDOW :w1 { ?a :v ?v }", 1),
    ("ASK", "WINDOW :w1 { ?a :p :n1 }", 1),
    ("ASK", "WINDOW :w1 { ?a :p ?b } ?b :k :n2", 1),
    ("SELECT ?a ?b", "?a :k ?b MINUS { WINDOW :w1 { ?a :p ?k } }", 1),
    ("SELECT ?a ?b", "WINDOW :w1 { ?a :p ?b } FILTER EXISTS { WINDOW :w2 { ?b :p ?c } FILTER(?c != ?a) }", 2),
    ("SELECT ?a ?b ?e", "?a :k ?b BIND(EXISTS { WINDOW :w1 { ?b :p ?c } } AS ?e)", 1),
    ("SELECT ?a (COUNT(?k) AS ?n)", "WINDOW :w1 { ?a :p ?b } ?b :k ?k } GROUP BY ?a #", 1),
    ("SELECT ?a ?n", "?a :k ?b { SELECT ?b (COUNT(*) AS ?n) { WINDOW :w1 { ?b :p ?k } } GROUP BY ?b }", 1),
    ("SELECT ?a ?b", "?a :k ?b { SELECT DISTINCT ?b { WINDOW :w1 { ?x :p ?b } } ORDER BY ?b OFFSET 1 LIMIT 2 }", 1),
    ("SELECT ?a ?c", "?a :k ?b WINDOW :w1 { ?b :p+ ?c }", 1),
    (
        "SELECT ?a ?b ?z",
        "{ WINDOW :w1 { ?a :p ?b } OPTIONAL { ?b :k ?z } FILTER(!BOUND(?z)) } WINDOW :w2 { ?a :p ?z }",
        2,
    ),
    ("SELECT ?a ?b ?z", "WINDOW :w1 { ?a :p ?b } OPTIONAL { ?b :k ?z FILTER EXISTS { WINDOW :w2 { ?z :p ?y } } }", 2),
    ("SELECT ?t ?b", 'WINDOW :w1 { ?a :v ?v } BIND(IRI(CONCAT("http://ex/n", STR(?v))) AS ?t) ?t :k ?b', 1),
]


MERGED = [
    ("SELECT ?a ?b", "?a :p ?b", 2),
    ("SELECT ?a ?b ?c", "?a :p ?b . ?b :p ?c", 2),
    ("SELECT ?a ?c", "?a :p ?b . ?b :p ?c", 1),
    ("SELECT ?a ?k", "?a :p ?b . ?b :k ?k", 2),
    ("SELECT ?b (COUNT(*) AS ?n)", "?a :p ?b } GROUP BY ?b #", 2),
    ("SELECT ?a ?b ?k", "?a :p ?b OPTIONAL { ?b :k ?k }", 2),
    ("SELECT ?a ?c", "GRAPH :s1 { ?a :p ?b } ?b :p ?c", 2),
    ("SELECT ?a ?c", "GRAPH :s1 { ?a :p ?b } GRAPH :s2 { ?b :p ?c }", 2),
    ("SELECT ?a ?c", "?a :p/:p ?c", 2),
    ("SELECT ?a ?c", "?a :p+ ?c", 2),
    ("SELECT ?a ?c", "?a (:p|:k)+ ?c", 2),
    ("SELECT ?a ?c", "?a :p* ?c . ?c :k ?k", 2),
    ("SELECT ?a ?c", "?a (:p/:k?)* ?c . ?a :v ?v", 2),
    ("SELECT ?a ?c", "?a !:v ?c . ?c (:p|^:p)? :n2", 2),
    ("ASK", "?a :p :n1 . :n1 :k ?k", 2),
]
REPORTS: list[tuple[str, ...]] = [
    (),
    (),
    ("PERIODIC 6ms",),
    ("WINDOW_CLOSE", "PERIODIC 9ms"),
    ("CONTENT_CHANGE",),
    ("NON_EMPTY_CONTENT",),
    ("NON_EMPTY_CONTENT", "PERIODIC 4ms"),
    ("CONTENT_CHANGE", "NON_EMPTY_CONTENT"),
    ("CONTENT_CHANGE", "WINDOW_CLOSE"),
    ("CONTENT_CHANGE", "WINDOW_CLOSE", "PERIODIC 9ms"),
    ("CONTENT_CHANGE", "PERIODIC 7ms"),
    ("NON_EMPTY_CONTENT", "WINDOW_CLOSE", "CONTENT_CHANGE"),
]


def random_scene(seed: int) -> Scene:
    chance = random.Random(seed)
    merged = chance.random() < 0.3
    select, pattern, count = chance.choice(MERGED if merged else PATTERNS)
    windows = [
        Window(
            f"w{i}",
            (2 if merged else chance.choice([1, 2])) if i == 2 else 1,
            chance.choice([5, 10, 20, 30]),
            chance.choice([5, 7, 10, 25]),
            chance.choice([0, None, None] if merged else [0, 0, 3, 40]),
            chance.choice([0, 0, 0, 4]),
            chance.choice(["[)", "[)", "(]", "[]"]),
            chance.choice([None, None, 0, 3]),
        )
        for i in range(1, count + 1)
    ]
    if count == 2 and chance.random() < 0.3:  # beside one that closes, one that causes no evaluation
        kind = chance.choice(["ALL", "ELEMENTS", "TRIPLES"])
        most = 0 if kind == "ALL" else chance.choice([1, 2, 3, 5])
        windows[1] = Window("w2", windows[1].stream, 0, 0, kind=kind, count=most)
    lateness = {1: chance.choice([0, 0, 8]), 2: 0}
    scene = Scene(windows, pattern, select, chance.choice(["RSTREAM", "ISTREAM", "DSTREAM"]), lateness)
    scene.report = chance.choice(REPORTS)
    scene.merged, scene.static = merged, merged and chance.random() < 0.6
    now = {1: chance.randrange(60), 2: chance.randrange(60)}
    for _ in range(chance.randrange(6, 16)):
        scene.steps.append(_change(chance) if chance.random() < 0.25 else _batch(chance, now))
    return scene


def _node(chance: random.Random) -> str:
    return f"<{EX}n{chance.randrange(1, 5)}>"


def _change(chance: random.Random) -> Change:
    quads = [
        ((_node(chance), f"<{EX}k>", _node(chance)), chance.choice([None, None, f"<{EX}g1>", f"<{EX}g2>"]))
        for _ in range(chance.randrange(1, 6))
    ]
    some = set(chance.sample(quads, k=len(quads) // 3))
    return Change(tuple(q for q in quads if q not in some), tuple(some))


def _batch(chance: random.Random, now: dict[int, int]) -> list[Push]:
    return [_push(chance, chance.choice([1, 1, 2]), now) for _ in range(chance.randrange(1, 4))]


def _push(chance: random.Random, stream: int, now: dict[int, int]) -> Push:
    if chance.random() < 0.2:
        now[stream] += chance.randrange(30)
        return Push(stream, (), now[stream])
    elements = []
    for _ in range(chance.randrange(1, 5)):
        now[stream] += chance.choice([0, 0, 1, 3, 12])
        time = max(0, now[stream] - chance.choice([0, 0, 0, 4, 15]))
        triples = tuple(_triple(chance) for _ in range(chance.randrange(1, 4)))
        elements.append((time, triples))
    return Push(stream, tuple(elements))


def _triple(chance: random.Random) -> Triple:
    if chance.random() < 0.4:
        number = f'"{chance.randrange(6)}"^^<http://www.w3.org/2001/XMLSchema#integer>'
        return (_node(chance), f"<{EX}v>", number)
    return (_node(chance), f"<{EX}p>", _node(chance))


class Played(Protocol):
    """What a player needs of a scene."""

    lateness: dict[int, int]

    @property
    def text(self) -> str: ...


# ---- the engine's side -------------------------------------------------------------------------------------


class Player:
    """Plays a scene into a store, as the injector would."""

    def __init__(self, store: Store, scene: Played, chance: random.Random | None = None) -> None:
        """`chance`: each quad of the store is our own, held, or both, as it decides."""
        self.store, self.scene, self.chance = store, scene, chance
        self.times: dict[int, int | None] = {1: None, 2: None}
        self.firsts: dict[int, int | None] = {1: None, 2: None}
        self.openings: dict[int, Openings] = {1: (), 2: ()}
        self.beats: dict[int, int | None] = {1: None, 2: None}
        self.latest: dict[int, int | None] = {1: None, 2: None}
        self.batches = {1: 0, 2: 0}
        self.totals: dict[int, int] = {}

    def register(self, before: Sequence[Change | list[Push]] = ()) -> int:
        """The streams, what comes `before` the query, and the query."""
        batch = self.store.begin()
        streams = {
            n: StreamDefinition(n, f"s{n}", f"{EX}s{n}", StreamOptions(lateness_ms=self.scene.lateness[n]))
            for n in (1, 2)
        }
        for n, stream in streams.items():
            batch.catalog("stream", n, CatalogStep("stream", n, stream).body())
        self.store.commit(batch)
        for step in before:
            self.play(step)
        query = query_of(self.scene.text, BASE)
        from stream_ext.catalog.catalog import Catalog

        timing = timing_of(query, Catalog(streams, {}))
        batch = self.store.begin()
        batch.encode(constants_of(query))
        state = initial_state(timing, self.store.vts(self.store.head()), int(self.store.head()))
        numbers = [window.stream for window in timing.windows]
        definition = QueryDefinition(1, "q", f"{EX}q", self.scene.text, BASE, query.emits.value, [], numbers, 0, state)
        batch.catalog("query", 1, CatalogStep("query", 1, definition).body())
        return self.store.commit(batch)

    def play(self, step: Change | list[Push]) -> int:
        batch = self.store.begin()
        if isinstance(step, Change):
            for quads, verb in ((step.delete, batch.delete), (step.insert, batch.insert)):
                if quads:
                    s, p, o = (batch.encode([q[0][i].encode() for q in quads]) for i in range(3))
                    g = np.array(
                        [0 if q[1] is None else int(batch.encode([q[1].encode()])[0]) for q in quads], np.uint64
                    )
                    for some, predicates in self._kinds(p, verb == batch.delete):
                        verb(s[some], predicates[some], o[some], g[some])
            return self.store.commit(batch)
        for stream in sorted({push.stream for push in step}):
            self._stream(batch, stream, step)
        return self.store.commit(batch)

    def _kinds(self, p: Ids, both: bool) -> list[tuple[npt.NDArray[np.bool_], Ids]]:
        """Which rows are written as our own edges, and which as held ones; `both`: all of them as either."""
        everyone = np.ones(len(p), np.bool_)
        if self.chance is None:
            return [(everyone, p)]
        draws = np.array([self.chance.random() for _ in range(len(p))])
        kinds = (everyone, everyone) if both else (draws < 0.6, draws >= 0.4)
        return [(kinds[0], p), (kinds[1], p | np.uint64(HELD_BASE))]

    def _stream(self, batch: hbase_store.Batch, stream: int, pushes: list[Push]) -> None:
        marks, times, ordinals, elements, texts = [], [], [], [], []
        for ordinal, push in enumerate(pushes):
            if push.stream != stream:
                continue
            for time, triples in push.elements:
                elements += [len(times)] * len(triples)
                times.append(time)
                ordinals.append(ordinal)
                texts += triples
            self._move(push)
            marks.append(PushMark(ordinal, self.times[stream], self.latest[stream], self.beats[stream]))
        self.batches[stream] += 1
        move = StreamMove(
            stream,
            self.batches[stream],
            self.times[stream],
            self.beats[stream],
            self.firsts[stream],
            marks,
            {},
            latest=self.latest[stream],
            openings=list(self.openings[stream]),
            elements_total=self._total(stream, len(times)),
            triples_total=self._total(-stream, len(texts)),
        )
        s, p, o = (batch.encode([t[i].encode() for t in texts]) for i in range(3))
        columns = StreamColumns(
            stream, np.array(times, np.int64), np.zeros(len(times), np.uint64), np.array(ordinals, np.int32),
            np.array(elements, np.int32), s, p, o,
        )  # fmt: skip
        batch.stream(move, columns, np.zeros(len(s), np.bool_))

    def _total(self, what: int, more: int) -> int:
        self.totals[what] = self.totals.get(what, 0) + more
        return self.totals[what]

    def _move(self, push: Push) -> None:
        stream = push.stream
        times = [time for time, _ in push.elements]
        if times:
            before = self.latest[stream], self.beats[stream]
            self.openings[stream] = opened(self.openings[stream], np.array(times, np.int64), *before)
        reached = [max(times) - self.scene.lateness[stream]] if times else []
        if push.heartbeat is not None:
            reached.append(push.heartbeat)
            self.beats[stream] = max([push.heartbeat, *_some(self.beats[stream])])
        self.times[stream] = max(reached + _some(self.times[stream]))
        if times:
            self.firsts[stream] = min(times + _some(self.firsts[stream]))
            self.latest[stream] = max(times + _some(self.latest[stream]))


def _some(value: int | None) -> list[int]:
    return [] if value is None else [value]


def engine_emissions(store: Store, shard: Shard, query: Query, sn: int) -> list[tuple[int, int, Bag | bool]]:
    """(sn, time, what is said), one an emission; runs of empty ones are spelt out."""
    assert not shard.faults, shard.faults
    emitted = []
    for part in [each for stepped in shard.step(sn) for each in each_of(stepped)]:
        if part.emits:
            emitted.append((part.sn, part.time, bag_of(store, part, query)))
    assert not shard.faults, shard.faults
    return emitted


def each_of(part: Part) -> list[Part]:
    """Many evaluations in one part, each as a part of its own."""
    if part.many is None:
        return [part]
    found: list[Part] = []
    for place, each in enumerate(part.each()):
        assert each.at is not None
        state = msgspec.structs.replace(part.state, evaluated=each.at, last=each.at.time)
        columns = [column[each.rows] for column in part.columns]
        found.append(
            msgspec.structs.replace(
                part, k=each.at.k, time=each.at.time, windows=each.windows, columns=columns, before=each.before,
                state=state, gap=part.gap and not place, silent_before=0 if place else part.silent_before, many=None,
            )
        )  # fmt: skip
    return found


def bag_of(store: Store, part: Part, query: Query) -> Bag | bool:
    assert part.repeated == 0
    if part.boolean is not None:
        return part.boolean
    decode = decoder(part.created, store.terms)

    def text(id: int) -> str:
        return decode(np.array([id], np.uint64))[0].decode() if id else "None"

    columns = [[text(id) for id in column.tolist()] for column in part.columns]
    return Counter(zip(*columns, strict=True))


# ---- the oracle's side -------------------------------------------------------------------------------------


class Oracle:
    """Times and contents by the model of the language's sentences, answers by pyoxigraph."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        triggers = [report.split()[0] for report in scene.report if report != "NON_EMPTY_CONTENT"]
        self.model = Model(
            [
                ModelWindow(
                    w.stream,
                    w.range_ms,
                    w.step_ms,
                    w.t0_ms,
                    w.until_ms,
                    w.bounds,
                    scene.lateness[w.stream] if w.lateness_ms is None else w.lateness_ms,
                    w.kind,
                    w.count,
                )
                for w in scene.windows
            ],
            closes=not triggers or "WINDOW_CLOSE" in triggers,
            every=tuple(int(r.split()[1].removesuffix("ms")) for r in scene.report if r.startswith("PERIODIC")),
            arrivals="CONTENT_CHANGE" in triggers,
        )
        self.triples: list[tuple[Triple, ...]] = []
        self.times: list[int] = []  # of elements
        self.store: set[tuple[Triple, str | None]] = set()
        self.before: Bag | bool = False if scene.select == "ASK" else Counter()

    def play(self, sn: int, step: Change | list[Push]) -> list[tuple[int, int, Bag | bool]]:
        if isinstance(step, Change):
            self.store = (self.store - set(step.delete)) | set(step.insert)
            return []
        return [observed for push in step for emitted in self._push(push) for observed in self.evaluate(sn, emitted)]

    def register(self, before: Sequence[Change | list[Push]]) -> None:
        """After these."""
        for step in before:
            if isinstance(step, Change):
                self.play(0, step)
                continue
            for push in step:
                self.model.comes_before(push.stream, self._elements(push), push.heartbeat)
        self.model.register()

    def _push(self, push: Push) -> list[EmittedAt]:
        used = {w.stream for w in self.scene.windows}
        if push.stream not in used:
            return []
        if push.heartbeat is not None:
            return self.model.heartbeat(push.stream, push.heartbeat)
        return self.model.push(push.stream, self._elements(push))[1]

    def _elements(self, push: Push) -> list[Element]:
        elements = []
        for time, triples in push.elements:
            elements.append(Element(push.stream, time, len(self.triples), len(triples)))
            self.triples.append(triples)
            self.times.append(time)
        return elements

    def answer(self, emitted: EmittedAt) -> Bag | bool:
        """The whole answer over what the windows held."""
        contents = [{t for number in held for t in self.triples[number]} for held in emitted.contents]
        for place, left_out in enumerate(emitted.skipped):
            oldest, *_ = sorted(emitted.contents[place], key=lambda number: (self.times[number], number)) or [None]
            others = {t for number in emitted.contents[place] if number != oldest for t in self.triples[number]}
            if oldest is not None:
                contents[place] = others | set(self.triples[oldest][left_out:])
        return self._ask({w.name: held for w, held in zip(self.scene.windows, contents, strict=True)})

    def evaluate(self, sn: int, emitted: EmittedAt) -> list[tuple[int, int, Bag | bool]]:
        if "NON_EMPTY_CONTENT" in self.scene.report and not any(emitted.contents):
            return []
        now = self.answer(emitted)
        before, self.before = self.before, now
        if self.scene.r2s == "RSTREAM":
            return [(sn, emitted.time, now)]
        came = self.scene.r2s == "ISTREAM"
        if isinstance(now, bool):
            return [(sn, emitted.time, True)] if now != before and now is came else []
        assert isinstance(before, Counter)
        return [(sn, emitted.time, now - before if came else before - now)]

    def _apart(self, windows: dict[str, set[Triple]]) -> list[str]:
        lines = [" ".join(triple) + " ." for triple, graph in self.store if graph is None]
        lines += [" ".join(triple) + f" {graph} ." for triple, graph in self.store if graph is not None]
        for name, content in windows.items():
            lines += [" ".join(triple) + f" <{EX}{name}> ." for triple in content]
        return lines

    def _merged(self, windows: dict[str, set[Triple]]) -> list[str]:
        """C-SPARQL's default graph; and each stream's window under the stream's name."""
        lines = [" ".join(t) + " ." for t, graph in self.store if self.scene.static and graph == f"<{EX}g1>"]
        for window in self.scene.windows:
            for triple in windows[window.name]:
                lines += [" ".join(triple) + end for end in (" .", f" <{EX}s{window.stream}> .")]
        return lines

    def _ask(self, windows: dict[str, set[Triple]]) -> Bag | bool:
        lines = self._merged(windows) if self.scene.merged else self._apart(windows)
        store = ox.Store()
        store.load("\n".join(lines).encode(), format=ox.RdfFormat.N_QUADS)
        answer = store.query(self.scene.plain)
        if isinstance(answer, ox.QueryBoolean):
            return bool(answer)
        names = answer.variables
        return Counter(tuple(str(row[v]) for v in names) for row in answer)


def query_r2s(scene: Scene) -> R2S:
    return R2S(scene.r2s)
