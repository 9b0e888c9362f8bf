"""Collection: what is below the floor goes, nothing above it changes, and neither floor nor horizon goes back."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from hbase_store import PushMark, Store, StreamColumns, StreamMove
from hbase_store.arrays import as_ids
from hbase_store.backends.keyvalue import Put
from hbase_store.backends.lmdb import LmdbKeyValue
from hbase_store.clock import WallClock
from hbase_store.errors import SnapshotGone, StoreUnavailable
from hbase_store.layout import run_blocks
from hbase_store.layout.rows import slab_key, slice_key, sn_key
from hbase_store.layout.run_list import RunEntry, RunList
from hbase_store.layout.terms import literal
from hbase_store.writing.collection import GRACE_MS, retained
from tests.hbase_store import faulty
from tests.hbase_store.faulty import Shared
from tests.hbase_store.model import Model, Operation
from tests.hbase_store.test_store import G, H, O, P, Q, S, quads, write


class Hand(WallClock):
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.ms = 1_000_000

    def now_ms(self) -> int:
        return self.ms


class Scene:
    def __init__(self, folder: Path) -> None:
        self.inner = LmdbKeyValue(folder / "store")
        self.kv, self.clock, self.model = Shared(self.inner), Hand(), Model()
        self.store = self.opened()
        self.rng = random.Random(4)

    def opened(self) -> Store:
        return Store(self.kv, "shared", self.clock, folding=False)

    def commit(self, count: int) -> None:
        for _ in range(count):
            operations: list[Operation] = [
                (self.rng.random() < 0.7, (S, self.rng.choice([P, Q]), literal(str(self.rng.randrange(9))), g))
                for g in (None, G, H, None)
            ]
            write(self.store, operations)
            self.model.commit(operations)

    def rows(self, table: str) -> int:
        return sum(1 for _ in self.inner.scan(table, b"", None))

    def check(self, store: Store, first: int) -> None:
        for sn in range(first, len(self.model.snapshots)):
            assert quads(store, sn) == self.model.snapshots[sn]
            if sn > first:
                assert len(store.net_changes(sn)) == len(self.model.changes(sn))
                assert store.has_changed(sn) is bool(self.model.changes(sn))


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def test_what_is_below_the_floor_goes_and_the_rest_stays_right(scene: Scene) -> None:
    follower = scene.opened()
    scene.commit(3)
    for floor in (2, 9, 9, 30, 31, 47):
        scene.commit(7)
        scene.store.fold()
        scene.commit(2)
        early, held = follower.at(), follower.at(min(floor, follower.refresh()))
        scene.store.floor(floor)
        scene.store.collect()
        scene.clock.ms += GRACE_MS
        scene.store.collect()
        reached = min(floor, scene.store.head())
        for store in (scene.store, follower, scene.opened()):
            scene.check(store, reached)
            store.refresh()
            for sn in {0, reached - 1}:
                with pytest.raises(SnapshotGone, match="the oldest one is"):
                    store.at(sn)
        for snapshot in (early, held):
            p = int(follower.ids([P])[0])
            expected = sum(1 for _, q, _, g in scene.model.snapshots[snapshot.sn] if q == P and g is None)
            assert len(snapshot.pairs(p)[0]) == snapshot.count(p) == expected
    assert scene.rows("slab") < 25
    assert len(scene.store._edges.list.runs) < 8
    assert scene.rows("run") == sum(
        len(column.index.rows)
        for run in scene.store._edges.runs.open(scene.store._edges.list.runs)
        for column in run.columns.values()
    )


def test_floor_and_horizon_never_go_back(scene: Scene) -> None:
    scene.commit(9)
    scene.store.fold()
    stream_batch(scene.store, absorbed=False)
    scene.store.floor(6, {4: 5})
    scene.store.collect()
    scene.store.floor(2, {4: 1})
    scene.store.collect()
    reopened = scene.opened()
    reopened.take_lease("")
    reopened.floor(0)
    reopened.collect()
    assert (reopened._edges.list.floor, reopened._edges.list.horizons) == (6, {4: 5})


def test_a_floor_above_the_head_is_the_head(scene: Scene) -> None:
    scene.commit(3)
    scene.store.fold()
    scene.store.floor(99)
    scene.store.collect()
    assert quads(scene.store, 3) == scene.model.snapshots[3]


def stream_batch(store: Store, absorbed: bool) -> int:
    batch = store.begin()
    s, p, o = batch.encode([S, P, O])
    sn = store.head() + 1
    columns = StreamColumns(
        4,
        np.array([sn]),
        as_ids([0]),
        np.zeros(1, np.int32),
        np.zeros(1, np.int32),
        as_ids([s]),
        as_ids([p]),
        as_ids([o]),
    )
    batch.stream(StreamMove(4, sn, sn, pushes=[PushMark(0, sn)]), columns, np.array([absorbed]))
    return store.commit(batch)


def test_slices_and_slabs_of_a_stream_stay_until_its_horizon_passes(scene: Scene) -> None:
    for sn in range(1, 21):
        stream_batch(scene.store, absorbed=sn % 2 == 0)
    scene.store.fold()
    scene.store.floor(15)
    scene.store.collect()
    assert (scene.rows("slab"), scene.rows("slice")) == (11, 10), "without a horizon all is retained"
    scene.store.floor(15, {4: 11})
    scene.store.collect()
    assert (scene.rows("slab"), scene.rows("slice")) == (11, 5), "the run reaches beyond the floor"
    scene.store.floor(20)
    scene.store.collect()
    for store in (scene.store, scene.opened()):
        for sn in range(1, 21):
            if sn < 11:
                with pytest.raises(SnapshotGone):
                    store.stream(sn, 4)
            else:
                found = store.stream(sn, 4)
                assert found is not None
                assert found.time.tolist() == [sn]
        assert store.vts(20)[4].batch == 20
    assert (scene.rows("slab"), scene.rows("slice")) == (5, 5)


@pytest.mark.parametrize("several", [True, False])
def test_columns_that_are_let_go_while_they_are_read_are_gone_and_not_damaged(
    scene: Scene, several: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(20):
        stream_batch(scene.store, absorbed=False)
    store = scene.store = scene.opened()  # it has no columns in memory
    rows, reads = [store.row(sn) for sn in range(1, 11)], store._reader.streams

    def let_go_before(places: object) -> object:
        store.floor(15, {4: 11})
        store.collect()
        return reads(places)  # type: ignore[arg-type]

    monkeypatch.setattr(store._reader, "streams", let_go_before)
    with pytest.raises(SnapshotGone, match="the elements of stream 4 in snapshot 1 are no longer retained"):
        store.streams(4, rows) if several else store.stream(1, 4)
    monkeypatch.setattr(store._reader, "streams", reads)
    assert store.stream(12, 4) is not None


def test_writer_and_reader_have_no_columns_in_memory_below_the_horizon(scene: Scene) -> None:
    reader = scene.opened()
    for _ in range(20):
        stream_batch(scene.store, absorbed=False)
    reader.refresh()
    stores = (scene.store, reader)
    whole = [sum(each.nbytes for sn in range(1, 21) if (each := store.stream(sn, 4))) for store in stores]
    assert [store._recent.nbytes for store in stores] == whole
    scene.store.floor(15, {4: 16})
    reader.refresh()
    assert [store._recent.nbytes for store in stores] == [size // 4 for size in whole]


def test_rows_go_up_to_the_last_whole_one(scene: Scene) -> None:
    for sn in range(1, 601):
        batch = scene.store.begin()
        batch.catalog("query", sn % 7, b"%d" % sn)
        scene.store.commit(batch)
        if sn == 580:
            scene.store.fold()
    expected = {sn: scene.store.catalog(sn) for sn in (512, 513, 600)}
    scene.store.floor(590)
    scene.store.collect()
    assert scene.rows("sn") == 600 - 511 + 1
    fresh = scene.opened()
    assert {sn: fresh.catalog(sn) for sn in expected} == expected
    with pytest.raises(SnapshotGone, match="no longer retained"):
        fresh.catalog(511)


def test_a_row_stays_for_as_long_as_a_stream_retains_its_elements(scene: Scene) -> None:
    """Stream 4 falls silent and keeps its elements; what the store goes on with is collected nevertheless."""
    for sn in range(1, 7):
        stream_batch(scene.store, absorbed=sn % 2 == 0)
    scene.model.snapshots += [frozenset()] * 6
    for _ in range(3):
        scene.commit(200)
        scene.store.fold()
    for horizon, left in ((0, {1, 2, 3, 4, 5, 6}), (4, {4, 5, 6}), (6, {6}), (7, set())):
        scene.store = scene.opened() if horizon == 6 else scene.store
        scene.store.take_lease("")
        scene.store.floor(606, {4: horizon})
        scene.store.collect()
        rows = {int.from_bytes(key[8:16], "big") for key, _ in scene.inner.scan("sn", b"", None)}
        slabs = {int.from_bytes(key[8:16], "big") for key, _ in scene.inner.scan("slab", b"", None)}
        assert rows == left | set(range(512, 607))
        assert slabs == {sn for sn in left if sn % 2 == 0}
        for sn in left:
            found = scene.opened().stream(sn, 4)
            assert found is not None
            assert found.time.tolist() == [sn]


def test_of_a_stream_that_was_dropped_nothing_stays_below_the_floor(scene: Scene) -> None:
    for sn in range(1, 7):
        stream_batch(scene.store, absorbed=sn % 2 == 0)
    batch = scene.store.begin()
    batch.catalog("stream", 4, None)
    scene.store.commit(batch)
    for _ in range(300):
        scene.store.commit(scene.store.begin())
    scene.store.fold()
    scene.store.floor(4, {4: 2})
    scene.store.collect()
    assert scene.opened().stream(5, 4) is not None
    with pytest.raises(SnapshotGone):
        scene.opened().stream(3, 4)
    scene.store.floor(scene.store.head())
    scene.store.collect()
    assert (scene.rows("slice"), scene.rows("slab")) == (0, 0)
    assert scene.store._edges.list.horizons == {}


@pytest.mark.parametrize("fault", [faulty.written_then_unreachable, faulty.half_written])
def test_what_a_fenced_writer_left_goes_and_what_counts_stays(scene: Scene, fault: Callable[..., bool]) -> None:
    scene.commit(2)
    stale = scene.store
    batch = stale.begin()
    ids = batch.encode([S, P, b'"lost"'])
    batch.insert(ids[0], ids[1], ids[2], 0)
    scene.kv.fault = faulty.written_then_unreachable
    with pytest.raises(StoreUnavailable):
        stale.commit(batch)
    scene.kv.repair()
    scene.inner.put_many(
        [
            Put("slab", slab_key(1, 9, 0), b"x", 9),
            Put("slice", slice_key(4, 1, 9, 0), b"x", 9),
            Put("sn", sn_key(1, 9), b"x", 9),
        ]
    )
    scene.inner.put_many(
        [
            Put(
                "run",
                run_blocks.block_key(1, run_blocks.ColumnKey(0, 1, False), [1, 1]),
                b"x",
                1,
            )
        ]
    )
    scene.inner.allocate("run", 1)
    scene.store = scene.opened()
    scene.commit(2)
    stream_batch(scene.store, absorbed=False)
    scene.model.commit([])
    scene.store.fold()
    scene.store.collect()
    left = [key for table in ("slab", "sn") for key, _ in scene.inner.scan(table, b"", None) if key[7] == 1]
    assert {int.from_bytes(key[8:16], "big") for key in left} == {1, 2}
    assert [key[15] for key, _ in scene.inner.scan("slice", b"", None)] == [2]
    assert not [key for key, _ in scene.inner.scan("run", b"", None) if key[7] == 1]
    scene.check(scene.opened(), 0)


def test_a_collection_that_dies_halfway_changes_no_answer(tmp_path: Path) -> None:
    from tests.hbase_store.writing.test_folding import Dying

    scene = Scene(tmp_path)
    for _ in range(3):
        scene.commit(4)
        scene.store.fold()
    for writes in range(6):
        dying = Store(Dying(scene.inner, 1 << 30), "shared", scene.clock, folding=False)
        dying.take_lease("")
        dying.kv.left = writes  # type: ignore[attr-defined]  # its own backend
        try:
            dying.floor(8)
            dying.collect()
        except StoreUnavailable:
            scene.clock.ms += GRACE_MS
        scene.check(scene.opened(), 8)


def test_blocks_that_left_the_list_stay_until_nobody_can_be_reading_them(scene: Scene) -> None:
    for _ in range(7):
        scene.commit(3)
        scene.store.fold()
    reader = scene.opened()
    begun = reader.at()  # a query that has read nothing of it yet
    p = int(reader.ids([P])[0])
    scene.commit(1)
    scene.store.fold()
    before = scene.rows("run"), scene.rows("runindex")
    scene.store.floor(scene.store.head())
    scene.store.collect()
    scene.clock.ms += GRACE_MS - 1
    scene.store.collect()
    assert (scene.rows("run"), scene.rows("runindex")) == before
    expected = {(s, o) for s, predicate, o, g in scene.model.snapshots[-2] if predicate == P and g is None}
    subjects, objects = begun.pairs(p)
    assert set(zip(reader.terms(subjects), reader.terms(objects), strict=True)) == expected
    scene.clock.ms += 1
    scene.store.collect()
    assert scene.rows("run") < before[0]
    assert scene.rows("runindex") < before[1]
    scene.check(scene.store, scene.store.head())


def test_the_head_forgets_epochs_of_which_nothing_is_left(scene: Scene) -> None:
    for _ in range(8):
        scene.store.take_lease("")
        scene.commit(40)
        stream_batch(scene.store, absorbed=False)
        scene.model.commit([])
        scene.store._lease.release()
    scene.store.take_lease("")
    scene.commit(2)
    scene.store.fold()
    before = len(scene.store._cell.head.ranges)
    for horizon, first in ((200, 124), (330, 247)):
        scene.store.floor(scene.store.head(), {4: horizon})
        for _ in range(2):
            scene.store.collect()
            scene.clock.ms += GRACE_MS  # for transient terms
        assert scene.store._cell.head.ranges[0].first == first, (
            "that of the terms since the horizon, or of the last whole row"
        )
    assert (before, len(scene.store._cell.head.ranges)) == (9, 3)
    scene.commit(1)
    for store in (scene.store, scene.opened()):
        scene.check(store, scene.store.head() - 1)
        assert store.vts(store.head())[4].batch > 0
    with pytest.raises(SnapshotGone):
        scene.opened().row(3)


def test_a_list_keeps_what_any_retained_snapshot_is_read_by() -> None:
    spans = [(1, 4), (5, 8), (1, 8), (9, 12), (9, 9), (13, 13), (9, 13)]
    runs = RunList(1, 1, tuple(RunEntry(n, first, last, 1, 1, 1) for n, (first, last) in enumerate(spans)))

    def rows_left(floor: int) -> list[tuple[int, int]]:
        return [(run.first, run.last) for run in retained(runs, 20, floor, {}).runs]

    assert rows_left(0) == [(1, 4), (1, 8), (9, 12), (9, 9), (13, 13), (9, 13)]
    assert rows_left(8) == [(1, 8), (9, 12), (9, 9), (13, 13), (9, 13)]
    assert rows_left(13) == [(1, 8), (9, 13)]
    for floor in range(21):
        after = retained(runs, 20, floor, {})
        assert [after.cover(sn) for sn in range(floor, 21)] == [runs.cover(sn) for sn in range(floor, 21)]
