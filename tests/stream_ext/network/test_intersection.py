"""Cyclic patterns: answers against all choices of nodes, and how much is looked at where a hub has all edges."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest

import hbase_store
from hbase_store import Store
from stream_ext.continuous.start_point import ChangesBetween
from stream_ext.evaluation_budget import Control
from stream_ext.language.algebra.algebra import Query
from stream_ext.language.syntax import parse
from stream_ext.network.operators.core.moment import Moment
from stream_ext.network.operators.core.pattern import IdPattern
from stream_ext.network.operators.joins.intersection import Intersection
from stream_ext.oneshot.answers import answer_once, rows_of
from stream_ext.oneshot.evaluate import Asking, trace
from stream_ext.oneshot.question import Question
from tests.law.test_law import Source, entries_of, zset
from tests.law.test_law_of_sources import Graph, matches
from tests.stream_ext import model
from tests.stream_ext.generated import EX, PROLOGUE
from tests.stream_ext.model import Entry
from tests.stream_ext.peers import load

Edge = tuple[str, str, str]
TRIANGLE = "?a :k ?b . ?b :k ?c . ?c :k ?a"
CYCLES = [
    TRIANGLE,
    "?a :k ?b . ?b :l ?c . ?a :l ?c",
    "?a :k ?b . ?b :k ?c . ?c :k ?a . ?a :k ?d . ?b :l ?d . ?d :k ?c",
    "?a :k ?b . ?b :k ?c . ?c :k ?d . ?d :k ?a",
    "?a :k ?b . ?b :k ?a . ?a :l ?c . ?c :l ?b . ?a :k ?c",
    "?a :k ?b . ?a :k ?c . ?b :l ?d . ?c :l ?d FILTER(?b != ?c)",
]


def opened(place: Path, edges: Sequence[Edge]) -> Store:
    store = hbase_store.open(f"lmdb:{place}/store", folding=False)
    load(store, [(f":{s}", p, f":{o}", "") for s, p, o in edges])
    return store


def found(pattern: str, edges: set[Edge]) -> Counter[tuple[str, ...]]:
    """By trying all nodes for each variable."""
    triples, _, condition = pattern.partition(" FILTER")
    parts = [part.split() for part in triples.split(" . ")]
    names = sorted({end for s, _, o in parts for end in (s, o)})
    nodes = sorted({end for s, _, o in edges for end in (s, o)})
    out: Counter[tuple[str, ...]] = Counter()
    for chosen in itertools.product(nodes, repeat=len(names)):
        at = dict(zip(names, chosen, strict=True))
        if all((at[s], p, at[o]) in edges for s, p, o in parts) and (not condition or at["?b"] != at["?c"]):
            out[chosen] += 1
    return out


@pytest.mark.parametrize("pattern", CYCLES)
@pytest.mark.parametrize("seed", range(4))
def test_a_cyclic_pattern_has_the_solutions_that_all_choices_of_nodes_have(
    pattern: str, seed: int, tmp_path: Path
) -> None:
    chance = random.Random(seed)
    nodes = [f"n{int(7 * chance.random() ** 2)}" for _ in range(60)]  # some are in most edges
    edges = {(s, chance.choice((":k", ":l")), chance.choice(nodes)) for s in nodes}
    names = sorted({word for word in pattern.split() if word.startswith("?") and ")" not in word})
    with closing(opened(tmp_path, sorted(edges))) as store:
        text = f"{PROLOGUE} SELECT {' '.join(names)} {{ {pattern} }}"
        rows = rows_of(answer_once(store, Question.read(text, EX), store.head(), None))
    answered = Counter(tuple(term.decode().removeprefix(f"<{EX}")[:-1] for term in row if term) for row in rows)
    assert answered == found(pattern, edges)


@pytest.mark.parametrize("pattern", [TRIANGLE, "?a :k ?b . ?b :k ?c . ?a :k ?c", "?b :k ?a . ?b :k ?c . ?a :k ?c"])
def test_a_hub_does_not_make_a_row_for_each_pair_of_its_edges(pattern: str, tmp_path: Path) -> None:
    """3,000 edges in and 3,000 out are nine million ways of two edges, and no triangle."""
    n = 3_000
    edges = [edge for i in range(n) for edge in ((f"in{i}", ":k", "hub"), ("hub", ":k", f"out{i}"))]
    with closing(opened(tmp_path, edges)) as store:
        asking = Asking(control=Control(bytes_max=100 * n * 8))
        text = f"{PROLOGUE} SELECT * {{ {pattern} }}"
        assert answer_once(store, Question.read(text, EX), store.head(), None, asking=asking).count == 0
        query = parse(text, EX)
        assert isinstance(query, Query)
        assert max(each.rows for each in trace(store, query, store.head())[1]) <= 2 * n


@pytest.mark.parametrize("seed", range(6))
def test_an_intersection_follows_both_its_rows_and_the_store(seed: int, tmp_path: Path) -> None:
    with closing(hbase_store.open(f"lmdb:{tmp_path}/store", folding=False)) as store:
        world, left = Graph(store, seed), Source(seed, 2)
        p, q = world.nodes[4:]
        patterns = IdPattern({1: p}, {0: "b", 2: "c"}), IdPattern({1: q}, {0: "c", 2: "a"})
        operator = Intersection(("a", "b"), patterns)
        out: list[Entry] = []
        last: int | None = None
        for step in range(60):
            time, sn = step * 10, world.change()
            rows = [(tuple(world.nodes[i - 1] for i in row), w, until) for row, w, until in left.change(time, 5)]
            changes = None if last is None else ChangesBetween(store, last, sn)
            out += entries_of(operator.step(Moment(time, store.at(sn), changes), zset(rows, 2)))
            last = sn
            there = model.alive(left.all, time)
            alive = Counter({tuple(world.nodes[i - 1] for i in row): count for row, count in there.items()})
            after = model.join(alive, matches(patterns[0], world.quads), [1], [0])
            expected = model.join(after, matches(patterns[1], world.quads), [2, 0], [0, 1])
            assert model.alive(out, time) == expected, f"seed {seed}, step {step}"
            once = Intersection(("a", "b"), patterns)
            whole = zset([(row, count, time) for row, count in alive.items()], 2)
            answered = entries_of(once.step(Moment(time, store.at(sn), None, last=True), whole))
            assert model.alive(answered, time) == expected, f"seed {seed}, step {step}, asked once"


def test_keys_in_any_order_and_more_than_once_have_their_degrees(tmp_path: Path) -> None:
    edges = [(f"s{i % 20}", ":k", f"x{i}") for i in range(0, 300, 3)]
    with closing(opened(tmp_path, edges)) as store:
        (k,), subjects = store.ids([f"<{EX}k>".encode()]), [f"s{i % 25}" for i in range(600)]
        keys = store.ids([f"<{EX}{name}>".encode() for name in subjects])
        degrees = store.at().degrees(int(k), keys)
    expected = Counter(s for s, _, _ in edges)
    assert degrees.tolist() == [expected[name] for name in subjects]
