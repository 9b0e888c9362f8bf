"""A thread that must not wait reads what is in memory, and is told where it would have to wait."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

import hbase_store
from hbase_store import Store
from hbase_store.errors import NotInMemory
from hbase_store.memory_only import ShortLock, check_may_wait, memory_only

COUNT = 3_000


@pytest.fixture
def texts() -> list[bytes]:
    return [b"<http://ex/%d>" % n for n in range(COUNT)]


@pytest.fixture
def url(tmp_path: Path, texts: list[bytes]) -> str:
    """A store with all its edges and terms in a run."""
    found = f"lmdb:{tmp_path / 'store'}"
    store = hbase_store.open(found)
    batch = store.begin()
    ids = batch.encode(texts)
    batch.insert(ids, int(batch.encode([b"<http://ex/p>"])[0]), ids[::-1].copy(), 0)
    store.commit(batch)
    store.fold()
    store.close()
    return found


def needs_to_wait(read: Callable[[], object]) -> bool:
    try:
        with memory_only():
            read()
    except NotInMemory:
        return True
    return False


def test_what_was_read_before_is_read_and_nothing_else(url: str, texts: list[bytes]) -> None:
    store = hbase_store.open(url)
    assert needs_to_wait(lambda: store.ids([texts[0]]))
    subject, predicate = (int(id) for id in store.ids([texts[0], b"<http://ex/p>"]))
    assert not needs_to_wait(lambda: store.ids([texts[0]]))
    snapshot = store.at()
    assert needs_to_wait(lambda: snapshot.values(predicate, subject))
    found = snapshot.values(predicate, subject)
    assert not needs_to_wait(lambda: snapshot.values(predicate, subject))
    assert needs_to_wait(store.refresh)
    store.close()
    store = hbase_store.open(url)
    assert needs_to_wait(lambda: store.terms(found))
    assert store.terms(found) == [texts[-1]]
    assert not needs_to_wait(lambda: store.terms(found))
    store.close()


def test_changes_are_merged_by_who_may_wait(url: str, texts: list[bytes]) -> None:
    store = hbase_store.open(url)
    subject, other, predicate = (int(id) for id in store.ids([texts[0], texts[1], b"<http://ex/p>"]))
    assert len(store.at().values(predicate, subject)) == 1
    _insert(store, subject, predicate, subject)
    assert needs_to_wait(lambda: store.at(store.head()).values(predicate, subject))
    assert len(store.at().values(predicate, subject)) == 2
    assert not needs_to_wait(lambda: store.at(store.head()).values(predicate, other))
    store.close()


def _insert(store: Store, subject: int, predicate: int, target: int) -> None:
    batch = store.begin()
    batch.insert(subject, predicate, target, 0)
    store.commit(batch)


def test_nobody_who_must_not_wait_waits_for_a_lock() -> None:
    lock, others = ShortLock(), list[bool]()

    def other() -> None:
        others.append(needs_to_wait(lock.__enter__))

    with lock:
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    assert others == [True]
    with memory_only(), lock:
        pass


def test_it_ends_where_it_began() -> None:
    with memory_only():
        with memory_only():
            pass
        with pytest.raises(NotInMemory):
            check_may_wait()
    check_may_wait()
