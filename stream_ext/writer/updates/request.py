"""A whole request: its operations one after the other, in one batch, each seeing what those before it did.

Whatever fails fails the request: its batch is dropped, and nothing of it is published."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, replace

import numpy as np

from hbase_store import Batch, Store
from hbase_store.errors import SnapshotGone, StoreUnavailable
from stream_ext.evaluation_budget import Control
from stream_ext.language.algebra.algebra import ServicePattern
from stream_ext.language.algebra.statements import (
    DeleteData,
    DeleteWhere,
    InsertData,
    Load,
    Manage,
    Modify,
    Operation,
    Transfer,
    Update,
)
from stream_ext.language.algebra.terms import Constant
from stream_ext.language.algebra.walk import walk
from stream_ext.network.operators.remote.service import check_services
from stream_ext.oneshot.evaluate import Asking
from stream_ext.rdf import Parsed
from stream_ext.remote.allowed_urls import AllowedUrls
from stream_ext.remote.sources import Sources
from stream_ext.writer.change import Change, HeadView, Intent, MustBeFirst, Together
from stream_ext.writer.charged import ChargedBatch
from stream_ext.writer.derived_graphs import DerivedGraphs, StateOf
from stream_ext.writer.elements import check_terms
from stream_ext.writer.updates.data import Known, delete_data, insert_data, nodes_of
from stream_ext.writer.updates.graphs import manage, transfer
from stream_ext.writer.updates.load import fetched, load
from stream_ext.writer.updates.modify import delete_where, modify, pattern_request
from stream_ext.writer.updates.placing import placed_operation
from stream_ext.writer.updates.solving import Ahead, solutions, solved_ahead
from stream_ext.writer.updates.targets import targets_of
from stream_ext.writer.updates.templates import Solved
from stream_ext.writer.updates.working import Working


@dataclass(frozen=True, slots=True)
class Updated:
    """The snapshot of an update, and the numbers of quads that it added and removed.

    None: they are not known. The update is done, but the store does not answer, or has deleted the snapshot before."""

    snapshot: int
    inserted: int | None
    deleted: int | None


@dataclass(frozen=True, slots=True)
class UpdateOutcome:
    """The outcome of a request: its snapshot; `changed` is False if the request changed nothing, and has no own
    snapshot."""

    sn: int
    changed: bool


def change_of(
    update: Update,
    text: str,
    store: Store,
    head: int,
    asking: Asking | None = None,
    state: StateOf = lambda _: None,
) -> Change:
    """Its result is an `UpdateOutcome`; a request that asserts nothing of any quad makes no snapshot. `state` is that
    of registered queries, whose answers it may read."""
    request = _Request(update, text, asking or Asking())
    request.prepare()
    request.solve_ahead(store, head)
    return _UpdateChange(request, state)


@dataclass(frozen=True, slots=True)
class _UpdateChange:
    request: _Request
    state: StateOf

    @property
    def together(self) -> Together | None:
        return Together.UPDATES if self.request.is_short else None

    def __call__(self, view: HeadView) -> Intent:
        request = self.request
        allowed_urls, control, sources = request.allowed_urls, request.control, request.sources
        derived = DerivedGraphs(view.store, view.catalog, self.state, view.head, allowed_urls, control, sources)
        return Intent(
            lambda sn: UpdateOutcome(sn, request.asserts),
            write=lambda batch: request.run(view.store, batch, derived),
            skips_empty=True,
        )


def in_turn(change: Change, during: Callable[[], AbstractContextManager[None]]) -> Change:
    """The change, whose writing is done within a context; it is published alone."""

    def accepted(view: HeadView) -> Intent:
        intent = change(view)

        def write(batch: Batch) -> None:
            assert intent.write is not None, "an update writes"
            with during():
                intent.write(batch)

        return replace(intent, write=write)

    return accepted


def updated(published: UpdateOutcome, store: Store) -> Updated:
    if not published.changed:
        return Updated(published.sn, 0, 0)
    try:
        sign = store.net_changes(published.sn).sign
    except (SnapshotGone, StoreUnavailable):
        return Updated(published.sn, None, None)
    return Updated(published.sn, int(np.count_nonzero(sign > 0)), int(np.count_nonzero(sign < 0)))


class _Request:
    """A request: created and prepared in the caller's thread, then run by the writer."""

    def __init__(self, update: Update, text: str, asking: Asking) -> None:
        self._operations, self._text, self._asking = update.operations, text, asking
        self._documents: dict[int, Parsed | None] = {}
        self._ahead: Ahead | None = None  # of the first operation
        self.asserts = False

    @property
    def sources(self) -> Sources:
        return self._asking.sources

    @property
    def allowed_urls(self) -> AllowedUrls:
        return self._asking.allowed_urls

    @property
    def control(self) -> Control:
        return self._asking.control

    @property
    def is_short(self) -> bool:
        """Whether the writer is done with it soon: besides data there is at most one pattern, the first operation, of
        which few rows are expected, and no service is asked."""
        if not self._operations or self._ahead is not None:
            return False
        first, *others = self._operations
        if isinstance(first, Modify | DeleteWhere):
            starts_short = not any(isinstance(part, ServicePattern) for part in walk(pattern_request(first).pattern))
        else:
            starts_short = isinstance(first, InsertData | DeleteData)
        return starts_short and all(isinstance(operation, InsertData | DeleteData) for operation in others)

    def prepare(self) -> None:
        for number, operation in enumerate(self._operations, 1):
            if isinstance(operation, InsertData | DeleteData):
                check_terms(node.text for node in nodes_of(operation.quads) if isinstance(node, Constant))
            elif isinstance(operation, Modify):
                check_services([operation.pattern], self._asking.allowed_urls, self._text, self._asking.sources)
            elif isinstance(operation, Load):
                with self._placed(number, operation):
                    self._documents[number] = fetched(operation, self.allowed_urls, self.control)

    def solve_ahead(self, store: Store, head: int) -> None:
        """Solves the pattern of the first operation before the writer's turn; later operations depend on the first."""
        first = self._operations[0] if self._operations else None
        if isinstance(first, Modify | DeleteWhere):
            with self._placed(1, first), suppress(SnapshotGone):
                self._ahead = solved_ahead(pattern_request(first), store, head, self._asking)

    def run(self, store: Store, batch: Batch, derived: DerivedGraphs) -> None:
        ahead = self._ahead if self._ahead is not None and self._ahead.is_current(store) else None
        charged = ChargedBatch(batch, self.control)
        working = Working(charged, store.preview(batch), self._asking, derived)
        known: Known = {}  # of this run: the batch of an earlier one was dropped, with its terms
        for number, operation in enumerate(self._operations, 1):
            self._asking.control.check()
            with self._placed(number, operation):
                for graph in targets_of(operation):
                    working.check_writable(graph)
                if isinstance(operation, Modify | DeleteWhere):
                    solved = ahead.solved if ahead is not None and number == 1 else None
                    self._run_by_pattern(operation, solved, working)
                else:
                    self._run(number, operation, known, working)
        charged.pack()
        self.asserts = not batch.is_empty

    def _run_by_pattern(self, operation: Modify | DeleteWhere, known: Solved | None, working: Working) -> None:
        request = pattern_request(operation)
        reads_derived = any(working.derived.meant(request.pattern, request.of))
        if reads_derived and not working.batch.is_first:
            raise MustBeFirst
        solved = known if known is not None and not reads_derived else solutions(request, working)
        if isinstance(operation, Modify):
            modify(operation, solved, working)
        else:
            delete_where(operation, solved, working)

    def _run(self, number: int, operation: Operation, known: Known, working: Working) -> None:
        match operation:
            case InsertData():
                insert_data(operation, known, working)
            case DeleteData():
                delete_data(operation, working)
            case Manage():
                manage(operation, working)
            case Transfer():
                transfer(operation, working)
            case Load():
                document = self._documents[number]
                if document is not None:
                    load(operation, document, working)

    def _placed(self, number: int, operation: Operation) -> AbstractContextManager[None]:
        return placed_operation(number, len(self._operations), operation, self._text)
