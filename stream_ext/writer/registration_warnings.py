"""What is probably a slip of a registration: names that nothing in the store has yet."""

from __future__ import annotations

from collections.abc import Iterator

from hbase_store import NAMED
from stream_ext.catalog.catalog import Catalog, names_of
from stream_ext.catalog.held_patterns import patterns_of
from stream_ext.catalog.registered import Registered
from stream_ext.catalog.timing import key_of
from stream_ext.language.algebra.algebra import Query
from stream_ext.names import meant
from stream_ext.plan.logic import nodes_of
from stream_ext.writer.change import HeadView

#: So many predicates of the store are compared with one that none of its triples has.
_PREDICATES_COMPARED = 200


def empty_graphs(query: Query, view: HeadView) -> Iterator[str]:
    """Warnings for graphs of FROM without triples: the name may be mistyped."""
    for graph in dict.fromkeys(clause.graph for clause in query.shape.graphs if clause.graph is not None):
        id = int(view.store.ids([graph.text])[0])
        if not id or not len(view.store.at(view.head).predicates(id)):
            yield f"the graph {graph.text.decode()} has no triples yet"


def missing_streams(query: Query, catalog: Catalog, base: str) -> Iterator[str]:
    """Warnings for streams that do not exist: a registration creates them, but the name may be mistyped."""
    keys = dict.fromkeys(key_of(window) for window in query.windows if window.stream.variable is None)
    for key in keys:
        if catalog.find_stream(key) is None:
            name = names_of(key, base + "streams/").name
            near = stream_meant(catalog, key, name)
            yield f"there is no stream {name!r}{near}; registered, the query creates it, without elements"


def stream_meant(catalog: Catalog, key: str, name: str) -> str:
    """What a stream that does not exist may be instead. A window over a query without a stream would be empty for
    ever, though the name is right."""
    if catalog.find_query(key) is not None:
        return f" ({key!r} is a query, but only the output of a CONSTRUCT is a stream)"
    return meant(name, catalog.stream_names(), most=3)


def unseen_predicates(registered: Registered, view: HeadView) -> Iterator[str]:
    """Warnings for predicates of stored triples that no triple has had: the name may be mistyped. An attached store may
    have such triples."""
    if view.catalog.main is not None:
        return
    read = dict.fromkeys(
        pattern.predicate for node in nodes_of(registered.select) for pattern in patterns_of(node) if pattern.predicate
    )
    snapshot = view.store.at(view.head)
    for predicate, id in zip(read, view.store.ids(list(read)).tolist(), strict=True):
        if not id or not (snapshot.count(id) or snapshot.count(id, NAMED)):
            here = view.store.terms(snapshot.predicates()[:_PREDICATES_COMPARED])
            known = [term.decode() for term in here]
            yield f"no stored triple has the predicate {predicate.decode()} yet{meant(predicate.decode(), known)}"
