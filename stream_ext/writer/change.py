"""Changes: requests that read the state at the head, and say what they will do to it. The injector does it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol

from hbase_store import Batch, Store, StreamPosition
from stream_ext.catalog.catalog import Catalog, CatalogStep


@dataclass(frozen=True, slots=True)
class HeadView:
    """What a change reads: the state at the head."""

    store: Store
    head: int
    catalog: Catalog
    positions: dict[int, StreamPosition]
    new_number: Callable[[str], int]  # of a stream or a query; no number is used twice


@dataclass(frozen=True, slots=True)
class Intent:
    """What a change will do. Without steps and without `write` nothing is published; `result` gets the SN.

    `terms` become permanent with its steps."""

    result: Callable[[int], Any]
    steps: Sequence[CatalogStep] = ()
    terms: Sequence[bytes] = ()
    write: Callable[[Batch], None] | None = None
    skips_empty: bool = False  # what leaves the batch empty makes no snapshot; only `write` can tell
    publish: Callable[[], object] | None = None  # the last step of a load: it publishes one snapshot by itself, or none


class Together(Enum):
    """Which consecutive requests the writer takes from its queue at once."""

    PUSHES = "pushes"  # and heartbeats: one snapshot
    REGISTRATIONS = "registrations"  # one snapshot; they only change the catalog, and encode terms
    UPDATES = "updates"  # a snapshot each, published at once; they only write edges, and none of them takes long


class MustBeFirst(Exception):
    """Raised by `write` of an update that reads more than the store: it is filled again when those before it are
    published."""


class Change(Protocol):
    """An update request, or a change of the catalog: a snapshot of its own. An attribute `together` says that it may
    be published with others."""

    def __call__(self, view: HeadView) -> Intent:
        """Raises if it cannot be done; nothing has been changed then."""
        ...
