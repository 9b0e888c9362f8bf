"""Paths: at every evaluation, what was put out is the path over the edges that are there, joined with the rows."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path as Folder

import numpy as np
import pytest

import hbase_store
from hbase_store import Store
from stream_ext.continuous.start_point import ChangesBetween
from stream_ext.errors import QueryCancelled, QueryTooLarge
from stream_ext.evaluation_budget import Control
from stream_ext.language.algebra.formulas import (
    Path,
    PathAlternative,
    PathInverse,
    PathNegated,
    PathRepeat,
    PathSequence,
    Repeat,
)
from stream_ext.language.algebra.terms import Constant
from stream_ext.network.operators.core.moment import Moment
from stream_ext.network.operators.core.pattern import IdGraph
from stream_ext.network.operators.paths import walking as paths
from stream_ext.network.operators.paths.id_path import Link, Repeated, id_path
from stream_ext.network.operators.paths.path_edges import SortedEdges, WindowEdges
from stream_ext.network.operators.paths.path_join import PathJoin
from stream_ext.network.operators.paths.path_pairs import NO_CHANGE, EdgeChange, PathPairs
from stream_ext.network.operators.paths.walking import ROUNDS, connected
from stream_ext.rows.kernels import path as path_kernels
from stream_ext.rows.zset import FOREVER
from stream_ext.values.vocabulary import Vocabulary
from tests.law.test_law import Source, entries_of, zset
from tests.law.test_law_of_sources import Graph
from tests.stream_ext import model
from tests.stream_ext.model import Entry, Row

NODES = 5
P, Q = 11, 12

PATHS: list[model.Path] = [
    ("*", P),
    ("+", P),
    ("?", P),
    ("not", (P,), None),
    ("not", None, (P,)),
    ("not", (P,), (Q,)),
    ("+", ("inverse", P)),
    ("*", ("choice", P, ("inverse", Q))),
    ("+", ("not", (P,), None)),
    ("+", ("sequence", P, Q)),
    ("*", ("sequence", P, ("?", Q))),
    ("?", ("sequence", P, P)),
    ("+", ("+", P)),
    ("sequence", P, ("*", Q)),
    ("sequence", ("sequence", P, ("choice", P, Q)), ("*", Q)),
    ("choice", ("+", P), ("inverse", P)),
    ("inverse", ("+", ("sequence", P, ("choice", Q, ("inverse", P))))),
]


def algebra(way: model.Path) -> Path:
    """The path as the parser gives it; predicates are named by their ids."""
    if isinstance(way, int):
        return Constant(b"%d" % way)
    kind, *rest = way
    if kind == "not":
        forward, backward = (tuple(map(algebra, part or ())) for part in rest)
        return PathNegated(forward, backward)  # type: ignore[arg-type]  # they are constants
    parts = tuple(map(algebra, rest))
    if kind == "inverse":
        return PathInverse(parts[0])
    if kind == "sequence":
        return PathSequence(parts)
    return PathAlternative(parts) if kind == "choice" else PathRepeat(parts[0], Repeat(kind))


class Edges(Source):
    """Changes of a window's triples: its nodes are few, its predicates two."""

    def a_row(self) -> Row:
        return self.random.randrange(1, NODES + 1), self.random.choice([P, Q]), self.random.randrange(1, NODES + 1)


#: (subject, object), where "a" and "b" are variables of the left side, "x" and "y" new ones, and numbers constants.
ENDS: list[tuple[str | int, str | int]] = [
    ("a", "x"), ("x", "a"), ("a", "b"), ("x", "y"), ("x", "x"), ("a", "a"),
    (2, "x"), ("x", 2), (2, 3), (9, "x"), ("a", 2),
]  # fmt: skip


def answers(
    rows: Counter[Row], way: model.Path, ends: tuple[str | int, str | int], edges: set[tuple[int, int, int]]
) -> Counter[Row]:
    """Each row (a, b) with the pairs that agree with it."""
    nodes = {node for s, _, o in edges for node in (s, o)}
    asked = {end for end in ends if isinstance(end, int)}  # a constant need not be a node
    new = [end for end in dict.fromkeys(ends) if isinstance(end, str) and end not in "ab"]
    pairs = model.path(way, edges, nodes | asked)
    out: Counter[Row] = Counter()
    for row, n in rows.items():
        for pair, m in pairs.items():
            bound: dict[str | int, int] = {"a": row[0], "b": row[1]}
            agree = all(
                bound.setdefault(end, node) == node if isinstance(end, str) else end == node
                for end, node in zip(ends, pair, strict=True)
            )
            if agree:
                out[*row, *(bound[name] for name in new)] += n * m
    return out


@pytest.mark.parametrize("way", PATHS, ids=str)
@pytest.mark.parametrize("ends", ENDS, ids=str)
def test_a_path_over_a_window_follows_its_rows_and_its_edges(
    way: model.Path, ends: tuple[str | int, str | int]
) -> None:
    seed = PATHS.index(way) * 100 + ENDS.index(ends)
    left, edges = Source(seed, 2), Edges(seed + 1, 3)
    operator = PathJoin(("a", "b"), end(ends[0]), id_path(algebra(way), int), end(ends[1]))
    out: list[Entry] = []
    for step in range(15):
        time = step * 10
        rows, triples = zset(left.change(time, 4), 2), zset(edges.change(time, 5), 3)
        out += entries_of(operator.step(at(time), rows, triples))
        there = set(model.alive(edges.all, time))
        expected = answers(model.alive(left.all, time), way, ends, there)  # type: ignore[arg-type]  # rows of three
        assert model.alive(out, time) == expected, f"seed {seed}, step {step}"


def end(name: str | int) -> str | Constant:
    return name if isinstance(name, str) else Constant(b"%d" % name)


#: A term's text is its id.
NUMBERED = Vocabulary(lambda texts: np.array([int(text) for text in texts], np.uint64), lambda ids: [])


def at(time: int, last: bool = False, control: Control = Control.FREE) -> Moment:
    return Moment(time, snapshot=None, changes=None, last=last, control=control, vocabulary=NUMBERED)  # type: ignore[arg-type]  # a window's


@pytest.mark.parametrize("small", [0, 4096], ids=["by rounds", "all edges at once"])
@pytest.mark.parametrize("count", [4, 20])
@pytest.mark.parametrize("way", PATHS, ids=str)
@pytest.mark.parametrize("ends", ENDS, ids=str)
def test_one_step_that_is_the_last_follows_the_path_through_all_that_comes(
    way: model.Path, ends: tuple[str | int, str | int], count: int, small: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paths, "_SMALL", small)
    left, edges = Source(7, 2), Edges(8, 3)
    rows, triples = zset(left.change(0, 8), 2), zset(edges.change(0, count), 3)
    operator = PathJoin(("a", "b"), end(ends[0]), id_path(algebra(way), int), end(ends[1]))
    expected = answers(model.alive(left.all, 0), way, ends, set(model.alive(edges.all, 0)))  # type: ignore[arg-type]
    assert model.alive(entries_of(operator.step(at(0, last=True), rows, triples)), 0) == expected


@pytest.fixture
def store(tmp_path: Folder) -> Iterator[Store]:
    opened = hbase_store.open(f"lmdb:{tmp_path / 'store'}")
    yield opened
    opened.close()


SCOPES: dict[str, tuple[Callable[[list[int]], IdGraph], Callable[[list[int], int], bool]]] = {
    "default": (lambda nodes: IdGraph(), lambda nodes, g: g == 0),
    "named": (lambda nodes: IdGraph(nodes[1]), lambda nodes, g: g == nodes[1]),
    "merged": (lambda nodes: IdGraph(None), lambda nodes, g: True),
    "some": (lambda nodes: IdGraph(None, None, np.array(nodes[:1], np.uint64)), lambda nodes, g: g == nodes[0]),
    "each": (lambda nodes: IdGraph(None, "g"), lambda nodes, g: g != 0),
}


@pytest.mark.parametrize("held", [False, True], ids=["ours", "held"])
@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("way", PATHS, ids=str)
def test_a_path_over_the_store_follows_its_rows_and_the_store(
    store: Store, way: model.Path, scope: str, held: bool
) -> None:
    seed = PATHS.index(way)
    world, left = Graph(store, seed, held), Source(seed, 2)
    names = {P: world.nodes[4], Q: world.nodes[5]}
    graph, holds = SCOPES[scope]
    for ends in [("a", "x"), ("x", "y"), (1, "x"), ("x", "b")]:
        operator = PathJoin(
            ("a", "b"),
            ends[0] if isinstance(ends[0], str) else Constant(b"<http://ex/%d>" % (int(ends[0]) - 1)),
            id_path(algebra(way), lambda name: names[int(name)]),
            ends[1],
            replace(graph(world.nodes), held=held),
        )
        follow(store, world, left, operator, way, ends, scope, holds, names)


def follow(store, world, left, operator, way, ends, scope, holds, names) -> None:  # type: ignore[no-untyped-def]
    vocabulary = Vocabulary(store.ids, store.terms)
    back = {id: name for name, id in names.items()}
    left.all.clear()
    out: list[Entry] = []
    last: int | None = None
    for step in range(10):
        time, sn = step * 10, world.change()
        for _ in range(step % 4):
            sn = world.change()  # an edge may come and go between two steps
        rows = [(tuple(world.nodes[i - 1] for i in row), w, until) for row, w, until in left.change(time, 4)]
        changes = None if last is None else ChangesBetween(store, last, sn)
        now = Moment(time, store.at(sn), changes, vocabulary=vocabulary)
        out += entries_of(operator.step(now, zset(rows, 2)))
        last = sn
        alive = Counter({tuple(world.nodes[i - 1] for i in row): n for row, n in model.alive(left.all, time).items()})
        quads = [(s, back[p], o, g) for s, p, o, g in world.quads if holds(world.nodes, g)]
        graphs = sorted({g for *_, g in quads}) if scope == "each" else [None]
        fixed = tuple(end if isinstance(end, str) else world.nodes[end - 1] for end in ends)
        expected: Counter[Row] = Counter()
        for g in graphs:
            triples = {(s, p, o) for s, p, o, h in quads if g in (None, h)}
            if scope == "named" and not triples:
                continue  # a graph without triples is none
            for row, n in answers(alive, way, fixed, triples).items():
                expected[row if g is None else (*row, g)] += n
        assert model.alive(out, time) == expected, f"ends {ends}, step {step}"


# ---- the pairs alone -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", PATHS, ids=str)
def test_the_pairs_of_some_starts_follow_the_edges(way: model.Path) -> None:
    seed = PATHS.index(way)
    chance, edges = random.Random(seed), Edges(seed, 3)
    window, pairs = WindowEdges(), PathPairs(id_path(algebra(way), int))
    out: list[Entry] = []
    for step in range(40):
        change = window.step(at(step * 10), zset(edges.change(step * 10, 5), 3))
        asked = np.array(sorted(chance.sample(range(1, NODES + 3), chance.randrange(5))), np.uint64)
        out += entries_of(pairs.step(window.edges, change, asked, Control.FREE, asked))
        triples = {(s, p, o) for s, p, o in model.alive(edges.all, step * 10)}
        nodes = {node for s, _, o in triples for node in (s, o)} | set(asked.tolist())
        there = Counter({pair: n for pair, n in model.path(way, triples, nodes).items() if pair[0] in asked})
        assert model.alive(out, step * 10) == there, f"seed {seed}, step {step}"


# ---- long ways -------------------------------------------------------------------------------------------------


def chain(n: int) -> SortedEdges:
    s = np.arange(1, n, dtype=np.uint64)
    return SortedEdges(s, np.full(n - 1, P, np.uint64), s + np.uint64(1))


def edge(s: int, o: int) -> EdgeChange:
    """It came."""
    ids = (np.array([id], np.uint64) for id in (s, P, o))
    return EdgeChange(*ids, sign=np.array([1], np.int64))


def test_a_way_longer_than_the_rounds_is_followed_to_its_end() -> None:
    pairs = PathPairs(id_path(algebra(("+", P)), int))
    n = 20 * ROUNDS
    change = pairs.step(chain(n), NO_CHANGE, np.array([1, n // 2], np.uint64), Control.FREE)
    reached = Counter(change.columns[0].tolist())
    assert reached == {1: n - 1, n // 2: n // 2} and int(change.columns[1].max()) == n


def test_a_repeated_sequence_longer_than_the_rounds_is_followed_to_its_end() -> None:
    pairs = PathPairs(id_path(algebra(("*", ("sequence", P, P))), int))
    n = 20 * ROUNDS
    change = pairs.step(chain(n), NO_CHANGE, np.array([2], np.uint64), Control.FREE)
    assert sorted(change.columns[1].tolist()) == list(range(2, n + 1, 2))


def test_edges_that_come_only_add() -> None:
    """What is known is not worked out again: the edges before the new one are not even asked for."""
    n = 50
    pairs = PathPairs(id_path(algebra(("+", P)), int))
    first = pairs.step(chain(n), NO_CHANGE, np.array([1], np.uint64), Control.FREE)
    more, asked = chain(n + 1), []

    class Watched(SortedEdges):
        def neighbours(self, predicate, keys, inverse):  # type: ignore[no-untyped-def]
            asked.extend(keys.tolist())
            return more.neighbours(predicate, keys, inverse)

    change = pairs.step(Watched(*more.triples), edge(n, n + 1), np.array([1], np.uint64), Control.FREE)
    assert entries_of(change) == [((1, n + 1), 1, FOREVER)] and first.count == n - 1 and asked == [n + 1]


def test_a_long_search_ends_when_it_is_cancelled_and_when_it_finds_too_much() -> None:
    n, path = 100 * ROUNDS, id_path(algebra(("+", P)), int)
    starts = np.arange(1, n, dtype=np.uint64)
    cancelled = Control()
    cancelled.cancel()
    with pytest.raises(QueryCancelled):
        PathPairs(path).step(chain(n), NO_CHANGE, starts, cancelled)
    with pytest.raises(QueryTooLarge):
        PathPairs(path).step(chain(n), NO_CHANGE, starts, Control(bytes_max=1 << 20))


@pytest.mark.parametrize("seed", range(30))
@pytest.mark.parametrize("zero", [False, True])
def test_two_nodes_are_connected_if_one_is_reached_from_the_other(seed: int, zero: bool) -> None:
    chance, n = random.Random(seed), 40
    s, o = (np.array([chance.randrange(n) for _ in range(n)], np.uint64) for _ in range(2))
    path = Repeated(Link(P), zero, True)
    for start, target in ((chance.randrange(n), chance.randrange(n)) for _ in range(40)):
        reached = {start} if zero else set[int]()
        front = {start}
        while front:
            front = {int(b) for a, b in zip(s, o, strict=True) if int(a) in front} - reached
            reached |= front
        ids = (np.array([node], np.uint64) for node in (start, target))
        edges = SortedEdges(s, np.full(n, P, np.uint64), o)
        assert connected(path, edges, *ids, control=Control.FREE) in (target in reached, None)


def test_two_nodes_are_looked_for_from_the_end_that_has_less_before_it() -> None:
    """A root with a thousand branches, asked whether it leads to a leaf: only the leaf's way up is looked at."""
    depth = 8
    roots, heads = np.zeros(1000, np.uint64), np.arange(1, 1001, dtype=np.uint64)
    below = [heads + np.uint64(1000 * level) for level in range(depth)]
    s, o = np.concatenate([roots, *below[:-1]]), np.concatenate([heads, *below[1:]])
    asked = []

    class Watched(SortedEdges):
        def neighbours(self, predicate, keys, inverse):  # type: ignore[no-untyped-def]
            asked.extend(keys.tolist())
            return super().neighbours(predicate, keys, inverse)

    edges = Watched(s, np.full(len(s), P, np.uint64), o)
    ids = np.array([0], np.uint64), np.array([1000 * depth - 5], np.uint64)
    assert connected(Repeated(Link(P), False, True), edges, *ids, Control.FREE)
    assert len(asked) <= depth + 1


def test_starts_that_nobody_asks_for_are_forgotten() -> None:
    operator = PathJoin(("a",), "a", id_path(algebra(("*", P)), int), "x")
    for step in range(100):
        rows = zset([((step * 100 + i,), 1, step * 10 + 20) for i in range(1, 101)], 1)
        operator.step(at(step * 10), rows, zset([], 3))
    assert operator.starts_known <= 3 * 1024  # 300 are asked for at a time; 10,000 have been


def test_warming_compiles_what_paths_call() -> None:
    path_kernels.warm()
    compiled = len(path_kernels.reach.signatures)
    test_a_way_longer_than_the_rounds_is_followed_to_its_end()
    assert len(path_kernels.reach.signatures) == compiled
