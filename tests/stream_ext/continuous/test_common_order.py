"""Queries join the same parts in the same order, however they are written, and so share these joins."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from itertools import permutations
from pathlib import Path

import pytest

import hbase_store
from hbase_store import Store
from stream_ext.language.algebra.terms import Constant, Variable
from stream_ext.network.operators.joins.many_join import ManyJoin
from stream_ext.plan.leaves import GraphScope, PatternScan
from stream_ext.plan.logic import Logic, Names
from stream_ext.plan.passes.join_order import order_items
from tests.stream_ext.continuous.test_shared_stages import Scenery, _stages_of
from tests.stream_ext.scene import EX, Change


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = hbase_store.open(f"lmdb:{tmp_path / 'store'}")
    yield opened
    opened.close()


def shared_by(both: Scenery, kind: str) -> list[int]:
    """By how many queries each operator of this kind is shared."""
    return [stage.readers for stage in _stages_of(both.sharing) if type(stage.operator).__name__ == kind]


@pytest.mark.parametrize(
    ("patterns", "kind"),
    [
        (("?{0} :p ?{1}", "?{1} :q ?{2}"), "JoinOperator"),
        (("?{0} :p ?{1}", "?{1} :q ?{2}", "?{2} :r ?{0}"), "ManyJoin"),
    ],
)
def test_patterns_in_any_order_have_one_join(patterns: Sequence[str], kind: str, store: Store) -> None:
    both, names = Scenery(store, 40), ("abc", "xyz", "stu", "ijk", "lmn", "def")
    orders = list(permutations(patterns))
    for order, called in zip(orders, names, strict=False):
        both.register(" . ".join(pattern.format(*called) for pattern in order))
    for time in range(5, 85, 10):
        both.push(time, f"a p b{time}", f"b{time} q c", f"b{time - 10} q d", "c r a", "d r a")
    assert shared_by(both, kind) == [len(orders)]


def test_joins_with_the_store_that_cost_nearly_the_same_have_one_order(store: Store) -> None:
    """Even if the counts have changed between the registrations."""
    both = Scenery(store, 40)

    def store_more(predicate: str, count: int, begin: int) -> None:
        added = tuple((f"<{EX}b>", f"<{EX}{predicate}>", f"<{EX}v{n}>") for n in range(begin, begin + count))
        both._step(int(both._registry.player.play(Change(tuple((triple, None) for triple in added), ()))))

    store_more("k", 10, 0)
    store_more("m", 11, 0)
    both.register("?a :p ?b } ?b :k ?k . ?b :m ?m } #")
    store_more("k", 2, 10)
    both.register("?x :p ?y } ?y :m ?n . ?y :k ?l } #")
    for time in range(5, 45, 10):
        both.push(time, "a p b")
    assert shared_by(both, "StoreJoin") == [2, 2]
    store_more("k", 50, 12)
    both.register("?x :p ?y } ?y :k ?l . ?y :m ?n } #")
    for time in range(45, 85, 10):
        both.push(time, "a p b")
    assert shared_by(both, "StoreJoin") == [2, 2], "what costs much more comes later"


def test_what_is_about_a_condition_comes_first(store: Store) -> None:
    """Before the join fewer rows are tested."""
    both = Scenery(store, 40)
    both.register("?a :p ?b . ?b :v ?v FILTER(?v > 3)")
    both.register("?x :p ?y . ?y :v ?w FILTER(?w > 3)")
    for time in range(5, 65, 10):
        both.push(time, "a p b", f"b v {time % 7}")
    assert shared_by(both, "FilterOperator") == [2]
    assert shared_by(both, "JoinOperator") == [2]
    stages = {type(stage.operator).__name__: stage for stage in _stages_of(both.sharing)}
    assert stages["FilterOperator"] in stages["JoinOperator"].inputs


def test_a_shared_join_of_many_goes_on_changing_its_order(store: Store) -> None:
    both = Scenery(store, 40)
    both.register("?a :p ?b . ?b :q ?c . ?b :r ?d")
    both.register("?y :r ?w . ?y :q ?z . ?x :p ?y")
    orders = set[tuple[int, ...]]()

    def push(first: int, last: int, many: str, few: str) -> None:
        for time in range(first, last, 10):
            both.push(time, "a p b", *(f"b {many} v{time}n{n}" for n in range(30)), f"b {few} c")
            found = [stage.operator for stage in _stages_of(both.sharing) if isinstance(stage.operator, ManyJoin)]
            orders.update(tuple(join.order(0)) for join in found)

    push(5, 305, "q", "r")
    push(305, 605, "r", "q")
    assert shared_by(both, "ManyJoin") == [2]
    assert orders == {(1, 2), (2, 1)}


def scan(predicate: str, *names: str) -> PatternScan:
    subject, object = (Variable(name) for name in names)
    return PatternScan(subject, Constant(f"<{EX}{predicate}>".encode()), object, GraphScope(), None)


def test_of_nearly_equal_parts_the_first_one_comes_next_and_cheaper_ones_before_it() -> None:
    chance, parts = random.Random(1), [scan(name, "x", name) for name in "abcdef"]
    for _ in range(100):
        rows = {part: chance.choice((1.0, 1.2, 1.25, 2.0, 9.0)) for part in parts}

        def estimate(item: Logic, bound: Names, rows: dict[PatternScan, float] = rows) -> float:
            assert isinstance(item, PatternScan)
            return rows[item]

        found = order_items(parts, frozenset("x"), estimate, near=1.3)
        left = list(parts)
        for part in found:
            assert isinstance(part, PatternScan)
            least = min(rows[each] for each in left)
            assert part == next(each for each in left if rows[each] <= 1.3 * least)
            left.remove(part)
