"""How many round trips a read makes: as many as there are layers to look into, and not as many as there are keys."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from hbase_store import NAMED, Loading, PushMark, Store, StreamColumns, StreamMove
from hbase_store.arrays import as_ids
from hbase_store.backends.lmdb import LmdbKeyValue
from hbase_store.clock import WallClock
from hbase_store.layout.terms import iri
from hbase_store.terms.pages import PAGE_BITS, Pages
from stream_ext.network.operators.joins.store_edges import edges_around
from stream_ext.rdf import careful_rows
from stream_ext.windows.arrivals import Reach, history
from tests.hbase_store.counting import Counting

PREDICATES = 5
#: The load, a fold above it, and the slabs above that (which are in memory).
RUNS = 2
NODES = 20_000


def node(number: int) -> bytes:
    return iri(f"http://ex/{number}")


@pytest.fixture(scope="module")
def kv(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Counting]:
    """200,000 edges of five predicates, half of them in 1,000 named graphs; a fold and a few slabs above."""
    inner = LmdbKeyValue(tmp_path_factory.mktemp("counted") / "store")
    counting = Counting(inner)
    store = Store(counting, "counted", WallClock(), folding=False)
    rng = np.random.default_rng(6)
    loading = Loading(partial(careful_rows, quads=True), True)
    for start in range(0, 200_000, 1000):
        edges = rng.integers(0, NODES, (1000, 2)).tolist()
        graph = b" <http://ex/g%d>" % (start // 200) if start % 2000 else b""
        rows = (
            b"<http://ex/%d> <http://ex/p%d> <http://ex/%d>%b .\n" % (s, o % PREDICATES, o, graph) for s, o in edges
        )
        loading.read(b"".join(rows))
    store.load(loading)
    for number in range(10):
        batch = store.begin()
        ids = batch.encode([node(NODES + number), b"<http://ex/p0>", *(node(i) for i in range(0, 2000, 7))])
        batch.insert(ids[0], ids[1], ids[2:], 0)
        store.commit(batch)
        if number == 4:
            store.fold()
    store.close()
    yield counting
    inner.close()


@pytest.fixture
def store(kv: Counting) -> Store:
    """Which has nothing in its caches."""
    return Store(kv, "counted", WallClock(), folding=False)


def trips(kv: Counting, read: Callable[[], object]) -> int:
    with kv.counted():
        read()
        return kv.total


@pytest.mark.parametrize("count", [10, 10_000])
def test_ids_of_terms_are_found_in_two_trips_a_run(kv: Counting, store: Store, count: int) -> None:
    texts = [node(number) for number in range(count)] + [iri("http://ex/nobody")]
    assert trips(kv, lambda: store.ids(texts)) <= 2 * RUNS
    assert trips(kv, lambda: store.ids(texts[:-1])) == 0, "they are remembered"


@pytest.mark.parametrize("count", [10, 10_000])
def test_texts_of_ids_come_in_one_trip(kv: Counting, store: Store, count: int) -> None:
    ids = store.ids([node(number) for number in range(count)])
    fresh = Store(kv, "counted", WallClock(), folding=False)
    assert trips(kv, lambda: fresh.terms(ids)) == 1
    assert trips(kv, lambda: fresh.terms(ids)) == 0


def test_pages_that_are_not_written_yet_say_nothing_of_how_large_pages_are(kv: Counting, store: Store) -> None:
    """New terms are in slabs, when answers have them already."""
    with kv.counted():
        Pages(kv).fetch(as_ids(range(1 << 28, (1 << 28) + 10_000)))
        assert kv.total == 3, "for 8 pages, then 16, then the other ones"
    pages = Pages(kv)
    pages.fetch(store.ids([node(number) for number in range(10_000)]))
    page = 1 << 20
    for number in range(100):
        pages.fetch(as_ids([(page + number << PAGE_BITS) + 1]))
    with kv.counted():
        pages.fetch(as_ids([(2 * page + number << PAGE_BITS) + 1 for number in range(5_000)]))
        assert kv.total == 1 and 64 < kv.keys["i2t"] <= 1024


@pytest.mark.parametrize("count", [1, 10, 10_000])
@pytest.mark.parametrize("inverse", [False, True])
@pytest.mark.parametrize("graph", [0, NAMED])
def test_neighbours_of_many_keys_come_in_one_trip_a_run(
    kv: Counting, store: Store, count: int, inverse: bool, graph: int
) -> None:
    p = int(store.ids([b"<http://ex/p0>"])[0])
    keys = store.ids([node(number) for number in range(count)])
    snapshot = store.at()
    assert trips(kv, lambda: snapshot.neighbours(p, keys, inverse, graph)) <= RUNS


def test_edges_of_one_vertex_under_all_predicates_come_in_one_trip(kv: Counting, store: Store) -> None:
    predicates = [int(id) for id in store.ids([b"<http://ex/p%d>" % number for number in range(PREDICATES)])]
    (key,) = store.ids([node(7)])
    snapshot, others = store.at(), Store(kv, "counted", WallClock(), folding=False).at()
    assert trips(kv, lambda: snapshot.fetch(predicates, key)) == 1
    with kv.counted():
        found = [snapshot.values(p, key) for p in predicates]
        assert kv.total == 0
    for p, values in zip(predicates, found, strict=True):
        assert values.tolist() == others.values(p, key).tolist()
    assert trips(kv, lambda: snapshot.fetch(predicates, key)) == 0


@pytest.mark.parametrize("inverse", [False, True])
def test_what_is_around_a_vertex_comes_in_one_trip(kv: Counting, store: Store, inverse: bool) -> None:
    key = store.ids([node(7)])
    snapshot, other = store.at(), Store(kv, "counted", WallClock(), folding=False).at()
    with kv.counted():
        predicates, far = edges_around(snapshot, key, inverse)
        assert kv.total == 1
    expected = [(p, value) for p in other.predicates().tolist() for value in other.values(p, int(key[0]), inverse)]
    assert list(zip(predicates.tolist(), far.tolist(), strict=True)) == expected and expected
    assert trips(kv, lambda: edges_around(snapshot, key, inverse)) == 0


def test_a_few_terms_are_looked_up_together(kv: Counting, store: Store) -> None:
    assert trips(kv, lambda: store.ids([node(number) for number in (3, 5_000, 9_000)])) <= 2 * RUNS


@pytest.mark.parametrize("count", [10, 10_000])
def test_whether_quads_are_there_takes_one_trip_a_predicate_and_run(kv: Counting, store: Store, count: int) -> None:
    ids = store.ids([node(number) for number in range(count)])
    p = store.ids([b"<http://ex/p%d>" % (number % PREDICATES) for number in range(count)])
    snapshot = store.at()
    assert trips(kv, lambda: snapshot.contains(ids, p, ids, np.zeros(count, np.uint64))) <= RUNS * PREDICATES


@pytest.mark.parametrize("count", [10, 10_000])
def test_predicates_of_many_vertices_take_one_trip_a_predicate_and_run(kv: Counting, store: Store, count: int) -> None:
    keys = store.ids([node(number) for number in range(count)])
    snapshot = store.at()
    assert trips(kv, lambda: snapshot.predicates_of(keys)) <= RUNS * (1 + PREDICATES)


def test_whole_predicates_graphs_and_counts_take_few(kv: Counting, store: Store) -> None:
    p = int(store.ids([b"<http://ex/p1>"])[0])
    g = int(store.ids([b"<http://ex/g25>"])[0])
    assert g
    for read, most in (
        (lambda at: at.pairs(p), RUNS),
        (lambda at: at.pairs(p, True, NAMED), RUNS),
        (lambda at: at.pairs(p, graph=g), RUNS),
        (lambda at: at.graphs(), RUNS),
        (lambda at: at.graph_quads(g), RUNS * (1 + PREDICATES)),
        (lambda at: at.count(p), RUNS),
        (lambda at: at.count_all(g), RUNS * (1 + PREDICATES)),
        (lambda at: at.quads(), 2 * RUNS * PREDICATES),
    ):
        at = Store(kv, "counted", WallClock(), folding=False).at()
        assert trips(kv, partial(read, at)) <= most


def test_opening_a_store_takes_few_trips_however_much_is_in_it(kv: Counting) -> None:
    assert trips(kv, lambda: Store(kv, "counted", WallClock(), folding=False).at()) <= 8


@pytest.mark.parametrize("count", [10, 10_000])
def test_a_batch_of_many_terms_and_edges_takes_few_trips(kv: Counting, tmp_path: Path, count: int) -> None:
    inner = LmdbKeyValue(tmp_path / "written")
    counting = Counting(inner)
    store = Store(counting, "written", WallClock(), folding=False)
    store.take_lease("")

    def write() -> None:
        batch = store.begin()
        ids = batch.encode([b"<http://ex/p>", *(node(number) for number in range(count))])
        batch.insert(ids[1:], ids[0], ids[1:], 0)
        store.commit(batch)

    # Numbers for terms; the slab, its row and the head.
    assert trips(counting, write) <= 4
    store.fold()
    # Known terms are remembered from before.
    assert trips(counting, write) <= 3
    inner.close()


def test_a_window_is_rebuilt_by_some_hundred_snapshots_a_trip(tmp_path: Path) -> None:
    inner = LmdbKeyValue(tmp_path / "stream")
    kv = Counting(inner)
    store = Store(kv, "stream", WallClock(), folding=False)
    one, none = np.zeros(1, np.int32), np.zeros(1, np.uint64)
    for sn in range(1, 1001):
        batch = store.begin()
        s, p, o = (as_ids([id]) for id in batch.encode([node(1), node(2), node(sn % 9)]).tolist())
        columns = StreamColumns(4, np.array([sn]), none, one, one, s, p, o)
        batch.stream(StreamMove(4, sn, sn, pushes=[PushMark(0, sn)]), columns)
        store.commit(batch)
    store.fold()
    for first in (990, 1):
        fresh = Store(kv, "stream", WallClock(), folding=False)
        with kv.counted():
            arrivals = list(history(fresh, 4, 1000, Reach(first)))
        assert [arrival.sn for arrival in arrivals] == list(range(first, 1001))
        assert kv.total <= 20
    inner.close()
