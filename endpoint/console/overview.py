"""The first page: what is in the store, and how the service does."""

from __future__ import annotations

from flask import render_template
from flask.typing import ResponseReturnValue

from endpoint.console.room import Room
from endpoint.console.shown import shown
from endpoint.console.statistics import memory_bytes
from hbase_store.version import __version__

_PREDICATES_SHOWN = 12


def page(room: Room) -> ResponseReturnValue:
    counts = room.statistics.counts()
    most = list(counts.predicates.items())[:_PREDICATES_SHOWN]
    return render_template(
        "console/overview.html",
        counts=counts,
        status=room.service.status(),
        memory=memory_bytes(),
        predicates=[(shown(term), count) for term, count in most],
        most=max((count for _, count in most), default=1),
        version=__version__,
        sparql=room.http_url("sparql"),
    )
