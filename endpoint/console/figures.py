"""The figures of queries and streams for pages that refresh themselves. All open pages share one reading a second."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec
from flask import Response, request

from endpoint.monitoring.last_known import LastKnown
from endpoint.monitoring.rate_history import NAMES_MAX
from hbase_store.errors import StoreUnavailable

if TYPE_CHECKING:
    from endpoint.console.room import Room
    from endpoint.monitoring.rate_history import RateHistory
    from stream_ext.service.service import Service

_FRESH_S = 0.9
_PATIENCE_S = 0.2


class Figures:
    """The figures as JSON, read at most once in a while; reading may hang with the store, so another thread reads."""

    def __init__(self, service: Service, rates: RateHistory, clock: Callable[[], float] = time.monotonic) -> None:
        self._known = LastKnown("figures", lambda: read(service, rates), clock)
        self._rates, self._clock = rates, clock
        self._lock = threading.Lock()
        self._body = b""
        self._until_s = float("-inf")

    def body(self) -> bytes:
        with self._lock:
            if self._clock() >= self._until_s:
                try:
                    known = self._known.wait(_PATIENCE_S)
                    self._body = msgspec.json.encode({**known.value, "age_ms": round(known.age_s * 1000)})
                except StoreUnavailable:
                    self._body = b'{"age_ms":null}'
                self._until_s = self._clock() + _FRESH_S
            return self._body

    def body_with_rates(self) -> bytes:
        """As `body`, and the rates of the last minutes."""
        return self.body()[:-1] + b',"rates":' + msgspec.json.encode(self._rates.known()) + b"}"


def read(service: Service, rates: RateHistory) -> dict[str, Any]:
    rates.look()  # in an application that embeds the console nobody else does
    status = service.status_at_once()
    return {
        "at_ms": service.clock.now_ms(),
        "head": status["head"],
        "lag_ms": status["lag_ms"],
        "subscriptions": status["subscriptions"],
        "streams": [service.stream_figures(stream) for stream in service.streams()[:NAMES_MAX]],
        "queries": [_query(service.query_status(query.name)) for query in service.queries()[:NAMES_MAX]],
    }


def _query(status: dict[str, Any]) -> dict[str, Any]:
    evaluated = status["evaluated"]
    return {
        **{name: status[name] for name in ("query", "state", "runner", "emissions", "rows", "evaluations", "lag_ms")},
        "waits_for": status["waits_for"] or [each["stream"] for each in status["stream_times"] if each["stalled"]],
        "core_ms": status["core_ms"],
        "shard": status["shard"],
        "time_ms": None if evaluated is None else evaluated["time"],
    }


def page(room: Room) -> Response:
    """`?rates` is for a page that was just opened, or was hidden."""
    body = room.figures.body_with_rates() if "rates" in request.args else room.figures.body()
    return Response(body, mimetype="application/json")
