"""The section of streams: creating, changing and dropping them; their status, and which of their elements were late."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from stream_ext.catalog.catalog import StreamDefinition
from stream_ext.service.opened import OpenedStore
from stream_ext.service.status import stream_figures, stream_status
from stream_ext.upkeep.late_elements import as_objects
from stream_ext.writer.catalog_changes import change_stream, create_stream, drop_stream


class Streams:
    """One for each service."""

    def __init__(self, opened: OpenedStore) -> None:
        self._opened = opened

    def create_stream(self, name_or_iri: str, options: Mapping[str, object]) -> tuple[StreamDefinition, bool]:
        change = create_stream(name_or_iri, options, self._opened.base)
        return cast("tuple[StreamDefinition, bool]", self._opened.change(change))

    def change_stream(self, name_or_iri: str, options: Mapping[str, object]) -> StreamDefinition:
        """Sets options of a stream, of those that may be changed."""
        return cast("StreamDefinition", self._opened.change(change_stream(name_or_iri, options)))

    def streams(self) -> list[StreamDefinition]:
        return list(self._opened.catalog.streams.values())

    def stream(self, name_or_iri: str) -> StreamDefinition:
        return self._opened.catalog.stream(name_or_iri)

    def drop_stream(self, name_or_iri: str) -> None:
        self._opened.change(drop_stream(name_or_iri))

    def stream_status(self, name_or_iri: str) -> dict[str, Any]:
        return stream_status(self.stream(name_or_iri), self._opened.injector, self._opened.engine)

    def stream_figures(self, stream: StreamDefinition) -> dict[str, Any]:
        return stream_figures(stream, self._opened.injector, self._opened.engine)

    def late_elements(
        self, stream: str, since: int = 0, limit: int | None = None, newest: bool = False
    ) -> dict[str, Any]:
        """The number of late elements, and those of them that are retained, of snapshots after `since`: the first
        `limit` of them, or the `newest` ones."""
        definition, late = self.stream(stream), self._opened.engine.lateness.elements
        names = {number: query.name for number, query in self._opened.catalog.queries.items()}
        retained = late.retained(definition.number, since)
        retained = retained[-limit:] if newest and limit is not None else retained[:limit]
        found = as_objects(self._opened.store, definition.number, retained, names)
        return {"stream": definition.name, "late": late.counted(definition.number), "elements": found}
