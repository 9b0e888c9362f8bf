"""What a join remembers of one side, against a list of rows: in rings that the cache holds, and in greater ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np
import pytest

from stream_ext.errors import QueryTooLarge
from stream_ext.evaluation_budget import Control
from stream_ext.rows import row_index
from stream_ext.rows.kernels import ring as ring_kernels
from stream_ext.rows.row_index import JoinedRings, KeyedRows, RowIndex, SideBySideRows
from stream_ext.rows.zset import ZSet

_WIDTH = 3
Row = tuple[int, ...]


def rows_of(chance: np.random.Generator, count: int, time: int, weighted: bool) -> ZSet:
    """Many agree in some columns; they end at different times, some at once."""
    columns = tuple(chance.integers(1, 12, count).astype(np.uint64) for _ in range(_WIDTH))
    untils = time + chance.integers(0, 12, count)
    return ZSet(columns, count, chance.integers(1, 4, count) if weighted else None, untils)


@pytest.mark.parametrize("key", [(0,), (2,), (0, 2), (2, 1, 0), ()])
@pytest.mark.parametrize("capacity", [1, ring_kernels._CACHED + 1])
@pytest.mark.parametrize("weighted", [False, True])
def test_rows_find_those_that_agree_with_them(key: Sequence[int], capacity: int, weighted: bool) -> None:
    chance = np.random.default_rng(len(key))
    index, held = RowIndex(_WIDTH, key, capacity), list[tuple[Row, int, int]]()
    for time in range(25):
        asked = rows_of(chance, int(chance.integers(0, 30)), time, False)
        rows, limit = KeyedRows.of(asked, key), int(index.number - chance.integers(0, 50))
        old = index.number - len(held)  # of the first that the list still has
        for bound, known in ((1 << 31, held), (limit, held[: max(limit - old, 0)])):
            found = index.partners(rows, time, bound)
            out = SideBySideRows(2 * _WIDTH, len(found[0]), True)
            index.pair(rows, found, (0, _WIDTH), 0, out)
            weights = out.weights if out.weights is not None else np.ones(0, np.int64)
            observed = zip(*(line.tolist() for line in out.matrix), out.untils.tolist(), weights.tolist(), strict=True)
            assert Counter(observed) == Counter(pairs(asked, key, known, time))
        i, places = index.probe(tuple(asked.column(place) for place in key), asked.count, time)
        assert len(i) == len(list(pairs(asked, key, held, time))) == len(index.at(places))
        came = rows_of(chance, int(chance.integers(0, 100)), time, weighted and time > 4)
        before = index.number
        index.insert(came, time)
        if index.number - before != came.count:  # laid out anew, of what is valid: numbers begin again
            held = [each for each in held if each[1] >= time]
        held += zip(listed(came), came.until_array().tolist(), came.weight_array().tolist(), strict=True)
        assert sorted(listed(index.valid_rows(time))) == sorted(row for row, until, _ in held if until >= time)
    assert len(index) <= index.capacity


@pytest.mark.parametrize("key", [(0,), (2,), (0, 2), (2, 1, 0), ()])
@pytest.mark.parametrize("capacity", [1, ring_kernels._CACHED + 1])
@pytest.mark.parametrize("pairs_least", [1, 64])
@pytest.mark.parametrize("seed", range(2))
def test_a_step_of_a_join_finds_each_pair_once(
    key: Sequence[int], capacity: int, pairs_least: int, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing, one row, a few, and as many as come to a block or more of them; some rows count several times."""
    monkeypatch.setattr(row_index, "_PAIRS_LEAST", pairs_least)
    chance, rest = np.random.default_rng(seed), [place for place in range(_WIDTH) if place not in key]
    left, right = RowIndex(_WIDTH, key, capacity), RowIndex(_WIDTH, key, capacity)
    rings = JoinedRings(left, right, rest)
    held: tuple[list[tuple[Row, int, int]], list[tuple[Row, int, int]]] = [], []
    for time in range(6):
        sizes = [int(chance.choice([0, 1, 3, 10, 63, 64, 65, *([256, 257] if len(key) > 1 else [])])) for _ in held]
        came = [rows_of(chance, size, time, bool(seed) and time > 2 * seed) for size in sizes]
        if not any(sizes):
            continue
        found = rings.step(came[0], came[1], time, Control.FREE, 1)
        expected = Counter(joined(entries(came[0]), held[1], key, rest, time))
        for own, rows in zip(held, came, strict=True):
            own += entries(rows)
        expected += Counter(joined(held[0], entries(came[1]), key, rest, time))
        lines = zip(*(line.tolist() for line in found.columns), found.until_array().tolist(), strict=True)
        observed = Counter((*line, weight) for line, weight in zip(lines, found.weight_array().tolist(), strict=True))
        assert observed == expected
        assert sum(observed.values()) == found.count


def test_rows_without_a_key_that_are_too_many_are_refused_with_their_number() -> None:
    chance = np.random.default_rng(1)
    rings = JoinedRings(RowIndex(_WIDTH, (), 1), RowIndex(_WIDTH, (), 1), (0, 1, 2))
    many, more = rows_of(chance, 300, 20, False), rows_of(chance, 500, 20, False)
    with pytest.raises(QueryTooLarge, match="would make 150000 solutions at once"):
        rings.step(many, more, 0, Control(bytes_max=100_000), 8)


def entries(rows: ZSet) -> list[tuple[Row, int, int]]:
    return list(zip(listed(rows), rows.until_array().tolist(), rows.weight_array().tolist(), strict=True))


def joined(
    left: Sequence[tuple[Row, int, int]], right: Sequence[tuple[Row, int, int]], key: Sequence[int],
    rest: Sequence[int], time: int,
) -> Iterator[Row]:  # fmt: skip
    by_key: dict[Row, list[tuple[Row, int, int]]] = {}
    for each in right:
        if each[1] >= time:
            by_key.setdefault(tuple(each[0][place] for place in key), []).append(each)
    for mine, until, weight in left:
        for theirs, their_until, their_weight in by_key.get(tuple(mine[place] for place in key), ()):
            if until >= time:
                yield (*mine, *(theirs[place] for place in rest), min(until, their_until), weight * their_weight)


def listed(rows: ZSet) -> list[Row]:
    return list(zip(*(column.tolist() for column in rows.columns), strict=True))


def pairs(asked: ZSet, key: Sequence[int], held: Sequence[tuple[Row, int, int]], time: int) -> list[Row]:
    return [
        (*mine, *theirs, min(until, theirs_until), weight)
        for mine, until in zip(listed(asked), asked.until_array().tolist(), strict=True)
        for theirs, theirs_until, weight in held
        if theirs_until >= time and all(mine[place] == theirs[place] for place in key)
    ]
