"""A store whose columns do not fit into its cache: reads say the same, and the cache never has more than it may."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import numpy as np
import pytest

import hbase_store
from hbase_store import NAMED, Store
from hbase_store.arrays import as_ids
from hbase_store.layout.terms import iri

SUBJECTS, EDGES = 9_000, 30_000


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Two predicates in three runs, with deletions, in the default graph and in named ones; and a few changes above."""
    path, rng = f"lmdb:{tmp_path_factory.mktemp('small') / 'store'}", np.random.default_rng(4)
    with closing(hbase_store.open(path, folding=False)) as store:
        for written in (EDGES, EDGES // 2, EDGES // 3, 300):
            batch = store.begin()
            nodes = batch.encode([iri(f"http://ex/n{i}") for i in range(SUBJECTS)])
            p, q, g, h = batch.encode([iri(f"http://ex/{name}") for name in "pqgh"]).tolist()
            for predicate, graphs in ((p, [0, 0, g]), (q, [0, g, h])):
                s, o = rng.choice(nodes, written), rng.choice(nodes, written)
                batch.insert(s, predicate, o, rng.choice(as_ids(graphs), written))
                if store.head():
                    batch.delete(rng.choice(nodes, written), predicate, rng.choice(nodes, written), 0)
                    quads = [column[:: EDGES // 300] for column in store.at().quads()]
                    batch.delete(quads[0], quads[1], quads[2], quads[3])
            store.commit(batch)
            if written > 300:
                store.fold()
    return path


def reads(store: Store) -> Iterator[tuple[str, Any]]:
    """What a reader gets of all kinds of reads, in an order that makes columns come and go."""
    rng, snapshot = np.random.default_rng(5), store.at()
    p, q, g, *nodes = store.ids(
        [iri(f"http://ex/{name}") for name in ("p", "q", "g", *(f"n{i}" for i in range(SUBJECTS)))]
    )
    for turn in range(60):
        predicate, inverse, graph = rng.choice([p, q]), bool(turn % 2), (0, NAMED, int(g))[turn % 3]
        some = rng.choice(as_ids(nodes), (1, 3, 40, 700)[turn % 4])
        yield "neighbours", [column.tolist() for column in snapshot.neighbours(predicate, some, inverse, graph)]
        yield "values", snapshot.values(predicate, some[0], inverse).tolist()
        yield "hop", sorted(snapshot.hop(predicate, some, inverse)[1].tolist())
        yield "degrees", snapshot.degrees(predicate, some, inverse, graph).tolist()
        yield "contains", snapshot.contains(some, np.full(len(some), predicate), np.roll(some, 1), 0 * some).tolist()
        yield "predicates", [column.tolist() for column in snapshot.predicates_of(some, inverse, graph)]
        if turn % 10 == 0:
            yield "pairs", [column.tolist() for column in snapshot.pairs(predicate, inverse, graph)]
            yield "count", snapshot.count(predicate, graph)


@pytest.mark.parametrize("budget", [0, 20_000, 200_000, 600_000, 2_000_000])
def test_a_small_cache_changes_no_answer(folder: str, budget: int) -> None:
    with closing(hbase_store.open(folder, folding=False, read_only=True)) as store:
        expected = list(reads(store))
        assert any(answer for _, answer in expected)
    with closing(hbase_store.open(folder, folding=False, read_only=True, cache_bytes=budget)) as store:
        for (kind, answer), found in zip(expected, reads(store), strict=True):
            assert found == (kind, answer)
            assert store._edges.cache.nbytes <= budget
