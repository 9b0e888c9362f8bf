"""How many neighbours a vertex has, about: what joins are ordered by."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

import hbase_store
from hbase_store import Store


def filled(store: Store) -> int:
    """Ten subjects with thirty objects each; an object has one subject. The predicate's id."""
    batch = store.begin()
    (p,) = batch.encode([b"<http://ex/p>"])
    s = batch.encode([b"<http://ex/s%d>" % (n // 30) for n in range(300)])
    o = batch.encode([b"<http://ex/o%d>" % n for n in range(300)])
    batch.insert(s, np.full(300, p), o, np.zeros(300, np.uint64))
    store.commit(batch)
    return int(p)


@pytest.mark.parametrize("folded", [False, True])
def test_the_fan_of_a_predicate_is_its_edges_by_its_vertices(tmp_path: Path, folded: bool) -> None:
    with closing(hbase_store.open(f"lmdb:{tmp_path / 'store'}", folding=False)) as store:
        p = filled(store)
        if folded:
            store.fold()
        snapshot = store.at()
        assert snapshot.fan(p) == 30
        assert snapshot.fan(p, inverse=True) == 1


def test_a_predicate_without_edges_has_a_fan_that_divides_nothing(tmp_path: Path) -> None:
    with closing(hbase_store.open(f"lmdb:{tmp_path / 'store'}", folding=False)) as store:
        assert store.at().fan(12345) == 1
