"""Normalise: the algebra of a text becomes the logic that is ordered and built.

    { ?s :p/:q ?o FILTER(?o > 1 && NOT EXISTS { ?s :r ?o }) GRAPH ?g { ?s :t ?z } }
    =>  all of   ?s :p ?.1,  ?.1 :q ?o,  ?s :t ?z in ?g
        tests    ?o > 1,  !?.2   where ?.2 asks for ?s :r ?o

Every leaf is told where it looks. A filter sees its own group only, so each condition carries what it sees; `a && b`
keeps what both keep, so it becomes two. Paths become joins and unions as far as they can. Joins become one list.

The module is long because each part of the algebra is a case of one recursion, which all of them share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from itertools import count

from hbase_store.layout.terms import iri
from stream_ext.errors import QueryTooLarge
from stream_ext.evaluation_budget import Check, Control
from stream_ext.language.algebra.algebra import (
    Bgp,
    Exists,
    Expression,
    Extend,
    Filter,
    Form,
    Graph,
    InAnyWindow,
    InWindow,
    Join,
    LeftJoin,
    Minus,
    PathAlternative,
    PathInverse,
    PathPattern,
    PathSequence,
    Pattern,
    Query,
    ServicePattern,
    SubSelect,
    Union,
    Values,
)
from stream_ext.language.algebra.formulas import Not, Path, PathNegated, PathRepeat
from stream_ext.language.algebra.rename import rename_query
from stream_ext.language.algebra.replace_parts import replaced
from stream_ext.language.algebra.terms import BlankLabel, Constant, Node, Variable, has_name
from stream_ext.language.algebra.walk import names_bound, split_and, template_of, variables_of
from stream_ext.language.algebra.windows import Dialect, WindowClause
from stream_ext.plan.logic import (
    NO_NAMES,
    Aggregation,
    Alternatives,
    Assign,
    Existence,
    GraphNames,
    GraphScope,
    Grouping,
    Logic,
    Names,
    Optional,
    PathSource,
    PatternScan,
    PerGraph,
    Remote,
    Select,
    Table,
    Test,
    Without,
    mentioned,
)
from stream_ext.plan.passes.groups import conjunction_of, differs_by_graph, reads_only
from stream_ext.plan.passes.select_steps import Stages
from stream_ext.plan.passes.timestamps import shape_expressions, timed_triples, with_expressions, with_names
from stream_ext.plan.places import (
    NOWHERE,
    STORE,
    GraphsInScope,
    Place,
    dataset,
    merged_windows,
    window_of_graph,
    with_graphs,
)
from stream_ext.plan.sources.exclusive import Attached

#: So many triple patterns a query may look for: each counts once for each window and graph that is merged for it.
LEAVES_MAX = 100_000


def normalise(
    query: Query,
    union_default: bool = False,
    graphs: Sequence[Constant] = (),
    check: Check = Control.FREE.check,
    attached: Attached | None = None,
) -> Select:
    """The whole query; what CONSTRUCT and DESCRIBE make of its rows is not part of it.

    `graphs` are read where they are named, but are no graphs of the store: each is the content of a window; `check` is
    called again and again. `attached`: the source whose data are one dataset with the store."""
    where = dataset(query.shape.graphs, query.dialect is not Dialect.NONE, union_default)
    if query.dialect is Dialect.CSPARQL:
        where, default = GraphsInScope(where.default, where.listed or ()), merged_windows(query)
    else:
        default = Place(where.default)
    normaliser = Normaliser(where, query.windows, graphs, check, attached)
    normaliser.default = with_graphs(default, graphs)
    return normaliser.whole(query) or normaliser.select(query, normaliser.default)


def normalise_pattern(
    pattern: Pattern,
    names: Iterable[str],
    where: GraphsInScope = STORE,
    graphs: Sequence[Constant] = (),
    check: Check = Control.FREE.check,
    attached: Attached | None = None,
) -> Select:
    """The solutions of a bare pattern, of these variables (an update's WHERE); `graphs`, `attached` as in
    `normalise`."""
    normaliser = Normaliser(where, (), graphs, check, attached)
    normaliser.default = with_graphs(Place(where.default), graphs)
    inner = normaliser.pattern(pattern, normaliser.default)
    return Select(inner, (), None, (), (), (), tuple(names), False, 0, None)


class Normaliser:
    """The normaliser of one query, which gives out unique names."""

    def __init__(
        self,
        where: GraphsInScope,
        windows: Sequence[WindowClause] = (),
        graphs: Sequence[Constant] = (),
        check: Check = Control.FREE.check,
        attached: Attached | None = None,
    ) -> None:
        self._dataset, self._check = where, check
        self._attached = None
        # Inside of so many EXISTS, where each part is given the values of the solutions around it: what a source
        # solves as a whole can only be joined with them.
        self._questions = 0
        if attached is not None:
            self._attached = replace(attached, listed=where.listed, given=frozenset(graphs))
        self._leaves = 0
        self._windows = windows
        self._graphs = {graph: window_of_graph(graph) for graph in graphs if where.has(graph)}
        self.default = Place(where.default)
        self._numbers = count(1)

    def fresh(self) -> str:
        return f".{next(self._numbers)}"  # no variable of a text has a dot

    # ---- patterns -----------------------------------------------------------------------------------------------

    def whole(self, query: Query) -> Select | None:
        """The query as one question to the source; None: it is not for the source alone."""
        if self._attached is None or (sent := self._attached.whole_query(query, _binds)) is None:
            return None
        names = query.variables if query.form is Form.SELECT else self._needed(query, set(sent.variables))
        found = self._attached.query(sent)
        return Select(found, (), None, (), (), (), names, query.form is Form.ASK, 0, None)

    def pattern(self, pattern: Pattern, place: Place) -> Logic:
        self._check()
        if self._attached is not None and not self._questions and place.window is None and not place.merged:
            found = self._attached.whole(pattern, place.graph, _binds)
            if found is not None:
                return found
        match pattern:
            case Bgp(patterns, paths):
                triples = (self._triple(t.subject, t.predicate, t.object, place) for t in patterns)
                return conjunction_of((*triples, *(self._path(path, place) for path in paths)), ())
            case Join(left, right):
                return conjunction_of((self.pattern(left, place), self.pattern(right, place)), ())
            case LeftJoin():
                return self._optional(pattern, place)
            case Minus(left, right):
                return Without(self.pattern(left, place), self.pattern(right, place))
            case Union(parts):
                return Alternatives(tuple(self._in_graph(self.pattern(part, place), place) for part in parts))
            case Filter(condition, inner):
                return self._filter(self.pattern(inner, place), condition, place)
            case Extend(inner, variable, expression):
                below = self._in_graph(self.pattern(inner, place), place)
                below, timed = self._timed(below, (expression,), place)
                return Assign(below, variable, self.test(timed(expression), below.variables, place))
            case Values(names, rows):
                return Table(names, rows)
            case Graph(node, inner):
                return self._graph(node, inner, place)
            case InWindow(name, inner):
                return self.pattern(inner, Place(GraphScope(), name))
            case SubSelect(query, position):
                return replace(self.select(self._with_own_names(query), place), position=position)
            case ServicePattern(node, inner, silent, position):
                return Remote(node, inner, _seen(inner), silent, position, pattern.written)
            case InAnyWindow(name, inner):
                return Alternatives(tuple(self._in_window(name, each.name, inner) for each in self._windows))

    def _in_window(self, variable: str, name: str, inner: Pattern) -> Logic:
        """`WINDOW ?variable { inner }`, for one of the windows."""
        table = Table((variable,), ((Constant(iri(name)),),))
        return conjunction_of((self.pattern(inner, Place(GraphScope(), name)), table), ())

    def _optional(self, pattern: LeftJoin, place: Place) -> Logic:
        left = self._in_graph(self.pattern(pattern.left, place), place)
        right = self._in_graph(self.pattern(pattern.right, place), place)
        condition = pattern.condition
        if condition is not None:
            right, timed = self._timed(right, (condition,), place)
            condition = timed(condition)
        sees = left.variables | right.variables
        parts = () if condition is None else split_and(condition)
        return Optional(left, right, tuple(self.test(part, sees, place) for part in parts))

    def _timed(
        self, inner: Logic, expressions: Sequence[Expression], place: Place
    ) -> tuple[Logic, Callable[[Expression], Expression]]:
        """`inner` with the times of the triples of rlt:timestamp, and a function that replaces the calls."""
        names = {triple: self.fresh() for triple in timed_triples(expressions)}
        if not names:
            return inner, lambda expression: expression
        for (subject, predicate, target), name in names.items():
            parts = [(graph, window) for graph, window in place.parts() if window is not None]
            each = name if len(parts) == 1 else self.fresh()
            times = [PatternScan(subject, predicate, target, graph, window, each) for graph, window in parts]
            inner = Optional(inner, times[0] if len(times) == 1 else self._latest(times, each, name))
        return inner, with_names(names)

    @staticmethod
    def _latest(times: Sequence[PatternScan], each: str, name: str) -> Logic:
        """Of windows that are merged the latest time that any of them has; graphs of the store have none."""
        keys = tuple(sorted(times[0].variables - {each}))
        latest = Grouping(keys, (Aggregation(name, "MAX", each, False, " "),), False)
        return Select(Alternatives(tuple(times)), (), latest, (), (), (), (*keys, name), False, 0, None)

    def _filter(self, inner: Logic, condition: Expression, place: Place) -> Logic:
        inner, timed = self._timed(inner, (condition,), place)
        condition = timed(condition)
        sees = inner.variables  # not the graph that a group is in which looks for no triple there
        tests = tuple(self.test(part, sees, place) for part in split_and(condition))
        return conjunction_of((self._in_graph(inner, place),), tests)

    def _graph(self, node: Node, inner: Pattern, place: Place) -> Logic:
        if place.window in self._graphs.values():  # a graph in a graph is any other
            place = Place(GraphScope())
        if place.window is None and node in self._graphs:
            return self.pattern(inner, Place(GraphScope(), self._graphs[node]))
        stored = self._stored_graph(node, inner, place)
        if place.window is not None or not self._graphs or not isinstance(node, Variable):
            return stored
        given = (self._in_given_graph(node.name, graph, inner) for graph in self._graphs)
        return Alternatives((stored, *given))

    def _in_given_graph(self, variable: str, graph: Constant, inner: Pattern) -> Logic:
        table = Table((variable,), ((graph,),))
        return conjunction_of((self.pattern(inner, Place(GraphScope(), self._graphs[graph])), table), ())

    def _stored_graph(self, node: Node, inner: Pattern, place: Place) -> Logic:
        # Inside of a window GRAPH means the graphs of its elements.
        graph = GraphScope(node) if place.window is not None else self._dataset.named(node)
        there = Place(graph, place.window)
        if isinstance(graph.node, Variable):
            name = graph.node.name
            scope = self.fresh() if any(v == name for v in names_bound(inner)) else name
            apart = replace(graph, node=Variable(scope, hidden=scope != name))
            found = self.pattern(inner, Place(apart, place.window))
            if scope != name or differs_by_graph(found):
                return PerGraph(apart, name, found, place.window, self._graphs_of_source(apart, place.window))
        return self._in_graph(self.pattern(inner, there), there)

    def _in_graph(self, node: Logic, place: Place) -> Logic:
        """A group under GRAPH without a triple pattern ranges over the graphs, or tests whether its graph exists."""
        if place.graph.node is None or reads_only(node, place.graph):
            return node
        names: Logic = GraphNames(place.graph, place.window)
        if (more := self._graphs_of_source(place.graph, place.window)) is not None:
            names = Alternatives((names, more))
        return conjunction_of((names, node), ())

    def _graphs_of_source(self, graph: GraphScope, window: str | None) -> Remote | None:
        if self._attached is None or window is not None:
            return None
        return self._attached.graphs(GraphNames(graph))

    def _with_own_names(self, query: Query) -> Query:
        """A sub-SELECT whose variables that are not projected have names that occur nowhere else."""
        number = next(self._numbers)
        shown = frozenset(query.variables)
        return rename_query(query, lambda name: name if name in shown else f"{name}.{number}")

    def _triple(self, subject: Node, predicate: Node, target: Node, place: Place) -> Logic:
        """One triple pattern; over several graphs that are merged a triple counts once, wherever it is."""
        places = place.parts()
        self._leaves += len(places)
        if self._leaves > LEAVES_MAX:
            raise QueryTooLarge(
                f"the query has more than {LEAVES_MAX} triple patterns, each counted once for every window "
                "and graph that it reads: use fewer patterns, windows or graphs"
            )
        self._check()
        as_bag = len(places) > 1
        parts = [
            part
            for graph, window in places
            for part in self._parts(PatternScan(subject, predicate, target, graph, window, as_bag=as_bag))
        ]
        if not as_bag:
            return parts[0] if len(parts) == 1 else Alternatives(tuple(parts))
        nodes = (subject, predicate, target)
        names = tuple(dict.fromkeys(node.name for node in nodes if isinstance(node, Variable)))
        return Select(Alternatives(tuple(parts)), (), None, (), (), (), names, True, 0, None)

    def _parts(self, scan: PatternScan) -> Sequence[PatternScan | Remote]:
        """Where a triple pattern is looked for: in the store, or in the source, or in both."""
        return (scan,) if self._attached is None or scan.window is not None else self._attached.scan(scan)

    # ---- paths --------------------------------------------------------------------------------------------------

    def _path(self, pattern: PathPattern, place: Place) -> Logic:
        return self._follow(pattern.subject, pattern.path, pattern.object, place)

    def _follow(self, subject: Node, path: Path, target: Node, place: Place) -> Logic:
        match path:
            case Constant():
                return self._triple(subject, path, target, place)
            case PathInverse(inner):
                return self._follow(target, inner, subject, place)
            case PathSequence(parts):
                return self._sequence(subject, parts, target, place)
            case PathAlternative(parts):
                return Alternatives(tuple(self._follow(subject, part, target, place) for part in parts))
            case PathRepeat() | PathNegated():
                source = PathSource(subject, path, target, place.graph, place.window, place.merged)
                if self._attached is None or place.window is not None or place.graph == NOWHERE:
                    return source
                return self._attached.path(source)

    def _sequence(self, subject: Node, parts: Sequence[Path], target: Node, place: Place) -> Logic:
        between = [Variable(self.fresh(), hidden=True) for _ in parts[1:]]
        starts, ends = [subject, *between], [*between, target]
        steps = zip(starts, parts, ends, strict=True)
        return conjunction_of(tuple(self._follow(start, part, end, place) for start, part, end in steps), ())

    # ---- conditions ---------------------------------------------------------------------------------------------

    def test(self, expression: Expression, sees: AbstractSet[str], place: Place) -> Test:
        questions: list[Existence] = []

        def exists(part: Expression) -> Expression | None:
            if not isinstance(part, Exists):
                return None
            self._questions += 1
            question = Existence(self.fresh(), self._in_graph(self.pattern(part.pattern, place), place))
            self._questions -= 1
            questions.append(question)
            answer = Variable(question.name)
            return Not(answer) if part.negated else answer

        condition = replaced(expression, exists)
        hidden = frozenset(question.name for question in questions)
        mentions = variables_of(condition) - hidden
        # What it speaks of, of what it is shown: many conditions are shown many variables.
        shown = (mentions | NO_NAMES.union(*(mentioned(question.inner) for question in questions))) & sees
        if questions and isinstance(place.graph.node, Variable) and place.graph.node.name not in mentions:
            # They are asked of the graph that the group is in, also where no triple of the group is looked for there.
            shown |= {place.graph.node.name}
        return Test(condition, shown | hidden, mentions, tuple(questions))

    # ---- queries ------------------------------------------------------------------------------------------------

    def select(self, query: Query, place: Place) -> Select:
        """A query, or a sub-SELECT, as logic: its pattern, groups, expressions, order and columns."""
        inner = self._in_graph(self.pattern(query.pattern, place), place)
        inner, timed = self._timed(inner, shape_expressions(query.shape), place)
        query = replace(query, shape=with_expressions(query.shape, timed))
        shape = query.shape
        if shape.values is not None and not _is_grouped(query):
            inner = conjunction_of((inner, self.pattern(shape.values, place)), ())
        stages = Stages(lambda expression, sees: self.test(expression, sees, place), self.fresh, inner.variables)
        grouping = stages.group(query) if _is_grouped(query) else None
        having = tuple(stages.test(part) for condition in shape.having for part in split_and(condition))
        for each in shape.expressions:
            assert each.variable is not None, "only a key of GROUP BY may be nameless"
            stages.compute(each.variable, each.expression)
        order = tuple((stages.name(ordering.expression), ordering.descending) for ordering in shape.order_by)
        names = query.variables if query.form is Form.SELECT else self._needed(query, stages.sees)
        distinct = query.distinct or query.form is Form.ASK
        if grouping is not None:
            grouping = replace(grouping, aggregates=tuple(stages.aggregates))
        selected = Select(
            inner, tuple(stages.before), grouping, having, tuple(stages.after), order,
            names, distinct, query.offset, query.limit,
        )  # fmt: skip
        if shape.values is None or not _is_grouped(query):
            return selected
        return self._with_values(selected, shape.values, place)

    def _with_values(self, selected: Select, values: Values, place: Place) -> Select:
        """VALUES behind a query with groups restricts the rows of the groups, before ORDER BY and LIMIT."""
        bare = replace(selected, order=(), distinct=False, offset=0, limit=None)
        assert selected.grouping is not None
        needed = tuple(dict.fromkeys((*bare.names, *selected.grouping.keys, *(name for name, _ in selected.order))))
        inner = conjunction_of((replace(bare, names=needed), self.pattern(values, place)), ())
        return Select(
            inner, (), None, (), (), selected.order, selected.names, selected.distinct, selected.offset, selected.limit
        )

    def _needed(self, query: Query, sees: AbstractSet[str]) -> tuple[str, ...]:
        """The variables from which CONSTRUCT and DESCRIBE make triples."""
        if query.form is Form.ASK:
            return ()
        if query.form is Form.DESCRIBE:
            named = [node.name for node in query.shape.described if isinstance(node, Variable)]
            return tuple(dict.fromkeys(named)) if query.shape.described else tuple(sorted(_in_scope(query.pattern)))
        used = [node for quad in template_of(query) for node in (quad.subject, quad.predicate, quad.object)]
        if any(isinstance(node, BlankLabel) for node in used):
            return tuple(sorted(sees))  # a blank node is another one for each solution
        return tuple(dict.fromkeys(node.name for node in used if isinstance(node, Variable)))


def _is_grouped(query: Query) -> bool:
    return bool(query.shape.group_by) or query.shape.place("aggregate") is not None


def _seen(pattern: Pattern) -> Names:
    """Without those that no one can name: a blank node inside of SERVICE is a variable of the other side."""
    return frozenset(filter(has_name, _in_scope(pattern)))


def _binds(pattern: Pattern) -> tuple[Names, Names]:
    """The variables that a pattern binds in each solution, and those that it may bind."""
    found = Normaliser(STORE).pattern(pattern, Place(GraphScope()))
    return found.certain, found.variables


def _in_scope(pattern: Pattern) -> Names:
    """The variables that a pattern may bind."""
    return Normaliser(STORE).pattern(pattern, Place(GraphScope())).variables
