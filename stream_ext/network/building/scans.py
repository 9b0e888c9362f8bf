"""Scans: the parts of a query that read something: the store, a window, graphs, paths, a remote store."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from stream_ext.language.algebra.terms import Variable
from stream_ext.network.building.wiring import Wiring
from stream_ext.network.operators.core.pattern import UNKNOWN, G, IdGraph, IdPattern, O, P, S, id_graph, id_pattern
from stream_ext.network.operators.joins.graph_join import GraphJoin
from stream_ext.network.operators.joins.store_join import StoreJoin
from stream_ext.network.operators.paths.id_path import IdPath, id_path, may_be_empty, predicates_of
from stream_ext.network.operators.paths.path_join import PathJoin
from stream_ext.network.operators.remote.remote_question import call_of
from stream_ext.network.operators.remote.service import ServiceOperator
from stream_ext.network.operators.remote.source_evaluation import SourceEvaluation
from stream_ext.network.operators.remote.source_join import SourceJoin
from stream_ext.network.operators.rowwise.sources import TableOperator as TableSource
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
from stream_ext.network.wires import Wire
from stream_ext.plan.logic import (
    GraphNames,
    GraphScope,
    Logic,
    Names,
    PathSource,
    PatternScan,
    Remote,
    SourceEvaluated,
)
from stream_ext.plan.places import NOWHERE
from stream_ext.plan.properties.named_terms import predicates_in
from stream_ext.rows.key_range import KeyRange
from stream_ext.windows.scheduled_window import ScheduledWindow


class IdPatterns:
    """The patterns of a query, their terms as ids."""

    def __init__(self, resolve: Callable[[bytes], int], held: bool, keys: KeyRange | None = None) -> None:
        """`resolve`: from the text of a term to its id. `held`: patterns over the store read held edges, too. `keys`:
        patterns over windows have only what is in this range."""
        self.resolve, self._held, self.keys = resolve, held, keys
        self._of: dict[PatternScan, IdPattern] = {}

    @property
    def is_registered(self) -> bool:
        """Whether they are those of a query that is evaluated again and again."""
        return self._held

    def of(self, source: PatternScan) -> IdPattern:
        if source not in self._of:
            pattern, keys = id_pattern(source, self.resolve, self._held), self.keys
            own = keys is not None and source.window is not None and keys.variable in pattern.variables
            self._of[source] = pattern.in_range(keys) if keys is not None and own else pattern
        return self._of[source]

    def graph(self, scope: GraphScope, window: str | None, own: bool = False) -> IdGraph:
        """`own`: without what is held."""
        return id_graph(scope, self.resolve, self._held and window is None and not own)


class Scans:
    """Each method joins what one part reads with the solutions so far."""

    def __init__(self, wiring: Wiring, patterns: IdPatterns, windows: Mapping[str, ScheduledWindow]) -> None:
        self._wiring, self._patterns, self._windows = wiring, patterns, windows

    def scan(self, node: PatternScan, wire: Wire) -> Wire:
        pattern = self._patterns.of(node)
        if node.window is None:
            operator = StoreJoin(wire.variables, pattern, wire.maybe)
            return self._wiring.add(operator, (wire,), wire.certain | node.certain, shown(node), node)
        window, label = self._windows[node.window], f"{shown(node)} in {node.window}"
        shared = self._wiring.parameters
        parameters = () if shared is None else shared.variables
        watched = next((v for v in pattern.variables if v in parameters), None)
        if self._wiring.is_numbered:
            return self._wiring.joined(wire, self._numbered(node, window, pattern, watched, label))
        if window.count is not None:
            return self._wiring.joined(wire, self._counted(node, node.window, pattern, label))
        if node.time is not None:
            scan: WindowScan = TimedScan(window, pattern, node.time)
        elif node.occurrence is not None:
            scan = OccurrenceScan(window, pattern, node.occurrence)
        elif watched is not None:
            scan = WatchedScan(window, pattern, parameters, watched)
        else:
            scan = WindowScan(window, pattern, node.as_bag or window.bag)
        self._wiring.plan.scans.append(scan)
        inputs = (shared,) if isinstance(scan, WatchedScan) and shared is not None else ()
        return self._wiring.joined(wire, self._wiring.add(scan, inputs, node.certain, label, node))

    def _numbered(
        self, node: PatternScan, window: ScheduledWindow, pattern: IdPattern, watched: str | None, label: str
    ) -> Wire:
        number, shared, inputs = len(self._wiring.plan.scans), self._wiring.parameters, tuple[Wire, ...]()
        scan: NumberedScan | NumberedWatchedScan | NumberedCountedScan
        if (displacing := self._wiring.plan.displacing.get(window.name)) is not None:
            scan = NumberedCountedScan(window, pattern, displacing, f"{CAME}{number}", f"{GONE}{number}")
        elif watched is not None and shared is not None:
            scan = NumberedWatchedScan(window, pattern, shared.variables, watched, f"{CAME}{number}")
            inputs = (shared,)
        else:
            scan = NumberedScan(window, pattern, f"{CAME}{number}")
        self._wiring.plan.scans.append(scan)
        return self._wiring.add(scan, inputs, node.certain.union(scan.variables), label, node)

    def _counted(self, node: PatternScan, name: str, pattern: IdPattern, label: str) -> Wire:
        window, counted = self._windows[name], self._wiring.plan.counted[name]
        scan: CountedScan | LatestCountedScan
        if node.time is not None:
            scan = LatestCountedScan(window, pattern, counted, (".time", ".arrival", ".place"), node.time)
        elif node.occurrence is not None and not window.bag:
            scan = LatestCountedScan(window, pattern, counted, node.occurrence)
        elif node.occurrence is not None or node.as_bag or window.bag:
            scan = CountedScan(window, pattern, counted, node.occurrence or ())
        else:
            return self._scanned(name, pattern, node.certain, label, node)
        self._wiring.plan.scans.append(scan)
        return self._wiring.add(scan, (), node.certain, label, node)

    def _scanned(self, name: str, pattern: IdPattern, certain: Names, label: str, node: Logic | None = None) -> Wire:
        """What a pattern finds in a window, as a set."""
        counted = self._wiring.plan.counted.get(name)
        if counted is None:
            scan: WindowScan | CountedScan = WindowScan(self._windows[name], pattern)
        else:
            scan = CountedScan(self._windows[name], pattern, counted)
        self._wiring.plan.scans.append(scan)
        wire = self._wiring.add(scan, (), certain, label, node)
        return wire if counted is None else self._wiring.distinct(wire)

    def graph_names(self, node: GraphNames, wire: Wire) -> Wire:
        graph, label = self._patterns.graph(node.graph, node.window, node.own), f"graphs {shown_node(node.graph.node)}"
        if node.window is None:
            operator = GraphJoin(wire.variables, graph, wire.maybe)
            return self._wiring.add(operator, (wire,), wire.certain | node.certain, label, node)
        binding = {} if graph.each is None else {G: graph.each}
        pattern, label = IdPattern({}, binding, graph), f"{label} in {node.window}"
        return self._wiring.joined(wire, self._scanned(node.window, pattern, node.certain, label, node))

    def remote(self, node: Remote, wire: Wire) -> Wire:
        service, call = node.service, call_of(node)
        if node.group is not None:
            both = " beside the store" if node.group.unless is not None else ""
            label = f"source {shown_node(service)}{both}"
            return self._wiring.add(SourceJoin(wire.variables, call), (wire,), wire.certain | node.certain, label, node)
        label = f"service {shown_node(service)}"
        return self._wiring.add(ServiceOperator(wire.variables, call), (wire,), wire.certain, label, node)

    def evaluated_by_source(self, node: SourceEvaluated) -> Wire:
        windows = tuple(self._all_triples(name, IdGraph()) for name in node.windows)
        label = f"evaluated as a whole, with {', '.join(f'<{iri}>' for iri in node.functions)}"
        return self._wiring.add(SourceEvaluation(node), windows, node.certain, label, node)

    def path(self, node: PathSource, wire: Wire) -> Wire:
        path = id_path(node.path, lambda text: self._patterns.resolve(text) or UNKNOWN)
        subject, object = (end.name if isinstance(end, Variable) else end for end in (node.subject, node.object))
        graph = self._patterns.graph(node.graph, node.window, node.own)
        given = node.window is not None or bool(node.merged)
        source = None if given or node.edges is None else call_of(node.edges)
        operator = PathJoin(wire.variables, subject, path, object, graph, wire.maybe, source, node.own)
        label = f"{shown_node(node.subject)} path {shown_node(node.object)}"
        inputs: tuple[Wire, ...] = (wire,)
        if given:
            inputs += (self._edges(node, path, graph),)
        return self._wiring.add(operator, inputs, wire.certain | node.certain, label, node)

    def _edges(self, node: PathSource, path: IdPath, graph: IdGraph) -> Wire:
        """The triples of the windows that a path is over, and of what is merged with them."""
        if node.window is not None:
            return self._all_triples(node.window, graph)
        found = [self._all_triples(name, IdGraph()) for name in node.merged]
        if node.graph != NOWHERE:
            found.append(self._stored_edges(node, path, graph))
        if node.edges is not None:
            found.append(self._edges_of_source(node.edges, graph))
        return self._wiring.union(found)

    def _edges_of_source(self, node: Remote, graph: IdGraph) -> Wire:
        wire = self.remote(node, self._wiring.unit)
        named = () if graph.each is None else (graph.each,)
        return self._wiring.project(wire, (*"spo", *("g" for _ in named)), (*"spo", *named))

    def _all_triples(self, window: str, graph: IdGraph) -> Wire:
        """All triples of a window; with their graphs, if graphs are distinguished."""
        binding = {S: "s", P: "p", O: "o"} | ({G: "g"} if graph.each is not None else {})
        pattern = IdPattern({}, binding, graph)
        return self._scanned(window, pattern, frozenset(pattern.variables), f"all triples in {window}")

    def _stored_edges(self, node: PathSource, path: IdPath, graph: IdGraph) -> Wire:
        """The edges of the store for a path: those of its predicates; all edges, if every node is a result of the
        path."""
        start = self._wiring.unit
        if predicates_of(path) is not None and not may_be_empty(path):
            table = TableSource(("p",), tuple((predicate,) for predicate in dict.fromkeys(predicates_in(node.path))))
            start = self._wiring.add(table, (), frozenset("p"), "the path's predicates")
        named = () if graph.each is None else ("g",)
        binding = {S: "s", P: "p", O: "o"} | ({G: "g"} if named else {})
        operator = StoreJoin(start.variables, IdPattern({}, binding, graph), start.maybe)
        found = self._wiring.add(operator, (start,), frozenset((*"spo", *named)), "all triples that it may take")
        return self._wiring.project(found, (*"spo", *named))


def shown(node: PatternScan) -> str:
    return " ".join(shown_node(part) for part in (node.subject, node.predicate, node.object))


def shown_node(node: object) -> str:
    return f"?{node.name}" if isinstance(node, Variable) else getattr(node, "text", b"").decode()
