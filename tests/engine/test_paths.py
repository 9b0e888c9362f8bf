"""Paths: at every evaluation, what was put out is the path over the edges that are there, joined with the rows."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pytest

from stream_ext import path_kernels
from stream_ext.control import Control
from stream_ext.errors import QueryCancelled, QueryTooLarge
from stream_ext.operators.moment import Moment
from stream_ext.operators.path_edges import SortedEdges, WindowEdges
from stream_ext.operators.path_pairs import NO_CHANGE, EdgeChange, PathPairs
from stream_ext.paths import ROUNDS, id_path
from stream_ext.plan.formulas import (
    Path,
    PathAlternative,
    PathInverse,
    PathNegated,
    PathRepeat,
    PathSequence,
    Repeat,
)
from stream_ext.plan.terms import Constant
from stream_ext.zset import FOREVER
from tests.engine import model
from tests.engine.model import Entry, Row
from tests.engine.test_law import Source, entries_of, zset

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


def at(time: int, last: bool = False, control: Control = Control.FREE) -> Moment:
    return Moment(time, snapshot=None, changes=None, last=last, control=control)  # type: ignore[arg-type]  # a window's


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
        out += entries_of(pairs.step(window.edges, change, asked, Control.FREE, exactly=True))
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
    return EdgeChange(*ids, np.array([1], np.int64))


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


def test_warming_compiles_what_paths_call() -> None:
    path_kernels.warm()
    compiled = len(path_kernels.reach.signatures)
    test_a_way_longer_than_the_rounds_is_followed_to_its_end()
    assert len(path_kernels.reach.signatures) == compiled
