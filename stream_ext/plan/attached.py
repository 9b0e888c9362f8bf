"""Attached: which parts of a query the source main is asked for, whose data are one dataset with our own.

    { ?s :p ?o . ?o :q ?z . ?z :r ?w  OPTIONAL { ?s :t ?u } }     where our own store has edges of :r only

    =>  asked as a group    ?s :p ?o . ?o :q ?z        and with it, where it follows at once, OPTIONAL { ?s :t ?u }
        looked for in both  ?z :r ?w                   as a set: what both have is found once

A part is *exclusive* to the source if our own store has nothing that matches any of its patterns; that is counted, at
the snapshot that is read. What is exclusive as a whole is sent as it is written: OPTIONAL, MINUS, EXISTS, GROUP BY and
sub-SELECTs are sent whole or not at all, expressions only if all engines mean them alike. Everything else is looked for
pattern by pattern. Paths of length zero, negated property sets and empty groups under GRAPH have solutions from nodes
and graphs that no pattern matches, so they are exclusive only while our own store is empty.

The normaliser asks for each part, as it alone knows where a part looks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
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
    Path,
    PathAlternative,
    PathInverse,
    PathNegated,
    PathRepeat,
    PathSequence,
    Repeat,
)
from stream_ext.language.algebra.replace_parts import rebuilt
from stream_ext.language.algebra.terms import Constant, Node, Position, Variable, has_name
from stream_ext.language.algebra.walk import walk
from stream_ext.plan.alike import is_condition_alike, is_value_alike
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
from stream_ext.remote.source import MAIN, SourceTraits

#: Whether our own store has a quad for a triple pattern, in such a graph.
Holds = Callable[[Node, Node, Node, GraphScope], bool]
#: The variables that a pattern binds in each solution, and those that it may bind.
Binds = Callable[[Pattern], tuple[Names, Names]]

SERVICE = Constant(f"<{MAIN}>".encode())

_NOWHERE_IN_TEXT = Position(1, 1)
_S, _P, _O = Variable("s"), Variable("p"), Variable("o")
_ANYTHING = TriplePattern(Variable(".s"), Variable(".p"), Variable(".o"), _NOWHERE_IN_TEXT)
_TYPE = Constant(b"<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>")
_GRAPH = ".graph"  # no variable of a text has a dot


class _Stays(Exception):
    """A part is not sent as it is."""


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
        pattern = TriplePattern(node.subject, node.predicate, node.object, _NOWHERE_IN_TEXT)
        here = self.holds(node.subject, node.predicate, node.object, node.graph)
        inner = None if self._never_matches(pattern) else self.triples(pattern, node.graph)
        if inner is None:
            return (node,)
        unless = node if here else None
        group = SourceGroup(node.variables, node.graph, unless, guess=_guess(pattern))
        remote = self._remote(inner, node.variables, group)
        return (node, remote) if here else (remote,)

    def path(self, node: PathSource) -> PathSource | Remote:
        """A path that is followed over both, or by the source."""
        if node.merged:
            return replace(node, edges=self._edges(node))
        pattern = PathPattern(node.subject, node.path, node.object, _NOWHERE_IN_TEXT)
        try:
            inner = self._sent(Bgp((), (pattern,)), node.graph)
            return self._remote(inner, node.variables, SourceGroup(node.variables, node.graph))
        except _Stays:
            return replace(node, edges=self._edges(node))

    def _edges(self, node: PathSource) -> Remote | None:
        """The triples that the path may take, and of one with zero steps all, for each of their ends is a solution."""
        triple = TriplePattern(_S, _P, _O, _NOWHERE_IN_TEXT)
        inner = self.triples(triple, node.graph)
        if inner is None:
            return None
        predicates = _predicates(node.path)
        if predicates is not None and not _may_be_empty(node.path):
            rows = tuple((predicate,) for predicate in dict.fromkeys(predicates))
            inner = Join(Values(("p",), rows, _NOWHERE_IN_TEXT), inner)
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
        return self._remote(SubSelect(shape, _NOWHERE_IN_TEXT), node.variables, group)

    # ---- whole parts

    def whole(self, pattern: Pattern, scope: GraphScope, binds: Binds) -> Remote | None:
        """The pattern, if it is sent as it is; None: its parts are looked at one by one."""
        if isinstance(pattern, Bgp | Values) or not _has_triples(pattern):
            return None
        if isinstance(pattern, Join) and not _is_connected(pattern, binds):
            return None
        try:
            inner = self._sent(pattern, scope)
        except _Stays:
            return None
        certain, variables = binds(pattern)
        graph = frozenset() if scope.variable is None else frozenset({scope.variable})
        guess = min((_guess(t) for part in walk(pattern) if isinstance(part, Bgp) for t in part.patterns), default=1e3)
        group = SourceGroup(certain | graph, scope if _needs_triple(pattern) else None, guess=guess)
        return self._remote(inner, variables | graph, group)

    def whole_query(self, query: Query, binds: Binds) -> Query | None:
        """The SELECT that is asked of the source in place of a query; None: it is not exclusive.

        For ASK it is whether there is a row, for CONSTRUCT and DESCRIBE the rows that they are made of."""
        of = dataset(query.shape.graphs, False)
        try:
            return replace(self, listed=of.listed)._query(_as_select(query, binds), of.default, top=True)
        except _Stays:
            return None

    def query(self, sent: Query) -> Remote:
        """What asks for a whole query (`whole_query`)."""
        names = frozenset(sent.variables)
        return self._remote(SubSelect(sent, _NOWHERE_IN_TEXT), names, SourceGroup(frozenset()))

    def _remote(self, inner: Pattern, variables: Names, group: SourceGroup) -> Remote:
        return Remote(SERVICE, _named(inner), variables, False, _NOWHERE_IN_TEXT, group=group)

    # ---- patterns

    def _sent(self, pattern: Pattern, scope: GraphScope) -> Pattern:
        """The pattern as the source is asked for it. Raises _Stays."""
        inside = self._inside(pattern, scope)
        if scope.node is None:
            return inside
        if not _needs_triple(pattern):
            raise _Stays
        return _within(scope, inside)

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
                self._check_without_minus(right)
                inner = self._inside(left, scope), self._inside(right, scope)
                sent = None if condition is None else self._condition(condition, scope)
                return LeftJoin(*inner, sent, position)
            case Minus(left, right, position):
                return Minus(self._inside(left, scope), self._inside(right, scope), position)
            case Filter(condition, inner):
                return Filter(self._condition(condition, scope), self._inside(inner, scope))
            case Extend(inner, variable, expression, position):
                return Extend(self._inside(inner, scope), variable, self._value(expression), position)
            case Values():
                return pattern
            case Graph(node, inner, position):
                return self._graph(node, inner, position)
            case SubSelect(query, position):
                return SubSelect(self._query(query, scope, top=False), position)
            case _:
                raise _Stays  # a window, or SERVICE

    def _graph(self, node: Node, inner: Pattern, position: Position) -> Pattern:
        if not _needs_triple(inner) or (self.given and (isinstance(node, Variable) or node in self.given)):
            raise _Stays
        if isinstance(node, Constant):
            if self.listed is not None and node not in self.listed:
                raise _Stays
            return Graph(node, self._inside(inner, GraphScope(node)), position)
        scope = GraphScope(node, self.listed)
        return _within(scope, self._inside(inner, scope))

    def _bgp(self, pattern: Bgp, scope: GraphScope) -> Pattern:
        for triple in pattern.patterns:
            if self._never_matches(triple) or self.holds(triple.subject, triple.predicate, triple.object, scope):
                raise _Stays
        for path in pattern.paths:
            self._check_path(path, scope)
        if scope.node is not None or not (pattern.patterns or pattern.paths):
            return pattern
        if scope.graphs is None and not scope.everything:
            if self.traits.default == "empty":
                raise _Stays
            return self._once(pattern) if self.traits.repeats else pattern
        if scope.graphs is not None and len(scope.graphs) == 1 and scope.graphs != (DEFAULT_GRAPH,):
            return Graph(scope.graphs[0], pattern)
        if pattern.paths:
            raise _Stays  # it may lead from one graph to another
        return _all_of(self.triples(triple, scope) for triple in pattern.patterns)

    def _once(self, pattern: Bgp) -> Pattern:
        """The solutions as a set: the source finds a triple as often as its graphs have it."""
        if any(not isinstance(path.path, PathRepeat) for path in pattern.paths):
            raise _Stays
        return _distinct(pattern)

    def triples(self, triple: TriplePattern, scope: GraphScope) -> Pattern | None:
        """One triple pattern where it looks, as a set; None: nowhere."""
        bgp = Bgp((triple,))
        if scope.node is not None:
            return None if scope.graphs == () else _within(scope, bgp)
        default = None if self.traits.default == "empty" else _distinct(bgp) if self.traits.repeats else bgp
        if scope.everything:
            anywhere = Graph(Variable(_GRAPH), bgp)
            return _distinct(anywhere if default is None else Union((default, anywhere), _NOWHERE_IN_TEXT))
        if scope.graphs is None:
            return default
        graphs = tuple(graph for graph in scope.graphs if graph != DEFAULT_GRAPH)
        parts: list[Pattern] = []
        if len(graphs) < len(scope.graphs) and default is not None:
            parts.append(default)
        if graphs:
            parts.append(_within(GraphScope(Variable(_GRAPH), graphs), bgp))
        if not parts:
            return None
        return _distinct(parts[0] if len(parts) == 1 else Union(tuple(parts), _NOWHERE_IN_TEXT))

    def _never_matches(self, triple: TriplePattern) -> bool:
        """Whether the source cannot have such a term: it writes numbers, or languages, in another way."""
        if not isinstance(triple.object, Constant):
            return False
        text = triple.object.text
        if self.traits.lowers_languages and (tag := text.rpartition(b'"')[2]).startswith(b"@") and tag != tag.lower():
            return True
        return self.traits.canonical_numbers and _is_other_number(text)

    # ---- paths

    def _check_path(self, pattern: PathPattern, scope: GraphScope) -> None:
        """_Stays for a path that our own store may take a step of, or be a node of."""
        predicates = _predicates(pattern.path)
        if _differs_by_engine(pattern.path):
            raise _Stays
        if predicates is None or _may_be_empty(pattern.path) or _has_zero_steps(pattern.path):
            if self.holds(_S, _P, _O, scope):
                raise _Stays
            return
        if any(self.holds(_S, predicate, _O, scope) for predicate in predicates):
            raise _Stays

    # ---- expressions

    def _condition(self, condition: Expression, scope: GraphScope) -> Expression:
        sent: dict[int, Pattern] = {}

        def sendable(pattern: Pattern) -> bool:
            self._check_without_minus(pattern)
            if not _needs_triple(pattern) and scope.node is not None:
                return False
            sent[id(pattern)] = self._inside(pattern, scope)
            return True

        if not is_condition_alike(condition, sendable):
            raise _Stays

        def by(part: Any) -> Any:
            return replace(part, pattern=sent[id(part.pattern)]) if isinstance(part, Exists) else None

        return rebuilt(condition, by) if sent else condition

    def _value(self, expression: Expression) -> Expression:
        if not is_value_alike(expression):
            raise _Stays
        return expression

    @staticmethod
    def _check_without_minus(pattern: Pattern) -> None:
        # Some engines give the left side of MINUS what is bound around OPTIONAL and EXISTS.
        if any(isinstance(part, Minus) for part in walk(pattern)):
            raise _Stays

    # ---- queries

    def _query(self, query: Query, scope: GraphScope, top: bool) -> Query:
        """`top`: the query as a whole, which alone is ordered and cut there."""
        shape = query.shape
        is_cut = query.limit is not None or query.offset
        if query.windows or ((is_cut or shape.order_by) and not top) or not _has_triples(query.pattern):
            raise _Stays
        pattern = self._inside(query.pattern, scope)
        for each in (*shape.expressions, *shape.group_by):
            self._value(each.expression)
        for ordering in shape.order_by:
            self._value(ordering.expression)
        having = tuple(self._condition(each, scope) for each in shape.having)
        rest = Shape(
            reduced=False, expressions=shape.expressions, group_by=shape.group_by, having=having,
            order_by=shape.order_by, values=shape.values, places=shape.places,
        )  # fmt: skip
        return replace(query, pattern=pattern, shape=rest)


def _as_select(query: Query, binds: Binds) -> Query:
    if query.form is Form.SELECT:
        return query
    if query.shape.group_by or query.shape.having or query.shape.place("aggregate") is not None:
        raise _Stays
    names = tuple(sorted(filter(has_name, binds(query.pattern)[1])))
    if query.form is Form.ASK:
        return replace(query, form=Form.SELECT, variables=names[:1], limit=1 if query.limit is None else query.limit)
    return replace(query, form=Form.SELECT, variables=names)


# ---- what patterns are -----------------------------------------------------------------------------------------


def _has_triples(pattern: Pattern) -> bool:
    return any(isinstance(part, Bgp) and (part.patterns or part.paths) for part in walk(pattern))


def _needs_triple(pattern: Pattern) -> bool:
    """Whether each solution has a triple in the graph that the pattern is in."""
    match pattern:
        case Bgp(patterns, paths):
            return bool(patterns) or any(not _may_be_empty(path.path) for path in paths)
        case Join(left, right):
            return _needs_triple(left) or _needs_triple(right)
        case LeftJoin(left) | Minus(left):
            return _needs_triple(left)
        case Union(parts):
            return all(map(_needs_triple, parts))
        case Filter(_, inner) | Extend(inner):
            return _needs_triple(inner)
        case SubSelect(query):
            grouped = bool(query.shape.group_by)
            return _needs_triple(query.pattern) and (grouped or query.shape.place("aggregate") is None)
        case _:
            return False


def _is_connected(pattern: Join, binds: Binds) -> bool:
    """Whether its parts share variables: otherwise all combinations of their solutions would be sent."""
    waiting, left = [pattern.left, pattern.right], []
    while waiting:
        part = waiting.pop()
        if isinstance(part, Join):
            waiting += [part.left, part.right]
        else:
            left.append(binds(part)[1])
    reached = left.pop()
    while found := [names for names in left if names & reached]:
        left = [names for names in left if not names & reached]
        reached = reached.union(*found)
    return not left


def _within(scope: GraphScope, inner: Pattern) -> Pattern:
    """`inner` under GRAPH; over the graphs of FROM NAMED, if the variable has no others."""
    assert scope.node is not None
    found = Graph(scope.node, inner)
    if isinstance(scope.node, Constant) or scope.graphs is None:
        return found
    rows = tuple((graph,) for graph in scope.graphs)
    return Join(Values((scope.node.name,), rows, _NOWHERE_IN_TEXT), found)


def _distinct(pattern: Pattern) -> SubSelect:
    names = dict.fromkeys(
        node.name
        for part in walk(pattern)
        if isinstance(part, Bgp)
        for node in _nodes(part)
        if isinstance(node, Variable)
    )
    return SubSelect(Query(Form.SELECT, pattern, tuple(names), True, 0, None, (), None), _NOWHERE_IN_TEXT)


def _nodes(bgp: Bgp) -> Iterator[Node]:
    for triple in bgp.patterns:
        yield from (triple.subject, triple.predicate, triple.object)
    for path in bgp.paths:
        yield from (path.subject, path.object)


def _all_of(parts: Iterable[Pattern | None]) -> Pattern:
    found: Pattern | None = None
    for part in parts:
        if part is None:
            raise _Stays
        found = part if found is None else Join(found, part)
    assert found is not None, "an empty pattern is sent as it is"
    return found


def _named(pattern: Pattern) -> Pattern:
    """With variables in place of blank nodes: what is joined over them elsewhere needs their values."""

    def by(part: Any) -> Any:
        return Variable(part.name) if isinstance(part, Variable) and part.hidden else None

    return rebuilt(pattern, by)


def _guess(triple: TriplePattern) -> float:
    """About how many triples match, as far as the text shows."""
    subject, predicate, target = (
        isinstance(node, Constant) for node in (triple.subject, triple.predicate, triple.object)
    )
    if subject:
        return 1.0 if target else 10.0
    if target:
        return 1e4 if triple.predicate == _TYPE else 100.0
    return 1e5 if predicate else 1e7


def _is_other_number(text: bytes) -> bool:
    """Whether a number is not in canonical form."""
    lexical, found, datatype = text.rpartition(b'"^^<http://www.w3.org/2001/XMLSchema#')
    if not found:
        return False
    digits = lexical[1:].lstrip(b"+-")
    if datatype == b"integer>":
        return lexical[1:2] == b"+" or (digits[:1] == b"0" and digits != b"0")
    return datatype in (b"decimal>", b"double>", b"float>")


def _predicates(path: Path) -> list[Constant] | None:
    """The predicates of its steps; None: any but some."""
    match path:
        case Constant():
            return [path]
        case PathInverse(inner) | PathRepeat(inner):
            return _predicates(inner)
        case PathSequence(parts) | PathAlternative(parts):
            found = [_predicates(part) for part in parts]
            return None if None in found else [each for some in found for each in some or ()]
        case PathNegated():
            return None


def _may_be_empty(path: Path) -> bool:
    """Whether it leads from a node to itself in no step."""
    match path:
        case PathRepeat(inner, times):
            return times is not Repeat.ONE_OR_MORE or _may_be_empty(inner)
        case PathInverse(inner):
            return _may_be_empty(inner)
        case PathSequence(parts):
            return all(map(_may_be_empty, parts))
        case PathAlternative(parts):
            return any(map(_may_be_empty, parts))
        case _:
            return False


def _has_zero_steps(path: Path) -> bool:
    """Whether a part of it may be empty."""
    match path:
        case PathRepeat(inner, times):
            return times is not Repeat.ONE_OR_MORE or _has_zero_steps(inner)
        case PathInverse(inner):
            return _has_zero_steps(inner)
        case PathSequence(parts) | PathAlternative(parts):
            return any(map(_has_zero_steps, parts))
        case _:
            return False


def _differs_by_engine(path: Path, repeated: bool = False) -> bool:
    """Engines make a set of an alternative that is not repeated, or a bag."""
    match path:
        case PathAlternative(parts):
            return not repeated or any(_differs_by_engine(part, repeated) for part in parts)
        case PathRepeat(inner):
            return _differs_by_engine(inner, True)
        case PathInverse(inner):
            return _differs_by_engine(inner, repeated)
        case PathSequence(parts):
            return any(_differs_by_engine(part, repeated) for part in parts)
        case _:
            return False
