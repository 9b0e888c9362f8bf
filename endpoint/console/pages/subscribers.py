"""Where emissions go: who reads those of each query and how far behind, and which streams are made of them."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from flask import render_template, request
from flask.typing import ResponseReturnValue

from endpoint.console.room import Room
from endpoint.monitoring.subscribers import shown_subscribers
from stream_ext.errors import NotFound

_SUBSCRIBERS_MAX = 500
_UNREAD_MAX = 100


def page(room: Room) -> ResponseReturnValue:
    """`?query=`: of one query only."""
    query = request.args.get("query")
    subscribers = shown_subscribers(room.service, room.subscribers, query)
    derived = [] if query else derived_streams(room)
    read = {each["query"] for each in subscribers} | {each["query"] for each in derived if each["readers"]}
    unread = [] if query else [each.name for each in room.service.queries() if each.name not in read]
    return render_template(
        "console/subscribers.html",
        query=query,
        subscribers=subscribers[:_SUBSCRIBERS_MAX],
        count=len(subscribers),
        derived=derived,
        unread=unread[:_UNREAD_MAX],
        unread_count=len(unread),
        shown=may_see_addresses(room),
    )


def may_see_addresses(room: Room) -> bool:
    """Addresses of clients are for those who may write, as the log is."""
    return not room.guarded or room.signed_in == "write"


def derived_streams(room: Room) -> list[dict[str, Any]]:
    """The queries whose emissions are the elements of a stream, with the queries that read it."""
    found = []
    for stream in room.service.streams():
        if stream.of_query is None:
            continue
        with suppress(NotFound):  # dropped meanwhile
            state = room.service.stream_status(stream.iri)
            found.append(
                {"query": state["query"], "stream": stream.name, "time": state["time"], "readers": state["readers"]}
            )
    return found
