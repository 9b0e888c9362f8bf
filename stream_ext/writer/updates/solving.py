"""The solutions of an update's pattern: the one place where an update asks the evaluator of queries.

While the writer solves a pattern, pushes wait. So a pattern that is expected to take long is solved *ahead*, in the
thread of the request, at the head of that moment. Then the writer checks whether an edge that the solutions depend on
has changed since. If none has, the solutions are the same at its turn; else it solves the pattern anew. So a request
sees exactly the snapshot before its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hbase_store import Snapshot, Store
from hbase_store.errors import SnapshotGone
from stream_ext.language.algebra.algebra import Pattern, QuadPattern
from stream_ext.language.algebra.statements import Modify
from stream_ext.language.algebra.terms import Constant
from stream_ext.oneshot.derived_graph import DerivedGraph
from stream_ext.oneshot.evaluate import (
    Asking,
    attached_to,
    pattern_network,
    solve,
    solve_with_graphs,
    where,
)
from stream_ext.plan.logic import GraphScope, Select
from stream_ext.plan.places import STORE, GraphsInScope, dataset
from stream_ext.plan.properties.features import asks_source, predicates_read
from stream_ext.rows.zset import ZSet
from stream_ext.values.vocabulary import Vocabulary
from stream_ext.writer.derived_graphs import DerivedGraphs
from stream_ext.writer.updates.templates import Solved
from stream_ext.writer.updates.working import Working

#: Patterns whose operators are expected to make fewer rows than this take the writer some milliseconds at most.
AHEAD_ROWS = 10_000.0
#: So many snapshots are looked through for changes at most.
_SNAPSHOTS_MAX = 1_000


@dataclass(frozen=True, slots=True)
class PatternRequest:
    """The pattern of an operation, and the use of its solutions."""

    pattern: Pattern
    variables: tuple[str, ...]
    of: GraphsInScope
    deletes: Sequence[QuadPattern]


@dataclass(frozen=True, slots=True)
class Ahead:
    """Solutions at snapshot `sn`, which depend on edges of these predicates alone (None: of any)."""

    sn: int
    solved: Solved
    predicates: frozenset[bytes] | None

    def is_current(self, store: Store) -> bool:
        """Whether the solutions are the same at the head."""
        head = int(store.head())
        if head - self.sn > _SNAPSHOTS_MAX:
            return False
        known = None if self.predicates is None else [int(id) for id in store.ids(sorted(self.predicates)) if id]
        try:
            return not any(_changed(store, sn, known) for sn in range(self.sn + 1, head + 1))
        except SnapshotGone:
            return False  # the changes since are collected


def _changed(store: Store, sn: int, predicates: list[int] | None) -> bool:
    # What a load brought is much to look through, and mostly news.
    return bool(store.row(sn).load_run) or bool(len(store.net_changes(sn, predicates)))


def solutions(request: PatternRequest, working: Working) -> Solved:
    """The solutions over the store after the operations before."""
    vocabulary = Vocabulary(working.preview.ids, working.preview.terms)
    graphs = working.derived.of_pattern(request.pattern, request.of)
    snapshot = working.snapshot
    select = _select(request, working.asking, snapshot, vocabulary, graphs)
    found = solve_with_graphs(select, graphs, snapshot, vocabulary, working.asking)
    return _solved(request.variables, found, vocabulary)


def solved_ahead(request: PatternRequest, store: Store, sn: int, asking: Asking) -> Ahead | None:
    """The solutions at snapshot `sn`; None: the pattern is cheap, and is left to the writer. Derived graphs are not
    read here, because they may change meanwhile."""
    vocabulary = Vocabulary(store.permanent_ids, store.terms)
    snapshot = store.at(sn)
    select = _select(request, asking, snapshot, vocabulary)
    network = pattern_network(select, snapshot, vocabulary, check=asking.control.check)
    if network.expected() < AHEAD_ROWS and not asks_source(select):
        return None
    solved = _solved(request.variables, solve(network, snapshot, vocabulary, asking), vocabulary)
    read, deleted = predicates_read(select), _predicates_of(request.deletes)
    return Ahead(sn, solved, None if read is None or deleted is None else read | deleted)


def solved_over_both(request: PatternRequest, store: Store, asking: Asking, derived: DerivedGraphs) -> Solved:
    """The solutions over both stores: our own store at its snapshot, and the source."""
    vocabulary = Vocabulary(*store.lasting_terms())
    graphs, snapshot = derived.of_pattern(request.pattern, request.of), store.at(derived.sn)
    select = _select(request, asking, snapshot, vocabulary, graphs)
    return _solved(request.variables, solve_with_graphs(select, graphs, snapshot, vocabulary, asking), vocabulary)


def _select(
    request: PatternRequest,
    asking: Asking,
    snapshot: Snapshot,
    vocabulary: Vocabulary,
    graphs: Sequence[DerivedGraph] = (),
) -> Select:
    attached = attached_to(asking, snapshot, vocabulary)
    return where(request.pattern, request.variables, request.of, graphs, asking.control.check, attached)


def _predicates_of(quads: Sequence[QuadPattern]) -> frozenset[bytes] | None:
    """A term of the solutions that nobody knew deletes nothing; by now there may be edges that it names."""
    found = {quad.predicate.text for quad in quads if isinstance(quad.predicate, Constant)}
    return frozenset(found) if all(isinstance(quad.predicate, Constant) for quad in quads) else None


def _solved(variables: Sequence[str], found: ZSet, vocabulary: Vocabulary) -> Solved:
    weights = found.weight_array()
    columns = found.columns if found.weights is None else tuple(np.repeat(column, weights) for column in found.columns)
    return Solved(dict(zip(variables, columns, strict=True)), int(weights.sum()), vocabulary)


def dataset_of(operation: Modify) -> GraphsInScope:
    """USING says what the pattern is solved over; without it WITH does, for the default graph."""
    if operation.using:
        return dataset(operation.using, windowed=False)
    if operation.graph is not None:
        return GraphsInScope(GraphScope(graphs=(operation.graph,)), None)
    return STORE
