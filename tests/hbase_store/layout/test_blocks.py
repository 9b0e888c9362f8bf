"""Columns and blocks: their order, their bytes, and back."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hbase_store.arrays import Columns, gather_ranges, group_rows, is_sorted_distinct, last_of_each, sort_distinct
from hbase_store.layout.blocks import BLOCK_ROWS, Block, blocks_of, pack_block, unpack_block
from hbase_store.layout.columns import from_signed, pack_column, to_signed, unpack_column

#: Ids of every kind, so that rows sometimes fit into a machine word and sometimes do not.
IDS = st.integers(1, 9) | st.integers(1 << 60, (1 << 60) + 9) | st.integers(0, (1 << 64) - 1)


def columns_of(rows: list[tuple[int, ...]], width: int) -> Columns:
    return tuple(np.array([row[i] for row in rows], np.uint64) for i in range(width))


def rows_of(columns: Columns) -> list[tuple[int, ...]]:
    return list(zip(*(column.tolist() for column in columns), strict=True))


@given(st.data(), st.sampled_from([1, 2, 3]))
def test_rows_sort_as_tuples_do(data: st.DataObject, width: int) -> None:
    rows = data.draw(st.lists(st.tuples(*[IDS] * width)))
    found = sort_distinct(columns_of(rows, width))
    assert rows_of(found) == sorted(set(rows))
    assert is_sorted_distinct(found)
    assert is_sorted_distinct(columns_of(rows, width)) == (rows == sorted(set(rows)))


@given(st.data(), st.sampled_from([2, 3]))
def test_the_last_operation_on_a_row_wins(data: st.DataObject, width: int) -> None:
    operations = data.draw(st.lists(st.tuples(st.tuples(*[IDS] * width), st.booleans())))
    flags = np.array([flag for _, flag in operations], bool)
    net, last = last_of_each(columns_of([row for row, _ in operations], width), flags)
    assert list(zip(rows_of(net), last.tolist(), strict=True)) == sorted(dict(operations).items())


@given(st.lists(IDS))
def test_rows_are_grouped_in_the_order_in_which_they_came(values: list[int]) -> None:
    found = {value: np.arange(len(values))[rows].tolist() for value, rows in group_rows(np.array(values, np.uint64))}
    assert found == {value: [i for i, other in enumerate(values) if other == value] for value in set(values)}


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)).map(lambda pair: tuple(sorted(pair)))))
def test_ranges_are_gathered_one_after_the_other(ranges: list[tuple[int, int]]) -> None:
    starts, ends = (np.array([pair[i] for pair in ranges], np.int64) for i in (0, 1))
    offsets, places = gather_ranges(starts, ends)
    found = [places[offsets[i] : offsets[i + 1]].tolist() for i in range(len(ranges))]
    assert found == [list(range(start, end)) for start, end in ranges]


@given(st.lists(IDS))
def test_a_column_comes_back(values: list[int]) -> None:
    for column in (np.array(values, np.uint64), np.array(sorted(values), np.uint64)):
        packed = pack_column(column)
        found, end = unpack_column(memoryview(b"--" + packed + b"more"), 2)
        assert found.tolist() == column.tolist()
        assert end == 2 + len(packed)


@given(st.lists(st.integers(-(1 << 63), (1 << 63) - 1)))
def test_signed_numbers_keep_their_order(values: list[int]) -> None:
    column = np.array(values, np.int64)
    assert to_signed(from_signed(column)).tolist() == values
    assert np.argsort(from_signed(column), kind="stable").tolist() == np.argsort(column, kind="stable").tolist()


@pytest.mark.parametrize(
    ("values", "layout"),
    [
        ([], "00 00 0000 00000000 0000000000000000"),
        ([7, 7, 7], "00 00 0000 03000000 0700000000000000"),
        ([7, 8, 6], "00 01 0000 03000000 0600000000000000 01 02 00"),
        ([1, 1000, 2000], "00 02 0000 03000000 0100000000000000 0000 e703 cf07"),
        ([1 << 60, (1 << 60) + 200, (1 << 60) + 400], "01 01 0000 03000000 0000000000000010 00 c8 c8"),
        ([1 << 40, 1], "00 08 0000 02000000 0100000000000000 ffffffffff000000 0000000000000000"),
    ],
)
def test_the_layout_of_a_column_does_not_change(values: list[int], layout: str) -> None:
    assert pack_column(np.array(values, np.uint64)) == bytes.fromhex(layout)


@pytest.mark.parametrize("cut", [0, 3, 15, 17])
def test_a_column_that_is_cut_off_is_noticed(cut: int) -> None:
    with pytest.raises(ValueError, match="cut off"):
        unpack_column(memoryview(pack_column(np.array([1, 2, 5], np.uint64))[:cut]), 0)


@given(st.data(), st.booleans(), st.booleans(), st.integers(0, (1 << 64) - 1))
def test_a_block_comes_back(data: st.DataObject, named: bool, inserted: bool, predicate: int) -> None:
    width = 3 if named else 2
    rows = data.draw(st.lists(st.tuples(*[IDS] * width), min_size=1))
    (block,) = blocks_of(named, predicate, inserted, sort_distinct(columns_of(rows, width)))
    found = unpack_block(memoryview(pack_block(block)), named, inserted)
    assert (found.named, found.predicate, found.inserted) == (named, predicate, inserted)
    assert rows_of(found.columns) == sorted(set(rows))


def test_rows_are_cut_into_blocks_even_within_one_subject() -> None:
    objects = np.arange(2 * BLOCK_ROWS + 1, dtype=np.uint64)
    blocks = list(blocks_of(False, 5, True, (np.ones_like(objects), objects)))
    assert [len(block.columns[0]) for block in blocks] == [BLOCK_ROWS, BLOCK_ROWS, 1]
    found = [unpack_block(memoryview(pack_block(block)), False, True).columns[1] for block in blocks]
    assert np.concatenate(found).tolist() == objects.tolist()


def test_the_layout_of_a_block_does_not_change() -> None:
    columns = tuple(np.array(column, np.uint64) for column in ([3, 3, 9], [4, 5, 4], [8, 8, 8]))
    assert pack_block(Block(True, 2, True, columns)) == bytes.fromhex(
        "0200000000000000"
        "00 01 0000 02000000 0300000000000000 00 06"  # subjects 3, 9
        "00 01 0000 02000000 0100000000000000 01 00"  # counts 2, 1
        "00 01 0000 03000000 0400000000000000 00 01 00"  # objects
        "00 00 0000 03000000 0800000000000000"  # graphs
    )


def test_columns_of_a_block_that_do_not_fit_are_noticed() -> None:
    one, two = (pack_column(np.arange(n, dtype=np.uint64)) for n in (1, 2))
    with pytest.raises(ValueError, match="do not fit"):
        unpack_block(memoryview(bytes(8) + one + two + one), False, True)
    with pytest.raises(ValueError, match="cut off"):
        unpack_block(memoryview(b""), False, True)
