"""Derived graphs: the latest answer of a registered CONSTRUCT, as a named graph that is asked once.

    SELECT ?s { GRAPH <http://ex/busy> { ?s ?p ?o } }      the query <http://ex/busy>, as its stream has it by then

Which emission that is, the snapshot says: the last that the query's stream has taken. It is no graph of the store: a
question that names it, or asks for all of them, is given it as the content of a window."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from hbase_store import Store
from hbase_store.terms import iri
from stream_ext.catalog import Catalog, QueryDefinition
from stream_ext.derived import taken_of
from stream_ext.emission import EmissionBody, columns_of, decode_body
from stream_ext.errors import Gone
from stream_ext.evaluate import Graph, evaluate
from stream_ext.plan.algebra import R2S, Query
from stream_ext.plan.algebra import Graph as GraphPattern
from stream_ext.plan.terms import Constant, Variable
from stream_ext.plan.walk import query_parts, walk
from stream_ext.rerun import Rerun
from stream_ext.shard import query_of, windows_of

#: The origin of a query's closes, where its first push decided it.
Origin = Callable[[int], int | None]


def graphs_for(store: Store, catalog: Catalog, origin: Origin, query: Query, sn: int) -> tuple[Graph, ...]:
    """Those that a question may mean, at this snapshot."""
    found = [_graph_of(store, catalog, origin, each, sn) for each in asked_of(catalog, query)]
    return tuple(graph for graph in found if graph is not None)


def asked_of(catalog: Catalog, query: Query) -> Iterator[QueryDefinition]:
    """The queries whose answers it names as graphs, or ranges over."""
    if not catalog.deriving:
        return
    names = {clause.graph for clause in query.shape.graphs}
    nodes = {node.graph for part in query_parts(query) for node in walk(part) if isinstance(node, GraphPattern)}
    all_of_them = not query.shape.graphs and any(isinstance(node, Variable) for node in nodes)
    for definition in catalog.deriving:
        if all_of_them or Constant(iri(definition.iri)) in names | nodes:
            yield definition


def _graph_of(store: Store, catalog: Catalog, origin: Origin, definition: QueryDefinition, sn: int) -> Graph | None:
    """None: there is no triple in it."""
    number = taken_of(store.vts(sn).get(definition.output or 0), definition.number)
    row = next(store.emissions.read(definition.number, number - 1, 1), None) if number else None
    if row is None and not number:
        return None
    if row is None or row.number != number:
        raise Gone(f"the answer of {definition.name!r} at snapshot {sn} is not kept any more; ask at a later one")
    body = decode_body(row.body)
    if definition.r2s == R2S.RSTREAM.value:
        found = Graph(Constant(iri(definition.iri)), body.terms, columns_of(body))
    else:
        found = _asked_again(store, catalog, origin(definition.number), definition, body, sn)
    return found if len(found.triples[0]) else None


def _asked_again(
    store: Store, catalog: Catalog, t0: int | None, definition: QueryDefinition, body: EmissionBody, sn: int
) -> Graph:
    query = query_of(definition.text, definition.base)
    if not query.windows:  # it is silent where nothing came, or went
        answer = evaluate(store, query, sn)
    else:
        answer = Rerun(definition, query, windows_of(query, catalog, t0), store).answer(body)
    assert answer.graph is not None, "a CONSTRUCT makes a graph"
    ids, places = np.unique(np.concatenate(answer.graph), return_inverse=True)
    texts = answer.vocabulary.decode(ids) if len(ids) else []
    return Graph(Constant(iri(definition.iri)), texts, np.split(places.reshape(-1).astype(np.int32), 3))
