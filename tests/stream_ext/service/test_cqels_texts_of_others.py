"""The CQELS-QL texts of others over some hours of their data, as they are written.

Each element is a push, in the order of time over all streams. What is said at some times, and that nothing is said at
others, is what pyoxigraph says of the windows with the element that has just come, less what it says without it. No
window holds twice a triple that is asked for, so its sets are the bags of CQELS-QL."""

from __future__ import annotations

import json
import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pyoxigraph as ox
import pytest

from stream_ext.catalog.timing import key_of
from stream_ext.clock import ManualClock
from stream_ext.language.algebra.algebra import Query, Register
from stream_ext.language.algebra.windows import Dialect, Extent, WindowClause
from stream_ext.language.printing import to_sparql
from stream_ext.language.syntax import parse
from stream_ext.service.service import Service
from stream_ext.writer.graph_store import Document
from tests.stream_ext.language.corpora import FAULTS, shared, texts
from tests.stream_ext.opened import BASE, EX, NT, opened
from tests.stream_ext.service.test_texts_of_others import (
    HOUR,
    NOW,
    PLAYED,
    Bag,
    bag_of,
    elements_of,
    expected_of,
    file_of,
    stored_of,
)
from tests.stream_ext.service.twins_of_texts import NO_TWIN, TWINS, Twin

ELEMENTS_MAX = 1_000
#: What is played of LSBench: a month, of which the first elements are taken.
MONTH = 32 * 24 * HOUR
TIMES_MAX = 8
#: Likewise, of twins, and of texts that find nothing.
FEW_ELEMENTS, FEW_TIMES = 150, 2
STORED = {
    "data/citybench": ["data/citybench/dataset/SensorRepository.n3", "data/citybench/dataset/AarhusCulturalEvents.n3"],
    "data/srbench": ["data/srbench/tnt/stations_static.nt.gz"],
    "data/lsbench": ["data/lsbench/static_1k.nt.gz"],
}
_LOCATION = "UserLocationService ends before the other streams begin"
_NO_GRAPH = "it asks for a graph of a relative name, which is none of the data's"
_SELECTIVE = "what it asks for does not occur in what is played"
_OF_TEXTS = "it compares numbers with texts, which is an error in SPARQL"
#: Texts that find nothing in what is played of their data, and why.
EMPTY = {
    "data/citybench/cqels_query/Q12.txt": _SELECTIVE,
    **{f"data/citybench/cqels_query/{name}.txt": _LOCATION for name in ("Q4", "Q6", "location_parking_1")},
    **{f"data/citybench/cqels_query/{name}.txt": _NO_GRAPH for name in ("Q5", "Q8", "Q9")},
    "data/citybench/cqels_query/traffic_parking_1.txt": _SELECTIVE,
    "data/lsbench/queries/cqelsplus/query6.txt": _SELECTIVE,
    "data/lsbench/queries/cqelsql/query4.cqels": "no two posts of a tag are within 15 s",
    **{f"data/srbench/queries_cqels/{name}.sparql": _SELECTIVE for name in ("q3", "q6", "q8", "q9", "q10")},
    "data/srbench/queries_cqels/q4.sparql": _OF_TEXTS,
    "data/srbench/queries_cqels/q5.sparql": _OF_TEXTS,
    "data/srbench/queries_cqels/q7.sparql": "it asks for groups of what has a time that count no time",
}


#: The dataset of a printed query.
_FROM = re.compile("FROM (?:NAMED )?<[^>]*>")


class Came(NamedTuple):
    """An element: its time, its stream, and its triples."""

    time: int
    stream: str
    triples: Sequence[str]


def cqels_texts() -> Iterator[tuple[str, str]]:
    for name, text in texts():
        unit = None if name in FAULTS else parse(text, BASE)
        query = unit.query if isinstance(unit, Register) else unit
        if isinstance(query, Query) and query.dialect is Dialect.CQELS:
            yield name, text


def names() -> list[str]:
    try:
        return [name for name, _ in cqels_texts()]
    except pytest.skip.Exception:
        return []


def parsed(text: str) -> Query:
    unit = parse(text, BASE)
    query = unit.query if isinstance(unit, Register) else unit
    assert isinstance(query, Query)
    return query


def folder_of(name: str) -> str:
    return "/".join(name.split("/")[:2])


@cache
def stored(name: str) -> ox.Store:
    peer = ox.Store()
    for path in STORED[folder_of(name)]:
        peer.extend(ox.Quad(*triple) for triple in stored_of(shared() / path))
    return peer


def came(root: Path, name: str, query: Query, twin: Twin = NO_TWIN) -> list[Came]:
    start, length = PLAYED[folder_of(name)]
    start = start if twin.start is None else twin.start
    length = MONTH if name.startswith("data/lsbench") else length
    found = []
    for stream in dict.fromkeys(map(key_of, query.windows)):
        path = file_of(root, name, stream)
        assert path is not None, f"{name} reads {stream}"
        shift = sum(ms for end, ms in twin.shifted.items() if stream.endswith(end))
        at_once: dict[int, list[str]] = defaultdict(list)
        known: set[str] = set()
        for time, triples in elements_of(path, start, start + length).items():
            new = [triple for triple in dict.fromkeys(triples) if triple not in known] if twin.once else triples
            known.update(new)
            at_once[start + (time + shift - start) // twin.as_fast] += new
        found += [Came(time, stream, triples) for time, triples in at_once.items() if triples]
    return sorted(found)[: FEW_ELEMENTS if name in EMPTY else ELEMENTS_MAX]


def play(name: str, text: str, all_that_came: Sequence[Came], service: Service, twin: Twin) -> list[dict[str, Any]]:
    lines = "\n".join(f"{quad.subject} {quad.predicate} {quad.object} ." for quad in stored(name))
    service.merge_graph(None, [Document(lines.encode(), "application/n-triples", BASE)])
    for graph, triples in graphs_of(twin).items():
        lines = "\n".join(f"{triple.subject} {triple.predicate} {triple.object} ." for triple in triples)
        service.merge_graph(graph, [Document(lines.encode(), "application/n-triples", BASE)])
    definition, _, _ = service.register(text, "text")
    for each in all_that_came:
        service.push(each.stream, "\n".join(each.triples).encode(), NT, timestamp=each.time)
    service.heartbeat(key_of(parsed(text).windows[0]), 1, wait="evaluated")
    assert service.query_status("text")["error"] is None
    assert service.query_status("text")["late"] == 0
    return [json.loads(emission.json) for emission in service.emissions(definition.name)]


def graphs_of(twin: Twin) -> dict[str, tuple[ox.Triple, ...]]:
    root = shared() / "data" / "citybench" / "dataset"
    return {f"{BASE}{name}": stored_of(root / file) for name, file in twin.graphs.items()}


def held(window: WindowClause, time: int, known: Sequence[Came]) -> list[str]:
    """(t-r, t], or the instance of a grid that is open at t, cut there."""
    assert window.extent is Extent.RANGE
    assert window.bounds is None
    close = -(-time // window.step_ms) * window.step_ms if window.step_ms else time
    mine = (each for each in known if each.stream == key_of(window))
    return [triple for each in mine if close - window.range_ms < each.time <= time for triple in each.triples]


def answer(query: Query, peer: ox.Store, contents: Mapping[str, Sequence[str]], may_repeat: bool) -> Bag:
    # Beside windows, FROM NAMED leaves the default graph as it is: the peer is asked about all that it has.
    question = _FROM.sub("", to_sparql(query))
    for window, triples in contents.items():
        asked = [triple for triple in triples if triple.split()[1] in question]
        assert len(asked) == len(set(asked)) or may_repeat, "a window holds a triple twice"
        peer.clear_graph(ox.NamedNode(window))
        peer.load("\n".join(triples).encode(), format=ox.RdfFormat.N_TRIPLES, to_graph=ox.NamedNode(window))
    return expected_of(peer.query(question))


def rows_of(name: str, text: str, tmp_path: Path, twin: Twin = NO_TWIN, may_repeat: bool = False) -> int:
    """How many rows were compared."""
    query = parsed(text)
    all_that_came = came(shared(), name, query, twin)
    with opened(tmp_path, ManualClock(NOW)) as service:
        emissions = play(name, text, all_that_came, service, twin)
    emitted: dict[int, list[Bag]] = defaultdict(list)
    for emission in emissions:
        emitted[emission["time"]].append(bag_of(emission))
    chance, most = random.Random(name), FEW_TIMES if name in EMPTY else TIMES_MAX
    times = sorted({each.time for each in all_that_came})
    silent = [time for time in times if time not in emitted]
    looked_at = {*list(emitted)[:2], *chance.sample(list(emitted), min(most, len(emitted)))}
    looked_at |= {*chance.sample(silent, min(most, len(silent)))}
    rows, peer = 0, ox.Store()
    peer.extend(stored(name))
    for graph, triples in graphs_of(twin).items():
        peer.extend(ox.Quad(t.subject, t.predicate, t.object, ox.NamedNode(graph)) for t in triples)
    for time in sorted(looked_at):
        expected = []
        for place, each in enumerate(all_that_came):
            if each.time == time:
                known = all_that_came[: place + 1], all_that_came[:place]
                with_it, without = (
                    answer(query, peer, {w.name: held(w, time, some) for w in query.windows}, may_repeat)
                    for some in known
                )
                expected.append(with_it - without)
        assert emitted[time] == [bag for bag in expected if bag], f"at {time}"
        rows += sum(map(Counter.total, expected))
    return rows


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", [name for name in names() if not name.startswith("data/conference")])
def test_a_text_gives_the_rows_of_its_data(name: str, tmp_path: Path) -> None:
    rows = rows_of(name, dict(cqels_texts())[name], tmp_path, may_repeat=name in EMPTY)
    assert (rows == 0) == (name in EMPTY)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", [name for name in names() if name in EMPTY])
def test_a_text_that_finds_nothing_gives_the_rows_of_data_in_which_it_does(name: str, tmp_path: Path) -> None:
    twin = TWINS[name]
    assert rows_of(name, twin.of(dict(cqels_texts())[name]), tmp_path, twin) > 0


# ---- the conference scenario has texts only, so its data is made up here

PLAN = """
<http://deri.org/floorplan/r1> lv:connected <http://deri.org/floorplan/r2> ; lv:name "one" .
<http://deri.org/floorplan/r2> lv:connected <http://deri.org/floorplan/r1> ; lv:name "two" .
"""
PREFIXES = """PREFIX lv: <http://deri.org/floorplan/> PREFIX dc: <http://purl.org/dc/elements/1.1/>
PREFIX foaf: <http://xmlns.com/foaf/0.1/> PREFIX dcterms: <http://purl.org/dc/terms/>
PREFIX swrc: <http://swrc.ontoware.org/ontology#>"""
PAPERS = f"""
<{EX}paper> dc:creator <{EX}ann>, <{EX}bob>, <{EX}eve> ; dcterms:partOf <{EX}book> .
<{EX}book> swrc:editor <{EX}eve> .
<{EX}ann> foaf:name "AUTHORNAME" . <{EX}eve> foaf:name "Eve" .
"""
#: Who is seen where, every second from 1 s on.
SEEN = [("bob", "r1"), ("ann", "r1"), ("eve", "r2"), ("ann", "r1"), ("bob", "r2"), ("ann", "r2")]
#: What each text says when, in this made-up building.
CONFERENCE = {
    "query1": [(2000, [("one",)]), (4000, [("one",)]), (6000, [("two",)])],
    # [RANGE 3s] at 3 s holds 1, 2, 3: those in the room next to r2.
    "query2": [
        (3000, [("eve", "ann"), ("eve", "bob")]),
        (4000, [("ann", "eve")]),
        (5000, [("bob", "ann")]),
        (6000, [("ann", "ann")]),
    ],
    # co-authors of Ann, who is seen now, in her room
    "query3": [(2000, [("one",)]), (4000, [("one",)]), (6000, [("two",), ("two",)])],
    # the editor, if she was in the room next to Ann's
    "query4": [(4000, [("Eve",)])],
    # how many co-authors in rooms next to Ann's: at 6 s Bob, who was in r1
    "query5": [
        (4000, [("http://deri.org/floorplan/r2", "two", "1")]),
        (6000, [("http://deri.org/floorplan/r1", "one", "1")]),
    ],
}


@pytest.mark.parametrize("name", [name for name in names() if name.startswith("data/conference")])
def test_the_conference_scenario(name: str, tmp_path: Path) -> None:
    text = dict(cqels_texts())[name]
    with opened(tmp_path) as service:
        service.update(f"{PREFIXES} INSERT DATA {{ {PAPERS} {PLAN} GRAPH <http://deri.org/floorplan/> {{ {PLAN} }} }}")
        service.register(text, "text")
        stream = "http://deri.org/streams/rfid"
        for second, (person, room) in enumerate(SEEN, 1):
            line = f"<{EX}{person}> <http://deri.org/floorplan/detectedAt> <http://deri.org/floorplan/{room}> ."
            service.push(stream, line.encode(), NT, timestamp=1000 * second, wait="evaluated")
        emissions = [json.loads(emission.json) for emission in service.emissions("text")]
    emitted = []
    for emission in emissions:
        names = emission["head"]["vars"]
        rows = [tuple(row[v]["value"].removeprefix(EX) for v in names) for row in emission["results"]["bindings"]]
        emitted.append((emission["time"], sorted(rows)))
    assert emitted == CONFERENCE[Path(name).stem]
