"""Runs: their bytes, their lists, and what is read of them by way of blocks."""

from __future__ import annotations

import gc
import random
import weakref
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hbase_store.arrays import Columns, as_ids
from hbase_store.backends.lmdb import LmdbKeyValue
from hbase_store.cache import Cache
from hbase_store.errors import Corrupt, SnapshotGone
from hbase_store.layout.picked_rows import picked
from hbase_store.layout.run import Cached, Run, Runs, fetch, put_view
from hbase_store.layout.run_blocks import (
    BLOCK_ROWS,
    ColumnKey,
    RunWriter,
    block_bytes_max,
    block_key,
    checked_block,
    index_key,
    pack_block,
    pack_index,
    unpack_block,
    unpack_index,
)
from hbase_store.layout.run_list import RunEntry, RunList, list_key, list_put, unpack_list
from hbase_store.layout.sealed import seal
from hbase_store.sorted.hops import hop
from hbase_store.sorted.view import View, lay_over, nothing, rows_of, view_of

IDS = st.integers(0, 9) | st.integers((1 << 60), (1 << 60) + 9) | st.integers(0, (1 << 64) - 1)
KEY = ColumnKey(0, 7, False)


def made(rows: dict[tuple[int, ...], bool], width: int = 2) -> View:
    ordered = sorted(rows)
    columns = tuple(np.array([row[i] for row in ordered], np.uint64) for i in range(width))
    return view_of(columns, np.array([rows[row] for row in ordered], np.bool_))


def observed(view: View) -> dict[tuple[int, ...], bool]:
    flags = [True] * len(view) if view.inserted is None else view.inserted.tolist()
    return dict(zip(zip(*(column.tolist() for column in view.columns), strict=True), flags, strict=True))


def rows(width: int) -> st.SearchStrategy[dict[tuple[int, ...], bool]]:
    return st.dictionaries(st.tuples(*[IDS] * width), st.booleans())


@settings(deadline=None)
@given(st.data(), st.sampled_from([2, 3]))
def test_the_upper_of_two_layers_wins(data: st.DataObject, width: int) -> None:
    lower, upper = data.draw(rows(width)), data.draw(rows(width))
    both = lay_over(made(lower, width), made(upper, width), keep=True)
    assert observed(both) == {**lower, **upper}
    assert list(observed(both)) == sorted({**lower, **upper})
    settled = lay_over(made(lower, width), made(upper, width), keep=False)
    assert observed(settled) == {row: True for row, there in {**lower, **upper}.items() if there}


@settings(deadline=None)
@given(st.data(), st.sampled_from([2, 3]))
def test_a_block_comes_back_with_its_deletions(data: st.DataObject, width: int) -> None:
    content = data.draw(rows(width).filter(bool))
    assert observed(unpack_block(pack_block(made(content, width)), b"k")) == content


def test_the_layout_of_a_block_does_not_change() -> None:
    block = pack_block(made({(3, 4, 8): True, (3, 5, 8): False, (9, 4, 8): True}, 3))
    content = bytes.fromhex(
        b"RB".hex()
        + "0100"
        + "03 000000 03000000"  # with graphs, with deletions, three rows
        + "00 01 0000 02000000 0300000000000000 00 06"  # keys 3, 9
        + "00 01 0000 02000000 0100000000000000 01 00"  # counts 2, 1
        + "00 01 0000 03000000 0400000000000000 00 01 00"  # values
        + "00 00 0000 03000000 0800000000000000"  # graphs
        + "a0"  # inserted: 1, 0, 1
    )
    assert block == content + zlib.crc32(content).to_bytes(4, "little")
    assert block_key(1, ColumnKey(1, 2, True), [3, 4, 8]) == bytes.fromhex(
        "0000000000000001 01 0000000000000002 01 0000000000000003 0000000000000004 0000000000000008"
    )


def test_the_layout_of_an_index_does_not_change() -> None:
    writer = RunWriter(5, 9)
    list(writer.add(KEY, made({(1, 2): True, (1, 3): True})))
    (put,) = writer.index_puts()
    one = "00 00 0000 01000000 {:02x}00000000000000"
    content = bytes.fromhex(
        b"RI".hex() + "0100" + "".join(map(one.format, (0, 7, 0, 1, 0, 1))) + "".join(map(one.format, (1, 2, 0, 2)))
    )
    assert (put.table, put.key, put.time) == ("runindex", index_key(5, 0), 9)
    assert put.value == content + zlib.crc32(content).to_bytes(4, "little")


def test_the_layout_of_a_list_does_not_change() -> None:
    runs = RunList(4, 2, (RunEntry(3, 1, 9, 1, 100, 200),), 7, {6: 5}, 1, 8)
    put = list_put(runs, 9)
    content = bytes.fromhex("524c0100 97 04 02 91 96 03 01 09 01 64 ccc8 07 81 06 05 01 08")
    assert put.value == content + zlib.crc32(content).to_bytes(4, "little")
    assert (put.key, unpack_list(put.value, 4)) == (list_key(4), runs)


def test_a_damaged_or_missing_block_is_named() -> None:
    block = pack_block(made({(1, 2): True}))
    with pytest.raises(Corrupt, match="table run"):
        unpack_block(block[:-5] + b"X" + block[-4:], b"k")
    with pytest.raises(SnapshotGone, match="no longer retained"):
        unpack_block(None, b"k")
    with pytest.raises(SnapshotGone, match="no longer retained"):
        unpack_index([(b"k", None)])


@settings(deadline=None)
@given(st.lists(st.integers(1, 5), min_size=1, max_size=12), st.data())
def test_a_cover_has_the_fewest_runs_and_no_gap(lengths: list[int], data: st.DataObject) -> None:
    """Runs that were merged stay listed, so several begin at one snapshot."""
    ends = np.cumsum(lengths).tolist()
    spans = list(zip([1, *(end + 1 for end in ends[:-1])], ends, strict=True))
    for i, j in data.draw(st.lists(st.tuples(st.integers(0, len(ends)), st.integers(0, len(ends))), max_size=4)):
        if i < j and j <= len(spans):
            spans.append((spans[i][0], spans[j - 1][1]))
    runs = RunList(1, 1, tuple(RunEntry(n, first, last, 1, 1, 1) for n, (first, last) in enumerate(spans)))
    for sn in range(ends[-1] + 2):
        cover = runs.cover(sn)
        assert [run.first for run in cover] == [1, *(run.last + 1 for run in cover[:-1])][: len(cover)]
        reached = cover[-1].last if cover else 0
        assert reached == max((last for _, last in spans if last <= sn), default=0)


# ---- reading by blocks


@pytest.fixture
def written(tmp_path: Path) -> tuple[Run, View, LmdbKeyValue]:
    """40,000 rows of few keys with many values, and of many keys; some are deletions."""
    rng = np.random.default_rng(3)
    keys = np.sort(np.concatenate([np.repeat(np.arange(10), 3000), rng.integers(10, 5000, 10_000)])).astype(np.uint64)
    values = np.arange(len(keys), dtype=np.uint64)
    view = view_of((keys, values), rng.random(len(keys)) < 0.9)
    kv = LmdbKeyValue(tmp_path / "store")
    writer = RunWriter(1, 1)
    kv.put_many(writer.add(KEY, view))
    kv.put_many(writer.index_puts())
    (run,) = Runs(kv, Cache()).open([RunEntry(1, 1, 1, 1, writer.rows, writer.nbytes)])
    return run, view, kv


def test_any_keys_are_reached_by_their_blocks(written: tuple[Run, View, LmdbKeyValue]) -> None:
    run, view, kv = written
    rng = random.Random(7)
    column = run.columns[KEY]
    assert len(column.index.rows) == -(-len(view) // BLOCK_ROWS)
    for _ in range(60):
        keys = as_ids(sorted(rng.sample(range(5100), rng.choice([1, 1, 2, 30]))))
        assert observed(rows_of(column.reach(keys), keys)) == observed(rows_of(view, keys))
        if rng.random() < 0.1:
            assert observed(column.whole()) == observed(view)
    assert column.total == len(view)
    kv.close()


def test_a_small_budget_forgets_what_was_not_used_for_longest() -> None:
    cache: Cache[str] = Cache(100)
    for i in range(5):
        cache.put(i, str(i), 40)
    assert [cache.get(i) for i in range(5)] == [None, None, None, "3", "4"]
    cache.get(3)
    ticket = cache.put(5, "5", 60)
    assert (cache.get(3), cache.get(4), cache.nbytes) == ("3", None, 100)
    cache.put(6, "6", 1000)
    assert (cache.get(6), cache.get(5), cache.nbytes) == (None, "5", 100)
    cache.grow(5, ticket, 30)
    assert (cache.get(3), cache.get(5), cache.nbytes) == (None, "5", 90)
    cache.put(5, "another value of this key", 60)
    cache.grow(5, ticket, 5)
    assert cache.nbytes == 60


def test_rows_that_have_left_the_cache_are_let_go_at_once() -> None:
    """The garbage collector visits them seldom, if ever: they must be in no cycle."""
    cache: Cache[Cached] = Cache(1 << 20)
    view = view_of((np.arange(100, dtype=np.uint64), np.arange(100, dtype=np.uint64)), None)
    column = weakref.ref(view.columns[0])
    put_view(cache, 1, view)
    before = cache.nbytes
    hop(view, as_ids(list(range(100))))
    assert cache.nbytes > before, "what was built to find the rows counts"
    gc.disable()
    try:
        cache.drop(1)
        del view
        assert column() is None
    finally:
        gc.enable()


def test_no_rows_do_not_refer_to_a_cache() -> None:
    """They are one value for all stores of the process."""
    put_view(Cache(100), 1, nothing(False))
    assert nothing(False).use.grew is None


def test_what_was_lent_is_called_back_when_something_lendable_leaves_the_cache() -> None:
    cache: Cache[str] = Cache(100)
    lent, other = cache.lend(), cache.lend()
    cache.put(1, "1", 40, lendable=True)
    cache.put(2, "2", 40)
    cache.get(1)
    lent["a"] = other["a"] = "1"
    cache.put(3, "3", 40)  # the second goes
    assert (cache.get(2), lent, other) == (None, {"a": "1"}, {"a": "1"})
    cache.put(4, "4", 40)
    assert (cache.get(1), lent, other) == (None, {}, {})


@settings(deadline=None)
@given(st.data(), st.sampled_from([2, 3]))
def test_rows_picked_out_of_a_stored_block_are_those_of_the_keys(data: st.DataObject, width: int) -> None:
    content = data.draw(rows(width).filter(bool))
    if data.draw(st.booleans()):  # steps of each width, and keys with many rows
        step, many = data.draw(st.sampled_from([1, 300, 70_000, 1 << 40])), data.draw(st.integers(1, 40))
        content |= {(i // many * step, i * step, *[i % 3] * (width - 2)): i % 7 > 0 for i in range(200)}
    if data.draw(st.booleans()):
        content = dict.fromkeys(content, True)
    view = made(content, width)
    present = sorted({row[0] for row in content})
    keys = as_ids(sorted(set(data.draw(st.lists(st.sampled_from(present) | IDS, max_size=20)))))
    value = pack_block(view)
    found = picked([checked_block(value, b"key")], [keys], width == 3)
    assert observed(found) == observed(rows_of(view, keys))
    assert list(observed(found)) == sorted(observed(found))


def test_a_column_that_does_not_fit_is_read_by_stored_blocks_and_the_budget_holds(
    written: tuple[Run, View, LmdbKeyValue],
) -> None:
    _, view, kv = written
    stored = sum(len(value) for _, value in kv.scan("run", b"", None))
    for budget in (stored // 2, 2 * stored, view.nbytes, 3 * view.nbytes):
        cache: Cache[Cached] = Cache(budget)
        (run,) = Runs(kv, cache).open([RunEntry(1, 1, 1, 1, len(view), stored)])
        rng, column = random.Random(7), run.columns[KEY]
        for _ in range(60):
            keys = as_ids(sorted(rng.sample(range(5100), rng.choice([0, 1, 1, 2, 30, 1000]))))
            if rng.random() < 0.3:
                fetch(kv, [(column, keys)])
                if budget > stored and not column.fits:
                    with reading_nothing(kv):
                        column.reach(keys)
            assert observed(rows_of(column.reach(keys), keys)) == observed(rows_of(view, keys))
            if rng.random() < 0.05:
                assert observed(column.whole()) == observed(view)
            assert cache.nbytes <= budget
        assert (column.known() is not None) == column.fits == (budget > 2 * view.nbytes)
    kv.close()


@contextmanager
def reading_nothing(kv: LmdbKeyValue) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(kv, "get_many", lambda *_: pytest.fail("it is in the cache"))
        yield


def test_a_stored_block_that_is_damaged_is_named() -> None:
    value = pack_block(made({(i, i): True for i in range(300)}))
    for cut_off in (1, 40, len(value) - 20):
        damaged = seal(b"RB", value[4 : 4 + cut_off])
        with pytest.raises(Corrupt, match="6b6579"):
            picked([checked_block(damaged, b"key")], [as_ids([5])], False)


def test_an_index_of_nothing_comes_back() -> None:
    writer = RunWriter(5, 9)
    columns: Columns = (np.empty(0, np.uint64), np.empty(0, np.uint64))
    assert list(writer.add(KEY, View(columns))) == []
    (put,) = writer.index_puts()
    assert unpack_index([(put.key, put.value)]) == {}
    assert pack_index({}) != b""


@settings(deadline=None)
@given(st.data(), st.sampled_from([2, 3]))
def test_no_block_is_larger_than_its_rows_allow(data: st.DataObject, width: int) -> None:
    content = data.draw(rows(width).filter(bool))
    assert len(pack_block(made(content, width))) <= block_bytes_max(len(content), width)


@pytest.mark.parametrize("width", [2, 3])
def test_not_even_a_full_block_of_random_numbers_is(width: int) -> None:
    rng = np.random.default_rng(2)
    keys = np.sort(np.append(rng.integers(0, 1 << 63, BLOCK_ROWS // 2), [1 << 62] * (BLOCK_ROWS // 2)))
    columns = [keys, np.arange(BLOCK_ROWS) << 50, *[rng.integers(0, 1 << 63, BLOCK_ROWS)] * (width - 2)]
    view = View(tuple(column.astype(np.uint64) for column in columns), rng.random(BLOCK_ROWS) < 0.5)
    assert len(pack_block(view)) <= block_bytes_max(BLOCK_ROWS, width)
