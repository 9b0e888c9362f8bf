"""Ahead: what a plan will look up in a store of another process is brought with few requests, before it is looked up.

    { ?p ex:city city:7 ; foaf:name ?name ; foaf:age ?age }      one request: the people of city:7, names, ages

A request is a round trip. One for each pattern, one after the other, would be most of the time that a query takes whose
columns are not in memory yet. Large columns are not brought as a whole, so for those nothing changes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from hbase_store import Snapshot
from hbase_store.edges.layers import Lookup
from hbase_store.layout import terms
from hbase_store.sorted.view import FORWARD, INVERSE
from stream_ext.language.algebra.terms import Constant, Variable
from stream_ext.network.operators.core.pattern import IdPattern, O, P, S
from stream_ext.network.operators.joins.intersection import Intersection
from stream_ext.network.operators.joins.store_join import StoreJoin
from stream_ext.network.wires import Stage
from stream_ext.plan.logic import GraphScope, Logic, PathSource, PatternScan, nodes_of
from stream_ext.plan.properties.named_terms import predicates_in

_DEFAULT = GraphScope()


def fetch_for_planning(snapshot: Snapshot, logic: Logic, id_of: Callable[[bytes], int]) -> None:
    """Before the joins are ordered: the edges of constants, which are counted for it; and small columns by subject, the
    way that most joins go. `id_of`: of the constants; 0 for one that the store does not know."""
    nodes = [*nodes_of(logic)]
    lookups = [lookup for node in nodes for lookup in _of_node(node, id_of)]
    if lookups and snapshot.layers.is_remote:
        _fetch(snapshot, [*lookups, *_of_several_constants(nodes, id_of)])


def fetch_for_joins(snapshot: Snapshot, stages: Sequence[Stage]) -> None:
    """When the joins are ordered: what they look up the other way."""
    if snapshot.layers.is_remote:
        _fetch(snapshot, [lookup for stage in stages for lookup in _of_stage(stage, stages)])


def _fetch(snapshot: Snapshot, lookups: list[Lookup]) -> None:
    lookups = [lookup for lookup in lookups if lookup.predicate and (lookup.keys is None or lookup.keys[0])]
    if snapshot.has_held:
        lookups += [Lookup(terms.held(lookup.predicate), lookup.order, lookup.keys) for lookup in lookups]
    if lookups:
        snapshot.read(lambda layers: layers.fetch(lookups))


def _of_node(node: Logic, id_of: Callable[[bytes], int]) -> Iterator[Lookup]:
    match node:
        case PatternScan(subject, Constant() as predicate, target, graph) if node.window is None and graph == _DEFAULT:
            keys = None
            order = INVERSE if isinstance(target, Constant) and not isinstance(subject, Constant) else FORWARD
            if isinstance(end := (subject, target)[order], Constant):
                keys = np.array([id_of(end.text)], np.uint64)
            yield Lookup(id_of(predicate.text), order, keys)
        case PathSource(_, path, _, graph) if node.window is None and graph == _DEFAULT:
            for predicate in predicates_in(path):
                yield Lookup(id_of(predicate.text), FORWARD, None)
                yield Lookup(id_of(predicate.text), INVERSE, None)


def _of_several_constants(nodes: Sequence[Logic], id_of: Callable[[bytes], int]) -> Iterator[Lookup]:
    """Of patterns with a constant object that share their subject, all but one will be looked up by subject."""
    found: defaultdict[str, list[Constant]] = defaultdict(list)
    for node in nodes:
        match node:
            case PatternScan(Variable(name), Constant() as predicate, Constant(), graph) if node.window is None:
                if graph == _DEFAULT:
                    found[name].append(predicate)
    for predicates in found.values():
        if len(predicates) > 1:
            yield from (Lookup(id_of(predicate.text), FORWARD, None) for predicate in predicates)


def _of_stage(stage: Stage, stages: Sequence[Stage]) -> Iterator[Lookup]:
    operator = stage.operator
    patterns: Sequence[IdPattern] = (operator.pattern,) if isinstance(operator, StoreJoin) else ()
    if isinstance(operator, Intersection):
        patterns = operator.patterns
    left = frozenset(name for number in stage.inputs for name in stages[number].operator.variables)
    for pattern in patterns:
        if P in pattern.fixed and pattern.graph.one == 0 and not {S, O} & pattern.fixed.keys():
            yield Lookup(pattern.fixed[P], _order(pattern, left), None)


def _order(pattern: IdPattern, left: frozenset[str]) -> int:
    """From which end a join with solutions of these variables comes."""
    return INVERSE if pattern.binding[O] in left and pattern.binding[S] not in left else FORWARD
