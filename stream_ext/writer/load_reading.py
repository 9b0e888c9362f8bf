"""A load is read: little of it here, much of it in parts, by tasks.

    reading = LoadReading(quads, go_on, tasks)
    reading.read(piece) ...   or   reading.read_file(path)
    store.load(reading.end())

Parts are read at the same time, and taken in in the order of the file: so the first wrong line is the one that is
reported, and lines have the numbers that they have in the file."""

from __future__ import annotations

import os
import tempfile
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

from hbase_store import Loading
from hbase_store.writing.divided_loading import DividedLoading
from hbase_store.writing.load_files import LoadFolder
from hbase_store.writing.load_tasks import LoadTasks as LoadTasks
from hbase_store.writing.load_tasks import end_tasks
from hbase_store.writing.loading import LINE_BYTES_MAX
from stream_ext.errors import RilletError
from stream_ext.temporary_folder import TemporaryFolder
from stream_ext.writer.load_parts import PartRead, ReadPart, changed_meanwhile, load_failed
from stream_ext.writer.load_records import REPORTED_MAX, BadLine, UnusualLineReader

#: A part has so many bytes; what is shorter is read here. So is a file of a few parts: processes take half a second of
#: CPU time to start, in which this one reads most of it.
PART_BYTES = 32 << 20
_PARTS_MIN = 8
_LINE_PIECE_BYTES = 1 << 16


class LoadReading:
    """For one thread; to be closed after the load. Without `tasks` all of it is read here."""

    def __init__(self, quads: bool, go_on: bool, tasks: LoadTasks | None = None) -> None:
        self._quads, self._go_on, self._tasks, self._part_bytes = quads, go_on, tasks, PART_BYTES
        self._lines = UnusualLineReader(quads, go_on)
        self._here = Loading(self._lines, quads)
        self._divided: DividedLoading | None = None
        self._folder: TemporaryFolder | None = None
        self._rest: list[bytes] = []
        self._rest_bytes = 0
        self._underway: deque[tuple[ReadPart, bool, Future[Any]]] = deque()
        self._file: tuple[str, tuple[int, ...]] | None = None  # that tasks read, as it was at first
        self._parts = self._lines_before = 0
        #: The end of the last part that was read, in the file.
        self.position = 0

    def __enter__(self) -> LoadReading:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends what is underway, and removes what the tasks have written."""
        end_tasks(future for _, _, future in self._underway)
        if self._folder is not None:
            self._folder.remove()
            assert self._tasks is not None
            self._tasks.rest()

    @property
    def statements(self) -> int:
        return self._here.statements if self._divided is None else self._divided.statements

    @property
    def bad(self) -> int:
        return self._lines.bad

    @property
    def reported(self) -> list[BadLine]:
        return self._lines.reported

    # ---- taking in

    def read(self, piece: bytes) -> None:
        """Some bytes of lines; they may end in the middle of one."""
        if self._tasks is None:
            self._here.read(piece)
            return
        self._rest.append(piece)
        self._rest_bytes += len(piece)
        if self._rest_bytes >= self._part_bytes:
            self._cut()

    def _cut(self) -> None:
        """All whole lines become a part. Pieces are not joined: that takes as long as queries beside it would wait."""
        pieces, ends = self._rest, [piece.rfind(b"\n") + 1 for piece in self._rest]
        last = max((i for i, end in enumerate(ends) if end), default=None)
        if last is not None:
            self._rest = [pieces[last][ends[last] :], *pieces[last + 1 :]]
            self._divide([*pieces[:last], memoryview(pieces[last])[: ends[last]]])
        self._rest_bytes = sum(map(len, self._rest))
        if self._rest_bytes > LINE_BYTES_MAX:
            while self._underway:
                self._take_in_next()
            Loading(self._lines, self._quads, self._lines_before).read(b"".join(self._rest))  # says what is wrong

    def read_file(self, path: str, shown: Callable[[], None] = lambda: None) -> None:
        """A whole file of lines; `shown` is called after each part."""
        with Path(path).open("rb") as file:
            size = file.seek(0, 2)
            if self._tasks is None or size <= _PARTS_MIN * self._part_bytes:
                file.seek(0)
                while piece := file.read(PART_BYTES // 4):
                    self._here.read(piece)
                    self.position = file.tell()
                    shown()
                return
            start, self._file = 0, (path, _version_of(os.fstat(file.fileno())))
            while start < size:
                stop = _line_end(file, start + self._part_bytes, size)
                self._submit(path, start, stop)
                start = stop
                shown()
        while self._underway:
            self._take_in_next()
            shown()
        self._check_unchanged()

    def end(self) -> Loading | DividedLoading:
        """There is no more of it."""
        rest, self._rest = self._rest, []
        if self._divided is None:
            for piece in rest:
                self._here.read(piece)
            self._here.end()
            return self._here
        if any(rest):
            self._divide(rest)
        while self._underway:
            self._take_in_next()
        return self._divided

    # ---- parts

    def _divide(self, pieces: Sequence[bytes | memoryview]) -> None:
        """Leaves a part in a file of its own for the task that reads it."""
        path = Path(self._place(), f"lines-{self._parts}")
        try:
            with path.open("wb") as file:
                for piece in pieces:
                    file.write(piece)
        except OSError as error:
            raise load_failed(error) from error
        self._submit(str(path), 0, sum(map(len, pieces)), is_own=True)

    def _place(self) -> str:
        if self._folder is None:
            self._folder = TemporaryFolder(Path(tempfile.gettempdir()), "rillet-load-")
        return str(self._folder.path)

    def _submit(self, path: str, start: int, stop: int, is_own: bool = False) -> None:
        """Gives the next part to a task; waits for earlier ones, if there are some for all."""
        assert self._tasks is not None
        if self._divided is None:
            self._divided = DividedLoading(LoadFolder(self._place()), self._tasks)
        while len(self._underway) > self._tasks.most:
            self._take_in_next()
        task = ReadPart(self._place(), self._parts, path, start, stop, self._quads, self._go_on)
        self._underway.append((task, is_own, self._tasks.submit(task)))
        self._parts += 1

    def _take_in_next(self) -> None:
        task, is_own, future = self._underway[0]
        found: PartRead = future.result()
        self._underway.popleft()
        if not found.is_good:
            self._raise_what_is_wrong(task)
        assert self._divided is not None
        self._divided.add_part()
        for bad in found.reported[: REPORTED_MAX - len(self._lines.reported)]:
            self._lines.reported.append(replace(bad, line=self._lines_before + bad.line))
        self._lines.bad += found.bad
        self._lines_before += found.lines
        self.position = task.stop
        if is_own:
            Path(task.path).unlink()

    def _raise_what_is_wrong(self, task: ReadPart) -> None:
        self._check_unchanged()
        careful = UnusualLineReader(self._quads, self._go_on)
        task.read_into(Loading(careful, self._quads, self._lines_before))
        raise RilletError(f"the bytes {task.start} to {task.stop} of {task.path} were changed while they were loaded")

    def _check_unchanged(self) -> None:
        """Each task opens the file by its name: what is there now may be another one."""
        if self._file is not None:
            path, version = self._file
            try:
                found = _version_of(os.stat(path))
            except FileNotFoundError:
                raise changed_meanwhile(path) from None
            if found != version:
                raise changed_meanwhile(path)


def _version_of(status: os.stat_result) -> tuple[int, ...]:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def _line_end(file: IO[bytes], at: int, size: int) -> int:
    """Behind the first end of a line at or after `at`."""
    while at < size:
        file.seek(at)
        piece = file.read(_LINE_PIECE_BYTES)
        newline = piece.find(b"\n")
        if newline >= 0:
            return at + newline + 1
        at += len(piece)
    return size
