"""Subscriptions: the emissions of a query after a given one, without a gap and without a repeat.

A subscription stores one number: the last emission that it has returned. The next emissions are always read from the
emission log, whether they are old or were stored just now. So no emission is lost between catching up and following,
and a slow subscriber costs no memory."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from hbase_store import EmissionLog, EmissionRow
from stream_ext.catalog.catalog import QueryDefinition
from stream_ext.emissions.emission import Emission, EmissionBody, SharedBody, decode_body, decode_shared_body, to_json
from stream_ext.emissions.groups import GroupMembership
from stream_ext.emissions.part_merger import InJson

#: The greatest number of emissions that are returned at a time.
_TAKE_MAX = 256
#: And their greatest size in bytes: a reader has them in memory until it has sent them.
_TAKE_BYTES = 256 << 10
_RECENT_BYTES_MAX = 16 << 20


class NumbersOfQueries(Protocol):
    def __call__(self, query: int) -> int:
        """The number of the query's last emission."""
        ...


class Memberships(Protocol):
    def __call__(self, query: int) -> Sequence[GroupMembership]:
        """Which of the query's emissions are records of groups, the oldest first."""
        ...


@dataclass(frozen=True, slots=True)
class _Shared:
    """A record of a group, decoded once, because it is read for one of its queries after the other."""

    body: SharedBody
    size: int


class Emissions:
    """Reads emissions as JSON: the latest from memory, because all subscribers of a query want them, and all others
    from the log. Records of groups are split here, for the queries that are read."""

    def __init__(
        self,
        log: EmissionLog,
        last: NumbersOfQueries,
        memberships: Memberships,
        definition: Callable[[int], QueryDefinition | None],
    ) -> None:
        self._log, self._last, self._memberships, self._definition = log, last, memberships, definition
        self._lock = threading.Lock()
        self._recent: OrderedDict[tuple[int, int], EmissionRow | Emission | _Shared] = OrderedDict()
        self._recent_bytes = 0

    def remember(self, rows: Iterable[EmissionRow], in_json: InJson) -> None:
        """These have just been stored. Some of them are known as JSON, and so are some of queries in groups."""
        known: dict[tuple[int, int], EmissionRow | Emission] = {(row.query, row.number): row for row in rows}
        known |= {(query, number): Emission(number, json) for (query, number), json in in_json.items()}
        with self._lock:
            for key, each in known.items():
                self._recent[key] = each
                self._recent_bytes += _size(each)
            self._forget()

    def read(self, query: int, since: int, limit: int | None, bytes_max: int | None = None) -> list[Emission]:
        """Those after `since`, in order."""
        found: list[Emission] = []
        left = bytes_max
        # Without the number of the last emission, each listener would cost one more scan, which finds nothing.
        while since < self._last(query) and (limit is None or len(found) < limit) and (left is None or left > 0):
            some = self._some(query, since, None if limit is None else limit - len(found), left)
            if not some:
                break
            found += some
            since = found[-1].number
            left = None if left is None else left - sum(len(emission.json) for emission in some)
        return found

    def _some(self, query: int, since: int, limit: int | None, bytes_max: int | None = None) -> list[Emission]:
        """The next emissions after `since`, some of them: those of the query alone, or those of one group."""
        if (emission := self._recently(query, since + 1)) is not None:
            return [emission]
        # Read before the memberships: these then cover all emissions up to it, whatever is emitted meanwhile.
        last = self._last(query)
        for member in self._memberships(query):
            end = member.number(member.until or 0)
            if since < end:
                rows = self._log.read(query, since, limit) if since < member.before else ()
                own = _up_to(bytes_max, (_emission(row) for row in rows if row.number <= member.before))
                since = max(since, member.before)
                shared = (Emission(b.number, to_json(b)) for b in self._bodies(query, member, since, limit))
                if found := own or _up_to(bytes_max, shared):
                    return found
                since = end
        return _up_to(bytes_max, (_emission(row) for row in self._log.read(query, since, limit) if row.number <= last))

    def body(self, query: int, number: int) -> EmissionBody | None:
        """One emission; None: it is not retained any more."""
        for member in self._memberships(query):
            if member.before < number <= member.number(member.until or 0):
                return next((b for b in self._bodies(query, member, number - 1, 1) if b.number == number), None)
        for row in self._log.read(query, number - 1, 1):
            return decode_body(row.body) if row.number == number else None
        return None

    def oldest(self, query: int) -> int:
        """The number of the oldest retained emission; one more than the last, if none is retained."""
        own = self._log.oldest(query)
        retained = [own] if own <= self._log.last(query) else []
        for member in self._memberships(query):
            record, until = max(self._log.oldest(member.group), member.first), member.until or 0
            if record <= until:
                retained.append(member.number(record))
        return min(retained, default=self._last(query) + 1)

    def collect(self, before_ms: int, retained_after: Mapping[int, int]) -> None:
        """Deletes as `EmissionLog.collect` does, also from memory."""
        self._log.collect(before_ms, retained_after)
        with self._lock:
            queries = {query for query, _ in self._recent}
        oldest = {
            query: self._log.oldest(query) if self._definition(query) is None else self.oldest(query)
            for query in queries
        }
        with self._lock:
            for key in [(query, number) for query, number in self._recent if number < oldest.get(query, 0)]:
                self._recent_bytes -= _size(self._recent.pop(key))

    def _recently(self, query: int, number: int) -> Emission | None:
        with self._lock:
            known = self._recent.get((query, number))
        if isinstance(known, EmissionRow):
            emission = _emission(known)
            self._remember_as((query, number), known, emission)
            return emission
        return known if isinstance(known, Emission) else None

    # ---- records of groups -------------------------------------------------------------------------------------

    def _bodies(self, query: int, member: GroupMembership, since: int, limit: int | None) -> Iterator[EmissionBody]:
        """The query's emissions after number `since` that belong to this membership."""
        definition = self._definition(query)
        if definition is None:
            return
        for record, body in self._records(member.group, member.record(since), member.until or 0, limit):
            number = member.number(record)
            yield body.own(definition, number, member.has_gap(number))

    def _records(self, group: int, after: int, until: int, limit: int | None) -> Iterator[tuple[int, SharedBody]]:
        """The records of a group after number `after`, up to and with `until`: the first `limit` that are retained."""
        left = until - after if limit is None else min(limit, until - after)
        while left and (body := self._recent_record(group, after + 1)) is not None:
            after, left = after + 1, left - 1
            yield after, body
        if left:
            for row in self._log.read(group, after, left):
                if row.number <= until:
                    yield row.number, decode_shared_body(row.body)

    def _recent_record(self, group: int, number: int) -> SharedBody | None:
        with self._lock:
            known = self._recent.get((group, number))
        if isinstance(known, EmissionRow):
            shared = _Shared(decode_shared_body(known.body), _size(known))
            self._remember_as((group, number), known, shared)
            return shared.body
        return known.body if isinstance(known, _Shared) else None

    # ---- emissions in memory -----------------------------------------------------------------------------------

    def _remember_as(self, key: tuple[int, int], known: EmissionRow, decoded: Emission | _Shared) -> None:
        with self._lock:
            if self._recent.get(key) is known:  # no other thread was quicker, and it is still in memory
                self._recent[key] = decoded
                self._recent_bytes += _size(decoded) - _size(known)
                self._forget()

    def _forget(self) -> None:
        while self._recent_bytes > _RECENT_BYTES_MAX:
            self._recent_bytes -= _size(self._recent.popitem(last=False)[1])


def _emission(row: EmissionRow) -> Emission:
    return Emission(row.number, to_json(decode_body(row.body)))


def _up_to(bytes_max: int | None, emissions: Iterator[Emission]) -> list[Emission]:
    """The first emissions, up to about `bytes_max` bytes; at least one."""
    if bytes_max is None:
        return list(emissions)
    found: list[Emission] = []
    for emission in emissions:
        found.append(emission)
        bytes_max -= len(emission.json)
        if bytes_max <= 0:
            break
    return found


def _size(known: EmissionRow | Emission | _Shared) -> int:
    if isinstance(known, _Shared):
        return known.size
    return len(known.json if isinstance(known, Emission) else known.body)


class Subscription:
    """One reader of one query's emissions. It ends when it is closed, when the query is dropped, or with a `fault`:
    what its own `notify` raised, or what stopped the service."""

    def __init__(self, hub: Subscriptions, query: int, since: int, notify: Callable[[], None]) -> None:
        self._hub, self.query, self._after, self.notify = hub, query, since, notify
        self.ended = False
        self.fault: BaseException | None = None

    def take(self) -> list[Emission]:
        """The emissions after the last one that was returned, at most some hundreds; empty: wait for `notify`."""
        if self.ended:
            return []
        emissions = self._hub.read(self.query, self._after)
        if emissions:
            self._after = emissions[-1].number
        return emissions

    def close(self) -> None:
        """Ends the subscription; `notify` is not called any more."""
        self.ended = True
        self._hub.remove(self)


class Subscriptions:
    def __init__(self, emissions: Emissions, last: NumbersOfQueries, memberships: Memberships) -> None:
        self._lock = threading.Lock()
        self._of: dict[int, set[Subscription]] = {}
        self.serve(emissions, last, memberships)

    def serve(
        self,
        emissions: Emissions,
        last: NumbersOfQueries,
        memberships: Memberships,
        on_change: Callable[[int, bool], None] = lambda query, has_some: None,
    ) -> None:
        """From now on the emissions are those of another engine; each reader continues after its last number.
        `on_change` is called when a query has its first subscription, or has none any more."""
        self._emissions, self._last, self._memberships = emissions, last, memberships
        self._on_change = on_change

    def resume(self, queries: Collection[int]) -> None:
        """These queries exist now: ends the subscriptions of all others, and notifies these."""
        self.end_all_but(queries)
        self.announce(queries)

    def end_all_but(self, queries: Collection[int]) -> None:
        """Ends the subscriptions of all queries but these, which exist."""
        with self._lock:
            gone = [query for query in self._of if query not in queries]
        for query in gone:
            self.end(query)

    def subscribed(self) -> list[int]:
        """The queries that have a subscription."""
        with self._lock:
            return [query for query, those in self._of.items() if those]

    def has(self, query: int) -> bool:
        """Whether the query has a subscription."""
        with self._lock:
            return bool(self._of.get(query))

    def add(self, query: int, since: int, notify: Callable[[], None]) -> Subscription:
        subscription = Subscription(self, query, since, notify)
        with self._lock:
            those = self._of.setdefault(query, set())
            those.add(subscription)
            is_first = len(those) == 1
        if is_first:
            self._on_change(query, True)
        # First it is in the set: later emissions are notified, and earlier ones are found here.
        if self._last(query) > since:
            self._notify(subscription)
        return subscription

    def remove(self, subscription: Subscription) -> None:
        query = subscription.query
        with self._lock:
            those = self._of.get(query, set())
            was_last = those == {subscription}
            those.discard(subscription)
        if was_last:
            self._on_change(query, False)

    def read(self, query: int, since: int) -> list[Emission]:
        return self._emissions.read(query, since, _TAKE_MAX, _TAKE_BYTES) if self._last(query) > since else []

    def announce(self, queries: Collection[int], groups: Collection[int] = ()) -> None:
        """These queries, and those of these groups, have new emissions."""
        with self._lock:
            notified = [subscription for query in queries for subscription in self._of.get(query, ())]
            others = [(query, list(those)) for query, those in self._of.items() if those] if groups else []
        for query, subscriptions in others:
            if any(member.group in groups for member in self._memberships(query)):
                notified += subscriptions
        for subscription in notified:
            self._notify(subscription)

    def end(self, query: int, fault: BaseException | None = None) -> None:
        """Ends the query's subscriptions: the query was dropped, or no more emissions will come because of `fault`."""
        with self._lock:
            notified = self._of.pop(query, set())
        for subscription in notified:
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
