"""The desk: what every route needs at hand, made once per application."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from endpoint.access import Access
from endpoint.limits import HttpLimits
from endpoint.metrics import Requests
from endpoint.pages import Pages
from endpoint.remembered import Remembered
from endpoint.underway import Underway
from endpoint.workers import Workers

if TYPE_CHECKING:
    from stream_ext.service import Service


@dataclass(eq=False)
class Desk:
    service: Service
    base: str
    access: Access
    limits: HttpLimits
    workers: Workers
    pages: Pages
    remembered: Remembered
    requests: Requests = field(default_factory=Requests)
    underway: Underway = field(default_factory=Underway)
    stopping: bool = False
    _listeners: set[asyncio.Event] = field(default_factory=set)

    def head(self) -> int:
        """The last snapshot that this process knows: every answer names one."""
        return int(self.service.head())

    def listen(self, wake: asyncio.Event) -> None:
        """`wake` is set when the server stops: whoever only waits for news ends at once."""
        self._listeners.add(wake)

    def unlisten(self, wake: asyncio.Event) -> None:
        self._listeners.discard(wake)

    def stop(self) -> None:
        """Called on the event loop, before the server waits for its open answers."""
        self.stopping = True
        for wake in list(self._listeners):
            wake.set()

    def close(self) -> None:
        """When the server has ended: what still runs has no one to answer."""
        self.underway.cancel_all()
        self.workers.close()
