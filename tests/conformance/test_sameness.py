"""The comparison that every conformance test rests on: blank nodes may change their names, and nothing else may."""

from __future__ import annotations

import random

import pytest

from tests.conformance.sameness import Row, same

A, B, C = b"_:a", b"_:b", b"_:c"
P, Q = b"<http://ex/p>", b"<http://ex/q>"


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ([], []),
        ([(P, None)], [(P, None)]),
        ([(A, P), (A, Q)], [(B, Q), (B, P)]),
        ([(A, P, B), (B, P, C), (C, P, A)], [(C, P, B), (B, P, A), (A, P, C)]),
        ([(A, A), (B, B)], [(C, C), (B, B)]),
        ([(P,), (P,)], [(P,), (P,)]),
    ],
)
def test_tables_that_say_the_same(left: list[Row], right: list[Row]) -> None:
    assert same(left, right)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ([(P,)], []),
        ([(P,), (P,)], [(P,), (Q,)]),
        ([(P,), (P,), (Q,)], [(P,), (Q,), (Q,)]),
        ([(None,)], [(P,)]),
        ([(None, P)], [(P, None)]),
        ([(A, P), (A, Q)], [(A, P), (B, Q)]),
        ([(A, A)], [(A, B)]),
        ([(A, A), (B, C)], [(A, B), (A, C)]),
        # Two triangles are no hexagon, though every node looks like every other.
        (
            [(b"_:%d" % i, b"_:%d" % (i // 3 * 3 + (i + 1) % 3)) for i in range(6)],
            [(b"_:%d" % i, b"_:%d" % ((i + 1) % 6)) for i in range(6)],
        ),
    ],
)
def test_tables_that_do_not(left: list[Row], right: list[Row]) -> None:
    assert not same(left, right)
    assert not same(right, left)


def test_the_order_counts_where_it_is_asked_for() -> None:
    assert same([(A, P), (B, Q)], [(B, P), (A, Q)], ordered=True)
    assert not same([(P,), (Q,)], [(Q,), (P,)], ordered=True)
    assert same([(P,), (Q,)], [(Q,), (P,)])


@pytest.mark.parametrize("seed", range(50))
def test_a_graph_is_the_same_as_itself_renamed_and_differs_once_an_edge_is_moved(seed: int) -> None:
    chance = random.Random(seed)
    nodes = [b"_:n%d" % i for i in range(8)]
    graph = sorted({(chance.choice(nodes), chance.choice([P, Q]), chance.choice(nodes)) for _ in range(14)})
    names = dict(zip(nodes, chance.sample([b"_:m%d" % i for i in range(8)], 8), strict=True))
    renamed = [(names[s], p, names[o]) for s, p, o in graph]
    chance.shuffle(renamed)
    assert same(graph, renamed)
    s, p, o = renamed[0]
    assert not same(graph, [*renamed[1:], (s, Q if p == P else P, o)])
