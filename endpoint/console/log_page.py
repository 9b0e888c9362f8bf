"""What is wrong, on one page: what the service waits for, queries that fail, and the last lines of the log."""

from __future__ import annotations

from flask import render_template
from flask.typing import ResponseReturnValue

from endpoint.console.room import Room
from endpoint.monitoring import log


def page(room: Room) -> ResponseReturnValue:
    """The log has addresses of clients: only those who may write see it."""
    shown = not room.guarded or room.signed_in == "write"
    failed = [query for query in room.service.queries() if query.failure is not None]
    status = room.service.status_at_once()
    return render_template(
        "console/log.html",
        failed=failed,
        fault=status["fault"] or status["writer"]["fault"],
        lines=list(reversed(log.recent() or ())) if shown else None,
        has_log=log.recent() is not None,
        shown=shown,
    )
