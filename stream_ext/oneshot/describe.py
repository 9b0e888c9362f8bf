"""DESCRIBE: the triples of resources in the default graph, and those of the blank nodes that they lead to.

(A concise bounded description. Which triples describe a resource is left to the service by SPARQL.)"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hbase_store import Snapshot
from hbase_store.layout import terms
from stream_ext.evaluation_budget import Control
from stream_ext.network.operators.core.pattern import IdGraph
from stream_ext.network.operators.joins.store_edges import StoreEdges
from stream_ext.rows.zset import Ids

#: Cells of a triple, while it is found and added to the others.
_WIDTH = 6

Triples = tuple[Ids, Ids, Ids]


def describe(
    resources: Ids,
    snapshot: Snapshot,
    graph: IdGraph,
    control: Control = Control.FREE,
    extra: Sequence[Triples] = (),
) -> Triples:
    """`extra`: triples of the default graph that are not in the store."""
    edges = StoreEdges(snapshot, graph, control)
    parts: list[Triples] = []
    found_count = 0
    waiting, seen = np.unique(resources), np.empty(0, np.uint64)
    while len(waiting):
        control.check()
        found = _triples_of(waiting, edges)
        if extra:
            found = _distinct([found, *(_of_subjects(waiting, each) for each in extra)])
        parts.append(found)
        found_count += len(found[0])
        control.room(found_count, _WIDTH)
        seen = np.union1d(seen, waiting)
        blanks = found[2][terms.tag_of(found[2]) == terms.BLANK]
        waiting = np.setdiff1d(blanks, seen)
    return _together(parts)


def _triples_of(subjects: Ids, edges: StoreEdges) -> Triples:
    places, predicates = edges.predicates_of(subjects, False)
    parts: list[Triples] = []
    for predicate in np.unique(predicates).tolist():
        keys = subjects[places[predicates == predicate]]
        i, values, _ = edges.neighbours(predicate, keys, False)
        s = keys if i is None else keys[i]
        parts.append((s, np.full(len(s), predicate, np.uint64), values))
    return _together(parts)


def _of_subjects(subjects: Ids, triples: Triples) -> Triples:
    s, p, o = triples
    of_them = np.isin(s, subjects)
    return s[of_them], p[of_them], o[of_them]


def _together(parts: list[Triples]) -> Triples:
    if not parts:
        return np.empty(0, np.uint64), np.empty(0, np.uint64), np.empty(0, np.uint64)
    s, p, o = (np.concatenate([part[i] for part in parts]) for i in range(3))
    return s, p, o


def _distinct(parts: list[Triples]) -> Triples:
    s, p, o = np.unique(np.stack(_together(parts)), axis=1)
    return s, p, o
