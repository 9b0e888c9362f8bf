"""Compiles every loop of the store that is not compiled yet, so that no reader waits for it."""

from __future__ import annotations

from hbase_store import hashing, hops, kernels, loading, transient_rows


def warm() -> None:
    kernels.warm()
    hashing.warm()
    hops.warm()
    loading.warm()
    transient_rows.warm()
