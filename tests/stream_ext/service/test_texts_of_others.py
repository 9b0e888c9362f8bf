"""The C-SPARQL and RSP-QL texts of others over some hours of their data, as they are written: some emissions that say
something, and some that do not, are what pyoxigraph says of the windows and the stored graphs."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pyoxigraph as ox
import pytest

from stream_ext.catalog.timing import key_of
from stream_ext.clock import ManualClock
from stream_ext.language.algebra.algebra import Query, Register
from stream_ext.language.algebra.windows import Dialect
from stream_ext.language.printing import to_sparql
from stream_ext.language.syntax import parse
from stream_ext.service.service import Service
from stream_ext.writer.graph_store import Document
from tests.stream_ext.language.corpora import FAULTS, shared, texts
from tests.stream_ext.opened import BASE, NDJSON, opened

HOUR = 3_600_000
#: Later than all data: what is ahead of the clock would be refused.
NOW = 1_800_000_000_000
#: Where the texts are, where the first played hour begins, and how many are played. A STEP of 1 ms: five minutes.
PLAYED = {
    "data/citybench": (1_406_880_000_000, 2 * HOUR),
    "data/srbench": (1_091_944_800_000, 3 * HOUR),
    "data/lsbench": (1_265_004_000_000, 2 * HOUR),
}
SHORT_MS = 300_000
#: Of the texts that find nothing: longer they would only find nothing for longer.
EMPTY_MS = 900_000
_DERI = "http://deri.org/"
FILES = {
    "poststream": "post_1k",
    "likedpoststream": "postlike_1k",
    "postlikestream": "postlike_1k",
    "photostream": "photo_1k",
    "likedphotostream": "photolike_1k",
    "photolikestream": "photolike_1k",
    "gpsstream": "gps_1k_first60k",
}
EMISSIONS_MAX = 12
#: 60,000 evaluations that all say something.
LONG = {"data/lsbench/queries/csparql_squall/query10.csparql"}
_LOCATION = "no element of UserLocationService is from these hours: it ends before the other streams begin"
_NO_STREAM = "its stream <s1> is none of the data's"
_OTHER_NAMES = "it asks for ssn:hasValue where the data has sao:hasValue, and for graphs of another host"
_SELECTIVE = "what it asks for does not occur in these hours"
#: Texts that find nothing in what is played of their data, and why.
EMPTY = {
    "data/citybench/csparql_query/Q12.txt": _SELECTIVE,
    "data/citybench/csparql_query/Q4.txt": _LOCATION,
    "data/citybench/csparql_query/Q6.txt": _LOCATION,
    "data/citybench/csparql_query/location_parking_1.txt": _LOCATION,
    "data/citybench/csparql_query/traffic_parking_1.txt": _SELECTIVE,
    "data/citybench/rspql_query/csparql2/q1.rspql": _OTHER_NAMES,
    "data/citybench/rspql_query/csparql2/q2.rspql": _OTHER_NAMES,
    "data/citybench/rspql_query/csparql2/q3.rspql": _OTHER_NAMES,
    "data/citybench/rspql_query/csparql2/q4.rspql": _OTHER_NAMES,
    "data/citybench/rspql_query/csparql2/q5.rspql": _LOCATION,
    "data/citybench/rspql_query/csparql2/q6.rspql": _LOCATION,
    "data/citybench/rspql_query/csparql2/q7.rspql": "?obId1 is an observation of two sensors in it",
    "data/citybench/rspql_query/yasper/Q12.rspql": _SELECTIVE,
    "data/citybench/rspql_query/yasper/Q3.rspql": _SELECTIVE,
    "data/citybench/rspql_query/yasper/Q4.rspql": _LOCATION,
    "data/citybench/rspql_query/yasper/Q6.rspql": _LOCATION,
    "data/citybench/rspql_query/yasper/traffic_parking_1.txt": _SELECTIVE,
    "data/lsbench/queries/csparql_squall/query1.csparql": _SELECTIVE,
    "data/lsbench/queries/csparql_squall/query2.csparql": "its graph <file://bitch/sib.rdf> is none of the data's",
    "data/lsbench/queries/csparql_squall/query3.csparql": "its graph <file://bitch/sib.rdf> is none of the data's",
    **{f"data/lsbench/queries/rspql_yasper/q{n}.rspql": _NO_STREAM for n in (1, 4, 5, 6, 7, 8, 9, 10, 11)},
    "data/lsbench/queries/wukongs/C4.txt": _LOCATION,
    "data/lsbench/queries/wukongs/C6.txt": _LOCATION,
    "data/srbench/queries_sparqlstream_csrb/q6.sparql": _SELECTIVE,
    **{f"data/srbench/queries_rspql/q{n}.sparql": _SELECTIVE for n in (3, 6, 8, 9)},
    "data/citybench/csparql_query/Q11.txt": "it asks for what is bound and is not",
    "data/citybench/rspql_query/yasper/Q11.rspql": "it asks for what is bound and is not",
}
#: What makes twins of some of them that find something.
MENDED = {
    f"data/citybench/rspql_query/csparql2/q{n}.rspql": {
        "ssn:hasValue": "<http://purl.oclc.org/NET/sao/hasValue>",
        "http://citybench/": "http://127.0.0.1:9000/WebGlCity/RDF/",
    }
    for n in (1, 2, 3)
}
Elements = dict[int, list[str]]
Bag = Counter[frozenset[tuple[str, str]]]


@cache
def elements_of(path: Path, start: int, end: int) -> Elements:
    found: Elements = {}
    with gzip.open(path, "rt") as lines:
        for line in lines:
            time, _, triple = line.rstrip("\n").partition("\t")
            if start <= int(time) < end:
                found.setdefault(int(time), []).append(triple)
    return found


def file_of(root: Path, name: str, stream: str) -> Path | None:
    """Where the elements of a stream are, by the data's README."""
    if "#Aarhus" in stream or "#UserLocation" in stream:
        path = root / "data" / "citybench" / f"{stream.partition('#')[2]}.tnt.gz"
    elif "SRBench/observations" in stream:
        path = root / "data" / "srbench" / "tnt" / "lsd9h_observations.tnt.gz"
    else:
        path = root / "data" / "lsbench" / f"{FILES.get(stream.removeprefix(_DERI), '')}.tnt.gz"
    return path if path.exists() else None


@cache
def stored_of(path: Path) -> tuple[ox.Triple, ...]:
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    form = ox.RdfFormat.TURTLE if path.suffix == ".n3" else ox.RdfFormat.N_TRIPLES
    return tuple(ox.Triple(q.subject, q.predicate, q.object) for q in ox.parse(data, format=form, lenient=True))


def stored_graphs(root: Path, name: str, query: Query) -> dict[str | None, tuple[ox.Triple, ...]]:
    """What the store has: of CityBench each file is a graph, of the others the default graph."""
    if name.startswith("data/srbench"):
        return {None: stored_of(root / "data" / "srbench" / "tnt" / "stations_static.nt.gz")}
    graphs: dict[str | None, tuple[ox.Triple, ...]] = {}
    for clause in query.shape.graphs:
        if clause.graph is not None:
            graph = clause.graph.text.decode()[1:-1]
            path = root / "data" / "citybench" / "dataset" / Path(graph).with_suffix(".n3").name
            if path.exists():
                graphs[graph] = stored_of(path)
    return graphs


@cache
def runnable_texts() -> dict[str, str]:
    return dict(_runnable_texts())


def _runnable_texts() -> Iterator[tuple[str, str]]:
    for name, text in texts():
        if name in FAULTS or not name.startswith(tuple(PLAYED)) or "wukongs/L" in name:
            continue  # L1-L6 are played over their data with wider windows elsewhere
        unit = parse(text, BASE)
        query = unit.query if isinstance(unit, Register) else unit
        if isinstance(query, Query) and query.windows and query.dialect in (Dialect.CSPARQL, Dialect.RSPQL):
            yield name, text


def names() -> list[Any]:
    try:
        found = list(runnable_texts())
    except pytest.skip.Exception:
        return []
    return [pytest.param(name, marks=pytest.mark.soak if name in LONG else ()) for name in found]


@dataclass
class Played:
    query: Query
    emissions: list[dict[str, Any]]
    streams: dict[str, Elements]
    stored: dict[str | None, tuple[ox.Triple, ...]]


def play(root: Path, name: str, text: str, service: Service, mended: bool = False) -> Played:
    unit = parse(text, BASE)
    query = unit.query if isinstance(unit, Register) else unit
    assert isinstance(query, Query)
    folder = "data/citybench" if "wukongs/C" in name else "/".join(name.split("/")[:2])  # C1-C11 are CityBench's
    start, length = PLAYED[folder]
    length = EMPTY_MS if name in EMPTY and not mended else length
    end = start + (SHORT_MS if any(0 < window.step_ms < 100 for window in query.windows) else length)
    stored = stored_graphs(root, name, query)
    for graph, triples in stored.items():
        lines = "\n".join(f"{t.subject} {t.predicate} {t.object} ." for t in triples)
        service.merge_graph(graph, [_document(lines)])
    streams: dict[str, Elements] = {}
    definition, _, _ = service.register(text, "text" if not isinstance(unit, Register) else None)
    for window in query.windows:
        path, key = file_of(root, name, key_of(window)), key_of(window)
        streams[service.stream(key).name] = {} if path is None else elements_of(path, start, end)
    for hour in range(start, end, HOUR):
        for stream, elements in streams.items():
            body = [
                json.dumps({"timestamp": time, "data": " ".join(triples)})
                for time, triples in elements.items()
                if hour <= time < hour + HOUR
            ]
            if body:
                service.push(stream, "\n".join(body).encode(), NDJSON)
    for stream in streams:
        service.heartbeat(stream, end)
    service.heartbeat(next(iter(streams)), end, wait="evaluated")
    assert service.query_status(definition.name)["error"] is None
    return Played(query, [json.loads(e.json) for e in service.emissions(definition.name)], streams, stored)


def _document(lines: str) -> Document:
    return Document(lines.encode(), "application/n-triples", BASE)


@pytest.mark.parametrize("name", names())
def test_a_text_gives_the_rows_of_its_data(name: str, tmp_path: Path) -> None:
    text = runnable_texts()[name]
    with opened(tmp_path, ManualClock(NOW)) as service:
        played = play(shared(), name, text, service)
    rows = rows_compared(played)
    assert (rows == 0) == (name in EMPTY), f"{rows} rows"


@pytest.mark.parametrize("name", MENDED)
def test_a_mended_twin_of_an_empty_text_finds_something(name: str, tmp_path: Path) -> None:
    text = runnable_texts()[name]
    for slip, meant in MENDED[name].items():
        text = text.replace(slip, meant)
    with opened(tmp_path, ManualClock(NOW)) as service:
        played = play(shared(), name, text, service, mended=True)
    assert rows_compared(played) > 0


def rows_compared(played: Played) -> int:
    emitted = [e for e in played.emissions if bag_of(e)]
    silent = [e for e in played.emissions if not bag_of(e) and "repeated" not in e]
    peer = ox.Store()
    for graph, triples in played.stored.items():
        where = ox.DefaultGraph() if graph is None else ox.NamedNode(graph)
        peer.extend(ox.Quad(t.subject, t.predicate, t.object, where) for t in triples)
    question, rows = to_sparql(played.query), 0
    for emission in [*emitted[:EMISSIONS_MAX], *silent[:EMISSIONS_MAX]]:
        for window, observed in zip(played.query.windows, emission["windows"], strict=True):
            graph = ox.NamedNode(window.name)
            peer.clear_graph(graph)
            held = [
                triple
                for time, triples in played.streams[observed["stream"]].items()
                if observed["from"] <= time < observed["to"]
                for triple in triples
            ]
            peer.load("\n".join(held).encode(), format=ox.RdfFormat.N_TRIPLES, to_graph=graph)
        expected = expected_of(peer.query(question))
        assert bag_of(emission) == expected, f"at {emission['time']}"
        rows += sum(expected.values())
    return rows


def bag_of(emission: dict[str, Any]) -> Bag:
    """Rows by variable; of a CONSTRUCT its triples."""
    if "boolean" in emission:
        return Counter([frozenset()] if emission["boolean"] else [])
    if "graph" in emission:
        triples = ox.parse(emission["graph"].encode(), format=ox.RdfFormat.N_TRIPLES)
        return Counter(frozenset(_triple(triple).items()) for triple in triples)
    rows = emission["results"]["bindings"]
    return Counter(frozenset((name, _value(cell["value"])) for name, cell in row.items()) for row in rows)


def _value(text: str) -> str:
    """pyoxigraph writes numbers its own way."""
    try:
        return f"{float(text):.12g}"
    except ValueError:
        return text


def expected_of(answer: ox.QuerySolutions | ox.QueryTriples | ox.QueryBoolean) -> Bag:
    if isinstance(answer, ox.QueryTriples):
        return Counter(frozenset(_triple(triple).items()) for triple in answer)
    if isinstance(answer, ox.QueryBoolean):
        return Counter([frozenset()] if answer else [])
    rows = [{v.value: _value(row[v].value) for v in answer.variables if row[v] is not None} for row in answer]
    return Counter(frozenset(row.items()) for row in rows)


def _triple(triple: Any) -> dict[str, str]:
    return {name: str(getattr(triple, name)) for name in ("subject", "predicate", "object")}
