"""Standby: a service that cannot write any more, because another process does or the store does not answer.

Twice a second a service that writes checks that the store answers, and that it is still the writer. If it is not, all
parts that belong to the writer epoch are ended. Then, until this process is the writer again,

    it follows what others publish   reads are answered at the newest snapshot
    it tries to get the lease        which is free when the other writer has ended, or when its time is over
    then it starts everything anew   from catalog, positions and terms of the store: nothing known before is used"""

from __future__ import annotations

import logging
import threading
from typing import Protocol

from hbase_store import Store
from hbase_store.errors import AnotherWriter, DiskFull, Fenced, StoreError, StoreUnavailable
from stream_ext.clock import Clock
from stream_ext.waits import Kind, Waits

#: The time between two checks.
LOOK_MS = 500

_KINDS: tuple[Kind, ...] = ("lease", "disk", "store")

log = logging.getLogger("rillet.lease")


class Writing(Protocol):
    """The parts of a service that belong to one writer epoch."""

    def end(self, error: BaseException) -> None:
        """Ends the epoch, because of `error`. When this returns, no part of it runs any more."""
        ...

    def follow(self) -> None:
        """Reads what others have published."""
        ...

    def begin(self) -> None:
        """Begins another epoch: all parts are created anew at the head."""
        ...

    def give_up(self, error: BaseException) -> None:
        """No other epoch will begin, because of `error`."""
        ...


class Standby:
    def __init__(self, store: Store, clock: Clock, waits: Waits, writing: Writing) -> None:
        self._store, self._clock, self._waits, self._writing = store, clock, waits, writing
        self._changed = threading.Condition()
        self._error: BaseException | None = None  # why this process does not write
        self._has_ended = self._closed = self._is_unanswered = False
        self._thread = threading.Thread(target=self._run, name="rillet-standby", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def lost(self, error: BaseException) -> None:
        """This process cannot write any more; any thread may call."""
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
        except Exception as error:  # our bug, or a store that cannot be read: listeners get the error
            log.error("this server does not write until it is restarted", exc_info=error)
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
            self._writing.begin()
        except (AnotherWriter, StoreUnavailable, Fenced) as why:
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
