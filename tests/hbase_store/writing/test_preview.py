"""A preview answers as the store will once the batch is committed, and as before what the batch is told later."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hbase_store
from hbase_store import NAMED, Batch, Snapshot, Store
from hbase_store.arrays import Ids, as_ids
from hbase_store.layout.terms import iri
from tests.hbase_store.model import Model, Operation, Quad

VERTICES = [iri(f"http://ex/v{i}") for i in range(5)] + [b'"1"^^<http://www.w3.org/2001/XMLSchema#integer>']
PREDICATES = [iri(f"http://ex/p{i}") for i in range(3)]
GRAPHS = [None, iri("http://ex/g"), iri("http://ex/h")]

QUADS = st.tuples(
    st.sampled_from(VERTICES[:-1]), st.sampled_from(PREDICATES), st.sampled_from(VERTICES), st.sampled_from(GRAPHS)
)
OPERATIONS = st.lists(st.tuples(st.booleans(), QUADS), max_size=12)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = hbase_store.open(f"lmdb:{tmp_path}/store", folding=False)
    yield opened
    opened.close()


def tell(batch: Batch, operations: Iterable[Operation]) -> None:
    for inserts, (s, p, o, g) in operations:
        ids = batch.encode([s, p, o])
        graph = batch.encode([g])[0] if g is not None else 0
        (batch.insert if inserts else batch.delete)(*ids, g=graph)


def applied(quads: frozenset[Quad], operations: Iterable[Operation]) -> frozenset[Quad]:
    model = Model()
    model.commit((True, quad) for quad in quads)
    model.commit(operations)
    return model.snapshots[-1]


class Reader:
    """Asks a snapshot in every way there is, in terms."""

    def __init__(self, snapshot: Snapshot, ids: Callable[[Sequence[bytes]], Ids], terms: Callable[[Ids], list[bytes]]):
        self.snapshot, self._terms = snapshot, terms
        self._ids = {text: int(ids([text])[0]) for text in [*VERTICES, *PREDICATES, *filter(None, GRAPHS)]}

    def check(self, quads: frozenset[Quad]) -> None:
        assert self.all() == quads
        snapshot = self.snapshot
        assert snapshot.count_all() == sum(quad[3] is None for quad in quads)
        assert snapshot.count_all(NAMED) == sum(quad[3] is not None for quad in quads)
        assert self._names(snapshot.graphs()) == {g for *_, g in quads if g is not None}
        for graph in GRAPHS:
            if graph is None or self._ids[graph]:
                self._check_graph(graph, {quad[:3] for quad in quads if quad[3] == graph})
        known = [quad for quad in quads if all(self._ids[term] for term in quad if term is not None)]
        assert len(known) == len(quads), "what is there has an id"
        sought = [(s, p, o, g) for s in VERTICES for p in PREDICATES for o in VERTICES for g in GRAPHS]
        sought = [quad for quad in sought if all(self._ids[term] for term in quad if term is not None)]
        columns = [as_ids([0 if quad[i] is None else self._ids[quad[i]] for quad in sought]) for i in range(4)]
        found = snapshot.contains(*columns)
        assert {quad for quad, there in zip(sought, found, strict=True) if there} == quads

    def all(self) -> frozenset[Quad]:
        s, p, o, g = self.snapshot.quads()
        names = [None if not id else self._terms(as_ids([id]))[0] for id in g.tolist()]
        rows = list(zip(self._terms(s), self._terms(p), self._terms(o), names, strict=True))
        assert len(set(rows)) == len(rows)
        return frozenset(rows)

    def _names(self, ids: Ids) -> set[bytes]:
        return set(self._terms(ids))

    def _check_graph(self, name: bytes | None, triples: set[tuple[bytes, bytes, bytes]]) -> None:
        snapshot, graph = self.snapshot, 0 if name is None else self._ids[name]
        assert set(zip(*(self._terms(column) for column in snapshot.graph_quads(graph)), strict=True)) == triples
        assert snapshot.count_all(graph) == len(triples)
        assert self._names(snapshot.predicates(graph)) == {p for _, p, _ in triples}
        for p in PREDICATES:
            if self._ids[p]:
                edges = [(s, o) for s, of, o in triples if of == p]
                assert snapshot.count(self._ids[p], graph) == len(edges)
                self._check_neighbours(self._ids[p], graph, edges, False)
                self._check_neighbours(self._ids[p], graph, [(o, s) for s, o in edges], True)
        for inverse in (False, True):
            keys = np.sort(as_ids([self._ids[v] for v in VERTICES if self._ids[v]]))
            offsets, predicates = snapshot.predicates_of(keys, inverse, graph)
            found = set(zip(self._terms(np.repeat(keys, np.diff(offsets))), self._terms(predicates), strict=True))
            assert found == {(o if inverse else s, p) for s, p, o in triples}

    def _check_neighbours(self, p: int, graph: int, edges: list[tuple[bytes, bytes]], inverse: bool) -> None:
        keys = as_ids([self._ids[v] for v in reversed(VERTICES) if self._ids[v]])
        offsets, values = self.snapshot.neighbours(p, keys, inverse, graph)
        found = zip(self._terms(np.repeat(keys, np.diff(offsets))), self._terms(values), strict=True)
        assert Counter(found) == Counter(edges)
        assert Counter(zip(*map(self._terms, self.snapshot.pairs(p, inverse, graph)), strict=True)) == Counter(edges)
        if graph == 0:
            one_by_one = [(key, value) for key in keys.tolist() for value in self.snapshot.values(p, key, inverse)]
            assert Counter(one_by_one) == Counter(
                (key, value) for key, value in zip(*(c.tolist() for c in self.snapshot.pairs(p, inverse)), strict=True)
            )


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(OPERATIONS, st.booleans()), max_size=3), st.lists(OPERATIONS, min_size=1, max_size=4))
def test_a_preview_reads_as_a_plain_set_of_quads_would(
    tmp_path_factory: pytest.TempPathFactory,
    committed: list[tuple[list[Operation], bool]],
    observed: list[list[Operation]],
) -> None:
    store = hbase_store.open(f"lmdb:{tmp_path_factory.mktemp('preview')}/store", folding=False)
    try:
        quads: frozenset[Quad] = frozenset()
        for operations, folds in committed:
            batch = store.begin()
            tell(batch, operations)
            store.commit(batch)
            quads = applied(quads, operations)
            if folds:
                store.fold()
        batch = store.begin()
        preview = store.preview(batch)
        taken: list[tuple[Reader, frozenset[Quad]]] = []
        for operations in observed:
            tell(batch, operations)
            quads = applied(quads, operations)
            reader = Reader(preview.snapshot(), preview.ids, preview.terms)
            reader.check(quads)
            taken.append((reader, quads))
        for reader, then in taken:
            assert reader.all() == then, "it does not see what the batch was told later"
        assert Reader(store.at(store.commit(batch)), store.ids, store.terms).all() == quads
    finally:
        store.close()


@settings(max_examples=40, deadline=None)
@given(OPERATIONS, st.lists(OPERATIONS, min_size=2, max_size=4))
def test_batches_that_are_committed_together_see_one_another_in_order(
    tmp_path_factory: pytest.TempPathFactory, committed: list[Operation], together: list[list[Operation]]
) -> None:
    store = hbase_store.open(f"lmdb:{tmp_path_factory.mktemp('together')}/store", folding=False)
    try:
        first = store.begin()
        tell(first, committed)
        store.commit(first)
        quads = [applied(frozenset(), committed)]
        batches: list[Batch] = []
        for operations in together:
            batch = store.begin(batches)
            preview = store.preview(batch)
            Reader(preview.snapshot(), preview.ids, preview.terms).check(quads[-1])
            tell(batch, operations)
            quads.append(applied(quads[-1], operations))
            Reader(preview.snapshot(), preview.ids, preview.terms).check(quads[-1])
            assert preview.snapshot().sn == 2 + len(batches)
            batches.append(batch)
        assert store.commit(*batches) == 1 + len(together)
        for sn, then in enumerate(quads, 1):
            Reader(store.at(sn), store.ids, store.terms).check(then)
    finally:
        store.close()


def test_new_terms_are_known_to_the_preview_only(store: Store) -> None:
    first = store.begin()
    tell(first, [(True, (VERTICES[0], PREDICATES[0], VERTICES[1], None))])
    store.commit(first)
    batch = store.begin()
    preview = store.preview(batch)
    texts = [VERTICES[2], VERTICES[0], iri("http://ex/nobody"), VERTICES[5]]
    assert (preview.ids(texts) == 0).tolist() == [True, False, True, False]
    ids = batch.encode([*texts[:2], *VERTICES])
    assert preview.terms(ids) == [*texts[:2], *VERTICES]
    assert preview.ids(texts)[0] == ids[0]
    assert store.ids(texts)[0] == 0
    fresh = batch.blanks(2)
    assert preview.terms(fresh) == store.terms(fresh)


def test_a_preview_without_changes_is_the_snapshot_below(store: Store) -> None:
    batch = store.begin()
    assert store.preview(batch).snapshot().count_all() == 0
    tell(batch, [(True, (VERTICES[0], PREDICATES[0], VERTICES[1], None))])
    store.commit(batch)
    preview = store.preview(store.begin())
    assert preview.snapshot() is preview.snapshot()
    Reader(preview.snapshot(), preview.ids, preview.terms).check(
        frozenset({(VERTICES[0], PREDICATES[0], VERTICES[1], None)})
    )


def test_a_batch_without_a_change_is_empty(store: Store) -> None:
    batch = store.begin()
    batch.encode([VERTICES[0]])
    assert batch.is_empty
    batch.delete(*batch.encode([VERTICES[0], PREDICATES[0], VERTICES[1]]), g=0)
    assert not batch.is_empty


def test_many_new_terms_are_decoded_in_any_order(store: Store) -> None:
    batch = store.begin()
    texts = [iri(f"http://ex/{i}") for i in range(10_000)]
    ids = batch.encode(texts)
    order = np.random.default_rng(1).permutation(len(texts))
    assert batch.terms(ids[order]) == [texts[i] for i in order]
    batch.insert(ids[0], ids[1], ids[2], 0)
    store.commit(batch)
    later = store.begin()
    more = later.encode([*texts[:5], *(iri(f"http://ex/more/{i}") for i in range(5))])
    assert later.terms(more) == [*texts[:5], *(iri(f"http://ex/more/{i}") for i in range(5))]
