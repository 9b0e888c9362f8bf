"""From files to snapshots: read, parse, encode and write, with the terms of a file encoded as they come.

N-Triples and N-Quads are taken in pieces of some megabytes, so that a large file needs memory for its numbers
only; Turtle and TriG are parsed whole."""

from __future__ import annotations

import gzip
import io
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TextIO, cast

import numpy as np

import hbase_store
from hbase_store import Batch, Store
from hbase_store.errors import WriterElsewhere
from hbase_store.terms import iri
from stream_ext.errors import BadData, RilletError
from stream_ext.rdf import Parsed, parse_rdf

_PIECE_BYTES = 8 << 20
_LINES = ("application/n-triples", "application/n-quads")
_GZIP_MAGIC = b"\x1f\x8b"
_REDRAW_S = 0.2

_Position = Callable[[], int]


@dataclass(frozen=True, slots=True)
class Source:
    name: str  # a path, or - for standard input
    media_type: str


def load_all(
    url: str, sources: Sequence[Source], graph: str | None, base: str, progress: TextIO
) -> Iterator[tuple[Source, int, int, float]]:
    """(source, triples, snapshot, seconds) of each source, when it is written."""
    with closing(hbase_store.open(url)) as store:
        try:
            store.take_lease("")
        except WriterElsewhere as error:
            raise RilletError(f"{error}. To load, stop it, load, and start it again") from None
        for source in sources:
            started = time.monotonic()
            triples, sn = _load(store, source, graph, base, progress)
            yield source, triples, sn, time.monotonic() - started


def _load(store: Store, source: Source, graph: str | None, base: str, progress: TextIO) -> tuple[int, int]:
    with _reading(source) as (stream, position, size):
        shown = _Progress(source.name, size, progress)
        batch = store.begin()
        batch.time = time.time_ns() // 1_000_000
        writer = _Writer(batch, graph)
        for parsed in _parsed(source, stream, base):
            writer.write(parsed)
            shown.show(position(), writer.triples)
        shown.end()
        return writer.triples, int(store.commit(batch))


# ---- reading


@contextmanager
def _reading(source: Source) -> Iterator[tuple[IO[bytes], _Position, int]]:
    """The bytes, unpacked if they are packed; how far the file is read; how long it is (0: not known)."""
    if source.name == "-":
        raw: IO[bytes] = sys.stdin.buffer
        size = 0
    else:
        raw = Path(source.name).open("rb")  # noqa: SIM115 -- closed below, standard input is not
        size = Path(source.name).stat().st_size
    counted = _Counted(raw)
    buffered = io.BufferedReader(counted, _PIECE_BYTES)  # type: ignore[type-var]  # typeshed wants an exact raw type
    try:
        packed = buffered.peek(2)[:2] == _GZIP_MAGIC
        stream = cast(IO[bytes], gzip.GzipFile(fileobj=buffered) if packed else buffered)
        yield stream, lambda: counted.position, size
    except (gzip.BadGzipFile, EOFError) as error:
        raise BadData(f"{source.name}: {error}") from None
    finally:
        if raw is not sys.stdin.buffer:
            raw.close()


def _parsed(source: Source, stream: IO[bytes], base: str) -> Iterator[Parsed]:
    if source.media_type not in _LINES:
        with _named(source):
            yield parse_rdf(stream.read(), source.media_type, base)
        return
    lines_before, rest = 0, b""
    while piece := stream.read(_PIECE_BYTES):
        whole, newline, rest = (rest + piece).rpartition(b"\n")
        if newline:
            with _named(source, lines_before):
                yield parse_rdf(whole + newline, source.media_type, base)
            lines_before += whole.count(b"\n") + 1
    if rest:
        with _named(source, lines_before):
            yield parse_rdf(rest, source.media_type, base)


@contextmanager
def _named(source: Source, lines_before: int = 0) -> Iterator[None]:
    """An error in a piece, as one of the file."""
    try:
        yield
    except BadData as error:
        line = error.line + lines_before if error.line else 0
        raise BadData(f"{source.name}: {error.message}", line, error.column) from None


class _Counted(io.RawIOBase):
    """Counts what is read, which for a packed file is not what is parsed."""

    def __init__(self, raw: IO[bytes]) -> None:
        self._raw, self.position = raw, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray) -> int:  # type: ignore[override]  # a buffer is all that it gets
        piece = self._raw.read(len(buffer))
        buffer[: len(piece)] = piece
        self.position += len(piece)
        return len(piece)


# ---- writing


@dataclass(slots=True)
class _Writer:
    """Into one batch. A blank node's label means one node throughout the file."""

    batch: Batch
    graph: str | None
    triples: int = 0
    _blanks: dict[bytes, int] = field(default_factory=dict)

    def write(self, parsed: Parsed) -> None:
        if not len(parsed.s):
            return
        ids = self._ids(parsed.terms)
        default = 0 if self.graph is None else int(self.batch.encode([iri(self.graph)])[0])
        graphs = np.where(parsed.g >= 0, ids[parsed.g], np.uint64(default))
        self.batch.insert(ids[parsed.s], ids[parsed.p], ids[parsed.o], graphs)
        self.triples += len(parsed.s)

    def _ids(self, terms: list[bytes]) -> np.ndarray:
        blank = np.fromiter((term.startswith(b"_:") for term in terms), np.bool_, len(terms))
        ids = np.zeros(len(terms), np.uint64)
        ids[~blank] = self.batch.encode([term for term in terms if not term.startswith(b"_:")])
        labels = [terms[place] for place in np.flatnonzero(blank).tolist()]
        fresh = [label for label in labels if label not in self._blanks]
        if fresh:
            self._blanks.update(zip(fresh, self.batch.blanks(len(fresh)).tolist(), strict=True))
        ids[blank] = np.array([self._blanks[label] for label in labels], np.uint64)
        return ids


class _Progress:
    """A line that is drawn again and again; nothing where no one looks."""

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
        line = f"{self._name}: {triples:,} triples, {triples / took_s:,.0f}/s"
        if self._size and position:
            left_s = took_s * (self._size - position) / position
            line += f", {100 * position // self._size} %, {left_s:.0f} s left"
        self._out.write(f"\r\x1b[K{line}")
        self._out.flush()

    def end(self) -> None:
        if self._live:
            self._out.write("\r\x1b[K")
            self._out.flush()
