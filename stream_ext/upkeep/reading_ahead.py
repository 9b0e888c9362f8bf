"""Reading ahead: a thread that reads a store on HBase into memory, from the start of the service on.

Nothing waits for it: what it has not brought yet is read when it is asked for."""

from __future__ import annotations

import logging
import threading
import time

from hbase_store import Store, purpose
from hbase_store.errors import StoreError

log = logging.getLogger("rillet.store")


class ReadingAhead:
    def __init__(self, store: Store, bytes_max: int) -> None:
        """`bytes_max`: of rows, and half as much of texts; 0: nothing is read ahead."""
        self._store, self._bytes_max = store, bytes_max
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="rillet-reading-ahead", daemon=True)
        if bytes_max and store.kv.is_remote:
            self._thread.start()

    def close(self) -> None:
        """Returns at once: a store that does not answer is not waited for."""
        self._closing.set()

    def _run(self) -> None:
        began = time.perf_counter()
        try:
            with purpose("ahead") as tally:
                brought = self._store.read_ahead(self._bytes_max, lambda: not self._closing.is_set())
        except StoreError as error:
            if not self._closing.is_set():
                log.warning("the store was not read ahead, so first queries take longer: %s", error)
            return
        ms = (time.perf_counter() - began) * 1e3
        log.info("%.1f MB of rows were read ahead with %d calls in %.0f ms", brought / 1e6, tally.calls, ms)
