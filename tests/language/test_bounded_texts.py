"""Texts as long as they may be: read and planned in time that grows with their length, or refused by a limit."""

from __future__ import annotations

import gc
import random
import time
from collections.abc import Callable
from contextlib import closing, suppress
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import cast
from weakref import ref

import pytest

import hbase_store
from stream_ext.errors import DeadlineExceeded, QuerySyntaxError
from stream_ext.network import Network
from stream_ext.plan.algebra import Query, Values
from stream_ext.plan.logic import Logic, Names
from stream_ext.plan.order import ranked
from stream_ext.plan.pipeline import logic_of
from stream_ext.plans import Plans
from stream_ext.rdf.reading import deadline
from stream_ext.syntax import parse, parse_again
from stream_ext.syntax.cursor import EXPANDED_MAX, OPERANDS_MAX, PARTS_MAX, VARIABLE_MAX

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

    def least_s(size: int) -> float:  # of three: a collection of garbage takes its time somewhere
        return min(took_s(size) for _ in range(3))

    # Sixteen times as long; the square would be 256 times.
    assert least_s(64_000) < 100 * least_s(4_000) + 0.1


@pytest.mark.parametrize(
    "text",
    [
        many("ASK {", lambda n: f"?s{n} ?p ?o.", "}", 99_999),
        many("ASK {", lambda n: f"{{ ?s ?p {n} }}", "}", 99_999),
        many("ASK { {}", lambda n: "UNION {}", "}", 99_999),
        many("ASK {", lambda n: "OPTIONAL {}", "}", 99_999),
        many("ASK {", lambda n: f"VALUES ?x {{ {n} }}", "}", 99_999),
        many("ASK {", lambda n: "FILTER(?x)", "}", 99_999),
        many("ASK { ?s <a:a>", lambda n: "/<a:a>", " ?o }", 99_999),
        many("ASK { ?s <a:a>", lambda n: "|^<a:a>", " ?o }", 99_999),
        many("ASK {", lambda n: f"?s <a:a>* ?o{n}.", "}", 99_999),
        many("SELECT ", lambda n: f"(1 AS ?a{n})", "{}", 99_999),
        many("SELECT * {} ORDER BY ", lambda n: f"?a{n} ", "", 99_999),
        many("SELECT (1 AS ?x) {} GROUP BY ", lambda n: f"?a{n} ", "", 99_999),
        many("DELETE WHERE {", lambda n: f"?s{n} ?p ?o.", "}", 99_999),
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
    parse_again(text.format("v" * VARIABLE_MAX), BASE)
    with pytest.raises(QuerySyntaxError, match="the name of a variable has at most"):
        parse_again(text.format("v" * (VARIABLE_MAX + 1)), BASE)


def test_one_spelling_of_a_long_iri_is_expanded_once() -> None:
    read = parse(f"PREFIX e: <{LONG}> SELECT * {{ VALUES ?x {{ {'e:x ' * 9_999} }} }}", BASE)
    assert isinstance(read, Query)
    assert isinstance(read.pattern, Values)
    assert len(read.pattern.rows) == 9_999


def test_reading_ends_at_its_deadline() -> None:
    text, clock = CONSTRUCTS["values"](500_000), count()
    with pytest.raises(DeadlineExceeded, match=r"reading the text took longer than 9 s"):
        parse(text, BASE, deadline(9, "reading the text", lambda: next(clock)))
    # All along: while the tokens are found, and when they are read.
    looks: list[None] = []
    parse(text, BASE, lambda: looks.append(None))
    assert len(looks) > 50


def test_a_long_text_is_read_once_while_somebody_holds_what_it_means() -> None:
    text = CONSTRUCTS["values"](50_000)
    first = parse_again(text, BASE)
    assert parse_again(text, BASE) is first
    gone = ref(first)
    del first
    gc.collect()
    assert gone() is None


def test_plans_of_long_texts_end_with_who_asked(tmp_path: Path) -> None:
    with closing(hbase_store.open(f"lmdb:{tmp_path}/store")) as store:
        plans = Plans()
        long = cast(Query, parse_again(CONSTRUCTS["values"](50_000), BASE))
        short = cast(Query, parse_again("ASK { ?s ?p ?o }", BASE))
        for each in (long, short):
            plans.network(each, store.at(store.head()), store.permanent_ids)
            assert plans.has(each)
        del long, each
        gc.collect()
        assert plans.has(short)
        assert len(plans) == 1


def test_many_patterns_are_planned_soon(tmp_path: Path) -> None:
    with closing(hbase_store.open(f"lmdb:{tmp_path}/store")) as store:
        start = time.thread_time()
        for text in (
            "ASK {" + "".join(f"?s <a:{n}> ?o{n}." for n in range(PARTS_MAX - 1)) + "}",
            "ASK {" + "".join(f"?o{n} <a:p> ?o{n + 1}." for n in range(PARTS_MAX - 1)) + "}",
        ):
            Network(logic_of(cast(Query, parse(text, BASE))), {}, store.at(store.head()), store.permanent_ids)
        assert time.thread_time() - start < 30, "it took minutes"


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
        assert next(before for _, before in found) == start


def _part(variables: Names) -> SimpleNamespace:
    return SimpleNamespace(variables=variables, certain=variables)
