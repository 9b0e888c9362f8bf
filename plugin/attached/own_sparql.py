"""Queries and updates given to a store that evaluates SPARQL itself, as rdflib's Graph gives them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rdflib import Graph
from rdflib.graph import DATASET_DEFAULT_GRAPH_ID
from rdflib.plugins.stores.sparqlstore import SPARQLStore
from rdflib.query import Result
from rdflib.term import Identifier

from plugin.attached.quads import default_graph

Namespaces = Mapping[str, Any]
Bindings = Mapping[str, Identifier]


def queried_by_store(
    graph: Graph, text: str, namespaces: Namespaces, bindings: Bindings | None = None
) -> Result | None:
    """The store's answer; None: rdflib's evaluator has to answer."""
    try:
        return graph.store.query(text, namespaces, bindings or {}, _queried(graph))
    except NotImplementedError:
        return None


def updated_by_store(graph: Graph, text: str, namespaces: Namespaces, bindings: Bindings | None = None) -> bool:
    """Whether the store has done it; False: rdflib's evaluator has to do it."""
    try:
        graph.store.update(text, namespaces, bindings or {}, _queried(graph))
    except NotImplementedError:
        return False
    return True


def _queried(graph: Graph) -> Any:
    """What rdflib calls the default graph of a query over this graph.

    rdflib's client of servers would take the default graph of a Dataset for a named one of the server."""
    name = default_graph(graph).identifier
    if isinstance(getattr(graph.store, "inner", graph.store), SPARQLStore) and name == DATASET_DEFAULT_GRAPH_ID:
        return None
    return "__UNION__" if graph.default_union else name
