"""Exclusive parts: which parts of a query are sent to the source `main`, whose data are one dataset with our own.

    { ?s :p ?o . ?o :q ?z . ?z :r ?w  OPTIONAL { ?s :t ?u } }     where our own store has edges of :r only

    =>  sent as a group     ?s :p ?o . ?o :q ?z        and with it, where it follows at once, OPTIONAL { ?s :t ?u }
        looked for in both  ?z :r ?w                   as a set: what both have is found once

A part is *exclusive* to the source if our own store has nothing that matches any of its patterns; that is counted, at
the snapshot that is read. What is exclusive as a whole is sent as it is written: OPTIONAL, MINUS, EXISTS, GROUP BY and
sub-SELECTs are sent whole or not at all, expressions only if all engines mean them alike. Everything else is looked for
pattern by pattern. Paths of length zero, negated property sets and empty groups under GRAPH have solutions from nodes
and graphs that no pattern matches, so they are exclusive only while our own store is empty.

The normaliser asks for each part, as it alone knows where a part looks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from hashlib import blake2s
from typing import Any

from stream_ext.language.algebra.algebra import (
    Bgp,
    Extend,
    Filter,
    Form,
    Graph,
    Join,
    LeftJoin,
    Minus,
    PathPattern,
    Pattern,
    Query,
    Shape,
    SubSelect,
    TriplePattern,
    Union,
    Values,
)
from stream_ext.language.algebra.formulas import (
    Exists,
    Expression,
    PathRepeat,
)
from stream_ext.language.algebra.replace_parts import rebuilt
from stream_ext.language.algebra.terms import Constant, Node, Position, Variable, has_name
from stream_ext.language.algebra.walk import walk
from stream_ext.plan.logic import (
    DEFAULT_GRAPH,
    GraphNames,
    GraphScope,
    Names,
    PathSource,
    PatternScan,
    Remote,
    SourceGroup,
)
from stream_ext.plan.places import dataset
from stream_ext.plan.sources.not_sent import (
    NotSent,
    all_of,
    as_select,
    check_empty_paths,
    check_without_minus,
    check_written,
    equal_to,
    is_read_otherwise,
    may_send_condition,
    never_matches,
)
from stream_ext.plan.sources.portable_expressions import is_condition_alike, is_value_alike
from stream_ext.plan.sources.shapes import (
    NOWHERE_IN_TEXT,
    Binds,
    differs_by_engine,
    distinct,
    guess,
    has_triples,
    has_zero_steps,
    is_connected,
    may_be_empty,
    needs_triple,
    predicates_of,
    with_its_start,
    with_named_nodes,
    within,
)
from stream_ext.remote.source import MAIN, SourceTraits

#: Whether our own store has a quad for a triple pattern, in such a graph.
Holds = Callable[[Node, Node, Node, GraphScope], bool]

SERVICE = Constant(f"<{MAIN}>".encode())

_S, _P, _O = Variable("s"), Variable("p"), Variable("o")
_ANYTHING = TriplePattern(Variable(".s"), Variable(".p"), Variable(".o"), NOWHERE_IN_TEXT)
#: About how many triples a source has for a pattern that our own store has triples for.
_FEW = 100.0
#: No variable of a text has a dot.
_GRAPH, _VALUE = ".graph", ".value"


@dataclass(frozen=True, slots=True)
class Attached:
    """What the normaliser knows of the source. `listed`: the graphs of FROM NAMED, if the query has a dataset; `given`:
    graphs that are not in the store, but made for the query."""

    traits: SourceTraits
    holds: Holds
    listed: tuple[Constant, ...] | None = None
    given: frozenset[Node] = frozenset()

    # ---- leaves

    def scan(self, node: PatternScan) -> tuple[PatternScan | Remote, ...]:
        """One triple pattern over both: what is looked for here, and what is asked for."""
        pattern = TriplePattern(node.subject, node.predicate, node.object, NOWHERE_IN_TEXT)
        here = self.holds(node.subject, node.predicate, node.object, node.graph)
        exact, general = self._exact(pattern)
        inner = None if never_matches(pattern, self.traits) else self.triples(general, node.graph)
        if inner is None:
            return (node,)
        for name, constant in exact:
            inner = equal_to(name, constant, inner, self.traits)
        unless = node if here else None
        # What our own store has is mostly there alone.
        about = min(guess(pattern), _FEW) if here else guess(pattern)
        group = SourceGroup(node.variables, node.graph, unless, guess=about, exact=exact)
        remote = self._remote(inner, node.variables, group)
        return (node, remote) if here else (remote,)

    def _exact(self, pattern: TriplePattern) -> tuple[tuple[tuple[str, Constant], ...], TriplePattern]:
        """With a variable for an object that the source may take for other terms: what it finds says which."""
        constant = pattern.object
        if not (isinstance(constant, Constant) and is_read_otherwise(constant, self.traits)):
            return (), pattern
        name = f"{_VALUE}{blake2s(constant.text, digest_size=4).hexdigest()}"
        return ((name, constant),), replace(pattern, object=Variable(name))

    def path(self, node: PathSource) -> PathSource | Remote:
        """A path that is followed over both, or by the source."""
        if node.merged:
            return replace(node, edges=self._edges(node))
        pattern = PathPattern(node.subject, node.path, node.object, NOWHERE_IN_TEXT)
        try:
            inner = self._sent(Bgp((), (pattern,)), node.graph)
            return self._remote(inner, node.variables, SourceGroup(node.variables, node.graph))
        except NotSent:
            return replace(node, edges=self._edges(node))

    def _edges(self, node: PathSource) -> Remote | None:
        """The triples that the path may take, and of one with zero steps all, for each of their ends is a solution."""
        triple = TriplePattern(_S, _P, _O, NOWHERE_IN_TEXT)
        inner = self.triples(triple, node.graph)
        if inner is None:
            return None
        predicates = predicates_of(node.path)
        if predicates is not None and not may_be_empty(node.path):
            rows = tuple((predicate,) for predicate in dict.fromkeys(predicates))
            inner = Join(Values(("p",), rows, NOWHERE_IN_TEXT), inner)
        names = frozenset("spo") | ({node.graph.variable} if node.graph.variable is not None else frozenset())
        return self._remote(inner, names, SourceGroup(names, node.graph))

    def graphs(self, node: GraphNames) -> Remote | None:
        """The graphs of the source, without those of our own store; None: it has none of these."""
        inner = self.triples(_ANYTHING, node.graph)
        if inner is None:
            return None
        names = tuple(sorted(node.variables))
        shape = Query(Form.SELECT, inner, names, True, 0, None if names else 1, (), None)
        group = SourceGroup(node.variables, node.graph, node)
        return self._remote(SubSelect(shape, NOWHERE_IN_TEXT), node.variables, group)

    # ---- whole parts

    def whole(self, pattern: Pattern, scope: GraphScope, binds: Binds) -> Remote | None:
        """The pattern, if it is sent as it is; None: its parts are looked at one by one."""
        if isinstance(pattern, Bgp | Values) or not has_triples(pattern):
            return None
        if isinstance(pattern, Join) and not is_connected(pattern, binds):
            return None
        try:
            inner = self._sent(pattern, scope)
        except NotSent:
            return None
        # What stands between the steps of a path has a name in the plan only: the source is asked for the path.
        certain, variables = (frozenset(filter(has_name, names)) for names in binds(pattern))
        graph = frozenset() if scope.variable is None else frozenset({scope.variable})
        about = min((guess(t) for part in walk(pattern) if isinstance(part, Bgp) for t in part.patterns), default=1e3)
        group = SourceGroup(certain | graph, scope if needs_triple(pattern) else None, guess=about)
        return self._remote(inner, variables | graph, group)

    def whole_query(self, query: Query, binds: Binds) -> Query | None:
        """The SELECT that is asked of the source in place of a query; None: it is not exclusive.

        For ASK it is whether there is a row, for CONSTRUCT and DESCRIBE the rows that they are made of."""
        of = dataset(query.shape.graphs, False)
        try:
            return replace(self, listed=of.listed)._query(as_select(query, binds), of.default, top=True)
        except NotSent:
            return None

    def query(self, sent: Query) -> Remote:
        """What asks for a whole query (`whole_query`)."""
        names = frozenset(sent.variables)
        return self._remote(SubSelect(sent, NOWHERE_IN_TEXT), names, SourceGroup(frozenset()))

    def _remote(self, inner: Pattern, variables: Names, group: SourceGroup) -> Remote:
        group = replace(group, traits=self.traits)
        return Remote(SERVICE, with_named_nodes(inner), variables, False, NOWHERE_IN_TEXT, group=group)

    # ---- patterns

    def _sent(self, pattern: Pattern, scope: GraphScope) -> Pattern:
        """The pattern as the source is asked for it. Raises NotSent."""
        if scope.graphs == () and scope.node is not None:
            raise NotSent  # FROM NAMED does not name the graph
        inside = self._inside(pattern, scope)
        if scope.node is None:
            return inside
        if not needs_triple(pattern):
            raise NotSent
        return within(scope, inside)

    def _inside(self, pattern: Pattern, scope: GraphScope) -> Pattern:
        """The pattern inside of its GRAPH, if it has one."""
        match pattern:
            case Bgp():
                return self._bgp(pattern, scope)
            case Join(left, right):
                return Join(self._inside(left, scope), self._inside(right, scope))
            case Union(parts, position):
                return Union(tuple(self._inside(part, scope) for part in parts), position)
            case LeftJoin(left, right, condition, position):
                check_without_minus(right)
                inner = self._inside(left, scope), self._inside(right, scope)
                sent = None if condition is None else self._condition(condition, scope)
                return LeftJoin(*inner, sent, position)
            case Minus(left, right, position):
                if isinstance(scope.node, Variable):
                    raise NotSent  # some engines take the name of the graph for a variable that both sides share
                return Minus(self._inside(left, scope), self._inside(right, scope), position)
            case Filter(condition, inner):
                return Filter(self._condition(condition, scope), self._inside(inner, scope))
            case Extend(inner, variable, expression, position):
                return Extend(self._inside(inner, scope), variable, self._value(expression), position)
            case Values():
                return self._table(pattern)
            case Graph(node, inner, position):
                return self._graph(node, inner, position)
            case SubSelect(query, position):
                if isinstance(scope.node, Variable):
                    raise NotSent  # some engines look for it in other graphs than for what is beside it
                return SubSelect(self._query(query, scope, top=False), position)
            case _:
                raise NotSent  # a window, or SERVICE

    def _graph(self, node: Node, inner: Pattern, position: Position) -> Pattern:
        if not needs_triple(inner) or (self.given and (isinstance(node, Variable) or node in self.given)):
            raise NotSent
        if isinstance(node, Constant):
            if self.listed is not None and node not in self.listed:
                raise NotSent
            return Graph(node, self._inside(inner, GraphScope(node)), position)
        scope = GraphScope(node, self.listed)
        return within(scope, self._inside(inner, scope))

    def _bgp(self, pattern: Bgp, scope: GraphScope) -> Pattern:
        for triple in pattern.patterns:
            check_written((triple.object,), self.traits)
            if self.holds(triple.subject, triple.predicate, triple.object, scope):
                raise NotSent
        for path in pattern.paths:
            self._check_path(path, scope)
        if scope.node is None and scope.graphs is None and not scope.everything:
            return self._of_default(pattern)
        check_empty_paths(pattern, scope)
        if scope.node is not None or not (pattern.patterns or pattern.paths):
            return pattern
        if scope.graphs is not None and len(scope.graphs) == 1 and scope.graphs != (DEFAULT_GRAPH,):
            return Graph(scope.graphs[0], pattern)
        if pattern.paths:
            raise NotSent  # it may lead from one graph to another
        return all_of(self.triples(triple, scope) for triple in pattern.patterns)

    def _of_default(self, pattern: Bgp) -> Pattern:
        """A pattern of the default graph. Some engines find the start of a path of no steps only if the graph has this
        term, so such paths are joined to the others with their start."""
        if not (pattern.patterns or pattern.paths):
            return pattern
        if self.traits.default == "empty":
            raise NotSent
        separate = [(path, found) for path in pattern.paths if (found := with_its_start(path)) is not None]
        rest = Bgp(pattern.patterns, tuple(path for path in pattern.paths if all(path is not p for p, _ in separate)))
        check_empty_paths(rest, GraphScope())
        sent: Pattern | None = None
        if rest.patterns or rest.paths:
            sent = self._once(rest) if self.traits.repeats else rest
        return all_of([*([sent] if sent is not None else []), *(found for _, found in separate)])

    def _once(self, pattern: Bgp) -> Pattern:
        """The solutions as a set: the source finds a triple as often as its graphs have it."""
        if any(not isinstance(path.path, PathRepeat) for path in pattern.paths):
            raise NotSent
        return distinct(pattern)

    def triples(self, triple: TriplePattern, scope: GraphScope) -> Pattern | None:
        """One triple pattern where it looks, as a set; None: nowhere."""
        bgp = Bgp((triple,))
        if scope.node is not None:
            return None if scope.graphs == () else within(scope, bgp)
        default = None if self.traits.default == "empty" else distinct(bgp) if self.traits.repeats else bgp
        if scope.everything:
            anywhere = Graph(Variable(_GRAPH), bgp)
            return distinct(anywhere if default is None else Union((default, anywhere), NOWHERE_IN_TEXT))
        if scope.graphs is None:
            return default
        graphs = tuple(graph for graph in scope.graphs if graph != DEFAULT_GRAPH)
        parts: list[Pattern] = []
        if len(graphs) < len(scope.graphs) and default is not None:
            parts.append(default)
        if graphs:
            parts.append(within(GraphScope(Variable(_GRAPH), graphs), bgp))
        if not parts:
            return None
        return distinct(parts[0] if len(parts) == 1 else Union(tuple(parts), NOWHERE_IN_TEXT))

    def _table(self, values: Values) -> Values:
        """A term that it would write in another way joins with other terms there than here."""
        for row in values.rows:
            check_written(row, self.traits)
        return values

    # ---- paths

    def _check_path(self, pattern: PathPattern, scope: GraphScope) -> None:
        """NotSent for a path that our own store may take a step of, or be a node of."""
        check_written((pattern.subject, pattern.object), self.traits)
        predicates = predicates_of(pattern.path)
        if differs_by_engine(pattern.path):
            raise NotSent
        if predicates is None or may_be_empty(pattern.path) or has_zero_steps(pattern.path):
            if self.holds(_S, _P, _O, scope):
                raise NotSent
            return
        if any(self.holds(_S, predicate, _O, scope) for predicate in predicates):
            raise NotSent

    # ---- expressions

    def _condition(self, condition: Expression, scope: GraphScope) -> Expression:
        if not may_send_condition(condition, self.traits):
            raise NotSent
        sent: dict[int, Pattern] = {}

        def sendable(pattern: Pattern) -> bool:
            check_without_minus(pattern)
            if not needs_triple(pattern) and scope.node is not None:
                return False
            sent[id(pattern)] = self._inside(pattern, scope)
            return True

        if not is_condition_alike(condition, sendable):
            raise NotSent

        def by(part: Any) -> Any:
            return replace(part, pattern=sent[id(part.pattern)]) if isinstance(part, Exists) else None

        return rebuilt(condition, by) if sent else condition

    def _value(self, expression: Expression) -> Expression:
        if not is_value_alike(expression):
            raise NotSent
        check_written([expression], self.traits)
        return expression

    # ---- queries

    def _query(self, query: Query, scope: GraphScope, top: bool) -> Query:
        """`top`: the query as a whole, which alone is ordered and cut there."""
        shape = query.shape
        is_cut = query.limit is not None or query.offset
        if query.windows or ((is_cut or shape.order_by) and not top) or not has_triples(query.pattern):
            raise NotSent
        pattern = self._inside(query.pattern, scope)
        for each in (*shape.expressions, *shape.group_by):
            self._value(each.expression)
        for ordering in shape.order_by:
            self._value(ordering.expression)
        if shape.values is not None:
            self._table(shape.values)
        having = tuple(self._condition(each, scope) for each in shape.having)
        rest = Shape(
            reduced=False, expressions=shape.expressions, group_by=shape.group_by, having=having,
            order_by=shape.order_by, values=shape.values, places=shape.places,
        )  # fmt: skip
        return replace(query, pattern=pattern, shape=rest)
