"""The neighbours of many keys at once, against sets of Python tuples: whatever the ids are, and whatever lies above."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import hbase_store
from hbase_store import NAMED
from hbase_store.arrays import Columns, Ids, as_ids
from hbase_store.layout.terms import integer_id
from hbase_store.sorted.hops import Directory, Table, hop, hop_over
from hbase_store.sorted.view import View

Row = tuple[int, ...]
KINDS = ["close together", "far apart", "of two kinds", "one alone"]


def keys_of(kind: str, rng: np.random.Generator) -> Ids:
    if kind == "close together":
        return as_ids(range(7_000, 9_000))
    if kind == "far apart":
        return as_ids(rng.integers(0, 1 << 63, 2_000, dtype=np.uint64))
    if kind == "of two kinds":
        return as_ids([*range(1, 1000), *(integer_id(number) for number in range(-500, 500))])
    return as_ids([1 << 40])


def view_of(rows: set[Row], deleted: set[Row], width: int) -> View:
    ordered = sorted(rows | deleted)
    columns: Columns = tuple(as_ids([row[place] for row in ordered]) for place in range(width))
    return View(columns, np.array([row not in deleted for row in ordered], np.bool_) if deleted else None)


def observed(offsets: np.ndarray, *columns: Ids) -> list[list[Row]]:  # type: ignore[type-arg]  # of offsets
    rows = list(zip(*(column.tolist() for column in columns), strict=True))
    return [rows[start:end] for start, end in zip(offsets.tolist(), offsets[1:].tolist(), strict=False)]


@pytest.mark.parametrize("width", [2, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_the_rows_of_each_key_are_found_with_what_changed_above(kind: str, width: int) -> None:
    rng = np.random.default_rng(8)
    keys = keys_of(kind, rng)

    def some(count: int) -> set[Row]:
        drawn = [rng.choice(keys, count), *(rng.integers(1, 9, count) for _ in range(width - 1))]
        return set(zip(*(column.tolist() for column in drawn), strict=True))

    rows = some(6_000)
    gone = set(sorted(rows)[::7])
    come = some(300) - gone
    asked = np.concatenate([rng.choice(keys, 500), as_ids([1, 6_999, 9_000, 1 << 62])])
    before, after = view_of(rows, set(), width), (rows | come) - gone
    changes = view_of(come, gone | set(sorted(some(50) - come - rows)[:20]), width)
    for _ in range(30):  # soon a way to find keys is made, which must not change what is found
        found = observed(*hop(before, asked))
        over = observed(*hop_over(before, changes, asked))
    for key, there, later in zip(asked.tolist(), found, over, strict=True):
        assert there == sorted(row[1:] for row in rows if row[0] == key)
        assert later == sorted(row[1:] for row in after if row[0] == key)
    assert isinstance(before.use.way, Directory if kind in ("close together", "one alone") else Table)
    assert len(observed(*hop(before, as_ids([])))) == 0


def test_a_store_hops_alike_through_runs_slabs_and_deletions(tmp_path: Path) -> None:
    store = hbase_store.open(f"lmdb:{tmp_path}/store", folding=False)
    rng = np.random.default_rng(3)
    batch = store.begin()
    p, *nodes = batch.encode([b"<http://ex/p>", *(b"<http://ex/%d>" % i for i in range(1_500))]).tolist()
    store.commit(batch)
    expected: set[tuple[int, int, int]] = set()
    for step in range(12):
        size = 15_000 if step == 0 else 500
        s, o, g = (rng.choice(nodes, size) for _ in range(3))
        g = np.where(rng.random(size) < 0.5, 0, g % np.uint64(3)).astype(np.uint64)
        gone = as_ids(sorted(expected)[:: 40 + step]).reshape(-1, 3)
        batch = store.begin()
        batch.insert(s, p, o, g)
        batch.delete(gone[:, 0], p, gone[:, 1], gone[:, 2])
        store.commit(batch)
        expected |= set(zip(s.tolist(), o.tolist(), g.tolist(), strict=True))
        expected -= {(a, b, c) for a, b, c in gone.tolist()}
        if step in (0, 3, 5):
            store.fold()
        keys = as_ids([*rng.choice(nodes, 600).tolist(), 1])
        for inverse in (False, True):
            for graph in (0, NAMED, 1):
                found = observed(*store.at().neighbours(p, keys, inverse, graph))
                wanted: dict[int, list[Row]] = {int(key): [] for key in keys}
                for a, b, c in expected:
                    key, value = (b, a) if inverse else (a, b)
                    if key in wanted and (c == graph if graph >= 0 else c != 0):
                        wanted[key].append((value, c) if graph == NAMED else (value,))
                assert found == [sorted(wanted[key]) for key in keys.tolist()]
                if graph == 0:
                    for key in keys[:80].tolist():
                        assert store.at().values(p, key, inverse).tolist() == sorted(row[0] for row in wanted[key])
    store.close()
