"""Collection: deletes what no retained snapshot needs any more.

The run list says what is retained: no snapshot below its floor, and of each stream no slice below its horizon. That is
published before anything is deleted, and never goes back. Below the floor a snapshot's row, and the slab that was
folded, stay while they hold elements that a stream retains. Blocks of runs that left the list stay for a while, as
they may be in use. Rows of earlier writers that never counted are deleted once, by the next writer."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial

import msgspec

from hbase_store.backends.keyvalue import Key, KeyValue
from hbase_store.layout.rows import SnRow, slab_key, slice_key, sn_key, terms_key, unpack_row, whole_key
from hbase_store.layout.run_blocks import index_key, pages_key, run_range
from hbase_store.layout.run_list import RunEntry, RunList, list_key
from hbase_store.log.head import Head
from hbase_store.log.history import WHOLE_EVERY
from hbase_store.terms.pages import PageRange, unpack_range

#: How long blocks stay that no list names: no query may run longer.
GRACE_MS = 300_000
_NEVER = 1 << 62
#: Tables whose keys begin with the epoch; a slice goes before the row that names it.
_BY_EPOCH = ("sn", "slab", "terms")


def retained(
    runs: RunList, head: int, floor: int, horizons: Mapping[int, int], streams: Collection[int] | None = None
) -> RunList:
    """The list with a floor and horizons no lower than these, and with the runs that may still be read.

    `streams` are those that there are, if that is known: of others no horizon is kept."""
    floor = max(runs.floor, min(floor, head))
    higher = {stream: max(sn, runs.horizons.get(stream, 0)) for stream, sn in horizons.items()}
    new_horizons = {
        stream: sn for stream, sn in {**runs.horizons, **higher}.items() if streams is None or stream in streams
    }
    cover_ends = {floor, *(run.last for run in runs.runs if run.last >= floor)}
    needed = {run.number for sn in cover_ends for run in runs.cover(sn)}
    # A load above the floor is what its snapshot changed.
    runs_left = tuple(run for run in runs.runs if run.number in needed or run.first == run.last > floor)
    return msgspec.structs.replace(runs, runs=runs_left, floor=floor, horizons=new_horizons)


class Collector:
    """The collector of the one writer, which calls `leave` for runs that left the list. `first_run`: the lowest number
    that a run of this writer can have."""

    def __init__(self, kv: KeyValue, first_run: int) -> None:
        self._kv, self._first_run = kv, first_run
        self._left: list[tuple[int, tuple[RunEntry, ...]]] = []
        # Slabs up to here and rows before here were looked at; `_needed` lists those that a stream still needs.
        self._slabs_seen, self._rows_before = 0, 1
        self._needed: dict[int, array[int]] = {}
        self._sliced: dict[int, int] = {}
        self._terms_left: list[tuple[int, int]] = []

    def leave(self, now_ms: int, runs: Iterable[RunEntry]) -> None:
        self._left.append((now_ms, tuple(runs)))

    def collect(self, runs: RunList, head: Head, streams: Collection[int], now_ms: int) -> None:
        """Deletes what `runs`, which is published, does not retain. `streams`: those that exist."""
        self._collect_slices(runs, head, streams)
        self._collect_log(runs, head, streams)
        self._collect_terms(runs, head, now_ms)
        due = [entries for at, entries in self._left if at + GRACE_MS <= now_ms]
        if due:
            self._left = [(at, entries) for at, entries in self._left if at + GRACE_MS > now_ms]
            for entry in (entry for entries in due for entry in entries):
                self._delete_run(entry.number)
            self._kv.delete_range("runs", list_key(0), list_key(runs.number), head.last)

    def needed_from(self, head: Head) -> int:
        """The number below which no epoch has rows any more, so that the head can forget who wrote them."""
        needed = 0
        for granted in head.ranges[:-1]:
            if granted.last >= self._rows_before or any(map(partial(self._has_rows, granted.epoch), _BY_EPOCH)):
                break
            needed = granted.last + 1
        return needed

    def _has_rows(self, epoch: int, table: str) -> bool:
        start, stop = sn_key(epoch, 0), sn_key(epoch + 1, 0)
        return next(self._kv.scan(table, start, stop), None) is not None

    def _collect_slices(self, runs: RunList, head: Head, streams: Collection[int]) -> None:
        """Deletes slices below the horizons of existing streams: the slices of a stream are one range of keys."""
        for stream in streams:
            horizon, done = runs.horizons.get(stream, 0), self._sliced.get(stream, 0)
            for granted in head.ranges:
                first, last = max(granted.first, done), min(granted.last, horizon - 1)
                if first <= last:
                    start = slice_key(stream, granted.epoch, first, 0)
                    self._kv.delete_range("slice", start, slice_key(stream, granted.epoch, last + 1, 0), last)
            self._sliced[stream] = max(horizon, done)
        self._sliced = {stream: done for stream, done in self._sliced.items() if stream in streams}

    def _collect_terms(self, runs: RunList, head: Head, now_ms: int) -> None:
        """Deletes transient terms of generations that left a while ago: a reader of their ids may still decode them."""
        if not self._terms_left or self._terms_left[-1][1] < runs.terms_from:
            self._terms_left.append((now_ms, runs.terms_from))
        due = max((before for at, before in self._terms_left if at + GRACE_MS <= now_ms), default=0)
        if due:
            # The last one stays: it says what was noted.
            self._terms_left = [(at, before) for at, before in self._terms_left if before > due] or [(now_ms, due)]
            for granted in head.ranges:
                last = min(granted.last, due - 1)
                if granted.first <= last:
                    start, stop = terms_key(granted.epoch, 0, 0), terms_key(granted.epoch, last + 1, 0)
                    self._kv.delete_range("terms", start, stop, last)

    def _collect_log(self, runs: RunList, head: Head, streams: Collection[int]) -> None:
        """Slabs up to the floor, as far as runs cover it; rows up to the last whole one, which sums them up."""
        cover = runs.cover(runs.floor)
        slabs = min(runs.floor, cover[-1].last if cover else 0)
        whole = slabs - slabs % WHOLE_EVERY
        freed = _Freed(runs.horizons, frozenset(streams), whole)
        for row in self._released(head, freed):
            self._hold(freed.look_at(row), row)
        for row in self._rows(head, self._slabs_seen + 1, slabs):
            self._hold(freed.look_at(row), row)
        for row in self._rows(head, self._rows_before, whole - 1):
            freed.look_at(row)
        for table, keys in freed.keys.items():
            self._kv.delete(table, keys, slabs)
        self._slabs_seen, self._rows_before = max(slabs, self._slabs_seen), max(whole, self._rows_before)

    def _hold(self, stream: int | None, row: SnRow) -> None:
        if stream is not None:
            self._needed.setdefault(stream, array("q")).append(row.sn)

    def _released(self, head: Head, freed: _Freed) -> list[SnRow]:
        """Rows that were needed by one stream and are not any more; another stream may still need them."""
        passed: list[int] = []
        for stream, sns in list(self._needed.items()):
            horizon = freed.horizon(stream)
            passed += [sn for sn in sns if sn < horizon]
            self._needed[stream] = array("q", [sn for sn in sns if sn >= horizon])
            if not self._needed[stream]:
                del self._needed[stream]
        keys = [sn_key(head.epoch_of(sn), sn) for sn in passed]
        found = zip(keys, self._kv.get_many("sn", keys) if keys else (), strict=True)
        return [unpack_row(value, key) for key, value in found if value is not None]

    def _rows(self, head: Head, first: int, last: int) -> Iterator[SnRow]:
        """The rows of these snapshots that still exist."""
        for granted in head.ranges:
            start, stop = max(first, granted.first), min(last, granted.last) + 1
            if start < stop:
                for key, value in self._kv.scan("sn", sn_key(granted.epoch, start), sn_key(granted.epoch, stop)):
                    if len(key) == len(sn_key(0, 0)):
                        yield unpack_row(value, key)

    def _delete_run(self, number: int) -> None:
        latest = (1 << 62) - 1
        self._kv.delete_range("runindex", index_key(number, 0), index_key(number + 1, 0), latest)
        self._kv.delete_range("run", *run_range(number), latest)

    # ---- what never counted

    def collect_orphans(
        self, runs: RunList, head: Head, streams: Collection[int], sweep: Callable[[PageRange], None]
    ) -> None:
        """Of the epochs before ours that were not looked at yet: rows above what they published, runs of no list; and
        slices below the floor of streams that are gone. `sweep` deletes the pages of a load that came to nothing."""
        latest = (1 << 62) - 1
        lasts = {granted.epoch: granted.last for granted in head.ranges}
        numbers = list(self._numbers("slice"))
        for epoch in range(runs.collected + 1, head.epoch):
            last = lasts.get(epoch, 0)
            self._kv.delete_range("slab", slab_key(epoch, last + 1, 0), slab_key(epoch + 1, 0, 0), latest)
            self._kv.delete_range("terms", terms_key(epoch, last + 1, 0), terms_key(epoch + 1, 0, 0), latest)
            self._kv.delete_range("sn", sn_key(epoch, last + 1), sn_key(epoch + 1, 0), latest)
            for stream in numbers:
                start, stop = slice_key(stream, epoch, last + 1, 0), slice_key(stream, epoch + 1, 0, 0)
                self._kv.delete_range("slice", start, stop, latest)
        for stream in set(numbers).difference(streams):
            for granted in head.ranges:
                start, stop = (slice_key(stream, granted.epoch, sn, 0) for sn in (granted.first, runs.floor))
                if start < stop:
                    self._kv.delete_range("slice", start, stop, latest)
        listed = {run.number for run in runs.runs} | {run.number for _, left in self._left for run in left}
        for number in sorted({*self._numbers("run"), *self._numbers("runindex")} - listed):
            if number < self._first_run:
                key = pages_key(number)
                (pages,) = self._kv.get_many("runindex", [key])
                if pages is not None:
                    sweep(unpack_range(pages, key))
                self._delete_run(number)

    def _numbers(self, table: str) -> Iterator[int]:
        """The numbers with which the keys of a table begin, at the cost of one read for each."""
        number: int | None = 0
        while number is not None:
            first = next((key for key, _ in self._kv.scan(table, run_range(number)[0], None)), None)
            number = None if first is None else int.from_bytes(first[:8], "big")
            if number is not None:
                yield number
                number += 1


class _Freed:
    """The keys that go; of rows below `whole` also the rows themselves."""

    def __init__(self, horizons: Mapping[int, int], streams: frozenset[int], whole: int) -> None:
        self._horizons, self._streams, self._whole = horizons, streams, whole
        self.keys: dict[str, list[Key]] = {"slab": [], "slice": [], "sn": []}

    def horizon(self, stream: int) -> int:
        """The horizon of a stream; for one that was dropped, at least the floor."""
        return self._horizons.get(stream, 0) if stream in self._streams else _NEVER

    def look_at(self, row: SnRow) -> int | None:
        """Adds the keys of a row at or below the floor; returns the stream that still needs it, if there is one."""
        holding = [place for place in row.places if self.horizon(place.stream) <= row.sn]
        for place in row.places:
            if place.stream not in self._streams:
                self.keys["slice"] += row.slice_keys(place)
        if not any(place.in_slab for place in holding):
            self.keys["slab"] += row.slab_keys()
        if not holding and row.sn < self._whole:
            self.keys["sn"].append(sn_key(row.epoch, row.sn))
            self.keys["sn"] += [whole_key(row.epoch, row.sn, piece) for piece in range(row.whole_pieces)]
        return holding[0].stream if holding else None
