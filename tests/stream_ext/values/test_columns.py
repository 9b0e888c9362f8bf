"""Columns: what a case says of one row of constants, it says of a column of them, whichever way arrays take."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields, is_dataclass, replace
from itertools import product
from typing import Any

import pytest

from stream_ext.language.algebra.formulas import CompareOp, Expression
from stream_ext.language.algebra.terms import Constant, Variable
from stream_ext.values.expressions import ExpressionContext, compile_value
from stream_ext.values.expressions.vectors import FEW
from stream_ext.values.values import compare, text_of, value_of
from tests.stream_ext.dictionary import Dictionary
from tests.stream_ext.values.computing import computed, expression, typed
from tests.stream_ext.values.test_functions import CASES
from tests.stream_ext.values.test_regexes import MATCHES
from tests.stream_ext.values.test_values import OPERATIONS

#: So many that no column goes value by value.
MANY = 2 * FEW


def constants_in(part: Any) -> Iterator[Constant]:
    if isinstance(part, Constant):
        yield part
    elif isinstance(part, tuple):
        for each in part:
            yield from constants_in(each)
    elif is_dataclass(part):
        for each in fields(part):
            yield from constants_in(getattr(part, each.name))


def lifted(part: Any, names: dict[Constant, str]) -> Any:
    """With a variable for each of these constants."""
    if isinstance(part, Constant):
        return Variable(names[part]) if part in names else part
    if isinstance(part, tuple) and not hasattr(part, "_fields"):
        return tuple(lifted(each, names) for each in part)
    if is_dataclass(part) and not isinstance(part, type):
        return replace(part, **{each.name: lifted(getattr(part, each.name), names) for each in fields(part)})
    return part


def over_columns(written: Expression, chosen: Sequence[Constant]) -> list[str | None]:
    """What it is for `MANY` rows, the chosen constants standing in columns."""
    names = {constant: f"column{place}" for place, constant in enumerate(chosen)}
    dictionary = Dictionary()
    columns = [dictionary.encode([constant.text.decode()] * MANY) for constant in names]
    vocabulary = dictionary.vocabulary
    ids = compile_value(lifted(written, names), tuple(names.values())).ids(columns, ExpressionContext(vocabulary), MANY)
    return [None if not id else vocabulary.decode(ids[row : row + 1])[0].decode() for row, id in enumerate(ids)]


#: Each is another node.
CHANCE = ("BNODE", "RAND", "UUID")


@pytest.mark.parametrize("text", [text for text, _ in CASES if not any(name in text for name in CHANCE)])
def test_a_column_of_a_case_has_its_value_in_each_row(text: str) -> None:
    written, expected = expression(text), computed(text)
    constants = list(dict.fromkeys(constants_in(written)))
    for chosen in (constants, *([one] for one in constants)):
        assert over_columns(written, chosen) == expected * MANY, f"columns of {chosen}"


@pytest.mark.parametrize("op", "+-*/")
def test_a_column_of_operands_of_all_types_has_the_value_of_each_pair(op: str) -> None:
    cases = [(typed(left), typed(right), typed(made)) for left, sign, right, made in OPERATIONS if sign == op]
    rows = [(left or "", right or "") for left, right, _ in cases]
    expected = [made for _, _, made in cases]
    times = -(-MANY // len(rows))
    assert computed(f"?a {op} ?b", ("a", "b"), rows * times) == expected * times
    for row, made in zip(rows, expected, strict=True):
        assert computed(f"?a {op} ?b", ("a", "b"), [row] * MANY) == [made] * MANY


@pytest.mark.parametrize("flags", sorted({flags for _, _, flags, _ in MATCHES}))
def test_a_column_of_texts_and_patterns_matches_as_each_does(flags: str) -> None:
    cases = [case for case in MATCHES if case[2] == flags]
    times = -(-MANY // len(cases))
    rows = [(literal(text), literal(pattern)) for text, pattern, _, _ in cases]
    expected = [None if found is None else typed(f"{str(found).lower()}^^boolean") for *_, found in cases]
    assert computed(f"REGEX(?a, ?b, '{flags}')", ("a", "b"), rows * times) == expected * times
    texts = sorted({row[0] for row in rows})
    for pattern in {row[1] for row in rows}:  # one pattern over many texts, as most are
        one_by_one = [computed(f"REGEX(?a, {pattern}, '{flags}')", ("a",), [(text,)])[0] for text in texts]
        many = [(text,) for text in texts] * MANY
        assert computed(f"REGEX(?a, {pattern}, '{flags}')", ("a",), many) == one_by_one * MANY, pattern


@pytest.mark.parametrize(
    ("pattern", "flags", "matching"),
    [
        ("a.b", "", ["axb", "xaxbx", "x\naxb"]),
        ("a.b", "s", ["axb", "a\nb", "xaxbx", "x\naxb"]),
        ("^a.b$", "", ["axb"]),
        ("^a.b$", "m", ["axb", "x\naxb"]),
        ("^a.b$", "sm", ["axb", "a\nb", "x\naxb"]),
        ("b$", "", ["axb", "a\nb", "b", "x\naxb", "ab", "a\n\nb"]),
        ("^x$", "m", ["x\naxb"]),
    ],
)
def test_dots_and_lines_mean_in_a_column_what_they_mean_in_a_text(
    pattern: str, flags: str, matching: list[str]
) -> None:
    texts = ["axb", "a\nb", "xaxbx", "b", "", "x\naxb", "ab", "a\n\nb"] * FEW
    found = computed(f"REGEX(?a, '{pattern}', '{flags}')", ("a",), [(literal(text),) for text in texts])
    assert found == [typed("true^^boolean" if text in matching else "false^^boolean") for text in texts]


def literal(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r")
    return f'"{escaped}"'


#: By type, with and without a zone, on both sides of what fourteen hours of zones can make of a local time.
MOMENTS = {
    "dateTime": [
        f"{day}T{clock}{zone}"
        for day in ("2024-01-31", "2024-02-01")
        for clock in ("00:00:00", "10:30:00.25", "23:59:59")
        for zone in ("", "Z", "+05:30", "-14:00")
    ],
    "date": [f"{day}{zone}" for day in ("2024-01-30", "2024-01-31", "2024-02-01") for zone in ("", "Z", "+14:00")],
    "time": [f"{clock}{zone}" for clock in ("00:00:00", "10:30:00.25", "23:59:59") for zone in ("", "Z", "-05:00")],
}


@pytest.mark.parametrize("kind", MOMENTS)
@pytest.mark.parametrize("op", CompareOp)
def test_zoned_and_local_times_are_compared_in_columns_as_pairs_are(kind: str, op: CompareOp) -> None:
    pairs = [(typed(f"{a}^^{kind}") or "", typed(f"{b}^^{kind}") or "") for a, b in product(MOMENTS[kind], repeat=2)]
    truths = [compare(op, value_of(a.encode()), value_of(b.encode())) for a, b in pairs]
    assert None in truths and True in truths and False in truths, "zones count"
    expected = [None if truth is None else text_of(truth).decode() for truth in truths]
    assert computed(f"?a {op} ?b", ("a", "b"), pairs) == expected
    for zoned, other in product((False, True), repeat=2):  # each alone takes its own way through arrays
        alike = [place for place, (a, b) in enumerate(pairs) if (has_zone(a), has_zone(b)) == (zoned, other)]
        assert len(alike) > FEW
        found = computed(f"?a {op} ?b", ("a", "b"), [pairs[place] for place in alike])
        assert found == [expected[place] for place in alike], f"zoned: {zoned}, {other}"
    for b in dict.fromkeys(b for _, b in pairs):  # a constant beside a column
        rows = [(a,) for a, other_b in pairs if other_b == b]
        wanted = [truth for (_, other_b), truth in zip(pairs, expected, strict=True) if other_b == b]
        assert computed(f"?a {op} {b}", ("a",), rows) == wanted, b


def has_zone(term: str) -> bool:
    lexical = term.split('"')[1]
    return lexical.endswith("Z") or (lexical[-6] in "+-" and lexical[-3] == ":")
