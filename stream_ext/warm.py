"""Compiles every loop of the engine and the store (or loads it from the cache), so that no query waits for it."""

from __future__ import annotations

import hbase_store.warm
from stream_ext.rows.kernels import content as content_kernels
from stream_ext.rows.kernels import distinct as kernels
from stream_ext.rows.kernels import expiry as expiry_kernels
from stream_ext.rows.kernels import group as group_kernels
from stream_ext.rows.kernels import order as order_kernels
from stream_ext.rows.kernels import path as path_kernels
from stream_ext.rows.kernels import ring as ring_kernels


def warm() -> None:
    hbase_store.warm.warm()
    for each in (group_kernels, path_kernels, expiry_kernels, ring_kernels, content_kernels, order_kernels, kernels):
        each.warm()
