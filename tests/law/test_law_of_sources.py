"""The law for what reads windows, the store and conditions: outputs sum to the model over all that came in."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import msgspec
import numpy as np
import pytest

import hbase_store
from hbase_store import Store
from hbase_store.layout.terms import held
from stream_ext.continuous.start_point import ChangesBetween
from stream_ext.language.algebra.algebra import Compare, CompareOp, Variable
from stream_ext.network.operators.core import testing
from stream_ext.network.operators.core.moment import Moment
from stream_ext.network.operators.core.pattern import IdGraph, IdPattern
from stream_ext.network.operators.joins.store_join import StoreJoin
from stream_ext.network.operators.rowwise.filter import FilterOperator
from stream_ext.network.operators.scans.window_scan import WindowScan
from stream_ext.values.vocabulary import Vocabulary
from stream_ext.windows.scheduled_window import ScheduledWindow
from tests.law.test_law import Source, entries_of, moment, zset
from tests.stream_ext import model
from tests.stream_ext.model import Entry, Row

Quad = tuple[int, int, int, int]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = hbase_store.open(f"lmdb:{tmp_path / 'store'}")
    yield opened
    opened.close()


class Graph:
    """A store of four nodes and two predicates, changed at random; and what is in it, as a plain set of quads."""

    def __init__(self, store: Store, seed: int, held: bool = False) -> None:
        """`held`: some of it is held edges, and some is both."""
        self._store, self._random, self._held = store, random.Random(seed), held
        batch = store.begin()
        self.nodes = [int(i) for i in batch.encode([b"<http://ex/%d>" % n for n in range(6)])]
        store.commit(batch)
        self._parts: dict[bool, set[Quad]] = {False: set(), True: set()}

    @property
    def quads(self) -> set[Quad]:
        return self._parts[False] | self._parts[True]

    def change(self) -> int:
        batch = self._store.begin()
        for _ in range(self._random.randrange(6)):
            quad = self._quad()
            verb = batch.insert if self._random.random() < 0.6 else batch.delete
            as_held = self._held and self._random.random() < 0.5
            s, p, o, g = quad
            verb(*(np.array([id], np.uint64) for id in (s, held(p) if as_held else p, o, g)))
            (self._parts[as_held].add if verb == batch.insert else self._parts[as_held].discard)(quad)
        return self._store.commit(batch)

    def change_held(self) -> int:
        """Changes nothing but held edges."""
        batch = self._store.begin()
        for _ in range(6):
            s, p, o, g = self._quad()
            batch.insert(s, held(p), o, g)
        return self._store.commit(batch)

    def _quad(self) -> Quad:
        s, o = self._random.choice(self.nodes[:4]), self._random.choice(self.nodes[:4])
        return s, self._random.choice(self.nodes[4:]), o, self._random.choice([0, 0, *self.nodes[:2]])


def matches(pattern: IdPattern, quads: set[Quad]) -> Counter[Row]:
    """The pattern's solutions, by trying each quad that the pattern's graph has."""
    out: Counter[Row] = Counter()
    graph = pattern.graph
    if graph.merged:
        assert graph.among is not None
        seen = {quad[:3] for quad in quads if quad[3] in graph.among.tolist()}
        quads = {(*triple, 0) for triple in seen}
    elif graph.one is not None:
        quads = {quad for quad in quads if quad[3] == graph.one}
    else:
        quads = {quad for quad in quads if quad[3] != 0}
    for quad in quads:
        bound: dict[str, int] = {}
        fits = all(quad[i] == id for i, id in pattern.fixed.items())
        for i, name in pattern.binding.items():
            fits = fits and bound.setdefault(name, quad[i]) == quad[i]
        if fits:
            out[tuple(bound[name] for name in pattern.variables)] += 1
    return out


SHAPES = [("a", None, "b"), ("b", None, "c"), ("c", None, "d"), ("c", None, "c"), ("b", "p", "c"), ("a", "b", "c")]


GRAPHS = ["default", "named", "variable", "merged", "merged with default"]


@pytest.mark.parametrize(("shape", "graph"), list(product(SHAPES, GRAPHS)))
def test_a_store_join_follows_both_its_rows_and_the_store(
    store: Store, shape: tuple[str, str | None, str], graph: str
) -> None:
    follow(store, IdShape(shape, graph), SHAPES.index(shape))


@pytest.mark.parametrize(("shape", "graph"), list(product(SHAPES, GRAPHS)))
def test_a_store_join_reads_held_edges_as_if_they_were_our_own(
    store: Store, shape: tuple[str, str | None, str], graph: str
) -> None:
    follow(store, IdShape(shape, graph, held=True), SHAPES.index(shape))


@pytest.mark.parametrize("graph", GRAPHS)
def test_a_store_join_that_does_not_ask_for_held_edges_sees_none(store: Store, graph: str) -> None:
    world, pattern = Graph(store, 1, held=True), IdShape(SHAPES[0], graph).pattern
    operator = StoreJoin(("a", "b"), pattern(world.nodes))
    for step in range(20):
        before, sn = int(store.head()), world.change_held()
        changes = None if step == 0 else ChangesBetween(store, before, sn)
        found = operator.step(Moment(step, store.at(), changes), zset([((world.nodes[0], world.nodes[1]), 1, 9)], 2))
        assert not found.count


class IdShape:
    """The pattern of a shape: None stands for a fixed predicate."""

    def __init__(self, shape: tuple[str, str | None, str], graph: str, held: bool = False) -> None:
        self.shape, self.graph, self.held = shape, graph, held

    def pattern(self, nodes: list[int]) -> IdPattern:
        fixed = {1: nodes[4]} if self.shape[1] is None else {}
        binding = {i: name for i, name in enumerate(self.shape) if name is not None}
        if self.graph == "variable":
            binding[3] = "g"
            return IdPattern(fixed, binding, IdGraph(None, "g", held=self.held))
        if self.graph.startswith("merged"):
            among = sorted([0, nodes[0]] if "default" in self.graph else nodes[:2])
            return IdPattern(fixed, binding, IdGraph(None, None, np.array(among, np.uint64), self.held))
        return IdPattern(fixed, binding, IdGraph(0 if self.graph == "default" else nodes[0], held=self.held))


def follow(store: Store, shape: IdShape, seed: int) -> None:
    world, left = Graph(store, seed, shape.held), Source(seed, 2)
    pattern = shape.pattern(world.nodes)
    operator = StoreJoin(("a", "b"), pattern)
    key = [i for i, v in enumerate(("a", "b")) if v in pattern.variables]
    right_key = [pattern.variables.index(("a", "b")[i]) for i in key]
    out: list[Entry] = []
    last: int | None = None
    for step in range(60):
        time, sn = step * 10, world.change()
        rows = [(tuple(world.nodes[i - 1] for i in row), w, until) for row, w, until in left.change(time, 5)]
        changes = None if last is None else ChangesBetween(store, last, sn)
        out += entries_of(operator.step(Moment(time, store.at(sn), changes), zset(rows, 2)))
        last = sn
        alive = Counter({tuple(world.nodes[i - 1] for i in row): n for row, n in model.alive(left.all, time).items()})
        expected = model.join(alive, matches(pattern, world.quads), key, right_key)
        assert model.alive(out, time) == expected, f"seed {seed}, step {step}"


@pytest.mark.parametrize("seed", range(30))
def test_a_window_scan_is_the_set_of_what_its_instance_holds(seed: int) -> None:
    chance = random.Random(seed)
    window = ScheduledWindow("w", 1, chance.choice([5, 10, 23]), chance.choice([3, 5, 10]))
    scan = WindowScan(window, IdPattern({1: 7}, {0: "a", 2: "b"}))
    arrived: list[tuple[int, Row]] = []
    out: list[Entry] = []
    for time in range(window.step_ms, 20 * window.step_ms, window.step_ms):
        for _ in range(chance.randrange(4)):
            row = (chance.randrange(3), chance.choice([7, 7, 8]), chance.randrange(3))
            at = max(0, time - chance.randrange(-4, 12))
            arrived.append((at, row))
            s, p, o = (np.array([id], np.uint64) for id in row)
            scan.arrive(s, p, o, np.zeros(1, np.uint64), np.array([at], np.int64))
        out += entries_of(scan.step(moment(time)))
        content = {(row[0], row[2]) for at, row in arrived if row[1] == 7 and time - window.range_ms <= at < time}
        assert model.alive(out, time) == Counter(content), f"seed {seed}, time {time}"


@pytest.mark.parametrize("seed", range(10))
def test_a_filter_of_changes_is_the_change_of_the_filter(seed: int) -> None:
    source = Source(seed, 2)
    different = Compare(CompareOp.NE, Variable("a"), Variable("b"))
    operator = FilterOperator(("a", "b"), testing.Tester(("a", "b"), different, frozenset("ab")))
    words = Vocabulary(lambda texts: np.zeros(len(texts), np.uint64), lambda ids: [b"<%d>" % id for id in ids.tolist()])
    out: list[Entry] = []
    for time in range(20):
        now = msgspec.structs.replace(moment(time), vocabulary=words)
        out += entries_of(operator.step(now, zset(source.change(time, 8), 2)))
        retained = {row: n for row, n in model.alive(source.all, time).items() if row[0] != row[1]}
        assert model.alive(out, time) == Counter(retained)
