"""Subscribers: who reads the emissions of registered queries over HTTP, and how far each has come.

    query   address     program    way      position
    near    10.0.0.7    curl/8.5   events   1204
    near    10.0.0.9    python     lines    1190      14 emissions behind

Each open event stream is a subscriber. A client that asks again and again (`?since=`) is one, which is remembered for
some minutes after its last request."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from stream_ext.service.service import Service

#: A subscriber whose request has ended is remembered for so long, and at most so many of them are.
_REMEMBERED_S = 600.0
_REMEMBERED_MOST = 500
#: Of a User-Agent.
_CHARACTERS_MAX = 120

Way = Literal["events", "lines", "latest"]


@dataclass(eq=False, slots=True)
class Subscriber:
    """`query`: its number. `position`: the last emission that was sent; None: it reads the latest answer."""

    query: int
    name: str
    address: str
    program: str
    way: Way
    began_s: float
    seen_s: float
    position: int | None
    is_open: bool = True

    @property
    def key(self) -> tuple[int, str, str, Way]:
        return self.query, self.address, self.program, self.way


class Subscribers:
    """Any thread may call."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self._lock = threading.Lock()
        self._open: set[Subscriber] = set()
        self._before: dict[tuple[int, str, str, Way], Subscriber] = {}  # the one that was seen last is the last

    def begin(self, query: int, name: str, address: str, program: str, way: Way, since: int | None) -> Subscriber:
        now_s = self.clock()
        subscriber = Subscriber(query, name, address, program[:_CHARACTERS_MAX], way, now_s, now_s, since)
        with self._lock:
            earlier = self._before.pop(subscriber.key, None)
            if earlier is not None:
                subscriber.began_s = earlier.began_s
            self._open.add(subscriber)
        return subscriber

    def sent(self, subscriber: Subscriber, position: int) -> None:
        subscriber.position, subscriber.seen_s = position, self.clock()

    def end(self, subscriber: Subscriber) -> None:
        with self._lock:
            self._open.discard(subscriber)
            subscriber.is_open, subscriber.seen_s = False, self.clock()
            self._before.pop(subscriber.key, None)
            self._before[subscriber.key] = subscriber
            if len(self._before) > _REMEMBERED_MOST:
                del self._before[next(iter(self._before))]

    def known(self, query: int | None = None) -> list[Subscriber]:
        """Those of one query, or of all; the ones whose requests are open first, by query."""
        with self._lock:
            oldest_s = self.clock() - _REMEMBERED_S
            for key in [key for key, subscriber in self._before.items() if subscriber.seen_s < oldest_s]:
                del self._before[key]
            found = [*self._open, *self._before.values()]
        found = [subscriber for subscriber in found if query is None or subscriber.query == query]
        return sorted(found, key=lambda subscriber: (subscriber.name, not subscriber.is_open, subscriber.began_s))


def shown_subscribers(service: Service, subscribers: Subscribers, name: str | None = None) -> list[dict[str, Any]]:
    """Those of the query `name`, or of all queries that exist, as JSON; with how many emissions each is behind."""
    queries = service.queries() if name is None else [service.query_definition(name)]
    last = {query.number: int(service.query_figures(query)["emissions"]) for query in queries}
    wanted = None if name is None else queries[0].number
    now_s = subscribers.clock()
    return [_shown(each, last[each.query], now_s) for each in subscribers.known(wanted) if each.query in last]


def _shown(subscriber: Subscriber, last: int, now_s: float) -> dict[str, Any]:
    return {
        "query": subscriber.name,
        "address": subscriber.address,
        "program": subscriber.program,
        "way": subscriber.way,
        "open": subscriber.is_open,
        "position": subscriber.position,
        "behind": None if subscriber.position is None else max(0, last - subscriber.position),
        "since_ms": round((now_s - subscriber.began_s) * 1000),
        "idle_ms": round((now_s - subscriber.seen_s) * 1000),
    }
