"""Compiles every loop of the store that is not compiled yet, so that no reader waits for it."""

from __future__ import annotations

from hbase_store.layout import hashing, picked_rows, transient_rows
from hbase_store.sorted import hops, kernels
from hbase_store.writing import loading


def warm() -> None:
    kernels.warm()
    hashing.warm()
    hops.warm()
    loading.warm()
    transient_rows.warm()
    picked_rows.warm()
