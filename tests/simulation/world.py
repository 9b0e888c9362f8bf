"""A world: a service with its queries, clients that insist until they are answered, and all that may go wrong.

    deaths     at any durable step, before, after or in the middle of it; in the middle of coming back, too
    failures   of the store at any durable step, which it may have taken or not: it is asked again
    bells      that the runner hears late: some snapshots are published before it steps any
    pushes     that are sent again, by source and seq; elements that are out of order, or late
    restarts, folds and collections, in between

Everything is drawn from one seed, and one thing happens at a time: so the same seed gives the same durable steps, and
what is said must be what is said in a calm world, in which nothing goes wrong."""

from __future__ import annotations

import contextlib
import json
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from hbase_store import Store
from hbase_store.backends.lmdb import LmdbKeyValue
from hbase_store.errors import StoreUnavailable
from stream_ext.clock import ManualClock
from stream_ext.remote.allowed_urls import NOTHING
from stream_ext.remote.sources import Sources
from stream_ext.service.service import Limits, PushReceipt, Service
from stream_ext.upkeep.retention import Retain
from stream_ext.writer.write_queue import PublishingPace
from tests.integrity.clients import ndjson, operations
from tests.integrity.content import LATENESS, SEEN, Content, Times, asked_for_ever
from tests.simulation.mortal import WAYS, Died, Mortal, Way
from tests.stream_ext.scene import EX, Change, Push, Scene
from tests.stream_ext.sources.pretended_source import PretendedSource

BASE = "http://rillet/"
WITHOUT_WINDOWS = {
    "store": f"PREFIX : <{EX}> REGISTER RSTREAM store AS SELECT ?a ?k {{ ?a :k ?k }}",
    "seen": f"PREFIX : <{EX}> REGISTER ISTREAM seen AS SELECT ?n (COUNT(?e) AS ?c) {{ ?e :seen ?n }} GROUP BY ?n",
    "first": f"""PREFIX : <{EX}> REGISTER RSTREAM first AS SELECT ?a ?k {{
        {{ SELECT ?a ?k ?t {{ ?a :k ?k BIND(STR(?k) AS ?t) }} OFFSET 1 LIMIT 2 }} }}""",
}
#: Which rows it says depends on all evaluations before. (Where terms are made, rows that come together stand by their
#: texts, else by ids, which are others in each world.)
APPEARED = f"""PREFIX : <{EX}> REGISTER RSTREAM appeared AS SELECT ?a ?b
    FROM NAMED WINDOW :w ON :s1 [RANGE 30ms STEP 7ms] {{
        {{ SELECT ?a ?b ?t {{ WINDOW :w {{ ?a :p ?b }} BIND(STR(?b) AS ?t) }} OFFSET 1 LIMIT 2 }} }}"""
T = TypeVar("T")


@dataclass(frozen=True)
class Story:
    """What clients do; nothing in it goes wrong."""

    queries: dict[str, Scene]
    steps: list[Push | Change]
    chain: dict[str, str] = field(default_factory=dict)  # further queries; each may be over what those before it say


def story(seed: int, length: int) -> Story:
    chance = random.Random(seed)
    content = Content(chance, Times({1: chance.randrange(40), 2: chance.randrange(40)}))
    queries = {f"q{i}": asked_for_ever(chance) for i in range(4)}
    steps = [
        content.change() if chance.random() < 0.25 else content.push(chance.choice([1, 1, 2])) for _ in range(length)
    ]
    return Story(queries, steps, {"appeared": APPEARED})


def chained_story(seed: int, length: int) -> Story:
    """With a chain of three queries: what these say is pushed while clients push, so which steps are taken is not the
    same each time."""
    observed = story(seed, length)
    return Story(dict(list(observed.queries.items())[:1]), observed.steps, chain(random.Random(f"chain {seed}")))


#: Over windows that hold all: what they contain is saved, and what came before is deleted.
HELD = {
    "number": "SELECT ?a (COUNT(*) AS ?n) { STREAM :s1 [ALL] { ?a :p ?b } } GROUP BY ?a",
    "rows": "SELECT ?a ?c { STREAM :s1 [ALL] { ?a :p ?b } STREAM :s2 [ALL] { ?b :p ?c } }",
    "beside": "SELECT RSTREAM ?a ?b ?c { STREAM :s1 [ALL] { ?a :p ?b } STREAM :s2 [TRIPLES 3] { ?b :p ?c } }",
    "listed": "SELECT RSTREAM ?a (GROUP_CONCAT(?v) AS ?vs) { STREAM :s1 [ALL] { ?a :v ?v } } GROUP BY ?a",
    "distinct": "SELECT DISTINCT ?a ?v { STREAM :s2 [ALL] { ?a :v ?v } OPTIONAL { STREAM :s1 [NOW] { ?a :p ?b } } }",
    "stepped": """SELECT ?a (COUNT(*) AS ?n) FROM NAMED WINDOW :all ON :s1 [ALL]
        FROM NAMED WINDOW :w ON :s2 [RANGE 20ms STEP 7ms BOUNDS (]]
        { WINDOW :all { ?a :p ?b } WINDOW :w { ?b :p ?c } } GROUP BY ?a""",
    "merged": """SELECT ?a ?b FROM STREAM :s1 [ALL] FROM STREAM :s2 [RANGE 20ms STEP 10ms]
        { ?a :p ?b . ?b :v ?v } ORDER BY ?a ?b LIMIT 3""",
}


def held_story(seed: int, length: int) -> Story:
    chance = random.Random(f"held {seed}")
    names = chance.sample(sorted(HELD), 3)
    texts = {name: f"PREFIX : <{EX}> REGISTER QUERY {name} AS {HELD[name]}" for name in names}
    return Story({}, story(seed, length).steps, texts)


def chain(chance: random.Random) -> dict[str, str]:
    """The first reads what clients push; only the last reads two streams, both of which come in the order of time."""

    def text(name: str, form: str, pattern: str, streams: list[str], report: str = "") -> str:
        r2s = chance.choice(["RSTREAM", "RSTREAM", "ISTREAM", "DSTREAM"])
        windows = []
        for i, stream in enumerate(streams, 1):
            extent = f"RANGE {chance.choice([10, 20, 30])}ms STEP {chance.choice([7, 10])}ms"
            bounds = chance.choice(["", "", " BOUNDS (]", " BOUNDS []"])
            windows.append(f"FROM NAMED WINDOW :w{i} ON {stream} [{extent}{bounds}{report if i == 1 else ''}]")
        return f"PREFIX : <{EX}> REGISTER {r2s} {name} AS {form} {' '.join(windows)} WHERE {{ {pattern} }}"

    back, joined = "CONSTRUCT { ?b :p ?a }", "CONSTRUCT { ?a :p ?c . ?c :v 3 }"
    of_two = "WINDOW :w1 { ?a :p ?b } WINDOW :w2 { ?b :p ?c }"
    counted = "{ SELECT ?b (COUNT(*) AS ?n) { WINDOW :w1 { ?a ?p ?b } } GROUP BY ?b }"
    report = chance.choice(["", "", " REPORT NON_EMPTY_CONTENT", " REPORT CONTENT_CHANGE", " REPORT PERIODIC 6ms"])
    first = chance.choice([(back, "WINDOW :w1 { ?a :p ?b }", [":s1"]), (joined, of_two, [":s1", ":s2"])])
    second = chance.choice([(back, "WINDOW :w1 { ?a :p ?b }"), ("CONSTRUCT { ?b :p ?n }", counted)])
    last = "WINDOW :w1 { ?a :p ?b } OPTIONAL { WINDOW :w2 { ?b :p ?c } }"
    return {
        "one": text("one", *first, report),
        "two": text("two", *second, ["one"]),
        "three": text("three", "SELECT ?a ?b ?c", last, ["two", chance.choice(["one", "two"])]),
    }


@dataclass
class Trouble:
    """How likely things go wrong, and the death at one step, counted over all lives (0: none is planned)."""

    deaths: float = 0.0
    failures: float = 0.0
    bells: float = 0.0
    again: float = 0.0
    chores: float = 0.0
    death_at: int = 0
    way: Way = "before"
    restarts: bool = True  # among the chores; they would forget what is planned


CALM = Trouble()
UNREACHABLE = Trouble(failures=0.5, bells=0.2, again=0.2, chores=0.2)
WILD = Trouble(deaths=0.3, bells=0.2, again=0.2, chores=0.3)


@dataclass
class World:
    folder: Path
    story: Story
    trouble: Trouble
    chance: random.Random
    trace: list[str] = field(default_factory=list)
    acknowledged: list[int] = field(default_factory=list)  # the places of pushes in the story
    deaths: int = 0
    opening: int = 0  # durable steps of the first opening, which nothing is planned for
    steps: int = 0  # those after it, until all was told
    source: PretendedSource | None = None  # it gets the updates

    def run(self) -> dict[str, list[tuple[Any, ...]]]:
        """What each query has said in the end."""
        self.clock = ManualClock(1_000_000)
        self._held = False
        self._open((self.trouble.death_at, self.trouble.way) if self.trouble.death_at else None)
        self._insist(self._begin)
        for place, step in enumerate(self.story.steps):
            self._go_wrong(place)
            self._insist(lambda place=place, step=step: self._tell(place, step))
            if isinstance(step, Push):
                self.acknowledged.append(place)
        self.kv.lives_on()
        self.steps = len(self.trace) - self.opening
        self._ring()
        self._settle()
        observed = {name: self._emitted(name) for name in (*self.story.queries, *self.story.chain, *WITHOUT_WINDOWS)}
        observed["the store"] = sorted(self.service.decode(self.service.query("SELECT * { ?s ?p ?o }")))
        self.service.close()
        return observed

    # ---- lives

    def _open(self, dies: tuple[int, Way] | None = None) -> None:
        self.kv = Mortal(LmdbKeyValue(self.folder / "store"), self.trace)
        store = Store(self.kv, f"lmdb:{self.folder / 'store'}", self.clock, folding=False)
        store.take_lease("")
        store.emissions.take_over()
        self.opening = self.opening or len(self.trace)
        if dies is not None:  # planned before anything runs
            self.kv.dies_at(*dies)
        retain = Retain(snapshots_ms=1_000, emissions_ms=1 << 40)
        sources = Sources([] if self.source is None else [self.source], BASE)
        self.service = Service(
            store, BASE, self.clock, PublishingPace(0, 0), Limits(), None, retain, NOTHING, sources=sources
        )

    def _insist(self, act: Callable[[], T]) -> T:
        """Until it is answered; each time somebody dies, another life begins."""
        while True:
            try:
                found = act()
                if not self.kv.dead:
                    return found
                self._come_back()
                return found
            except StoreUnavailable:  # a request may be told so, if nothing of it was done; then it is sent again
                assert self.kv.failures
            except Exception:
                if not self.kv.dead:
                    raise
            if self.kv.dead:
                self._come_back()

    def _come_back(self) -> None:
        """It may die again on the way; the second time on the same way it lives."""
        for attempt in range(2):
            self.deaths += 1
            with contextlib.suppress(Died):
                self.service.close()
            self.service.store.close()
            self._held = False
            again = attempt == 0 and self.chance.random() < self.trouble.deaths
            self._open((self.chance.randrange(1, 4), self.chance.choice(WAYS)) if again else None)
            try:
                self._settle()
            except Exception:
                if not self.kv.dead:
                    raise
            if not self.kv.dead:
                return
        raise AssertionError("it died although nothing was planned")

    def _settle(self) -> None:
        """All that is published is evaluated, and what was said of it by those who read that."""
        self.service._engine.await_evaluated(self.service.head(), 30)

    # ---- what goes wrong

    def _go_wrong(self, place: int) -> None:
        trouble = self.trouble
        if self.chance.random() < trouble.deaths:
            self.kv.dies_at(self.chance.randrange(1, 8), self.chance.choice(WAYS))
        if trouble.failures and self.chance.random() < trouble.failures:
            self.kv.fails_at(self.chance.randrange(1, 8), self.chance.choice(WAYS))
        if self.chance.random() < trouble.bells:
            self._ring() if self._held else self._hold()
        if self.acknowledged and self.chance.random() < trouble.again:
            again = self.chance.choice(self.acknowledged)
            receipt = self._insist(lambda: self._push(again))
            assert receipt.repeated, f"push {again} counted twice"
        if self.chance.random() < trouble.chores:
            restart = [self._restart] if trouble.restarts else []
            self._insist(self.chance.choice([self._fold, self._collect, *restart]))

    def _hold(self) -> None:
        """The runner hears nothing of new snapshots."""
        self._held = True
        self.service._engine.inline.head_moved = lambda sn: None  # type: ignore[method-assign]

    def _ring(self) -> None:
        if self._held:
            self._held = False
            del self.service._engine.inline.head_moved  # the instance's own: that of the class is there again
            self.service._engine.inline.head_moved(self.service.head())
            self._insist(self._settle)

    def _fold(self) -> None:
        self.service.store.fold()

    def _collect(self) -> None:
        self.clock.advance(600)  # older snapshots need not be retained
        self.service.collect()

    def _restart(self) -> None:
        """Closed in order, and opened some seconds later."""
        self.service.close()
        self._held = False
        self.clock = ManualClock(self.clock.now_ms() + 5_000)
        self._open()
        self._settle()

    # ---- what clients do

    def _begin(self) -> None:
        for stream, lateness in LATENESS.items():
            options = {"timeless": [SEEN[1:-1]], "lateness": f"{lateness}ms", "retention": "1s"}
            self.service.create_stream(f"{EX}s{stream}", options)
        for name, scene in self.story.queries.items():
            self.service.register(scene.text.replace(" :q AS", f" {name} AS", 1))
        for text in self.story.chain.values():
            self.service.register(text)
        for text in WITHOUT_WINDOWS.values():
            self.service.register(text)
            self._settle()  # it answers at once: before anything else is written

    def _tell(self, place: int, step: Push | Change) -> None:
        if isinstance(step, Push):
            self._push(place)
        elif self.source is not None:
            self.source.store.update(operations(step))
            self.service.refresh_source("main", self._wait)
        else:
            self.service.update(operations(step), wait=self._wait)

    @property
    def _wait(self) -> Any:
        return "published" if self._held else "evaluated"

    def _push(self, place: int) -> PushReceipt:
        step = self.story.steps[place]
        assert isinstance(step, Push)
        stream = f"{EX}s{step.stream}"
        if step.heartbeat is not None:
            receipt = self.service.heartbeat(stream, step.heartbeat, wait=self._wait)
            return PushReceipt(receipt.stream, 0, 0, receipt.batch, receipt.snapshot, repeated=True)
        # Each push is the only one of its source, so that any of them can be sent again.
        named: dict[str, Any] = {"source": f"source {place}", "seq": 1, "wait": self._wait}
        return self.service.push(stream, ndjson(step), "application/x-ndjson", **named)

    def _emitted(self, name: str) -> list[tuple[Any, ...]]:
        """Without numbers of snapshots, which a second try may use up, and times that are the clock's."""
        observed = [json.loads(emission.json) for emission in self.service.emissions(name, 0)]
        assert [one["emission"] for one in observed] == list(range(1, len(observed) + 1))
        return [(one["time"] if one["windows"] else None, _text(one["windows"]), _bag(one)) for one in observed]


def _text(value: object) -> str:
    return json.dumps(value, sort_keys=True)


def _bag(emission: dict[str, Any]) -> Counter[str] | bool:
    if "boolean" in emission:
        return bool(emission["boolean"])
    if "graph" in emission:
        return Counter(emission["graph"].splitlines())
    return Counter(_text(row) for row in emission["results"]["bindings"])
