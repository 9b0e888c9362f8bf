"""Held edges, copies of another store's, lie beside our own: whoever does not ask for them reads a store without."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import hbase_store
from hbase_store import NAMED, Batch, Preview, Snapshot, Store
from hbase_store.clock import WallClock
from hbase_store.layout import terms
from hbase_store.layout.terms import iri
from tests.hbase_store.model import Model, Operation, Quad
from tests.hbase_store.pretended_hbase import PretendedHBase

NODES = [iri(f"http://ex/{name}") for name in "abcd"]
PREDICATES = [iri(f"http://ex/{name}") for name in "pqr"]
GRAPHS = [None, *(iri(f"http://ex/{name}") for name in "ghi")]


@pytest.fixture(params=["lmdb", "hbase"])
def store(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    if request.param == "lmdb":
        opened = hbase_store.open(f"lmdb:{tmp_path}/store", folding=False)
    else:
        backend = PretendedHBase().backend(monkeypatch)
        opened = Store(backend, "hbase://nowhere/rillet", WallClock(), folding=False)
    yield opened
    opened.close()


def applied(batch: Batch, operations: list[Operation], held: bool) -> None:
    for inserts, (s, p, o, g) in operations:
        ids = batch.encode([s, p, o])
        graph = 0 if g is None else batch.encode([g])[0]
        predicate = terms.held(int(ids[1])) if held else ids[1]
        (batch.insert if inserts else batch.delete)(ids[0], predicate, ids[2], graph)


def some(chance: random.Random) -> list[Operation]:
    return [
        (
            chance.random() < 0.6,
            (chance.choice(NODES), chance.choice(PREDICATES), chance.choice(NODES), chance.choice(GRAPHS)),
        )
        for _ in range(chance.randrange(12))
    ]


def read(decode: Store | Preview, snapshot: Snapshot, held: bool) -> set[Quad]:
    """All quads, by each way that lists predicates or graphs; all must agree."""

    def text(id: int) -> bytes:
        return decode.terms(np.array([id], np.uint64))[0]

    whole: set[Quad] = set()
    for place in (0, NAMED):
        for p in snapshot.predicates(place, held=held).tolist():
            s, o, *g = snapshot.pairs(terms.held(p) if held else p, graph=place)
            graphs = [text(each) for each in g[0].tolist()] if g else [None] * len(s)
            whole |= {(text(a), text(p), text(b), c) for a, b, c in zip(s.tolist(), o.tolist(), graphs, strict=True)}
    graphs = [None, *(text(each) for each in snapshot.graphs(held=held).tolist())]
    assert set(graphs[1:]) == {quad[3] for quad in whole} - {None}
    nodes = [int(each) for each in np.unique(decode.ids(NODES)) if each]
    for graph in graphs:
        id = 0 if graph is None else int(decode.ids([graph])[0])
        of_graph = {quad[:3] for quad in whole if quad[3] == graph}
        assert {text(p) for p in snapshot.predicates(id, held=held).tolist()} == {p for _, p, _ in of_graph}
        for inverse in (False, True):
            offsets, predicates = snapshot.predicates_of(np.array(nodes, np.uint64), inverse, id, held=held)
            places = np.repeat(np.arange(len(nodes)), np.diff(offsets)).tolist()
            found = {(text(nodes[i]), text(p)) for i, p in zip(places, predicates.tolist(), strict=True)}
            assert found == {((o if inverse else s), p) for s, p, o in of_graph}
        if not held:
            s, p, o = (column.tolist() for column in snapshot.graph_quads(id))
            assert {(text(a), text(b), text(c)) for a, b, c in zip(s, p, o, strict=True)} == of_graph
            assert snapshot.count_all(id) == len(of_graph)
    if not held:
        assert len(snapshot.quads()[0]) == len(whole)
        assert snapshot.count_all(NAMED) == sum(quad[3] is not None for quad in whole)
    return whole


@pytest.mark.parametrize("seed", range(6))
def test_our_own_edges_and_held_ones_are_two_stores_that_do_not_meet(store: Store, seed: int) -> None:
    chance = random.Random(seed)
    ours, copies = Model(), Model()
    for _ in range(8):
        batch = store.begin()
        mine, theirs = some(chance), some(chance)
        applied(batch, mine, held=False)
        applied(batch, theirs, held=True)
        ours.commit(mine)
        copies.commit(theirs)
        preview = store.preview(batch)
        assert read(preview, preview.snapshot(), held=False) == ours.snapshots[-1]
        assert read(preview, preview.snapshot(), held=True) == copies.snapshots[-1]
        sn = store.commit(batch)
        if chance.random() < 0.3:
            store.fold()
        assert read(store, store.at(sn), held=False) == ours.snapshots[-1]
        assert read(store, store.at(sn), held=True) == copies.snapshots[-1]
        both = changes(store, sn, held=True)
        assert changes(store, sn, held=False) == ours.changes(sn)
        assert store.has_changed(sn) is bool(both)
        assert both == {(quad, sign, False) for quad, sign in ours.changes(sn)} | {
            (quad, sign, True) for quad, sign in copies.changes(sn)
        }


def changes(store: Store, sn: int, held: bool) -> set[object]:
    rows = store.net_changes(sn, held=held)
    found: set[object] = set()
    for s, p, o, g, sign in zip(*(c.tolist() for c in (rows.s, rows.p, rows.o, rows.g, rows.sign)), strict=True):
        graph = store.terms(np.array([g], np.uint64))[0] if g else None
        own = p & terms.DATA_MASK
        a, b, c = store.terms(np.array([s, own, o], np.uint64))
        assert held or p == own
        quad = (a, b, c, graph)
        found.add((quad, sign, p != own) if held else (quad, sign))
    return found


def test_changes_of_a_predicate_have_those_of_held_edges_only_if_they_are_asked_for(store: Store) -> None:
    batch = store.begin()
    applied(batch, [(True, (NODES[0], PREDICATES[0], NODES[1], None))], held=True)
    sn = store.commit(batch)
    p = int(store.ids([PREDICATES[0]])[0])
    assert len(store.net_changes(sn, [p])) == 0
    assert store.net_changes(sn, [p], held=True).p.tolist() == [terms.held(p)]
    store.fold()
    assert not len(store.at(sn).predicates()) and not len(store.at(sn).graphs())
    assert store.at(sn).predicates(held=True).tolist() == [p]
