"""The lookout: a thread that notices within two seconds that the store does not answer, and logs when the service
begins and ends to wait for something."""

from __future__ import annotations

import asyncio
import logging
import threading
from typing import TYPE_CHECKING

from hbase_store.errors import StoreUnavailable
from stream_ext.waits import Kind, Wait

if TYPE_CHECKING:
    from stream_ext.service.service import Service

log = logging.getLogger("rillet.service")

_EVERY_S = 0.5


class Lookout:
    def __init__(self, service: Service) -> None:
        self._service = service
        self._closed = threading.Event()
        self._waits: dict[Kind, Wait] = {}  # the waits that were logged
        self._runner: tuple[str, str] | None = None
        self._epochs = 0

    def start(self) -> None:
        """Called on the event loop, which never waits for the store; the thread does."""
        threading.Thread(target=self._probe, name="rillet-lookout", daemon=True).start()
        self._look(asyncio.get_running_loop())

    def close(self) -> None:
        self._closed.set()

    def _probe(self) -> None:
        waits, away = self._service.waits, False
        while not self._closed.wait(_EVERY_S):
            try:
                self._service.probe()
            except StoreUnavailable as error:
                waits.begin("store", str(error))
                away = True
            except Exception as error:
                if not self._closed.is_set():  # otherwise the store was closed meanwhile
                    log.error("the store cannot be checked", exc_info=error)
                return
            else:
                if away:
                    waits.end("store")
                    away = False

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._closed.is_set():
            return
        loop.call_later(_EVERY_S, self._look, loop)
        now = {wait.kind: wait for wait in self._service.waits.current()}
        for kind, wait in now.items():
            if kind not in self._waits:
                log.warning("the service is waiting", extra={"fields": {"for": kind, "why": wait.why}})
        for kind, wait in self._waits.items():
            if kind not in now:
                for_s = (self._service.clock.now_ms() - wait.since_ms) / 1000
                log.warning("the service continues", extra={"fields": {"waited_for": kind, "seconds": for_s}})
        self._waits = now
        self._look_at_runner()

    def _look_at_runner(self) -> None:
        status = self._service.status_at_once()
        runner = status["runner"], status["why"]
        if runner != self._runner:
            log.info(
                "registered queries run",
                extra={"fields": {"on": status["runner"], "why": status["why"]}},
            )
            self._runner = runner
        if (epochs := self._service.spark_epochs()) != self._epochs:
            log.debug("an epoch of Spark began", extra={"fields": {"epochs": epochs}})
            self._epochs = epochs
