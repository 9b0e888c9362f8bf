"""Reads files, compressed or not, as lines; shows the progress on a terminal."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import io
import lzma
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, TextIO, cast

import zstandard

from stream_ext.errors import BadData, TooLarge
from stream_ext.rdf.documents import lines_of
from stream_ext.writer.load_records import Loaded

_PIECE_BYTES = 8 << 20
_QUADS = {"application/n-triples": False, "application/n-quads": True}
_REDRAW_S = 0.2
#: Small, because the output of one step is not bounded: 32,768 times its input, at worst.
_ZSTD_STEP_BYTES = 1 << 11
_ZSTD = zstandard.ZstdDecompressor(max_window_size=2 << 30)  # the window of `zstd --long=31`


@dataclass(frozen=True, slots=True)
class Source:
    name: str  # a path, or - for standard input
    media_type: str

    @property
    def is_lines(self) -> bool:
        return self.media_type in _QUADS

    @property
    def quads(self) -> bool:
        """Whether its lines may name a graph."""
        return _QUADS.get(self.media_type, True)


def place_of(source: Source, graph: str | None) -> Loaded:
    """The description of the source that the store records, without the digest; nothing for standard input."""
    if source.name == "-":
        return Loaded("", 0, 0, graph)
    path = Path(source.name).resolve()
    status = path.stat()
    return Loaded(str(path), status.st_size, status.st_mtime_ns, graph)


def digest_of(source: Source) -> str:
    with Path(source.name).open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


@dataclass(frozen=True, slots=True)
class Pieces:
    """The lines of a source, unpacked, some megabytes at a time. `path`: of the file, if it is just these lines; who
    reads the file instead of the pieces calls `show` with the position."""

    pieces: Iterator[bytes]
    path: str | None = None
    show: Callable[[int], object] = bool

    def __iter__(self) -> Iterator[bytes]:
        return self.pieces


@contextmanager
def pieces_of(source: Source, base: str, progress: TextIO, count: Callable[[], int]) -> Iterator[Pieces]:
    """The lines of a source; `count` returns the number of statements so far."""
    with _opened(source) as (raw, size):
        counted = _Counted(raw)
        shown = Progress(source.name, size, progress)
        buffered: io.BufferedReader = io.BufferedReader(counted, _PIECE_BYTES)

        def show(position: int) -> None:
            shown.show(position, count())

        def pieces() -> Iterator[bytes]:
            with _unpacking():
                stream = _unpacked(buffered)
                for piece in _read(stream) if source.is_lines else lines_of(stream, source.media_type, base):
                    yield piece
                    show(counted.position)

        try:
            with _unpacking():
                is_plain = source.is_lines and source.name != "-" and _unpacked(buffered) is buffered
            yield Pieces(pieces(), source.name if is_plain else None, show)
        finally:
            shown.end()


@contextmanager
def _unpacking() -> Iterator[None]:
    try:
        yield
    except (OSError, EOFError, lzma.LZMAError, zstandard.ZstdError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # an error of the system, not of the contents
        raise BadData(f"it cannot be decompressed: {error}") from None


@contextmanager
def named(source: Source) -> Iterator[None]:
    """Adds the name of the file to an error."""
    try:
        yield
    except BadData as error:
        where = f":{error.line}:{error.column}" if error.line else ""
        raise BadData(f"{source.name}{where}: {error.message}") from None
    except TooLarge as error:
        raise TooLarge(f"{source.name}: {error}") from None


@contextmanager
def _opened(source: Source) -> Iterator[tuple[IO[bytes], int]]:
    """The bytes of the source, and their number (0: not known)."""
    if source.name == "-":
        yield sys.stdin.buffer, 0
        return
    with Path(source.name).open("rb") as raw:
        yield raw, Path(source.name).stat().st_size


def _read(stream: IO[bytes]) -> Iterator[bytes]:
    while piece := stream.read(_PIECE_BYTES):
        yield piece


def _unpacked(buffered: io.BufferedReader) -> IO[bytes]:
    """Finds the compression by the first bytes: the name of a compressed file need not show it."""
    for magic, unpack in _PACKED:
        if buffered.peek(len(magic))[: len(magic)] == magic:
            return unpack(buffered)
    return buffered


class _Unzstd(io.RawIOBase):
    """Reads frame after frame, and raises if one is cut off; zstandard's own reader takes this for the end."""

    def __init__(self, packed: IO[bytes]) -> None:
        self._packed = packed
        self._engine: Any = None  # of the present frame
        self._next = self._ready = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._ready:
            piece = self._next or self._packed.read(_ZSTD_STEP_BYTES)
            if not piece:
                if self._engine is not None:
                    raise EOFError("the zstd data ends too early")
                return 0
            self._engine = self._engine or _ZSTD.decompressobj()
            self._ready, self._next = self._engine.decompress(piece), b""
            if self._engine.eof:
                self._engine, self._next = None, self._engine.unused_data
        count = min(len(buffer), len(self._ready))
        buffer[:count], self._ready = self._ready[:count], self._ready[count:]
        return count


_PACKED: tuple[tuple[bytes, Callable[[IO[bytes]], IO[bytes]]], ...] = (
    (b"\x1f\x8b", lambda stream: cast(IO[bytes], gzip.GzipFile(fileobj=stream))),
    (b"BZh", lambda stream: cast(IO[bytes], bz2.BZ2File(stream))),
    (b"\xfd7zXZ\x00", lambda stream: cast(IO[bytes], lzma.LZMAFile(stream))),  # noqa: SIM115 -- it opens no file
    (b"\x28\xb5\x2f\xfd", lambda stream: cast(IO[bytes], io.BufferedReader(_Unzstd(stream), _PIECE_BYTES))),
)


class _Counted(io.RawIOBase):
    """Counts the bytes that are read; in a compressed file these are fewer than the parsed ones."""

    def __init__(self, raw: IO[bytes]) -> None:
        self._raw, self.position = raw, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        piece = self._raw.read(len(buffer))
        buffer[: len(piece)] = piece
        self.position += len(piece)
        return len(piece)


class Progress:
    """A line on a terminal that is drawn again and again; nothing if the output is no terminal."""

    def __init__(self, name: str, size: int, out: TextIO) -> None:
        self._name, self._size, self._out = name, size, out
        self._started = self._drawn = time.monotonic()
        self._live = out.isatty()

    def show(self, position: int, triples: int) -> None:
        now = time.monotonic()
        if not self._live or now - self._drawn < _REDRAW_S:
            return
        self._drawn = now
        took_s = now - self._started
        line = f"{self._name}: {triples:,} triples, {triples / took_s:,.0f}/s" if triples else f"{self._name}:"
        if self._size and position:
            left_s = took_s * (self._size - position) / position
            line += f", {100 * position // self._size} %, {left_s:.0f} s left"
        self._out.write(f"\r\x1b[K{line}")
        self._out.flush()

    def end(self) -> None:
        if self._live:
            self._out.write("\r\x1b[K")
            self._out.flush()
