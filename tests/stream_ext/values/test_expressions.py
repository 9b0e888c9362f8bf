"""Vectors: whatever way an expression takes over the rows, each row gets the value that it has by itself."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, seed, settings
from hypothesis import strategies as st

from hbase_store.arrays import Ids
from stream_ext.errors import QueryCancelled
from stream_ext.evaluation_budget import Control
from stream_ext.language.algebra.formulas import ArithmeticOp, CompareOp
from stream_ext.values import known_values
from stream_ext.values.expressions import ExpressionContext, compile_condition, compile_value
from stream_ext.values.expressions.compiling import compiled
from stream_ext.values.expressions.nodes import Fixed
from stream_ext.values.known_values import KnownValues
from stream_ext.values.values import arithmetic, compare, negated, text_of, value_of
from stream_ext.values.vocabulary import Vocabulary
from tests.stream_ext.dictionary import Dictionary
from tests.stream_ext.values.computing import XSD, computed, expression
from tests.stream_ext.values.test_expression_peers import BINARY, CORPUS, UNARY, t

NAMES = ("a", "b", "c")


def operands(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    def put(form: str, a: str, b: str) -> str:
        return f"({form.replace('?a', '(#)').replace('?b', f'({b})').replace('#', a)})"

    forms = st.sampled_from([*UNARY, *BINARY, "IF(?a, ?b, ?a)", "COALESCE(?a, ?b)", "?a IN (?b, 1, 'a')"])
    return st.builds(put, forms, inner, inner)


SIMPLE = st.sampled_from(["?a", "?b", "?c", "1", "2.5", "'a'", "1e0", "<http://ex/a>"])
EXPRESSIONS = st.recursive(SIMPLE, operands, max_leaves=6).filter(lambda text: "BOUND" not in text)
ROWS = st.lists(st.tuples(*[st.sampled_from(CORPUS)] * 3), min_size=1, max_size=24)


@seed(7)
@settings(max_examples=400, deadline=None, database=None)
@given(EXPRESSIONS, ROWS)
def test_rows_together_have_the_values_that_each_has_by_itself(text: str, rows: list[tuple[str, ...]]) -> None:
    assert computed(text, NAMES, rows) == [computed(text, NAMES, [row])[0] for row in rows]


@seed(8)
@settings(max_examples=200, deadline=None, database=None)
@given(EXPRESSIONS, ROWS)
def test_a_condition_is_true_where_its_value_is(text: str, rows: list[tuple[str, ...]]) -> None:
    dictionary = Dictionary()
    columns = [dictionary.encode([row[i] for row in rows]) for i in range(3)]
    mask = compile_condition(expression(text), NAMES).mask(columns, ExpressionContext(dictionary.vocabulary))
    truths = computed(f"IF({text}, true, false)", NAMES, rows)
    assert mask.tolist() == [truth == f'"true"^^<{XSD}boolean>' for truth in truths]


@seed(9)
@settings(max_examples=300, deadline=None, database=None)
@given(EXPRESSIONS, st.tuples(*[st.sampled_from([term for term in CORPUS if term and not term.startswith("_:")])] * 3))
def test_constants_in_the_text_mean_what_variables_mean_that_have_them(text: str, row: tuple[str, str, str]) -> None:
    with_constants = text
    for name, term in zip(NAMES, row, strict=True):
        with_constants = with_constants.replace(f"?{name}", term)
    assert computed(with_constants) == computed(text, NAMES, [row])


@pytest.mark.parametrize(
    ("text", "is_folded"),
    [
        ("1 + 2 * 3", True),
        ("STRLEN(CONCAT('a', 'b')) = 2", True),
        ("IF(1 > 2, 'a', COALESCE(1/0, xsd:integer('7')))", True),
        ("1 / 0", True),
        ("?a + 1", False),
        ("RAND() + 1", False),
        ("YEAR(NOW())", False),
        ("IRI('a')", False),
        ("STR(<http://ex/own>(1))", False),
    ],
)
def test_what_is_the_same_for_ever_is_worked_out_once(text: str, is_folded: bool) -> None:
    assert isinstance(compiled(expression(text), {"a": 0}, frozenset()), Fixed) is is_folded


EXTREMES = [
    *(
        t(str(n), "integer")
        for n in (0, 1, -1, 7, 2**53 + 1, 2**58, -(2**59), 2**59 - 1, 2**61, 2**62 - 1, -(2**63), 10**30)
    ),
    *(
        t(n, "decimal")
        for n in (
            "0.1",
            "-0.25",
            "9007199254740993",
            "400000000000000000.5",
            "22.41844888877521059",
            "0.000000000000000001",
        )
    ),
    *(t(n, "double") for n in ("0", "-0", "0.1", "1e300", "-INF", "NaN", "9007199254740992")),
    *(t(n, "float") for n in ("0.1", "-0", "16777217", "3e38")),
]
PAIRS = st.lists(st.tuples(*[st.sampled_from(EXTREMES)] * 2), min_size=1, max_size=24)

OPERATORS = st.sampled_from(list(ArithmeticOp))


@seed(9)
@settings(max_examples=300, deadline=None, database=None)
@given(
    PAIRS, st.sampled_from(list(ArithmeticOp)), st.sampled_from(list(ArithmeticOp)), st.sampled_from(list(CompareOp))
)
def test_arrays_of_numbers_give_what_each_pair_gives(
    rows: list[tuple[str, ...]], one: ArithmeticOp, other: ArithmeticOp, comparison: CompareOp
) -> None:
    """Against the values themselves, which know no arrays."""
    pairs = [(value_of(a.encode()), value_of(b.encode())) for a, b in rows]
    made = [arithmetic(other, arithmetic(one, a, b), b) for a, b in pairs]
    expected = [None if value is None else text_of(value).decode() for value in made]
    assert computed(f"(?a {one} ?b) {other} ?b", NAMES[:2], rows) == expected
    held = [compare(comparison, value, a) for value, (a, _) in zip(made, pairs, strict=True)]
    truths = [None if truth is None else text_of(truth).decode() for truth in held]
    assert computed(f"((?a {one} ?b) {other} ?b) {comparison} ?a", NAMES[:2], rows) == truths


def test_numbers_of_all_types_in_one_column_are_negated_and_compared() -> None:
    rows = [(term,) for term in EXTREMES]
    negatives = [negated(value_of(term.encode())) for term in EXTREMES]
    assert computed("-?a", ("a",), rows) == [None if n is None else text_of(n).decode() for n in negatives]


@pytest.mark.parametrize("text", ["!(?a = 'x')", "?a != 'x'", "?a NOT IN ('x', :a)", "!(?a IN ('x', 'y'))"])
def test_what_is_not_known_to_differ_from_a_string_is_not_retained(text: str) -> None:
    rows = ['"z"', '"x"', '"x"^^<http://ex/t>', t("y", "integer"), '"x"@en', "<http://ex/b>", ""]
    dictionary = Dictionary()
    condition = compile_condition(expression(text), ("a",))
    mask = condition.mask([dictionary.encode(rows)], ExpressionContext(dictionary.vocabulary))
    assert mask.tolist() == [True, False, False, False, True, True, False]


def test_an_unbound_variable_is_neither_in_a_list_nor_not_in_it() -> None:
    rows = [("<http://ex/a>",), ("",), ('"a"',)]
    true, false = (t(truth, "boolean") for truth in ("true", "false"))
    assert computed("?a IN (:a, :b)", ("a",), rows) == [true, None, false]
    assert computed("?a NOT IN (:a, :b)", ("a",), rows) == [false, None, true]


def test_times_finer_than_what_arrays_hold_are_distinguished() -> None:
    clocks = ("05Z", "05.0000001Z", "05.000001Z", "05.0000010Z")
    rows = [
        (t(f"2024-01-31T10:30:{a}", "dateTime"), t(f"2024-01-31T10:30:{b}", "dateTime")) for a in clocks for b in clocks
    ]
    order = [0, 1, 2, 2]
    expected = [t("true" if order[i] < order[j] else "false", "boolean") for i in range(4) for j in range(4)]
    assert computed("?a < ?b", NAMES[:2], rows) == expected


def test_more_rows_than_are_worked_on_at_once_are_all_answered() -> None:
    column = np.arange(300_000, dtype=np.uint64) + np.uint64((1 << 60) + (1 << 59))
    vocabulary = Dictionary().vocabulary
    mask = compile_condition(expression("?a >= 200000"), ("a",)).mask([column], ExpressionContext(vocabulary))
    assert mask.sum() == 100_000 and mask[200_000:].all()
    ids = compile_value(expression("?a - 1"), ("a",)).ids([column], ExpressionContext(vocabulary))
    assert (ids == column - 1).all()
    fresh = compile_value(expression("RAND()"), ("a",)).ids([column[:270_000]], ExpressionContext(vocabulary))
    assert len(np.unique(fresh)) == 270_000


def test_a_cancelled_evaluation_ends_between_chunks() -> None:
    control = Control()
    control.cancel()
    column = np.full(300_000, (1 << 60) + (1 << 59), np.uint64)
    with pytest.raises(QueryCancelled):
        compile_condition(expression("?a = 1"), ("a",)).mask(
            [column], ExpressionContext(Dictionary().vocabulary, control=control)
        )


# ---- what is decoded -----------------------------------------------------------------------------------------------


class Watched:
    """A vocabulary over a dictionary that counts what is decoded."""

    def __init__(self, terms: Sequence[str]) -> None:
        self.dictionary = Dictionary()
        self.column = self.dictionary.encode(terms)
        self.decoded = 0
        self.vocabulary = Vocabulary(self.dictionary.known, self.decode)

    def decode(self, ids: Ids) -> list[bytes]:
        self.decoded += len(ids)
        return self.dictionary.decode(ids)

    def retained(self, text: str) -> int:
        return int(
            compile_condition(expression(text), ("a",)).mask([self.column], ExpressionContext(self.vocabulary)).sum()
        )


MANY = [f'"{n}"' for n in range(500)]


def test_a_warm_query_decodes_nothing() -> None:
    watched = Watched(MANY * 3)
    assert watched.retained("STRLEN(?a) = 1") == 30
    assert watched.decoded == 500
    assert watched.retained("CONTAINS(?a, '77') || STR(?a) = '5'") == 18
    assert watched.decoded == 500


@pytest.mark.parametrize(
    ("text", "retained"),
    [
        ("BOUND(?a)", 1),
        ("?a = <http://ex/a>", 1),
        ("?a != <http://ex/b>", 1),
        ("?a = 'text'", 0),
        ("?a = ?a", 1),
        ("sameTerm(?a, ?a)", 1),
        ("?a IN (<http://ex/a>, <http://ex/b>, 'text')", 1),
    ],
)
def test_what_ids_decide_is_not_decoded(text: str, retained: int) -> None:
    watched = Watched(["<http://ex/a>", ""])
    assert watched.retained(text) == retained
    assert watched.decoded == 0


def test_variables_that_are_no_literals_are_compared_by_id() -> None:
    watched = Watched(["<http://ex/a>", "<http://ex/b>", ""])
    other = watched.column[[1, 1, 1]]
    condition = compile_condition(expression("?a != ?b"), ("a", "b"), resources=frozenset({"a"}))
    assert condition.mask([watched.column, other], ExpressionContext(watched.vocabulary)).tolist() == [
        True,
        False,
        False,
    ]
    assert watched.decoded == 0


def test_terms_of_a_query_s_own_have_values_like_any_other() -> None:
    watched = Watched(MANY)
    scope = ExpressionContext(watched.vocabulary)
    made = compile_value(expression("CONCAT(?a, '!')"), ("a",)).ids([watched.column], scope)
    both = np.concatenate([made, watched.column])
    lengths = compile_value(expression("STRLEN(?x)"), ("x",)).ids([both], scope)
    assert [int(text.split(b'"')[1]) for text in watched.vocabulary.decode(lengths)] == [
        *(len(str(n)) + 1 for n in range(500)),
        *(len(str(n)) for n in range(500)),
    ]


def test_what_is_known_is_bounded_and_forgotten_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_values, "_ENTRIES_MAX", 100)
    watched = Watched(MANY)
    known = KnownValues(watched.decode)
    assert known.facts(watched.column[:60]).values.tolist() == [str(n) for n in range(60)]
    assert known.facts(watched.column[30:130]).values.tolist() == [str(n) for n in range(30, 130)]
    assert watched.decoded == 130
    assert known.facts(watched.column[:10]).values.tolist() == [str(n) for n in range(10)]
    assert watched.decoded == 140


def test_a_failed_decoding_leaves_nothing_behind() -> None:
    watched = Watched(MANY)
    fails = True

    def decode(ids: Ids) -> list[bytes]:
        if fails:
            raise ConnectionError
        return watched.decode(ids)

    known = KnownValues(decode)
    with pytest.raises(ConnectionError):
        known.facts(watched.column)
    fails = False
    assert known.facts(watched.column).values.tolist() == [str(n) for n in range(500)]
