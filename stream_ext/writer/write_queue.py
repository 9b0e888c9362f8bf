"""The queue before the writer: requests in the order of their arrival, and which of them are published at once.

The writer takes the front of the queue: either all pushes and heartbeats up to the next request of another kind, or in
the same way all registrations, or all short updates, or one other request.

    push, push, heartbeat, update, update, push    =>    [push, push, heartbeat], [update, update], [push]

    A batch of pushes closes when the writer is free and either
      - some time has passed since the last one was published (so that a busy stream makes few, big snapshots), or
      - its first element has waited for as long as its stream allows, or
      - another request is behind it, so that no push can join it any more.
    A push to an idle server is therefore published at once.

    A group of updates closes as soon as it is as large as the group before it and those that waited when that was
    published: its clients have been answered, and send their next updates now. It waits for them at most a third as
    long as that group took; as long, where a publish is round trips to another process. So clients who wait for each
    other share a publish, and one alone never waits."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from stream_ext.clock import Clock
from stream_ext.errors import Overload, RilletError
from stream_ext.writer.change import Change, Together
from stream_ext.writer.gathering import Heartbeat, Idle, Push, Request
from stream_ext.writer.refusal import RETRY_AFTER_S, refusal_of

#: A snapshot takes at most this many bytes of pushes, so that one snapshot is never long to read.
_BATCH_BYTES_MAX = 8 << 20
#: At most this many registrations are one snapshot, as a runner starts all of them at once; and at most this many
#: updates are published at once.
_COUNT_MAX = {Together.REGISTRATIONS: 128, Together.UPDATES: 32}
#: Updates that wait for the next updates of other clients do so no longer than this.
_GATHERING_MS_MAX = 20


@dataclass(frozen=True, slots=True)
class PublishingPace:
    """How often batches are published, and how much may wait."""

    spacing_ms: int = 5  # between two batches
    batch_ms: int = 100  # the longest that an element waits, unless its stream says otherwise
    queue_bytes: int = 64 << 20
    queue_requests: int = 65_536  # heartbeats and updates have no size, and are bounded too
    gathering_share: int = 3  # updates wait for others for this part of the time that the group before took


@dataclass(slots=True)
class QueuedRequest:
    """A request in the queue. A push's `size` counts against the limit of the queue."""

    request: Request | Change
    size: int
    publish_by_ms: int
    is_retried: bool = False  # no client would repeat it
    future: Future[Any] = field(default_factory=Future)

    @property
    def together(self) -> Together | None:
        """With which requests next to it it is taken from the queue; None: alone."""
        if isinstance(self.request, (Push, Heartbeat, Idle)):
            return Together.PUSHES
        return getattr(self.request, "together", None)


class WriteQueue:
    """Any thread puts requests into it; the writer's thread takes them."""

    def __init__(self, clock: Clock, pace: PublishingPace, url: str) -> None:
        """`url` names the store in errors."""
        self._clock, self._pace, self._url = clock, pace, url
        self._changed = threading.Condition()
        self._queue: deque[QueuedRequest] = deque()
        self._queued_bytes = 0
        self._refusal: RilletError | None = None  # of all requests, after the writer has stopped
        self._halted_by: BaseException | None = None
        self._closed = False
        self._arrived_ms = 0
        self._waits_until: int | None = None  # when the batch closes that the writer waits for
        #: When the last batch of pushes was published; the writer sets it.
        self.batch_published_ms: int | None = None
        self._last_group_ms = 0  # when the writer took its last group
        # How many updates the next group awaits, and until when.
        self._awaited_updates = self._gathers_until_ms = 0

    # ---- callers' threads ------------------------------------------------------------------------------------

    def push(self, make: Callable[[int], Push], size: int, batch_ms: int | None) -> Future[Any]:
        """`make` gets the time of arrival, which follows the order of the queue."""
        with self._changed:
            self._check_room(size)
            # The machine's clock may be set back; arrival never goes back.
            now_ms = self._clock.now_ms()
            self._arrived_ms = max(self._arrived_ms, now_ms)
            patience = self._pace.batch_ms if batch_ms is None else batch_ms
            return self._enqueue(QueuedRequest(make(self._arrived_ms), size, now_ms + patience))

    def heartbeat(self, heartbeat: Heartbeat) -> Future[Any]:
        with self._changed:
            self._check_count()
            return self._enqueue(QueuedRequest(heartbeat, 0, self._clock.now_ms() + self._pace.batch_ms))

    def clock_heartbeat(self, stream: int) -> Future[Any]:
        """Advances a stream that runs by the clock to the clock's time: an arrival without an element."""
        with self._changed:
            self._arrived_ms = max(self._arrived_ms, self._clock.now_ms())
            return self._enqueue_own(Heartbeat(stream, self._arrived_ms, by_clock=True), self._arrived_ms)

    def own(self, request: Request | Change) -> Future[Any]:
        """A request of the server itself, which no client would repeat; it is never rejected."""
        with self._changed:
            return self._enqueue_own(request, self._clock.now_ms())

    def change(self, change: Change) -> Future[Any]:
        with self._changed:
            self._check_count()
            return self._enqueue(QueuedRequest(change, 0, self._clock.now_ms()))

    def _check_count(self) -> None:
        if len(self._queue) >= self._pace.queue_requests:
            raise Overload(
                f"{len(self._queue)} requests are waiting to be written; send this one again later", RETRY_AFTER_S
            )

    def _check_room(self, size: int) -> None:
        self._check_count()
        if self._queue and self._queued_bytes + size > self._pace.queue_bytes:
            raise Overload(
                f"{self._queued_bytes} bytes of pushes are waiting to be written; send this one again later",
                RETRY_AFTER_S,
            )

    def _enqueue_own(self, request: Request | Change, publish_by_ms: int) -> Future[Any]:
        return self._enqueue(QueuedRequest(request, 0, publish_by_ms, is_retried=True))

    def _enqueue(self, waiting: QueuedRequest) -> Future[Any]:
        if self._refusal is not None:
            raise self._refusal
        if self._halted_by is not None:  # it stops after what is under way
            raise refusal_of(self._halted_by, self._url)
        if self._closed:
            raise RilletError("the store is being closed and accepts no more writes")
        self._queue.append(waiting)
        self._queued_bytes += waiting.size
        if self._wakes_writer(waiting):
            self._changed.notify_all()
        return waiting.future

    def _wakes_writer(self, added: QueuedRequest) -> bool:
        """What joins the group that the writer waits for wakes it only if the group closes now, or earlier."""
        kind = self._queue[0].together
        if len(self._queue) == 1 or added.together is not kind:
            return True
        if kind is Together.PUSHES:
            return self._waits_until is not None and added.publish_by_ms < self._waits_until
        return kind is not Together.UPDATES or len(self._queue) >= self._awaited_updates

    def __len__(self) -> int:
        """Takes no lock: it was true a moment ago."""
        return len(self._queue)

    @property
    def queued_bytes(self) -> int:
        """Takes no lock: it was true a moment ago."""
        return self._queued_bytes

    def halt(self, error: BaseException) -> None:
        """The writer gets this error at its next `take`; new requests are rejected."""
        with self._changed:
            if self._halted_by is None:
                self._halted_by = error
                self._changed.notify_all()

    def close(self) -> None:
        """New requests are rejected; the writer gets those that are queued, and then none."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    @property
    def is_ending(self) -> bool:
        """Whether the queue was closed, or halted."""
        return self._closed or self._halted_by is not None

    # ---- the writer's thread ---------------------------------------------------------------------------------

    def take(self) -> list[QueuedRequest]:
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

    def updates_published(self, count: int) -> None:
        """The group of so many updates that was taken last is published, and its clients will be answered now."""
        with self._changed:
            now_ms = self._clock.now_ms()
            self._awaited_updates = min(count + len(self._queue), _COUNT_MAX[Together.UPDATES])
            self._gathers_until_ms = now_ms + min(
                (now_ms - self._last_group_ms) // self._pace.gathering_share, _GATHERING_MS_MAX
            )

    def put_back(self, requests: Sequence[QueuedRequest]) -> None:
        """Returns requests that were taken, and for which nothing was done yet, to the front of the queue."""
        with self._changed:
            self._queue.extendleft(reversed(requests))
            self._queued_bytes += sum(waiting.size for waiting in requests)
            self._awaited_updates = 0  # these have waited already

    def refuse_all(self, refusal: RilletError) -> list[QueuedRequest]:
        """All requests from now on get this error; returns those that are queued, which the caller fails."""
        with self._changed:
            self._refusal = refusal
            queued = [*self._queue]
            self._queue.clear()
            self._queued_bytes = 0
            return queued

    def _front(self) -> list[QueuedRequest]:
        """The longest front of the queue that may be published at once."""
        front: list[QueuedRequest] = []
        size = 0
        for waiting in self._queue:
            if front and not (self._joins(waiting, front) and size + waiting.size <= _BATCH_BYTES_MAX):
                break
            front.append(waiting)
            size += waiting.size
        return front

    def _joins(self, waiting: QueuedRequest, front: Sequence[QueuedRequest]) -> bool:
        kind = front[0].together
        return kind is not None and waiting.together is kind and len(front) < _COUNT_MAX.get(kind, len(self._queue))

    def _close_at(self, front: list[QueuedRequest]) -> int | None:
        """When this batch closes; None: at once."""
        kind = front[0].together
        if self._closed or len(front) < len(self._queue):
            return None
        if kind is Together.UPDATES and len(front) < self._awaited_updates:
            return self._gathers_until_ms
        if kind is not Together.PUSHES or self.batch_published_ms is None:
            return None
        spaced = self.batch_published_ms + self._pace.spacing_ms
        return min(spaced, min(waiting.publish_by_ms for waiting in front))

    def _remove(self, front: list[QueuedRequest]) -> list[QueuedRequest]:
        for waiting in front:
            self._queue.popleft()
            self._queued_bytes -= waiting.size
        self._last_group_ms = self._clock.now_ms()
        return front
