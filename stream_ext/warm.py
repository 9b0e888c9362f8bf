"""Compiles every loop of the engine and the store (or loads it from the cache), so that no query waits for it."""

from __future__ import annotations

import hbase_store.warm
from stream_ext import (
    content_kernels,
    expiry_kernels,
    group_kernels,
    kernels,
    order_kernels,
    path_kernels,
    ring_kernels,
)


def warm() -> None:
    hbase_store.warm.warm()
    for each in (group_kernels, path_kernels, expiry_kernels, ring_kernels, content_kernels, order_kernels, kernels):
        each.warm()
