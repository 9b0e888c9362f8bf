"""A backend that dies: at its n-th durable step from now on, before it, after it, or in the middle of it.

Or it fails there once, as a store over a network does: it says that it is not reachable, whatever it has done.

What is dead writes nothing more, whoever asks, so that closing a service over it leaves what `kill -9` would leave."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Literal, TypeVar

from hbase_store.backends.keyvalue import CompareAndSet, Key, Put, Value
from hbase_store.backends.lease import Lease
from hbase_store.backends.lmdb import LmdbKeyValue
from hbase_store.clock import Clock
from hbase_store.errors import StoreUnavailable

Way = Literal["before", "after", "half"]
T = TypeVar("T")
WAYS: tuple[Way, ...] = ("before", "after", "half")


class Died(Exception):
    """The process is gone, here."""


class Mortal:
    """A real LMDB; `trace` names its durable steps, one after the other, over all lives."""

    is_remote = False

    def __init__(self, inner: LmdbKeyValue, trace: list[str]) -> None:
        self._inner = inner
        self.trace = trace
        self.dead = False
        self.failures = 0
        self._left: int | None = None
        self._way: Way = "before"
        self._survives = False

    def dies_at(self, step: int, way: Way) -> None:
        """`step` 1 is the next."""
        self._left, self._way, self._survives = step, way, False

    def fails_at(self, step: int, way: Way) -> None:
        self._left, self._way, self._survives = step, way, True

    def lives_on(self) -> None:
        self._left = None

    # ---- durable steps

    def put_many(self, puts: Iterable[Put]) -> None:
        rows = list(puts)
        self._step("put_many", lambda: self._inner.put_many(rows), lambda: self._inner.put_many(rows[: len(rows) // 2]))

    def delete(self, table: str, keys: Sequence[Key], time: int) -> None:
        half = keys[: len(keys) // 2]
        self._step(
            f"delete {table}",
            lambda: self._inner.delete(table, keys, time),
            lambda: self._inner.delete(table, half, time),
        )

    def delete_range(self, table: str, start: Key, stop: Key | None, time: int) -> None:
        self._step(f"delete_range {table}", lambda: self._inner.delete_range(table, start, stop, time))

    def allocate(self, counter: str, count: int) -> int:
        return self._step(f"allocate {counter}", lambda: self._inner.allocate(counter, count))

    def publish(self, stages: Sequence[Sequence[Put]], compare_and_set: CompareAndSet) -> bool:
        """One transaction: there is no half of it."""
        what = f"publish {compare_and_set.key.decode(errors='replace')}"
        return self._step(what, lambda: self._inner.publish(stages, compare_and_set))

    def _step(self, what: str, whole: Callable[[], T], half: Callable[[], object] = lambda: None) -> T:
        if self.dead:
            raise Died
        self.trace.append(what)
        if self._left is not None:
            self._left -= 1
        if self._left != 0:
            return whole()
        self.dead = not self._survives
        self.trace.append(f"{'died' if self.dead else 'failed'} {self._way} it")
        if self._way == "after":
            whole()
        elif self._way == "half":
            half()
        if self.dead:
            raise Died
        self.failures += 1
        raise StoreUnavailable("the connection broke")

    # ---- the rest

    def get_many(self, table: str, keys: Sequence[Key], sizes: Sequence[int] = ()) -> list[Value | None]:
        return self._inner.get_many(table, keys, sizes)

    def scan(self, table: str, start: Key, stop: Key | None) -> Iterator[tuple[Key, Value]]:
        return self._inner.scan(table, start, stop)

    def lease(self, clock: Clock) -> Lease:
        return self._inner.lease(clock)

    def sync(self) -> None:
        self._inner.sync()

    def close(self) -> None:
        self._inner.close()
