"""A divided query has the answer that it has when one process evaluates it, and that of pyoxigraph."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyoxigraph
import pytest

from hbase_store import Store
from stream_ext.errors import DeadlineExceeded, QueryTooLarge
from stream_ext.evaluation_budget import Control
from stream_ext.language.algebra.algebra import Query
from stream_ext.language.syntax import parse
from stream_ext.network import division as of_networks
from stream_ext.network.division import NotDivided
from stream_ext.network.measuring import bytes_of
from stream_ext.network.operators.groups.grouped import Grouped
from stream_ext.oneshot.answers import answer_once, rows_of
from stream_ext.oneshot.divided import division, task
from stream_ext.oneshot.divided.division import DividedPlan, divided_plan, parts_of
from stream_ext.oneshot.divided.merging import answer_divided
from stream_ext.oneshot.divided.open_stores import close_opened, opened_to_read
from stream_ext.oneshot.divided.task import QueryTask, decoded_result
from stream_ext.oneshot.evaluate import Answer, Asking, moment_of
from stream_ext.oneshot.question import Question
from stream_ext.rows.zset import ZSet
from tests.stream_ext.oneshot.divided.aggregate_queries import PREFIX, RunHere, random_data, random_query
from tests.stream_ext.opened import opened

Rows = list[tuple[bytes | None, ...]]


@contextmanager
def store_of(folder: Path, triples: list[str]) -> Iterator[Store]:
    with opened(folder) as service:
        service.update(f"{PREFIX}INSERT DATA {{ {' '.join(triples)} }}")
    url = f"lmdb:{folder / 'store'}"
    try:
        yield opened_to_read(url)
    finally:
        close_opened(url)


def plan_of(store: Store, text: str) -> DividedPlan:
    query = parse(text, "")
    assert isinstance(query, Query)
    return divided_plan(query, store, int(store.head()))


def by_tasks(store: Store, text: str, lanes: int = 2, control: Control = Control.FREE) -> Answer:
    query, plan = parse(text, ""), plan_of(store, text)
    assert isinstance(query, Query)
    return answer_divided(store, query, plan, int(store.head()), Asking(control=control), RunHere(lanes))


def by_one(store: Store, text: str) -> Rows:
    return rows_of(answer_once(store, Question.read(text, ""), int(store.head()), None))


def compare(folder: Path, seed: int, queries: int, monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    chance, found = random.Random(seed), Counter[str]()
    monkeypatch.setattr(of_networks, "_WORTH", 9.0)  # however little there is to gain
    pieces = chance.choice([1, 3, 10, 50])
    monkeypatch.setattr(division, "PIECE_ROWS", pieces)
    monkeypatch.setattr(task, "PIECE_ROWS", pieces)
    with store_of(folder, random_data(chance, chance.choice([0, 5, 60, 400]))) as store:
        for _ in range(queries):
            text = random_query(chance)
            try:
                plan_of(store, text)
            except NotDivided:
                found["not divided"] += 1
                continue
            divided, whole = rows_of(by_tasks(store, text, chance.choice([1, 2, 5]))), by_one(store, text)
            assert Counter(divided) == Counter(whole), f"seed {seed}: {text}"
            found["divided"] += 1
            found["in order"] += divided == whole
    return found


def test_random_queries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = sum((compare(tmp_path / str(seed), seed, 25, monkeypatch) for seed in range(3)), Counter[str]())
    assert found["divided"] > 40, found
    assert found["in order"] > 0.95 * found["divided"], found


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(100, 160))
def test_many_random_queries(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compare(tmp_path, seed, 60, monkeypatch)


OF_OTHERS = [
    "SELECT ?c (COUNT(*) AS ?n) (SUM(?w) AS ?s) (AVG(?d) AS ?m) { ?k a ?c ; :w ?w ; :d ?d } GROUP BY ?c",
    "SELECT ?c (MIN(?w) AS ?a) (MAX(?d) AS ?z) { ?k a ?c ; :w ?w ; :d ?d FILTER(?w > 3) } GROUP BY ?c",
    "SELECT (COUNT(DISTINCT ?w) AS ?n) (SUM(?d) AS ?s) { ?k :w ?w OPTIONAL { ?k :d ?d } }",
    "SELECT ?w (COUNT(?d) AS ?n) { ?k :w ?w OPTIONAL { ?k :d ?d FILTER(?d > 5) } } GROUP BY ?w HAVING (COUNT(?d) > 2)",
    "SELECT DISTINCT ?w { ?k :w ?w . ?k :q ?o . ?o a :C1 }",
]


@pytest.mark.parametrize("text", OF_OTHERS)
def test_answers_of_another_engine(text: str, tmp_path: Path) -> None:
    triples = random_data(random.Random(7), 600)
    other = pyoxigraph.Store()
    other.update(f"{PREFIX}INSERT DATA {{ {' '.join(triples)} }}")
    with store_of(tmp_path, triples) as store:
        found = Counter(_plain(row) for row in rows_of(by_tasks(store, PREFIX + text)))
    expected = other.query(PREFIX + text)
    assert isinstance(expected, pyoxigraph.QuerySolutions)
    assert found == Counter(
        _plain(tuple(None if each is None else str(each).encode() for each in row)) for row in expected
    )


def _plain(row: tuple[bytes | None, ...]) -> tuple[object, ...]:
    """Numbers by their values: 0.5 and 0.50 are one."""
    return tuple(_value(each) for each in row)


def _value(text: bytes | None) -> object:
    value = (text or b"").decode().split('"')
    return round(float(value[1]), 6) if len(value) > 1 else text


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("SELECT * { ?k :w ?x }", "neither groups nor DISTINCT"),
        ("ASK { ?k :w ?x }", "it is a ASK"),
        ("SELECT (COUNT(?k) AS ?n) (RAND() AS ?r) { ?k :w ?x }", "may differ from task to task"),
        ("SELECT (COUNT(*) AS ?n) { ?k :q+ ?x }", "no triple pattern"),
        ("SELECT (COUNT(*) AS ?n) { { ?k :w ?x } UNION { ?k :d ?x } }", "not made one by one: union"),
        ("SELECT ?x (COUNT(*) AS ?n) { ?k :w ?x OPTIONAL { ?k :d ?y } } GROUP BY ?x LIMIT 3", "LIMIT and OFFSET"),
        (
            "SELECT (SUM(?n) AS ?m) { { SELECT ?x (COUNT(*) AS ?n) "
            "{ ?k :w ?x OPTIONAL { ?k :d ?y } } GROUP BY ?x LIMIT 3 } }",
            "LIMIT and OFFSET",
        ),
    ],
)
def test_what_is_not_divided_says_why(text: str, why: str, tmp_path: Path) -> None:
    with store_of(tmp_path, random_data(random.Random(1), 300)) as store, pytest.raises(NotDivided, match=why):
        plan_of(store, PREFIX + text)


def test_rows_of_a_constant_object_are_divided_in_equal_parts(tmp_path: Path) -> None:
    text = PREFIX + "SELECT ?w (COUNT(*) AS ?n) { ?k a :C1 . ?k :w ?w } GROUP BY ?w"
    with store_of(tmp_path, random_data(random.Random(2), 600)) as store:
        plan = plan_of(store, text)
        assert plan.divided.endswith("in equal parts") or plan.divided.endswith("by ranges of its subjects")
        assert rows_of(by_tasks(store, text, 3)) == by_one(store, text)


def test_errors_of_tasks_are_those_of_a_query(tmp_path: Path) -> None:
    pattern = "{ ?k :w ?x . ?k :d ?y . ?i :d ?z . ?l :d ?u }"
    text = f"{PREFIX}SELECT ?x (COUNT(DISTINCT ?y) AS ?n) (MAX(?z + ?u) AS ?m) {pattern} GROUP BY ?x"
    with store_of(tmp_path, random_data(random.Random(3), 3000)) as store:
        with pytest.raises(QueryTooLarge, match="--query-bytes"):
            by_tasks(store, text, control=Control(bytes_max=1 << 20))
        with pytest.raises(DeadlineExceeded, match="time limit"):
            by_tasks(store, text, control=Control(timeout_s=0.0))


def test_a_store_without_triples_has_its_empty_groups(tmp_path: Path) -> None:
    with store_of(tmp_path, []) as store:
        for text in ("SELECT (COUNT(*) AS ?n) (SUM(?x) AS ?s) (MIN(?x) AS ?m) { ?k :w ?x . ?k :d ?y }",):
            try:
                found = rows_of(by_tasks(store, PREFIX + text))
            except NotDivided:
                continue
            assert found == by_one(store, PREFIX + text)


@pytest.mark.parametrize("rest", ["", "FILTER(?o != 7)", "BIND(1 AS ?z)"])
def test_limit_over_distinct_rows_has_each_row_once(rest: str, tmp_path: Path) -> None:
    """The pattern is read piece by piece until there are enough rows; a row that comes of several pieces is one."""
    triples = [f":s{i} :w {i % 3} ." for i in range(3000)]
    with store_of(tmp_path, triples) as store:
        found = by_one(store, f"{PREFIX}SELECT ?o {{ {{ SELECT DISTINCT ?o {{ ?s :w ?o }} }} {rest} }} LIMIT 10")
        assert len(found) == len(set(found)) == 3


class RunMeanwhile(RunHere):
    """Something happens after the first task."""

    def __init__(self, then: Callable[[], object]) -> None:
        super().__init__()
        self._then = then

    def run(self, tasks: Sequence[QueryTask], control: Control) -> Generator[bytes, None, None]:
        assert len(tasks) > 1
        for place, result in enumerate(super().run(tasks, control)):
            yield result
            if place == 0:
                self._then()


@pytest.mark.parametrize(
    "text",
    [
        "SELECT ?t (COUNT(*) AS ?n) { ?k :w ?x BIND(CONCAT('g', STR(?x)) AS ?t) } GROUP BY ?t ORDER BY ?t",
        "SELECT DISTINCT ?t { ?k :w ?x BIND(CONCAT('g', STR(?x)) AS ?t) } ORDER BY ?t",
        "SELECT (COUNT(DISTINCT ?t) AS ?n) (MAX(?t) AS ?m) { ?k :w ?x BIND(CONCAT('g', STR(?x)) AS ?t) }",
    ],
)
def test_a_term_that_the_store_learns_between_two_tasks_is_one_term(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some tasks find it in the store and others do not, and so does whoever adds up their results."""
    monkeypatch.setattr(of_networks, "_WORTH", 9.0)
    monkeypatch.setattr(division, "PIECE_ROWS", 10)
    with opened(tmp_path) as service:
        service.update(f"{PREFIX}INSERT DATA {{ {' '.join(f':s{i} :w {i % 3} .' for i in range(100))} }}")
        store = service.store
        monkeypatch.setattr(task, "opened_to_read", lambda url, snapshot: store)
        query, sn, expected = parse(PREFIX + text, ""), int(store.head()), by_one(store, PREFIX + text)
        assert isinstance(query, Query)
        jobs = RunMeanwhile(lambda: service.update(f"{PREFIX}INSERT DATA {{ :a :b 'g0', 'g1' }}"))
        answer = answer_divided(store, query, divided_plan(query, store, sn), sn, Asking(), jobs)
        assert rows_of(answer) == expected


@pytest.mark.parametrize(
    "text",
    [
        "SELECT (COUNT(DISTINCT ?k) AS ?n) { ?k :w ?x }",
        "SELECT (GROUP_CONCAT(?k) AS ?n) { ?k :w ?x }",
        "SELECT DISTINCT ?k { ?k :w ?x }",
    ],
)
def test_what_comes_piece_by_piece_counts_together(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The memory of a query is that of all values that are told apart, here, and in each task."""
    monkeypatch.setattr(of_networks, "_WORTH", 9.0)
    monkeypatch.setattr(division, "PIECE_ROWS", 50)
    with store_of(tmp_path, [f":s{i} :w {i % 3} ." for i in range(4000)]) as store:
        query, control = parse(PREFIX + text, ""), Control(bytes_max=4000)
        assert isinstance(query, Query)
        plan = plan_of(store, PREFIX + text)
        first = parts_of(plan, store.at(store.head()), 2)[0]
        of_one = QueryTask(
            f"lmdb:{tmp_path / 'store'}", int(store.head()), plan.network, plan.division, first, "", 0, None, 4000, 1000
        )
        fault = decoded_result(task.evaluated(of_one))
        assert isinstance(fault, task.TaskFault) and fault.error == "QueryTooLarge"
        free = replace(of_one, bytes_max=None)
        assert not isinstance(decoded_result(task.evaluated(free)), task.TaskFault)
        with pytest.raises(QueryTooLarge, match="--query-bytes"):
            answer_divided(store, query, plan, int(store.head()), Asking(control=control), WithoutLimit())


class WithoutLimit(RunHere):
    """Each task has all the memory that it wants."""

    def run(self, tasks: Sequence[QueryTask], control: Control) -> Generator[bytes, None, None]:
        yield from super().run([replace(each, bytes_max=None) for each in tasks], control)


def test_rows_that_are_found_again_and_again_do_not_add_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(of_networks, "_WORTH", 9.0)
    monkeypatch.setattr(division, "PIECE_ROWS", 50)
    text = f"{PREFIX}SELECT DISTINCT ?x {{ ?k :w ?x }}"
    with store_of(tmp_path, [f":s{i} :w {i % 30} ." for i in range(4000)]) as store:
        assert rows_of(by_tasks(store, text, 1, Control(bytes_max=2500))) == by_one(store, text)


def test_a_group_does_not_grow_with_the_rows_that_it_counts(tmp_path: Path) -> None:
    with store_of(tmp_path, random_data(random.Random(1), 600)) as store:
        plan = plan_of(store, f"{PREFIX}SELECT ?k (COUNT(DISTINCT ?x) AS ?n) {{ ?k :w ?x }} GROUP BY ?k")
        moment = moment_of(store, store.at(store.head()), Asking(), None)
        merge = plan.network.stages[plan.division.merge].operator
        assert isinstance(merge, Grouped)
        group, rows = merge.new(moment), ZSet(tuple(np.array([5], np.uint64) for _ in range(2)), 1)
        sizes = []
        for _ in range(100):
            group.count(moment, rows)
            sizes.append(bytes_of([group]))
        assert sizes[0] == sizes[-1]
