"""Texts of others that find nothing in their own data, over data that is made of what they ask for.

A value is drawn for each variable of a text; with these its patterns are triples, and so a match of all of them. Many
such draws, with few values, go to the streams and graphs that the patterns read: the values of one draw meet those of
others in joins, filters and groups. What is emitted is what pyoxigraph says of the same windows."""

from __future__ import annotations

import json
import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyoxigraph as ox
import pytest

from stream_ext.catalog.timing import key_of
from stream_ext.clock import ManualClock
from stream_ext.language.algebra.algebra import Bgp, Graph, InWindow, Query, SubSelect
from stream_ext.language.algebra.terms import Constant
from stream_ext.language.algebra.walk import parts_of
from stream_ext.language.algebra.windows import Dialect
from stream_ext.language.printing import to_sparql
from stream_ext.service.service import Service
from stream_ext.writer.graph_store import Document
from tests.stream_ext.opened import BASE, EX, NDJSON, NT, opened
from tests.stream_ext.service import test_cqels_texts_of_others as cqels
from tests.stream_ext.service import test_texts_of_others as others

START = 1_700_000_000_000
ELEMENTS, STORED, CLOSES_MAX, COMPARED_MAX, SEEDS_MAX = 20, 4, 500, 4, 12
#: A number that a text compares with something.
_COMPARED = re.compile(r'[<>=*+(-]\s*("?)(\d+(?:\.\d+)?)(?:"\^\^)?(?![\w.:/-])')
_FROM = re.compile(r"^FROM .*\n", re.MULTILINE)
#: Texts that no data makes say anything.
NEVER = {
    "data/srbench/queries_cqels/q7.sparql": "it asks for groups of what has a time that count no time",
    "data/citybench/csparql_query/Q11.txt": "it asks for what is bound and is not",
    "data/citybench/rspql_query/yasper/Q11.rspql": "it asks for what is bound and is not",
    "data/citybench/rspql_query/csparql2/q4.rspql": "inside of WINDOW it compares variables that are bound outside",
    "data/citybench/rspql_query/csparql2/q5.rspql": "inside of WINDOW it compares variables that are bound outside",
}

Stored = dict[str | None, tuple[ox.Triple, ...]]


def all_texts() -> dict[str, str]:
    return dict(cqels.cqels_texts()) | dict(others.runnable_texts())


def names() -> list[str]:
    """The texts of CQELS-QL and of Wukong+S that find nothing in their own data."""
    try:
        known = all_texts()
    except pytest.skip.Exception:
        return []
    return sorted(known.keys() & {*cqels.EMPTY, *(name for name in others.EMPTY if "wukongs" in name)})


def asked(pattern: Any, place: str | None, found: dict[str | None, list[Any]]) -> dict[str | None, list[Any]]:
    """The triple patterns by where they read: the name of a window, or of a graph; None outside of both."""
    match pattern:
        case InWindow(window, inner):
            asked(inner, window, found)
        case Graph(graph, inner):
            asked(inner, graph.text.decode()[1:-1] if isinstance(graph, Constant) else place, found)
        case SubSelect(query):
            asked(query.pattern, place, found)
        case Bgp(patterns):
            found[place] += [(each.subject, each.predicate, each.object) for each in patterns]
        case _:
            for part in parts_of(pattern):
                asked(part, place, found)
    return found


class MadeUp:
    """Data for one text."""

    def __init__(self, text: str, seed: int) -> None:
        self.chance, self.query = random.Random(seed), cqels.parsed(text)
        self.asked = asked(self.query.pattern, None, defaultdict(list))
        nodes = [node for patterns in self.asked.values() for pattern in patterns for node in pattern]
        named = {str(p.text, "utf-8") for _, p, _ in self._all() if isinstance(p, Constant)}
        self.predicates = sorted(named) or [f"<{EX}p>"]
        self.subjects = {s for s, _, _ in self._all()}
        where = text.partition("{")[2]
        compared = [(quote, float(number)) for quote, number in _COMPARED.findall(where)]
        as_texts = any(quote for quote, _ in compared) and "^^" not in where
        self.texts = re.findall(r"=\s*'(\w+)'", where)
        near = {0.0, 0.2, 1.0, *(number + more for _, number in compared for more in (-1, 0, 1, 2))}
        self.numbers = [f'"{n}"' if as_texts else str(n) for n in sorted(near)]
        mentioned = Counter(re.findall(r"[?$](\w+)", re.sub(r"(?is)select.*?(where|from|\{)", "", text, count=1)))
        self.numeric = {
            name for name in mentioned if re.search(rf"[-<>=(*+/,!]\s*\?{name}\b|\?{name}\s*[-<>=*+/]", text)
        }
        self.drawn = {node: self._value(node) for node in dict.fromkeys(nodes) if not isinstance(node, Constant)}

    def _all(self) -> list[Any]:
        return [pattern for patterns in self.asked.values() for pattern in patterns]

    def _value(self, node: Any) -> str:
        name = str(getattr(node, "name", getattr(node, "label", node)))
        if any(p == node for _, p, _ in self._all()):
            return self.chance.choice(self.predicates)
        if self.texts and name in self.numeric:
            return f'"{self.chance.choice(self.texts)}"'
        if node not in self.subjects and name in self.numeric:
            number = self.chance.choice(self.numbers)
            return number if number[0] == '"' else f'"{number}"^^<http://www.w3.org/2001/XMLSchema#double>'
        return f"<{EX}{re.sub(r'[^A-Za-z0-9]', '', name)}{self.chance.randrange(2)}>"

    def draw_again(self, often: float) -> None:
        for node in self.drawn:
            if self.chance.random() < often:
                self.drawn[node] = self._value(node)

    def triples(self, patterns: list[Any], often: float) -> list[str]:
        made = []
        for pattern in patterns:
            if self.chance.random() < often:
                terms = [n.text.decode() if isinstance(n, Constant) else self.drawn[n] for n in pattern]
                made.append(" ".join(terms) + " .")
        return list(dict.fromkeys(made))

    # ---- the graphs

    def stored(self) -> Stored:
        mine = [c.graph.text.decode()[1:-1] for c in self.query.shape.graphs if c.graph is not None and not c.named]
        merged = self.query.dialect is Dialect.CSPARQL
        found: dict[str | None, list[str]] = defaultdict(list)
        windows = {window.name for window in self.query.windows}
        for _ in range(STORED):
            self.draw_again(0.6)
            for place, patterns in self.asked.items():
                if place is None and (mine or not merged):
                    graph = self.chance.choice(mine) if mine else None
                    found[graph] += self.triples(patterns, 0.5 if merged else 0.95)
                elif place is not None and place not in windows:
                    found[place] += self.triples(patterns, 0.95)
        return {
            graph: tuple(dict.fromkeys(ox.Triple(*q.triple) for q in _parsed(lines))) for graph, lines in found.items()
        }

    # ---- the streams

    def came(self) -> Iterator[cqels.Came]:
        """No window has a triple twice."""
        windows, time, sent = self.query.windows, START, dict[tuple[str, str], int]()
        longest = max(window.range_ms + window.step_ms for window in windows)
        step = min((window.step_ms for window in windows if window.step_ms), default=0)
        gap = max(1, min(window.range_ms for window in windows) // 6)
        if step and self.query.dialect is not Dialect.CQELS:
            gap = max(1, min(gap, CLOSES_MAX * step // ELEMENTS))
        for _ in range(ELEMENTS):
            time += self.chance.randrange(1, 2 * gap + 1)
            self.draw_again(0.3)
            window = self.chance.choice(windows)
            if self.query.dialect is Dialect.CSPARQL:
                triples = self.triples(self.asked[None], 0.8)
                triples += [
                    t for place, each in self.asked.items() if place == window.name for t in self.triples(each, 1)
                ]
            else:
                triples = self.triples(self.asked[window.name], 0.95)
            stream = key_of(window)
            new = [t for t in triples if time - sent.get((stream, t), -longest) > longest]
            sent |= {(stream, triple): time for triple in new}
            if new:
                yield cqels.Came(time, stream, new)


def _parsed(lines: list[str]) -> Iterator[Any]:
    yield from ox.parse("\n".join(lines).encode(), format=ox.RdfFormat.N_TRIPLES)


def _load(service: Service, stored: Stored) -> None:
    for graph, triples in stored.items():
        lines = "\n".join(f"{t.subject} {t.predicate} {t.object} ." for t in triples)
        service.merge_graph(graph, [Document(lines.encode(), NT, BASE)])


class Peer:
    """What a text merges is merged here, as sets: pyoxigraph counts a triple once for each graph that it is in. And a
    query with windows that has FROM NAMED alone reads the default graph."""

    def __init__(self, query: Query, stored: Stored) -> None:
        self.query, self.question = query, _FROM.sub("", to_sparql(query))
        read = {None if c.graph is None else c.graph.text.decode()[1:-1] for c in query.shape.graphs if not c.named}
        self.merged = {triple for graph in read or {None} for triple in stored.get(graph, ())}
        self.graphs = {graph: triples for graph, triples in stored.items() if graph is not None}

    def answer(self, held: Mapping[str, list[str]]) -> others.Bag:
        store, default = ox.Store(), set(self.merged)
        for graph, triples in self.graphs.items():
            store.extend(ox.Quad(t.subject, t.predicate, t.object, ox.NamedNode(graph)) for t in triples)
        for window, lines in held.items():
            inside = {ox.Triple(*quad.triple) for quad in _parsed(lines)}
            store.extend(ox.Quad(t.subject, t.predicate, t.object, ox.NamedNode(window)) for t in inside)
            default |= inside if self.query.dialect is Dialect.CSPARQL else set()
        store.extend(ox.Quad(*triple) for triple in default)
        return others.expected_of(store.query(self.question))


def at_arrivals(text: str, made: MadeUp, service: Service) -> int:
    """The rows that were compared."""
    stored = made.stored()
    _load(service, stored)
    service.register(text, "text")
    peer, known, expected = Peer(made.query, stored), list[cqels.Came](), []
    for each in made.came():
        service.push(each.stream, "\n".join(each.triples).encode(), NT, timestamp=each.time)
        before, known = known, [*known, each]
        with_it, without = (
            peer.answer({w.name: cqels.held(w, each.time, some) for w in made.query.windows})
            for some in (known, before)
        )
        if new := with_it - without:
            expected.append((each.time, new))
    service.heartbeat(known[-1].stream, 1, wait="evaluated")
    assert service.query_status("text")["error"] is None
    found = [json.loads(emission.json) for emission in service.emissions("text")]
    assert [(each["time"], others.bag_of(each)) for each in found] == expected
    return sum(bag.total() for _, bag in expected)


def at_closes(text: str, made: MadeUp, service: Service) -> int:
    """The rows that were compared: of some emissions that say something, and some that do not."""
    stored, query = made.stored(), made.query
    _load(service, stored)
    definition, _, _ = service.register(text, None if "REGISTER" in text.upper() else "text")
    known, streams = list(made.came()), dict[str, others.Elements]()
    for key in map(key_of, query.windows):
        elements = {each.time: list(each.triples) for each in known if each.stream == key}
        streams[service.stream(key).name] = elements
    for stream, elements in streams.items():
        body = [json.dumps({"timestamp": time, "data": " ".join(triples)}) for time, triples in elements.items()]
        if body:
            service.push(stream, "\n".join(body).encode(), NDJSON)
    for stream in streams:
        service.heartbeat(stream, known[-1].time + 1)
    service.heartbeat(next(iter(streams)), known[-1].time + 1, wait="evaluated")
    assert service.query_status(definition.name)["error"] is None
    emissions = [json.loads(emission.json) for emission in service.emissions(definition.name)]
    emitted = [each for each in emissions if others.bag_of(each)][:COMPARED_MAX]
    silent = [each for each in emissions if not others.bag_of(each) and "repeated" not in each][:COMPARED_MAX]
    peer, rows = Peer(query, stored), 0
    for emission in [*emitted, *silent]:
        held = {}
        for window, at in zip(query.windows, emission["windows"], strict=True):
            elements = streams[at["stream"]]
            held[window.name] = [t for time, ts in elements.items() if at["from"] <= time < at["to"] for t in ts]
        expected = peer.answer(held)
        assert others.bag_of(emission) == expected, f"at {emission['time']}"
        rows += expected.total()
    return rows


def play(name: str, seed: int, folder: Path) -> int:
    text = all_texts()[name]
    made = MadeUp(text, seed)
    with opened(folder, ManualClock(START + (1 << 40))) as service:
        return (at_arrivals if made.query.dialect is Dialect.CQELS else at_closes)(text, made, service)


@pytest.mark.parametrize("name", names())
def test_a_text_finds_what_is_made_for_it(name: str, tmp_path: Path) -> None:
    rows, seeds = 0, iter(range(SEEDS_MAX if name not in NEVER else 1))
    while not rows and (seed := next(seeds, None)) is not None:
        rows = play(name, seed, tmp_path / str(seed))
    assert (rows == 0) == (name in NEVER), f"{rows} rows"
