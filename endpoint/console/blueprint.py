"""The pages as a blueprint: which address shows what, and what goes wrong on a page of its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from flask import Blueprint, Response, render_template, request, url_for

from endpoint.console import asking, graphs, overview, queries, signing, streams
from endpoint.console.room import Room
from endpoint.console.shown import length, moment, number, size, stream_time
from endpoint.console.statistics import Statistics
from endpoint.errors import describe
from endpoint.http import browsers
from endpoint.http.access import Access
from endpoint.limits import HttpLimits
from hbase_store.errors import StoreError, StoreUnavailable
from stream_ext.errors import NotFound, RilletError
from stream_ext.service.service import READER
from stream_ext.waits import STOPS

if TYPE_CHECKING:
    from stream_ext.query_memory import QueryMemory
    from stream_ext.service.service import Service

View = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Page:
    path: str
    name: str
    view: View
    methods: tuple[str, ...] = ("GET",)


def nothing_there(_room: Room, _: str) -> str:
    there = ", ".join(url_for(f".{page}") for page, _label in MENU)
    raise NotFound(f"the console has no page {request.script_root}{request.path}; its pages: {there}")


def snapshot(room: Room) -> Response:
    """For the bar at the top, which asks again and again."""
    return Response(number(room.service.head()), mimetype="text/plain")


PAGES = (
    Page("/", "overview", overview.page),
    Page("/query", "query", asking.query, ("GET", "POST")),
    Page("/explain", "explain", asking.explain, ("GET", "POST")),
    Page("/graphs", "graphs", graphs.page),
    Page("/graphs/drop", "drop_graph", graphs.drop, ("POST",)),
    Page("/upload", "upload", graphs.upload, ("GET", "POST")),
    Page("/streams", "streams", streams.page, ("GET", "POST")),
    Page("/streams/<path:name>", "stream", streams.stream, ("GET", "POST")),
    Page("/queries", "queries", queries.page, ("GET", "POST")),
    Page("/queries/<path:name>", "registered", queries.registered, ("GET", "POST")),
    Page("/sign-in", "sign_in", signing.page, ("GET", "POST")),
    Page("/sign-out", "sign_out", signing.out, ("POST",)),
    Page("/snapshot", "snapshot", snapshot),
    Page("/<path:_>", "nothing", nothing_there),
)

#: What the bar at the top leads to.
MENU = (
    ("overview", "Overview"),
    ("query", "Query"),
    ("graphs", "Graphs"),
    ("upload", "Upload"),
    ("streams", "Streams"),
    ("queries", "Live queries"),
    ("explain", "Explain"),
)
#: Where reading is closed: what one needs to sign in.
_OPEN = ("sign_in", "static")
#: Pages that are shown whether or not the store answers.
WITHOUT_STORE = ("overview", "static", "sign_in", "sign_out", "snapshot")
#: Pages that belong to a place of the bar without being it.
_UNDER = {"stream": "streams", "registered": "queries", "drop_graph": "graphs"}


def console_blueprint(
    service: Service,
    *,
    access: Access | None = None,
    limits: HttpLimits | None = None,
    http: str | None = None,
    name: str = "rillet",
    memory: QueryMemory | None = None,
) -> Blueprint:
    """`http` is where browsers reach the HTTP routes of this service ("/", "https://host/rdf/"); without it there are
    no live results; `memory` is what queries have together that are asked elsewhere, too. The application needs a
    secret key, for what a page says after a change."""
    limits = limits or HttpLimits()
    memory = memory or limits.query_memory()
    room = Room(service, access or Access(None, service.base), limits, memory, Statistics(service.store), http)
    blueprint = Blueprint(name, __name__, template_folder="templates", static_folder="static")
    for page in PAGES:
        blueprint.add_url_rule(page.path, page.name, partial(page.view, room), methods=page.methods)
    blueprint.before_request(partial(_admit, room))
    blueprint.before_request(partial(_check_store, room))
    blueprint.context_processor(partial(_context, room, name))
    for filter in (number, size, moment, stream_time, length):
        blueprint.add_app_template_filter(filter, f"rillet_{filter.__name__}")
    for kind in (RilletError, StoreError):
        blueprint.register_error_handler(kind, failed)
    blueprint.after_request(partial(guard, room))
    return blueprint


def _admit(room: Room) -> Any:
    """Whatever is sent comes from a page of ours; and where reading is closed, whoever looks has signed in."""
    if request.method not in ("GET", "HEAD", "OPTIONS"):
        room.check_page()
    page = (request.endpoint or "").rpartition(".")[2]
    return None if room.may_read or page in _OPEN else signing.closed()


def _context(room: Room, name: str) -> dict[str, Any]:
    here = (request.endpoint or "").rpartition(".")[2]
    return {
        "room": room,
        "head": room.service.head(),
        "waits": (waits := room.service.waits.current()),
        "waits_stop": any(wait.kind in STOPS for wait in waits),
        "menu": MENU,
        "here": _UNDER.get(here, here),
        "console": name,
    }


def _check_store(room: Room) -> None:
    """A page that would only wait takes no thread from those that need no store."""
    page = (request.endpoint or "").rpartition(".")[2]
    if page not in WITHOUT_STORE and (wait := room.service.waits.hangs(READER)) is not None:
        raise StoreUnavailable(f"the store does not answer: {wait.why}; this page is there again when it does")


def failed(error: Exception) -> tuple[str, int]:
    problem = describe(error)
    return render_template("console/error.html", problem=problem), problem.status


def guard(room: Room, response: Response) -> Response:
    """Only what is ours is loaded, and no other site shows a page of ours as its own."""
    http = "" if room.http is None or room.http.startswith(("/", "..")) else room.http
    for header, value in browsers.of_page(http).items():
        response.headers[header] = value
    if request.endpoint is None or not request.endpoint.endswith(".static"):
        response.headers["Cache-Control"] = "no-store"
        response.headers["Rillet-Snapshot"] = str(room.service.head())
    return response
