"""Sweeps: what a writer leaves that dies, and what nobody can reach any more, is deleted by the next one."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import hbase_store
from hbase_store import EmissionLog, EmissionRow, PushMark, Sn, Store, StreamColumns, StreamMove
from hbase_store.arrays import as_ids
from hbase_store.backends.keyvalue import Put
from hbase_store.backends.lmdb import LmdbKeyValue
from hbase_store.errors import StoreUnavailable
from hbase_store.layout.rows import slice_key
from hbase_store.writing.collection import GRACE_MS
from tests.hbase_store import faulty, victim
from tests.hbase_store.faulty import Shared
from tests.hbase_store.test_store import O, P, S, add
from tests.hbase_store.writing.test_collection import Hand


def killed(url: str, what: str) -> None:
    done = subprocess.run([sys.executable, "-m", "tests.hbase_store.victim", url, what], capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL, done.stderr


def sizes(store: Store) -> dict[str, int]:
    """Bytes by table."""
    tables = ("slab", "slice", "terms", "run", "runindex", "i2t")
    return {table: sum(len(key) + len(value) for key, value in store.kv.scan(table, b"", None)) for table in tables}


def push(store: Store) -> None:
    batch = store.begin()
    s, p, o = batch.encode_transient([S, P, O])
    sn = store.head() + 1
    one, nothing = np.zeros(1, np.int32), as_ids([0])
    columns = StreamColumns(victim.STREAM, np.array([sn]), nothing, one, one, as_ids([s]), as_ids([p]), as_ids([o]))
    batch.stream(StreamMove(victim.STREAM, sn, sn, pushes=[PushMark(0, sn)]), columns)
    store.commit(batch)


def test_a_load_that_was_killed_gives_its_bytes_back(tmp_path: Path) -> None:
    url = f"lmdb:{tmp_path}/store"
    store = hbase_store.open(url, folding=False)
    add(store, (S, P, O, None))
    store.fold()
    before = sizes(store)
    store.close()
    for _ in range(2):
        killed(url, "load")
        store = hbase_store.open(url, folding=False)
        assert sizes(store)["i2t"] > before["i2t"] + 20_000
        store.collect()
        assert sizes(store) == before
        store.close()
    store = hbase_store.open(url, folding=False)
    victim.load(store)
    assert store.at().count(int(store.ids([b"<http://ex/p>"])[0])) >= victim.STATEMENTS
    store.close()


def test_the_pages_of_a_load_that_counts_stay_when_its_run_has_left(tmp_path: Path) -> None:
    """Also where the writer died before it had deleted the run."""
    inner, clock = LmdbKeyValue(tmp_path / "store"), Hand()
    store = Store(Shared(inner), "shared", clock, folding=False)
    victim.load(store)
    loaded = {run.number for run in store._edges.list.runs}
    for _ in range(6):
        add(store, (S, P, O, None))
        store.fold()
        victim.load(store)
    store.fold()
    store.floor(store.head())
    assert not loaded & {run.number for run in store._edges.list.runs}
    for _ in range(2):
        store = Store(Shared(inner), "shared", clock, folding=False)
        store.take_lease("")
        store.collect()
        clock.ms += GRACE_MS
        store.collect()
        texts = [b'"a text of number %d"' % i for i in range(victim.STATEMENTS)]
        ids = store.ids(texts)
        assert ids.all()
        assert Store(Shared(inner), "shared", clock, folding=False).terms(ids) == texts
    inner.close()


def test_a_stream_whose_deletion_was_killed_gives_its_bytes_back(tmp_path: Path) -> None:
    url = f"lmdb:{tmp_path}/store"
    store = hbase_store.open(url, folding=False)
    for _ in range(300):
        push(store)
    store.fold()
    store.close()
    killed(url, "stream")
    store = hbase_store.open(url, folding=False)
    assert sizes(store)["slice"] > 10_000
    store.collect()
    assert sizes(store)["slice"] == 0
    store.close()


def test_slices_of_a_stream_that_never_came_to_be_go(tmp_path: Path) -> None:
    """On HBase a publish is not one transaction: its slices may be there, and nothing that tells of their stream."""
    inner = LmdbKeyValue(tmp_path / "store")
    first = Store(Shared(inner), "shared", Hand(), folding=False)
    push(first)
    inner.put_many([Put("slice", slice_key(77, 1, 2, 0), b"x", 2)])
    second = Store(Shared(inner), "shared", Hand(), folding=False)
    push(second)
    second.fold()
    second.collect()
    assert [key[:16] for key, _ in inner.scan("slice", b"", None)] == [
        slice_key(victim.STREAM, epoch, 1, 0)[:16] for epoch in (1, 2)
    ]
    inner.close()


def test_commits_that_never_counted_go(tmp_path: Path) -> None:
    inner, clock = LmdbKeyValue(tmp_path / "store"), Hand()
    for number in range(1, 4):
        shared = Shared(inner)
        log = EmissionLog(shared, clock)
        log.refresh()
        log.commit([EmissionRow(1, number, b"said")], {1: b"state"}, Sn(number))
        shared.fault = faulty.written_then_unreachable
        with pytest.raises(StoreUnavailable):
            log.commit([EmissionRow(1, number + 1, b"lost")], {1: b"lost" * 1000}, Sn(number + 1))
    assert sum(len(value) for _, value in inner.scan("commit", b"", None)) > 8_000
    log = EmissionLog(Shared(inner), clock)
    log.refresh()
    log.take_over()
    log.collect(0)
    assert sum(len(value) for _, value in inner.scan("commit", b"", None)) < 1_000
    assert ([row.number for row in log.read(1)], log.states()) == ([1, 2, 3], {1: b"state"})
    log.commit([EmissionRow(1, 4, b"said")], {1: b"state"}, Sn(4))
    assert EmissionLog(Shared(inner), clock).refresh() == 4
    inner.close()
