"""A dump: all that a store holds, or one graph of it, as lines of N-Quads, at one snapshot.

Read from the store itself, predicate by predicate, or from a server as it comes; nothing is whole in memory, neither
where the lines are sorted: those are sorted in parts, which lie in files of the temporary folder until they are merged.

A file has its name only when all of it is there."""

from __future__ import annotations

import gzip
import heapq
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, cast

import numpy as np

import hbase_store
from endpoint.formats import graph_results
from hbase_store import NAMED, Store
from hbase_store.layout.terms import NO_TERM, iri
from stream_ext.errors import BadArgument, Gone, NotFound, RilletError
from stream_ext.oneshot.answers import decoded

if TYPE_CHECKING:
    from hbase_store import Snapshot
    from hbase_store.arrays import Ids

N_QUADS = "application/n-quads"
#: Lines that are sorted at a time.
_SORTED_LINES = 500_000
_WRITTEN_BYTES = 1 << 20
_DEFAULT = "default"
_DEFAULT_GRAPH = NO_TERM


@dataclass(frozen=True, slots=True)
class Dumped:
    snapshot: int
    quads: int


@dataclass(frozen=True, slots=True)
class Lines:
    """Pieces of whole lines, of one snapshot."""

    snapshot: int
    pieces: Iterator[bytes]


@contextmanager
def of_store(url: str, graph: str | None, snapshot: int | None) -> Iterator[Lines]:
    """`graph`: an IRI, or "default"; None: all of them."""
    with closing(hbase_store.open(url, read_only=True)) as store:
        head = int(store.refresh())
        if snapshot is not None and snapshot > head:
            raise Gone(f"there is no snapshot {snapshot}; the latest is {head}")
        sn = head if snapshot is None else snapshot
        yield Lines(sn, _lines(store, store.at(sn), graph))


def _lines(store: Store, snapshot: Snapshot, graph: str | None) -> Iterator[bytes]:
    if graph not in (None, _DEFAULT):
        id = int(store.ids([iri(graph)])[0])
        if not id or not len(snapshot.predicates(id)):
            raise NotFound(f"there is no graph <{graph}> at snapshot {snapshot.sn}: it has no triples")
        places = [id]
    else:
        places = [_DEFAULT_GRAPH, NAMED] if graph is None else [_DEFAULT_GRAPH]
    for place in places:
        for predicate in snapshot.predicates(place).tolist():
            yield from _written(store, _quads(snapshot, place, predicate))


def _quads(snapshot: Snapshot, place: int, predicate: int) -> Sequence[Ids]:
    s, o, *graphs = snapshot.pairs(predicate, graph=place)
    g = graphs[0] if graphs else np.full(len(s), place, np.uint64)
    return s, np.full(len(s), predicate, np.uint64), o, g


def _written(store: Store, columns: Sequence[Ids]) -> Iterator[bytes]:
    return filter(None, graph_results.write_lines(decoded(columns, store.terms)))


@contextmanager
def of_server(address: str, token: str | None, graph: str | None, snapshot: int | None) -> Iterator[Lines]:
    import httpx

    known = {"snapshot": snapshot, "graph": None if graph == _DEFAULT else graph}
    parameters = {name: str(value) for name, value in known.items() if value is not None}
    parameters |= {"default": ""} if graph == _DEFAULT else {}
    headers = {"accept": N_QUADS} | ({"authorization": f"Bearer {token}"} if token else {})
    name = b"" if graph in (None, _DEFAULT) else iri(graph) + b" "
    try:
        with (
            httpx.Client(base_url=address, headers=headers, timeout=httpx.Timeout(60, read=600)) as client,
            client.stream("GET", "/data", params=parameters) as answer,
        ):
            if answer.is_error:
                answer.read()
                raise RilletError(f"{address}: {answer.text.strip() or answer.status_code}")
            yield Lines(int(answer.headers["rillet-snapshot"]), _named(_whole_lines(answer.iter_bytes()), name))
    except httpx.HTTPError as error:
        raise RilletError(f"{address}: {error or type(error).__name__}; the dump is incomplete") from None


def _named(pieces: Iterator[bytes], name: bytes) -> Iterator[bytes]:
    """Of one graph a server writes the triples: here they are quads again."""
    return (piece.replace(b" .\n", b" " + name + b".\n") for piece in pieces) if name else pieces


def _whole_lines(pieces: Iterator[bytes]) -> Iterator[bytes]:
    rest = b""
    for piece in pieces:
        whole, newline, begun = piece.rpartition(b"\n")
        if newline:
            yield rest + whole + newline
            rest = begun
        else:
            rest += begun
    if rest:
        raise RilletError("the answer of the server ends in the middle of a line; the dump is incomplete")


# ---- where it goes


def dump(lines: Lines, file: str, is_sorted: bool) -> Dumped:
    """`file`: - is standard output; one whose name ends in .gz is packed."""
    with ExitStack() as stack:
        pieces = _in_order(lines.pieces, stack) if is_sorted else lines.pieces
        out, quads = stack.enter_context(_opened(file)), 0
        for piece in pieces:
            out.write(piece)
            quads += piece.count(b"\n")
        out.flush()
    return Dumped(lines.snapshot, quads)


@contextmanager
def _opened(file: str) -> Iterator[IO[bytes]]:
    if file == "-":
        yield sys.stdout.buffer
        return
    if os.path.isdir(file):
        raise BadArgument(f"{file} is a folder: give the name of a file")
    writing = f"{file}.part"
    try:
        with open(writing, "wb") as raw:
            if file.endswith(".gz"):
                # Neither name nor time, so that the same dump is the same file.
                with gzip.GzipFile("", "wb", 6, raw, mtime=0) as packed:
                    yield cast(IO[bytes], packed)
            else:
                yield raw
            raw.flush()
            os.fsync(raw.fileno())
        os.replace(writing, file)
    except BaseException:
        if os.path.exists(writing):
            os.unlink(writing)
        raise


def _in_order(pieces: Iterator[bytes], stack: ExitStack) -> Iterator[bytes]:
    """The lines in the order of their bytes. Each sorted part is a file without a name."""
    parts: list[IO[bytes]] = []
    lines: list[bytes] = []
    for piece in pieces:
        lines += piece.splitlines(keepends=True)
        if len(lines) >= _SORTED_LINES:
            parts.append(_laid_by(lines, stack))
            lines = []
    lines.sort()
    if not parts:
        return _joined(iter(lines))
    return _joined(heapq.merge(*parts, lines))


def _laid_by(lines: list[bytes], stack: ExitStack) -> IO[bytes]:
    part = stack.enter_context(tempfile.TemporaryFile())  # noqa: SIM115 -- the stack closes it
    lines.sort()
    part.writelines(lines)
    part.seek(0)
    return part


def _joined(lines: Iterator[bytes]) -> Iterator[bytes]:
    waiting: list[bytes] = []
    size = 0
    for line in lines:
        waiting.append(line)
        size += len(line)
        if size >= _WRITTEN_BYTES:
            yield b"".join(waiting)
            waiting, size = [], 0
    yield b"".join(waiting)
