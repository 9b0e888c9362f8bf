"""Folding changes no answer: not while it runs, not when it dies halfway, not for who reads older snapshots."""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

import hbase_store
from endpoint.trial_hbase.server import HBase
from hbase_store import NAMED, Store
from hbase_store.arrays import as_ids
from hbase_store.backends.keyvalue import CompareAndSet, Put
from hbase_store.backends.lmdb import LmdbKeyValue
from hbase_store.clock import WallClock
from hbase_store.errors import Fenced, StoreError, StoreUnavailable
from hbase_store.layout.terms import iri, literal
from tests.hbase_store.faulty import Shared
from tests.hbase_store.model import Model, Operation
from tests.hbase_store.test_store import NODES, QUADS, G, H, O, P, Q, S, add, check, quads, write
from tests.parts.processes import started
from tests.parts.waiting import until


class StoreAndModel(RuleBasedStateMachine):
    """Whatever is done, each snapshot that was ever made is what the model says."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.mkdtemp(prefix="rillet-machine-")
        self.model = Model()
        self.store = self.opened()
        self.reader: Store | None = None
        batch = self.store.begin()
        batch.encode([G, H])
        self.store.commit(batch)
        self.model.commit([])

    def opened(self) -> Store:
        return hbase_store.open(f"lmdb:{self.folder}", folding=False)

    @rule(operations=st.lists(st.tuples(st.booleans(), QUADS), max_size=8))
    def commits(self, operations: list[Operation]) -> None:
        write(self.store, operations)
        self.model.commit(operations)

    @rule(count=st.integers(1, 9), node=st.sampled_from(NODES))
    def commits_often(self, count: int, node: bytes) -> None:
        for i in range(count):
            self.commits([(i % 3 < 2, (S, P, node, (None, G)[i % 2])), (True, (O, Q, S, None))])

    @rule()
    def folds(self) -> None:
        self.store.fold()

    @precondition(lambda self: self.store.head() > 3)
    @rule(data=st.data())
    def reads_an_old_snapshot(self, data: st.DataObject) -> None:
        check(self.store, self.model, data.draw(st.integers(1, self.store.head())))

    @rule()
    def reopens(self) -> None:
        self.store.close()
        self.store = self.opened()

    @invariant()
    def the_head_is_right(self) -> None:
        head = self.store.head()
        assert head == len(self.model.snapshots) - 1
        check(self.store, self.model, head)
        snapshot = self.store.at(head)
        vertices = self.store.ids([S, O])
        for graph, named in ((0, False), (NAMED, True)):
            offsets, found = snapshot.predicates_of(vertices, graph=graph)
            for i, vertex in enumerate((S, O)):
                there = {p for s, p, _, g in self.model.snapshots[head] if s == vertex and (g is not None) == named}
                assert set(self.store.terms(found[offsets[i] : offsets[i + 1]])) == there

    def teardown(self) -> None:
        self.store.close()
        shutil.rmtree(self.folder)


TestStoreAndModel = StoreAndModel.TestCase
TestStoreAndModel.settings = settings(max_examples=12, stateful_step_count=20, deadline=None)


@pytest.mark.hbase
@pytest.mark.xdist_group("hbase")
def test_each_snapshot_on_a_real_hbase_is_what_the_model_says(hbase_server: HBase) -> None:
    class OnHBase(StoreAndModel):
        def opened(self) -> Store:
            name = Path(self.folder).name.replace("-", "_")
            return hbase_store.open(f"hbase://127.0.0.1:{hbase_server.thrift_port}/{name}", folding=False)

    few = settings(max_examples=2, stateful_step_count=12, deadline=None, derandomize=True, database=None)
    run_state_machine_as_test(OnHBase, settings=few)  # type: ignore[no-untyped-call]


# ---- what a fold leaves


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = hbase_store.open(f"lmdb:{tmp_path}/store", folding=False)
    yield opened
    opened.close()


def test_folding_again_finds_nothing_to_do(store: Store) -> None:
    assert not store.fold()
    add(store, (S, P, O, None))
    assert store.fold()
    assert not store.fold()


def test_many_folds_leave_few_runs_to_read(store: Store) -> None:
    rng = random.Random(2)
    expected: set[tuple[bytes, bytes, bytes, None]] = set()
    for i in range(60):
        new = (S, P, literal(str(rng.randrange(50))), None)
        write(store, [(i % 4 < 3, new)])
        expected = expected | {new} if i % 4 < 3 else expected - {new}
        store.fold()
        assert quads(store, store.head()) == expected
        assert store.at().count(int(store.ids([P])[0])) == len(expected)
    assert len(store._edges.newest.runs) < 12


def test_a_fresh_reader_reads_no_slab_that_is_folded(tmp_path: Path) -> None:
    url = f"lmdb:{tmp_path}/store"
    store = hbase_store.open(url, folding=False)
    add(store, (S, P, O, None), (S, P, O, G))
    store.fold()
    add(store, (S, P, S, None))
    store.close()
    store = hbase_store.open(url)
    assert (store._edges.newest.start, store._edges.newest.overlay.predicates(True)) == (1, [])
    assert quads(store, 2) == {(S, P, O, None), (S, P, O, G), (S, P, S, None)}
    assert quads(store, 1) == {(S, P, O, None), (S, P, O, G)}
    store.close()


def test_large_runs_are_read_by_blocks_and_whole(store: Store) -> None:
    """More than a few blocks in each direction, with deletions in a later run and in slabs."""
    rng = np.random.default_rng(5)
    batch = store.begin()
    p, *nodes = batch.encode([P, *(iri(f"http://ex/{i}") for i in range(2000))]).tolist()
    s, o = rng.choice(nodes, 120_000), rng.choice(nodes, 120_000)
    batch.insert(as_ids(s), p, as_ids(o), 0)
    store.commit(batch)
    store.fold()
    expected = set(zip(s.tolist(), o.tolist(), strict=True))
    for fold in (True, False):
        gone = rng.choice(np.array(sorted(expected)), 300)
        batch = store.begin()
        batch.delete(as_ids(gone[:, 0]), p, as_ids(gone[:, 1]), 0)
        batch.insert(as_ids(nodes[:50]), p, p, 0)
        store.commit(batch)
        expected -= set(map(tuple, gone.tolist()))
        expected |= {(node, p) for node in nodes[:50]}
        if fold:
            store.fold()
        for _ in ("by blocks", "whole"):
            snapshot = store.at()
            assert snapshot.count(p) == len(expected)
            for inverse in (False, True):
                some = rng.choice(nodes, 5).tolist()
                offsets, values = snapshot.neighbours(p, as_ids(some), inverse)
                for i, key in enumerate(some):
                    there = sorted(pair[not inverse] for pair in expected if pair[inverse] == key)
                    assert values[offsets[i] : offsets[i + 1]].tolist() == there
                    assert snapshot.values(p, key, inverse).tolist() == there
            assert set(zip(*(column.tolist() for column in snapshot.pairs(p)), strict=True)) == expected


# ---- beside readers and writers


def test_who_reads_behind_the_head_steps_through_every_snapshot(tmp_path: Path) -> None:
    """A follower in this process that is many folds behind."""
    inner = LmdbKeyValue(tmp_path / "store")
    kv = Shared(inner)
    writer, follower = (Store(kv, "shared", WallClock(), folding=False) for _ in range(2))
    model = Model()
    rng = random.Random(9)
    for i in range(40):
        operations = [(rng.random() < 0.6, (S, P, literal(str(rng.randrange(9))), None)) for _ in range(3)]
        write(writer, operations)
        model.commit(operations)
        if i % 7 == 3:
            writer.fold()
        if i % 11 == 5:
            follower.refresh()
    for sn in range(1, 41):
        rows = follower.net_changes(sn)
        found = zip(follower.terms(rows.o), rows.sign.tolist(), strict=True)
        assert set(found) == {(quad[2], sign) for quad, sign in model.changes(sn)}
        assert quads(follower, sn) == model.snapshots[sn]
    inner.close()


def test_the_writer_folds_by_itself_and_readers_notice_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hbase_store.writing.upkeep.FOLD_SLABS", 5)
    store = hbase_store.open(f"lmdb:{tmp_path}/store")
    failures: list[BaseException] = []
    done, reads = threading.Event(), Counter[str]()
    add(store, (S, P, literal("0"), None))
    p = int(store.ids([P])[0])

    def read() -> None:
        try:
            while not done.is_set():
                reads[threading.current_thread().name] += 1
                snapshot = store.at()
                assert snapshot.count(p) == len(snapshot.pairs(p)[0]) == snapshot.sn
                older = store.at(max(1, snapshot.sn // 2))
                assert len(older.pairs(p, inverse=True)[0]) == older.sn
                assert len(store.net_changes(snapshot.sn)) == 1
        except BaseException as failure:  # noqa: BLE001  # shown by the assertion below
            failures.append(failure)

    readers = [threading.Thread(target=read, name=name, daemon=True) for name in ("one", "other")]
    for reader in readers:
        reader.start()
    for i in range(1, 150):
        add(store, (S, P, literal(str(i)), None))
        if i % 30 == 0:  # each goes on reading, however busy the machine is
            reads.clear()
            until(lambda: failures or all(reads[name] > 1 for name in ("one", "other")), "both readers read")
    done.set()
    for reader in readers:
        reader.join(60)
    assert failures == []
    assert store._edges.list.runs, "it has folded"
    store.close()


class Dying(Shared):
    """After so many writes nothing is written any more: as if the process had died there."""

    def __init__(self, inner: LmdbKeyValue, writes: int) -> None:
        super().__init__(inner)
        self.left = writes

    def _write(self) -> None:
        if self.left == 0:
            raise StoreUnavailable("dead")
        self.left -= 1

    def put_many(self, puts: object) -> None:
        for put in puts:  # type: ignore[attr-defined]  # an iterable of puts
            self._write()
            super().put_many([put])

    def publish_unharmed(self, stages: Sequence[Sequence[Put]], compare_and_set: CompareAndSet) -> bool:
        for stage in stages:
            self.put_many(stage)
        self._write()
        return self._inner.publish([], compare_and_set)

    def allocate(self, counter: str, count: int) -> int:
        self._write()
        return super().allocate(counter, count)


def test_a_fold_that_dies_at_any_step_changes_no_answer(tmp_path: Path) -> None:
    inner = LmdbKeyValue(tmp_path / "store")
    kv = Shared(inner)
    store = Store(kv, "shared", WallClock(), folding=False)
    model = Model()
    for _ in range(2):
        write(store, [])
        model.commit([])
    steps = 0
    for _ in range(4):
        for i in range(3):
            operations: list[Operation] = [
                (True, (S, P, literal(f"{steps} {i}"), (None, G)[i % 2])),
                (i < 2, (S, Q, O, None)),
            ]
            write(store, operations)
            model.commit(operations)
        done, writes = False, 0
        while not done:
            dying = Store(Dying(inner, 1 << 30), "shared", WallClock(), folding=False)
            dying.take_lease("")
            dying.kv.left = writes  # type: ignore[attr-defined]  # its own backend
            try:
                done = dying.fold()
            except StoreUnavailable:
                steps += 1
            writes += 1
            survivor = Store(kv, "shared", WallClock(), folding=False)
            for sn in (1, len(model.snapshots) - 2, len(model.snapshots) - 1):
                assert quads(survivor, sn) == model.snapshots[sn]
        store = Store(kv, "shared", WallClock(), folding=False)
    assert steps > 40
    inner.close()


def test_a_stale_writer_installs_no_fold(tmp_path: Path) -> None:
    inner = LmdbKeyValue(tmp_path / "store")
    kv = Shared(inner)
    stale, new = (Store(kv, "shared", WallClock(), folding=False) for _ in range(2))
    add(stale, (S, P, O, None))
    add(new, (S, P, S, None))
    with pytest.raises(Fenced):
        stale.fold()
    assert quads(new, 2) == quads(stale, 2) == {(S, P, O, None), (S, P, S, None)}
    inner.close()


READER = """
import sys, hbase_store
store = hbase_store.open(sys.argv[1], read_only=True)
print("open", flush=True)
for stage in (50, 100, 150, 200):
    reads = 0
    while store.head() < stage or not reads:
        snapshot = store.at()
        p = int(store.ids([b"<http://ex/p>"])[0])
        assert snapshot.count(p) == len(snapshot.pairs(p)[0]) == snapshot.sn
        assert len(store.terms(snapshot.pairs(p, True)[0])) == snapshot.sn
        for sn in range(max(1, snapshot.sn - 3), snapshot.sn + 1):
            assert store.net_changes(sn).sign.tolist() == [1]
        reads += 1
    print(stage, flush=True)
print(store.head(), len(store._edges.list.runs) > 0, flush=True)
"""


def test_two_processes_read_while_one_writes_and_folds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hbase_store.writing.upkeep.FOLD_SLABS", 20)
    url = f"lmdb:{tmp_path}/store"
    store = hbase_store.open(url)
    add(store, (S, P, literal("1"), None))
    arguments = [sys.executable, "-c", READER, url, "200"]
    with (
        started(arguments, stdout=subprocess.PIPE, text=True) as one,
        started(arguments, stdout=subprocess.PIPE, text=True) as other,
    ):
        for reader in (one, other):
            assert reader.stdout.readline() == "open\n"
        for i in range(2, 201):
            add(store, (S, P, literal(str(i)), None))
            if i % 50 == 0:  # each has read between two of these, however busy the machine is
                assert [reader.stdout.readline() for reader in (one, other)] == [f"{i}\n"] * 2
        for reader in (one, other):
            assert reader.stdout.readline() == "200 True\n"
            assert reader.wait(60) == 0
    store.close()


def test_a_failed_fold_is_reported_to_who_writes_next(tmp_path: Path) -> None:
    store = hbase_store.open(f"lmdb:{tmp_path}/store")
    add(store, (S, P, O, None))
    assert store._upkeep.folder is not None
    store._upkeep.folder.failure = StoreUnavailable("no space left")
    with pytest.raises(StoreError, match="no space left"):
        store.begin()
    add(store, (S, P, S, None))
    store.close()
