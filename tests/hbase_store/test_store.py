"""What a store promises to whoever writes and reads it."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hbase_store
from hbase_store import NAMED, PushMark, Store, StreamColumns, StreamMove, StreamPosition
from hbase_store.arrays import Ids, as_ids
from hbase_store.errors import BadRow, BadStoreUrl, Corrupt, SnapshotGone, StoreError
from hbase_store.layout.rows import slab_key
from hbase_store.layout.terms import iri, literal
from hbase_store.sorted import kernels
from tests.hbase_store.model import Model, Operation, Quad
from tests.parts.processes import started

S, P, Q, O, G, H = (iri(f"http://ex/{name}") for name in "spqogh")  # noqa: E741  # as in s, p, o
ONE = literal("1", datatype="http://www.w3.org/2001/XMLSchema#integer")
NODE = b"_:b7"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = hbase_store.open(f"lmdb:{tmp_path}/store")
    yield opened
    opened.close()


def write(store: Store, operations: list[Operation]) -> int:
    batch = store.begin()
    for inserts, (s, p, o, g) in operations:
        ids = batch.encode([s, p, o])
        graph = batch.encode([g])[0] if g is not None else 0
        (batch.insert if inserts else batch.delete)(ids[0], ids[1], ids[2], graph)
    return store.commit(batch)


def add(store: Store, *quads: Quad) -> int:
    return write(store, [(True, quad) for quad in quads])


def quads(store: Store, sn: int) -> set[Quad]:
    """All quads, by way of both directions, which must agree."""
    snapshot = store.at(sn)
    found: set[Quad] = set()
    for graph in (0, NAMED):
        for p in snapshot.predicates(graph).tolist():
            s, o, *g = snapshot.pairs(p, graph=graph)
            inverse = snapshot.pairs(p, inverse=True, graph=graph)
            assert {*zip(s.tolist(), o.tolist(), *map(list, g), strict=True)} == {
                (s, o, *g) for o, s, *g in zip(*(column.tolist() for column in inverse), strict=True)
            }
            assert len(s) == snapshot.count(p, graph)
            graphs = store.terms(g[0]) if g else [None] * len(s)
            found |= set(
                zip(store.terms(s), store.terms(np.full(len(s), p, np.uint64)), store.terms(o), graphs, strict=True)
            )
    return found


# ---- terms and ids


def test_terms_get_consecutive_ids_and_come_back(store: Store) -> None:
    batch = store.begin()
    texts = [iri(f"http://ex/{i}") for i in range(5000)] + [ONE, NODE]
    ids = batch.encode(texts)
    assert (np.diff(ids[:5000].astype(np.int64)) == 1).all()
    assert batch.encode(texts).tolist() == ids.tolist()
    store.commit(batch)
    assert store.terms(ids) == texts
    assert store.terms(ids[::-1][:3]) == texts[::-1][:3]
    assert store.terms(np.repeat(ids[-100:], 2)) == [text for text in texts[-100:] for _ in range(2)]
    assert store.ids(texts).tolist() == ids.tolist()
    assert store.ids([b"<http://ex/unknown>", b'"01"^^<x>', b"_:label"]).tolist() == [0, 0, 0]


def test_a_term_that_comes_twice_has_one_id(store: Store) -> None:
    ids = store.begin().encode([S, P, S, ONE, ONE])
    assert ids[0] == ids[2] != ids[1]
    assert ids[3] == ids[4]


def test_terms_of_a_dropped_batch_are_unknown_and_their_ids_are_not_used_again(store: Store) -> None:
    dropped = store.begin().encode([S, P])
    add(store, (P, S, O, None))
    assert not np.isin(store.ids([S, P, O]), dropped).any()
    with pytest.raises(Corrupt, match=f"no term has the id {dropped[0]}"):
        store.terms(dropped)


def test_a_label_of_a_document_is_refused_and_a_blank_node_of_the_store_is_not(store: Store) -> None:
    batch = store.begin()
    with pytest.raises(ValueError, match=r"Batch\.blanks"):
        batch.encode([S, b"_:x"])
    fresh = batch.blanks(3)
    assert len(set(fresh.tolist()) | set(batch.blanks(2).tolist())) == 5
    assert batch.encode(store.terms(fresh)).tolist() == fresh.tolist()


def test_what_is_no_term_is_refused(store: Store) -> None:
    batch = store.begin()
    with pytest.raises(ValueError, match="not the N-Triples text"):
        batch.encode([b"http://ex/a"])
    with pytest.raises(BadRow, match="it may have at most"):
        batch.encode([b'"' + b"x" * (5 << 20) + b'"'])
    with pytest.raises(ValueError, match="id 0"):
        batch.insert(1, 0, 1, 0)
    with pytest.raises(ValueError, match="id 0"):
        store.terms(as_ids([0]))


# ---- snapshots


def test_a_snapshot_does_not_see_what_comes_after_it(store: Store) -> None:
    add(store, (S, P, O, None), (S, P, O, G))
    before = store.at()
    write(store, [(False, (S, P, O, None)), (True, (S, Q, ONE, G))])
    p, q = store.ids([P, Q]).tolist()
    assert before.sn == 1
    assert (before.count(p), before.count(q, NAMED), before.predicates(NAMED).tolist()) == (1, 0, [p])
    after = store.at()
    assert (after.count(p), after.count(q, NAMED), after.predicates().tolist()) == (0, 1, [])
    assert store.terms(after.graphs()) == [G]
    assert (after.count_all(), after.count_all(NAMED), after.count_all(int(store.ids([G])[0]))) == (0, 2, 2)


def test_an_empty_store_has_a_snapshot_without_anything(store: Store) -> None:
    snapshot = store.at()
    assert (snapshot.sn, snapshot.count_all(), snapshot.predicates().tolist(), snapshot.graphs().tolist()) == (
        0,
        0,
        [],
        [],
    )
    assert snapshot.pairs(5)[0].tolist() == []
    assert [column.tolist() for column in snapshot.neighbours(5, as_ids([1, 2]), graph=NAMED)] == [[0, 0, 0], [], []]
    assert snapshot.contains(*[as_ids([1])] * 4).tolist() == [False]
    assert (store.vts(0), store.catalog(0)) == ({}, {})


def test_snapshots_that_are_not_there_are_named(store: Store) -> None:
    add(store, (S, P, O, None))
    for wrong in (-1, 2):
        with pytest.raises(SnapshotGone, match=f"no snapshot {wrong}"):
            store.at(wrong)
        with pytest.raises(SnapshotGone, match=f"no snapshot {wrong}"):
            store.net_changes(wrong)
    with pytest.raises(SnapshotGone, match="no snapshot 0; the first one is 1"):
        store.row(0)


def test_what_is_read_cannot_be_changed(store: Store) -> None:
    add(store, (S, P, O, None), (S, P, O, G))
    p = int(store.ids([P])[0])
    for column in (*store.at().pairs(p), *store.at().pairs(p, graph=NAMED)):
        with pytest.raises(ValueError, match="read-only"):
            column[0] = 1


def test_neighbours_of_many_keys_in_one_graph_or_all(store: Store) -> None:
    add(store, (S, P, O, G), (S, P, O, H), (S, P, ONE, H), (O, P, ONE, None))
    s, p, o, one, g, h = store.ids([S, P, O, ONE, G, H]).tolist()
    at = store.at()
    keys = as_ids([o, s, p])

    def lists(inverse: bool, graph: int, keys: Ids = keys) -> list[list[int]]:
        return [column.tolist() for column in at.neighbours(p, keys, inverse, graph)]

    assert lists(False, 0) == [[0, 1, 1, 1], [one]]
    assert lists(False, NAMED) == [[0, 0, 3, 3], [o, o, one], [g, h, h]]
    assert lists(False, h) == [[0, 0, 2, 2], [o, one]]
    assert lists(True, h) == [[0, 1, 1, 1], [s]]
    assert lists(False, g, as_ids([s])) == [[0, 1], [o]]
    assert lists(True, 0, as_ids([one])) == [[0, 1], [o]]
    assert [column.tolist() for column in at.pairs(p, graph=h)] == [[s, s], [o, one]]


@given(st.lists(st.integers(0, 30)), st.lists(st.integers(0, 31)))
def test_many_keys_are_found_as_each_by_itself(column: list[int], keys: list[int]) -> None:
    rows, sought = as_ids(sorted(column)), as_ids(keys)
    starts, ends = kernels.ranges(rows, sought)
    assert starts.tolist() == rows.searchsorted(sought, "left").tolist()
    assert ends.tolist() == rows.searchsorted(sought, "right").tolist()


def test_old_snapshots_stay_readable_in_any_order(store: Store) -> None:
    """More of them than the views that are kept."""
    n = 40
    for i in range(n):
        write(store, [(True, (S, P, literal(str(i)), None)), (False, (S, P, literal(str(i - 7)), None))])
    order = list(range(1, n + 1)) * 2
    random.Random(5).shuffle(order)
    for sn in order:
        expected = {(S, P, literal(str(i)), None) for i in range(max(0, sn - 7), sn)}
        assert quads(store, sn) == expected


# ---- batches


def test_the_last_operation_on_a_quad_wins(store: Store) -> None:
    quad, other = (S, P, O, None), (S, P, O, G)
    write(store, [(True, quad), (False, quad), (False, other), (True, other)])
    assert quads(store, 1) == {other}


def test_a_batch_without_changes_is_a_snapshot_too(store: Store) -> None:
    assert store.commit(store.begin()) == 1
    assert len(store.net_changes(1)) == 0


def test_a_batch_is_committed_once_and_dropped_by_the_next(store: Store) -> None:
    batch = store.begin()
    store.commit(batch)
    with pytest.raises(StoreError, match="begin a new one"):
        store.commit(batch)
    dropped = store.begin()
    store.begin()
    with pytest.raises(StoreError, match="begin a new one"):
        store.commit(dropped)


def test_inserting_what_is_there_is_no_change(store: Store) -> None:
    add(store, (S, P, O, None))
    write(store, [(True, (S, P, O, None)), (True, (S, P, ONE, None)), (False, (S, Q, O, None))])
    rows = store.net_changes(2)
    assert (store.terms(rows.o), rows.g.tolist(), rows.sign.tolist()) == ([ONE], [0], [1])
    assert len(store.net_changes(2, [int(store.ids([Q])[0])])) == 0
    assert len(store.net_changes(2, store.ids([P, P]).tolist())) == 1
    write(store, [(True, (S, P, ONE, None)), (False, (S, Q, O, None))])
    store.commit(store.begin())
    assert [store.has_changed(sn) for sn in (1, 2, 3, 4, 2)] == [True, True, False, False, True]
    with pytest.raises(SnapshotGone, match="no snapshot 5"):
        store.has_changed(5)


@pytest.mark.parametrize("new", [0, 1, 20_000])
def test_one_change_among_many_that_changed_nothing_is_found(store: Store, new: int) -> None:
    batch = store.begin()
    p, *nodes = batch.encode([P, *(iri(f"http://ex/{n}") for n in range(40_001))])
    batch.insert(nodes[:20_000], p, nodes[:20_000], 0)
    store.commit(batch)
    batch = store.begin()
    batch.insert(nodes[: 20_000 + new], p, nodes[: 20_000 + new], 0)
    store.commit(batch)
    assert store.has_changed(2) is (new > 0)


def test_the_time_of_publication_is_the_callers(store: Store) -> None:
    batch = store.begin()
    batch.time = 12345
    store.commit(batch)
    assert store.row(1).published_ms == 12345


# ---- streams and the catalog


def stream_columns(stream: int, batch: Ids) -> StreamColumns:
    """Two elements: the first of two triples, the second of one."""
    s, p, q, o, g = batch.tolist()
    return StreamColumns(
        stream,
        time=np.array([1000, 2000]),
        graph=as_ids([g, 0]),
        push=np.array([0, 0], np.int32),
        element=np.array([0, 0, 1], np.int32),
        s=as_ids([s, s, o]),
        p=as_ids([p, q, p]),
        o=as_ids([o, o, s]),
    )


@pytest.mark.parametrize("mask", [[True, False, True], [False] * 3, [True] * 3, None])
def test_a_stream_keeps_its_columns_and_the_store_absorbs_what_it_was_sent(
    tmp_path: Path, mask: list[bool] | None
) -> None:
    url = f"lmdb:{tmp_path}/store"
    store = hbase_store.open(url)
    batch = store.begin()
    columns = stream_columns(4, batch.encode([S, P, Q, O, G]))
    batch.stream(StreamMove(4, 1, 2000, pushes=[PushMark(0, 2000)]), columns, None if mask is None else np.array(mask))
    store.commit(batch)
    triples: list[Quad] = [(S, P, O, G), (S, Q, O, G), (O, P, S, None)]
    expected = {quad for quad, absorbed in zip(triples, mask or [False] * 3, strict=True) if absorbed}
    for _ in ("as written", "as read"):
        assert quads(store, 1) == expected
        assert len(store.net_changes(1)) == len(expected)
        found = store.stream(1, 4)
        assert found is not None
        for name in ("time", "graph", "push", "element", "s", "p", "o"):
            assert getattr(found, name).tolist() == getattr(columns, name).tolist()
        assert store.stream(1, 5) is None
        store.close()
        store = hbase_store.open(url)
    store.close()


def test_a_delete_after_a_stream_wins_and_so_does_a_stream_after_a_delete(tmp_path: Path) -> None:
    url = f"lmdb:{tmp_path}/store"
    store = hbase_store.open(url)
    for first in (True, False):
        batch = store.begin()
        ids = batch.encode([S, P, Q, O, G])
        s, p, _, o, g = ids
        if first:
            batch.delete(s, p, o, g)
        batch.stream(StreamMove(1, 1), stream_columns(1, ids), np.ones(3, bool))
        if not first:
            batch.delete(s, p, o, g)
        store.commit(batch)
    for _ in ("as written", "as read"):
        assert (S, P, O, G) in quads(store, 1)
        assert (S, P, O, G) not in quads(store, 2)
        assert len(store.net_changes(2)) == 1
        store.close()
        store = hbase_store.open(url)
    store.close()


def test_a_stream_moves_once_in_a_batch(store: Store) -> None:
    batch = store.begin()
    batch.stream(StreamMove(1, 1))
    with pytest.raises(StoreError, match="moves twice"):
        batch.stream(StreamMove(1, 2))


def test_positions_and_catalog_of_every_snapshot_are_retained(tmp_path: Path) -> None:
    url = f"lmdb:{tmp_path}/store"
    store = hbase_store.open(url)
    rng = random.Random(3)
    vector: dict[int, StreamPosition] = {}
    catalog: dict[tuple[str, int], bytes] = {}
    expected = []
    for sn in range(1, 1301):  # more than the rows that are kept in memory
        batch = store.begin()
        for stream in rng.sample(range(5), rng.randrange(3)):
            old = vector.get(stream) or StreamPosition(stream, 0)
            time = sn if rng.random() < 0.5 else None
            source = {rng.choice("ab"): sn} if rng.random() < 0.5 else {}
            batch.stream(StreamMove(stream, old.batch + 1, time, sources=source))
            new_time = old.time if time is None else time
            vector[stream] = StreamPosition(stream, old.batch + 1, new_time, None, None, {**old.sources, **source})
        if rng.random() < 0.2:
            kind, number = rng.choice(["stream", "query"]), rng.randrange(5)
            body = b"%d" % sn if rng.random() < 0.7 else None
            batch.catalog(kind, number, body)
            catalog.pop((kind, number), None)
            if body is not None:
                catalog[kind, number] = body
            elif kind == "stream":
                vector.pop(number, None)
        store.commit(batch)
        expected.append((dict(vector), dict(catalog)))
    for _ in ("as written", "as read"):
        for sn in (1, 2, 255, 256, 257, 600, 1299, 1300, *rng.sample(range(1, 1300), 20)):
            assert (store.vts(sn), store.catalog(sn)) == expected[sn - 1], sn
            assert store.row(sn).sn == sn
        store.close()
        store = hbase_store.open(url)
    store.close()


# ---- against the model

NODES = [S, O, ONE, NODE, literal("x", "en")]
QUADS = st.tuples(
    st.sampled_from([S, O, NODE]), st.sampled_from([P, Q]), st.sampled_from(NODES), st.sampled_from([None, G, H])
)
BATCHES = st.lists(st.tuples(st.lists(st.tuples(st.booleans(), QUADS), max_size=8), st.booleans()), max_size=8)


@settings(max_examples=60, deadline=None)
@given(BATCHES, st.randoms(use_true_random=False))
def test_every_snapshot_is_what_the_model_says(
    tmp_path_factory: pytest.TempPathFactory, batches: list[tuple[list[Operation], bool]], rng: random.Random
) -> None:
    url = f"lmdb:{tmp_path_factory.mktemp('model')}"
    model, store = Model(), hbase_store.open(url)
    try:
        batch = store.begin()
        batch.encode([G, H])  # else `check` would ask for graphs by the id 0, which is the default graph's
        store.commit(batch)
        model.commit([])
        for operations, reopen in batches:
            write(store, operations)
            model.commit(operations)
            if reopen:
                store.close()
                store = hbase_store.open(url)
            check(store, model, store.head())
            check(store, model, rng.randint(1, store.head()))
    finally:
        store.close()


def check(store: Store, model: Model, sn: int) -> None:
    assert quads(store, sn) == model.snapshots[sn]
    check_graphs(store, model, sn)
    rows = store.net_changes(sn)
    graphs = [store.terms(as_ids([g]))[0] if g else None for g in rows.g.tolist()]
    found = list(zip(store.terms(rows.s), store.terms(rows.p), store.terms(rows.o), graphs, strict=True))
    assert set(zip(found, rows.sign.tolist(), strict=True)) == model.changes(sn)
    assert len(found) == len(model.changes(sn))
    assert store.has_changed(sn) is bool(found)
    universe = [(s, p, o, g) for s in (S, O, NODE) for p in (P, Q) for o in NODES for g in (None, G, H)]
    columns = [store.ids([quad[i] or b"" for quad in universe]) for i in range(4)]
    there = [quad in model.snapshots[sn] for quad in universe]
    assert store.at(sn).contains(*columns).tolist() == there
    one = [store.at(sn).contains(*(column[i : i + 1] for column in columns)).item() for i in range(len(universe))]
    assert one == there


def check_graphs(store: Store, model: Model, sn: int) -> None:
    """What is found by way of the graphs."""
    snapshot, expected = store.at(sn), model.snapshots[sn]
    assert set(store.terms(snapshot.graphs())) == {g for *_, g in expected if g is not None}
    everything = [store.terms(column) for column in snapshot.quads()[:3]]
    names = [store.terms(as_ids([g]))[0] if g else None for g in snapshot.quads()[3].tolist()]
    assert sorted(zip(*everything, names, strict=True), key=str) == sorted(expected, key=str)
    for name in (None, G, H):
        graph = int(store.ids([name])[0]) if name else 0
        found = list(zip(*(store.terms(column) for column in snapshot.graph_quads(graph)), strict=True))
        assert sorted(found) == sorted((s, p, o) for s, p, o, g in expected if g == name)
        assert snapshot.count_all(graph) == len(found)
        assert set(store.terms(snapshot.predicates(graph))) == {p for _, p, _ in found}


def test_large_batches_match_a_set_of_pairs(store: Store) -> None:
    """Many blocks, subjects with many objects, merges into the middle of large views; ids of several kinds."""
    rng = np.random.default_rng(11)
    batch = store.begin()
    p = int(batch.encode([P])[0])
    nodes = np.concatenate([batch.encode([iri(f"http://ex/{i}") for i in range(300)]), batch.blanks(50)])
    expected: set[tuple[int, int, int]] = set()
    for size, share_deleted in ((40_000, 0.0), (500, 0.5), (20_000, 0.5), (1, 1.0)):
        s, o, g = rng.choice(nodes, size), rng.choice(nodes, size), rng.choice(as_ids([0, 1, 2]), size)
        deleted = rng.random(size) < share_deleted
        for place in np.array_split(np.arange(size), 5):
            gone, come = place[deleted[place]], place[~deleted[place]]
            batch.delete(s[gone], p, o[gone], g[gone])
            batch.insert(s[come], p, o[come], g[come])
            rows = list(zip(g.tolist(), s.tolist(), o.tolist(), strict=True))
            expected -= {rows[i] for i in gone.tolist()}
            expected |= {rows[i] for i in come.tolist()}
        sn = store.commit(batch)
        at = store.at(sn)
        for graph in (0, 1, 2):
            pairs = sorted((a, b) for h, a, b in expected if h == graph)
            assert list(zip(*(column.tolist() for column in at.pairs(p, graph=graph)), strict=True)) == pairs
            assert at.count(p, graph) == len(pairs)
            keys = np.unique(nodes)[::2]
            for inverted in (False, True):
                offsets, values = at.neighbours(p, keys, inverted, graph)
                for key, start, end in zip(keys.tolist()[:40], offsets.tolist(), offsets[1:].tolist(), strict=False):
                    there = sorted(pair[not inverted] for pair in pairs if pair[inverted] == key)
                    assert values[start:end].tolist() == there
            inverse = sorted((b, a) for a, b in pairs)
            assert list(zip(*(column.tolist() for column in at.pairs(p, True, graph)), strict=True)) == inverse
        assert len(at.pairs(p, graph=NAMED)[0]) + at.count(p) == len(expected)
        batch = store.begin()


def test_warm_kernels_are_not_compiled_again(store: Store) -> None:
    kernels.warm()
    compiled = [kernel.signatures[:] for kernel in (kernels._contains, kernels._merge)]
    for g in (None, G):
        add(store, (S, P, O, g))
        store.at().pairs(int(store.ids([P])[0]), graph=NAMED if g else 0)
        add(store, (S, P, ONE, g))
    assert len(store.net_changes(4)) == 1
    assert len(store.at().pairs(int(store.ids([P])[0]), graph=NAMED)[0]) == 2
    assert [kernel.signatures for kernel in (kernels._contains, kernels._merge)] == compiled


# ---- other processes and threads

FOLLOWER = """
import sys, hbase_store
store = hbase_store.open(sys.argv[1], read_only=True)
last = int(sys.argv[2])
print("open", flush=True)
while store.head() < last:
    snapshot = store.at()
    p, q = store.ids([b"<http://ex/p>", b"<http://ex/q>"]).tolist()
    counts = snapshot.count(p), snapshot.count(q)
    assert counts == (snapshot.sn, snapshot.sn), (snapshot.sn, counts)
    o = snapshot.pairs(p)[1]
    assert len(store.terms(o)) == snapshot.sn
print(store.head(), flush=True)
"""


def test_another_process_reads_whole_snapshots_while_one_writes(tmp_path: Path) -> None:
    url = f"lmdb:{tmp_path}/store"
    store = hbase_store.open(url)
    add(store, (S, P, literal("1"), None), (S, Q, literal("1"), None))
    arguments = [sys.executable, "-c", FOLLOWER, url, "300"]
    with started(arguments, stdout=subprocess.PIPE, text=True) as follower:
        assert follower.stdout is not None
        assert follower.stdout.readline() == "open\n"
        for i in range(2, 301):
            add(store, (S, P, literal(str(i)), None), (S, Q, literal(str(i)), None))
        assert follower.stdout.readline() == "300\n"
        assert follower.wait(60) == 0
    store.close()


def test_threads_read_while_one_writes(store: Store) -> None:
    add(store, (S, P, literal("1"), None), (S, Q, literal("1"), None))
    p, q = store.ids([P, Q]).tolist()
    failures: list[BaseException] = []
    done = threading.Event()

    def read() -> None:
        try:
            while not done.is_set():
                snapshot = store.at()
                for inverse in (False, True):
                    assert len(snapshot.pairs(p, inverse)[0]) == len(snapshot.pairs(q, inverse)[0]) == snapshot.sn
                older = store.at(max(1, snapshot.sn // 2))
                assert older.count(p) == older.sn
                assert len(store.net_changes(snapshot.sn)) == 2
                assert len(store.terms(snapshot.pairs(p)[1])) == snapshot.sn
        except BaseException as failure:  # noqa: BLE001  # shown by the assertion below
            failures.append(failure)

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for i in range(2, 200):
        add(store, (S, P, literal(str(i)), None), (S, Q, literal(str(i)), None))
    done.set()
    for thread in threads:
        thread.join()
    assert failures == []


# ---- opening


@pytest.mark.parametrize("url", ["", "lmdb:", "memory:", "/tmp/x", "hbase://", "hbase://host", "hbase://host:x/ns"])
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(BadStoreUrl, match=r"[Ww]rite "):
        hbase_store.open(url)


def test_a_damaged_slab_is_named_when_it_is_read(tmp_path: Path) -> None:
    url = f"lmdb:{tmp_path}/store"
    store = hbase_store.open(url)
    add(store, (S, P, O, None))
    key = slab_key(1, 1, 0)
    (value,) = store.kv.get_many("slab", [key])
    assert value is not None
    store.kv.delete("slab", [key], time=1)
    store.kv.put_many([hbase_store.backends.keyvalue.Put("slab", key, value[:-5] + b"X" + value[-4:], 1)])
    store.close()
    with pytest.raises(Corrupt, match=f"{key.hex()} of table slab"):
        hbase_store.open(url)


def test_importing_the_package_is_light() -> None:
    code = "import sys, hbase_store; assert not {'numpy', 'msgspec', 'numba', 'lmdb'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
    with pytest.raises(AttributeError, match="nothing_like_it"):
        hbase_store.nothing_like_it  # noqa: B018


def test_whoever_opens_a_long_log_reads_few_rows_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"lmdb:{tmp_path}/store"
    store = hbase_store.open(url, folding=False)
    for sn in range(1, 601):
        batch = store.begin()
        batch.stream(StreamMove(sn % 3, sn, sn))
        batch.catalog("query", sn % 5, b"%d" % sn)
        store.commit(batch)
    store.fold()
    store.close()
    read: list[int] = []
    rows = hbase_store.log.row_reader.RowReader.rows

    def counted(self: hbase_store.log.row_reader.RowReader, sns: list[int]) -> object:
        read.extend(sns)
        return rows(self, sns)

    monkeypatch.setattr(hbase_store.log.row_reader.RowReader, "rows", counted)
    store = hbase_store.open(url, read_only=True)
    assert len(read) < 100
    assert store.vts(600) == {s: StreamPosition(s, sn, sn) for s, sn in ((0, 600), (1, 598), (2, 599))}
    assert store.catalog(600) == {("query", sn % 5): b"%d" % sn for sn in range(596, 601)}
    assert store.vts(300)[0].batch == 300
    assert store.catalog(300)["query", 1] == b"296"
    store.close()
