"""The status of the sources, as `GET /sources` shows it. Nothing here waits for a source."""

from __future__ import annotations

from typing import Any

from stream_ext.errors import NotFound
from stream_ext.remote.source import Source
from stream_ext.remote.sources import Sources


def statuses(sources: Sources) -> list[dict[str, Any]]:
    return [status(source) for source in sources]


def status_of(sources: Sources, name: str) -> dict[str, Any]:
    if (source := sources.named(name)) is None:
        known = ", ".join(each.settings.name for each in sources) or "none is attached (rillet serve --attach URL)"
        raise NotFound(f"there is no source {name!r}; those attached: {known}")
    return status(source)


def status(source: Source) -> dict[str, Any]:
    """What is held of it is added by whoever holds it: `as_of`, `held`, `lag_ms`."""
    settings, health = source.settings, source.health
    return {
        "source": settings.name,
        "url": settings.url,
        "state": health.state,
        "mode": settings.mode,
        "as_of": None,
        "held": 0,
        "round_trips": health.round_trips,
        "lag_ms": None,
        "error": health.error,
        "differs": source.traits.differs if health.probed else [],
    }
