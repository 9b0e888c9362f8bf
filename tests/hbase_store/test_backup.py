"""A backup is the store as it was at one snapshot, whatever is written meanwhile; and a restored store goes on."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import hbase_store
from hbase_store import EmissionRow, Sn, Store
from hbase_store import backup as backups
from hbase_store.arrays import as_ids
from hbase_store.backends.lease import CellLease
from hbase_store.backends.lmdb import LmdbKeyValue
from hbase_store.clock import WallClock
from hbase_store.errors import StoreUnavailable
from hbase_store.layout.terms import iri
from tests.hbase_store.faulty import Leased
from tests.hbase_store.pretended_hbase import PretendedHBase
from tests.parts.waiting import until

P = iri("http://ex/p")


@pytest.fixture
def kv(tmp_path: Path) -> Iterator[Leased]:
    inner = LmdbKeyValue(tmp_path / "source")
    yield Leased(inner)
    inner.close()


def write(store: Store, number: int) -> None:
    """Each snapshot has one edge more, with a term of its own; and each third one an emission."""
    batch = store.begin()
    s, p, o = batch.encode([iri(f"http://ex/s{number}"), P, iri(f"http://ex/o{number % 7}")]).tolist()
    batch.insert(s, p, as_ids([o]), 0)
    sn = store.commit(batch)
    if number % 3 == 0:
        following = store.emissions.last(1) + 1
        store.emissions.commit([EmissionRow(1, following, b"emission %d" % number)], {1: b"state"}, sn)


def edges(store: Store, sn: int) -> set[tuple[bytes, bytes]]:
    p = int(store.ids([P])[0])
    if not p:
        return set()
    s, o = store.at(sn).pairs(p)
    return set(zip(store.terms(s), store.terms(o), strict=True))


def expected(count: int) -> set[tuple[bytes, bytes]]:
    return {(iri(f"http://ex/s{i}"), iri(f"http://ex/o{i % 7}")) for i in range(1, count + 1)}


def check_copy(copy: Store, snapshot: int) -> None:
    assert copy.head() == snapshot
    assert edges(copy, snapshot) == expected(snapshot)
    numbers = [row.number for row in copy.emissions.read(1)]
    assert numbers == list(range(1, len(numbers) + 1))
    assert copy.emissions.position() <= snapshot


def test_a_copy_made_while_others_write_is_one_snapshot(kv: Leased, tmp_path: Path) -> None:
    source = Store(kv, "source", WallClock(), folding=False)
    stopping, written = threading.Event(), 0

    def writes() -> None:
        nonlocal written
        while not stopping.is_set():
            write(source, written + 1)
            written += 1
            if written % 50 == 0:
                source.fold()
            if written % 20 == 0:
                source.floor(max(1, written - 40))
                source.collect()

    writer = threading.Thread(target=writes)
    writer.start()
    until(lambda: written > 60, "nothing is written")
    target = Leased(LmdbKeyValue(tmp_path / "copy"))
    before = written
    snapshot, commit, rows = backups.copy_store(kv, target)
    assert written >= snapshot >= before
    stopping.set()
    writer.join()
    copy = Store(target, "copy", WallClock(), folding=False)
    check_copy(copy, snapshot)
    assert (copy.emissions.commits, rows > snapshot) == (commit, True)
    for _ in range(3):  # it goes on where the snapshot ends
        write(copy, int(copy.head()) + 1)
    check_copy(copy, snapshot + 3)
    target._inner.close()


def test_rows_that_are_gone_before_they_are_copied_are_found_out(
    kv: Leased, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = Store(kv, "source", WallClock(), folding=False)
    for number in range(1, 10):
        write(source, number)
    target = Leased(LmdbKeyValue(tmp_path / "copy"))
    scan, left_out = kv.scan, 1

    def without_a_slab(table: str, start: bytes, stop: bytes | None) -> Iterator[Any]:
        for number, row in enumerate(scan(table, start, stop)):
            if table != "slab" or number >= left_out:
                yield row

    monkeypatch.setattr(kv, "scan", without_a_slab)
    with pytest.raises(StoreUnavailable, match="rows were deleted before they could be copied"):
        backups.copy_store(kv, target)
    left_out = 0
    assert backups.copy_store(kv, target)[0] == 9
    target._inner.close()


def test_a_backup_of_lmdb_is_restored_to_hbase_and_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"lmdb:{tmp_path / 'store'}"
    store = hbase_store.open(url, folding=False)
    for number in range(1, 21):
        write(store, number)
    store.close()
    manifest = backups.backup(url, tmp_path / "backup")
    assert (manifest.snapshot, manifest.source) == (20, url)
    hbase = PretendedHBase().backend(monkeypatch)
    source = LmdbKeyValue(tmp_path / "backup" / "store", read_only=True)
    assert backups.copy_store(source, hbase)[0] == 20
    source.close()
    restored = Store(hbase, "hbase", WallClock(), folding=False)
    check_copy(restored, 20)
    write(restored, 21)
    assert restored.fold()
    restored.floor(21)
    restored.collect()
    check_copy(restored, 21)
    back = LmdbKeyValue(tmp_path / "back")
    assert backups.copy_store(hbase, back)[0] == 21
    check_copy(Store(back, "back", WallClock(), folding=False), 21)
    back.close()
    restored.close()


def test_only_complete_backups_are_restored_and_only_into_new_stores(tmp_path: Path) -> None:
    url = f"lmdb:{tmp_path / 'store'}"
    store = hbase_store.open(url, folding=False)
    write(store, 1)
    store.close()
    backups.backup(url, tmp_path / "backup")
    with pytest.raises(StoreUnavailable, match="is not empty"):
        backups.backup(url, tmp_path / "backup")
    with pytest.raises(StoreUnavailable, match="has data; restore into a new store"):
        backups.restore(tmp_path / "backup", url)
    restored = f"lmdb:{tmp_path / 'restored'}"
    assert backups.restore(tmp_path / "backup", restored).snapshot == 1
    again = hbase_store.open(restored, folding=False)
    check_copy(again, 1)
    write(again, 2)
    again.close()
    (tmp_path / "backup" / "backup.json").unlink()
    with pytest.raises(StoreUnavailable, match="was not completed"):
        backups.restore(tmp_path / "backup", f"lmdb:{tmp_path / 'other'}")


def test_a_restored_store_has_a_lease_and_a_secret_of_its_own(kv: Leased, tmp_path: Path) -> None:
    source = Store(kv, "source", WallClock(), folding=False)
    source.take_lease("http://the-source/")
    source.share_base("http://ex/")
    write(source, 1)
    target = Leased(LmdbKeyValue(tmp_path / "copy"))
    backups.copy_store(kv, target)
    copy = Store(target, "copy", WallClock(), folding=False)
    copy.take_lease("http://the-copy/")
    assert copy.secret() != source.secret()
    assert copy.base() is None
    assert isinstance(copy._lease, CellLease)
    assert Sn(1) == copy.head()
    source.close()
    copy.close()
    target._inner.close()
