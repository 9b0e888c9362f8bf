"""The service description of a SparqlEndpoint, made when it is asked for: nothing is read at start.

A description that the application gave is completed, and never changed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice

from rdflib import RDF, BNode, Graph, Literal, URIRef
from rdflib.namespace import DC, RDFS
from rdflib.term import Node
from rdflib_endpoint.utils import FORMATS, SD

_NAMED_GRAPHS_MAX = 1_000
_RESULTS = ("SPARQL_Results_JSON", "SPARQL_Results_XML", "SPARQL_Results_CSV")
_GRAPHS = ("Turtle", "N-Triples", "RDF_XML", "JSON-LD", "TriG", "N-Quads")


@dataclass(frozen=True, slots=True)
class About:
    title: str
    description: str
    url: str
    takes_updates: bool
    is_union: bool
    given: Graph | None


def describe(about: About, functions: Iterable[URIRef], named_graphs: Iterable[Node]) -> Graph:
    graph = Graph()
    if about.given is not None:
        graph += about.given
    for prefix, namespace in (("sd", SD), ("formats", FORMATS), ("dc", DC), ("rdfs", RDFS)):
        graph.bind(prefix, namespace)
    service = next(graph.subjects(SD.endpoint), None) or BNode()
    _set(graph, service, RDF.type, [SD.Service])
    languages = [SD.SPARQL11Query, *([SD.SPARQL11Update] if about.takes_updates else [])]
    for predicate, values in (
        (SD.endpoint, [URIRef(about.url)]),
        (RDFS.label, [Literal(about.title)]),
        (DC.description, [Literal(about.description)]),
        (SD.supportedLanguage, languages),
        (SD.resultFormat, [FORMATS[name] for name in (*_RESULTS, *_GRAPHS)]),
        (SD.inputFormat, [FORMATS[name] for name in _GRAPHS]),
    ):
        if graph.value(service, predicate) is None:
            _set(graph, service, predicate, values)
    if about.is_union:
        graph.add((service, SD.feature, SD.UnionDefaultGraph))
    for function in functions:
        graph.add((function, RDF.type, SD.Function))
        graph.add((service, SD.extensionFunction, function))
    if graph.value(service, SD.defaultDataset) is None:
        _add_dataset(graph, service, named_graphs)
    return graph


def _add_dataset(graph: Graph, service: Node, named_graphs: Iterable[Node]) -> None:
    dataset, default = BNode(), BNode()
    _set(graph, service, SD.defaultDataset, [dataset])
    _set(graph, dataset, RDF.type, [SD.Dataset])
    _set(graph, dataset, SD.defaultGraph, [default])
    _set(graph, default, RDF.type, [SD.Graph])
    for name in islice(named_graphs, _NAMED_GRAPHS_MAX):
        named = BNode()
        _set(graph, dataset, SD.namedGraph, [named])
        _set(graph, named, RDF.type, [SD.NamedGraph])
        _set(graph, named, SD.name, [name])


def _set(graph: Graph, subject: Node, predicate: Node, values: Iterable[Node]) -> None:
    for value in values:
        graph.add((subject, predicate, value))
