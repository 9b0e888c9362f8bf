"""Recordings in a folder: `FILE.tnt.gz` has a line TIME TAB TRIPLE for each triple; consecutive lines of one time are
one element. Stored data is beside them, in N-Triples or Turtle."""

from __future__ import annotations

import gzip
from collections.abc import Iterator, Mapping
from itertools import dropwhile
from pathlib import Path

from endpoint.demo.benchmark import RecordedElement, Recording, StoredGraph, by_time
from stream_ext.errors import BadArgument, BadData

_MEDIA_TYPES = {".nt": "application/n-triples", ".n3": "text/turtle", ".ttl": "text/turtle"}


def recording(
    folder: Path, streams: Mapping[str, str], stored: Mapping[str, str], begin_ms: int | None = None
) -> Recording:
    """`streams`: of each stream its file; `stored`: of each graph its file. Paths are relative to the folder. A stream
    without a file has no elements; a folder without any of the files is an error. `begin_ms`: the first time."""
    there = {stream: folder / name for stream, name in streams.items() if (folder / name).exists()}
    if not there:
        names = ", ".join(sorted(streams.values()))
        raise BadArgument(f"{folder} has no recording of this benchmark: it has none of {names}")
    graphs = tuple(_graph(graph, folder / name) for graph, name in stored.items() if (folder / name).exists())
    elements = by_time(_elements(path, stream) for stream, path in there.items())
    return Recording(graphs, dropwhile(lambda element: begin_ms is not None and element.time < begin_ms, elements))


def _graph(graph: str, path: Path) -> StoredGraph:
    data = path.read_bytes()
    name = path.name.removesuffix(".gz")
    if name != path.name:
        data = gzip.decompress(data)
    return StoredGraph(graph, data, _MEDIA_TYPES[Path(name).suffix])


def _elements(path: Path, stream: str) -> Iterator[RecordedElement]:
    time, triples = None, list[str]()
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for number, line in enumerate(lines, start=1):
            written, tab, triple = line.rstrip("\n").partition("\t")
            if not tab or not written.lstrip("-").isdigit():
                raise BadData(f"{path}: a line must be TIME TAB TRIPLE", number, 1)
            if int(written) != time and time is not None:
                yield RecordedElement(time, stream, "\n".join(triples))
                triples = []
            time = int(written)
            triples.append(triple)
    if time is not None:
        yield RecordedElement(time, stream, "\n".join(triples))
