"""The pages as a blueprint: the pages by their paths, and a page for errors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from flask import Blueprint, Response, render_template, request, url_for

from endpoint.console import assets, figures
from endpoint.console.display import brief, length, moment, number, program_name, seconds, size, stream_time
from endpoint.console.editor import checking, expected, vocabulary
from endpoint.console.packed_pages import pack
from endpoint.console.pages import (
    graphs,
    log_page,
    operators,
    overview,
    queries,
    query_editor,
    resource,
    server,
    signing,
    sources,
    streams,
    subscribers,
)
from endpoint.console.room import Room
from endpoint.console.statistics import Statistics
from endpoint.errors import describe
from endpoint.http import browsers
from endpoint.http.access import Access
from endpoint.limits import HttpLimits
from endpoint.monitoring.rate_history import RateHistory
from endpoint.monitoring.settings_in_force import SettingInForce
from endpoint.monitoring.subscribers import Subscribers
from hbase_store.errors import StoreError
from stream_ext.errors import NotFound, RilletError
from stream_ext.waits import STOPS

if TYPE_CHECKING:
    from stream_ext.query_memory import QueryMemory
    from stream_ext.service.service import Service

View = Callable[..., Any]
#: The header of a request of a script, which goes to the next page by itself.
SCRIPTED = "rillet-script"
_FOUND = 302


@dataclass(frozen=True, slots=True)
class Page:
    path: str
    name: str
    view: View
    methods: tuple[str, ...] = ("GET",)


def nothing_there(_room: Room, _: str) -> str:
    there = ", ".join(url_for(f".{page}") for page, _label in MENU)
    raise NotFound(f"the console has no page {request.script_root}{request.path}; its pages are {there}")


def snapshot(room: Room) -> Response:
    """The state for the bar at the top of each page, which polls it."""
    return Response(number(room.service.head()), mimetype="text/plain")


PAGES = (
    Page("/", "overview", overview.page, ("GET", "POST")),
    Page("/query", "query", query_editor.query, ("GET", "POST")),
    Page("/query/check", "check", checking.check, ("GET", "POST")),
    Page("/query/expected", "expected", expected.page),
    Page("/query/layout", "layout", checking.layout, ("POST",)),
    Page("/query/cancel", "cancel", query_editor.cancel, ("POST",)),
    Page("/vocabulary", "vocabulary", vocabulary.page),
    Page("/resource", "resource", resource.page),
    Page("/static/<path:filename>", "static", assets.give),
    Page("/explain", "explain", query_editor.explain, ("GET", "POST")),
    Page("/graphs", "graphs", graphs.page),
    Page("/graphs/drop", "drop_graph", graphs.drop, ("POST",)),
    Page("/upload", "upload", graphs.upload, ("GET", "POST")),
    Page("/streams", "streams", streams.page, ("GET", "POST")),
    Page("/streams/<path:name>", "stream", streams.stream, ("GET", "POST")),
    Page("/queries", "queries", queries.page, ("GET", "POST")),
    Page("/queries/<path:name>", "registered", queries.registered, ("GET", "POST")),
    Page("/operators/<path:name>", "operators", operators.page),
    Page("/subscribers", "subscribers", subscribers.page),
    Page("/sign-in", "sign_in", signing.page, ("GET", "POST")),
    Page("/sign-out", "sign_out", signing.out, ("POST",)),
    Page("/snapshot", "snapshot", snapshot),
    Page("/figures", "figures", figures.page),
    Page("/sources", "sources", sources.page, ("GET", "POST")),
    Page("/server", "server", server.page),
    Page("/log", "log", log_page.page),
    Page("/<path:_>", "nothing", nothing_there),
)

#: The links of the bar at the top.
MENU = (
    ("overview", "Overview"),
    ("query", "Query"),
    ("graphs", "Graphs"),
    ("upload", "Upload"),
    ("streams", "Streams"),
    ("queries", "Registered queries"),
    ("subscribers", "Subscribers"),
    ("explain", "Explain"),
    ("sources", "Attached stores"),
    ("server", "Server"),
    ("log", "Log"),
)
#: Pages that need no sign-in, even if reading needs a token.
_OPEN = ("sign_in", "static")
#: Pages that need no store.
WITHOUT_STORE = ("overview", "static", "sign_in", "sign_out", "snapshot", "figures", "log")
#: Pages that belong to a link of the bar, and are not its target.
_UNDER = {
    "resource": "query",
    "stream": "streams",
    "registered": "queries",
    "operators": "queries",
    "drop_graph": "graphs",
}


def console_blueprint(
    service: Service,
    *,
    access: Access | None = None,
    limits: HttpLimits | None = None,
    http: str | None = None,
    name: str = "rillet",
    memory: QueryMemory | None = None,
    rates: RateHistory | None = None,
    subscribers: Subscribers | None = None,
    settings: Sequence[SettingInForce] = (),
) -> Blueprint:
    """`http`: where browsers reach the HTTP routes of this service ("/", "https://host/rdf/"); without it there are
    no live results. `memory`: the memory that all queries share, those of other interfaces included. `rates`: of the
    last minutes; without them there are rates from the time on at which a page is open. `subscribers`: who reads
    emissions over HTTP. `settings`: those that the server was started with. The application needs a secret key, for the
    messages after a change."""
    limits = limits or HttpLimits()
    memory = memory or limits.query_memory()
    access, rates = access or Access(None, service.base), rates or RateHistory(service)
    shared = Statistics(service.store), rates, subscribers or Subscribers(), settings
    room = Room(service, access, limits, memory, *shared, http)
    blueprint = Blueprint(name, __name__, template_folder="templates")
    for page in PAGES:
        blueprint.add_url_rule(page.path, page.name, partial(page.view, room), methods=page.methods)
    blueprint.before_request(partial(_admit, room))
    blueprint.before_request(partial(_check_store, room))
    blueprint.context_processor(partial(_context, room, name))
    for filter in (number, size, moment, stream_time, length, brief, seconds, program_name):
        blueprint.add_app_template_filter(filter, f"rillet_{filter.__name__}")
    for kind in (RilletError, StoreError):
        blueprint.register_error_handler(kind, failed)
    blueprint.after_request(partial(guard, room))
    return blueprint


def _admit(room: Room) -> Any:
    """Rejects a form from a page of another site; and shows the sign-in page if reading needs a sign-in."""
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
        "libraries": assets.has_libraries(),
        "words": vocabulary.WORDS,
    }


def _check_store(room: Room) -> None:
    """Rejects a page that needs the store while the store does not answer, so that it occupies no thread."""
    page = (request.endpoint or "").rpartition(".")[2]
    if page not in WITHOUT_STORE:
        room.check_store()


def failed(error: Exception) -> tuple[str, int]:
    problem = describe(error)
    return render_template("console/error.html", problem=problem), problem.status


def guard(room: Room, response: Response) -> Response:
    """Adds the security headers of a page: it loads only our own files, and no other site can embed it."""
    if response.status_code == _FOUND and SCRIPTED in request.headers:
        # A script would follow by itself, and the page there would show its messages to nobody.
        response.headers["rillet-location"] = response.headers.pop("location")
        response.status_code, response.data = 204, b""
    http = "" if room.http is None or room.http.startswith(("/", "..")) else room.http
    for header, value in browsers.of_page(http).items():
        response.headers[header] = value
    pack(response)
    if not (request.endpoint or "").endswith(".static"):
        response.headers["Cache-Control"] = "no-store"
        response.headers["Rillet-Snapshot"] = str(room.service.head())
    return response
