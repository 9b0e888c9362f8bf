"""Updates: INSERT DATA and DELETE DATA as a change of the store, one request one snapshot."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from hbase_store import Batch, Store
from stream_ext.adaptor import Ids, check_terms
from stream_ext.injector import Change, Intent, View
from stream_ext.plan.algebra import BlankLabel, Constant, DeleteData, InsertData, Quad, Update


def change_of(update: Update) -> Change:
    """Its result is the snapshot that has it; a request without any quad makes none."""

    operations = [each for each in update.operations if isinstance(each, InsertData | DeleteData)]
    for operation in operations:
        check_terms(node.text for node in _nodes(operation.quads) if isinstance(node, Constant))

    def change(view: View) -> Intent:
        if not any(operation.quads for operation in operations):
            return Intent(result=int)
        return Intent(result=int, write=lambda batch: _write(operations, view.store, batch))

    return change


def _write(operations: list[InsertData | DeleteData], store: Store, batch: Batch) -> None:
    """Operations in order: the last one on a quad wins."""
    known: dict[Constant | BlankLabel, int] = {}
    for operation in operations:
        if isinstance(operation, InsertData):
            _learn(operation, known, batch)
            batch.insert(*_columns(operation.quads, known))
        else:
            _look_up(operation, known, store)
            batch.delete(*_columns([quad for quad in operation.quads if _all_known(quad, known)], known))


def _learn(operation: InsertData, known: dict[Constant | BlankLabel, int], batch: Batch) -> None:
    """Ids for all nodes. A blank node's label means one fresh node throughout the request."""
    new = [node for node in _nodes(operation.quads) if not known.get(node)]
    constants = [node for node in new if isinstance(node, Constant)]
    labels = [node for node in new if isinstance(node, BlankLabel)]
    known.update(zip(constants, batch.encode([node.text for node in constants]).tolist(), strict=True))
    if labels:
        known.update(zip(labels, batch.blanks(len(labels)).tolist(), strict=True))


def _look_up(operation: DeleteData, known: dict[Constant | BlankLabel, int], store: Store) -> None:
    """What has no id occurs in no quad: it needs none to be deleted."""
    new = [node for node in _nodes(operation.quads) if node not in known and isinstance(node, Constant)]
    known.update(zip(new, store.ids([node.text for node in new]).tolist(), strict=True))


def _nodes(quads: Iterable[Quad]) -> list[Constant | BlankLabel]:
    found: dict[Constant | BlankLabel, None] = {}
    for quad in quads:
        found.update(dict.fromkeys((quad.subject, quad.predicate, quad.object)))
        if quad.graph is not None:
            found[quad.graph] = None
    return list(found)


def _all_known(quad: Quad, known: dict[Constant | BlankLabel, int]) -> bool:
    return all(known[node] for node in _nodes([quad]))


def _columns(quads: Iterable[Quad], known: dict[Constant | BlankLabel, int]) -> tuple[Ids, ...]:
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
