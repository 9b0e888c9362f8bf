"""Source watch: finds out what the sources are when the service starts; of those that are away, when they are back."""

from __future__ import annotations

import logging
import threading

from stream_ext.remote.fetching import CannotFetch
from stream_ext.remote.source import Source
from stream_ext.remote.sources import Sources

log = logging.getLogger("rillet.sources")

_AGAIN_S = 5.0


class SourceWatch:
    """One thread for each source, until it has answered."""

    def __init__(self, sources: Sources) -> None:
        self._closing = threading.Event()
        self._threads = [
            threading.Thread(target=self._probe, args=(source,), name=f"source-{source.settings.name}", daemon=True)
            for source in sources
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        self._closing.set()
        for thread in self._threads:
            thread.join(_AGAIN_S)

    def _probe(self, source: Source) -> None:
        name, has_warned = source.settings.name, False
        while not self._closing.is_set():
            try:
                traits = source.traits
            except CannotFetch as error:
                if not has_warned:
                    log.warning("the source %s is away, and is asked again: %s", name, error)
                has_warned = True
                self._closing.wait(_AGAIN_S)
                continue
            log.info("the source %s answers: %s", name, traits.description)
            return
