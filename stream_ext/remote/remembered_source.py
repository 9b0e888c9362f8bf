"""A source for a while in which it must not be asked: it answers what it was asked before, and says what it was not.

with source.closed():      whoever evaluates gets NotFetchedYet for a new question
    ...
source.ask(control)        now that nobody waits, these questions are asked
with source.closed():      the same again, with the answers at hand
    ..."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from stream_ext.evaluation_budget import Control
from stream_ext.remote.gathering import gather
from stream_ext.remote.source import Source, SourceHealth, SourceSettings, SourceTraits
from stream_ext.remote.sparql_client import Solution


class NotFetchedYet(Exception):
    """The source has to be asked something first (`RememberedSource.ask`)."""


class RememberedSource:
    def __init__(self, source: Source, bytes_max: int) -> None:
        """`bytes_max`: of one answer that is remembered."""
        self._source, self._bytes_max = source, bytes_max
        self._lock = threading.Lock()  # several threads may ask questions of one query
        self._answers: dict[str, list[Solution]] = {}
        self._missing: dict[str, None] = {}
        self._is_closed = False

    @property
    def settings(self) -> SourceSettings:
        return self._source.settings

    @property
    def traits(self) -> SourceTraits:
        return self._source.traits

    @property
    def local(self) -> bool:
        return self._source.local

    @property
    def health(self) -> SourceHealth:
        return self._source.health

    @contextmanager
    def closed(self) -> Iterator[None]:
        self._is_closed = True
        try:
            yield
        finally:
            self._is_closed = False

    def ask(self, control: Control) -> None:
        """Asks what was missing. Raises as `Source.select` does."""
        missing, self._missing = self._missing, {}
        for text in missing:
            self._answers[text], size = gather(self._source, text, control, self._bytes_max)
            control.spend(size)

    def select(self, text: str, control: Control) -> Iterator[list[Solution]]:
        if not self._is_closed:
            yield from self._source.select(text, control)
            return
        with self._lock:
            answer = self._answers.get(text)
            if answer is None:
                self._missing[text] = None
                raise NotFetchedYet(text)
        # Whoever reads them may change them.
        yield [dict(solution) for solution in answer]

    def update(self, text: str) -> None:
        self._source.update(text)

    def close(self) -> None:
        pass  # it belongs to others
