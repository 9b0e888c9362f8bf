"""The first page: the contents of the store, and the status of the service."""

from __future__ import annotations

from flask import flash, redirect, render_template, request, url_for
from flask.typing import ResponseReturnValue

from endpoint.console.display import shown
from endpoint.console.room import Room
from endpoint.console.statistics import Counts, memory_bytes
from endpoint.errors import describe
from hbase_store.errors import StoreError, StoreUnavailable
from hbase_store.version import __version__
from stream_ext.errors import BadArgument, RilletError
from stream_ext.service.service import READER

_PREDICATES_SHOWN = 12
_QUERIES_SHOWN = 20
#: For how long the page waits for new counts; then it shows earlier ones.
_PATIENCE_S = 2.0
_NOTHING = Counts(0, 0, 0, 0, {}, {})


def page(room: Room) -> ResponseReturnValue:
    if request.method == "POST":
        try:
            room.check_may_write()
            room.check_store()
            return _demo(room, request.form.get("act", ""))
        except (RilletError, StoreError) as error:
            problem = describe(error)
            return _shown(room, problem), problem.status
    return _shown(room)


def _demo(room: Room, act: str) -> ResponseReturnValue:
    if act == "play":
        room.demo.start()
        flash("The city is played: six queries have results from now on. Click on one.")
        return redirect(url_for(".queries"))
    if act == "stop":
        room.demo.stop()
        flash("The city stands still. Its streams and queries are still there.")
    elif act == "remove":
        room.demo.remove()
        flash("The streams, the queries and the graph of the city were dropped.")
    else:
        raise BadArgument(f"{act!r} is not an action of this page")
    return redirect(url_for(".overview"))


def _shown(room: Room, problem: object = None) -> str:
    counts, age_s = _counted(room)
    most = list(counts.predicates.items())[:_PREDICATES_SHOWN]
    prefixes = room.prefixes()
    return render_template(
        "console/overview.html",
        counts=counts,
        age_s=age_s,
        status=room.service.status_at_once(),
        memory=memory_bytes(),
        predicates=[(shown(term, prefixes), count) for term, count in most],
        queries_shown=_QUERIES_SHOWN,
        queries=[query.name for query in room.service.queries()[:_QUERIES_SHOWN]],
        most=max((count for _, count in most), default=1),
        version=__version__,
        sparql=room.http_url("sparql"),
        sources=room.service.sources_status(),
        demo=room.demo.state,
        is_new=age_s is not None and not counts.triples and not room.service.streams(),
        problem=problem,
    )


def _counted(room: Room) -> tuple[Counts, float | None]:
    """The counts of the store, and their age; None: none are known."""
    try:
        known = room.counts.wait(0 if room.service.waits.hangs(READER) else _PATIENCE_S)
    except StoreUnavailable:
        return _NOTHING, None
    return known.value, known.age_s
