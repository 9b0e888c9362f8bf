"""An attached source: the source, and our own store, which is written for it as long as this process is the writer."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from hbase_store import Store
from stream_ext.catalog.catalog import Catalog
from stream_ext.clock import Clock
from stream_ext.remote.source import Source
from stream_ext.writer.change import Change


@dataclass(frozen=True, slots=True)
class AttachedSource:
    """`catalog` gives the present one; `publish` makes a change in the writer's thread."""

    source: Source
    store: Store
    clock: Clock
    catalog: Callable[[], Catalog]
    publish: Callable[[Change], Future[Any]]
