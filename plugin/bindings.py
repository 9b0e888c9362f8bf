"""initBindings and the queried graph of rdflib, written into the algebra of a query or an update.

    { ?s :p ?o FILTER(?o != ?x) }    with s = :a, x = 1
    =>  (s x) = (:a 1)  joined with  { (s) = (:a) joined with :a :p ?o  FILTER(?o != 1) }

A bound variable is replaced by its value in every pattern and condition, sub-SELECTs and EXISTS too, and is bound in
every solution. If rdflib queries a single graph, this graph is the default graph of the text; named graphs stay."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from msgspec import structs

from stream_ext.language.algebra.algebra import (
    Assigned,
    Bgp,
    Extend,
    Form,
    Graph,
    GraphClause,
    InAnyWindow,
    Join,
    Pattern,
    QuadPattern,
    Query,
    SubSelect,
    Values,
)
from stream_ext.language.algebra.quads import pattern_of
from stream_ext.language.algebra.replace_parts import rebuilt
from stream_ext.language.algebra.statements import (
    DeleteData,
    DeleteWhere,
    InsertData,
    Load,
    Manage,
    Modify,
    Operation,
    Transfer,
    Unit,
    Update,
    Whole,
)
from stream_ext.language.algebra.terms import Constant, Node, Position, Variable
from stream_ext.language.algebra.walk import template_of, walk

_NOWHERE = Position(1, 1)
Bound = Mapping[str, Constant]


@dataclass(frozen=True, slots=True)
class BoundDataset:
    """The bindings and the dataset of one query or update.

    `graph`: the default graph (None: that of the store). `union`: the default graph is the union of all graphs.
    `names` returns the named graphs of the store."""

    bindings: Bound = field(default_factory=dict)
    graph: Constant | None = None
    union: bool = False
    names: Callable[[], Sequence[Constant]] = tuple

    def over(self, unit: Unit) -> Unit:
        if isinstance(unit, Query):
            return self.of_query(unit)
        return self.of_update(unit) if isinstance(unit, Update) else unit

    def of_query(self, query: Query) -> Query:
        query = self._with_dataset(query)
        return bind_query(query, self.bindings) if self.bindings else query

    def of_update(self, update: Update) -> Update:
        return Update(tuple(map(self._operation, update.operations)))

    # ---- the queried graph

    def _with_dataset(self, query: Query) -> Query:
        """The query over `graph` or the union; a query with FROM clauses of its own stays as it is."""
        if query.shape.graphs or (self.graph is None and not self.union):
            return query
        return replace(query, shape=replace(query.shape, graphs=self._clauses([query.pattern])))

    def _clauses(self, patterns: Iterable[Pattern]) -> tuple[GraphClause, ...]:
        """FROM and FROM NAMED; of the named graphs only those that the patterns can reach."""
        default: list[Constant | None] = [None, *self.names()] if self.union else [self.graph]
        in_text: list[Node] = [node.graph for pattern in patterns for node in walk(pattern) if isinstance(node, Graph)]
        open_to_all = any(isinstance(node, Variable) for node in in_text)
        named = self.names() if open_to_all else [node for node in in_text if isinstance(node, Constant)]
        return (
            *(GraphClause(graph, False, "FROM", _NOWHERE) for graph in default),
            *(GraphClause(graph, True, "FROM NAMED", _NOWHERE) for graph in dict.fromkeys(named)),
        )

    # ---- updates: they write into `graph`; if the union is queried, into the default graph

    def _operation(self, operation: Operation) -> Operation:
        match operation:
            case InsertData(quads) | DeleteData(quads):
                return replace(
                    operation, quads=tuple(structs.replace(quad, graph=quad.graph or self.graph) for quad in quads)
                )
            case DeleteWhere(quads, position):
                if self.union:
                    return self._modify(Modify(None, quads, None, (), pattern_of(quads, position), position))
                return DeleteWhere(self._templates(quads) or (), position)
            case Modify():
                return self._modify(operation)
            case Load():
                return replace(operation, into=operation.into or self.graph)
            case Manage():
                mine = operation.target is Whole.DEFAULT and self.graph is not None
                return replace(operation, target=self.graph) if mine else operation  # type: ignore[arg-type]  # mine says so
            case Transfer(_, source, target):
                return replace(operation, source=source or self.graph, target=target or self.graph)

    def _modify(self, operation: Modify) -> Modify:
        pattern = bind_pattern(operation.pattern, self.bindings) if self.bindings else operation.pattern
        using = operation.using
        if not using and operation.graph is None and (self.union or self.graph is not None):
            using = self._clauses([operation.pattern])
        into = operation.graph is None  # WITH names the graph of templates that name none
        instantiate = self._templates if into else self._substituted
        deletes, inserts = instantiate(operation.deletes), instantiate(operation.inserts)
        return replace(operation, deletes=deletes, inserts=inserts, using=using, pattern=pattern)

    def _templates(self, quads: Sequence[QuadPattern] | None) -> tuple[QuadPattern, ...] | None:
        bound = self._substituted(quads)
        return None if bound is None else tuple(structs.replace(quad, graph=quad.graph or self.graph) for quad in bound)

    def _substituted(self, quads: Sequence[QuadPattern] | None) -> tuple[QuadPattern, ...] | None:
        return None if quads is None else tuple(substitute(quad, self.bindings) for quad in quads)


# ---- values of variables ---------------------------------------------------------------------------------------


def bind_query(query: Query, bound: Bound) -> Query:
    shape = query.shape
    if query.form is Form.CONSTRUCT and shape.template is None:
        shape = replace(shape, template=template_of(query))  # CONSTRUCT WHERE: the pattern as it was written
    return replace(query, pattern=bind_pattern(query.pattern, bound), shape=shape)


def bind_pattern(pattern: Pattern, bound: Bound) -> Pattern:
    def by(part: Any) -> Any:
        return _bound(part, bound, by)

    return Join(_table(bound, bound), rebuilt(pattern, by))


def _bound(part: Any, bound: Bound, by: Callable[[Any], Any]) -> Any:
    """The replacement of a part; None: the part stays, and its own parts are looked at."""
    match part:
        case Bgp():
            named = _named(part, bound)
            return Join(_table(named, bound), substitute(part, bound)) if named else part
        case Graph(Variable(name), inner) if name in bound:
            return Join(_table([name], bound), replace(part, graph=bound[name], inner=rebuilt(inner, by)))
        case Variable(name) if name in bound and not part.hidden:
            return bound[name]
        case SubSelect(query):
            return replace(part, query=bind_query(query, bound))
        case Extend() | Values() | Assigned() | InAnyWindow():
            # These bind a variable themselves and stay; the join with the table retains the solutions that agree.
            return None
        case _:
            return None


def substitute(part: Any, bound: Bound) -> Any:
    """Replaces the bound variables by their values; adds no join."""

    def by(each: Any) -> Any:
        if isinstance(each, Variable) and not each.hidden:
            return bound.get(each.name)
        return None

    return rebuilt(part, by)


def _named(bgp: Bgp, bound: Bound) -> list[str]:
    triples = [node for each in bgp.patterns for node in (each.subject, each.predicate, each.object)]
    paths = [node for each in bgp.paths for node in (each.subject, each.object)]
    variables = [node for node in (*triples, *paths) if isinstance(node, Variable) and not node.hidden]
    return list(dict.fromkeys(variable.name for variable in variables if variable.name in bound))


def _table(names: Iterable[str], bound: Bound) -> Values:
    names = tuple(names)
    return Values(names, (tuple(bound[name] for name in names),), _NOWHERE)
