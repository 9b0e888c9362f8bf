"""The stores that this process has open for rdflib: one service for each address, shared by all graphs over it."""

from __future__ import annotations

import threading
from weakref import WeakKeyDictionary

from plugin.attachment import Attachment
from stream_ext.clock import SystemClock
from stream_ext.service.service import Service

BASE = "urn:rillet:local:"


class _Shared:
    """Opened services by the address of their store, each with the number of its users."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._opened: dict[str, tuple[Attachment, int]] = {}
        self._running: WeakKeyDictionary[Service, Attachment] = WeakKeyDictionary()

    def open(self, url: str) -> Attachment:
        with self._lock:
            attachment, users = self._opened.get(url, (None, 0))
            if attachment is None:
                attachment = Attachment(Service.open(url, base=BASE, clock=SystemClock(), engine="inline", spark=None))
            self._opened[url] = attachment, users + 1
            return attachment

    def attach(self, service: Service) -> Attachment:
        with self._lock:
            return self._running.setdefault(service, Attachment(service))

    def is_open(self, url: str) -> bool:
        with self._lock:
            return url in self._opened

    def close(self, url: str) -> None:
        with self._lock:
            attachment, users = self._opened[url]
            if users > 1:
                self._opened[url] = attachment, users - 1
                return
            del self._opened[url]
        attachment.service.close()


shared = _Shared()
