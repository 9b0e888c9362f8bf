"""Random operations of rdflib on a graph or dataset, each as a sentence that can be done to several of them alike."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from rdflib import BNode, Dataset, Graph, Literal, Namespace
from rdflib.graph import ConjunctiveGraph

EX = Namespace("http://ex/")
SUBJECTS = [EX.a, EX.b, BNode("n1")]
PREDICATES = [EX.p, EX.q]
OBJECTS = [EX.a, EX.b, Literal("x"), Literal(""), Literal("x", lang="en")]
NAMES = [EX.g, EX.h]
_HEAD = "PREFIX ex: <http://ex/> "
UPDATES = [
    "INSERT DATA { ex:a ex:p ex:b }",
    "INSERT DATA { ex:a ex:p ex:b . GRAPH ex:g { ex:a ex:p 'x' } }",
    "DELETE DATA { ex:a ex:p ex:b . GRAPH ex:g { ex:a ex:p ex:b } }",
    "DELETE WHERE { ?s ex:p ?o }",
    "DELETE { ?s ex:p ?o } INSERT { ?s ex:q ?o } WHERE { ?s ex:p ?o }",
    "INSERT { GRAPH ex:h { ?s ?p ?o } } WHERE { GRAPH ex:g { ?s ?p ?o } }",
    "WITH ex:g DELETE { ?s ?p ?o } WHERE { ?s ?p ?o }",
    "CLEAR DEFAULT", "CLEAR GRAPH ex:g", "CLEAR SILENT GRAPH ex:h", "CLEAR NAMED", "DROP ALL",
    "COPY ex:g TO ex:h", "MOVE ex:g TO ex:h", "ADD DEFAULT TO ex:g", "ADD ex:g TO DEFAULT",
    "INSERT DATA { ex:a ex:q ex:b } ; CLEAR DEFAULT ; INSERT DATA { ex:b ex:q ex:a }",
]  # fmt: skip
DOCUMENTS = [
    ("turtle", "@prefix ex: <http://ex/> . ex:a ex:p ex:b, 'x' . ex:b ex:q ex:a ."),
    ("nt", '<http://ex/a> <http://ex/p> "x" .\n<http://ex/b> <http://ex/p> "x" .\n'),
    ("nquads", "<http://ex/a> <http://ex/p> <http://ex/b> <http://ex/g> .\n"),
    ("trig", "@prefix ex: <http://ex/> . ex:g { ex:a ex:p ex:b } ex:h { ex:b ex:p ex:a }"),
    ("json-ld", '{"@id": "http://ex/a", "http://ex/p": [{"@id": "http://ex/b"}, {"@value": "x"}]}'),
]
Operation = tuple[Any, ...]

_triple = st.tuples(st.sampled_from(SUBJECTS), st.sampled_from(PREDICATES), st.sampled_from(OBJECTS))
_pattern = st.tuples(
    st.sampled_from([None, *SUBJECTS]), st.sampled_from([None, *PREDICATES]), st.sampled_from([None, *OBJECTS])
)
_place = st.sampled_from([None, *NAMES])  # None: the default graph
_triples = st.lists(_triple, max_size=4)
_operations = st.one_of(
    st.tuples(st.just("add"), _place, _triple),
    st.tuples(st.just("add twice"), _place, _triple),
    st.tuples(st.just("addN"), st.lists(st.tuples(_place, _triple), max_size=4)),
    st.tuples(st.just("remove"), _place, _pattern),
    st.tuples(st.just("remove everywhere"), _pattern),
    st.tuples(st.just("set"), _place, _triple),
    st.tuples(st.just("+="), _place, _triples),
    st.tuples(st.just("-="), _place, _triples),
    st.tuples(st.just("parse"), _place, st.sampled_from(DOCUMENTS)),
    st.tuples(st.just("update"), st.sampled_from(UPDATES)),
    st.tuples(st.just("remove_graph"), st.sampled_from(NAMES)),
    st.tuples(st.just("graph"), st.sampled_from(NAMES)),
    st.tuples(st.just("bind"), st.sampled_from(["ex", "other"])),
    st.tuples(st.just("choices"), st.lists(st.sampled_from(SUBJECTS), min_size=1, max_size=2)),
    st.tuples(st.just("commit")),
    st.tuples(st.just("rollback")),
)
operations = st.lists(_operations, min_size=1, max_size=12)


def do(graph: Graph, operation: Operation) -> object:
    """Does it, and says what came of it: an error counts by its kind."""
    try:
        return _done(graph, operation)
    except Exception as error:  # noqa: BLE001 -- whatever one does, the other has to do
        return type(error).__name__


def _done(graph: Any, operation: Operation) -> object:
    match operation:
        case "add", place, triple:
            _place_of(graph, place).add(triple)
        case "add twice", place, triple:
            _place_of(graph, place).add(triple).add(triple)
        case "addN", quads:
            graph.addN((*triple, _place_of(graph, place)) for place, triple in quads)
        case "remove", place, pattern:
            _place_of(graph, place).remove(pattern)
        case "remove everywhere", pattern:
            graph.remove(pattern)
        case "set", place, triple:
            _place_of(graph, place).set(triple)
        case "+=", place, triples:
            target = _place_of(graph, place)
            target += triples
        case "-=", place, triples:
            target = _place_of(graph, place)
            target -= triples
        case "parse", place, (format, text):
            _place_of(graph, place if format in ("turtle", "nt") else ...).parse(data=text, format=format)
        case "update", text:
            graph.update(_HEAD + text)
        case "remove_graph", name:
            graph.remove_graph(_place_of(graph, name))
        case "graph", name:
            return sorted(map(tuple, graph.graph(name)))
        case "bind", prefix:
            graph.bind(prefix, EX)
            return sorted(graph.namespaces())
        case "choices", subjects:
            return sorted(graph.triples_choices((subjects, None, None)))
        case ("commit",):
            graph.commit()
        case ("rollback",):
            graph.rollback()
    return None


def _place_of(graph: Any, place: Any) -> Any:
    """The graph itself (...), its default graph (None), or a named one. A single Graph has the first only."""
    if place is ... or not isinstance(graph, ConjunctiveGraph):
        return graph
    if place is None:
        return graph.default_graph if isinstance(graph, Dataset) else graph.default_context
    return graph.get_context(place)
