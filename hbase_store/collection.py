"""Collection: what no snapshot that is retained needs any more is deleted.

The run list says what is retained: no snapshot below its floor, and of each stream no slice below its horizon. That is
published before anything is deleted, and never goes back. Blocks of runs that left the list stay for a while, for who
is reading them. What writers of earlier epochs left and never counted is deleted once, by the next writer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from hbase_store.head import Head
from hbase_store.history import WHOLE_EVERY
from hbase_store.keyvalue import KeyValue
from hbase_store.rows import slab_key, slice_key, sn_key
from hbase_store.run_blocks import index_key, run_number, run_range
from hbase_store.run_list import RunEntry, RunList, list_key

#: How long blocks stay that no list names: no query may run longer.
GRACE_MS = 300_000


def retained(runs: RunList, head: int, floor: int, horizons: Mapping[int, int]) -> RunList:
    """The list with a floor and horizons no lower than these, and with the runs that somebody may still need."""
    floor = max(runs.floor, min(floor, head))
    higher = {stream: max(sn, runs.horizons.get(stream, 0)) for stream, sn in horizons.items()}
    cover_ends = {floor, *(run.last for run in runs.runs if run.last >= floor)}
    needed = {run.number for sn in cover_ends for run in runs.cover(sn)}
    # A load above the floor is what its snapshot changed.
    kept = tuple(run for run in runs.runs if run.number in needed or run.first == run.last > floor)
    return msgspec.structs.replace(runs, runs=kept, floor=floor, horizons={**runs.horizons, **higher})


class Collector:
    """Of the one writer, who tells it what left the list. `first_run`: no run that it writes has a lower number."""

    def __init__(self, kv: KeyValue, first_run: int) -> None:
        self._kv, self._first_run = kv, first_run
        self._left: list[tuple[int, tuple[RunEntry, ...]]] = []

    def leave(self, now_ms: int, runs: Iterable[RunEntry]) -> None:
        self._left.append((now_ms, tuple(runs)))

    def collect(self, runs: RunList, head: Head, streams: Iterable[int], now_ms: int) -> None:
        """`runs` is published, and `streams` are those that there are."""
        horizons = {stream: runs.horizons.get(stream, 0) for stream in {*streams, *runs.horizons}}
        self._collect_log(runs, head, horizons)
        due = [entries for at, entries in self._left if at + GRACE_MS <= now_ms]
        if due:
            self._left = [(at, entries) for at, entries in self._left if at + GRACE_MS > now_ms]
            for entry in (entry for entries in due for entry in entries):
                self._delete_run(entry.number)
            self._kv.delete_range("runs", list_key(0), list_key(runs.number), head.last)

    def _collect_log(self, runs: RunList, head: Head, horizons: Mapping[int, int]) -> None:
        floor = runs.floor
        cover = runs.cover(floor)
        self._collect_rows(head, min([floor, *(horizon - 1 for horizon in horizons.values())]))
        slabs = min([floor, cover[-1].last if cover else 0, *(horizon - 1 for horizon in horizons.values())])
        for granted in head.ranges:
            epoch, first = granted.epoch, granted.first
            if first <= slabs:
                stop = slab_key(epoch, min(slabs, granted.last) + 1, 0)
                self._kv.delete_range("slab", slab_key(epoch, first, 0), stop, slabs)
            for stream, horizon in horizons.items():
                last = min(horizon - 1, floor, granted.last)
                if first <= last:
                    start = slice_key(stream, epoch, first, 0)
                    self._kv.delete_range("slice", start, slice_key(stream, epoch, last + 1, 0), last)

    def _collect_rows(self, head: Head, last: int) -> None:
        """The rows that nobody asks for; the last whole one below stays, for the sums of those after it."""
        whole = last - last % WHOLE_EVERY
        for granted in head.ranges:
            if granted.first < whole:
                stop = sn_key(granted.epoch, min(whole, granted.last + 1))
                self._kv.delete_range("sn", sn_key(granted.epoch, granted.first), stop, whole - 1)

    def _delete_run(self, number: int) -> None:
        latest = (1 << 62) - 1
        self._kv.delete_range("runindex", index_key(number, 0), index_key(number + 1, 0), latest)
        self._kv.delete_range("run", *run_range(number), latest)

    # ---- what never counted

    def collect_orphans(self, runs: RunList, head: Head, streams: Iterable[int]) -> None:
        """Of the epochs before ours that were not looked at yet: rows above what they published, runs of no list."""
        latest = (1 << 62) - 1
        lasts = {granted.epoch: granted.last for granted in head.ranges}
        numbers = sorted({*streams, *runs.horizons})
        for epoch in range(runs.collected + 1, head.epoch):
            last = lasts.get(epoch, 0)
            self._kv.delete_range("slab", slab_key(epoch, last + 1, 0), slab_key(epoch + 1, 0, 0), latest)
            self._kv.delete_range("sn", sn_key(epoch, last + 1), sn_key(epoch + 1, 0), latest)
            for stream in numbers:
                start, stop = slice_key(stream, epoch, last + 1, 0), slice_key(stream, epoch + 1, 0, 0)
                self._kv.delete_range("slice", start, stop, latest)
        listed = {run.number for run in runs.runs} | {run.number for _, left in self._left for run in left}
        number = self._next_run(0)
        while number is not None and number < self._first_run:
            if number not in listed:
                self._delete_run(number)
            number = self._next_run(number + 1)

    def _next_run(self, number: int) -> int | None:
        """The first run from `number` on of which there are blocks."""
        start, _ = run_range(number)
        for key, _ in self._kv.scan("run", start, None):
            return run_number(key)
        return None
