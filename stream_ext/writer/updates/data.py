"""INSERT DATA and DELETE DATA: quads without variables. The labels of blank nodes mean fresh nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from stream_ext.language.algebra.statements import DeleteData, InsertData, Quad
from stream_ext.language.algebra.terms import BlankLabel, Constant
from stream_ext.rows.zset import Ids
from stream_ext.writer.updates.other_store import TermQuad
from stream_ext.writer.updates.working import Working

#: Ids of what the operations of one request name; 0 for a term that has none.
Known = dict[Constant | BlankLabel, int]


def insert_data(operation: InsertData, known: Known, working: Working) -> None:
    """A blank node's label means one fresh node; no two operations of the request, whose `known` this is, share one."""
    new = [node for node in nodes_of(operation.quads) if not known.get(node)]
    constants = [node for node in new if isinstance(node, Constant)]
    labels = [node for node in new if isinstance(node, BlankLabel)]
    known.update(zip(constants, working.batch.encode([node.text for node in constants]).tolist(), strict=True))
    if labels:
        known.update(zip(labels, working.batch.blanks(len(labels)).tolist(), strict=True))
    if operation.quads:
        working.batch.insert(*_columns(operation.quads, known))


def delete_data(operation: DeleteData, working: Working) -> None:
    """Deletes quads. A term without an id occurs in no quad, so it gets none."""
    if (aside := working.aside) is not None:
        aside.check_quads(map(term_quad, operation.quads))
    nodes = [node for node in nodes_of(operation.quads) if isinstance(node, Constant)]
    ids = working.preview.ids([node.text for node in nodes]).tolist()
    known: Known = dict(zip(nodes, ids, strict=True))
    quads = [quad for quad in operation.quads if all(known[node] for node in nodes_of([quad]))]
    if quads:
        working.batch.delete(*_columns(quads, known))


def term_quad(quad: Quad) -> TermQuad:
    """A quad without blank nodes."""
    assert isinstance(quad.subject, Constant) and isinstance(quad.object, Constant), "DELETE DATA has no blank nodes"
    return quad.subject.text, quad.predicate.text, quad.object.text, None if quad.graph is None else quad.graph.text


def nodes_of(quads: Iterable[Quad]) -> list[Constant | BlankLabel]:
    found: dict[Constant | BlankLabel, None] = {}
    for quad in quads:
        found.update(dict.fromkeys((quad.subject, quad.predicate, quad.object)))
        if quad.graph is not None:
            found[quad.graph] = None
    return list(found)


def _columns(quads: Iterable[Quad], known: Known) -> tuple[Ids, ...]:
    quads = list(quads)
    nodes: tuple[Callable[[Quad], Constant | BlankLabel | None], ...] = (
        lambda quad: quad.subject,
        lambda quad: quad.predicate,
        lambda quad: quad.object,
        lambda quad: quad.graph,
    )
    return tuple(
        np.array([0 if (node := of(quad)) is None else known[node] for quad in quads], np.uint64) for of in nodes
    )
