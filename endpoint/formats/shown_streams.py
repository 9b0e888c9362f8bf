"""Streams as JSON: their definitions and their progress."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from stream_ext.service.service import Service, StreamDefinition


def described(definition: StreamDefinition) -> dict[str, Any]:
    """The name of a stream, and the options with which PUT would create it again."""
    return {"stream": definition.name, "iri": definition.iri, **definition.options.as_json()}


def with_status(service: Service, definition: StreamDefinition) -> dict[str, Any]:
    return {**described(definition), **service.stream_status(definition.iri)}


def shown_stream(service: Service, name: tuple[str, int]) -> dict[str, Any]:
    return with_status(service, service.stream(name[0]))


def streams_listed(service: Service) -> msgspec.Raw:
    """All streams, as encoded JSON: they may be many."""
    return msgspec.Raw(msgspec.json.encode([with_status(service, definition) for definition in service.streams()]))
