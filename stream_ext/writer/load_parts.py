"""The parts of a load: each is read by a task, and all tasks are known here by their names.

A part is a range of a file that begins and ends with whole lines. If there is anything wrong with it, the task only
says so: the process that loads reads the part again, and knows how many lines are before it."""

from __future__ import annotations

import contextlib
import platform
from pathlib import Path
from typing import Any

import msgspec

from hbase_store import Loading
from hbase_store.backends.lease import Leasing
from hbase_store.errors import StoreError
from hbase_store.opening import connect
from hbase_store.writing.load_files import LoadFolder
from hbase_store.writing.load_tasks import Opened, PackedPages, PackedRun, PackPages, SortHashes, SortRows
from stream_ext.errors import RilletError
from stream_ext.writer.load_records import BadLine, UnusualLineReader

_PIECE_BYTES = 8 << 20


class ReadPart(msgspec.Struct, frozen=True, array_like=True, tag=True):
    folder: str
    part: int
    path: str
    start: int
    stop: int
    quads: bool
    go_on: bool

    def read_into(self, loading: Loading) -> None:
        left = self.stop - self.start
        with contextlib.suppress(FileNotFoundError), Path(self.path).open("rb", buffering=0) as file:
            file.seek(self.start)
            while left and (piece := file.read(min(left, _PIECE_BYTES))):
                left -= len(piece)
                loading.read(piece)
        if left:
            raise changed_meanwhile(self.path)
        loading.end()
        loading.terms.check_lengths()

    def run_task(self, _: Opened) -> PartRead:
        lines = UnusualLineReader(self.quads, self.go_on)
        loading = Loading(lines, self.quads)
        try:
            self.read_into(loading)
            LoadFolder(self.folder).write_part(self.part, loading)
        except (RilletError, StoreError):
            return PartRead(False)
        return PartRead(True, int(loading.terms.counts[2]), lines.bad, lines.reported)


class PartRead(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """`is_good`: it was read; of its `lines` so many were left out."""

    is_good: bool
    lines: int = 0
    bad: int = 0
    reported: list[BadLine] = []


class TaskFailed(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """Not for what is in the file: no room, no memory, or a `store` that cannot be written to."""

    reason: str
    store: bool = False


_tasks: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(ReadPart | SortRows | SortHashes | PackPages)
_results: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(PartRead | PackedRun | PackedPages | TaskFailed)


class SharedFolderTask(msgspec.Struct, frozen=True):
    """A task, encoded, for a process that may be on another machine and must see the same folder."""

    folder: str
    file: str  # that the task reads; empty: one of the folder
    encoded: bytes

    def run_task(self) -> bytes:
        for place in filter(None, (self.folder, self.file)):
            if not Path(place).exists():
                why = (
                    f"{platform.node()} does not see {place}: the files, and the folder that TMPDIR names, must be on "
                    "a disk that all machines share"
                )
                return msgspec.msgpack.encode(TaskFailed(why))
        return run_encoded(self.encoded)


def run_encoded(task: bytes | bytearray) -> bytes:
    """What a process does with a task that it was sent."""
    try:
        return msgspec.msgpack.encode(_tasks.decode(task).run_task(_opened))
    except (OSError, MemoryError) as error:
        return msgspec.msgpack.encode(TaskFailed(f"{type(error).__name__}: {error}"))
    except StoreError as error:
        return msgspec.msgpack.encode(TaskFailed(str(error), store=True))


def _opened(store: str) -> contextlib.closing[Leasing]:
    return contextlib.closing(connect(store, read_only=False, durability="process"))


def result_of(answer: bytes | bytearray) -> Any:
    """The result of a task; raises if it failed."""
    result = _results.decode(answer)
    if isinstance(result, TaskFailed) and result.store:
        raise RilletError(f"a task of the load could not write to the store ({result.reason}), and nothing was loaded")
    if isinstance(result, TaskFailed):
        raise load_failed(result.reason)
    return result


def changed_meanwhile(path: str) -> RilletError:
    return RilletError(f"{path} was changed while it was loaded, and nothing was loaded")


def load_failed(reason: object) -> RilletError:
    return RilletError(
        f"a task of the load failed ({reason}), and nothing was loaded; it needs room in the folder that TMPDIR "
        "names: as much as the lines if most terms come often, up to six times as much if most come once"
    )
