"""DELETE and INSERT with a pattern: the pattern is solved, then quads are deleted, then quads are inserted.

The pattern is solved over the store after the operations before, so an operation does not see its own changes."""

from __future__ import annotations

from stream_ext.language.algebra.quads import pattern_of
from stream_ext.language.algebra.statements import DeleteWhere, Modify
from stream_ext.plan.places import STORE
from stream_ext.writer.updates.solving import PatternRequest, dataset_of
from stream_ext.writer.updates.templates import QuadTemplate, Solved, variables_of
from stream_ext.writer.updates.working import Working


def pattern_request(operation: Modify | DeleteWhere) -> PatternRequest:
    """The pattern of an operation; of DELETE WHERE, the quads are the pattern."""
    if isinstance(operation, DeleteWhere):
        pattern = pattern_of(operation.quads, operation.position)
        return PatternRequest(pattern, variables_of(operation.quads), STORE, operation.quads)
    deletes, inserts = operation.deletes or (), operation.inserts or ()
    return PatternRequest(operation.pattern, variables_of(deletes, inserts), dataset_of(operation), deletes)


def modify(operation: Modify, solved: Solved, working: Working) -> None:
    deletes, inserts = operation.deletes or (), operation.inserts or ()
    gone = list(QuadTemplate(deletes, operation.graph, solved, working).deleted())
    come = list(QuadTemplate(inserts, operation.graph, solved, working).inserted())
    for quads in gone:
        if len(quads[0]):
            working.batch.delete(*quads)
    for quads in come:
        if len(quads[0]):
            working.batch.insert(*quads)


def delete_where(operation: DeleteWhere, solved: Solved, working: Working) -> None:
    for quads in list(QuadTemplate(operation.quads, None, solved, working).deleted()):
        if len(quads[0]):
            working.batch.delete(*quads)
