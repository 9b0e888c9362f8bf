"""ORDER BY: SPARQL 1.1, 15.1, and what it leaves open the same way each time."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest

from stream_ext.language.algebra.formulas import CompareOp
from stream_ext.values.expressions import ExpressionContext
from stream_ext.values.term_order import leading, order_ranks
from stream_ext.values.values import compare, value_of
from tests.stream_ext.dictionary import Dictionary
from tests.stream_ext.values.test_expression_peers import CORPUS, DURATIONS, t

BLANKS = ["_:b1", "_:b7"]
TERMS = [*CORPUS, *BLANKS, t("2", "integer"), t("1.5", "decimal"), '"B"', '"a\\"b"', "<http://ex/a/b>", "<http://ex/>"]


def ranks(terms: list[str]) -> list[int]:
    dictionary = Dictionary()
    found: list[int] = order_ranks(dictionary.encode(terms), ExpressionContext(dictionary.vocabulary)).tolist()
    return found


def kind(term: str) -> int:
    return 0 if not term else 1 if term.startswith("_:") else 2 if term.startswith("<") else 3


def test_unbound_comes_before_blank_nodes_before_iris_before_literals() -> None:
    found = ranks(TERMS)
    for (a, rank_a), (b, rank_b) in itertools.product(zip(TERMS, found, strict=True), repeat=2):
        if kind(a) < kind(b):
            assert rank_a < rank_b


def test_what_the_operator_less_than_orders_is_ordered_so() -> None:
    """But for numbers that only promotion to float makes equal: exactly they are not."""
    literals = [term for term in TERMS if kind(term) == 3 and '"float"' not in term and "#float" not in term]
    found = ranks(literals)
    ordered = 0
    for (a, rank_a), (b, rank_b) in itertools.product(zip(literals, found, strict=True), repeat=2):
        left, right = value_of(a.encode()), value_of(b.encode())
        if compare(CompareOp.LT, left, right):
            ordered += 1
            assert rank_a < rank_b, (a, b)
        if compare(CompareOp.LE, left, right) and compare(CompareOp.GE, left, right):
            assert rank_a == rank_b, (a, b)
    assert ordered > 150


def test_few_terms_are_ranked_as_they_are_among_many() -> None:
    many = ranks(TERMS * 3)
    assert len(TERMS) < 64 < 3 * len(TERMS)
    for (a, rank_a), (b, rank_b) in itertools.product(zip(ranks(TERMS), many[: len(TERMS)], strict=True), repeat=2):
        assert (a < b) == (rank_a < rank_b)


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize(
    "terms", [TERMS, [t(str(n % 7), "integer") for n in range(20)], ['"a"', '"b"', '"a"', '"c"'] * 3]
)
def test_what_leads_is_what_the_ranks_say(terms: list[str], descending: bool) -> None:
    dictionary, found = Dictionary(), ranks(terms)
    for count in range(1, len(terms) + 1):
        last = sorted(found, reverse=descending)[count - 1]
        expected = [rank >= last if descending else rank <= last for rank in found]
        led = leading(dictionary.encode(terms), ExpressionContext(dictionary.vocabulary), count, descending)
        assert led.tolist() == expected


def test_numbers_of_all_types_are_one_line() -> None:
    terms = [t("NaN", "double"), t("-INF", "float"), t("-2.5", "decimal"), t("-1", "integer"), t("0.1", "decimal")]
    terms += [t("0.1", "double"), t("0.1", "float"), t("1e0", "double"), t(str(2**70), "integer"), t("INF", "double")]
    found = ranks(terms)
    assert found == sorted(found) and len(set(found)) == len(terms)
    assert len(set(ranks([t("1", "integer"), t("01", "byte"), t("1.0", "decimal"), t("1", "float")]))) == 1


def test_iris_are_ordered_as_their_text() -> None:
    iris = ["http://ex/a", "http://ex/a/b", "http://ex/a-b", "http://ex/", "http://ex/b"]
    found = ranks([f"<{iri}>" for iri in iris])
    assert [iri for _, iri in sorted(zip(found, iris, strict=True))] == sorted(iris)


def test_the_order_does_not_depend_on_what_else_is_there_nor_on_how_it_came() -> None:
    chance = random.Random(5)
    whole = dict(zip(TERMS, ranks(TERMS), strict=True))
    for _ in range(50):
        some = chance.choices(TERMS, k=chance.randrange(1, 12))
        found = ranks(some)
        for i, j in itertools.combinations(range(len(some)), 2):
            assert np.sign(found[i] - found[j]) == np.sign(whole[some[i]] - whole[some[j]]), (some[i], some[j])


def test_one_kind_of_column_is_ordered_as_in_a_mixed_one() -> None:
    for terms in (
        [t(str(n), "integer") for n in (5, -3, 0, 5)],
        [t(n, "decimal") for n in ("1.5", "1.50", "-2", "0.30")],
        [t(n, "double") for n in ("1e0", "-INF", "0.1", "-0.0", "0.0")],
        [t(f"2024-01-0{n}T00:00:00Z", "dateTime") for n in (3, 1, 2)],
        DURATIONS,
    ):
        assert (
            np.argsort(ranks(terms), kind="stable").tolist()
            == np.argsort(ranks([*terms, ""])[:-1], kind="stable").tolist()
        )
    assert order_ranks(np.zeros(0, np.uint64), ExpressionContext(Dictionary().vocabulary)).tolist() == []
