"""Backends that fail as real ones do, and leases that do not protect: so that the head alone must."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from hbase_store.backends.keyvalue import CompareAndSet, Key, KeyValue, Put, Value
from hbase_store.backends.lease import CellLease, Lease
from hbase_store.clock import Clock
from hbase_store.errors import StoreUnavailable


class OpenLease:
    """Everybody gets it: as on HBase, where the clocks of two machines may differ."""

    def __init__(self) -> None:
        self.owned = False

    def take(self, address: str) -> None:
        self.owned = True

    @property
    def lost(self) -> bool:
        return not self.owned

    def regain(self) -> bool:
        return self.owned

    def release(self) -> None:
        self.owned = False


class Shared:
    """One backend for several stores of one process, writing stage by stage as HBase does.

    `fault`, if set, is called instead of each publish, with this backend and what was to be published; a `deaf`
    backend does not even answer what the head is."""

    is_remote = True

    def __init__(self, inner: KeyValue) -> None:
        self._inner = inner
        self.fault: Callable[[Shared, Sequence[Sequence[Put]], CompareAndSet], bool] | None = None
        self.deaf = False
        self.delayed: list[CompareAndSet] = []

    def repair(self) -> None:
        self.fault, self.deaf = None, False

    def lease(self, clock: Clock) -> Lease:
        return OpenLease()

    def publish(self, stages: Sequence[Sequence[Put]], compare_and_set: CompareAndSet) -> bool:
        if self.fault is not None:
            return self.fault(self, stages, compare_and_set)
        return self.publish_unharmed(stages, compare_and_set)

    def publish_unharmed(self, stages: Sequence[Sequence[Put]], compare_and_set: CompareAndSet) -> bool:
        for stage in stages:
            self._inner.put_many(stage)
        return self._inner.publish([], compare_and_set)

    def get_many(self, table: str, keys: Sequence[Key], sizes: Sequence[int] = ()) -> list[Value | None]:
        if self.deaf:
            raise StoreUnavailable("nobody answers")
        return self._inner.get_many(table, keys, sizes)

    def scan(self, table: str, start: Key, stop: Key | None) -> Iterator[tuple[Key, Value]]:
        return self._inner.scan(table, start, stop)

    def put_many(self, puts: Iterable[Put]) -> None:
        self._inner.put_many(puts)

    def delete(self, table: str, keys: Sequence[Key], time: int) -> None:
        self._inner.delete(table, keys, time)

    def delete_range(self, table: str, start: Key, stop: Key | None, time: int) -> None:
        self._inner.delete_range(table, start, stop, time)

    def allocate(self, counter: str, count: int) -> int:
        return self._inner.allocate(counter, count)

    def sync(self) -> None:
        self._inner.sync()

    def close(self) -> None:
        """The inner one is closed by whoever opened it."""


class Leased(Shared):
    """Each store has a lease of its own in the cell, as if it were in a process of its own."""

    def lease(self, clock: Clock) -> Lease:
        return CellLease(self, clock, "shared")


def applied_but_lost(kv: Shared, stages: Sequence[Sequence[Put]], compare_and_set: CompareAndSet) -> bool:
    """The reply of the compare-and-set does not come back."""
    kv.fault = None
    kv.publish_unharmed(stages, compare_and_set)
    raise StoreUnavailable("the reply was lost")


def applied_and_denied(kv: Shared, stages: Sequence[Sequence[Put]], compare_and_set: CompareAndSet) -> bool:
    """A client that repeats a call on its own finds its own work, and says False."""
    kv.fault = None
    kv.publish_unharmed(stages, compare_and_set)
    return kv.publish_unharmed(stages, compare_and_set)


def half_written(kv: Shared, stages: Sequence[Sequence[Put]], compare_and_set: CompareAndSet) -> bool:
    kv.fault = None
    kv.put_many(list(stages[0])[:1])
    raise StoreUnavailable("the connection broke")


def unreachable(kv: Shared, stages: Sequence[Sequence[Put]], compare_and_set: CompareAndSet) -> bool:
    """Until somebody repairs it."""
    raise StoreUnavailable("nobody answers")


def written_then_unreachable(kv: Shared, stages: Sequence[Sequence[Put]], compare_and_set: CompareAndSet) -> bool:
    """The rows are there, the head was never set: until somebody repairs it."""
    for stage in stages:
        kv.put_many(stage)
    raise StoreUnavailable("nobody answers")


def applied_then_unreachable(kv: Shared, stages: Sequence[Sequence[Put]], compare_and_set: CompareAndSet) -> bool:
    """Applied once, and then even asking is impossible."""
    kv.publish_unharmed(stages, compare_and_set)
    kv.fault, kv.deaf = unreachable, True
    raise StoreUnavailable("the reply was lost")


def delayed(kv: Shared, stages: Sequence[Sequence[Put]], compare_and_set: CompareAndSet) -> bool:
    """The compare-and-set hangs on its way, and is given up: until somebody lets it come through."""
    for stage in stages:
        kv.put_many(stage)
    kv.delayed.append(compare_and_set)
    raise StoreUnavailable("did not answer in time")


def after_what_was_delayed(kv: Shared, stages: Sequence[Sequence[Put]], compare_and_set: CompareAndSet) -> bool:
    """What was delayed is done just before this."""
    kv.fault = None
    while kv.delayed:
        kv.publish_unharmed([], kv.delayed.pop(0))
    return kv.publish_unharmed(stages, compare_and_set)
