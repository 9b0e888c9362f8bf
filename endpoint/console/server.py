"""The server on one page: attached stores, what is retained and how much of it, Spark, and the limits of requests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from flask import render_template
from flask.typing import ResponseReturnValue

from endpoint.console.room import Room
from endpoint.console.shown import number, size
from endpoint.limits import HttpLimits
from stream_ext.query_memory import usual_bytes


def page(room: Room) -> ResponseReturnValue:
    status = room.service.status()
    return render_template(
        "console/server.html",
        status=status,
        retention=status["retention"],
        spark=list(_facts(status["spark"] or {})),
        sources=room.service.sources_status(),
        limits=_limits(room.limits),
    )


def _limits(limits: HttpLimits) -> dict[str, str]:
    return {
        "Time of a query or update": f"{limits.query_s:g} s",
        "Memory of a query": size(limits.query_bytes),
        "Memory of all queries": size(limits.queries_bytes or usual_bytes(limits.query_bytes)),
        "Rows of an answer": number(limits.rows),
        "A text": size(limits.text_bytes),
        "A body": f"{size(limits.body_bytes)}, unpacked {size(limits.inflated_bytes)}",
        "A term that an expression makes": size(limits.term_bytes),
        "Connections": number(limits.connections),
        "A query is logged as slow after": f"{limits.slow_query_s:g} s",
    }


def _facts(status: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, str]]:
    """Facts within facts, one after the other: `shards 0 lag`, `3`."""
    for name, value in status.items():
        label = f"{above}{name}".replace("_", " ")
        if isinstance(value, Mapping):
            yield from _facts(value, f"{label} ")
        elif isinstance(value, list) and value and isinstance(value[0], Mapping):
            for place, each in enumerate(value):
                yield from _facts(each, f"{label} {place} ")
        else:
            yield label, "none" if value in (None, "", []) else str(value)
