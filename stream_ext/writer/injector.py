"""The injector: the one thread that writes.

Every change of the store is a request in one queue (`write_queue`), and is acknowledged in the order of the queue. What
the writer takes from it at once is published at once (group commit): pushes as one snapshot, updates as one each.

A failure before the commit fails only the requests of that batch, and changes nothing; of pushes, only those that
caused it. Requests that no client would repeat (of derived streams, of the clock) are retried as long as a commit is.

A failure of the commit stops the writer. Requests that wait in the queue fail: nothing of them was done. For the
requests of the commit the outcome is not known, unless the failure decides it. A stopped injector writes no more; it
still follows the store (`follow`), until it is replaced by a new one."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, Literal, TypeVar

from hbase_store import Batch, Store, StreamPosition
from hbase_store.errors import AnotherWriter, Fenced, StoreUnavailable, Undecided, Unwritable
from hbase_store.layout.terms import iri
from stream_ext.catalog.catalog import Catalog, CatalogStep, StreamDefinition
from stream_ext.catalog.numbers import NumberAllocator
from stream_ext.clock import Clock
from stream_ext.retry import retry
from stream_ext.waits import Waits
from stream_ext.writer.change import Change, HeadView, Intent, MustBeFirst, Together
from stream_ext.writer.gathering import REPEATED, Accepted, Gathering, Heartbeat, Idle, Push
from stream_ext.writer.published import Listener, NotStarted, PublishedBatch, Receipt
from stream_ext.writer.refusal import outcome_unknown, refusal_of, resumes_after
from stream_ext.writer.write_queue import PublishingPace, QueuedRequest, WriteQueue

Result = TypeVar("Result")

log = logging.getLogger("rillet.store")

#: Updates that are published together wait for each other: no further one is filled after this time, or this size.
_FILLING_MS_MAX, _FILLED_BYTES_MAX = 20, 1 << 20


class Injector:
    def __init__(self, store: Store, clock: Clock, pace: PublishingPace, waits: Waits) -> None:
        self._store, self._clock, self._waits = store, clock, waits
        self._queue = WriteQueue(clock, pace, store.url)
        self.numbers = NumberAllocator(store.kv)
        self._listener: Listener = NotStarted()
        self._fault: BaseException | None = None  # why the writer has stopped
        #: How far the requests are that were taken from the queue.
        self._reached: Literal["filling", "committing", "committed"] = "filling"
        self.head = int(store.head())
        self.catalog = Catalog.read(store, self.head)
        self._catalog_rows: dict[tuple[str, int], bytes] = {}  # as `follow` read them last
        self.positions: dict[int, StreamPosition] = dict(store.vts(self.head))
        #: When the snapshot was published that was the head at the start.
        self.published_ms = store.row(self.head).published_ms if self.head else 0
        #: Elements by stream that were not stored, because no query and no retention needs them; since this process
        #: started.
        self.dropped: Counter[int] = Counter()
        self._thread = threading.Thread(target=self._run, name="rillet-writer", daemon=True)

    def start(self, listener: Listener) -> None:
        self._listener = listener
        self._thread.start()

    # ---- callers' threads ------------------------------------------------------------------------------------

    def push(self, make: Callable[[int], Push], size: int, batch_ms: int | None) -> Future[Receipt]:
        """`make` gets the time of arrival, which follows the order of the queue."""
        return self._queue.push(make, size, batch_ms)

    def heartbeat(self, heartbeat: Heartbeat) -> Future[Receipt]:
        return self._queue.heartbeat(heartbeat)

    def clock_heartbeat(self, stream: int) -> Future[Receipt]:
        """Advances a stream that runs by the clock to the clock's time: an arrival without an element."""
        return self._queue.clock_heartbeat(stream)

    def derived(self, request: Push | Heartbeat) -> Future[Receipt]:
        """An emission for the stream of its query, or a heartbeat. It is never rejected: the emission exists
        already."""
        return self._queue.own(request)

    def idle(self, idle: Idle) -> Future[Receipt]:
        return self._queue.own(idle)

    def change(self, change: Change) -> Future[Any]:
        return self._queue.change(change)

    def own_change(self, change: Change) -> Future[Any]:
        """A change of the server itself, which no client would repeat; it is never rejected."""
        return self._queue.own(change)

    def status(self) -> dict[str, Any]:
        """Takes no lock: each figure was true a moment ago."""
        fault = self._fault
        return {
            "head": self.head,
            "queued": len(self._queue),
            "queued_bytes": self._queue.queued_bytes,
            "fault": None if fault is None else f"{type(fault).__name__}: {fault}",
        }

    def halt(self, error: BaseException) -> None:
        """Stops the writer, because of `error`; what is under way ends first."""
        self._queue.halt(error)

    def follow(self) -> None:
        """For a writer that has stopped: reads what others have published."""
        head = int(self._store.refresh())
        if head != self.head:
            rows = self._store.catalog(head)
            if rows != self._catalog_rows:  # few snapshots change it; to compare costs less than to decode
                self.catalog, self._catalog_rows = Catalog.read(self._store, head), rows
            self.positions = dict(self._store.vts(head))
            self.head = head

    def close(self) -> None:
        """Writes what is queued, then ends."""
        self._queue.close()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join()

    # ---- the writer's thread ---------------------------------------------------------------------------------

    def _run(self) -> None:
        front: list[QueuedRequest] = []
        try:
            while front := self._queue.take():
                self._reached = "filling"
                match front[0].together:
                    case Together.PUSHES:
                        self._publish_pushes(front)
                    case Together.REGISTRATIONS:
                        self._publish_registrations(front)
                    case Together.UPDATES:
                        self._publish_updates(front)
                    case None:
                        self._publish_change(front[0])
        except BaseException as error:  # noqa: BLE001 -- all requests get the error, now and later
            self._stop(error, front)

    def _publish_pushes(self, group: list[QueuedRequest]) -> None:
        gathering = Gathering(self.catalog, self.positions)
        accepted: list[tuple[QueuedRequest, Accepted]] = []
        for waiting in group:
            try:
                match waiting.request:
                    case Push() as push:
                        accepted.append((waiting, gathering.push(push)))
                    case Heartbeat() as heartbeat:
                        accepted.append((waiting, gathering.heartbeat(heartbeat)))
                    case Idle() as idle:
                        accepted.append((waiting, gathering.idle(idle)))
            except (Fenced, AnotherWriter):
                raise
            except Exception as error:  # noqa: BLE001 -- nothing is written yet: it concerns this push alone
                waiting.future.set_exception(error)
        if gathering:
            written = [waiting for waiting, _ in accepted]
            batch = self._fill(gathering.write, gathering.steps(), written)
            if isinstance(batch, Exception):
                self._refuse_pushes(written, batch)
                return
            try:
                self._publish(batch, gathering.steps(), [entry for _, entry in accepted])
            except Unwritable as error:
                self._refuse_pushes(written, error)
                return
            self.dropped += gathering.dropped
            self._queue.batch_published_ms = self._clock.now_ms()
        for waiting, entry in accepted:
            waiting.future.set_result(self._receipt(waiting, entry))

    def _refuse_pushes(self, group: list[QueuedRequest], error: Exception) -> None:
        """Publishes the pushes of a failed snapshot one by one, so that only those fail that caused the failure."""
        if len(group) == 1 or isinstance(error, StoreUnavailable):
            _refuse(group, error)
            return
        for waiting in group:
            self._publish_pushes([waiting])

    def _receipt(self, waiting: QueuedRequest, accepted: Accepted) -> Receipt:
        request = waiting.request
        assert isinstance(request, (Push, Heartbeat, Idle))
        position = self.positions.get(request.stream)
        batch = position.batch if position else 0
        if accepted is REPEATED:
            return Receipt(0, 0, batch, self.head, repeated=True)
        return Receipt(len(accepted.element_times), self._listener.late_in(accepted), batch, self.head)

    def _intent_of(self, waiting: QueuedRequest, catalog: Catalog) -> Intent | None:
        """What a change will do if this is the catalog; None: it failed."""
        change = waiting.request
        assert not isinstance(change, (Push, Heartbeat, Idle))
        try:
            return change(HeadView(self._store, self.head, catalog, self.positions, self.numbers.new))
        except (Fenced, AnotherWriter):
            raise
        except Exception as error:  # noqa: BLE001 -- nothing is written yet: it concerns this request alone
            waiting.future.set_exception(error)
            return None

    def _publish_change(self, waiting: QueuedRequest) -> None:
        intent = self._intent_of(waiting, self.catalog)
        if intent is None:
            return
        if intent.steps or intent.write is not None:
            batch = self._fill(intent.write, intent.steps, [waiting], intent.terms)
            if isinstance(batch, Exception):
                _refuse([waiting], batch)
                return
            try:
                if not (intent.skips_empty and batch.is_empty):
                    self._publish(batch, intent.steps, [])
            except Unwritable as error:
                _refuse([waiting], error)
                return
        if intent.publish is not None:
            try:
                self._publish_load(intent.publish)
            except (Fenced, AnotherWriter):
                raise
            except Exception as error:  # noqa: BLE001 -- nothing was published: it concerns this request alone
                waiting.future.set_exception(error)
                return
        waiting.future.set_result(intent.result(self.head))

    def _publish_updates(self, group: list[QueuedRequest]) -> None:
        filled = self._fill_updates(group)
        batches = [batch for _, _, batch in filled if not batch.is_empty]
        sn = self.head
        try:
            if batches:
                self._publish_together(batches)
        except Unwritable as error:
            if len(group) == 1:
                _refuse(group, error)
                return
            for waiting, _, _ in filled:  # so that only those fail that caused the failure
                self._publish_updates([waiting])
            return
        self._queue.updates_published(len(group))
        for waiting, intent, batch in filled:
            sn += not batch.is_empty
            waiting.future.set_result(intent.result(sn))

    def _fill_updates(self, group: list[QueuedRequest]) -> list[tuple[QueuedRequest, Intent, Batch]]:
        """Each sees those before it. What is too much for one group is taken out of it, and put back into the queue."""
        filled: list[tuple[QueuedRequest, Intent, Batch]] = []
        until_ms, room = self._clock.now_ms() + _FILLING_MS_MAX, _FILLED_BYTES_MAX
        for place, waiting in enumerate(group):
            is_full = bool(filled) and (self._clock.now_ms() >= until_ms or room <= 0)
            intent = None if is_full else self._intent_of(waiting, self.catalog)
            after = [batch for _, _, batch in filled if not batch.is_empty]
            batch = None if intent is None else self._fill(intent.write, (), [waiting], after=after)
            if is_full or isinstance(batch, MustBeFirst):
                self._queue.put_back(group[place:])
                del group[place:]
                break
            if isinstance(batch, Exception):
                waiting.future.set_exception(batch)
            elif intent is not None and batch is not None:
                filled.append((waiting, intent, batch))
                room -= sum(map(len, batch.pack().pieces))
        return filled

    def _publish_together(self, batches: Sequence[Batch]) -> None:
        """As a snapshot each. They move no stream, and leave the catalog as it is."""
        self._reached = "committing"
        last = int(self._retry(lambda: self._store.commit(*batches)))
        self._reached = "committed"
        for sn in range(self.head + 1, last + 1):
            self.head = sn
            self._listener.published(PublishedBatch(sn, [], [], self.catalog, self.catalog, self.positions, sn < last))

    def _publish_registrations(self, group: Sequence[QueuedRequest]) -> None:
        """Each change sees the catalog after those before it; together they are one snapshot."""
        catalog = self.catalog
        intents: list[tuple[QueuedRequest, Intent]] = []
        for waiting in group:
            intent = self._intent_of(waiting, catalog)
            if intent is None:
                continue
            intents.append((waiting, intent))
            for step in intent.steps:
                catalog = catalog.after(step)
        steps = [step for _, intent in intents for step in intent.steps]
        if steps:
            terms = [term for _, intent in intents for term in intent.terms]
            group = [waiting for waiting, _ in intents]
            batch = self._fill(None, steps, group, terms)
            if isinstance(batch, Exception):
                _refuse(group, batch)
                return
            try:
                self._publish(batch, steps, [], catalog)
            except Unwritable as error:
                _refuse([waiting for waiting, _ in intents], error)
                return
        for waiting, intent in intents:
            waiting.future.set_result(intent.result(self.head))

    def _publish_load(self, publish: Callable[[], object]) -> None:
        self._reached = "committing"
        try:
            publish()
        except StoreUnavailable:
            if self._retry(self._store.resolve_outcome) == self.head:
                raise
        if (sn := int(self._store.head())) > self.head:
            self._reached = "committed"
            self._published(sn, [], [])

    def _fill(
        self,
        write: Callable[[Batch], None] | None,
        steps: Sequence[CatalogStep],
        group: Sequence[QueuedRequest],
        terms: Sequence[bytes] = (),
        after: Sequence[Batch] = (),
    ) -> Batch | Exception:
        """The batch, or why it could not be written: a batch that is dropped leaves nothing behind."""

        def fill() -> Batch:
            batch = self._store.begin(after)
            batch.time = self._clock.now_ms()
            if write is not None:
                write(batch)
            if terms:
                batch.encode(terms)
            for step in steps:
                batch.catalog(step.kind, step.number, step.body())
                if isinstance(step.definition, StreamDefinition) and self.catalog.reads_any_stream:
                    batch.encode([iri(step.definition.iri)])  # queries over every stream bind a variable to it
            return batch

        is_retried = any(waiting.is_retried for waiting in group)
        try:
            return self._retry(fill) if is_retried else fill()
        except (Fenced, AnotherWriter):
            raise
        except Exception as error:  # nothing is published yet: it concerns these requests alone
            if is_retried and isinstance(error, StoreUnavailable):
                raise  # the writer stops; emissions are pushed again by the next one
            return error

    def _retry(self, act: Callable[[], Result]) -> Result:
        return retry(act, self._clock, lambda: self._queue.is_ending, waits=self._waits)

    def _publish(
        self, batch: Batch, steps: Sequence[CatalogStep], accepted: Sequence[Accepted], catalog: Catalog | None = None
    ) -> None:
        self._reached = "committing"
        sn = int(self._retry(lambda: self._store.commit(batch)))
        self._reached = "committed"
        self._published(sn, steps, accepted, catalog)

    def _published(
        self, sn: int, steps: Sequence[CatalogStep], accepted: Sequence[Accepted], catalog: Catalog | None = None
    ) -> None:
        """`catalog`: the one after these steps, if it is known."""
        assert sn == self.head + 1, (
            f"snapshots must follow each other without gaps: {sn} was published after {self.head}"
        )
        before = self.catalog
        if catalog is None:
            catalog = before
            for step in steps:
                catalog = catalog.after(step)
        self.catalog = catalog
        self.positions = self._store.vts(sn)
        self.head = sn
        news = [one for one in accepted if one is not REPEATED]
        self._listener.published(PublishedBatch(sn, news, steps, before, self.catalog, self.positions))

    def _stop(self, error: BaseException, front: list[QueuedRequest]) -> None:
        refusal = refusal_of(error, self._store.url)
        self._fault = error
        queued = self._queue.refuse_all(refusal)
        if not resumes_after(error):
            log.error("the writer has stopped because of a fault of this server", exc_info=error)
        self._listener.stopped(error)
        waiting = [one for one in front if not one.future.done()]
        _refuse(waiting, refusal if self._is_undone(error) else outcome_unknown(error, self._store.url, self.head))
        _refuse(queued, refusal)

    def _is_undone(self, error: BaseException) -> bool:
        """Whether it is certain that none of the requests counts that were taken from the queue."""
        if self._reached == "committing":
            return isinstance(error, Fenced) and not isinstance(error, Undecided)
        return self._reached == "filling"


def _refuse(group: Sequence[QueuedRequest], error: Exception) -> None:
    """Fails these requests, of which nothing was written."""
    for waiting in group:
        waiting.future.set_exception(error)
