"""Caches, from which goes first what was not used for the longest time. `RecentlyUsed` has at most so many entries;
`Cache`, of what was read and decoded, has a budget of bytes.

Blocks never change, so nothing in a `Cache` is ever wrong; an array that has left it lives on while it is read."""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict
from collections.abc import Hashable
from itertools import count
from typing import Any, Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

CACHE_BYTES = 512 << 20


class RecentlyUsed(Generic[K, V]):
    """At most so many entries. `get` and `put` are uses of an entry. Threads that share one need a lock.

    >>> plans = RecentlyUsed[str, int](2)
    >>> plans.put("a", 1), plans.put("b", 2), plans.get("a"), plans.put("c", 3)
    (None, None, 1, None)
    >>> plans.get("b") is None, plans.get("a"), len(plans)
    (True, 1, 2)
    """

    __slots__ = ("_entries", "_entries_max")

    def __init__(self, entries_max: int) -> None:
        self._entries_max = entries_max
        self._entries: OrderedDict[K, V] = OrderedDict()  # what was used last is at the end

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: K) -> bool:
        """Whether it is there; this is no use of it."""
        return key in self._entries

    def get(self, key: K) -> V | None:
        try:
            self._entries.move_to_end(key)
            return self._entries[key]
        except KeyError:
            return None

    def put(self, key: K, value: V) -> None:
        self._entries.pop(key, None)
        self._entries[key] = value
        if len(self._entries) > self._entries_max:
            self._entries.popitem(last=False)

    def pop(self, key: K) -> V | None:
        return self._entries.pop(key, None)

    def clear(self) -> None:
        self._entries.clear()

    def values(self) -> list[V]:
        """All of them; this is no use of them."""
        return list(self._entries.values())


class Lent(dict[Any, Any]):
    """References to what is in a cache, for whoever asks so often that a look into the cache is too slow. It is empty
    again when a lendable entry has left the cache: nothing lives on only because it was lent."""

    __slots__ = ("__weakref__",)
    __hash__ = object.__hash__  # type: ignore[assignment]  # a set knows it by its identity


class Cache(Generic[V]):
    """A cache that many threads share. Never more than its budget is in it."""

    def __init__(self, bytes_max: int = CACHE_BYTES) -> None:
        self._bytes_max = bytes_max
        self._bytes = 0
        self._entries: OrderedDict[Hashable, tuple[V, int, bool, int]] = OrderedDict()
        self._tickets = count(1)
        self._lent: weakref.WeakSet[Lent] = weakref.WeakSet()
        self._lock = threading.Lock()

    @property
    def nbytes(self) -> int:
        return self._bytes

    def holds(self, size: int) -> bool:
        """Whether an entry may be so large: one alone takes half of the budget at most, or it would drive out all
        others."""
        return size <= self._bytes_max // 2

    def get(self, key: Hashable) -> V | None:
        with self._lock:
            entry = self._entries.get(key)
            if entry is None:
                return None
            self._entries.move_to_end(key)
            return entry[0]

    def put(self, key: Hashable, value: V, size: int, lendable: bool = False) -> int:
        """What is larger than the budget is not taken in. `lendable`: references to it may be in a `Lent`. Returns the
        ticket of the entry, for `grow`."""
        with self._lock:
            self._drop(key)
            ticket = next(self._tickets)
            if size <= self._bytes_max:
                self._entries[key] = value, size, lendable, ticket
                self._bytes += size
                self._make_room()
            return ticket

    def grow(self, key: Hashable, ticket: int, size: int) -> None:
        """The entry takes so many bytes more than it did, if the value of this key is still the one with this ticket.
        A value that knew itself by reference would live on after it has left the cache."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is not None and entry[3] == ticket:
                self._entries[key] = entry[0], entry[1] + size, entry[2], ticket
                self._bytes += size
                self._make_room()

    def drop(self, key: Hashable) -> None:
        with self._lock:
            self._drop(key)

    def lend(self) -> Lent:
        lent = Lent()
        with self._lock:
            self._lent.add(lent)
        return lent

    def _make_room(self) -> None:
        recall = False
        while self._bytes > self._bytes_max:
            _, (_, size, lendable, _) = self._entries.popitem(last=False)
            self._bytes -= size
            recall |= lendable
        if recall:
            for lent in self._lent:
                lent.clear()

    def _drop(self, key: Hashable) -> None:
        entry = self._entries.pop(key, None)
        if entry is not None:
            self._bytes -= entry[1]
