"""The stores that this process has open to read: each only once, which LMDB asks for, until the process ends."""

from __future__ import annotations

import atexit
import os
import threading

import hbase_store
from hbase_store import Store

_lock = threading.Lock()
_open_stores: dict[str, Store] = {}


def opened_to_read(url: str, snapshot: int = 0) -> Store:
    """The store, which has read everything up to this snapshot; 0: up to some snapshot."""
    with _lock:
        store = _open_stores.get(url)
        if store is None:
            store = _open_stores[url] = hbase_store.open(url, read_only=True)
            atexit.register(store.close)
            store.refresh()
        elif not snapshot or store.head() < snapshot:
            store.refresh()
        return store


def close_opened(url: str) -> None:
    """Nobody in this process reads the store any more."""
    with _lock:
        store = _open_stores.pop(url, None)
        if store is not None:
            atexit.unregister(store.close)
            store.close()


def absolute(url: str) -> str:
    """The address of a store for processes that have another working folder."""
    kind, _, path = url.partition(":")
    return f"lmdb:{os.path.abspath(path)}" if kind == "lmdb" else url
