"""Own quads: whether our own store has anything that matches a triple pattern, by exact counts at a snapshot.

?s :p ?o in the default graph       =>   the number of edges of :p
:a ?p ?o in GRAPH ?g                =>   whether :a has an edge in a named graph"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from hbase_store import NAMED, Snapshot
from hbase_store.arrays import Ids
from stream_ext.errors import SourceFailed
from stream_ext.language.algebra.terms import Constant, Node
from stream_ext.plan.logic import DEFAULT_GRAPH, GraphScope
from stream_ext.plan.sources.exclusive import Attached
from stream_ext.remote.fetching import CannotFetch
from stream_ext.remote.sources import Sources

_DEFAULT = 0

#: From a term to its id in the store; 0: it has none.
Resolve = Callable[[bytes], int]


def attached_of(sources: Sources, snapshot: Snapshot, resolve: Resolve) -> Attached | None:
    """What a plan needs to know of the source main; None: there is none. SourceFailed if it is away, and what it is was
    never found out."""
    if (source := sources.main) is None:
        return None
    try:
        return Attached(source.traits, OwnQuads(snapshot, resolve).holds)
    except CannotFetch as error:
        raise SourceFailed(str(error)) from None


class OwnQuads:
    def __init__(self, snapshot: Snapshot, resolve: Resolve) -> None:
        self._snapshot, self._resolve = snapshot, resolve
        self._known: dict[tuple[Node, Node, Node, GraphScope], bool] = {}

    def holds(self, subject: Node, predicate: Node, target: Node, scope: GraphScope) -> bool:
        """Whether any quad matches. Of a pattern that names a node and no predicate, whether one has that node."""
        key = (subject, predicate, target, scope)
        if key not in self._known:
            self._known[key] = self._found(*key)
        return self._known[key]

    def _found(self, subject: Node, predicate: Node, target: Node, scope: GraphScope) -> bool:
        s, p, o = self._id(subject), self._id(predicate), self._id(target)
        if 0 in (s, p, o):
            return False  # a term that the store has never seen
        return any(self._found_in(graph, s, p, o) for graph in self._graphs(scope))

    def _found_in(self, graph: int, s: int | None, p: int | None, o: int | None) -> bool:
        if p is None:
            return self._found_of_any(graph, s, o)
        if s is not None:
            objects = self._snapshot.neighbours(p, _key(s), False, graph)[1:][0]
            return bool(len(objects)) if o is None else bool(np.any(objects == np.uint64(o)))
        if o is not None:
            return bool(self._snapshot.neighbours(p, _key(o), True, graph)[0][-1])
        return self._snapshot.count(p, graph) > 0

    def _found_of_any(self, graph: int, s: int | None, o: int | None) -> bool:
        if s is not None:
            return bool(len(self._snapshot.predicates_of(_key(s), False, graph)[1]))
        if o is not None:
            return bool(len(self._snapshot.predicates_of(_key(o), True, graph)[1]))
        return bool(len(self._snapshot.predicates(graph)))

    def _id(self, node: Node) -> int | None:
        return self._resolve(node.text) if isinstance(node, Constant) else None

    def _graphs(self, scope: GraphScope) -> list[int]:
        if scope.everything:
            return [_DEFAULT, NAMED]
        if isinstance(scope.node, Constant):
            id = 0 if scope.graphs is not None else self._resolve(scope.node.text)
            return [id] if id else []
        if scope.graphs is not None:
            # Some of them the store may never have seen.
            ids = (_DEFAULT if graph == DEFAULT_GRAPH else self._resolve(graph.text) or None for graph in scope.graphs)
            return [id for id in ids if id is not None]
        return [_DEFAULT if scope.node is None else NAMED]


def _key(id: int) -> Ids:
    return np.array([id], np.uint64)
