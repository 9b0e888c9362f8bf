"""The status of the sources, as `GET /sources` shows it. Nothing here waits for a source."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stream_ext.errors import NotFound
from stream_ext.remote.source import Source
from stream_ext.remote.sources import Sources


def found_source(sources: Sources, name: str) -> Source:
    if (source := sources.named(name)) is None:
        known = ", ".join(each.settings.name for each in sources) or "none is attached (rillet serve --attach URL)"
        raise NotFound(f"there is no source {name!r}; those attached: {known}")
    return source


def status_of(source: Source, held: Mapping[str, Any]) -> dict[str, Any]:
    """`held`: the status of what is held of it; empty if nothing ever is."""
    settings, health = source.settings, source.health
    state = held.get("state", "new")
    if health.state == "away" or state == "new":
        state = health.state
    return {
        "source": settings.name,
        "url": settings.shown_url,
        "state": state,
        "mode": settings.mode,
        "as_of": held.get("as_of"),
        "held": held.get("held", 0),
        "round_trips": max(health.round_trips, held.get("round_trips", 0)),
        "lag_ms": held.get("lag_ms"),
        "error": health.error or held.get("error"),
        "differs": source.traits.differs if health.probed else [],
    }
