"""Documents of quads, as rdflib's own parsers hand them over, with each kind of graph."""

from __future__ import annotations

from pathlib import Path

import pytest
from rdflib import BNode, ConjunctiveGraph, Dataset, Graph, Namespace

EX = Namespace("http://ex/")
NQUADS = """<http://ex/c> <http://ex/p> <http://ex/o> _:g .
<http://ex/a> <http://ex/p> <http://ex/o> .
<http://ex/e> <http://ex/p> <http://ex/o> <http://ex/named> .
"""
TRIG = """@prefix ex: <http://ex/> .
_:g { ex:c ex:p ex:o } ex:a ex:p ex:o . ex:named { ex:e ex:p ex:o }"""
JSONLD = """[{"@id": "_:g", "@graph": [{"@id": "http://ex/c", "http://ex/p": {"@id": "http://ex/o"}}]},
{"@id": "http://ex/a", "http://ex/p": {"@id": "http://ex/o"}},
{"@id": "http://ex/named", "@graph": [{"@id": "http://ex/e", "http://ex/p": {"@id": "http://ex/o"}}]}]"""

pytestmark = [
    pytest.mark.filterwarnings("ignore:ConjunctiveGraph is deprecated:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:Dataset.default_context is deprecated:DeprecationWarning"),
]


def graphs(graph: Graph) -> dict[str, set[str]]:
    """What is in each graph; the default graph goes by the name that it has for `graph`, other blank nodes by none."""
    own = graph.default_context if isinstance(graph, ConjunctiveGraph) else graph
    found: dict[str, set[str]] = {}
    for context in graph.store.contexts():
        blank = isinstance(context.identifier, BNode)
        name = "default" if context.identifier == own.identifier else "_:" if blank else str(context.identifier)
        found.setdefault(name, set()).update(str(subject)[-1] for subject in context.subjects())
    return {name: subjects for name, subjects in found.items() if subjects}


@pytest.mark.parametrize("kind", [Graph, Dataset, ConjunctiveGraph])
@pytest.mark.parametrize(("format", "data"), [("nquads", NQUADS), ("trig", TRIG), ("json-ld", JSONLD)])
@pytest.mark.parametrize("filled", [False, True])
def test_a_document_of_quads_goes_where_it_says_and_takes_nothing_away(
    kind: type[Graph], format: str, data: str, filled: bool, tmp_path: Path
) -> None:
    graph = kind(store="rillet")
    graph.open(str(tmp_path / "store"))
    if filled:
        before = Graph(store="rillet")
        before.open(str(tmp_path / "store"))
        before.add((EX.x, EX.p, EX.o))
        before.close()
    graph.parse(data=data, format=format)
    default = {"a", "x"} if filled else {"a"}
    expected = {"default": default, "_:": {"c"}, "http://ex/named": {"e"}}
    assert graphs(graph) == expected
    graph.close()
    again = Dataset(store="rillet")
    again.open(str(tmp_path / "store"))
    assert graphs(again) == expected
    again.close()


def test_a_default_graph_that_a_program_removes_is_empty_and_still_there(tmp_path: Path) -> None:
    dataset = Dataset(store="rillet")
    dataset.open(str(tmp_path / "store"))
    dataset.default_graph.add((EX.a, EX.p, EX.o))
    dataset.graph(EX.named).add((EX.b, EX.p, EX.o))
    dataset.remove_graph(dataset.default_graph)
    assert graphs(dataset) == {"http://ex/named": {"b"}}
    assert {graph.identifier for graph in dataset.graphs()} == {dataset.default_graph.identifier, EX.named}
    dataset.close()


def test_a_graph_that_was_made_is_listed_until_it_is_removed(tmp_path: Path) -> None:
    dataset = Dataset(store="rillet")
    dataset.open(str(tmp_path / "store"))
    graph = dataset.graph(EX.named)
    assert EX.named in {each.identifier for each in dataset.graphs()}
    graph.add((EX.b, EX.p, EX.o))
    graph.remove((None, None, None))
    assert EX.named in {each.identifier for each in dataset.graphs()}
    dataset.remove_graph(graph)
    assert {each.identifier for each in dataset.graphs()} == {dataset.default_graph.identifier}
    dataset.close()
