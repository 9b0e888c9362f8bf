"""What is wrong, on one page: what the service waits for, queries that fail, what happened to queries lately, and the
last lines of the log."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from flask import render_template
from flask.typing import ResponseReturnValue

from endpoint.console.room import Room
from endpoint.monitoring import log
from stream_ext.errors import NotFound

#: Of so many queries the events are looked at, and so many events are shown.
_QUERIES_MAX, _EVENTS_SHOWN = 1_000, 50


def page(room: Room) -> ResponseReturnValue:
    """The log has addresses of clients: only those who may write see it."""
    shown = not room.guarded or room.signed_in == "write"
    failed = [query for query in room.service.queries() if query.failure is not None]
    status = room.service.status_at_once()
    return render_template(
        "console/log.html",
        failed=failed,
        past=_past(room),
        fault=status["fault"] or status["writer"]["fault"],
        lines=list(reversed(log.recent() or ())) if shown else None,
        has_log=log.recent() is not None,
        shown=shown,
    )


def _past(room: Room) -> list[dict[str, Any]]:
    """The last events of all queries, the latest first."""
    events: list[dict[str, Any]] = []
    for query in room.service.queries()[:_QUERIES_MAX]:
        with suppress(NotFound):  # dropped meanwhile
            found = room.service.query_past(query.name)[:_EVENTS_SHOWN]
            events += [event | {"query": query.name} for event in found]
    return sorted(events, key=lambda event: int(event["time_ms"]), reverse=True)[:_EVENTS_SHOWN]
