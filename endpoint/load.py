"""From files to snapshots: each file is read into one loading, and published at once or not at all.

N-Triples and N-Quads are taken in pieces of some megabytes, so that a large file needs memory for its terms and
numbers only; Turtle and TriG are parsed whole. A file that the store has loaded already is not loaded again."""

from __future__ import annotations

import gzip
import io
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, TextIO, cast

import msgspec

import hbase_store
from hbase_store import Loading, Store
from hbase_store.errors import WriterElsewhere
from hbase_store.terms import iri
from stream_ext.errors import BadData, RilletError
from stream_ext.rdf import careful_rows, parse_rdf

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
    """(source, statements, snapshot, seconds) of each source, when it is written; one that is there already is not
    written again, and comes with 0 seconds."""
    with closing(hbase_store.open(url)) as store:
        try:
            store.take_lease("")
        except WriterElsewhere as error:
            advice = ". To load, stop it, load, start it again" if error.address else ""
            raise RilletError(f"{error}{advice}") from None
        loaded = _loaded(store)
        for source in sources:
            started = time.monotonic()
            known = None if source.name == "-" else loaded.get(_identity(source, graph))
            if known is not None:
                yield source, known.statements, known.sn, 0.0
                continue
            statements, sn = _load(store, source, graph, base, progress)
            yield source, statements, sn, time.monotonic() - started


class _Loaded(msgspec.Struct):
    """What the store keeps of a file that was loaded: enough to know it again."""

    path: str
    size: int
    modified_ns: int
    graph: str | None
    statements: int
    sn: int = 0  # the snapshot says it


_Identity = tuple[str, int, int, str | None]


def _identity(source: Source, graph: str | None) -> _Identity:
    path = Path(source.name).resolve()
    status = path.stat()
    return str(path), status.st_size, status.st_mtime_ns, graph


def _loaded(store: Store) -> dict[_Identity, _Loaded]:
    found: dict[_Identity, _Loaded] = {}
    for (kind, sn), body in store.catalog(store.head()).items():
        if kind == "load":
            known = msgspec.msgpack.decode(body, type=_Loaded)
            known.sn = sn
            found[known.path, known.size, known.modified_ns, known.graph] = known
    return found


def _load(store: Store, source: Source, graph: str | None, base: str, progress: TextIO) -> tuple[int, int]:
    quads = source.media_type == _LINES[1]
    loading = Loading(partial(careful_rows, quads=quads), quads)
    with _reading(source) as (stream, position, size), _named(source):
        identity = None if source.name == "-" else _identity(source, graph)
        shown = _Progress(source.name, size, progress)
        if source.media_type in _LINES:
            while piece := stream.read(_PIECE_BYTES):
                loading.read(piece)
                shown.show(position(), loading.statements)
            loading.end()
        else:
            parsed = parse_rdf(stream.read(), source.media_type, base)
            loading.add(parsed.terms, (parsed.s, parsed.p, parsed.o, parsed.g))
        shown.end()
    name = b"" if identity is None else msgspec.msgpack.encode(_Loaded(*identity, loading.statements))
    sn = store.load(loading, graph=None if graph is None else iri(graph), name=name)
    return loading.statements, int(sn)


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


@contextmanager
def _named(source: Source) -> Iterator[None]:
    """An error names the file."""
    try:
        yield
    except BadData as error:
        where = f":{error.line}:{error.column}" if error.line else ""
        raise BadData(f"{source.name}{where}: {error.message}") from None


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
