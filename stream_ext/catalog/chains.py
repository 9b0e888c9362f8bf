"""Chains: queries that read the output of other queries; a cycle of them would never end.

    q CONSTRUCTs stream q  -->  r reads a window on q, CONSTRUCTs stream r  -->  ...

The triples that a stream absorbs are in the store, so every query that reads the store reads them."""

from __future__ import annotations

from stream_ext.catalog.catalog import Catalog, QueryDefinition
from stream_ext.catalog.registered_text import query_of
from stream_ext.errors import BadArgument
from stream_ext.language.algebra.algebra import Query
from stream_ext.plan.logic import GraphNames, PathSource, PatternScan, sources_of
from stream_ext.plan.pipeline import logic_of


def reads_store(query: Query) -> bool:
    """Whether any of the query's patterns reads a graph of the store."""
    return any(_is_in_store(leaf) for leaf in sources_of(logic_of(query)))


def _is_in_store(leaf: object) -> bool:
    match leaf:
        case (
            PatternScan(graph=graph, window=None)
            | PathSource(graph=graph, window=None)
            | GraphNames(graph, window=None)
        ):
            return graph.graphs != ()
        case _:
            return False


def check_ends(catalog: Catalog, query: QueryDefinition) -> None:
    """Rejects a query that would read its own output. The catalog has the query and its stream already."""
    ways: list[tuple[QueryDefinition, ...]] = [(query,)]
    met: set[int] = set()
    while ways:
        way = ways.pop()
        for reader in _readers(catalog, way[-1]):
            if reader.number == query.number:
                names = " -> ".join(each.name for each in (*way, query))
                raise BadArgument(
                    f"query {query.name!r} would read its own output ({names}) and never end; let it read another "
                    "stream or graph"
                )
            if reader.number not in met:
                met.add(reader.number)
                ways.append((*way, reader))


def _readers(catalog: Catalog, query: QueryDefinition) -> list[QueryDefinition]:
    """The queries that read the output of this one."""
    if query.output is None:
        return []
    found = catalog.readers_of(query.output)
    if catalog.streams[query.output].options.timeless is False:
        return found
    return [
        *found,
        *(q for q in catalog.queries.values() if q not in found and reads_store(query_of(q.text, q.base))),
    ]
