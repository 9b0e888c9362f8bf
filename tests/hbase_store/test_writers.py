"""One writer at a time: what a crash, a lost reply or a stale writer leaves, and what readers make of it."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import hbase_store
from hbase_store import Batch, Sn, Store
from hbase_store.backends.lease import LEASE_MS
from hbase_store.backends.lmdb import LmdbKeyValue
from hbase_store.clock import WallClock
from hbase_store.errors import AnotherWriter, Fenced, StoreError, StoreUnavailable, Unwritable
from hbase_store.layout.terms import iri, literal
from stream_ext.clock import ManualClock
from tests.hbase_store import faulty
from tests.hbase_store.faulty import Leased, Shared
from tests.parts.processes import started

S, P = iri("http://ex/s"), iri("http://ex/p")


@pytest.fixture
def shared(tmp_path: Path) -> Iterator[Shared]:
    inner = LmdbKeyValue(tmp_path / "store")
    yield Shared(inner)
    inner.close()


def opened(kv: Shared) -> Store:
    return Store(kv, "shared", WallClock())


@contextmanager
def leased(folder: Path) -> Iterator[tuple[Leased, Callable[[ManualClock], Store]]]:
    """Stores of several processes, each with a lease of its own and a clock of its own."""
    inner = LmdbKeyValue(folder / "store")
    kv = Leased(inner)
    yield kv, lambda clock: Store(kv, "shared", clock)
    inner.close()


def begun(store: Store, value: str) -> Batch:
    batch = store.begin()
    s, p, o = batch.encode([S, P, literal(value)])
    batch.insert(s, p, o, 0)
    return batch


def put(store: Store, value: str) -> int:
    return store.commit(begun(store, value))


def values(store: Store, sn: int | None = None) -> list[bytes]:
    at = store.at(sn)
    return sorted(store.terms(at.pairs(int(store.ids([P])[0]))[1]))


def texts(*lexical: str) -> list[bytes]:
    return sorted(literal(value) for value in lexical)


# ---- lost replies


@pytest.mark.parametrize("fault", [faulty.applied_but_lost, faulty.applied_and_denied, faulty.half_written])
def test_a_publish_whose_reply_is_lost_counts_once(shared: Shared, fault: Callable[..., bool]) -> None:
    store = opened(shared)
    put(store, "1")
    shared.fault = fault
    assert put(store, "2") == 2
    assert put(store, "3") == 3
    assert values(store) == values(opened(shared)) == texts("1", "2", "3")


@pytest.mark.parametrize(
    "fault", [faulty.unreachable, faulty.written_then_unreachable, faulty.applied_then_unreachable]
)
def test_a_batch_whose_outcome_is_unknown_is_committed_again_and_counts_once(
    shared: Shared, fault: Callable[..., bool]
) -> None:
    store = opened(shared)
    put(store, "1")
    batch = begun(store, "2")
    shared.fault = fault
    with pytest.raises(StoreUnavailable):
        store.commit(batch)
    shared.repair()
    assert store.commit(batch) == 2
    assert put(store, "3") == 3
    assert values(store) == values(opened(shared)) == texts("1", "2", "3")
    with pytest.raises(StoreError, match="begin a new one"):
        store.commit(batch)


def together(store: Store, *values: str) -> list[Batch]:
    batches: list[Batch] = []
    for value in values:
        batch = store.begin(batches)
        batch.insert(*batch.encode([S, P, literal(value)]), g=0)
        batches.append(batch)
    return batches


@pytest.mark.parametrize(
    "fault",
    [faulty.applied_but_lost, faulty.half_written, faulty.unreachable, faulty.applied_then_unreachable],
)
def test_batches_that_are_committed_together_count_all_and_once(shared: Shared, fault: Callable[..., bool]) -> None:
    store, reader = opened(shared), opened(shared)
    put(store, "1")
    batches = together(store, "2", "3", "4")
    shared.fault = fault
    try:
        store.commit(*batches)
    except StoreUnavailable:
        shared.repair()
        assert reader.refresh() in (1, 4), "all of them or none"
        assert store.commit(*batches) == 4
    assert put(store, "5") == 5
    for each in (store, reader, opened(shared)):
        assert values(each) == texts("1", "2", "3", "4", "5")
        assert values(each, 3) == texts("1", "2", "3")


def test_of_batches_that_are_open_only_the_first_ones_in_order_can_be_committed(shared: Shared) -> None:
    store = opened(shared)
    first, second, third = together(store, "1", "2", "3")
    for wrong in ([second], [first, third], [second, first], []):
        with pytest.raises(StoreError, match="begin a new one"):
            store.commit(*wrong)
    with pytest.raises(StoreError, match="in the order in which they were begun"):
        store.begin([second])
    assert store.commit(first, second) == 2
    assert values(store) == texts("1", "2")
    with pytest.raises(StoreError, match="begin a new one"):
        store.commit(third)


def test_a_batch_that_changes_the_catalog_is_committed_alone(shared: Shared) -> None:
    store = opened(shared)
    batches = together(store, "1", "2")
    batches[1].catalog("note", 1, b"text")
    with pytest.raises(StoreError, match="committed alone"):
        store.commit(*batches)
    assert put(store, "3") == 1


def test_an_undecided_batch_is_decided_before_the_next_begins(shared: Shared) -> None:
    store = opened(shared)
    batch = begun(store, "1")
    shared.fault = faulty.written_then_unreachable
    for action in (lambda: store.commit(batch), store.begin):
        with pytest.raises(StoreUnavailable):
            action()
    shared.repair()
    assert put(store, "2") == 2
    assert values(store, 1) == texts("1")


# ---- stale writers


def test_a_stale_writer_loses_and_can_write_again_after_taking_the_lease(shared: Shared) -> None:
    stale, new = opened(shared), opened(shared)
    put(stale, "1")
    batch = begun(stale, "lost")
    assert put(new, "2") == 2
    with pytest.raises(Fenced, match=r"epoch 1; the writer of epoch 2 has taken over.*send it to the new writer"):
        stale.commit(batch)
    assert values(stale) == values(new) == texts("1", "2")
    with pytest.raises(Fenced):
        put(stale, "lost")
    with pytest.raises(Fenced, match=r"no longer the writer of shared; .* has taken the lease again"):
        stale.begin()
    stale.take_lease("")
    assert put(stale, "3") == 3
    with pytest.raises(Fenced):
        put(new, "lost")
    assert values(stale) == values(new) == values(opened(shared)) == texts("1", "2", "3")


def test_rows_of_a_stale_writer_under_any_number_are_never_read(shared: Shared) -> None:
    """It goes on for several snapshots' worth of rows, without ever getting at the head."""
    stale = opened(shared)
    put(stale, "1")
    batch = begun(stale, "lost")
    shared.fault = faulty.written_then_unreachable
    with pytest.raises(StoreUnavailable):
        stale.commit(batch)
    shared.repair()
    new = opened(shared)
    for value in "234":
        put(new, value)
    with pytest.raises(Fenced):
        stale.commit(batch)
    for store in (stale, new, opened(shared)):
        assert values(store) == texts("1", "2", "3", "4")
        assert values(store, 2) == texts("1", "2")
        assert not store.ids([literal("lost")]).any()


def test_what_was_published_just_before_another_took_over_counts(shared: Shared) -> None:
    first, second = opened(shared), opened(shared)
    put(first, "1")
    batch = begun(first, "2")
    shared.fault = faulty.applied_then_unreachable
    with pytest.raises(StoreUnavailable):
        first.commit(batch)
    shared.repair()
    put(second, "3")
    assert first.commit(batch) == 2
    assert values(first) == texts("1", "2", "3")
    with pytest.raises(Fenced):
        put(first, "lost")


def test_writers_in_turn_never_share_an_id(shared: Shared) -> None:
    stores = [opened(shared), opened(shared)]
    rng = random.Random(8)
    expected = []
    for i in range(60):
        store = rng.choice(stores)
        for other in stores:
            other._lease.release()
        store.take_lease("")
        put(store, str(i))
        expected.append(str(i))
    assert values(stores[0]) == values(stores[1]) == values(opened(shared)) == texts(*expected)


def test_a_writer_that_slept_while_another_wrote_does_not_write_before_it_takes_the_lease_again(tmp_path: Path) -> None:
    """A is stopped, B takes the lease, publishes and ends; A goes on."""
    with leased(tmp_path) as (_, opened_at):
        asleep, awake = ManualClock(1_000), ManualClock(1_000)
        a = opened_at(asleep)
        put(a, "1")
        awake.advance(LEASE_MS)
        b = opened_at(awake)
        put(b, "2")
        b._lease.release()
        asleep.advance(2 * LEASE_MS)
        for _ in range(2):  # it is not taken again in silence, however often it is tried
            with pytest.raises(Fenced, match="has taken the lease again"):
                put(a, "lost")
        with pytest.raises(Fenced):
            a.emissions.commit([], {}, Sn(1))
        assert a.has_lost_lease
        a.take_lease("")
        assert not a.has_lost_lease
        assert put(a, "3") == 3
        assert values(a) == values(opened_at(awake)) == texts("1", "2", "3")
        a._lease.release()


def test_a_writer_whose_time_was_over_continues_if_nobody_else_wrote(tmp_path: Path) -> None:
    with leased(tmp_path) as (kv, opened_at):
        clock = ManualClock(1_000)
        store = opened_at(clock)
        put(store, "1")
        epoch = store._cell.epoch
        kv.fault = faulty.unreachable  # longer than the lease
        clock.advance(3 * LEASE_MS)
        with pytest.raises(StoreUnavailable):
            store.begin()
        kv.repair()
        assert put(store, "2") == 2
        assert store._cell.epoch == epoch
        store._lease.release()


@pytest.mark.parametrize("fault", [faulty.unreachable, faulty.applied_then_unreachable])
def test_a_take_over_that_fails_half_way_leaves_no_writer_and_can_be_repeated(
    shared: Shared, fault: Callable[..., bool]
) -> None:
    first, second = opened(shared), opened(shared)
    put(first, "1")
    put(second, "2")
    shared.fault = fault
    first._lease.release()
    with pytest.raises(StoreUnavailable):
        first.take_lease("")
    shared.repair()
    with pytest.raises(Fenced):
        put(first, "lost")
    first.take_lease("")
    assert put(first, "3") == 3
    assert values(first) == values(opened(shared)) == texts("1", "2", "3")


def test_a_fold_that_counts_late_is_our_own(shared: Shared) -> None:
    """The compare-and-set of its run list hangs for so long that it is given up, and is done after all."""
    store = Store(shared, "shared", WallClock(), folding=False)
    put(store, "1")
    put(store, "2")
    shared.fault = faulty.delayed
    with pytest.raises(StoreUnavailable):
        store.fold()
    shared.fault = faulty.after_what_was_delayed
    assert put(store, "3") == 3
    assert put(store, "4") == 4
    assert store._edges.list.number == store._cell.head.run_list
    assert len(store._edges.list.runs) == 1
    assert values(store) == values(opened(shared)) == texts("1", "2", "3", "4")
    assert store.fold()
    assert len(opened(shared)._edges.list.runs) == 2, "the first fold is in the list"


# ---- processes

WRITER = """
import sys, hbase_store
store = hbase_store.open(sys.argv[1])
store.take_lease(sys.argv[2])
print("ready", flush=True)
sys.stdin.readline()
"""


def test_a_second_writer_learns_who_the_first_one_is(tmp_path: Path) -> None:
    url = f"lmdb:{tmp_path}/store"
    store = hbase_store.open(url)
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with started([sys.executable, "-c", WRITER, url, "http://here:1"], **pipes) as other:
        assert other.stdout.readline() == "ready\n"
        with pytest.raises(AnotherWriter, match="send writes to http://here:1") as caught:
            store.begin()
        assert (caught.value.address, caught.value.pid) == ("http://here:1", other.pid)
        other.communicate("\n", timeout=60)
    assert put(store, "1") == 1
    store.close()


BUSY = """
import random, sys, hbase_store
store = hbase_store.open(sys.argv[1])
rng = random.Random(int(sys.argv[2]))
while True:
    batch = store.begin()
    n = store.head() + 1
    texts = [b'"%d of %d"' % (i, n) for i in range(rng.choice([1, 1, 1, 2000]))]
    ids = batch.encode([b"<http://ex/s>", b"<http://ex/p>", *texts])
    batch.insert(ids[0], ids[1], ids[2:], 0)
    assert store.commit(batch) == n
    print(n, len(texts), flush=True)
"""


def test_a_writer_that_is_killed_loses_nothing_that_it_acknowledged(tmp_path: Path) -> None:
    url = f"lmdb:{tmp_path}/store"
    rng = random.Random(4)
    sizes: dict[int, int] = {}
    for seed in range(4):
        with started([sys.executable, "-c", BUSY, url, str(seed)], stdout=subprocess.PIPE) as writer:
            assert writer.stdout is not None
            stop = len(sizes) + rng.randrange(1, 120)
            while len(sizes) < stop:
                n, size = map(int, writer.stdout.readline().split())
                sizes[n] = size
            writer.kill()
            # What it said between our last look and its death was acknowledged too.
            for line in writer.stdout:
                if line.endswith(b"\n"):
                    n, size = map(int, line.split())
                    sizes[n] = size
        store = hbase_store.open(url)
        head = store.head()
        assert list(sizes) == list(range(1, len(sizes) + 1))
        assert len(sizes) <= head <= len(sizes) + 1, "only the batch whose acknowledgement was under way may be there"
        for sn in range(1, head + 1):
            texts = set(store.terms(store.net_changes(sn).o))
            sizes.setdefault(sn, len(texts))
            assert texts == {b'"%d of %d"' % (i, sn) for i in range(sizes[sn])}
        assert store.at().count_all() == sum(sizes.values())
        store.close()


def test_a_forked_child_opens_its_own_store(tmp_path: Path) -> None:
    """Forked by a process that has never opened one; as Spark's daemon forks its workers."""
    url = f"lmdb:{tmp_path}/store"
    store = hbase_store.open(url)
    put(store, "1")
    store.close()
    code = """
import os, sys, hbase_store.store
if os.fork() == 0:
    store = hbase_store.open(sys.argv[1], read_only=True)
    print(store.at().count_all(), flush=True)
    os._exit(0)
os.wait()
"""
    done = subprocess.run([sys.executable, "-c", code, url], capture_output=True, text=True, check=True)
    assert done.stdout == "1\n"


def test_a_reader_never_writes(tmp_path: Path) -> None:
    url = f"lmdb:{tmp_path}/store"
    hbase_store.open(url).close()
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "store").iterdir() if path.name == "data.mdb"}
    store = hbase_store.open(url, read_only=True)
    with pytest.raises(StoreUnavailable, match="read-only"):
        store.begin()
    store.close()
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert os.listdir(tmp_path) == ["store"]


def test_a_batch_that_no_row_can_hold_is_refused_and_the_next_one_is_written(shared: Shared) -> None:
    store = opened(shared)
    batch = begun(store, "with a catalog entry of 5 MiB")
    batch.catalog("note", 1, bytes(5 << 20))
    with pytest.raises(Unwritable, match="nothing of it was"):
        store.commit(batch)
    assert put(store, "next") == 1
    assert values(store) == [literal("next")]
