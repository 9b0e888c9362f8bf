"""Windows of a one-shot query, for rdflib's evaluator, which knows none: each is a named graph.

    FROM NAMED WINDOW :w ON STREAM taxis [RANGE 10s]  WHERE { WINDOW :w { ?taxi :in ?zone } }
    =>  WHERE { GRAPH :w { ?taxi :in ?zone } }

The graph has the content of the window at a time, as our engine finds it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from rdflib import Dataset, URIRef

from plugin.sharing import shared
from plugin.sparql import SparqlRequest
from plugin.terms import to_node
from stream_ext.language.algebra.algebra import PLAIN, Bgp, Form, InWindow, Query, TriplePattern
from stream_ext.language.algebra.terms import Position, Variable
from stream_ext.language.printing import to_canonical
from stream_ext.language.syntax import parse
from stream_ext.service.service import Service

_NOWHERE = Position(1, 1)
_MAY_HAVE = re.compile(r"\b(?:WINDOW|STREAM)\b", re.IGNORECASE)
_NAMES = ("s", "p", "o")


def windowed_query(text: str, namespaces: Mapping[str, Any], base: str) -> Query | None:
    """The query, if it has windows. None: it has none, or is for rdflib's parser alone."""
    if not _MAY_HAVE.search(text):
        return None
    head, text = SparqlRequest(text, namespaces, {}, None, False).head_and_text()
    unit = parse(head + text, base)
    return unit if isinstance(unit, Query) and unit.windows else None


def window_graphs(query: Query, service: Service, at: int | None) -> Dataset:
    """The graphs that the windows of the query are, as `to_sparql` names them."""
    labels, contents = shared.attach(service).labels, Dataset()
    s, p, o = map(Variable, _NAMES)
    triple = TriplePattern(s, p, o, _NOWHERE)
    for window in query.windows:
        inner = InWindow(window.name, Bgp((triple,)))
        selecting = replace(
            query, form=Form.SELECT, pattern=inner, variables=_NAMES, distinct=True, offset=0, limit=None,
            windows=(window,), shape=PLAIN,
        )  # fmt: skip
        graph = contents.graph(URIRef(window.name))
        for subject, predicate, object in service.decode(service.query(to_canonical(selecting), at=at)):
            assert subject is not None and predicate is not None and object is not None, "a pattern binds all three"
            graph.add((to_node(subject, labels), to_node(predicate, labels), to_node(object, labels)))
    return contents
