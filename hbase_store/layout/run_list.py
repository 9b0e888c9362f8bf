"""Run lists: which runs there are, and which snapshots each of them covers. The head names the one that counts.

A list never changes; a fold writes its blocks, then a new list, then the head. Runs that were merged into a larger
one stay listed while a snapshot within the range of the larger one may be read. The runs of a list cover
the snapshots from 1 on without a gap; newer snapshots are in slabs."""

from __future__ import annotations

import struct

import msgspec

from hbase_store.backends.keyvalue import Key, Put, Value
from hbase_store.layout.sealed import seal_struct, unseal_struct

_MAGIC = b"RL"
_KEY = struct.Struct(">Q")


class RunEntry(msgspec.Struct, array_like=True, frozen=True):
    """A run of the changes of the snapshots first..last; from snapshot 1 on, of what is there after them."""

    number: int
    first: int
    last: int
    pieces: int
    rows: int
    nbytes: int


class RunList(msgspec.Struct, array_like=True, frozen=True):
    """`floor`: no snapshot below it is retained. `horizons`: for each stream, no older slice is. `terms_from`: no
    generation of transient terms that begins before it is."""

    number: int
    epoch: int
    runs: tuple[RunEntry, ...]
    floor: int = 0
    horizons: dict[int, int] = {}
    collected: int = 0
    terms_from: int = 0

    def cover(self, sn: int) -> tuple[RunEntry, ...]:
        """The fewest runs that cover 1..n for the largest n <= sn, in order."""
        longest: dict[int, RunEntry] = {}
        for run in self.runs:
            known = longest.get(run.first)
            if run.last <= sn and (known is None or run.last > known.last):
                longest[run.first] = run
        cover: list[RunEntry] = []
        while (run_ := longest.get(cover[-1].last + 1 if cover else 1)) is not None:
            cover.append(run_)
        return tuple(cover)

    @property
    def covered(self) -> int:
        """The last snapshot that is in runs."""
        return max((run.last for run in self.runs), default=0)


NO_RUNS = RunList(0, 0, ())


def list_key(number: int) -> Key:
    return _KEY.pack(number)


def list_put(runs: RunList, time: int) -> Put:
    return Put("runs", list_key(runs.number), seal_struct(_MAGIC, runs), time)


def unpack_list(value: Value | None, number: int) -> RunList:
    return unseal_struct(_MAGIC, value, "runs", list_key(number), RunList)
