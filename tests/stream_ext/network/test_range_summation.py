"""The rows of ranges are summed, ordered, cut and compared with those before as if one shard had all of them."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pytest

from hbase_store.layout.terms import DATA_MASK, INTEGER, TAG_SHIFT, inline_id, inline_text
from stream_ext.catalog.registered_text import query_of
from stream_ext.network.combined_groups import GroupedQuery
from stream_ext.network.operators.answers.range_answer import as_ids
from stream_ext.network.range_summation import RangeSummation
from stream_ext.plan.pipeline import logic_of
from stream_ext.plan.properties.range_sums import sums_of
from stream_ext.windows.part import RangeSums

Row = tuple[int, ...]
NO_ONE = np.empty(0, np.uint64)
ONE, TWO = np.array([1], np.uint64), np.array([1, 2], np.uint64)  # queries


def id_of(value: int) -> int:
    return inline_id(b'"%d"^^<http://www.w3.org/2001/XMLSchema#integer>' % value)


summation = RangeSummation(
    lambda texts: np.array([inline_id(text) for text in texts], np.uint64),
    lambda ids: [inline_text(each) for each in ids.tolist()],
    lambda number: None,
)


def columns_of(rows: list[Row], width: int) -> list[np.typing.NDArray[np.uint64]]:
    return [np.array([id_of(row[i]) for row in rows], np.uint64) for i in range(width)]


def values_of(columns: list[np.typing.NDArray[np.uint64]]) -> list[Row]:
    zero = id_of(0)
    return list(zip(*[[each - zero for each in column.tolist()] for column in columns], strict=True))


def random_bag(chance: random.Random) -> Counter[Row]:
    return Counter((chance.randrange(4), chance.randrange(4)) for _ in range(chance.randrange(12)))


def shown(bag: Counter[Row], sums: RangeSums) -> list[Row]:
    """The model: lists and sorting."""
    rows = sorted(bag if sums.is_set else bag.elements())
    for place, descending in reversed(sums.order):
        rows.sort(key=lambda row: row[place], reverse=descending)
    rows = [row[: sums.shown] for row in rows]
    if sums.distinct:
        rows = list(dict.fromkeys(rows))
    return rows[sums.offset :][: sums.limit]


@pytest.mark.parametrize("seed", range(60))
def test_rows_of_ranges_are_the_result_of_one(seed: int) -> None:
    chance = random.Random(seed)
    is_first = chance.random() < 0.5
    order = [(chance.randrange(2), chance.random() < 0.5)] if is_first else []
    is_hidden = is_first and chance.random() < 0.4
    order = [(1, chance.random() < 0.5)] if is_hidden else order
    sums = RangeSums(
        chance.choice(["RSTREAM", "ISTREAM", "DSTREAM"]), 1 if is_hidden else 2, order, not is_hidden and seed % 3 == 0,
        is_hidden and seed % 2 == 0, chance.randrange(2) if is_first else 0, chance.randrange(5) if is_first else None,
    )  # fmt: skip
    ranges = [(random_bag(chance), random_bag(chance)) for _ in range(chance.randrange(1, 4))]
    before, now = (sum((each[i] for each in ranges), Counter[Row]()) for i in range(2))

    rows, counts = list[Row](), list[tuple[int, int]]()
    for was, there in ranges:
        for row in was | there:
            if sums.r2s == "RSTREAM":
                rows += [row] * there[row]
            else:
                rows.append(row)
                counts.append((was[row], there[row]))
    columns = columns_of(rows, 2)
    if sums.r2s != "RSTREAM":
        columns += [as_ids(np.array([each[i] for each in counts], np.int64)) for i in range(2)]
    found = values_of(summation(sums, ONE, NO_ONE, columns, []).columns)

    if sums.r2s == "RSTREAM":
        assert found == shown(now, sums)
        return
    one, other = Counter(shown(before, sums)), Counter(shown(now, sums))
    expected = other - one if sums.r2s == "ISTREAM" else one - other
    assert Counter(found) == expected
    orders_shown = [(place, descending) for place, descending in sums.order if place < sums.shown]
    for place, descending in orders_shown:
        values = [row[place] for row in found]
        assert values == sorted(values, reverse=descending)


def test_the_rows_of_each_query_are_cut_by_themselves() -> None:
    sums = RangeSums("RSTREAM", 1, [(0, True)], limit=2)
    whose = np.array([1, 0, 0, 1, 0, 1], np.uint64)
    columns = columns_of([(3,), (1,), (7,), (9,), (5,), (4,)], 1)
    found = summation(sums, TWO, whose, columns, [])
    assert list(zip(found.whose.tolist(), values_of(found.columns), strict=True)) == [
        (0, (7,)), (0, (5,)), (1, (9,)), (1, (4,)),
    ]  # fmt: skip


def test_a_term_that_one_shard_computed_is_the_one_that_another_has_read() -> None:
    """Summed by what they are: the store has learned it meanwhile."""
    known = {b'"read"': 77}
    summed = RangeSummation(
        lambda texts: np.array([known.get(text, 0) for text in texts], np.uint64),
        lambda ids: [b'"read"'] * len(ids),
        lambda number: None,
    )
    local = np.array([9 << 60, 77], np.uint64)
    found = summed(RangeSums("RSTREAM", 1, is_set=True), ONE, NO_ONE, [local], [b'"read"'])
    assert found.columns[0].tolist() == [77] and not found.created


def test_counts_are_no_terms() -> None:
    assert (as_ids(np.array([5], np.int64)) >> np.uint64(TAG_SHIFT)).tolist() == [INTEGER]
    assert (as_ids(np.array([5], np.int64)) & np.uint64(DATA_MASK)).tolist() == [5]


def test_queries_that_make_something_else_of_the_same_groups_get_their_own() -> None:
    groups = (
        "FROM NAMED WINDOW <w> ON <s> [RANGE PT1S STEP PT1S] { SELECT (MAX(?v) AS ?m) { WINDOW <w> { ?a ?p ?v } } }"
    )
    texts = [
        f"REGISTER RSTREAM <q> AS {each} {groups}"
        for each in ("CONSTRUCT { <a> <b> ?m }", "CONSTRUCT { <a> <c> ?m }", "SELECT ?m")
    ]
    read = [query_of(text, "http://ex/") for text in texts]
    queries = {number: GroupedQuery(query, logic_of(query)) for number, query in enumerate(read)}
    summed = RangeSummation(
        lambda texts: np.zeros(len(texts), np.uint64),
        lambda ids: [inline_text(each) for each in ids.tolist()],
        queries.get,
    )
    made = list[list[bytes]]()
    for number, (query, select) in enumerate(each[:2] for each in queries.values()):
        columns = columns_of([(7, 3), (5, 1)], 2)  # the greatest value in each range, and how many it has
        found = summed(sums_of(query, select, True), np.array([number], np.uint64), NO_ONE, columns, [])
        assert values_of(found.columns[-1:]) == [(7,)]
        made.append(found.created)
    assert made == [[b"<http://ex/a>", b"<http://ex/b>"], [b"<http://ex/a>", b"<http://ex/c>"], []]
