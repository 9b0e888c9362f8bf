"""Build: logic becomes a network of operators.

Each part extends the solutions so far: its triple patterns look up the values that these have bound. A part whose
meaning that would change (`takes`) is built from the start, and joined as a whole. A question (EXISTS) is built from
the distinct values of the variables that it shares with the solutions, and its result is joined with the solutions.

Example: { ?a :p ?b . ?b :q ?c } is a scan of :p, and a join that looks up :q for each ?b."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from stream_ext.evaluation_budget import Check, Control
from stream_ext.language.algebra.algebra import QuadPattern
from stream_ext.language.algebra.formulas import Not
from stream_ext.language.algebra.terms import Variable
from stream_ext.network.estimate import Estimates
from stream_ext.network.operators.answers.construct import Construct
from stream_ext.network.operators.answers.cut import Cut
from stream_ext.network.operators.answers.distinct import Distinct
from stream_ext.network.operators.answers.ranking import Orders, Ranking
from stream_ext.network.operators.answers.slice import Slice
from stream_ext.network.operators.core.anew import Anew
from stream_ext.network.operators.core.operator import Operator
from stream_ext.network.operators.core.parameters import Parameters
from stream_ext.network.operators.core.pattern import UNKNOWN, G, IdGraph, IdPattern, O, P, S, id_graph, id_pattern
from stream_ext.network.operators.core.testing import Calculator, Tester
from stream_ext.network.operators.groups.aggregates import Aggregated
from stream_ext.network.operators.groups.group import GroupOperator
from stream_ext.network.operators.groups.grouped import Grouped
from stream_ext.network.operators.groups.no_rows import NoRows
from stream_ext.network.operators.joins.counting import can_count
from stream_ext.network.operators.joins.exists import ExistsOperator, Keep
from stream_ext.network.operators.joins.graph_join import GraphJoin
from stream_ext.network.operators.joins.intersection import Intersection, leads_to
from stream_ext.network.operators.joins.join import JoinOperator
from stream_ext.network.operators.joins.left_join import LeftJoinOperator
from stream_ext.network.operators.joins.many_join import ManyJoin
from stream_ext.network.operators.joins.minus import MinusOperator
from stream_ext.network.operators.joins.otherwise import Otherwise
from stream_ext.network.operators.joins.store_join import StoreJoin
from stream_ext.network.operators.paths.path_join import PathJoin
from stream_ext.network.operators.paths.walking import IdPath, id_path, may_be_empty, predicates_of
from stream_ext.network.operators.remote.remote_question import ServiceCall
from stream_ext.network.operators.remote.service import ServiceOperator
from stream_ext.network.operators.remote.source_join import SourceJoin
from stream_ext.network.operators.rowwise.extend import ExtendOperator
from stream_ext.network.operators.rowwise.filter import FilterOperator
from stream_ext.network.operators.rowwise.project import Project
from stream_ext.network.operators.rowwise.sources import TableOperator as TableSource
from stream_ext.network.operators.rowwise.sources import UnitRow
from stream_ext.network.operators.rowwise.union import UnionOperator
from stream_ext.network.operators.scans.counted_scan import CountedScan, LatestCountedScan
from stream_ext.network.operators.scans.numbered_scan import (
    CAME,
    GONE,
    NumberedCountedScan,
    NumberedScan,
    NumberedWatchedScan,
)
from stream_ext.network.operators.scans.occurrence_scan import OccurrenceScan
from stream_ext.network.operators.scans.timed_scan import TimedScan
from stream_ext.network.operators.scans.watched_scan import WatchedScan
from stream_ext.network.operators.scans.window_scan import WindowScan
from stream_ext.network.waiting import Ordered, Unused, Waiting
from stream_ext.network.wires import Ground, Plan, Stage, Wire, both_resources, maybe_of, merged_names, resources_of
from stream_ext.plan.columns_read import count_rows, read_of
from stream_ext.plan.join_order import connected, order_items, reads_store, reads_window
from stream_ext.plan.logic import (
    NO_NAMES,
    Aggregation,
    Alternatives,
    Assign,
    Conjunction,
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
    makes_terms,
    mentioned,
    ranked_places,
    traits_of,
    varies,
)
from stream_ext.plan.named_terms import predicates_in
from stream_ext.plan.places import NOWHERE
from stream_ext.plan.pushdown import takes
from stream_ext.plan.result_columns import TRIPLE
from stream_ext.plan.shape import shape_of
from stream_ext.windows.counted_window import CountedWindow
from stream_ext.windows.displacing import Displacing
from stream_ext.windows.schedule import ScheduledWindow

#: Solutions with more columns than `_WIDE` are not passed from stage to stage for each part: the other parts are
#: evaluated
#: for their own variables, `_RUN` of them at once, and joined. No query that a person writes has so many columns.
_WIDE, _RUN, _SMALL = 256, 64, 8
#: The greatest numbers of parts that are merged at once, and of variables that are assigned one by one.
_MERGED_MAX, _ASSIGNED_MAX = 64, 64
#: The greatest number of parts over windows whose join order is found while they run.
_MANY_MAX = 64
#: The greatest number of rows of the store that are copied, to be merged with the rows of a window.
_COPIED_ROWS_MAX = 1e6


class Builder:
    def __init__(
        self,
        windows: Mapping[str, ScheduledWindow],
        resolve: Callable[[bytes], int],
        estimates: Callable[[Callable[[PatternScan], IdPattern]], Estimates],
        orders: Orders,
        check: Check = Control.FREE.check,
        held: bool = False,
        numbered: bool = False,
    ) -> None:
        """`orders`: the orders of first appearance that the query has, or will have; `check` is called again and again
        during the building. `held`: patterns over the store read held edges, too. `numbered`: many evaluations at
        arrivals are one step, and rows have hidden columns with the numbers of theirs (`plan.together` says for which
        queries)."""
        self.plan = Plan()
        self._held, self._numbered = held, numbered
        self._check = check
        self._orders = orders
        self._places: Mapping[Select, str] = {}
        self._sliced: Counter[str] = Counter()
        self._windows = windows
        for name, window in windows.items():
            if window.count is not None and numbered:
                self.plan.displacing[name] = Displacing(window.stream, window.count, window.lead_ms)
            elif window.count is not None:
                self.plan.counted[name] = CountedWindow(window.stream, window.count, window.lead_ms)
        self._resolve = resolve
        self._patterns: dict[PatternScan, IdPattern] = {}
        self._estimates = estimates(self._pattern)
        self._unit = self._add(UnitRow(), (), certain=NO_NAMES, label="the unit row")
        self._parameters: Wire | None = None
        self._makes_terms = False
        # What was built, by the part, its input, and the values that it was built for.
        self._built: dict[tuple[Logic, int, int, Names], Wire] = {}

    def query(self, select: Select) -> tuple[Wire, Cut]:
        """The whole query: the wire of its rows, and how they are cut at the end."""
        self._makes_terms, self._places = makes_terms(select), ranked_places(select)
        return self._selected(select, self._unit, Ground(self._unit), ())

    def shared(self, select: Select, parameters: Parameters) -> tuple[Wire, Cut]:
        """The rows of many queries that differ in their parameters only; the first column is the row's query.

        The parameters that are read after a GROUP BY also come before the query's own columns."""
        wire = self._add(parameters, (), frozenset(parameters.variables), "the parameters of its queries")
        self._parameters, self._makes_terms = wire, makes_terms(select)
        later = () if select.grouping is None else (*select.having, *(test for _, test in select.after))
        read = NO_NAMES.union(*map(_read_by, later))
        retained = tuple(v for v in wire.variables if v == wire.variables[0] or v in read)
        return self._selected(select, wire, Ground(wire, frozenset(wire.variables)), retained)

    def graph(self, select: Select, template: Sequence[QuadPattern], salt: bytes) -> tuple[Wire, Cut]:
        """The triples that a template makes of the rows, each once."""
        rows, cut = self.query(select)
        if cut.is_limited:
            return rows, cut  # which rows are left is known only at the end
        triples = self._add(Construct(rows.variables, template, salt), (rows,), frozenset(TRIPLE), "construct")
        return self._distinct(triples), Cut(TRIPLE, TRIPLE)

    # ---- parts --------------------------------------------------------------------------------------------------

    def extend(self, node: Logic, wire: Wire, ground: Ground) -> Wire:
        """The solutions of the wire, joined with those of the node: built once, however often it occurs in the
        query."""
        if varies(node) or self._numbered:
            return self._built_anew(node, wire, ground)
        key = (node, wire.stage, ground.wire.stage, ground.carried)
        if key not in self._built:
            self._built[key] = self._built_anew(node, wire, ground)
        return self._built[key]

    def _built_anew(self, node: Logic, wire: Wire, ground: Ground) -> Wire:
        self._check()
        ground = self._ground_of(node, ground)
        names = node.variables.intersection(wire.variables) - ground.carried
        if not takes(node, names):
            return self._joined(wire, self.extend(node, ground.wire, ground))
        if wire.stage != ground.wire.stage and not ground.carried and not reads_store(node):
            # The content of a window is no cheaper to find for some values only.
            return self._joined(wire, self._extended(node, ground.wire, ground))
        if len(wire.variables) > _WIDE and self._may_join_later(node, names, wire, ground):
            return self._joined_later(node, names, wire, ground)
        return self._extended(node, wire, ground)

    def _may_join_later(self, node: Logic, names: Names, wire: Wire, ground: Ground) -> bool:
        """Whether `_joined_later` is worth it, and correct: variables that may be unbound cannot be joined by."""
        traits = traits_of(node)
        few = len(names) + len(ground.carried) <= len(wire.variables) // 2
        return few and traits.size > _SMALL and not traits.varies and names | ground.carried <= wire.certain

    def _joined_later(self, node: Logic, names: Names, wire: Wire, ground: Ground) -> Wire:
        """Evaluates a node for the values of its variables alone, and joins the result with the solutions of many
        columns.

        Each stage has all columns of the one before: thousands of columns are not passed through thousands of
        stages."""
        if not names:
            return self._joined(wire, self._extended(node, ground.wire, ground))
        shared = tuple(v for v in wire.variables if v in names or v in ground.carried)
        return self._joined(wire, self._extended(node, self._distinct(self._project(wire, shared)), ground))

    def _ground_of(self, node: Logic, ground: Ground) -> Ground:
        """The ground of a node. A node that reads no carried variable is the same for all values, and evaluated
        once."""
        return ground if mentioned(node) & ground.carried else Ground(self._unit)

    def _extended(self, node: Logic, wire: Wire, ground: Ground) -> Wire:
        match node:
            case PatternScan():
                return self._source(node, wire)
            case PathSource():
                return self._path(node, wire)
            case GraphNames():
                return self._graph_names(node, wire)
            case PerGraph():
                return self._joined(wire, self._per_graph(node, ground))
            case Table(names, rows):
                table = self._add(TableSource(names, rows), (), node.certain, f"values {' '.join(names)}", node)
                return self._joined(wire, table)
            case Conjunction():
                return self._conjunction(node, wire, ground, NO_NAMES)
            case Optional():
                return self._optional(node, wire, ground)
            case Without(left, right):
                return self._without(self.extend(left, wire, ground), left, right, ground)
            case Alternatives(parts):
                return self._either([self.extend(part, wire, ground) for part in parts])
            case Assign(inner, variable, test):
                return self._assign(variable, test, self.extend(inner, wire, ground), ground)
            case Select():
                return self._sub_select(node, wire, ground)
            case Remote():
                return self._remote(node, wire)

    def _graph_names(self, node: GraphNames, wire: Wire) -> Wire:
        graph, label = self._graph_of(node.graph, node.window), f"graphs {_node(node.graph.node)}"
        if node.window is None:
            operator = GraphJoin(wire.variables, graph, wire.maybe)
            return self._add(operator, (wire,), wire.certain | node.certain, label, node)
        binding = {} if graph.each is None else {G: graph.each}
        pattern, label = IdPattern({}, binding, graph), f"{label} in {node.window}"
        return self._joined(wire, self._scanned(node.window, pattern, node.certain, label, node))

    def _remote(self, node: Remote, wire: Wire) -> Wire:
        service = node.service
        names = tuple(sorted(node.inner_variables))
        call = ServiceCall(service, node.inner, names, node.silent, node.position, node.written, node.group)
        if node.group is not None:
            both = " beside the store" if node.group.unless is not None else ""
            operator = SourceJoin(wire.variables, call)
            says = f"source {_node(service)}{both}: {operator.question}"
            return self._add(operator, (wire,), wire.certain | node.certain, says, node)
        shown = f"?{service.name}" if isinstance(service, Variable) else service.text.decode()
        return self._add(ServiceOperator(wire.variables, call), (wire,), wire.certain, f"service {shown}", node)

    def _pattern(self, source: PatternScan) -> IdPattern:
        if source not in self._patterns:
            self._patterns[source] = id_pattern(source, self._resolve, self._held)
        return self._patterns[source]

    def _graph_of(self, scope: GraphScope, window: str | None) -> IdGraph:
        return id_graph(scope, self._resolve, self._held and window is None)

    def _source(self, node: PatternScan, wire: Wire) -> Wire:
        pattern = self._pattern(node)
        if node.window is None:
            operator = StoreJoin(wire.variables, pattern, wire.maybe)
            return self._add(operator, (wire,), wire.certain | node.certain, _shown(node), node)
        window, shown = self._windows[node.window], f"{_shown(node)} in {node.window}"
        parameters = () if self._parameters is None else self._parameters.variables
        watched = next((v for v in pattern.variables if v in parameters), None)
        if self._numbered:
            return self._joined(wire, self._numbered_scan(node, pattern, parameters, watched, shown))
        if window.count is not None:
            return self._joined(wire, self._counted(node, node.window, pattern, shown))
        if node.time is not None:
            scan: WindowScan = TimedScan(window, pattern, node.time)
        elif node.occurrence is not None:
            scan = OccurrenceScan(window, pattern, node.occurrence)
        elif watched is not None:
            scan = WatchedScan(window, pattern, parameters, watched)
        else:
            scan = WindowScan(window, pattern, node.as_bag or window.bag)
        self.plan.scans.append(scan)
        inputs = (self._parameters,) if isinstance(scan, WatchedScan) and self._parameters is not None else ()
        return self._joined(wire, self._add(scan, inputs, node.certain, shown, node))

    def _numbered_scan(
        self, node: PatternScan, pattern: IdPattern, parameters: tuple[str, ...], watched: str | None, label: str
    ) -> Wire:
        assert node.window is not None, "it is over a window"
        window, number = self._windows[node.window], len(self.plan.scans)
        came, inputs = f"{CAME}{number}", tuple[Wire, ...]()
        if node.window in self.plan.displacing:
            displacing = self.plan.displacing[node.window]
            scan: NumberedScan | NumberedWatchedScan | NumberedCountedScan = NumberedCountedScan(
                window, pattern, displacing, came, f"{GONE}{number}"
            )
        elif watched is not None and self._parameters is not None:
            scan, inputs = NumberedWatchedScan(window, pattern, parameters, watched, came), (self._parameters,)
        else:
            scan = NumberedScan(window, pattern, came)
        self.plan.scans.append(scan)
        return self._add(scan, inputs, node.certain.union(scan.variables), label, node)

    def _counted(self, node: PatternScan, name: str, pattern: IdPattern, shown: str) -> Wire:
        window, counted = self._windows[name], self.plan.counted[name]
        scan: CountedScan | LatestCountedScan
        if node.time is not None:
            scan = LatestCountedScan(window, pattern, counted, (".time", ".arrival", ".place"), node.time)
        elif node.occurrence is not None and not window.bag:
            scan = LatestCountedScan(window, pattern, counted, node.occurrence)
        elif node.occurrence is not None or node.as_bag or window.bag:
            scan = CountedScan(window, pattern, counted, node.occurrence or ())
        else:
            return self._scanned(name, pattern, node.certain, shown, node)
        self.plan.scans.append(scan)
        return self._add(scan, (), node.certain, shown, node)

    def _scanned(self, name: str, pattern: IdPattern, certain: Names, label: str, node: Logic | None = None) -> Wire:
        """What a pattern finds in a window, as a set."""
        counted = self.plan.counted.get(name)
        if counted is None:
            scan: WindowScan | CountedScan = WindowScan(self._windows[name], pattern)
        else:
            scan = CountedScan(self._windows[name], pattern, counted)
        self.plan.scans.append(scan)
        wire = self._add(scan, (), certain, label, node)
        return wire if counted is None else self._distinct(wire)

    def _is_parameters(self, wire: Wire) -> bool:
        return self._parameters is not None and wire.stage == self._parameters.stage

    def _path(self, node: PathSource, wire: Wire) -> Wire:
        path = id_path(node.path, lambda text: self._resolve(text) or UNKNOWN)
        subject, object = (end.name if isinstance(end, Variable) else end for end in (node.subject, node.object))
        graph = self._graph_of(node.graph, node.window)
        given = node.window is not None or bool(node.merged) or node.edges is not None
        operator = PathJoin(wire.variables, subject, path, object, graph, wire.maybe)
        label = f"{_node(node.subject)} path {_node(node.object)}"
        inputs: tuple[Wire, ...] = (wire,)
        if given:
            inputs += (self._edges(node, path, graph),)
        return self._add(operator, inputs, wire.certain | node.certain, label, node)

    def _edges(self, node: PathSource, path: IdPath, graph: IdGraph) -> Wire:
        """The triples of the windows that a path is over, and of what is merged with them."""
        if node.window is not None:
            return self._all_triples(node.window, graph)
        found = [self._all_triples(name, IdGraph()) for name in node.merged]
        if node.graph != NOWHERE:
            found.append(self._stored_edges(node, path, graph))
        if node.edges is not None:
            found.append(self._edges_of_source(node.edges, graph))
        return self._either(found)

    def _edges_of_source(self, node: Remote, graph: IdGraph) -> Wire:
        wire = self._remote(node, self._unit)
        named = () if graph.each is None else (graph.each,)
        return self._project(wire, (*"spo", *("g" for _ in named)), (*"spo", *named))

    def _all_triples(self, window: str, graph: IdGraph) -> Wire:
        """All triples of a window; with their graphs, if graphs are distinguished."""
        binding = {S: "s", P: "p", O: "o"} | ({G: "g"} if graph.each is not None else {})
        pattern = IdPattern({}, binding, graph)
        return self._scanned(window, pattern, frozenset(pattern.variables), f"all triples in {window}")

    def _stored_edges(self, node: PathSource, path: IdPath, graph: IdGraph) -> Wire:
        """The edges of the store for a path: those of its predicates; all edges, if every node is a result of the
        path."""
        start = self._unit
        if predicates_of(path) is not None and not may_be_empty(path):
            table = TableSource(("p",), tuple((predicate,) for predicate in dict.fromkeys(predicates_in(node.path))))
            start = self._add(table, (), frozenset("p"), "the path's predicates")
        named = () if graph.each is None else ("g",)
        binding = {S: "s", P: "p", O: "o"} | ({G: "g"} if named else {})
        operator = StoreJoin(start.variables, IdPattern({}, binding, graph), start.maybe)
        found = self._add(operator, (start,), frozenset((*"spo", *named)), "all triples that it may take")
        return self._project(found, (*"spo", *named))

    def _per_graph(self, node: PerGraph, ground: Ground) -> Wire:
        """A node for each graph: starts from the graphs, and carries them."""
        graphs = self._extended(GraphNames(node.graph, node.window), ground.wire, ground)
        if node.remote is not None:
            graphs = self._either([graphs, self._extended(node.remote, ground.wire, ground)])
        found = self.extend(node.inner, graphs, Ground(graphs, ground.carried | {node.scope}))
        if node.scope == node.name:
            return found
        names = tuple(v for v in graphs.variables if v not in (node.scope, node.name))
        named = self._project(graphs, (*names, node.scope, node.name), (*names, node.scope, node.scope))
        if node.name in ground.carried:  # a value that is asked for is met by the join, and stands once for each graph
            named = self._distinct(named)
        found = self._joined(found, named)
        return self._project(found, tuple(v for v in found.variables if v != node.scope))

    def _conjunction(self, node: Conjunction, wire: Wire, ground: Ground, unread: Names) -> Wire:
        """`unread`: the variables that only the conjunction itself reads."""
        if self._is_parameters(wire):
            node, wire = self._begun(node, wire, ground, unread)
            unread -= frozenset(wire.variables)
        waiting, only_once = Waiting(node.tests), _only_once(node)
        wire = self._test_what_is_bound(waiting, wire, ground)
        wire, items = self._many(node.items, wire, ground)
        wire = self._test_what_is_bound(waiting, wire, ground)
        bound = frozenset(wire.variables) & wire.certain
        left = Ordered(order_items(items, bound, self._estimates.rows, self._check))
        unused = Unused(left, unread.difference(*(test.needs for test in node.tests)))
        while left:
            if len(wire.variables) > _WIDE:
                wire = self._project(wire, unused.without(wire.variables))
                run = self._run(left, wire, ground)
                if run:
                    wire = self._with_run(Conjunction(run, waiting.within(run)), wire, ground)
                    wire = self._test_what_is_bound(waiting, wire, ground)
                    continue
            item = left.take()
            cycle = self._closing(item, left, wire)
            if cycle:
                wire = self._intersection((item, *cycle), wire)
                wire = self._test_what_is_bound(waiting, wire, ground)
                continue
            unseen = unread & item.variables & only_once
            if isinstance(item, PatternScan) and unseen and self._can_count(item, wire, unseen):
                operator = StoreJoin(wire.variables, self._pattern(item), NO_NAMES, unseen)
                wire = self._add(operator, (wire,), wire.certain, f"count of {_shown(item)}", item)
            else:
                wire = self.extend(item, wire, ground)
            wire = self._test_what_is_bound(waiting, wire, ground)
        return self._tested(waiting.rest(), wire, ground)

    def _run(self, left: Ordered, wire: Wire, ground: Ground) -> tuple[Logic, ...]:
        """The next parts to join, if the solutions have so many columns that these parts are evaluated on their own."""
        if len(wire.variables) <= _WIDE or not ground.carried <= wire.certain:
            return ()
        return left.run(wire, _RUN, len(wire.variables) // 2 - len(ground.carried))

    def _with_run(self, run: Conjunction, wire: Wire, ground: Ground) -> Wire:
        ground = self._ground_of(run, ground)
        if not reads_store(run):
            return self._joined(wire, self._extended(run, ground.wire, ground))
        return self._joined_later(run, run.variables.intersection(wire.variables) - ground.carried, wire, ground)

    def _begun(self, node: Conjunction, wire: Wire, ground: Ground, unread: Names) -> tuple[Conjunction, Wire]:
        """Parameters are joined with the first part that has one, not with all rows of those before it."""
        bound, items = ground.carried, list(node.items)
        drives = [item for item in items if reads_window(item)] or items
        bound_items = [item for item in drives if mentioned(item) & bound]
        if bound_items:
            first = order_items(bound_items, bound, self._estimates.rows, self._check)[0]
            items.remove(first)
            return Conjunction(tuple(items), node.tests), self.extend(first, wire, ground)
        ordered = order_items(items, NO_NAMES, self._estimates.rows, self._check)
        count = next((i for i, item in enumerate(ordered, 1) if mentioned(item) & bound), 0)
        if not count or not isinstance(ordered[count - 1], PatternScan):
            return node, wire
        head, rest = tuple(ordered[:count]), tuple(ordered[count:])
        certain = NO_NAMES.union(*(item.certain for item in head))
        tests = tuple(test for test in node.tests if not _read_by(test) & bound and test.needs <= certain)
        later = Conjunction(rest, tuple(test for test in node.tests if test not in tests))
        unseen = unread - mentioned(later) - NO_NAMES.union(*(test.needs for test in later.tests))
        begun = self._conjunction(Conjunction(head, tests), self._unit, Ground(self._unit), unseen)
        return later, self._joined(begun, wire)

    def _many(self, items: tuple[Logic, ...], wire: Wire, ground: Ground) -> tuple[Wire, tuple[Logic, ...]]:
        """Joins three or more parts over windows in an order that is found while they run; returns the parts that are
        left. Two parts need no order; parts with many rows of the store are left, to be looked up there."""
        many = tuple(item for item in items if reads_window(item) and self._fits_in_memory(item))
        if len(many) < 3 or wire.stage != self._unit.stage or ground.carried:
            return wire, items
        if len(many) > _MANY_MAX:
            # Its order is looked for among all of them, for each: so many are no more than these in one.
            groups = [Conjunction(group) for group in connected(many, _MANY_MAX)]
            for group in order_items(groups, NO_NAMES, self._estimates.rows, self._check):
                wire = self._joined(wire, self._extended(group, ground.wire, ground))
            joined_ids = set(map(id, many))
            return wire, tuple(item for item in items if id(item) not in joined_ids)
        # What differs in the names of its variables only is built once; parameters are no such names.
        parameters = NO_NAMES if self._parameters is None else frozenset(self._parameters.variables)
        shapes = [(item, ()) if item.variables & parameters else shape_of(item) for item in many]
        # Each numbered part has hidden columns of its own.
        keys = [(shape, place * self._numbered) for place, (shape, _) in enumerate(shapes)]
        built: dict[tuple[Logic, int], tuple[Wire, tuple[str, ...]]] = {}
        parts, resources = [], NO_NAMES
        for item, key, (_, names) in zip(many, keys, shapes, strict=True):
            if key not in built:
                built[key] = self._extended(item, ground.wire, ground), names
            part, named = built[key]
            called = dict(zip(named, names, strict=True))
            parts.append(tuple(called.get(v, v) for v in part.variables))
            resources |= {called.get(v, v) for v in part.resources}
        operator = ManyJoin(parts, [list(built).index(key) for key in keys])
        wires = tuple(part for part, _ in built.values())
        joined = self._add(operator, wires, frozenset(operator.variables), "join of many")
        return replace(joined, resources=resources), tuple(item for item in items if item not in many)

    def _fits_in_memory(self, item: Logic) -> bool:
        """Whether all rows of a part may be stored with those of a window: they bind all variables; and a part over the
        store is one triple pattern without too many rows."""
        if item.variables != item.certain or not item.variables:
            return False
        if not reads_store(item):
            return True
        merged = isinstance(item, Select) and isinstance(item.inner, Alternatives)
        return merged and self._estimates.peak(item, NO_NAMES) < _COPIED_ROWS_MAX

    def _closing(self, item: Logic, others: Ordered, wire: Wire) -> list[Logic]:
        """The other patterns that lead from bound variables to the same new variable as `item`: they close cycles, and
        are joined together with it."""
        new = self._leads_to(item, wire)
        return [] if new is None else others.take_of(new, lambda other: self._leads_to(other, wire) == new)

    def _leads_to(self, item: Logic, wire: Wire) -> str | None:
        if not isinstance(item, PatternScan) or item.window is not None or item.variables & wire.maybe:
            return None
        return leads_to(self._pattern(item), wire.certain)

    def _intersection(self, items: Sequence[Logic], wire: Wire) -> Wire:
        sources = [item for item in items if isinstance(item, PatternScan)]
        operator = Intersection(wire.variables, tuple(map(self._pattern, sources)))
        certain = wire.certain.union(*(source.certain for source in sources))
        return self._add(operator, (wire,), certain, " and ".join(map(_shown, sources)), Conjunction(tuple(sources)))

    def _can_count(self, item: PatternScan, wire: Wire, unseen: Names) -> bool:
        return item.window is None and can_count(self._pattern(item), wire.certain, unseen)

    def _test_what_is_bound(self, waiting: Waiting, wire: Wire, ground: Ground) -> Wire:
        """Tests each condition as soon as all variables that it reads are bound for certain."""
        return self._tested(waiting.due(wire.certain), wire, ground)

    def _optional(self, node: Optional, wire: Wire, ground: Ground) -> Wire:
        left = self.extend(node.left, wire, ground)
        right = self._right_side(node.right, left, ground)
        merged, resources = merged_names(left, right), both_resources(left, right)
        testers = [Tester(merged, test.condition, self._sees(test, ground), resources) for test in node.tests]
        if any(test.questions for test in node.tests) or any(tester.is_volatile for tester in testers):
            return self._optional_with_questions(node, left, right, ground)
        operator = LeftJoinOperator(left.variables, right.variables, testers, maybe_of(left, right))
        return self._add(operator, (left, right), left.certain, "optional", node)

    def _optional_with_questions(self, node: Optional, left: Wire, right: Wire, ground: Ground) -> Wire:
        """Joins and tests the right side as any other part, then adds the left rows without a match."""
        open_ = tuple(v for v in left.variables if v in right.variables and v in maybe_of(left, right))
        marks = tuple(f"{v}'" if v in open_ else v for v in left.variables)
        marked = self._project(left, (*left.variables, *(f"{v}'" for v in open_)), (*left.variables, *open_))
        matched = self._tested(node.tests, self._joined(marked, right), ground)
        operator = Otherwise(left.variables, matched.variables, marks)
        return self._add(operator, (left, matched), left.certain, "optional", node)

    def _right_side(self, node: Logic, left: Wire, ground: Ground) -> Wire:
        """The right side for the values of the left side, if that is correct and not more work; else all of it."""
        ground = self._ground_of(node, ground)
        shared = tuple(v for v in left.variables if v in node.variables or v in ground.carried)
        seeds = frozenset(shared) - ground.carried
        is_cheaper = reads_store(node) or bool(ground.carried)
        if not seeds or not seeds <= left.certain or not takes(node, seeds) or not is_cheaper:
            return self.extend(node, ground.wire, ground)
        values = self._distinct(self._project(left, shared))
        return self._extended(node, values, ground)

    def _without(self, left: Wire, own: Logic, right: Logic, ground: Ground) -> Wire:
        if not own.variables & right.variables:
            return left  # nothing is compatible with what it shares no variable with
        other = self.extend(right, ground.wire, ground)
        hidden = frozenset(left.variables) - own.variables - ground.carried
        operator = MinusOperator(left.variables, other.variables, maybe_of(left, other), hidden, ground.carried)
        return self._add(operator, (left, other), left.certain, "minus")

    def _either(self, parts: list[Wire]) -> Wire:
        while len(parts) > _MERGED_MAX:
            # Each part is given the columns of all: of many parts some are given those of some first.
            parts = [self._either(parts[at : at + _MERGED_MAX]) for at in range(0, len(parts), _MERGED_MAX)]
        certain = parts[0].certain.intersection(*(part.certain for part in parts[1:]))
        return self._add(UnionOperator([part.variables for part in parts]), tuple(parts), certain, "union")

    def _assign(self, variable: str, test: Test, wire: Wire, ground: Ground) -> Wire:
        wire = self._answered(test, wire, ground)
        calculator = Calculator(wire.variables, test.condition, self._sees(test, ground), wire.resources)
        operator: Operator = ExtendOperator(wire.variables, (variable, calculator))
        if calculator.is_volatile:
            operator = Anew(wire.variables, operator, test.draws)
        return self._add(operator, (wire,), wire.certain, f"bind ?{variable}")

    def _assigned(self, each: Sequence[tuple[str, Test]], wire: Wire, ground: Ground) -> Wire:
        """Assigns variables one by one; of many, those at once that contain no question and do not depend on the
        moment."""
        if len(each) <= _ASSIGNED_MAX:
            for name, test in each:
                wire = self._assign(name, test, wire, ground)
            return wire
        at_once: list[tuple[str, Test]] = []
        for name, test in each:
            self._check()
            if test.questions or test.is_chance or len(at_once) == _ASSIGNED_MAX:
                wire, at_once = self._assigned_at_once(at_once, wire, ground), []
            if test.questions or test.is_chance:
                wire = self._assign(name, test, wire, ground)
            else:
                at_once.append((name, test))
        return self._assigned_at_once(at_once, wire, ground)

    def _assigned_at_once(self, each: Sequence[tuple[str, Test]], wire: Wire, ground: Ground) -> Wire:
        if not each:
            return wire
        columns, calculators = {name: place for place, name in enumerate(wire.variables)}, []
        for name, test in each:
            calculators.append((name, Calculator(columns, test.condition, self._sees(test, ground), wire.resources)))
            columns[name] = len(columns)
        return self._add(
            ExtendOperator(wire.variables, *calculators), (wire,), wire.certain, f"bind {len(each)} variables"
        )

    # ---- conditions ---------------------------------------------------------------------------------------------

    def _sees(self, test: Test, ground: Ground) -> Names:
        return test.sees | ground.carried

    def _tested(self, tests: Sequence[Test], wire: Wire, ground: Ground) -> Wire:
        for test in tests:
            keep = _single_question(test)
            if keep is not None:
                wire = self._with_answer(test.questions[0], self._sees(test, ground), keep, wire)
                continue
            wire = self._answered(test, wire, ground)
            tester = Tester(wire.variables, test.condition, self._sees(test, ground), wire.resources)
            operator: Operator = FilterOperator(wire.variables, tester)
            if tester.is_volatile:
                operator = Anew(wire.variables, operator, test.draws)
            wire = self._add(operator, (wire,), wire.certain, "filter")
        return wire

    def _answered(self, test: Test, wire: Wire, ground: Ground) -> Wire:
        """The wire, with a column for each question of the condition."""
        for question in test.questions:
            wire = self._with_answer(question, self._sees(test, ground), Keep.BOTH, wire)
        return wire

    def _with_answer(self, question: Existence, sees: Names, keep: Keep, wire: Wire) -> Wire:
        inside = mentioned(question.inner) & sees
        shared = tuple(v for v in wire.variables if v in inside)
        # A value that may be missing is carried under another name: the question may give the variable one.
        marks = tuple(v if v in wire.certain else f"{v}'" for v in shared)
        values = self._distinct(self._project(wire, shared))
        carried = self._project(values, (*shared, *(m for m in marks if m not in shared)), (*shared, *_unmarked(marks)))
        ground = Ground(carried, frozenset(carried.variables))
        found = self._project(self.extend(question.inner, carried, ground), shared, marks)
        certain = wire.certain | ({question.name} if keep is Keep.BOTH else NO_NAMES)
        return self._add(
            ExistsOperator(wire.variables, shared, keep, question.name), (wire, found), certain, keep.value.lower()
        )

    # ---- sub-SELECTs ----------------------------------------------------------------------------------------------

    def _sub_select(self, node: Select, wire: Wire, ground: Ground) -> Wire:
        shared = tuple(v for v in wire.variables if v in node.variables or v in ground.carried)
        seeds = frozenset(shared) - ground.carried
        start = ground.wire
        retained = tuple(v for v in start.variables if v in ground.carried)
        if seeds and seeds <= wire.certain and self._is_worth_it(node, seeds, wire.rows):
            start, retained = self._distinct(self._project(wire, shared)), shared
        rows, cut = self._selected(node, start, ground, retained)
        if cut != Cut(cut.variables, cut.variables):
            operator = Slice(cut, self._ranking(node, cut))
            rows = self._add(operator, (rows,), rows.certain & frozenset(cut.names), "order and limit")
        if start.stage == wire.stage and self._is_parameters(wire):
            return rows  # of the parameters themselves, which are among its columns
        return self._joined(wire, rows)

    def _ranking(self, node: Select, cut: Cut) -> Ranking | None:
        if not cut.is_by_appearance:
            return None
        place = self._places[node]
        self._sliced[place] += 1  # asked for values, one sub-SELECT is built for each question
        return self._orders.of(f"{place}/{self._sliced[place]}", cut)

    def _is_worth_it(self, node: Select, seeds: Names, values: float) -> bool:
        """Whether evaluating the node for given values is expected to be less work than all of it."""
        for_values = self._estimates.peak(node.inner, seeds) * values
        return for_values * 2 < self._estimates.peak(node.inner, NO_NAMES)

    def _selected(self, node: Select, start: Wire, ground: Ground, retained: tuple[str, ...]) -> tuple[Wire, Cut]:
        """From the pattern to the rows, for the values of `start`; `retained` are those of its columns that stay."""
        node = count_rows(node)
        unread = node.inner.variables - read_of(node) - frozenset(start.variables)
        if isinstance(node.inner, Conjunction) and takes(node.inner, frozenset(start.variables) - ground.carried):
            wire = self._conjunction(node.inner, start, ground, unread)
        elif isinstance(node.inner, PatternScan):
            wire = self._conjunction(Conjunction((node.inner,)), start, ground, unread)
        else:
            wire = self.extend(node.inner, start, ground)
        wire = self._assigned(node.before, wire, ground)
        if node.grouping is not None:
            wire = self._grouped(node.grouping, wire, start, retained)
        wire = self._tested(node.having, wire, ground)
        wire = self._assigned(node.after, wire, ground)
        names = (*retained, *(name for name in node.names if name not in retained), *_hidden(wire.variables))
        ordering = tuple(dict.fromkeys(v for v, _ in node.order if v not in names and v in wire.variables))
        wire = self._project(wire, names + ordering)
        distinct_at_end = node.distinct and bool(ordering)
        if node.distinct and not distinct_at_end:
            wire = self._distinct(wire)
        # What it is asked for: of a value that may be missing its mark says it, for the variable may have got another.
        per = tuple(v for v in retained if f"{v}'" not in retained) if node.is_cut else ()
        by_text = self._makes_terms and node.is_cut
        cut = Cut(wire.variables, names, node.order, distinct_at_end, node.offset, node.limit, per, by_text)
        return wire, cut

    def _grouped(self, grouping: Grouping, wire: Wire, start: Wire, retained: tuple[str, ...]) -> Wire:
        if not (grouping.always and retained):
            return self._groups(grouping, wire, retained)
        # One group for each of the values that are carried, also for those that have no row.
        counted = Aggregation(".rows", "COUNT", None, False, "")
        groups = self._groups(replace(grouping, aggregates=(*grouping.aggregates, counted)), wire, retained)
        values = self._distinct(self._project(start, retained))
        operator = LeftJoinOperator(values.variables, groups.variables, (), NO_NAMES)
        every = self._add(operator, (values, groups), values.certain, "every value")
        functions = [(each.variable, each.function) for each in grouping.aggregates]
        return self._add(NoRows(every.variables, ".rows", functions), (every,), every.certain, "groups without rows")

    def _groups(self, grouping: Grouping, wire: Wire, retained: tuple[str, ...]) -> Wire:
        keys = (*retained, *(key for key in grouping.keys if key not in retained))
        aggregates = tuple(
            Aggregated(each.variable, each.function, each.argument, each.distinct, each.separator, each.follows)
            for each in grouping.aggregates
        )
        inside, always = wire.variables, grouping.always and not retained
        variables = keys + tuple(each.variable for each in aggregates)
        operator = Grouped(
            variables, lambda vocabulary, control: GroupOperator(inside, keys, aggregates, vocabulary, always, control)
        )
        return self._add(operator, (wire,), wire.certain & frozenset(keys), f"group by {' '.join(keys)}")

    # ---- stages ---------------------------------------------------------------------------------------------------

    def _joined(self, left: Wire, right: Wire) -> Wire:
        if left.stage == self._unit.stage:
            return right
        if right.stage == self._unit.stage:
            return left
        stays = isinstance(self.plan.stages[right.stage].operator, TableSource)
        operator = JoinOperator(left.variables, right.variables, maybe_of(left, right), stays)
        return self._add(operator, (left, right), left.certain | right.certain, "join")

    def _distinct(self, wire: Wire) -> Wire:
        return self._add(Distinct(wire.variables), (wire,), wire.certain, "distinct")

    def _project(self, wire: Wire, names: tuple[str, ...], sources: tuple[str, ...] | None = None) -> Wire:
        sources = sources or names
        if sources == names == wire.variables:
            return wire
        certain = frozenset(name for name, source in zip(names, sources, strict=True) if source in wire.certain)
        return self._add(Project(wire.variables, names, sources), (wire,), certain, f"project {' '.join(names)}")

    def _add(
        self, operator: Operator, inputs: tuple[Wire, ...], certain: Names, label: str, node: Logic | None = None
    ) -> Wire:
        estimate = inputs[0].rows if inputs else 1.0
        if node is not None:
            estimate *= self._estimates.rows(node, inputs[0].certain if inputs else NO_NAMES)
        self.plan.stages.append(Stage(operator, tuple(wire.stage for wire in inputs), estimate, label))
        stage = len(self.plan.stages) - 1
        if node is None and inputs and operator.variables is inputs[0].variables and len(inputs) == 1:
            return replace(inputs[0], stage=stage, certain=certain, rows=estimate)
        names = frozenset(operator.variables)
        resources = resources_of(operator, inputs, node) & names
        return Wire(stage, operator.variables, certain & names, estimate, resources)


def _hidden(variables: tuple[str, ...]) -> tuple[str, ...]:
    """The columns with the numbers of evaluations."""
    return tuple(name for name in variables if name.startswith((CAME, GONE)))


def _only_once(whole: Conjunction) -> Names:
    """Variables that one of its parts mentions, and no other, and no test needs."""
    mentions = Counter(name for item in whole.items for name in mentioned(item))
    needed = NO_NAMES.union(*(test.needs for test in whole.tests))
    return frozenset(name for name, count in mentions.items() if count == 1) - needed


def _read_by(test: Test) -> Names:
    return test.mentions.union(*(mentioned(question.inner) for question in test.questions))


def _unmarked(marks: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(mark[:-1] for mark in marks if mark.endswith("'"))


def _single_question(test: Test) -> Keep | None:
    """What to keep if the condition is one question or its negation; None: it is something else."""
    if len(test.questions) != 1:
        return None
    name = Variable(test.questions[0].name)
    if test.condition == name:
        return Keep.WITH
    return Keep.WITHOUT if test.condition == Not(name) else None


def _shown(node: PatternScan) -> str:
    return " ".join(_node(part) for part in (node.subject, node.predicate, node.object))


def _node(node: object) -> str:
    return f"?{node.name}" if isinstance(node, Variable) else getattr(node, "text", b"").decode()
