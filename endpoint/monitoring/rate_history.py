"""Rates: how many rows, emissions and elements there were a second during the last four minutes.

A thread reads the counters of queries and streams every two seconds, whether somebody looks or not, so that a page that
is opened shows the last minutes at once. Reading may hang with the store; then only this thread hangs.

    rows of the query `near`:  10, 14, 14 (two seconds apart)  -->  2.0, 0.0 a second"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from hbase_store.errors import StoreError
from stream_ext.errors import RilletError

if TYPE_CHECKING:
    from stream_ext.service.service import Service

log = logging.getLogger(__name__)

EVERY_S = 2.0
#: The last four minutes.
POINTS = 120
#: The first so many queries, and so many streams, have rates.
NAMES_MAX = 500
#: A thread is woken a little early or late: this part of the time between two readings is enough.
_ENOUGH = 0.9


@dataclass(frozen=True, slots=True)
class Counted:
    """Counters since the start, by name."""

    rows: Mapping[str, int]
    emissions: Mapping[str, int]
    elements: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Reading:
    at_s: float
    counted: Counted


class RateHistory:
    def __init__(self, service: Service, clock: Callable[[], float] = time.monotonic) -> None:
        self._service, self._clock = service, clock
        self._closed = threading.Event()
        self._lock = threading.Lock()
        self._before: Reading | None = None
        self._queries: dict[str, deque[float]] = {}
        self._streams: dict[str, deque[float]] = {}
        self._totals = {name: _series() for name in ("queries rows", "queries emissions", "streams elements")}

    def start(self) -> None:
        threading.Thread(target=self._run, name="rillet-rates", daemon=True).start()

    def close(self) -> None:
        self._closed.set()

    def look(self) -> None:
        """Reads the counters, unless they were read just now."""
        now = Reading(self._clock(), _counted(self._service))
        with self._lock:
            before = self._before
            if before is not None and now.at_s - before.at_s < EVERY_S * _ENOUGH:
                return
            self._before = now
            if before is not None:
                self._add(before.counted, now.counted, now.at_s - before.at_s)

    def known(self) -> dict[str, Any]:
        """The rates of each name, and of all together; the oldest first."""
        with self._lock:
            return {
                "every_ms": round(EVERY_S * 1000),
                "queries": {name: list(series) for name, series in self._queries.items()},
                "streams": {name: list(series) for name, series in self._streams.items()},
                "totals": {name: list(series) for name, series in self._totals.items()},
            }

    def _run(self) -> None:
        fault = ""
        while not self._closed.wait(EVERY_S):
            try:
                self.look()
            except (RilletError, StoreError) as error:
                log.debug("the rates are not read now: %s", error)
            except Exception as error:
                if self._closed.is_set():  # the service was closed meanwhile
                    return
                if repr(error) != fault:  # each fault once, not every two seconds
                    log.error("the rates cannot be read", exc_info=error)
                fault = repr(error)

    def _add(self, before: Counted, now: Counted, passed_s: float) -> None:
        rows = _per_second(before.rows, now.rows, passed_s)
        elements = _per_second(before.elements, now.elements, passed_s)
        emissions = _per_second(before.emissions, now.emissions, passed_s)
        self._queries = _appended(self._queries, rows)
        self._streams = _appended(self._streams, elements)
        for name, rates in zip(self._totals, (rows, emissions, elements), strict=True):
            self._totals[name].append(_rounded(sum(rates.values())))


def _counted(service: Service) -> Counted:
    queries = [service.query_figures(query) for query in islice(service.queries(), NAMES_MAX)]
    streams = [service.stream_figures(stream) for stream in islice(service.streams(), NAMES_MAX)]
    return Counted(
        {each["query"]: each["rows"] for each in queries},
        {each["query"]: each["emissions"] for each in queries},
        {each["stream"]: each["elements"] for each in streams},
    )


def _per_second(before: Mapping[str, int], now: Mapping[str, int], passed_s: float) -> dict[str, float]:
    """A name that is new has no rate yet; one that was dropped and made anew begins at 0."""
    return {name: max(0, count - before[name]) / passed_s for name, count in now.items() if name in before}


def _appended(earlier: Mapping[str, deque[float]], rates: Mapping[str, float]) -> dict[str, deque[float]]:
    """Names that have no rate any more are forgotten."""
    series = {name: earlier.get(name) or _series() for name in rates}
    for name, rate in rates.items():
        series[name].append(_rounded(rate))
    return series


def _rounded(rate: float) -> float:
    return round(rate, 1) if rate < 10 else round(rate)


def _series() -> deque[float]:
    return deque(maxlen=POINTS)
