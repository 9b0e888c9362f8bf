"""Spans of subjects: together they are all edges, each once, whatever the layers, the snapshot and the cuts."""

from __future__ import annotations

import random
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

import hbase_store
from hbase_store import NAMED, Snapshot, Store

_ID_MAX = (1 << 64) - 1


def change(store: Store, chance: random.Random, count: int) -> None:
    """Some edges come and some go, in the default graph and in two named ones."""
    batch = store.begin()
    texts = [b"<http://ex/%d>" % chance.randrange(400) for _ in range(count)]
    s = batch.encode(texts)
    o = batch.encode([b"<http://ex/%d>" % chance.randrange(40) for _ in range(count)])
    graphs = batch.encode([b"<http://ex/g1>", b"<http://ex/g2>"])
    p, some = int(batch.encode([b"<http://ex/p>"])[0]), np.array([chance.random() < 0.3 for _ in range(count)])
    g = np.array([int(chance.choice([0, *graphs.tolist()])) for _ in range(count)], np.uint64)
    batch.insert(s[~some], np.full(int((~some).sum()), p, np.uint64), o[~some], g[~some])
    batch.delete(s[some], np.full(int(some.sum()), p, np.uint64), o[some], g[some])
    store.commit(batch)


def assert_spans_are_all(snapshot: Snapshot, p: int, rows: int, graph: int) -> int:
    cuts = snapshot.cuts(p, rows, graph).tolist()
    assert cuts == sorted(set(cuts))
    spans = list(zip([0, *cuts], [*(cut - 1 for cut in cuts), _ID_MAX], strict=True))
    parts = [snapshot.between(p, first, last, graph) for first, last in spans]
    whole = snapshot.pairs(p, graph=graph)
    for place, column in enumerate(whole):
        assert np.concatenate([part[place] for part in parts]).tolist() == column.tolist()
    return len(spans)


@pytest.mark.parametrize("seed", range(4))
def test_spans_of_subjects_are_all_edges(tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("BLOCK_ROWS", "HASH_BLOCK_ROWS"):
        monkeypatch.setattr(f"hbase_store.layout.run_blocks.{name}", 16)
    chance = random.Random(seed)
    with closing(hbase_store.open(f"lmdb:{tmp_path / 'store'}", folding=False)) as store:
        most = 0
        for _ in range(6):
            change(store, chance, chance.choice((20, 300)))
            if chance.random() < 0.5:
                store.fold()
            p = int(store.ids([b"<http://ex/p>"])[0])
            for snapshot in (store.at(), store.at(chance.randrange(1, int(store.head()) + 1))):
                for graph in (0, NAMED):
                    for rows in (1, 7, 50, 10_000):
                        most = max(most, assert_spans_are_all(snapshot, p, rows, graph))
        assert most > 10


def test_a_batch_that_is_not_written_yet_has_spans_too(tmp_path: Path) -> None:
    chance = random.Random(1)
    with closing(hbase_store.open(f"lmdb:{tmp_path / 'store'}", folding=False)) as store:
        change(store, chance, 200)
        batch = store.begin()
        (s, p, o) = batch.encode([b"<http://ex/new>", b"<http://ex/p>", b"<http://ex/1>"])
        batch.insert([s], [p], [o], [0])
        assert assert_spans_are_all(store.preview(batch).snapshot(), int(p), 20, 0) > 1
