"""A shard that is cut after every few evaluations, and processes that stand for Spark's driver and its tasks."""

from __future__ import annotations

import contextlib
import multiprocessing
import tempfile
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

from hbase_store import open as open_store
from stream_ext.continuous.assignment import on_spark
from stream_ext.continuous.catching_up.turns import TurnLimits
from stream_ext.continuous.query_budget import Budget
from stream_ext.continuous.shard import Shard
from stream_ext.remote.allowed_urls import AllowedUrls
from stream_ext.runners.spark import wire
from stream_ext.runners.spark.seat import serve
from stream_ext.windows.part import Part
from stream_ext.windows.query_state import QueryState

FACTORY = "tests.stream_ext.runners.spark.pieces:open_shard"
SMALL = TurnLimits(7, None, 5, None)
#: So small that ranges of divided queries, which have longer turns, are behind, too.
OF_RANGES = "tests.stream_ext.runners.spark.pieces:open_shard_of_ranges"
SMALLER = TurnLimits(1, None, 5, None)

__all__ = ["FACTORY", "OF_RANGES", "SMALL", "SMALLER", "Part", "QueryState", "TasksWithoutSpark", "open_shard"]


def open_shard(
    store_url: str, base: str, allowed_urls: AllowedUrls, budget: Budget, only: Collection[int] | None = None
) -> Shard:
    is_assigned = on_spark if only is None else lambda query: query.number in only
    return Shard(open_store(store_url, read_only=True), is_assigned, allowed_urls, budget=budget, pace=SMALL)


def open_shard_of_ranges(
    store_url: str, base: str, allowed_urls: AllowedUrls, budget: Budget, only: Collection[int] | None = None
) -> Shard:
    shard = open_shard(store_url, base, allowed_urls, budget, only)
    shard.pace = SMALLER
    return shard


class TasksWithoutSpark:
    """One task after the other, each in its seat, in one process."""

    def __init__(self, settings: object, admit: Callable[[Path], wire.Address], *_: Any) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="rillet-tasks-")
        context = multiprocessing.get_context("spawn")
        self._process = context.Process(target=_serve_for_ever, args=(admit(Path(self._folder.name)),), daemon=True)
        self._process.start()
        self.pid = self._process.pid

    def reports(self, within_s: float) -> Iterator[Any]:
        self._process.join()
        return iter(())

    def bury(self) -> str:
        self._folder.cleanup()
        return f"it ended with {self._process.exitcode}"

    def kill(self) -> None:
        self._process.kill()


def _serve_for_ever(address: wire.Address) -> None:
    epoch = 0
    with contextlib.suppress(ConnectionError):
        while True:
            epoch += 1
            serve(address, 0, epoch)
