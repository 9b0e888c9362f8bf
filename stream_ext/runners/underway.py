"""Underway: which queries a process is stepping right now, in a file that outlives it.

    changes | snapshot | how many | number, number, ...

A process that hangs or is killed in a step sends no message any more. So it writes down what it is about to step, into
mapped memory, in about a microsecond; whoever watches it sees by the number of changes that it goes on, and finds there
what it was stepping when it did not."""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

_HEAD = struct.Struct("<QqqQ")
_CHANGES = struct.Struct("<Q")
_BYTES = 1 << 16
_NUMBERS_MAX = (_BYTES - _HEAD.size) // 8
_RESTS, _NUMBERS_UNKNOWN = -1, -2


@dataclass(frozen=True, slots=True)
class Stepping:
    """A process steps snapshot `sn` for the queries `numbers`; None: it is not known for which."""

    sn: int
    numbers: tuple[int, ...] | None


class StepNotes(Protocol):
    """What a process that steps says of it."""

    def steps(self, sn: int, numbers: Sequence[int] = (), /) -> None:
        """From now on, these in snapshot `sn`; without numbers: something that is of no query, or of all."""

    def rests(self) -> None: ...


class Underway:
    """Written by the process that steps."""

    def __init__(self, path: Path) -> None:
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), _BYTES)
        self._changes = 0

    def steps(self, sn: int, numbers: Sequence[int] = ()) -> None:
        """From now on, these in snapshot `sn`; without numbers: something that is of no query, or of all."""
        known = 0 < len(numbers) <= _NUMBERS_MAX
        self._write(sn, len(numbers) if known else _NUMBERS_UNKNOWN, numbers if known else ())

    def rests(self) -> None:
        self._write(0, _RESTS, ())

    def _write(self, sn: int, count: int, numbers: Sequence[int]) -> None:
        # The changes first and last: where they differ, it died in between, and what stands there counts for nothing.
        self._changes += 1
        _CHANGES.pack_into(self._map, 0, self._changes)
        if numbers:
            struct.pack_into(f"<{len(numbers)}q", self._map, _HEAD.size, *numbers)
        _HEAD.pack_into(self._map, 0, self._changes, sn, count, self._changes)

    def close(self) -> None:
        self._map.close()


class StepWatch:
    """Read by who watches that process; the file is made here, with all of its space, and goes when this is closed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with path.open("w+b") as file:
            os.posix_fallocate(file.fileno(), 0, _BYTES)
            self._map = mmap.mmap(file.fileno(), _BYTES)
        _HEAD.pack_into(self._map, 0, 0, 0, _RESTS, 0)

    @property
    def changes(self) -> int:
        """Another number than before: it goes on."""
        (count,) = _CHANGES.unpack_from(self._map, 0)
        return int(count)

    def read(self) -> Stepping | None:
        """What the process steps now; None: nothing."""
        begun, sn, count, ended = _HEAD.unpack_from(self._map, 0)
        if begun != ended:
            return Stepping(sn, None)
        if count == _RESTS:
            return None
        if count == _NUMBERS_UNKNOWN:
            return Stepping(sn, None)
        return Stepping(sn, struct.unpack_from(f"<{count}q", self._map, _HEAD.size))

    def close(self) -> None:
        self._map.close()
        self.path.unlink(missing_ok=True)
