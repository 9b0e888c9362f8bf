"""A benchmark: its streams, its stored data, its queries, and where its elements come from.

A query is described once, by the patterns of its windows and of the stored data; the text in each dialect is written
from that, so that the dialects ask the same question."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

C_SPARQL, RSP_QL, CQELS_QL = "C-SPARQL", "RSP-QL", "CQELS-QL"
DIALECTS: Final = (C_SPARQL, RSP_QL, CQELS_QL)


@dataclass(frozen=True, slots=True)
class RecordedElement:
    """Triples in N-Triples with their time, for the stream of this name."""

    time: int
    stream: str
    data: str


@dataclass(frozen=True, slots=True)
class Window:
    """A time window over a stream, and the pattern over its content. Durations as in `1s`, `100ms`, `1h`."""

    stream: str
    range: str
    step: str
    pattern: str


@dataclass(frozen=True, slots=True)
class BenchmarkQuery:
    """A query of a benchmark. `stored` is the pattern over the stored graphs, `ends` is GROUP BY and what follows."""

    name: str
    about: str
    select: str
    windows: tuple[Window, ...]
    stored: str = ""
    filter: str = ""
    ends: str = ""
    graphs: tuple[str, ...] = ()
    dialects: tuple[str, ...] = DIALECTS


@dataclass(frozen=True, slots=True)
class StoredGraph:
    """A graph of the stored data: the document, and its media type."""

    graph: str
    data: bytes
    media_type: str = "application/n-triples"


@dataclass(frozen=True, slots=True)
class Recording:
    """What is stored before the replay, and the elements in the order of their times; a generator never ends."""

    stored: tuple[StoredGraph, ...]
    elements: Iterator[RecordedElement]


@dataclass(frozen=True, slots=True)
class Benchmark:
    name: str
    source: str  #: who published it
    prefixes: Mapping[str, str]
    streams: Mapping[str, str]  #: name and IRI
    questions: tuple[BenchmarkQuery, ...]
    generate: Callable[[int], Recording]  #: from a seed
    read: Callable[[Path], Recording]  #: from a folder
    speed: float  #: how many times as fast generated data is played as its times say
    read_speed: float  #: and a recording

    def text(self, question: BenchmarkQuery, dialect: str) -> str:
        write = {C_SPARQL: self._c_sparql, RSP_QL: self._rsp_ql, CQELS_QL: self._cqels_ql}[dialect]
        body = "\n".join([*write(question, query_name(self, question, dialect)), *_line(question.ends)])
        used = [f"PREFIX {name}: <{iri}>" for name, iri in self.prefixes.items() if f"{name}:" in body]
        return "\n".join([f"# {question.about}", *used, body]) + "\n"

    def _c_sparql(self, question: BenchmarkQuery, name: str) -> list[str]:
        windows = [f"FROM STREAM <{self.streams[w.stream]}> [RANGE {w.range} STEP {w.step}]" for w in question.windows]
        patterns = [f"  {{ {w.pattern} }}" for w in question.windows]
        return [
            f"REGISTER QUERY {name} AS",
            question.select,
            *dict.fromkeys(windows),
            *_graphs(question),
            "WHERE {",
            *_line(question.stored),
            *patterns,
            *_filter(question),
            "}",
        ]

    def _rsp_ql(self, question: BenchmarkQuery, name: str) -> list[str]:
        windows = [
            f"FROM NAMED WINDOW <urn:w{i}> ON <{self.streams[w.stream]}> [RANGE {_iso(w.range)} STEP {_iso(w.step)}]"
            for i, w in enumerate(question.windows, 1)
        ]
        patterns = [f"  WINDOW <urn:w{i}> {{ {w.pattern} }}" for i, w in enumerate(question.windows, 1)]
        return [
            f"REGISTER RSTREAM {name} AS",
            question.select,
            *_graphs(question),
            *windows,
            "WHERE {",
            *_line(question.stored),
            *patterns,
            *_filter(question),
            "}",
        ]

    def _cqels_ql(self, question: BenchmarkQuery, name: str) -> list[str]:
        """Without a step: CQELS-QL answers when an element arrives."""
        patterns = [
            f"  STREAM <{self.streams[w.stream]}> [RANGE {w.range}] {{ {w.pattern} }}" for w in question.windows
        ]
        return [
            f"REGISTER QUERY {name} AS",
            question.select,
            *_graphs(question),
            "WHERE {",
            *patterns,
            *_line(question.stored),
            *_filter(question),
            "}",
        ]


def query_name(benchmark: Benchmark, question: BenchmarkQuery, dialect: str) -> str:
    """With the dialect only where there are several."""
    of_dialect = f"_{dialect.replace('-', '').lower()}" if len(question.dialects) > 1 else ""
    return f"{benchmark.name}_{question.name}{of_dialect}"


def stream_name(benchmark: Benchmark, stream: str) -> str:
    return f"{benchmark.name}_{stream}"


def by_time(recordings: Iterable[Iterator[RecordedElement]]) -> Iterator[RecordedElement]:
    """The elements of several recordings, each in the order of its times, as one."""
    return heapq.merge(*recordings, key=lambda element: element.time)


def _graphs(question: BenchmarkQuery) -> list[str]:
    return [f"FROM <{graph}>" for graph in question.graphs]


def _line(part: str) -> list[str]:
    """A line of a benchmark's query; none for a part that the query does not have."""
    return [f"  {part}"] if part else []


def _filter(question: BenchmarkQuery) -> list[str]:
    return [f"  FILTER ({question.filter})"] if question.filter else []


def _iso(duration: str) -> str:
    """`100ms` as PT0.1S, as RSP-QL writes it."""
    if duration.endswith("ms"):
        return f"PT{int(duration[:-2]) / 1000:g}S"
    return f"PT{duration.upper()}"
