"""What queries of one template are told together, each can read as if it were alone: every byte, by every number.

python -m tests.stream_ext.emissions.test_shared_emissions SEED"""

from __future__ import annotations

import contextlib
import json
import random
import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from hbase_store import Store
from hbase_store.backends.lmdb import LmdbKeyValue
from stream_ext.clock import ManualClock
from stream_ext.emissions import subscriptions
from stream_ext.emissions.groups import GroupMembership
from stream_ext.emissions.subscriptions import Emissions
from stream_ext.errors import Gone, RilletError
from stream_ext.remote.allowed_urls import NOTHING
from stream_ext.service.service import Limits, Service
from stream_ext.upkeep.retention import Retain
from stream_ext.writer.write_queue import PublishingPace
from tests.simulation.mortal import WAYS, Died, Mortal
from tests.stream_ext.many import AloneShard
from tests.stream_ext.opened import BASE, Reader, open_service, opened, push, registration, triple

TEMPLATES = [
    ("RSTREAM", "SELECT ?x", "WINDOW :w {{ ?x :p :n{0} }}"),
    ("ISTREAM", "SELECT ?x", "WINDOW :w {{ ?x :p :n{0} }}"),
    ("DSTREAM", "SELECT ?x ?k", "WINDOW :w {{ ?x :p :n{0} }} OPTIONAL {{ ?x :k ?k }}"),
    ("RSTREAM", "SELECT ?x ?t", 'WINDOW :w {{ ?x :p :n{0} BIND(CONCAT("t", STR(?x)) AS ?t) }}'),
    ("RSTREAM", "SELECT ?x ?y", "{{ WINDOW :w {{ ?x :p :n{0} }} }} UNION {{ :n{0} :k ?y }}"),
    ("RSTREAM", "ASK", "WINDOW :w {{ ?x :p :n{0} }}"),
    ("ISTREAM", "ASK", "WINDOW :w {{ ?x :p :n{0} }}"),
    ("DSTREAM", "ASK", "{{ WINDOW :w {{ ?x :p :n{0} }} }} UNION {{ :n{0} :k ?y }}"),
]
ZONES = 6
MINUTE, HOUR = 60_000, 3_600_000
KEPT = Retain(snapshots_ms=1 << 40, emissions_ms=MINUTE)


@pytest.mark.parametrize("block", range(3))
def test_a_query_of_many_emits_what_it_emits_by_itself(block: int, tmp_path: Path) -> None:
    shared = sum(compare(tmp_path / str(seed), seed, deaths=0.0) for seed in range(block * 2, block * 2 + 2))
    assert shared > 100, "these seeds share too little to prove anything"


@pytest.mark.parametrize("block", range(3))
def test_whoever_dies_in_between(block: int, tmp_path: Path) -> None:
    seeds = range(100 + block * 2, 102 + block * 2)
    shared = sum(compare(tmp_path / str(seed), seed, deaths=0.25) for seed in seeds)
    assert shared > 100, "these seeds share too little to prove anything"


def test_queries_that_join_others_together_have_one_state(tmp_path: Path) -> None:
    """Also after a restart: a further query of a template takes few bytes."""

    def assert_few(service: Service) -> None:
        """The states and past memberships that differ, of all that are in a group: a few for each snapshot of a
        registration."""
        progress, queries = service._engine.merge._progress, service._opened.catalog.queries
        members = progress._members.keys()
        snapshots = len({queries[query].since for query in members})
        states = {id(progress._states[query]) for query in members}
        memberships = {id(past) for query, past in progress._past.items() if query in members}
        assert len(members) == 2 * 40
        assert len(states) <= 3 * snapshots
        assert len(memberships) <= 3 * snapshots

    def register(service: Service, first: int) -> None:
        zones = range(first, first + 40)
        texts = (registration(f"q{zone}", pattern=f"?x :p :n{zone}", select="SELECT ?x") for zone in zones)
        assert all(service.register_all(texts))

    with opened(tmp_path) as service:
        service.create_stream("s", {})
        register(service, 0)
        for second in (1, 2):
            push(service, "s", second * 1_000, triple("a", "n1"))
        register(service, 40)
        for second in (3, 4, 5):
            push(service, "s", second * 1_000, triple("a", "n1"))
        assert_few(service)
    with opened(tmp_path) as service:
        assert_few(service)


@pytest.mark.soak
@pytest.mark.parametrize("block", range(100))
def test_hundreds_of_plays(block: int, tmp_path: Path) -> None:
    for seed in range(10_000 + block * 10, 10_010 + block * 10):
        compare(tmp_path / str(seed), seed, deaths=random.Random(seed).choice((0.0, 0.2)))


def compare(folder: Path, seed: int, deaths: float) -> int:
    """How many evaluations were told of several queries at once. In some plays those of different templates, too."""
    folder.mkdir(parents=True)
    with short_runs(), mock.patch("stream_ext.continuous.joint_parts.TOGETHER_MIN", (2, 1_000)[seed % 2]):
        with alone():
            expected = Play(folder / "alone", seed, 0.0, exact=not deaths).run()
        play = Play(folder / "shared", seed, deaths, exact=not deaths)
        found = play.run()
    assert found.keys() == expected.keys(), f"seed {seed}"
    for name, own in expected.items():
        assert found[name] == own, f"seed {seed}, query {name}: {play.texts[name]}"
    return play.shared


@contextmanager
def short_runs() -> Iterator[None]:
    """Runs of closes are told as one from a tenth of the length on, so that they are here without thousands of them."""
    with (
        mock.patch("stream_ext.continuous.steps.RUN_EMITTED_SINGLY_MAX", 100),
        mock.patch("stream_ext.continuous.emitting.RUN_EMITTED_SINGLY_MAX", 100),
    ):
        yield


@contextmanager
def alone() -> Iterator[None]:
    """Each query has a network of its own."""
    with mock.patch("stream_ext.service.engine.Shard", AloneShard):
        yield


@dataclass
class Play:
    """Queries come, go, pause and go on while elements come; the same seed does the same.

    `exact`: also the numbers of snapshots are told, of which a second try may use up some."""

    folder: Path
    seed: int
    deaths: float
    exact: bool
    texts: dict[str, str] = field(default_factory=dict)
    paused: set[str] = field(default_factory=set)
    time: int = 0
    now: int = 1_000_000
    shared: int = 0

    def run(self) -> dict[str, Any]:
        self.folder.mkdir()
        self.chance, self.fate = random.Random(self.seed), random.Random(f"fate {self.seed}")
        self.trace: list[str] = []
        self.chosen = self.chance.sample(TEMPLATES, 2)
        self._open()
        # All elements stay: who is registered later sees as many, whenever it is that others go.
        self.service.create_stream("s", {"lateness": "5ms", "retention": "1d"})
        # Rows stand in the order of the terms' ids, of which a death uses up some: these are given before.
        nodes = [*(f"n{zone}" for zone in range(ZONES)), "x", "y", "z"]
        self.service.update(f"INSERT DATA {{ {' '.join(triple(node, node, 'named') for node in nodes)} }}")
        for number in range(40):
            if self.fate.random() < self.deaths:
                self.kv.dies_at(self.fate.randrange(1, 8), self.fate.choice(WAYS))
            self._insist(self._next(number))
        self.kv.lives_on()
        observed = {name: self._observed(name) for name in self.texts}
        self.service.close()
        return observed

    # ---- what is done

    def _next(self, number: int) -> Callable[[], object]:
        chance, there = self.chance, sorted(self.texts)
        action = chance.random()
        if not there or action < 0.35:
            new = [self._text(number * 20 + i) for i in range(chance.choice((1, 1, 1, 1, 12)))]
            return lambda: [self.service.register(text) for text in new]
        if action < 0.42:
            name = chance.choice(there)
            del self.texts[name]
            self.paused.discard(name)
            return lambda: self.service.drop_query(name)
        if action < 0.5:
            name = chance.choice(there)
            if name in self.paused:
                self.paused.discard(name)
                return lambda: self.service.resume_query(name)
            self.paused.add(name)
            return lambda: self.service.pause_query(name)
        if action < 0.55:
            verb, line = chance.choice(("INSERT", "DELETE")), triple(f"n{chance.randrange(ZONES)}", "z", "k")
            return lambda: self.service.update(f"{verb} DATA {{ {line} }}", wait="evaluated")
        if action < 0.6:
            return self._restart
        if action < 0.65:
            return self._later(chance.choice((20_000, 61_000)))
        self.time += chance.choice((0, 3, 8, 15, 15, 40, 90, 1_500))
        time, named = self.time, {"source": f"source {number}", "seq": 1}
        subjects = [f"n{chance.randrange(ZONES)}" for _ in range(chance.randrange(4))]
        lines = [triple(subject, f"n{chance.randrange(ZONES)}") for subject in subjects]
        return lambda: push(self.service, "s", time, *(lines or [triple("x", "y")]), **named)

    def _text(self, number: int) -> str:
        chance = self.chance
        r2s, select, pattern = chance.choice(self.chosen)
        window = chance.choice(("RANGE PT0.03S STEP PT0.01S", "RANGE PT0.03S STEP PT0.01S", "RANGE PT0.02S"))
        window += chance.choice(("", "", "", " REPORT NON_EMPTY_CONTENT"))
        text = registration(f"q{number}", window=window, select=select, r2s=r2s, pattern="@")
        self.texts[f"q{number}"] = text = text.replace("WINDOW :w { @ }", pattern.format(chance.randrange(ZONES)))
        return text

    def _later(self, ms: int) -> Callable[[], object]:
        """Emissions of more than a minute before go."""
        self.now += ms

        def collect() -> None:
            self._settle()
            self.clock.advance(self.now - self.clock.now_ms())
            self.service.collect()

        return collect

    def _restart(self) -> None:
        self.service.close()
        self._open()
        self._settle()

    def _observed(self, name: str) -> dict[str, Any]:
        number = self.service.query_definition(name).number
        observed = [emission.json for emission in self.service.emissions(name)]
        status, half = self.service.query_status(name), len(observed) // 2
        first, last = status["oldest_emission"], status["emissions"]
        assert [json.loads(each)["emission"] for each in observed] == list(range(first, last + 1))
        assert [e.json for e in self.service.emissions(name, 0, 3)] == observed[:3]
        if observed:
            assert [e.json for e in self.service.emissions(name, first - 1 + half, 3)] == observed[half : half + 3]
            with mock.patch.object(subscriptions, "_TAKE_MAX", 3 if len(observed) < 60 else 300):
                assert Reader(self.service, name).read_to(last) == list(range(first, last + 1))
        latest = self.service.latest(name)
        self.shared += sum(m.until - m.first + 1 for m in self.service._engine.merge.memberships(number) if m.until)
        return {
            "told": observed if self.exact else [re.sub(rb'"snapshot":\d+', b"", json) for json in observed],
            "latest": sorted(self.service.decode(latest), key=str) if latest.boolean is None else latest.boolean,
            "last": last,
            "again": self._again(name, first + half) if observed and self.exact else None,
        }

    def _again(self, name: str, number: int) -> bytes | str:
        """Made anew."""
        try:
            return self.service.emission_again(name, number)
        except Gone as error:
            return str(error)

    # ---- lives

    def _open(self) -> None:
        self.kv = Mortal(LmdbKeyValue(self.folder / "store"), self.trace)
        self.clock = clock = ManualClock(self.now)
        store = Store(self.kv, f"lmdb:{self.folder / 'store'}", clock, folding=False)
        store.take_lease("")
        store.emissions.take_over()
        self.service = Service(store, BASE, clock, PublishingPace(0, 0), Limits(), None, KEPT, NOTHING)

    def _insist(self, act: Callable[[], object]) -> None:
        again = False
        while True:
            try:
                act()
            except Died:
                assert self.kv.dead
            except RilletError:
                if not (self.kv.dead or again):  # the second time it is gone already
                    raise
            except Exception:
                if not self.kv.dead:
                    raise
            if not self.kv.dead:
                return
            again = True
            with contextlib.suppress(Died):
                self.service.close()
            self.service.store.close()
            self._open()
            self._settle()

    def _settle(self) -> None:
        self.service._engine.merge.wait(self.service.head(), 30)


def two(service: Service, window: str) -> None:
    """Queries `a` and `b` that are told together."""
    service.create_stream("s", {})
    for name in "ab":
        service.register(registration(name, window=window, pattern=f"?x :p :{name}", select="SELECT ?x"))


def closes(service: Service, first: int, stop: int) -> None:
    """Each of these seconds is a close."""
    for second in range(first, stop):
        push(service, "s", second * 1000, triple(f"x{second}", "a"))


# ---- what is not kept any more ---------------------------------------------------------------------------------


def test_who_begins_with_the_oldest_of_many_emissions_of_a_group_misses_none(tmp_path: Path) -> None:
    clock = ManualClock(HOUR)
    with opened(tmp_path, clock, retain=Retain(emissions_ms=MINUTE)) as service:
        two(service, "RANGE PT2S STEP PT1S")
        closes(service, 0, 40)
        clock.advance(2 * MINUTE)
        closes(service, 40, 50)
        service.collect()
        retained = [emission.number for emission in service.emissions("a")]
        assert retained == list(range(40, 50)), "else this proves nothing"
        assert [emission.number for emission in service.emissions("a", 0, 3)] == retained[:3]
        with mock.patch.object(subscriptions, "_TAKE_MAX", 4):
            assert Reader(service, "a").read_to(49) == retained


@pytest.mark.parametrize("restart", [False, True])
def test_what_is_known_of_pauses_goes_with_the_emissions(restart: bool, tmp_path: Path) -> None:
    """The group lives on: there are always others in it."""
    clock = ManualClock(HOUR)
    service = open_service(tmp_path, clock, retain=Retain(emissions_ms=MINUTE))
    two(service, "RANGE PT2S STEP PT1S")
    service.register(registration("c", window="RANGE PT2S STEP PT1S", pattern="?x :p :c", select="SELECT ?x"))
    known = []
    for turn in range(12):
        closes(service, 10 * turn, 10 * turn + 4)
        service.pause_query("b")
        closes(service, 10 * turn + 4, 10 * turn + 5)
        service.resume_query("b")
        merge, number = service._engine.merge, service.query_definition("b").number
        merge.wait(service.head(), 30)
        clock.advance(2 * MINUTE)
        service.collect()
        known.append(len(merge.memberships(number)))
        if restart:
            service.close()
            service = open_service(tmp_path, clock, retain=Retain(emissions_ms=MINUTE))
    assert max(known) < 4, known
    assert [emission.number for emission in service.emissions("b")] == []
    before = service.query_status("b")["emissions"]
    closes(service, 120, 124)
    assert [emission.number for emission in service.emissions("b")][:2] == [before + 1, before + 2]
    service.close()


def test_numbers_continue_when_nothing_of_what_was_emitted_together_is_retained(tmp_path: Path) -> None:
    clock = ManualClock(HOUR)
    with opened(tmp_path, clock, retain=Retain(emissions_ms=MINUTE)) as service:
        two(service, "RANGE PT2S STEP PT1S REPORT NON_EMPTY_CONTENT")
        closes(service, 0, 10)
        service.heartbeat("s", MINUTE, wait="evaluated")
        observed = service.query_status("a")["emissions"]
        assert observed > 5
        service.drop_query("b")
        service.heartbeat("s", 2 * MINUTE, wait="evaluated")  # from here on it is told by itself, and silent
        clock.advance(HOUR)
        service.collect()
        service.heartbeat("s", 2 * MINUTE + 1000, wait="evaluated")
        status = service.query_status("a")
        assert (status["emissions"], status["oldest_emission"]) == (observed, observed + 1)
        with pytest.raises(Gone):
            service.emissions("a", 2)
    with opened(tmp_path, clock) as service:
        assert service.query_status("a")["emissions"] == observed
        closes(service, 130, 133)
        assert [emission.number for emission in service.emissions("a")][:2] == [observed + 1, observed + 2]


def test_nobody_leaves_out_what_is_emitted_with_others_while_he_reads(tmp_path: Path) -> None:
    with opened(tmp_path) as service:
        two(service, "RANGE PT2S STEP PT1S")
        closes(service, 0, 4)
        engine = service._engine
        asked = engine.merge.memberships
        number = service.query_definition("a").number

        def asked_too_early(query: int) -> Sequence[GroupMembership]:
            found = asked(query)
            if query == number and not service.query_definition("a").paused:
                service.register(
                    registration("b", window="RANGE PT2S STEP PT1S", pattern="?x :p :b", select="SELECT ?x")
                )
                closes(service, 6, 9)  # with the other
                service.drop_query("b")
                closes(service, 9, 10)  # by itself
                service.pause_query("a")
            return found

        before = service.query_status("a")["emissions"]
        service.drop_query("b")
        closes(service, 4, 6)  # by itself
        emissions = Emissions(service.store.emissions, engine.merge.last, asked_too_early, engine.emissions._definition)
        found = [each.number for each in emissions.read(number, before, None)]
        now = service.query_status("a")["emissions"]
        assert len(asked(number)) > 1, "else this proves nothing"
        assert found == list(range(before + 1, now + 1))
        assert [each.number for each in emissions.read(number, before, None)] == list(range(before + 1, now + 1))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as where:
        for given in sys.argv[1:]:
            for deaths in (0.0, 0.25):
                shared = compare(Path(where) / f"{given}-{deaths}", int(given), deaths)
                print(f"seed {given}, deaths {deaths}: {shared} records of groups, nothing is wrong")
