"""Texts as long as they may be: read and planned in time that grows with their length, or refused by a limit."""

from __future__ import annotations

import gc
import random
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import cast
from weakref import ref

import pytest

import hbase_store
from stream_ext.errors import DeadlineExceeded, QuerySyntaxError, QueryTooLarge
from stream_ext.evaluation_budget import Control
from stream_ext.language.algebra.algebra import Query, Register, Values
from stream_ext.language.syntax import parse
from stream_ext.language.syntax.cursor import EXPANDED_MAX, OPERANDS_MAX, PARTS_MAX, VARIABLE_MAX
from stream_ext.network.inputs import NetworkInputs
from stream_ext.network.network import Network
from stream_ext.oneshot.question import Question, Questions
from stream_ext.plan.logic import Logic, Names, traits_of
from stream_ext.plan.passes.join_order import ranked
from stream_ext.plan.pipeline import logic_of
from stream_ext.rdf.reading import deadline
from stream_ext.windows.scheduled_window import ScheduledWindow
from stream_ext.writer.registration import read_registration
from tests.stream_ext.opened import opened

BASE = "http://base/"
LONG = f"http://e/{'a' * 500_000}"


def many(head: str, part: Callable[[int], str], tail: str, characters: int) -> str:
    return head + "".join(part(n) for n in range(characters // len(part(1_000)))) + tail


#: Of each construct a text of any length.
CONSTRUCTS: dict[str, Callable[[int], str]] = {
    "values": lambda size: many("SELECT * { VALUES ?x {", lambda n: f"{n} ", "} }", size),
    "rows": lambda size: many("SELECT * { VALUES (?x ?y) {", lambda n: f"(<a:{n}> {n})", "} }", size),
    "in": lambda size: many("ASK { FILTER(?x IN (1", lambda n: f",{n}", ")) }", size),
    "or": lambda size: many("ASK { FILTER(?x", lambda n: f"||?x={n}", ") }", size),
    "data": lambda size: many("PREFIX : <a:> INSERT DATA {", lambda n: f":s :p {n}.", "}", size),
    "template": lambda size: many("CONSTRUCT {", lambda n: f"?s ?p {n}.", "} { ?s ?p ?o }", size),
    "operations": lambda size: many("", lambda n: f"DELETE WHERE {{ ?s ?p {n} }};", "", size),
    "prefixes": lambda size: many("", lambda n: f"PREFIX p{n}: <a:>", "ASK {}", size),
    "dotted words": lambda size: many("ASK {", lambda n: "a.a", "}", size),
    "dots": lambda size: "ASK { _:a" + "." * size,
    "escapes": lambda size: many("ASK { ", lambda n: "?\\u0041 ", "}", size),
    "strings": lambda size: many("ASK { ?s ?p ", lambda n: '"', "}", size),
    "less than": lambda size: many("ASK { ?s ?p ", lambda n: "<a", "}", size),
    "brackets": lambda size: "ASK { ?s ?p " + "[" * size,
    "negations": lambda size: "ASK { FILTER(" + "!" * size + "?x) }",
    "comments": lambda size: "ASK {" + "#a\n" * (size // 3) + "}",
}


@pytest.mark.parametrize("construct", CONSTRUCTS)
def test_reading_takes_time_that_grows_with_the_length(construct: str) -> None:
    def took_s(size: int) -> float:
        text, start = CONSTRUCTS[construct](size), time.thread_time()
        with suppress(QuerySyntaxError):
            parse(text, BASE)
        return time.thread_time() - start

    few_s = min(took_s(4_000) for _ in range(3))
    # Sixteen times as long; the square would be 256 times. One of three: a collection of garbage takes its time, too.
    assert any(took_s(64_000) < 100 * few_s + 0.1 for _ in range(3))


@pytest.mark.parametrize(
    "text",
    [
        many("ASK {", lambda n: f"?s{n} ?p ?o.", "}", 400_000),
        many("ASK {", lambda n: f"{{ ?s ?p {n} }}", "}", 400_000),
        many("ASK { {}", lambda n: "UNION {}", "}", 400_000),
        many("ASK {", lambda n: "OPTIONAL {}", "}", 400_000),
        many("ASK {", lambda n: f"VALUES ?x {{ {n} }}", "}", 400_000),
        many("ASK {", lambda n: "FILTER(?x)", "}", 400_000),
        many("ASK { ?s <a:a>", lambda n: "/<a:a>", " ?o }", 400_000),
        many("ASK { ?s <a:a>", lambda n: "|^<a:a>", " ?o }", 400_000),
        many("ASK {", lambda n: f"?s <a:a>* ?o{n}.", "}", 400_000),
        many("SELECT ", lambda n: f"(1 AS ?a{n})", "{}", 400_000),
        many("SELECT * {} ORDER BY ", lambda n: f"?a{n} ", "", 400_000),
        many("SELECT (1 AS ?x) {} GROUP BY ", lambda n: f"?a{n} ", "", 400_000),
        many("DELETE WHERE {", lambda n: f"?s{n} ?p ?o.", "}", 400_000),
        "ASK { ?s ?p (" + "1 " * PARTS_MAX + ") }",
    ],
)
def test_a_text_has_so_many_parts_at_most(text: str) -> None:
    with pytest.raises(QuerySyntaxError, match=rf"more than {PARTS_MAX} triple patterns, steps of paths, groups and"):
        parse(text, BASE)


def test_expressions_have_so_many_operands_at_most() -> None:
    with pytest.raises(QuerySyntaxError, match=rf"more than {OPERANDS_MAX} operands: put values .* into VALUES"):
        parse("ASK { FILTER(?x IN (" + "1," * OPERANDS_MAX + "1)) }", BASE)


@pytest.mark.parametrize(
    "text",
    [
        f"PREFIX e: <{LONG}> SELECT * {{ VALUES ?x {{ {' '.join(f'e:{n}' for n in range(9_999))} }} }}",
        f"PREFIX e: <{LONG}> INSERT DATA {{ {' . '.join(f'e:{n} e:a 1' for n in range(9_999))} }}",
        f"""PREFIX e: <{LONG}> SELECT * {{ VALUES ?x {{ {'""^^e:x ' * 9_999} }} }}""",
        f"BASE <{LONG}/> SELECT * {{ VALUES ?x {{ {' '.join(f'<../{n}>' for n in range(9_999))} }} }}",
        "BASE <http://e/>" + "BASE <a/>" * 99_999 + "ASK {}",
    ],
)
def test_what_prefixes_and_bases_expand_to_is_counted(text: str) -> None:
    with pytest.raises(QuerySyntaxError, match=f"have more than {EXPANDED_MAX} characters: shorten the prefix"):
        parse(text, BASE)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT ?{0} {{ }}",
        "SELECT (1 AS ?{0}) {{ }}",
        "SELECT * {{ ?{0} ?p ?o }}",
        "SELECT * {{ BIND (1 AS ?{0}) }}",
        "SELECT * {{ VALUES ?{0} {{ 1 }} }}",
        "SELECT * {{ VALUES (?{0}) {{ (1) }} }}",
        "SELECT * {{ GRAPH ?{0} {{ ?s ?p ?o }} }}",
        "SELECT (COUNT(*) AS ?n) {{ }} GROUP BY (1 AS ?{0})",
        "DELETE {{ GRAPH ?{0} {{ ?s ?p ?o }} }} WHERE {{ GRAPH ?{0} {{ ?s ?p ?o }} }}",
    ],
)
def test_a_name_that_each_row_repeats_is_short(text: str) -> None:
    parse(text.format("v" * VARIABLE_MAX), BASE)
    with pytest.raises(QuerySyntaxError, match="the name of a variable has at most"):
        parse(text.format("v" * (VARIABLE_MAX + 1)), BASE)


def test_one_spelling_of_a_long_iri_is_expanded_once() -> None:
    read = parse(f"PREFIX e: <{LONG}> SELECT * {{ VALUES ?x {{ {'e:x ' * 9_999} }} }}", BASE)
    assert isinstance(read, Query)
    assert isinstance(read.pattern, Values)
    assert len(read.pattern.rows) == 9_999


@pytest.mark.parametrize("construct", ["values", "rows", "data", "template"])
def test_the_garbage_collector_has_little_to_look_through(construct: str) -> None:
    """While it does nobody else runs: a table of 400,000 values held all others for 80 ms."""
    text, read = CONSTRUCTS[construct](400_000), []
    gc.collect()
    before = len(gc.get_objects())
    read.append(parse(text, BASE))
    gc.collect()
    assert len(gc.get_objects()) - before < 1_000


def test_reading_ends_at_its_deadline() -> None:
    text, clock = CONSTRUCTS["values"](500_000), count()
    with pytest.raises(DeadlineExceeded, match=r"reading the text took longer than 9 s"):
        parse(text, BASE, deadline(9, "reading the text", lambda: next(clock)))
    # All along: while the tokens are found, and when they are read.
    looks: list[None] = []
    parse(text, BASE, lambda: looks.append(None))
    assert len(looks) > 50


def test_a_long_text_is_not_retained_when_its_request_has_ended() -> None:
    questions = Questions()
    first = questions.read(CONSTRUCTS["values"](50_000), BASE)
    gone = ref(first.unit)
    del first
    gc.collect()
    assert gone() is None
    assert not len(questions)


def test_plans_of_long_texts_end_with_who_asked(tmp_path: Path) -> None:
    with closing(hbase_store.open(f"lmdb:{tmp_path}/store")) as store:
        questions = Questions()
        long, short = questions.read(CONSTRUCTS["values"](50_000), BASE), questions.read("ASK { ?s ?p ?o }", BASE)
        networks = [ref(each.network(store.at(store.head()), store.permanent_ids)) for each in (long, short)]
        assert long.is_planned and short.is_planned
        del long
        gc.collect()
        assert [network() is None for network in networks] == [True, False]
        assert questions.read("ASK { ?s ?p ?o }", BASE) is short
        assert len(questions) == 1


def _each(part: Callable[[int], str], count: int) -> str:
    return "".join(map(part, range(count)))


#: Of each shape a query of so many parts, which all have columns of their own.
SHAPES: dict[str, Callable[[int], str]] = {
    "star": lambda n: f"SELECT * {{ {_each(lambda i: f'?s <a:{i}> ?o{i}.', n)} }}",
    "chain": lambda n: f"SELECT * {{ {_each(lambda i: f'?o{i} <a:p> ?o{i + 1}.', n)} }}",
    "ring": lambda n: f"ASK {{ {_each(lambda i: f'?o{i} <a:p> ?o{(i + 1) % n}.', n)} }}",
    "path": lambda n: f"ASK {{ ?s <a:p>{'/<a:p>' * n} ?o }}",
    "conditions": lambda n: f"SELECT * {{ {_each(lambda i: f'?s <a:{i}> ?o{i} FILTER(?o{i} > ?s)', n // 2)} }}",
    "unions": lambda n: f"SELECT * {{ {{}} {_each(lambda i: f'UNION {{ ?s <a:{i}> ?o{i} }}', n // 2)} }}",
    "optionals": lambda n: f"SELECT * {{ {_optionals(n // 450)} }}",
    "values": lambda n: f"ASK {{ ?s ?p ?o {_each(lambda i: f'VALUES ?x{i} {{ {i} }}', n)} }}",
    "aggregates": lambda n: f"SELECT {_each(lambda i: f'(SUM(?o + {i}) AS ?b{i})', n)} {{ ?s ?p ?o }}",
    "nested": lambda n: f"SELECT * {{ {_nested(n // 90, 90)} }}",
    "windows": lambda n: (
        "REGISTER QUERY q AS SELECT * FROM NAMED WINDOW <w> ON <s> [RANGE 1s STEP 1s] "
        f"{{ WINDOW <w> {{ {_each(lambda i: f'?s <a:{i}> ?o{i}.', n)} }} }}"
    ),
}


def _optionals(groups: int) -> str:
    """Groups that are lifted above one another."""
    return _each(lambda g: "{ ?s ?p ?o " + _each(lambda i: f"OPTIONAL {{ ?s <a:{i}> ?o{g}x{i} }}", 150) + "}", groups)


def _nested(patterns: int, depth: int) -> str:
    """Groups one inside the other, none of which may be joined with the one around it."""
    if not depth:
        return ""
    here = _each(lambda i: f"?s <a:{i}> ?o{depth}x{i}.", patterns - 2)
    return f"{{ {here} FILTER(!BOUND(?o{depth + 1}x0)) {_nested(patterns, depth - 1)} }}"


class _Windows(dict[str, ScheduledWindow]):
    def __missing__(self, name: str) -> ScheduledWindow:
        return ScheduledWindow(name, 1, 1_000, 1_000, t0_ms=0)


def _query(text: str) -> Query:
    unit = parse(text, BASE)
    return unit.query if isinstance(unit, Register) else cast(Query, unit)


def _planning_s(store: hbase_store.Store, shape: str, parts: int) -> Iterator[float]:
    """Three times, each measured when it is needed: what the collector looks through, and other processes, make some
    of them longer."""
    query = _query(SHAPES[shape](parts))
    gc.collect()
    for _ in range(3):
        start = time.thread_time()
        Network.of_query(logic_of(query), NetworkInputs(store.at(store.head()), store.permanent_ids, _Windows()))
        yield time.thread_time() - start


@pytest.mark.parametrize("shape", SHAPES)
def test_planning_takes_time_that_grows_with_the_parts(shape: str, tmp_path: Path) -> None:
    with closing(hbase_store.open(f"lmdb:{tmp_path}/store")) as store:
        few_s = min(_planning_s(store, shape, 250))
        # Eight times as many; the square would be 64 times.
        assert any(took_s < 30 * few_s + 0.75 for took_s in _planning_s(store, shape, 2_000))


@pytest.mark.parametrize("shape", ["star", "chain", "windows"])
def test_as_many_parts_as_there_may_be_are_planned_soon(shape: str, tmp_path: Path) -> None:
    with closing(hbase_store.open(f"lmdb:{tmp_path}/store")) as store:
        query, start = _query(SHAPES[shape](PARTS_MAX - 10)), time.thread_time()
        Network.of_query(logic_of(query), NetworkInputs(store.at(store.head()), store.permanent_ids, _Windows()))
        assert time.thread_time() - start < 30, "it took minutes, and all memory"


def test_groups_inside_of_one_another_are_estimated_once(tmp_path: Path) -> None:
    """None of them may be joined with what is around it: each doubled the time."""
    text = "{ ?s <a:p> ?z }"
    for n in range(28):
        apart = f"{{ ?s <a:q> ?x{n} {text} OPTIONAL {{ ?s <a:r> ?z{n} }} FILTER(!BOUND(?z{n})) }}"
        text = f"{{ ?s <a:p> ?z . {apart} ?s <a:r> ?z{n} }}"
    with closing(hbase_store.open(f"lmdb:{tmp_path}/store")) as store:
        start = time.thread_time()
        Network.of_query(
            logic_of(_query(f"SELECT * {text}")), NetworkInputs(store.at(store.head()), store.permanent_ids)
        )
        assert time.thread_time() - start < 10, "it would take a day"


def test_optionals_of_several_groups_are_lifted_no_deeper_than_a_text_may_be() -> None:
    assert traits_of(logic_of(_query(f"SELECT * {{ {_optionals(10)} }}"))).depth < 300


def test_triple_patterns_in_many_windows_are_counted() -> None:
    windows = _each(lambda n: f"FROM STREAM <http://e/{n}> [RANGE 1s STEP 1s] ", 1_000)
    with pytest.raises(
        QueryTooLarge,
        match="the query has more than 100000 triple patterns, each counted once for every window and graph",
    ):
        logic_of(_query(f"REGISTER QUERY q AS SELECT * {windows} {{ {_each(lambda n: f'?s <a:{n}> ?o.', 1_000)} }}"))


class _Late:
    """Whoever waits has gone after so many looks."""

    def __init__(self, looks: int) -> None:
        self.left = looks

    def check(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise DeadlineExceeded("nobody waits any more")


@pytest.mark.parametrize("shape", SHAPES)
def test_planning_looks_again_and_again_whether_anybody_waits(shape: str, tmp_path: Path) -> None:
    with closing(hbase_store.open(f"lmdb:{tmp_path}/store")) as store:
        query, looks = _query(SHAPES[shape](600)), _Late(1 << 60)

        def plan(check: Callable[[], None]) -> None:
            select = logic_of(query, check=check)
            Network.of_query(select, NetworkInputs(store.at(store.head()), store.permanent_ids, _Windows(), check))

        plan(looks.check)
        used = (1 << 60) - looks.left
        assert used > 50
        for some in (0, used // 4, used // 2, used - 1):
            with pytest.raises(DeadlineExceeded, match="nobody waits"):
                plan(_Late(some).check)


def test_a_question_that_takes_long_to_plan_ends_at_its_deadline(tmp_path: Path) -> None:
    with opened(tmp_path) as service:
        ticks = count()
        for text in (SHAPES["star"](600), SHAPES["star"](600).replace("SELECT *", "CONSTRUCT { ?s ?s ?s }")):
            control = Control(100, clock=lambda: next(ticks))
            with pytest.raises(DeadlineExceeded, match="the query took longer than its time limit of 100 s"):
                service.query(text, control=control)
            control = Control(100, clock=lambda: next(ticks))
            with pytest.raises(DeadlineExceeded, match="the query took longer than its time limit of 100 s"):
                service.rows_expected(text, 0, None, None, control)
        assert service.query("ASK {}").boolean


def test_a_registration_that_takes_long_to_plan_ends_at_its_deadline() -> None:
    text = f"REGISTER QUERY q AS {SHAPES['star'](600)}"
    parsed, planned = _Late(1 << 60), _Late(1 << 60)
    parse(text, BASE, parsed.check)
    read_registration(Question.read(text, BASE, planned.check), None, 1, planned.check)
    assert parsed.left - planned.left > 500, "it is looked at while it is planned, too"
    late = _Late((1 << 60) - planned.left - 1)
    question = Question.read(text, BASE, late.check)
    with pytest.raises(DeadlineExceeded, match="nobody waits"):
        read_registration(question, None, 1, late.check)


# ---- the order of joins ----------------------------------------------------------------------------------------


def _ranked_naively(items: list[Logic], bound: Names, rank: Callable[[Logic, Names], tuple[float, ...]]) -> list[Logic]:
    left, found = list(items), []
    while left:
        best = min(left, key=lambda item: rank(item, bound))
        left = [item for item in left if item is not best]
        found.append(best)
        bound |= best.certain
    return found


def test_parts_are_ranked_as_if_all_were_looked_at_for_each() -> None:
    draw = random.Random(5)
    for _ in range(200):
        names = [f"v{n}" for n in range(draw.randrange(1, 8))]
        items = cast(
            "list[Logic]", [_part(frozenset(draw.sample(names, draw.randrange(len(names))))) for _ in range(12)]
        )
        costs = {id(item): [draw.randrange(5) for _ in range(len(names) + 1)] for item in items}

        def rank(item: Logic, bound: Names, costs: dict[int, list[int]] = costs) -> tuple[float, ...]:
            known = item.variables & bound
            return not known, costs[id(item)][len(known)]

        start = frozenset(draw.sample(names, draw.randrange(len(names))))
        found = list(ranked(items, start, rank))
        assert [id(item) for item, _ in found] == [id(item) for item in _ranked_naively(items, start, rank)]
        first, before = found[0]
        assert before == start & first.variables


def _part(variables: Names) -> SimpleNamespace:
    return SimpleNamespace(variables=variables, certain=variables)
