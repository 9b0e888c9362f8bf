"""A thread that takes over what was committed, for programs that never say `commit`: some milliseconds later, so that
many changes one after the other are one snapshot."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

log = logging.getLogger("rillet.attached")

_DELAY_S = 0.02
#: After a failure, for instance of our own store.
_AGAIN_S = 1.0


class TakingOver:
    def __init__(self, take_over: Callable[[], None]) -> None:
        self._take_over = take_over
        self._wanted, self._closed = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()

    def soon(self) -> None:
        self._wanted.set()
        with self._starting:
            if self._thread is None and not self._closed.is_set():
                self._thread = threading.Thread(target=self._run, name="rillet-attached", daemon=True)
                self._thread.start()

    def close(self) -> None:
        """What is committed by then is taken over."""
        self._closed.set()
        self._wanted.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while not self._closed.is_set():
            self._wanted.wait()
            self._closed.wait(_DELAY_S)
            self._wanted.clear()
            try:
                self._take_over()
            except Exception as error:
                log.exception("a change of an attached dataset was not taken over, and is tried again", exc_info=error)
                self._wanted.set()
                self._closed.wait(_AGAIN_S)
