"""Queries and updates given to a store that evaluates SPARQL itself, as rdflib's Graph gives them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rdflib import Graph
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


def _queried(graph: Graph) -> str:
    """What rdflib calls the default graph of a query over this graph."""
    return "__UNION__" if graph.default_union else default_graph(graph).identifier
