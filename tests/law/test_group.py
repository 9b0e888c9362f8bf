"""Groups: at every evaluation, the rows put out are the groups of the rows that came in and are still there."""

from __future__ import annotations

import re
from collections import Counter
from fractions import Fraction
from math import inf, isnan, nan

import numpy as np
import pytest

from hbase_store.layout.terms import inline_id, inline_text, integer_id
from stream_ext.errors import QueryCancelled
from stream_ext.evaluation_budget import Control
from stream_ext.network.operators.core.moment import Moment
from stream_ext.network.operators.groups.group import Aggregated, GroupOperator
from stream_ext.rows.kernels import group as group_kernels
from stream_ext.rows.key_table import KeyTable
from stream_ext.rows.zset import FOREVER, Ids, of_columns
from stream_ext.values.vocabulary import Vocabulary
from tests.law.test_law import Source, entries_of, moment, zset
from tests.stream_ext import model
from tests.stream_ext.model import Answered, Entry, Meaning, Row

XSD = "http://www.w3.org/2001/XMLSchema#"


def number(lexical: str, kind: str) -> tuple[bytes, str, Fraction | float, str]:
    value = {"INF": inf, "-INF": -inf, "NaN": nan}.get(lexical)
    return f'"{lexical}"^^<{XSD}{kind}>'.encode(), kind, Fraction(lexical) if value is None else value, lexical


#: In the order of ORDER BY, what it does not tell apart in the order of its text.
TERMS: list[tuple[bytes, str | None, Fraction | float, str | None]] = [
    (b"_:b7", None, Fraction(0), None),
    (b"<http://ex/a>", None, Fraction(0), "http://ex/a"),
    (b"<http://ex/b>", None, Fraction(0), "http://ex/b"),
    number("-2.5", "decimal"),
    number("-1", "integer"),
    number("0.25", "double"),
    number("0.5", "decimal"),
    number("0.5", "double"),
    number("0.5", "float"),
    number("1", "integer"),
    number("2", "integer"),
    number("2.0", "decimal"),
    number("10", "integer"),
    number("123456789012345678901234567890", "integer"),
    (b'"a"', None, Fraction(0), "a"),
    (b'"b"', None, Fraction(0), "b"),
]


class Terms:
    """A vocabulary over the terms of a test; ids of those that are not inline come in no order."""

    def __init__(self, terms: list[tuple[bytes, str | None, Fraction | float, str | None]]) -> None:
        self.meanings: dict[int, Meaning] = {}
        for place, (text, kind, value, string) in enumerate(terms):
            id = inline_id(text) or 1000 - place
            self.meanings[id] = (text, place, kind, value, string)
        self._texts = {id: meaning[0] for id, meaning in self.meanings.items()}
        self._ids = {text: id for id, text in self._texts.items()}
        self.vocabulary = Vocabulary(self._encode, self._decode)

    @property
    def ids(self) -> list[int]:
        return list(self.meanings)

    def _encode(self, texts: object) -> Ids:
        assert isinstance(texts, list)
        return np.array([self._ids.get(text, inline_id(text)) for text in texts], np.uint64)

    def _decode(self, ids: Ids) -> list[bytes]:
        return [self._texts.get(id) or inline_text(id) for id in ids.tolist()]


def emitted(row: Row, keys: int, functions: list[str], terms: Terms) -> tuple[Answered, ...]:
    texts = [terms.vocabulary.decode(np.array([id], np.uint64))[0] if id else None for id in row[keys:]]
    out: list[Answered] = list(row[:keys])
    for text, function in zip(texts, functions, strict=True):
        if text is None:
            out.append(None)
        elif function in ("COUNT", "SUM", "AVG"):
            out.append(rounded(*value_of_number(text)))
        elif function == "GROUP_CONCAT":
            out.append(text.decode()[1:-1])
        else:
            out.append(text)
    return tuple(out)


def value_of_number(text: bytes) -> tuple[str, Fraction | float]:
    found = re.fullmatch(rf'"(.*)"\^\^<{XSD}(integer|decimal|float|double)>', text.decode())
    assert found is not None, text
    special = {"INF": inf, "-INF": -inf, "NaN": nan}.get(found[1])
    return found[2], Fraction(found[1]) if special is None else special


def rounded(kind: str, value: Fraction | float) -> Answered:
    """A decimal to 15 places, floats to what 32 bits tell: so much is promised of a sum."""
    if isinstance(value, float):
        return kind, "NaN" if isnan(value) else value  # type: ignore[return-value]  # NaN equals nothing, itself neither
    if kind in ("integer", "decimal"):
        return kind, Fraction(round(value * 10**15), 10**15)
    return kind, float(f"{float(value):.6g}")


def expected(
    bag: Counter[Row], functions: list[tuple[str, int | None, bool]], keys: list[int], terms: Terms, always: bool
) -> Counter[tuple[Answered, ...]]:
    out: Counter[tuple[Answered, ...]] = Counter()
    for row, n in model.group(bag, keys, functions, terms.meanings, always).items():
        out[tuple(rounded(*part) if isinstance(part, tuple) else part for part in row)] += n
    return out


class Rows(Source):
    """Changes whose first columns are keys among few, unbound at times, and whose last is any of the terms."""

    def __init__(self, seed: int, width: int, ids: list[int]) -> None:
        super().__init__(seed, width)
        self._ids = ids

    def a_row(self) -> Row:
        keys = [self.random.choice([0, integer_id(1), integer_id(2), integer_id(3)]) for _ in range(self.width - 1)]
        return (*keys, 0 if self.random.random() < 0.03 else self.random.choice(self._ids))


ALL = [
    (function, distinct)
    for function in ("COUNT", "SUM", "AVG", "MIN", "MAX", "SAMPLE", "GROUP_CONCAT")
    for distinct in (False, True)
]
NUMBERS = [term for term in TERMS if term[1] is not None]
INTEGERS = [term for term in NUMBERS if inline_id(term[0])]
UNIVERSES = {"anything": TERMS, "numbers": NUMBERS, "inline integers": INTEGERS}


def aggregated(functions: list[tuple[str, int | None, bool]], inside: tuple[str, ...]) -> tuple[Aggregated, ...]:
    return tuple(
        Aggregated(f"r{i}", function, None if column is None else inside[column], distinct, "|")
        for i, (function, column, distinct) in enumerate(functions)
    )


@pytest.mark.parametrize("universe", UNIVERSES)
@pytest.mark.parametrize("keys", [0, 1, 2])
@pytest.mark.parametrize("seed", range(8))
def test_the_groups_of_changes_are_the_groups_of_what_is_there(seed: int, keys: int, universe: str) -> None:
    terms = Terms(UNIVERSES[universe])
    source = Rows(seed, keys + 1, terms.ids)
    inside = tuple("abc"[: keys + 1])
    functions = [("COUNT", None, False), ("COUNT", None, True), *((f, keys, distinct) for f, distinct in ALL)]
    always = keys == 0 and seed % 2 == 0
    operator = GroupOperator(inside, inside[:keys], aggregated(functions, inside), terms.vocabulary, always)
    out: list[Entry] = []
    for step in range(30):
        time = step * 10
        out += entries_of(operator.step(moment(time), zset(source.change(time, 8), keys + 1)))
        shown: Counter[tuple[Answered, ...]] = Counter()
        for row, n in model.alive(out, time).items():
            shown[emitted(row, keys, [f for f, _, _ in functions], terms)] += n
        now = expected(model.alive(source.all, time), functions, list(range(keys)), terms, always)
        assert shown == now, f"seed {seed}, step {step}"


@pytest.mark.parametrize("universe", UNIVERSES)
@pytest.mark.parametrize("function, distinct", ALL)
@pytest.mark.parametrize("seed", range(4))
def test_one_step_that_is_the_last_groups_all_that_comes(
    seed: int, function: str, distinct: bool, universe: str
) -> None:
    """Alone, so that nothing is remembered for another aggregate's sake."""
    terms = Terms(UNIVERSES[universe])
    source = Rows(seed, 2, terms.ids)
    source.change(0, 200)
    functions: list[tuple[str, int | None, bool]] = [(function, 1, distinct)]
    last = Moment(0, snapshot=None, changes=None, last=True)  # type: ignore[arg-type]  # it reads no store
    bag = model.alive(source.all, 0)
    whole = zset([(row, n, FOREVER) for row, n in bag.items()], 2)
    for change in (whole, zset(source.all, 2)):  # in the second, rows come and go at once
        operator = GroupOperator(("a", "b"), ("a",), aggregated(functions, ("a", "b")), terms.vocabulary, False)
        shown = Counter(emitted(row, 1, [function], terms) for row, _, _ in entries_of(operator.step(last, change)))
        assert shown == expected(bag, functions, [0], terms, False)


@pytest.mark.parametrize("function, distinct", ALL)
def test_one_step_that_is_the_last_tells_two_aggregates_of_one_variable(function: str, distinct: bool) -> None:
    terms = Terms(TERMS)
    last = Moment(0, snapshot=None, changes=None, last=True)  # type: ignore[arg-type]  # it reads no store
    for seed, (other, others) in enumerate(ALL):
        source = Rows(seed, 2, terms.ids)
        source.change(0, 100)
        bag = model.alive(source.all, 0)
        functions = [(function, 1, distinct), (other, 1, others)]
        operator = GroupOperator(("a", "b"), ("a",), aggregated(functions, ("a", "b")), terms.vocabulary, False)
        entries = entries_of(operator.step(last, zset([(row, n, FOREVER) for row, n in bag.items()], 2)))
        shown = Counter(emitted(row, 1, [function, other], terms) for row, _, _ in entries)
        assert shown == expected(bag, functions, [0], terms, False), other


def test_sums_of_floats_forget_what_was_taken_back() -> None:
    """Infinity and not-a-number leave no trace, nor does a great number beside a small one."""
    terms = Terms([number(lexical, "double") for lexical in ("1.0E300", "0.1", "INF", "-INF", "NaN")])
    great, small, infinite, negative, none = terms.ids
    operator = GroupOperator(("a",), (), (Aggregated("sum", "SUM", "a"),), terms.vocabulary, True)

    def after(*entries: tuple[int, int]) -> Answered:
        out = operator.step(moment(0), zset([((id,), n, FOREVER) for id, n in entries], 1))
        return emitted((int(out.columns[0][-1]),), 0, ["SUM"], terms)[0]

    assert after((great, 1), (small, 1)) == rounded("double", 1e300)
    assert after((great, -1)) == rounded("double", Fraction(1, 10))
    assert after((infinite, 2)) == ("double", inf)
    assert after((negative, 1)) == ("double", "NaN")
    assert after((infinite, -2)) == ("double", -inf)
    assert after((negative, -1), (none, 1)) == ("double", "NaN")
    assert after((none, -1)) == rounded("double", Fraction(1, 10))
    assert after((small, -1)) == ("integer", 0)  # nothing is left, and the sum of nothing is an integer


def test_sums_of_integers_are_exact_beyond_64_bits() -> None:
    terms = Terms([])
    greatest = (1 << 59) - 1
    change = of_columns([np.full(100, integer_id(greatest), np.uint64), np.full(100, integer_id(-greatest), np.uint64)])
    operator = GroupOperator(
        ("a", "b"), (), (Aggregated("s", "SUM", "a"), Aggregated("t", "SUM", "b")), terms.vocabulary, True
    )
    out = operator.step(moment(0), change)
    sums = terms.vocabulary.decode(np.concatenate(out.columns))
    assert [value_of_number(text)[1] for text in sums] == [100 * greatest, -100 * greatest]


def test_sums_of_decimals_are_exact_however_great_or_fine() -> None:
    great, fine = "1" + "0" * 70, "0." + "0" * 24 + "1"
    terms = Terms([number(great, "decimal"), number(fine, "decimal"), number("-1.5", "decimal")])
    operator = GroupOperator(("a",), (), (Aggregated("sum", "SUM", "a"),), terms.vocabulary, True)

    def after(*weights: int) -> Answered:
        entries = [((id,), n, FOREVER) for id, n in zip(terms.ids, weights, strict=True)]
        return value_of_number(terms.vocabulary.decode(operator.step(moment(0), zset(entries, 1)).columns[0])[-1])

    assert after(1, 2, 0) == ("decimal", 10**70 + 2 * Fraction(fine))
    assert after(-1, 0, 1) == ("decimal", 2 * Fraction(fine) - Fraction(3, 2))
    assert after(0, -1, 0) == ("decimal", Fraction(fine) - Fraction(3, 2))


@pytest.mark.parametrize("function, nothing", [
    ("COUNT", "0"), ("SUM", "0"), ("AVG", "0"), ("GROUP_CONCAT", '""'), ("MIN", ""), ("MAX", ""), ("SAMPLE", ""),
])  # fmt: skip
def test_nothing_at_all_is_one_group_where_there_is_no_group_by(function: str, nothing: str) -> None:
    terms = Terms([])
    aggregate = (Aggregated("r", function, "a"),)
    for last in (False, True):
        now = Moment(0, snapshot=None, changes=None, last=last)  # type: ignore[arg-type]  # it reads no store
        out = GroupOperator(("a",), (), aggregate, terms.vocabulary, True).step(now, zset([], 1))
        ids = out.columns[0]
        emitted = terms.vocabulary.decode(ids)[0].decode() if ids[0] else ""
        assert len(out) == 1 and emitted == (f'"{nothing}"^^<{XSD}integer>' if nothing == "0" else nothing)
        assert not len(GroupOperator(("a",), ("a",), aggregate, terms.vocabulary, False).step(now, zset([], 1)))


def test_a_variable_that_no_row_has_is_unbound() -> None:
    terms = Terms([])
    aggregates = (Aggregated("c", "COUNT", "nowhere"), Aggregated("m", "MIN", "nowhere"))
    operator = GroupOperator(("a",), ("never",), aggregates, terms.vocabulary, False)
    out = operator.step(moment(0), zset([((5,), 1, FOREVER)], 1))
    assert entries_of(out) == [((0, integer_id(0), 0), 1, FOREVER)]


def test_groups_that_are_no_more_are_forgotten() -> None:
    terms = Terms([])
    functions: list[tuple[str, int | None, bool]] = [("COUNT", None, False), ("MAX", 1, False), ("SUM", 1, True)]
    operator = GroupOperator(("a", "b"), ("a",), aggregated(functions, ("a", "b")), terms.vocabulary, False)
    out: list[Entry] = []
    for step in range(200):
        rows = [((integer_id(step * 100 + i), integer_id(i % 7)), 1, step * 10 + 20) for i in range(100)]
        out = [*out[-1000:], *entries_of(operator.step(moment(step * 10), zset(rows, 2)))]
    assert operator.capacity <= 8192  # 300 groups are there at a time; 20,000 have been
    newest = {row[0]: row[1:] for row, sign, _ in out if sign > 0}
    assert newest[integer_id(19_905)] == (integer_id(1), integer_id(5), integer_id(5))


@pytest.mark.parametrize("width", [1, 2])
def test_keys_whose_hashes_are_alike_are_distinguished(width: int) -> None:
    factor, chance = 0x9E3779B97F4A7C15, np.random.default_rng(width)
    undone = pow(factor, -1, 1 << 64)
    # Of one column the hash is a product, so keys can be made whose hashes agree in half of their bits, or more.
    hashes = [(upper << 32) + (lower << 28) + 7 for upper in range(200) for lower in range(16)]
    keys = np.array([each * undone % (1 << 64) for each in hashes], np.uint64)
    table, known = KeyTable(width, more=2), dict[tuple[int, ...], int]()
    for count in (1, 300, 3000, 3000):  # it grows in the middle of a batch
        rows = chance.choice(keys, (width, count))
        expected = [known.setdefault(tuple(row), len(known)) for row in rows.T.tolist()]
        assert table.number(rows).tolist() == expected
    retained = np.arange(table.used) % 3 == 0
    renumbered = table.keep(retained)
    assert (
        table.number(np.array(list(known), np.uint64).T.copy()[:, retained]).tolist() == renumbered[retained].tolist()
    )


def test_a_cancelled_evaluation_ends() -> None:
    control = Control()
    control.cancel()
    now = Moment(0, snapshot=None, changes=None, control=control)  # type: ignore[arg-type]  # it reads no store
    with pytest.raises(QueryCancelled):
        GroupOperator(("a",), ("a",), (), Terms([]).vocabulary, False).step(now, zset([], 1))


def test_warming_compiles_what_grouping_calls() -> None:
    group_kernels.warm()
    kernels = {name: value for name, value in vars(group_kernels).items() if hasattr(value, "signatures")}
    compiled = {name: len(kernel.signatures) for name, kernel in kernels.items()}
    test_the_groups_of_changes_are_the_groups_of_what_is_there(0, 2, "anything")
    test_one_step_that_is_the_last_groups_all_that_comes(0, "MIN", False, "numbers")
    test_groups_that_are_no_more_are_forgotten()
    assert {name: len(kernel.signatures) for name, kernel in kernels.items()} == compiled
