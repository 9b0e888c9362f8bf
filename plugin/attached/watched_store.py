"""A store of rdflib, wrapped so that every change of it is known exactly.

rdflib's own events do not tell: none comes for most removals, and one comes for a triple that was there already. So
the part of the dataset that an operation may change, and that registered queries hold, is read before the operation
and after it. What is different is the change, whatever the store understands the operation to be:

    add(t)         there before: no change           remove(:z1, None, None)    what matched, and is gone
    update(text)   by rdflib's evaluator: its adds and removes; by the store itself: everything held is fetched anew

Changes wait until they are committed, and are then taken over together, in the order in which they were made. A store
without transactions commits each operation.

Two locks keep the order. `lock` is held during an operation, and while the dataset is read as a whole; `_order` while
changes are taken over, which needs the other for a moment only: what takes them over may itself be reading."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from rdflib import Graph, URIRef
from rdflib.graph import ConjunctiveGraph
from rdflib.query import Result
from rdflib.store import Store
from rdflib.term import Node

from plugin.attached.held import HeldCopy, Region, Touched, needed, to_held
from plugin.attached.quads import QuadReader, Triple
from plugin.backend import ANYTHING, Quad, TriplePattern

EVERYTHING = Touched(ANYTHING, everywhere=True)
#: Makes the handle of a graph that is given out.
Handles = Callable[["WatchedStore", Graph], Graph]
#: Evaluates an update over a graph, and changes it.
Updater = Callable[..., None]


class WatchedStore(Store):
    """`on_change` is called, with the lock held, when something waits that nobody will commit."""

    def __init__(
        self,
        graph: Graph,
        held: HeldCopy,
        handle: Handles,
        on_change: Callable[[], None] = lambda: None,
        update_of: Updater = Graph.update,
    ) -> None:
        # Not Store.__init__: it would open a store, and have events of its own.
        self.inner: Store = graph.store
        self._original, self.reader = graph, QuadReader(graph)
        self.held, self._handle, self._on_change, self.update_of = held, handle, on_change, update_of
        self.context_aware, self.formula_aware = self.inner.context_aware, self.inner.formula_aware
        self.graph_aware, self.transaction_aware = self.inner.graph_aware, self.inner.transaction_aware
        self.lock = threading.RLock()
        self._order = threading.Lock()
        self._pending: dict[Quad, bool] = {}  # True: inserted; False: deleted
        self._sealed: list[dict[Quad, bool]] = []  # earlier ones: the dataset was read between them
        self._committed: list[dict[Quad, bool]] = []
        self._is_read = False  # since the last of the committed changes
        self._was_there: dict[Quad, bool] = {}  # of what was changed since the last commit: whether it was there then
        self._unsent: list[Touched] = []  # by edits that the store has not sent to its server
        self._is_unknown = False  # the store did an update itself, whose changes only a refresh can tell

    def __getattr__(self, name: str) -> Any:
        """What only this kind of store has."""
        return getattr(self.__dict__["inner"], name)

    # ---- changes

    def add(self, triple: Triple, context: Any, quoted: bool = False) -> None:
        with self._changing([] if quoted else [self._touched(triple, context)]):
            self.inner.add(triple, self._inside(context), quoted)

    def addN(self, quads: Iterable[tuple[Node, Node, Node, Any]]) -> None:
        quads = list(quads)
        with self._changing([self._touched((s, p, o), context) for s, p, o, context in quads]):
            self.inner.addN((s, p, o, self._inside(context)) for s, p, o, context in quads)

    def remove(self, triple: TriplePattern, context: Any = None) -> None:
        with self._changing([self._touched(triple, context)]):
            self.inner.remove(triple, self._inside(context))

    def add_graph(self, graph: Graph) -> None:
        with self._changing([]):
            self.inner.add_graph(self._inside(graph))

    def remove_graph(self, graph: Graph) -> None:
        with self._changing([self._touched(ANYTHING, graph)]):
            self.inner.remove_graph(self._inside(graph))

    def update(self, *args: Any, **more: Any) -> None:
        """By the store itself, if it can; otherwise rdflib's evaluator goes on with `add` and `remove`."""
        with self.lock:
            if self._collects_edits:
                self.inner.update(*args, **more)
                self._unsent.append(EVERYTHING)
                return
            self.inner.update(*args, **more)
            self._is_unknown = bool(self.held.patterns)
            self._commit_changes()
        self._take_over_soon()

    def _touched(self, pattern: TriplePattern, context: Any) -> Touched:
        if context is None:
            return Touched(pattern, everywhere=True)
        return Touched(pattern, self.reader.name(context))

    @contextmanager
    def _changing(self, touched: Sequence[Touched]) -> Iterator[None]:
        """Around one operation: what it changes is recorded, also if it fails half-way."""
        with self.lock:
            if self._collects_edits:
                yield
                self._unsent += touched
                return
            with self._compared(touched):
                yield
            if not self._has_transactions:
                self._commit_changes()
        self._take_over_soon()

    @contextmanager
    def _compared(self, touched: Iterable[Touched]) -> Iterator[None]:
        inside = [each for each in touched if self.reader.is_inside(each.graph)]
        regions = needed(self.held.patterns, inside, self.reader.is_union)
        before = self._read(regions)
        try:
            yield
        finally:
            if regions:
                self._record(before, self._read(regions))

    def _read(self, regions: Iterable[Region]) -> dict[Quad, None]:
        """In the order of the store, so that a change is the same each time."""
        return {quad: None for region in regions for quad in region.read(self.reader)}

    def _record(self, before: dict[Quad, None], after: dict[Quad, None]) -> None:
        """Notes which quads a write has removed and added, by what regions had before and after it."""
        for quads, others, inserted in ((before, after, False), (after, before, True)):
            for quad in quads:
                if quad in others:
                    continue
                self._was_there.setdefault(quad, not inserted)
                _set_off(self._pending, {quad: inserted})

    # ---- transactions

    @property
    def _collects_edits(self) -> bool:
        """Whether the store sends its edits to a server only when it commits, and commits whenever it is read."""
        return getattr(self.inner, "autocommit", None) is False

    @property
    def _has_transactions(self) -> bool:
        return bool(self.transaction_aware) and not getattr(self.inner, "autocommit", False)

    def commit(self) -> None:
        with self.lock:
            if self._unsent:
                self._send()
            else:
                self.inner.commit()
            self._commit_changes()
        self.take_over()

    def _send(self) -> None:
        touched, self._unsent = self._unsent, []
        reads, self.inner.dirty_reads = self.inner.dirty_reads, True  # type: ignore[attr-defined]  # it collects edits
        try:
            with self._compared(touched):
                self.inner.commit()
        except BaseException:
            self._unsent = touched  # the store has them still, too
            raise
        finally:
            self.inner.dirty_reads = reads  # type: ignore[attr-defined]

    def rollback(self) -> None:
        with self.lock:
            self.inner.rollback()
            self._unsent.clear()
            there = {(s, p, o, g): self.reader.has((s, p, o), g) for s, p, o, g in self._was_there}
            # Not every store restores exactly what was there.
            self._pending = {quad: is_there for quad, is_there in there.items() if is_there != self._was_there[quad]}
            if self._sealed:  # what was read meanwhile has changes that are undone now
                self._sealed.clear()
                self._is_unknown = True
            self._commit_changes()
        self.take_over()

    def settle(self) -> None:
        """Before a read: a store that would send its edits now sends them here."""
        if self._unsent and self._collects_edits and not self.inner.dirty_reads:  # type: ignore[attr-defined]
            self.commit()

    def _commit_changes(self) -> None:
        """What was changed until now may be taken over."""
        for sealed in self._sealed:
            self._add_committed(sealed)
            self._is_read = True
        self._add_committed(self._pending)
        self._sealed, self._pending = [], {}
        self._was_there.clear()

    def _add_committed(self, changes: dict[Quad, bool]) -> None:
        if self._committed and not self._is_read:
            _set_off(self._committed[-1], changes)
        elif changes:
            self._committed.append(changes)
            self._is_read = False

    def _take_over_soon(self) -> None:
        if self._committed or self._is_unknown:
            self._on_change()

    def take_over(self) -> None:
        """Gives what was committed to the held copy. Within an operation of several steps: soon after it."""
        if self.lock._is_owned():  # type: ignore[attr-defined]  # of every RLock
            self._take_over_soon()
            return
        with self._order:
            with self.lock:
                committed, self._committed = self._committed, []
                is_unknown, self._is_unknown = self._is_unknown, False
            try:
                if is_unknown:
                    self.held.refresh()
                    committed.clear()
                while committed:
                    inserted = [to_held(quad) for quad, there in committed[0].items() if there]
                    deleted = [to_held(quad) for quad, there in committed[0].items() if not there]
                    if inserted or deleted:
                        self.held.apply(inserted, deleted)
                    del committed[0]
            except BaseException:
                with self.lock:  # what was not taken over is, by the next
                    self._committed, self._is_unknown = committed + self._committed, is_unknown or self._is_unknown
                raise

    @contextmanager
    def still(self) -> Iterator[None]:
        """Nothing is written meanwhile. What is changed later is not set off against what was changed before, since
        who reads now has seen the one and not the other."""
        with self.lock:
            if self._pending:
                self._sealed.append(self._pending)
                self._pending = {}
            self._is_read = True
            yield

    # ---- reading

    def triples(self, triple_pattern: TriplePattern, context: Any = None) -> Iterator[tuple[Triple, Any]]:
        self.settle()
        for triple, contexts in self.inner.triples(triple_pattern, self._inside(context)):
            yield triple, contexts if contexts is None else map(self._handle_of, contexts)

    def triples_choices(self, triple: Any, context: Any = None) -> Generator[tuple[Triple, Any], None, None]:
        # Nothing to settle: no store that collects edits knows this.
        for found, contexts in self.inner.triples_choices(triple, self._inside(context)):
            yield found, contexts if contexts is None else map(self._handle_of, contexts)

    def __len__(self, context: Any = None) -> int:
        self.settle()
        return self.inner.__len__(self._inside(context))

    def contexts(self, triple: Triple | None = None) -> Generator[Any, None, None]:
        self.settle()
        for context in self.inner.contexts(triple):
            yield self._handle_of(context)

    def query(self, *args: Any, **more: Any) -> Result:
        self.settle()
        return self.inner.query(*args, **more)

    def _inside(self, context: Any) -> Any:
        """The graph as the store itself knows it."""
        if not isinstance(context, Graph) or context.store is not self:
            return context
        if isinstance(context, ConjunctiveGraph):  # BerkeleyDB tells it from a Graph of the same name
            return self._original
        return Graph(store=self.inner, identifier=context.identifier, base=context.base)

    def _handle_of(self, context: Any) -> Any:
        """The handle that is given out for a graph: whoever writes to it writes through this store."""
        return self._handle(self, context) if isinstance(context, Graph) else context

    # ---- the store as such, and prefixes, which nobody watches

    def open(self, configuration: Any, create: bool = False) -> int | None:
        return self.inner.open(configuration, create)

    def close(self, commit_pending_transaction: bool = False) -> None:
        if commit_pending_transaction:
            self.commit()
        self.inner.close(commit_pending_transaction)

    def destroy(self, configuration: str) -> None:
        self.inner.destroy(configuration)

    def gc(self) -> None:
        self.inner.gc()

    def bind(self, prefix: str, namespace: URIRef, override: bool = True) -> None:
        self.inner.bind(prefix, namespace, override)

    def prefix(self, namespace: URIRef) -> str | None:
        return self.inner.prefix(namespace)

    def namespace(self, prefix: str) -> URIRef | None:
        return self.inner.namespace(prefix)

    def namespaces(self) -> Iterator[tuple[str, URIRef]]:
        return self.inner.namespaces()


def _set_off(changes: dict[Quad, bool], later: dict[Quad, bool]) -> None:
    """Adds later changes: who inserts what was deleted has changed nothing."""
    for quad, inserted in later.items():
        if changes.pop(quad, None) is None:
            changes[quad] = inserted
