"""Subscriptions: the emissions of a query after a given one, without a gap and without a repeat.

A subscription holds one number: the last emission that it has handed out. What comes next is always read from the
emission log, whether it is old or was stored just now. So there is no seam between catching up and following, and
a slow subscriber costs no memory."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from hbase_store import EmissionLog, EmissionRow
from stream_ext.emission import Emission, decode_body, to_json

#: How many emissions are handed out at a time.
_TAKE_MAX = 256
_RECENT_BYTES_MAX = 16 << 20


class Numbers(Protocol):
    def __call__(self, query: int) -> int:
        """The number of the query's last emission."""
        ...


class Emissions:
    """Reads emissions as JSON: those of the last moments from memory, where all subscribers of a query want the same
    ones, and all others from the log."""

    def __init__(self, log: EmissionLog) -> None:
        self._log = log
        self._lock = threading.Lock()
        self._recent: OrderedDict[tuple[int, int], EmissionRow | Emission] = OrderedDict()
        self._recent_bytes = 0

    def remember(self, rows: Iterable[EmissionRow]) -> None:
        """These have just been stored."""
        with self._lock:
            for row in rows:
                self._recent[row.query, row.number] = row
                self._recent_bytes += _size(row)
            self._forget()

    def read(self, query: int, since: int, limit: int | None) -> list[Emission]:
        """Those after `since`, in order."""
        found: list[Emission] = []
        while (limit is None or len(found) < limit) and (emission := self._recently(query, since + 1)) is not None:
            since = emission.number
            found.append(emission)
        if found:
            return found if limit is not None else found + self.read(query, since, None)
        return [_emission(row) for row in self._log.read(query, since, limit)]

    def oldest(self, query: int) -> int:
        """The number of the oldest emission that is kept; one more than the last if none is."""
        return self._log.oldest(query)

    def collect(self, before_ms: int, kept_after: Mapping[int, int]) -> None:
        """As the log does it; and what is gone there is not remembered."""
        self._log.collect(before_ms, kept_after)
        with self._lock:
            queries = {query for query, _ in self._recent}
        oldest = {query: self._log.oldest(query) for query in queries}
        with self._lock:
            for key in [(query, number) for query, number in self._recent if number < oldest.get(query, 0)]:
                self._recent_bytes -= _size(self._recent.pop(key))

    def _recently(self, query: int, number: int) -> Emission | None:
        with self._lock:
            known = self._recent.get((query, number))
        if known is None or isinstance(known, Emission):
            return known
        emission = _emission(known)
        with self._lock:
            if self._recent.get((query, number)) is known:  # nobody was quicker, and it is still wanted
                self._recent[query, number] = emission
                self._recent_bytes += _size(emission) - _size(known)
                self._forget()
        return emission

    def _forget(self) -> None:
        while self._recent_bytes > _RECENT_BYTES_MAX:
            self._recent_bytes -= _size(self._recent.popitem(last=False)[1])


def _emission(row: EmissionRow) -> Emission:
    return Emission(row.number, to_json(decode_body(row.body)))


def _size(known: EmissionRow | Emission) -> int:
    return len(known.json if isinstance(known, Emission) else known.body)


class Subscription:
    """One reader of one query's emissions. It has ended when it was closed, when the query was dropped, or with a
    `fault`: what its own `notify` raised, or what stopped the service."""

    def __init__(self, hub: Subscriptions, query: int, since: int, notify: Callable[[], None]) -> None:
        self._hub, self.query, self._after, self.notify = hub, query, since, notify
        self.ended = False
        self.fault: BaseException | None = None

    def take(self) -> list[Emission]:
        """What there is after the last one taken, at most some hundreds; empty: wait for `notify`."""
        if self.ended:
            return []
        taken = self._hub.read(self.query, self._after)
        if taken:
            self._after = taken[-1].number
        return taken

    def close(self) -> None:
        """It is told nothing more."""
        self.ended = True
        self._hub.remove(self)


class Subscriptions:
    def __init__(self, emissions: Emissions, last: Numbers) -> None:
        self._emissions, self._last = emissions, last
        self._lock = threading.Lock()
        self._of: dict[int, set[Subscription]] = {}

    def add(self, query: int, since: int, notify: Callable[[], None]) -> Subscription:
        subscription = Subscription(self, query, since, notify)
        with self._lock:
            self._of.setdefault(query, set()).add(subscription)
        # It stands in the set first: what is stored from now on is notified, what was before is seen here.
        if self._last(query) > since:
            self._notify(subscription)
        return subscription

    def remove(self, subscription: Subscription) -> None:
        with self._lock:
            self._of.get(subscription.query, set()).discard(subscription)

    def read(self, query: int, since: int) -> list[Emission]:
        return self._emissions.read(query, since, _TAKE_MAX) if self._last(query) > since else []

    def said(self, queries: Iterable[int]) -> None:
        """These queries have new emissions."""
        with self._lock:
            told = [subscription for query in queries for subscription in self._of.get(query, ())]
        for subscription in told:
            self._notify(subscription)

    def end(self, query: int, fault: BaseException | None = None) -> None:
        """The query is gone, and its emissions with it; or nothing more will come, and `fault` says why."""
        with self._lock:
            told = self._of.pop(query, set())
        for subscription in told:
            subscription.fault, subscription.ended = fault, True
            self._notify(subscription)

    def end_all(self, fault: BaseException) -> None:
        with self._lock:
            queries = list(self._of)
        for query in queries:
            self.end(query, fault)

    def count(self) -> int:
        with self._lock:
            return sum(map(len, self._of.values()))

    def _notify(self, subscription: Subscription) -> None:
        try:
            subscription.notify()
        except Exception as error:  # noqa: BLE001 -- a subscriber's fault ends its subscription, not the query
            subscription.fault = subscription.fault or error
            subscription.close()
