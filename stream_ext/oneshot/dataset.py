"""The dataset that a request names beside its text: it goes before the one that the text names.

    ?query=ASK FROM <a> { ... }&default-graph-uri=b      =>      ASK FROM <b> { ... }
    ?update=DELETE { ... } WHERE { ... }&using-graph-uri=b   =>      DELETE { ... } USING <b> WHERE { ... }

An update whose text says USING or WITH takes no other, as the SPARQL Protocol wants it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

from hbase_store.layout.terms import iri
from stream_ext.errors import BadArgument
from stream_ext.language.algebra.algebra import Constant, GraphClause, Position, Query
from stream_ext.language.algebra.quads import pattern_of
from stream_ext.language.algebra.statements import DeleteWhere, Modify, Operation, Unit, Update
from stream_ext.rdf.iris import is_absolute


class DatasetOverride(Protocol):
    """What a request adds to a text, and changes its meaning."""

    def over(self, unit: Unit) -> Unit: ...


@dataclass(frozen=True, slots=True)
class Dataset:
    """IRIs of the graphs that are together the default graph, and of those that GRAPH finds."""

    default: tuple[str, ...] = ()
    named: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.default or self.named)

    def over(self, unit: Unit) -> Unit:
        return chosen(unit, self)

    def clauses(self, parameters: tuple[str, str]) -> tuple[GraphClause, ...]:
        """The graphs as clauses of FROM or USING; `parameters`: the names of the two parameters of the request."""
        return tuple(
            GraphClause(Constant(_term(graph, called)), called is parameters[1], f"{called}=", Position(1, 1))
            for called, graphs in zip(parameters, (self.default, self.named), strict=True)
            for graph in graphs
        )


OF_QUERY = ("default-graph-uri", "named-graph-uri")
OF_UPDATE = ("using-graph-uri", "using-named-graph-uri")


def _term(graph: str, parameter: str) -> bytes:
    term = iri(graph)
    if not is_absolute(graph) or b"\\" in term:
        raise BadArgument(f"{parameter}={graph[:200]}: the name of a graph must be an absolute IRI")
    return term


def chosen(unit: Unit, dataset: Dataset) -> Unit:
    """`unit` over another dataset."""
    if isinstance(unit, Query):
        return replace(unit, shape=replace(unit.shape, graphs=dataset.clauses(OF_QUERY)))
    if isinstance(unit, Update):
        clauses = dataset.clauses(OF_UPDATE)
        return Update(tuple(_using(operation, clauses) for operation in unit.operations))
    raise BadArgument("dataset parameters belong to a query or an update; this is neither")


def _using(operation: Operation, clauses: tuple[GraphClause, ...]) -> Operation:
    if isinstance(operation, DeleteWhere):
        pattern = pattern_of(operation.quads, operation.position)
        return Modify(None, operation.quads, None, clauses, pattern, operation.position)
    if not isinstance(operation, Modify):
        return operation
    if operation.using or operation.graph is not None:
        word = "USING" if operation.using else "WITH"
        raise BadArgument(
            f"{OF_UPDATE[0]}= and {OF_UPDATE[1]}= cannot be combined with {word} in the text: name the "
            "graphs in one place"
        )
    return replace(operation, using=clauses)
