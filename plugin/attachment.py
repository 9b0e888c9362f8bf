"""`Attachment`: the state that all rdflib graphs of one process over one store share: service, changes, labels.

Changes are collected until the next read or commit, and written as one snapshot. Of several changes of the same quad
the last one counts."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from typing import cast

import numpy as np
from rdflib import BNode
from rdflib.query import Result
from rdflib.term import Node

from hbase_store import Batch, Rows, Snapshot
from hbase_store.layout.terms import BLANK, TAG_SHIFT, blank_id, inline_text
from plugin.backend import ANYTHING, Quad, TriplePattern
from plugin.match import DEFAULT_GRAPH, Pattern, Quads, match
from plugin.sparql import Sparql, SparqlRequest
from plugin.terms import Labels, to_bytes, to_node
from stream_ext.language.algebra.terms import Constant
from stream_ext.service.service import Service
from stream_ext.writer.change import HeadView, Intent

#: Stands for the id of a term that is not in the store.
ABSENT = -1
MET_MAX = 1 << 16


class Attachment:
    def __init__(self, service: Service) -> None:
        self.service = service
        self.labels = Labels()
        self.namespaces: dict[str, str] = {}
        self.graphs: dict[Node, None] = {}  # graphs that this process created, empty ones too
        self._met: dict[int, Node] = {}  # terms that were read lately: to build one for rdflib takes microseconds
        self._pending: dict[Quad, bool] = {}  # True: inserted; False: deleted
        self._uncommitted: list[int] = []  # snapshots written for a read since the last commit: a rollback undoes them
        self._lock = threading.RLock()

    # ---- changes

    def change(self, quads: Iterable[Quad], inserted: bool) -> None:
        with self._lock:
            for quad in quads:
                self._pending.pop(quad, None)  # so that the dict is in the order of the last changes
                self._pending[quad] = inserted

    def remove(self, pattern: TriplePattern, graph: Node | None, everywhere: bool) -> None:
        s, p, o = pattern
        if not everywhere and s is not None and p is not None and o is not None:
            self.change([(s, p, o, graph)], False)
        else:
            self.change(list(self.quads([pattern], graph, everywhere)), False)

    def commit(self) -> None:
        with self._lock:
            self.write()
            self._uncommitted.clear()

    def rollback(self) -> None:
        """Undoes all changes since the last commit; snapshots that were written for a read are undone newest first."""
        with self._lock:
            self._pending.clear()
            if self._uncommitted:
                back = [self.service.store.net_changes(sn) for sn in reversed(self._uncommitted)]
                self.service.change(_Undo(back))
                self._uncommitted.clear()

    def write(self) -> None:
        """Writes the pending changes as one snapshot."""
        with self._lock:
            pending, self._pending = self._pending, {}
            if not pending:
                return
            inserted = [quad for quad, there in pending.items() if there]
            try:
                sn = self.service.change(_Change(self, inserted, [quad for quad in pending if not pending[quad]]))
            except BaseException:
                self._pending = pending  # nothing was written: the changes are still pending
                raise
            self._uncommitted.append(sn)

    # ---- reading

    def quads(self, patterns: Sequence[TriplePattern], graph: Node | None, everywhere: bool) -> Iterator[Quad]:
        snapshot = self.snapshot()
        blocks = [block for pattern in patterns for block in self.match(snapshot, pattern, graph, everywhere)]
        nodes = self.nodes_of([column for block in blocks for column in _columns(block)])
        for block in blocks:
            for s, p, o, g in zip(*(column.tolist() for column in _columns(block)), strict=True):
                yield nodes[s], nodes[p], nodes[o], nodes.get(g)

    def count(self, graph: Node | None, everywhere: bool) -> int:
        snapshot = self.snapshot()
        if not everywhere:
            id = DEFAULT_GRAPH if graph is None else self.id_of(graph)
            return 0 if id == ABSENT else snapshot.count_all(id)
        if not len(snapshot.graphs()):
            return snapshot.count_all()
        return _distinct_triples(self.match(snapshot, ANYTHING, None, everywhere=True))

    def graphs_with(self, pattern: TriplePattern) -> list[Node | None]:
        """The graphs that have triples of a pattern; None stands for the default graph."""
        snapshot = self.snapshot()
        if pattern == ANYTHING:
            graphs = [*([DEFAULT_GRAPH] if snapshot.count_all() else []), *snapshot.graphs().tolist()]
        else:
            blocks = self.match(snapshot, pattern, None, everywhere=True)
            graphs = sorted({int(g) for block in blocks for g in np.unique(block.g).tolist()})
        nodes = self.nodes_of([np.array(graphs, np.uint64)])
        return [nodes.get(graph) for graph in graphs]

    def query(self, request: SparqlRequest) -> Result:
        return Sparql(self, request).query()

    def update(self, request: SparqlRequest) -> None:
        Sparql(self, request).update()

    def snapshot(self) -> Snapshot:
        self.write()
        return self.service.store.at()

    def match(
        self, snapshot: Snapshot, triple: Sequence[Node | None], graph: Node | None, everywhere: bool
    ) -> list[Quads]:
        """The quads that match, in `graph` (None: the default graph) or in all graphs."""
        s, p, o = (None if node is None else self.id_of(node) for node in triple)
        g = None if everywhere else DEFAULT_GRAPH if graph is None else self.id_of(graph)
        if ABSENT in (s, p, o, g):
            return []
        return list(match(snapshot, Pattern(s, p, o, g)))

    def id_of(self, node: Node) -> int:
        """The node's id in the store, or ABSENT."""
        if isinstance(node, BNode):
            number = self.number_of(node)
            return ABSENT if number is None else blank_id(number)
        return int(self.service.store.permanent_ids([to_bytes(node)])[0]) or ABSENT

    def number_of(self, node: BNode) -> int | None:
        """The blank node's number in the store; None: it is not in the store."""
        return self.labels.number(str(node), self._is_in_store)

    def graph_names(self) -> list[Constant]:
        """The named graphs of the store."""
        store = self.service.store
        return [Constant(text) for text in store.terms(store.at().graphs())]

    def is_graph(self, name: BNode) -> bool:
        """Whether this blank node is the name of a graph."""
        if name in self.graphs:
            return True
        number = self.number_of(name)
        if number is None:
            return False
        return any(True for _ in match(self.service.store.at(), Pattern(None, None, None, blank_id(number))))

    def nodes_of(self, ids: Sequence[np.ndarray]) -> dict[int, Node]:
        """rdflib's term for every distinct id but 0; those that were not read lately are decoded in one call."""
        if not ids:
            return {}
        distinct = np.unique(np.concatenate(ids))
        met = self._met
        nodes = {id: met.get(id) for id in distinct[distinct != 0].tolist()}
        unmet = [id for id, node in nodes.items() if node is None]
        if unmet:
            texts = self.service.store.terms(np.array(unmet, np.uint64))
            fresh = {id: to_node(text, self.labels) for id, text in zip(unmet, texts, strict=True)}
            if len(met) + len(fresh) > MET_MAX:
                self._met = met = {}
            if len(fresh) <= MET_MAX:
                met.update(fresh)
            nodes.update(fresh)
        return cast("dict[int, Node]", nodes)

    def _is_in_store(self, number: int) -> bool:
        """Whether some quad of the store has this blank node."""
        snapshot, id = self.service.store.at(), blank_id(number)
        patterns = (Pattern(id, None, None, None), Pattern(None, None, id, None), Pattern(None, None, None, id))
        return any(True for pattern in patterns for _ in match(snapshot, pattern))


class _Change:
    """The pending changes, as a change of the store: it becomes one snapshot."""

    def __init__(self, attachment: Attachment, inserted: list[Quad], deleted: list[Quad]) -> None:
        self._attachment, self._inserted, self._deleted = attachment, inserted, deleted

    def __call__(self, view: HeadView) -> Intent:
        return Intent(result=lambda sn: sn, write=self._write)

    def _write(self, batch: Batch) -> None:
        known = self._known_deletions()
        if known:
            batch.delete(*np.array(known, np.uint64).T)
        if self._inserted:
            batch.insert(*self._encoded(batch))

    def _known_deletions(self) -> list[list[int]]:
        """The deletions as ids, without those with a term that is not in the store."""
        id_of = self._attachment.id_of
        rows = [[DEFAULT_GRAPH if node is None else id_of(node) for node in quad] for quad in self._deleted]
        return [row for row in rows if ABSENT not in row]

    def _encoded(self, batch: Batch) -> np.ndarray:
        nodes = list(dict.fromkeys(node for quad in self._inserted for node in quad if node is not None))
        named = [node for node in nodes if not isinstance(node, BNode)]
        ids = dict(zip(named, batch.encode([to_bytes(node) for node in named]).tolist(), strict=True))
        ids |= self._blank_ids(batch, [node for node in nodes if isinstance(node, BNode)])
        return np.array([[0 if node is None else ids[node] for node in quad] for quad in self._inserted], np.uint64).T

    def _blank_ids(self, batch: Batch, blanks: list[BNode]) -> dict[Node, int]:
        known: dict[Node, int] = {node: self._attachment.id_of(node) for node in blanks}
        fresh = [node for node, id in known.items() if id == ABSENT]
        if fresh:
            for node, id in zip(fresh, batch.blanks(len(fresh)).tolist(), strict=True):
                known[node] = id
                self._attachment.labels.give(str(node), blank_number(id))
        return known


class _Undo:
    """The changes of some snapshots, reversed."""

    def __init__(self, changes: list[Rows]) -> None:
        self._changes = changes

    def __call__(self, view: HeadView) -> Intent:
        return Intent(result=lambda sn: sn, write=self._write)

    def _write(self, batch: Batch) -> None:
        for rows in self._changes:
            for sign, turn in ((1, batch.delete), (-1, batch.insert)):
                there = rows.sign == sign
                if there.any():
                    turn(rows.s[there], rows.p[there], rows.o[there], rows.g[there])


def _columns(block: Quads) -> tuple[np.ndarray, ...]:
    return block.s, block.p, block.o, block.g


def _distinct_triples(blocks: Sequence[Quads]) -> int:
    """A triple of several graphs counts once. A block is of one predicate."""
    of_predicate: dict[int, list[np.ndarray]] = {}
    for block in blocks:
        of_predicate.setdefault(int(block.p[0]), []).append(np.stack((block.s, block.o), axis=1))
    return sum(len(np.unique(np.concatenate(pairs), axis=0)) for pairs in of_predicate.values())


def blank_number(id: int) -> int:
    assert id >> TAG_SHIFT == BLANK, f"{id} is not a blank node"
    return int(inline_text(id)[3:])
