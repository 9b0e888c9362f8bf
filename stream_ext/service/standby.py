"""Standby: a service that does not write, because another process does or the store does not answer.

Twice a second a service that writes checks that the store answers, and that it is still the writer. If it is not, all
parts that belong to the writer epoch are ended. Then, until this process is the writer (again),

    it follows what others publish   reads are answered at the newest snapshot, and subscribers get what is emitted
    it tries to get the lease        which is free when the other writer has ended, or when its time is over
    then it starts everything anew   from catalog, positions and terms of the store: nothing known before is used

A service may also begin so: a second server of a store, which reads while the first one writes."""

from __future__ import annotations

import logging
import threading
import time
from typing import Protocol

from hbase_store import Store
from hbase_store.errors import AnotherWriter, DiskFull, Fenced, StoreError, StoreUnavailable
from stream_ext.clock import Clock
from stream_ext.waits import Kind, Waits

#: The time between two checks.
LOOK_MS = 500
#: A reader looks for new snapshots after so many milliseconds: while there are some, and when there were none for long.
FOLLOW_MS, IDLE_FOLLOW_MS = 10, 50
_IDLE_AFTER_MS = 2_000
#: While the writer tells of its snapshots, the reader looks by itself only so often; the writer is never silent for as
#: long as the second.
NOTIFIED_LOOK_MS, _NOTIFIED_FOR_MS = 5_000, 2_500
#: Of its time, following takes at most this part.
_FOLLOWS_AT_MOST = 0.25
_FAILURES_MAX = 3

_KINDS: tuple[Kind, ...] = ("lease", "disk", "store")

log = logging.getLogger("rillet.lease")


class Writing(Protocol):
    """The parts of a service that belong to one writer epoch."""

    def end(self, error: BaseException) -> None:
        """Ends the epoch, because of `error`. When this returns, no part of it runs any more."""
        ...

    def follow(self) -> bool:
        """Reads what others have published; whether there was anything."""
        ...

    def begin(self) -> None:
        """Begins another epoch: all parts are created anew at the head."""
        ...

    def give_up(self, error: BaseException) -> None:
        """No other epoch will begin, because of `error`."""
        ...


class Standby:
    def __init__(
        self,
        store: Store,
        clock: Clock,
        waits: Waits,
        writing: Writing,
        reads: AnotherWriter | None = None,
        forwards: bool = False,
    ) -> None:
        """`reads`: another process is the writer, so this one begins as a reader. `forwards`: writes are forwarded to
        the writer, so a writer that can be reached is nothing to wait for."""
        self._store, self._clock, self._waits, self._writing = store, clock, waits, writing
        self._forwards = forwards
        self._changed = threading.Condition()
        self._error: BaseException | None = reads  # why this process does not write
        self._has_ended = reads is not None
        self._closed = self._is_unanswered = self._is_urgent = self._has_news = False
        self._last_sign_ms: int | None = None
        self._holder: AnotherWriter | None = None
        if reads is not None:
            self._see_holder(reads)
        self._look_at_ms = self._moved_at_ms = 0
        self._follow_ms = FOLLOW_MS
        self._failed_in_a_row = 0
        self._thread = threading.Thread(target=self._run, name="rillet-standby", daemon=True)

    @property
    def holder(self) -> AnotherWriter | None:
        """The other process that is the writer; None: it is this one, or it is not known."""
        return self._holder

    @property
    def writes(self) -> bool:
        """Whether this process is the writer, as far as it knows."""
        return self._error is None

    def start(self) -> None:
        self._look_at_ms = self._clock.now_ms() + LOOK_MS
        self._thread.start()

    def lost(self, error: BaseException) -> None:
        """This process cannot write any more; any thread may call."""
        with self._changed:
            if self._error is None and not self._closed:
                self._error = error
                self._changed.notify_all()

    def hurry(self) -> None:
        """The writer does not answer: looks at once whether the lease is free. Any thread may call."""
        with self._changed:
            self._is_urgent, self._last_sign_ms = True, None
            self._changed.notify_all()

    def followed(self, news: bool) -> None:
        """The writer has given a sign of life; `news`: it has published something. Any thread may call."""
        with self._changed:
            self._last_sign_ms = self._clock.now_ms()
            if news and not self._has_news:
                self._has_news = True
                self._changed.notify_all()

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join()

    def _run(self) -> None:
        try:
            while self._is_time():
                self._has_news = False
                if self._is_urgent or self._clock.now_ms() >= self._look_at_ms or not self._has_ended:
                    self._is_urgent = False
                    self._look()
                    self._look_at_ms = self._clock.now_ms() + (NOTIFIED_LOOK_MS if self._is_notified() else LOOK_MS)
                else:
                    self._follow()
        except Exception as error:  # our bug, or a store that cannot be read: listeners get the error
            log.error("this server does not write until it is restarted", exc_info=error)
            self._writing.give_up(error)

    def _is_time(self) -> bool:
        """Waits until the next look is due, or until a reader follows; False at the end."""
        with self._changed:
            at_ms = self._look_at_ms
            if self._has_ended:
                at_ms = min(at_ms, self._clock.now_ms() + self._follow_ms)
            while not (self._closed or self._is_urgent or self._has_news) and self._clock.now_ms() < at_ms:
                if self._error is not None and not self._has_ended:
                    break  # lost just now
                self._clock.wait(self._changed, at_ms)
            return not self._closed

    def _follow(self) -> None:
        """Quickly while something is published, less often otherwise; and never most of the time."""
        began = time.perf_counter()
        try:
            moved = self._writing.follow()
        except StoreUnavailable as error:
            self._waits.begin("store", str(error))  # the next look that is answered ends it
            moved = False
        except StoreError:
            # What was just read may have been replaced and deleted before the rest was, if this process stood still.
            self._failed_in_a_row += 1
            if self._failed_in_a_row >= _FAILURES_MAX:
                raise
            moved = False
        else:
            self._failed_in_a_row = 0
        took_ms = (time.perf_counter() - began) * 1000
        now_ms = self._clock.now_ms()
        if moved:
            self._moved_at_ms = now_ms
        usual_ms = FOLLOW_MS if now_ms - self._moved_at_ms < _IDLE_AFTER_MS else IDLE_FOLLOW_MS
        if self._is_notified():
            usual_ms = NOTIFIED_LOOK_MS
        self._follow_ms = max(usual_ms, int(took_ms / _FOLLOWS_AT_MOST))

    def _is_notified(self) -> bool:
        """Whether the writer tells this reader of its snapshots."""
        last_sign_ms = self._last_sign_ms
        return self._has_ended and last_sign_ms is not None and self._clock.now_ms() - last_sign_ms < _NOTIFIED_FOR_MS

    def _look(self) -> None:
        if self._error is None:
            self._see_that_all_is_well()
        if self._error is not None:
            self._come_back(self._error)

    def _see_that_all_is_well(self) -> None:
        try:
            with self._waits.during("store", "the check of the store"):
                self._store.probe()
        except StoreUnavailable as error:
            self._is_unanswered = True
            self._waits.begin("store", str(error))
            return  # the writer waits for it
        if self._is_unanswered:
            self._is_unanswered = False
            self._waits.end("store")
        if self._store.has_lost_lease:
            self.lost(Fenced(f"another process has become the writer of {self._store.url}"))

    def _come_back(self, error: BaseException) -> None:
        if not self._has_ended:
            log.warning("this server has stopped writing", extra={"fields": {"why": str(error)}})
            self._writing.end(error)
            self._has_ended = True
        begins = False
        try:
            self._store.resign()
            self._writing.follow()
            self._store.take_lease(self._store.address)
            self._store.emissions.take_over()
            with self._changed:  # now, because the new epoch may be lost at once
                self._error, self._has_ended, begins = None, False, True
            self._holder = None
            for kind in _KINDS:  # before it begins: who is answered again does not find that something is waited for
                self._waits.end(kind)
            self._writing.begin()
        except (AnotherWriter, StoreUnavailable, Fenced) as why:
            self._see_why(why)
            if begins:
                with self._changed:
                    self._error, self._has_ended = why, True
        else:
            log.warning("this server is the writer now", extra={"fields": {"head": int(self._store.head())}})

    def _see_why(self, why: StoreError) -> None:
        """Shows why this process does not write now."""
        if isinstance(why, AnotherWriter):
            self._see_holder(why)
            return
        self._holder = None
        self._waits.begin(_kind_of(why), str(why))

    def _see_holder(self, why: AnotherWriter) -> None:
        before, self._holder = self._holder, why
        self._waits.end("store")  # it has answered
        self._waits.end("disk")
        if self._forwards and why.address:
            self._waits.end("lease")
        else:
            self._waits.begin("lease", str(why))
        if before is None or (before.address, before.pid) != (why.address, why.pid):
            fields = {"writer": why.address, "pid": why.pid}
            log.info("this server reads; another one is the writer", extra={"fields": fields})


def _kind_of(error: StoreError) -> Kind:
    if isinstance(error, StoreUnavailable):
        return "disk" if isinstance(error, DiskFull) else "store"
    return "lease"
