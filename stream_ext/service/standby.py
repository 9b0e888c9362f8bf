"""Standby: what becomes of a service that cannot write any more, because another process does or the store is away.

It looks twice a second. While we write, that the store answers and that we are its writer still. When that is over, all
that lived as long as the writer epoch is ended; then, until we are the writer again,

    what others publish is followed   reads are answered at the newest snapshot
    the lease is asked for            it is free when the other writer has ended, or its time is over
    everything is begun anew          from catalog, positions and terms as the store has them then: what was known
                                      before counts no more"""

from __future__ import annotations

import logging
import threading
from typing import Protocol

from hbase_store import Store
from hbase_store.errors import DiskFull, Fenced, StoreError, StoreUnavailable, WriterElsewhere
from stream_ext.clock import Clock
from stream_ext.waits import Kind, Waits

#: Between two looks.
LOOK_MS = 500

_KINDS: tuple[Kind, ...] = ("lease", "disk", "store")

log = logging.getLogger("rillet.lease")


class Writing(Protocol):
    """What lives as long as one writer epoch."""

    def end(self, error: BaseException) -> None:
        """It is over, because of `error`. When this returns nothing of it runs any more."""
        ...

    def follow(self) -> None:
        """What others have published is seen here."""
        ...

    def begin(self) -> None:
        """Another epoch has begun: everything is made anew at the head."""
        ...

    def give_up(self, error: BaseException) -> None:
        """It does not begin again by itself."""
        ...


class Standby:
    def __init__(self, store: Store, clock: Clock, waits: Waits, writing: Writing) -> None:
        self._store, self._clock, self._waits, self._writing = store, clock, waits, writing
        self._changed = threading.Condition()
        self._error: BaseException | None = None  # why we do not write
        self._has_ended = self._closed = self._is_unanswered = False
        self._thread = threading.Thread(target=self._run, name="rillet-standby", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def lost(self, error: BaseException) -> None:
        """Nothing is written any more; any thread may say so."""
        with self._changed:
            if self._error is None and not self._closed:
                self._error = error
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
                self._look()
        except Exception as error:  # our bug, or a store that cannot be read: whoever listens is told
            log.error("this server does not write any more before it is started again", exc_info=error)
            self._writing.give_up(error)

    def _is_time(self) -> bool:
        """Waits until the next look is due; False at the end."""
        with self._changed:
            at_ms = self._clock.now_ms() + LOOK_MS
            while not self._closed and self._clock.now_ms() < at_ms and (self._error is None or self._has_ended):
                self._clock.wait(self._changed, at_ms)
            return not self._closed

    def _look(self) -> None:
        if self._error is None:
            self._see_that_all_is_well()
        if self._error is not None:
            self._come_back(self._error)

    def _see_that_all_is_well(self) -> None:
        try:
            with self._waits.during("store", "the look for the store"):
                self._store.probe()
        except StoreUnavailable as error:
            self._is_unanswered = True
            self._waits.begin("store", str(error))
            return  # who writes waits for it
        if self._is_unanswered:
            self._is_unanswered = False
            self._waits.end("store")
        if self._store.has_lost_lease:
            self.lost(Fenced(f"another process has become the writer of {self._store.url}"))

    def _come_back(self, error: BaseException) -> None:
        if not self._has_ended:
            log.warning("this server does not write any more", extra={"fields": {"why": str(error)}})
            self._writing.end(error)
            self._has_ended = True
        begins = False
        try:
            self._store.resign()
            self._writing.follow()
            self._store.take_lease(self._store.address)
            self._store.emissions.take_over()
            with self._changed:  # now, as what is begun may be lost again at once
                self._error, self._has_ended, begins = None, False, True
            self._writing.begin()
        except (WriterElsewhere, StoreUnavailable, Fenced) as why:
            self._waits.begin(_kind_of(why), str(why))
            if begins:
                with self._changed:
                    self._error, self._has_ended = why, True
        else:
            for kind in _KINDS:
                self._waits.end(kind)
            log.warning("this server writes again", extra={"fields": {"head": int(self._store.head())}})


def _kind_of(error: StoreError) -> Kind:
    if isinstance(error, StoreUnavailable):
        return "disk" if isinstance(error, DiskFull) else "store"
    return "lease"
