"""The injector: the one thread that writes, and the queue before it.

Every change of the store is a request in one queue, and is acknowledged in the order of the queue. The writer takes the
front of the queue: either all pushes and heartbeats up to the next request of another kind, which become one snapshot
(group commit), or in the same way all registrations, or one other request, which becomes a snapshot of its own.

    A batch of pushes closes when the writer is free and either
      - some time has passed since the last one was published (so that a busy stream makes few, big snapshots), or
      - its first element has waited for as long as its stream allows, or
      - another request is behind it, so that no push can join it any more.
    A push to an idle server is therefore published at once.

A failure before the commit fails only the requests of that batch, and changes nothing; of pushes, only those that
caused it. Requests that no client would repeat (emissions for derived streams, heartbeats of the clock) are retried for
as long as a commit is.

A failure of the commit stops the writer. Requests that wait in the queue fail: nothing of them was done. For the
requests of the commit the outcome is not known, unless the failure decides it. A stopped injector writes no more; it
still follows the store (`follow`), until it is replaced by a new one."""

from __future__ import annotations

import logging
import threading
from collections import Counter, deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeVar

from hbase_store import Batch, Store, StreamPosition
from hbase_store.errors import Fenced, StoreUnavailable, Undecided, Unwritable, WriterElsewhere
from hbase_store.layout.terms import iri
from stream_ext.catalog.catalog import Catalog, CatalogStep, StreamDefinition
from stream_ext.catalog.numbers import NumberAllocator
from stream_ext.clock import Clock
from stream_ext.errors import NotWriter, OutcomeUnknown, Overload, RilletError
from stream_ext.retry import retry
from stream_ext.waits import Waits
from stream_ext.writer.gathering import REPEATED, Accepted, Gathering, Heartbeat, Idle, Push, Request

#: A snapshot takes at most this many bytes of pushes, so that one snapshot is never long to read.
_BATCH_BYTES_MAX = 8 << 20
#: And at most this many registrations: a runner starts all of them at once.
_CHANGES_MAX = 128
_RETRY_AFTER_S = 1

Result = TypeVar("Result")

log = logging.getLogger("rillet.store")


@dataclass(frozen=True, slots=True)
class PublishingPace:
    """How often batches are published, and how much may wait."""

    spacing_ms: int = 5  # between two batches
    batch_ms: int = 100  # the longest that an element waits, unless its stream says otherwise
    queue_bytes: int = 64 << 20
    queue_requests: int = 65_536  # heartbeats and updates have no size, and are bounded too


@dataclass(frozen=True, slots=True)
class HeadView:
    """What a change reads: the state at the head."""

    store: Store
    head: int
    catalog: Catalog
    positions: dict[int, StreamPosition]
    new_number: Callable[[str], int]  # of a stream or a query; no number is used twice


@dataclass(frozen=True, slots=True)
class Intent:
    """What a change will do. Without steps and without `write` nothing is published; `result` gets the SN.

    `terms` become permanent with its steps."""

    result: Callable[[int], Any]
    steps: Sequence[CatalogStep] = ()
    terms: Sequence[bytes] = ()
    write: Callable[[Batch], None] | None = None
    skips_empty: bool = False  # what leaves the batch empty makes no snapshot; only `write` can tell
    publish: Callable[[], object] | None = None  # the last step of a load: it publishes one snapshot by itself, or none


class Change(Protocol):
    """An update request, or a change of the catalog. It is a snapshot of its own, unless it `joins`: consecutive
    changes that join are one snapshot; such a change only changes the catalog, and encodes terms."""

    def __call__(self, view: HeadView) -> Intent:
        """Raises if it cannot be done; nothing has been changed then."""
        ...


@dataclass(frozen=True, slots=True)
class Receipt:
    """The outcome of a push: late elements, the stream's batch, the snapshot."""

    accepted: int
    late: int
    batch: int
    snapshot: int
    repeated: bool = False


@dataclass(frozen=True, slots=True)
class PublishedBatch:
    """A snapshot that is now the head: what it did to streams, in order, and to the catalog (before and after)."""

    sn: int
    accepted: Sequence[Accepted]
    steps: Sequence[CatalogStep]
    before: Catalog
    catalog: Catalog
    positions: dict[int, StreamPosition]


class Listener(Protocol):
    def published(self, news: PublishedBatch) -> None:
        """Called by the writer when the head has moved, before requests are acknowledged; must be quick."""
        ...

    def late_in(self, accepted: Accepted) -> int:
        """How many of these elements are late for at least one query. Called once for each, in order."""
        ...

    def stopped(self, error: BaseException) -> None:
        """The writer has stopped; nothing more is published by this injector."""
        ...


class _NotStarted:
    """The listener until `start`."""

    def published(self, news: PublishedBatch) -> None:
        raise AssertionError("published before the start")

    def late_in(self, accepted: Accepted) -> int:
        raise AssertionError("pushed before the start")

    def stopped(self, error: BaseException) -> None:
        raise AssertionError("stopped before the start")


@dataclass(slots=True)
class _QueuedRequest:
    """A request in the queue. A push's `size` counts against the limit of the queue."""

    request: Request | Change
    size: int
    publish_by_ms: int
    is_retried: bool = False  # no client would repeat it
    future: Future[Any] = field(default_factory=Future)

    @property
    def grouped(self) -> bool:
        return isinstance(self.request, (Push, Heartbeat, Idle))

    @property
    def joins(self) -> bool:
        """It is a change that may be in one snapshot with others that join."""
        return bool(getattr(self.request, "joins", False))


class Injector:
    def __init__(self, store: Store, clock: Clock, pace: PublishingPace, waits: Waits) -> None:
        self._store, self._clock, self._pace, self._waits = store, clock, pace, waits
        self.numbers = NumberAllocator(store.kv)
        self._listener: Listener = _NotStarted()
        self._changed = threading.Condition()
        self._queue: deque[_QueuedRequest] = deque()
        self._queued_bytes = 0
        self._fault: BaseException | None = None  # why the writer has stopped,
        self._refusal: RilletError | None = None  # and the error of later requests
        self._halted_by: BaseException | None = None
        self._reached: Literal["filling", "committing", "committed"] = (
            "filling"  # of the requests that were taken from the queue
        )
        self._closed = False
        self._arrived_ms = 0
        self._waits_until: int | None = None  # when the batch closes that the writer waits for
        self._batch_published_ms: int | None = None
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
        with self._changed:
            self._check_room(size)
            # The machine's clock may be set back; arrival never goes back.
            self._arrived_ms = max(self._arrived_ms, self._clock.now_ms())
            patience = self._pace.batch_ms if batch_ms is None else batch_ms
            return self._enqueue(_QueuedRequest(make(self._arrived_ms), size, self._clock.now_ms() + patience))

    def heartbeat(self, heartbeat: Heartbeat) -> Future[Receipt]:
        with self._changed:
            self._check_count()
            return self._enqueue(_QueuedRequest(heartbeat, 0, self._clock.now_ms() + self._pace.batch_ms))

    def clock_heartbeat(self, stream: int) -> Future[Receipt]:
        """Advances a stream that runs by the clock to the clock's time: an arrival without an element."""
        with self._changed:
            self._arrived_ms = max(self._arrived_ms, self._clock.now_ms())
            return self._enqueue_our_own(Heartbeat(stream, self._arrived_ms, by_clock=True), self._arrived_ms)

    def derived(self, request: Push | Heartbeat) -> Future[Receipt]:
        """An emission for the stream of its query, or a heartbeat. It is never rejected: the emission exists
        already."""
        with self._changed:
            return self._enqueue_our_own(request, self._clock.now_ms())

    def idle(self, idle: Idle) -> Future[Receipt]:
        with self._changed:
            return self._enqueue_our_own(idle, self._clock.now_ms())

    def change(self, change: Change) -> Future[Any]:
        with self._changed:
            self._check_count()
            return self._enqueue(_QueuedRequest(change, 0, self._clock.now_ms()))

    def own_change(self, change: Change) -> Future[Any]:
        """A change of the server itself, which no client would repeat; it is never rejected."""
        with self._changed:
            return self._enqueue(_QueuedRequest(change, 0, self._clock.now_ms(), is_retried=True))

    def _check_count(self) -> None:
        if len(self._queue) >= self._pace.queue_requests:
            raise Overload(
                f"{len(self._queue)} requests are waiting to be written; send this one again later", _RETRY_AFTER_S
            )

    def _check_room(self, size: int) -> None:
        self._check_count()
        if self._queue and self._queued_bytes + size > self._pace.queue_bytes:
            raise Overload(
                f"{self._queued_bytes} bytes of pushes are waiting to be written; send this one again later",
                _RETRY_AFTER_S,
            )

    def _enqueue_our_own(self, request: Request, publish_by_ms: int) -> Future[Any]:
        return self._enqueue(_QueuedRequest(request, 0, publish_by_ms, is_retried=True))

    def _enqueue(self, waiting: _QueuedRequest) -> Future[Any]:
        if self._refusal is not None:
            raise self._refusal
        if self._halted_by is not None:  # it stops after what is under way
            raise refusal_of(self._halted_by, self._store.url)
        if self._closed:
            raise RilletError("the store is being closed and accepts no more writes")
        self._queue.append(waiting)
        self._queued_bytes += waiting.size
        # A push that joins the batch that the writer waits for wakes it only if the batch must close earlier.
        joins = waiting.grouped and len(self._queue) > 1
        if not joins or (self._waits_until is not None and waiting.publish_by_ms < self._waits_until):
            self._changed.notify_all()
        return waiting.future

    def status(self) -> dict[str, Any]:
        """Takes no lock: each figure was true a moment ago."""
        fault = self._fault
        return {
            "head": self.head,
            "queued": len(self._queue),
            "queued_bytes": self._queued_bytes,
            "fault": None if fault is None else f"{type(fault).__name__}: {fault}",
        }

    def halt(self, error: BaseException) -> None:
        """Stops the writer, because of `error`; what is under way ends first."""
        with self._changed:
            if self._halted_by is None:
                self._halted_by = error
                self._changed.notify_all()

    def follow(self) -> None:
        """For a writer that has stopped: reads what others have published since."""
        head = int(self._store.refresh())
        if head != self.head:
            rows = self._store.catalog(head)
            if rows != self._catalog_rows:  # few snapshots change it; to compare costs less than to decode
                self.catalog, self._catalog_rows = Catalog.read(self._store, head), rows
            self.positions = dict(self._store.vts(head))
            self.head = head

    def close(self) -> None:
        """Writes what is queued, then ends."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join()

    # ---- the writer's thread ---------------------------------------------------------------------------------

    def _run(self) -> None:
        front: list[_QueuedRequest] = []
        try:
            while front := self._take():
                self._reached = "filling"
                if front[0].grouped:
                    self._publish_pushes(front)
                elif len(front) > 1:
                    self._publish_changes(front)
                else:
                    self._publish_change(front[0])
        except BaseException as error:  # noqa: BLE001 -- all requests get the error, now and later
            self._stop(error, front)

    def _take(self) -> list[_QueuedRequest]:
        """Waits until a snapshot may be published; returns its requests; empty at the end."""
        with self._changed:
            while True:
                if self._halted_by is not None:
                    raise self._halted_by
                front = self._front()
                if front:
                    close_at = self._close_at(front)
                    if close_at is None or close_at <= self._clock.now_ms():
                        return self._remove(front)
                    self._waits_until = close_at
                    self._clock.wait(self._changed, close_at)
                    self._waits_until = None
                elif self._closed:
                    return []
                else:
                    self._clock.wait(self._changed, None)

    def _front(self) -> list[_QueuedRequest]:
        """The longest front of the queue that may be one snapshot."""
        front: list[_QueuedRequest] = []
        size = 0
        for waiting in self._queue:
            if front and not (self._joins(waiting, front) and size + waiting.size <= _BATCH_BYTES_MAX):
                break
            front.append(waiting)
            size += waiting.size
            if not (waiting.grouped or waiting.joins):
                break
        return front

    def _joins(self, waiting: _QueuedRequest, front: Sequence[_QueuedRequest]) -> bool:
        if front[0].joins:
            return waiting.joins and len(front) < _CHANGES_MAX
        return waiting.grouped

    def _close_at(self, front: list[_QueuedRequest]) -> int | None:
        """When this batch closes; None: at once."""
        if self._closed or not front[0].grouped or len(front) < len(self._queue) or self._batch_published_ms is None:
            return None
        spaced = self._batch_published_ms + self._pace.spacing_ms
        return min(spaced, min(waiting.publish_by_ms for waiting in front))

    def _remove(self, front: list[_QueuedRequest]) -> list[_QueuedRequest]:
        for waiting in front:
            self._queue.popleft()
            self._queued_bytes -= waiting.size
        return front

    def _publish_pushes(self, group: list[_QueuedRequest]) -> None:
        gathering = Gathering(self.catalog, self.positions)
        accepted: list[tuple[_QueuedRequest, Accepted]] = []
        for waiting in group:
            try:
                match waiting.request:
                    case Push() as push:
                        accepted.append((waiting, gathering.push(push)))
                    case Heartbeat() as heartbeat:
                        accepted.append((waiting, gathering.heartbeat(heartbeat)))
                    case Idle() as idle:
                        accepted.append((waiting, gathering.idle(idle)))
            except (Fenced, WriterElsewhere):
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
            self._batch_published_ms = self._clock.now_ms()
        for waiting, entry in accepted:
            waiting.future.set_result(self._receipt(waiting, entry))

    def _refuse_pushes(self, group: list[_QueuedRequest], error: Exception) -> None:
        """Publishes the pushes of a failed snapshot one by one, so that only those fail that caused the failure."""
        if len(group) == 1 or isinstance(error, StoreUnavailable):
            _refuse(group, error)
            return
        for waiting in group:
            self._publish_pushes([waiting])

    def _receipt(self, waiting: _QueuedRequest, accepted: Accepted) -> Receipt:
        request = waiting.request
        assert isinstance(request, (Push, Heartbeat, Idle))
        position = self.positions.get(request.stream)
        batch = position.batch if position else 0
        if accepted is REPEATED:
            return Receipt(0, 0, batch, self.head, repeated=True)
        return Receipt(len(accepted.element_times), self._listener.late_in(accepted), batch, self.head)

    def _publish_change(self, waiting: _QueuedRequest) -> None:
        change = waiting.request
        assert not isinstance(change, (Push, Heartbeat, Idle))
        try:
            intent = change(self._view(self.catalog))
        except (Fenced, WriterElsewhere):
            raise
        except Exception as error:  # noqa: BLE001 -- nothing is written yet: it concerns this request alone
            waiting.future.set_exception(error)
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
            except (Fenced, WriterElsewhere):
                raise
            except Exception as error:  # noqa: BLE001 -- nothing was published: it concerns this request alone
                waiting.future.set_exception(error)
                return
        waiting.future.set_result(intent.result(self.head))

    def _view(self, catalog: Catalog) -> HeadView:
        return HeadView(self._store, self.head, catalog, self.positions, self.numbers.new)

    def _publish_changes(self, group: Sequence[_QueuedRequest]) -> None:
        """Each change sees the catalog after those before it; together they are one snapshot."""
        catalog = self.catalog
        intents: list[tuple[_QueuedRequest, Intent]] = []
        for waiting in group:
            change = waiting.request
            assert not isinstance(change, (Push, Heartbeat, Idle))
            try:
                intent = change(self._view(catalog))
            except (Fenced, WriterElsewhere):
                raise
            except Exception as error:  # noqa: BLE001 -- nothing is written yet: it concerns this request alone
                waiting.future.set_exception(error)
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
        group: Sequence[_QueuedRequest],
        terms: Sequence[bytes] = (),
    ) -> Batch | Exception:
        """The batch, or why it could not be written: a batch that is dropped leaves nothing behind."""

        def fill() -> Batch:
            batch = self._store.begin()
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
        except (Fenced, WriterElsewhere):
            raise
        except Exception as error:  # nothing is published yet: it concerns these requests alone
            if is_retried and isinstance(error, StoreUnavailable):
                raise  # the writer stops; emissions are pushed again by the next one
            return error

    def _retry(self, act: Callable[[], Result]) -> Result:
        over = lambda: self._closed or self._halted_by is not None  # noqa: E731
        return retry(act, self._clock, over, waits=self._waits)

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

    def _stop(self, error: BaseException, front: list[_QueuedRequest]) -> None:
        refusal = refusal_of(error, self._store.url)
        with self._changed:
            self._fault, self._refusal = error, refusal
            queued = [*self._queue]
            self._queue.clear()
            self._queued_bytes = 0
        if not goes_on_after(error):
            log.error("the writer has stopped because of a fault of this server", exc_info=error)
        self._listener.stopped(error)
        waiting = [one for one in front if not one.future.done()]
        _refuse(waiting, refusal if self._is_undone(error) else self._unknown(error))
        _refuse(queued, refusal)

    def _is_undone(self, error: BaseException) -> bool:
        """Whether it is certain that none of the requests counts that were taken from the queue."""
        if self._reached == "committing":
            return isinstance(error, Fenced) and not isinstance(error, Undecided)
        return self._reached == "filling"

    def _unknown(self, error: BaseException) -> OutcomeUnknown:
        return OutcomeUnknown(
            f"the writer of {self._store.url} stopped while it wrote this request ({_named(error)}): it "
            f"is not known whether the request was written. Check the snapshots after {self.head}; a push "
            "with source and seq can safely be sent again"
        )


def goes_on_after(error: BaseException) -> bool:
    """Whether this process writes again by itself, once the store answers or the other writer has ended."""
    return isinstance(error, (Fenced, WriterElsewhere, StoreUnavailable))


def refusal_of(error: BaseException, url: str) -> RilletError:
    """The error of requests of which nothing is done."""
    if isinstance(error, RilletError):
        return error
    if goes_on_after(error):
        return NotWriter(
            f"this server cannot write to {url} now: {error}. Nothing of this request was applied; send "
            "it again later, to this server or to the writer",
            _RETRY_AFTER_S,
        )
    return NotWriter(
        f"the writer of {url} has stopped ({_named(error)}); nothing of this request was applied: see the "
        "server's log, and restart the server",
        0,
    )


def _named(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


def _refuse(group: Sequence[_QueuedRequest], error: Exception) -> None:
    """Fails these requests, of which nothing was written."""
    for waiting in group:
        waiting.future.set_exception(error)
