"""What the injector says when it has published: to whoever pushed, and to its listener."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from hbase_store import StreamPosition
from stream_ext.catalog.catalog import Catalog, CatalogStep
from stream_ext.writer.gathering import Accepted


@dataclass(frozen=True, slots=True)
class Receipt:
    """The outcome of a push: late elements, the stream's batch, the snapshot."""

    accepted: int
    late: int
    batch: int
    snapshot: int
    repeated: bool = False


@dataclass(frozen=True, slots=True)
class PublishedBatch:
    """A snapshot that is now the head: what it did to streams, in order, and to the catalog (before and after).
    `is_followed`: the next one was published together with it, and comes at once."""

    sn: int
    accepted: Sequence[Accepted]
    steps: Sequence[CatalogStep]
    before: Catalog
    catalog: Catalog
    positions: dict[int, StreamPosition]
    is_followed: bool = False


class Listener(Protocol):
    def published(self, news: PublishedBatch) -> None:
        """Called by the writer when the head has moved, before requests are acknowledged; must be quick."""
        ...

    def late_in(self, accepted: Accepted) -> int:
        """How many of these elements are late for at least one query. Called once for each, in order."""
        ...

    def stopped(self, error: BaseException) -> None:
        """The writer has stopped; nothing more is published by this injector."""
        ...


class NotStarted:
    """The listener until `start`."""

    def published(self, news: PublishedBatch) -> None:
        raise AssertionError("published before the start")

    def late_in(self, accepted: Accepted) -> int:
        raise AssertionError("pushed before the start")

    def stopped(self, error: BaseException) -> None:
        raise AssertionError("stopped before the start")
