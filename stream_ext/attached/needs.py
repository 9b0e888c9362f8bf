"""Needs: the patterns that the registered queries need, and those of queries that are being registered."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from itertools import count

from stream_ext.attached.patterns import patterns_of, widest
from stream_ext.catalog.catalog import QueryDefinition
from stream_ext.catalog.registered import reading_of
from stream_ext.catalog.sources import HeldPattern


class Needs:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tickets = count()
        self._reserved: dict[int, frozenset[HeldPattern]] = {}
        self._of_queries: dict[int, frozenset[HeldPattern]] = {}

    def reserve(self, patterns: frozenset[HeldPattern]) -> Callable[[], None]:
        """They are needed until the returned function is called, which may be called again."""
        with self._lock:
            ticket = next(self._tickets)
            self._reserved[ticket] = patterns

        def release() -> None:
            with self._lock:
                self._reserved.pop(ticket, None)

        return release

    def reserved(self) -> frozenset[HeldPattern]:
        with self._lock:
            return frozenset[HeldPattern]().union(*self._reserved.values())

    def of(self, queries: Mapping[int, QueryDefinition]) -> list[HeldPattern]:
        """All that these queries need, and what is reserved; one thread at a time may call."""
        with self._lock:
            reserved = list(self._reserved.values())  # first: what is released after this is registered by now
        known = {number: needed for number, needed in self._of_queries.items() if number in queries}
        for number, query in queries.items():
            if number not in known:
                known[number] = patterns_of(reading_of(query.text, query.base))
        self._of_queries = known
        return widest(frozenset[HeldPattern]().union(*known.values(), *reserved))
