"""GRAPH inside of WINDOW: the graphs of the window's elements, as SPARQL has it of a dataset with these graphs."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pyoxigraph as ox
import pytest

from stream_ext.service.service import Service
from tests.stream_ext.opened import EX, emissions_of, opened, push_lines

#: pyoxigraph gives some of these no graph, so each is asked of one graph after the other, as SPARQL says it.
PATTERNS = [
    "GRAPH ?g { ?a :p ?b }",
    "GRAPH ?g { }",
    "GRAPH :g1 { BIND(1 AS ?x) }",
    "GRAPH ?g { { SELECT ?a (COUNT(*) AS ?n) { ?a :p ?b } GROUP BY ?a } }",
    "GRAPH ?g { ?a :p ?b { SELECT ?b { ?b :p ?c } } }",
    "GRAPH :g1 { ?a :p ?b { SELECT ?b { ?b :p ?c } } }",
    "GRAPH ?g { { SELECT DISTINCT ?a { ?a :p ?b } ORDER BY ?a LIMIT 1 } }",
    "GRAPH ?g { ?a :p ?b MINUS { ?c :p :n1 } }",
    "GRAPH ?g { ?a :p ?b MINUS { ?b :p ?c } }",
    "GRAPH ?g { ?a :p ?b FILTER NOT EXISTS { ?b :p ?c } }",
    "GRAPH ?g { ?a :p ?b OPTIONAL { ?b :p ?c } }",
    "GRAPH ?g { OPTIONAL { ?a :p :n1 } }",
    "GRAPH ?g { { ?a :p :n1 } UNION { } }",
    "GRAPH ?g { ?a :p+ ?b }",
    "GRAPH ?g { ?a :p* ?b . ?b :p :n1 }",
    "GRAPH :g1 { ?a :p+ ?b }",
    "GRAPH :g2 { ?a :p* ?b }",
    "GRAPH ?g { ?a :p ?g }",
    "GRAPH ?g { VALUES ?a { :n1 :n2 } }",
]


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_graph_in_a_window_is_one_of_its_elements(pattern: str, several: bool, tmp_path: Path) -> None:
    """`several`: each element is a message of several graphs."""
    chance = random.Random(pattern)
    text = (
        f"PREFIX : <{EX}> REGISTER RSTREAM q AS SELECT * FROM NAMED WINDOW :w ON s [RANGE 20ms STEP 10ms] "
        f"WHERE {{ WINDOW :w {{ {pattern} }} }}"
    )
    elements: list[dict[str, Any]] = []
    with opened(tmp_path) as service:
        service.register(text)
        for time in range(0, 120, 3):
            if several:
                elements += _message(chance, time)
                push_message(service, [e for e in elements if e["timestamp"] == time])
            else:
                elements.append(_element(chance, time))
                push_lines(service, "s", elements[-1])
        observed = emissions_of(service)
    assert len(observed) == 11
    rows = 0
    for emission in observed:
        time = emission["time"]
        expected = _asked([e for e in elements if time - 20 <= e["timestamp"] < time], pattern)
        assert _bag(emission) == expected, f"at {time}"
        rows += sum(expected.values())
    assert rows > 5


def _element(chance: random.Random, time: int) -> dict[str, Any]:
    nodes = [f"<{EX}n{chance.randrange(1, 4)}>" for _ in range(4)]
    graph = chance.choice(["", "g1", "g2", "n1"])
    data = f"{nodes[0]} <{EX}p> {nodes[1]} .\n{nodes[2]} <{EX}p> {nodes[3]} ."
    return {"timestamp": time, "data": data, **({"graph": EX + graph} if graph else {})}


def _message(chance: random.Random, time: int) -> list[dict[str, Any]]:
    """The triples of a message, by their graphs."""
    return [_element(chance, time) for _ in range(chance.randrange(4))] or [{"timestamp": time, "data": ""}]


def push_message(service: Service, parts: list[dict[str, Any]]) -> None:
    log = ['VERSION "1.2-messages"\n']
    for part in parts:
        log.append(f"<{part['graph']}> {{ {part['data']} }}\n" if "graph" in part else part["data"])
    log.append("\nMESSAGE\n")
    (time,) = {part["timestamp"] for part in parts}
    receipt = service.push("s", "".join(log).encode(), "application/trig", timestamp=time, wait="evaluated")
    assert receipt.accepted == 1


def _asked(held: list[dict[str, Any]], pattern: str) -> Counter[frozenset[tuple[str, str]]]:
    store = ox.Store()
    for element in held:
        for triple in ox.parse(element["data"].encode(), format=ox.RdfFormat.N_TRIPLES):
            graphs = [ox.DefaultGraph(), *([ox.NamedNode(element["graph"])] if "graph" in element else [])]
            for graph in graphs:
                store.add(ox.Quad(triple.subject, triple.predicate, triple.object, graph))
    node, inner = pattern.removeprefix("GRAPH ").split(" ", 1)
    rows: Counter[frozenset[tuple[str, str]]] = Counter()
    for graph in {quad.graph_name for quad in store} - {ox.DefaultGraph()}:
        if node.startswith("?"):
            rows += _bound(_rows(store, graph, inner), node[1:], graph.value)
        elif graph.value == EX + node[1:]:
            rows += Counter(frozenset(row.items()) for row in _rows(store, graph, inner))
    return rows


def _rows(store: ox.Store, graph: Any, inner: str) -> list[dict[str, str]]:
    """Of one graph, as if there were no other."""
    alone = ox.Store()
    alone.extend(ox.Quad(q.subject, q.predicate, q.object) for q in store.quads_for_pattern(None, None, None, graph))
    found = alone.query(f"PREFIX : <{EX}> SELECT * WHERE {inner}")
    assert isinstance(found, ox.QuerySolutions)
    return [{v.value: row[v].value for v in found.variables if row[v] is not None} for row in found]


def _bound(rows: list[dict[str, str]], name: str, graph: str) -> Counter[frozenset[tuple[str, str]]]:
    return Counter(frozenset((row | {name: graph}).items()) for row in rows if row.get(name, graph) == graph)


def _bag(emission: dict[str, Any]) -> Counter[frozenset[tuple[str, str]]]:
    rows = emission["results"]["bindings"]
    return Counter(frozenset((name, cell["value"]) for name, cell in row.items()) for row in rows)
