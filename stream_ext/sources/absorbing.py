"""Absorbing: what streams absorb goes to the source `main`, some thousand triples at a time (`--absorb source`).

    a push is published, with its timeless triples in our own store  -->  INSERT DATA at the source  -->  deleted here

Both are one dataset, a set of quads, so the triples are in it all the time: here, then in both, then there. How far
this has come is in the catalog, and in the source itself, as a mark that the request of the triples sets. So a request
that was perhaps done is not repeated if it was, whatever has been deleted there since. While the source is away, the
triples stay here."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from os import urandom

import msgspec
import numpy as np

from hbase_store import Batch
from hbase_store.arrays import Ids, Mask
from hbase_store.errors import SnapshotGone
from hbase_store.layout.terms import BLANK, tag_of
from stream_ext.catalog.catalog import CatalogStep
from stream_ext.catalog.sources import MAIN_NUMBER, AsOf, SourceRecord
from stream_ext.errors import RilletError
from stream_ext.evaluation_budget import Control
from stream_ext.remote.fetching import CannotFetch
from stream_ext.sources.attached_source import AttachedSource
from stream_ext.sources.questions import Quad
from stream_ext.writer.change import Change, HeadView, Intent
from stream_ext.writer.updates.to_source import data_operation

log = logging.getLogger("rillet.sources")

#: Triples of one request, and how long after one the next is sent; after one that failed it takes longer.
_QUADS, _EVERY_MS, _PAUSE_MS = 5_000, 1_000, 10_000
_END_S = 5.0
_MARKS, _ABSORBED = "<urn:rillet:absorbed>", "<urn:rillet:absorbed:up-to>"
_MARK_S = 60.0

Columns = tuple[Ids, Ids, Ids, Ids]


class Absorbing:
    """For as long as this process writes the store."""

    def __init__(self, attached: AttachedSource, written: Callable[[Sequence[Quad]], None]) -> None:
        """`written` is called with quads that the source has got."""
        self._source, self._store, self._clock = attached.source, attached.store, attached.clock
        self._catalog, self._publish, self._written = attached.catalog, attached.publish, written
        self._changed = threading.Condition()
        self._closed = False
        self._due_ms = self._clock.now_ms()
        self.error: str | None = None
        self._sn = 0  # up to this snapshot nothing is left
        self._marked: int | None = None  # what the source says
        self._thread = threading.Thread(target=self._run, name="rillet-absorbing", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        if self._thread.is_alive():
            self._thread.join(_END_S)

    # ---- the thread

    def _run(self) -> None:
        while self._wait():
            pause_ms = _EVERY_MS
            try:
                while not self._closed and self._step():
                    pass
                self.error = None
            except Exception as error:
                if self._closed:
                    return
                self.error, pause_ms = str(error) or type(error).__name__, _PAUSE_MS
                known = isinstance(error, CannotFetch | RilletError)
                fields = {"source": self._source.settings.name, "why": self.error}
                log.warning("triples were not absorbed", exc_info=not known, extra={"fields": fields})
            self._due_ms = self._clock.now_ms() + pause_ms

    def _wait(self) -> bool:
        with self._changed:
            while not self._closed and self._clock.now_ms() < self._due_ms:
                self._clock.wait(self._changed, self._due_ms)
            return not self._closed

    def _step(self) -> bool:
        """Sends the triples of some snapshots; False if none is left."""
        record, head = self._catalog().main, int(self._store.head())
        done = max(self._sn, 0 if record is None else record.absorbed_sn, int(self._store.oldest()))
        sn, quads = self._gathered(done, head)
        if not len(quads[0]):
            self._sn = sn
            return sn < head
        if record is None or not record.store_id:
            self._publish(self._named(urandom(8).hex())).result()
            return True
        if self._marked is None:
            self._marked = self._mark(record.store_id)
        if self._marked > done:  # these were sent, and it was not known here
            sn, quads = self._gathered(done, self._marked, whole=True)
        texts = self._texts(quads)
        if self._marked < sn:
            self._send(record.store_id, texts, sn)
        self._written(texts)
        self._delete(quads, sn)
        self._sn = sn
        return True

    def _gathered(self, after: int, last: int, whole: bool = False) -> tuple[int, Columns]:
        """The quads that were absorbed in the next snapshots, and up to which; not too many, unless all are wanted."""
        parts: list[Columns] = []
        size, sn = 0, after
        while sn < last and (whole or size < _QUADS):
            sn += 1
            columns = self._absorbed_in(sn)
            if columns is not None:
                parts.append(columns)
                size += len(columns[0])
        return sn, self._still_here(parts)

    def _send(self, store_id: str, quads: Sequence[Quad], sn: int) -> None:
        marked, self._marked = self._marked, None  # it is not known, if this fails
        mark = f"{_who(store_id)} {_ABSORBED}"
        operations = [data_operation("INSERT DATA", [(s, p, o, g or None) for s, p, o, g in quads])]
        if marked:
            operations.append(f"DELETE DATA {{ GRAPH {_MARKS} {{ {mark} {marked} }} }}")
        operations.append(f"INSERT DATA {{ GRAPH {_MARKS} {{ {mark} {sn} }} }}")
        self._source.update(" ;\n".join(operations))
        self._marked = sn

    def _absorbed_in(self, sn: int) -> Columns | None:
        """The quads that pushes brought in a snapshot, which has nothing else; None: none."""
        try:
            if not self._store.row(sn).moves:
                return None
            rows = self._store.net_changes(sn)
        except SnapshotGone:
            return None  # they stay here
        came = rows.sign > 0
        return (rows.s[came], rows.p[came], rows.o[came], rows.g[came]) if came.any() else None

    def _still_here(self, parts: Sequence[Columns]) -> Columns:
        """Those that our own store has at the head, without blank nodes, which would be other nodes there."""
        if not parts:
            nothing = np.empty(0, np.uint64)
            return nothing, nothing, nothing, nothing
        s, p, o, g = (np.concatenate(column) for column in zip(*parts, strict=True))
        snapshot = self._store.at(self._store.head())
        there = snapshot.contains(s, p, o, g) & ~(_are_blank(s) | _are_blank(o) | _are_blank(g))
        return s[there], p[there], o[there], g[there]

    def _texts(self, quads: Columns) -> list[Quad]:
        ids = np.unique(np.concatenate(quads))
        ids = ids[ids != 0]
        text = dict(zip(ids.tolist(), self._store.terms(ids), strict=True)) | {0: b""}
        return [
            (text[s], text[p], text[o], text[g])
            for s, p, o, g in zip(*(column.tolist() for column in quads), strict=True)
        ]

    # ---- the mark

    def _mark(self, store_id: str) -> int:
        """Up to which snapshot the source has what this store absorbed; 0: nothing."""
        text = f"SELECT ?n WHERE {{ GRAPH {_MARKS} {{ {_who(store_id)} {_ABSORBED} ?n }} }}"
        control = Control(_MARK_S, what="request to a source")
        found = [row["n"] for some in self._source.select(text, control) for row in some if "n" in row]
        numbers = [n.partition(b'"^^')[0].strip(b'"') for n in found]
        return max((int(n) for n in numbers if n.isdigit()), default=0)

    def _named(self, store_id: str) -> Change:
        """Gives the store a name by which the source knows its mark."""

        def change(view: HeadView) -> Intent:
            record = msgspec.structs.replace(self._record(view), store_id=store_id)
            return Intent(result=int, steps=[CatalogStep("source", MAIN_NUMBER, record)])

        return change

    def _record(self, view: HeadView) -> SourceRecord:
        now = AsOf(self._clock.now_ms(), self._clock.now_ms())
        return view.catalog.main or SourceRecord(self._source.settings.name, [], now, now)

    def _delete(self, quads: Columns, sn: int) -> None:
        def change(view: HeadView) -> Intent:
            record = msgspec.structs.replace(self._record(view), absorbed_sn=sn)
            step = CatalogStep("source", MAIN_NUMBER, record)
            return Intent(result=int, steps=[step], write=lambda batch: _deleted(batch, quads))

        self._publish(change).result()


def _who(store_id: str) -> str:
    """A store, as the source knows it."""
    return f"<urn:rillet:store:{store_id}>"


def _are_blank(ids: Ids) -> Mask:
    blank: Mask = tag_of(ids) == BLANK
    return blank


def _deleted(batch: Batch, quads: Columns) -> None:
    s, p, o, g = quads
    batch.delete(s, p, o, g)
