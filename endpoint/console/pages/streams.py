"""Streams: list and create; for one stream: push a sample, advance its time, drop it."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Any

from flask import flash, redirect, render_template, request, url_for
from flask.typing import ResponseReturnValue

from endpoint.console.display import Shown, moment
from endpoint.console.editor.examples import PUSH
from endpoint.console.pages.answers import TABLE, Table, table_of
from endpoint.console.pages.graphs import FORMATS
from endpoint.console.room import Room
from endpoint.errors import describe
from endpoint.monitoring.rate_history import NAMES_MAX
from hbase_store.errors import SnapshotGone, StoreError
from stream_ext.errors import BadArgument, RilletError
from stream_ext.service.service import PushReceipt
from stream_ext.times import parse_time

#: How many elements are shown: fewer, if so many are not retained.
_RECENT_ELEMENTS = (10, 3, 1)
_RECENT = """SELECT ?time ?subject ?predicate ?object
FROM NAMED WINDOW <urn:recent> ON STREAM <{stream}> [ELEMENTS {elements}] {{
  WINDOW <urn:recent> {{
    ?subject ?predicate ?object BIND(<urn:rillet:ns#timestamp>(?subject, ?predicate, ?object) AS ?time)
  }}
}} ORDER BY DESC(?time)"""
_LATE_ELEMENTS = 10
_RECENT_DEADLINE_S = 5.0
_NDJSON = "application/x-ndjson"


def page(room: Room) -> ResponseReturnValue:
    if request.method == "GET":
        return _list(room, {})
    try:
        room.check_may_write()
        name = request.form.get("name", "").strip()
        if not name:
            raise BadArgument("give the stream a name or an IRI")
        definition, created = room.service.create_stream(name, _options())
    except (RilletError, StoreError) as error:
        problem = describe(error)
        return _list(room, request.form, problem=problem), problem.status
    flash(f"The stream {definition.name} is {'made' if created else 'there already, with these options'}.")
    return redirect(url_for(".stream", name=definition.name))


def _list(room: Room, form: Any, problem: object = None) -> str:
    readers: dict[int, list[str]] = {}
    for query in room.service.queries():
        for number in [s.number for s in room.service.streams()] if query.any_stream else set(query.streams):
            readers.setdefault(number, []).append(query.name)
    all_streams = room.service.streams()
    streams = all_streams[:NAMES_MAX]
    states = {stream.number: room.service.stream_status(stream.iri) for stream in streams}
    return render_template(
        "console/streams.html",
        streams=streams,
        count=len(all_streams),
        states=states,
        readers=readers,
        form=form,
        problem=problem,
    )


def _options() -> dict[str, object]:
    """The options that the form has; the others have their defaults."""
    form = request.form
    options: dict[str, object] = {
        name: form[name].strip()
        for name in ("graph", "time", "lateness", "batch", "retention")
        if form.get(name, "").strip()
    }
    timeless = form.get("timeless", "none")
    if timeless == "all":
        options["timeless"] = True
    elif timeless == "some":
        options["timeless"] = form.get("predicates", "").split()
    return options


def stream(room: Room, name: str) -> ResponseReturnValue:
    if request.method == "GET":
        return _one(room, name, {})
    try:
        room.check_may_write()
        return _act(room, name, request.form.get("act", ""))
    except (RilletError, StoreError) as error:
        problem = describe(error)
        return _one(room, name, request.form, problem=problem), problem.status


def _act(room: Room, name: str, act: str) -> ResponseReturnValue:
    if act == "drop":
        room.service.drop_stream(name)
        flash(f"The stream {name} was dropped.")
        return redirect(url_for(".streams"))
    if act == "push":
        flash(_push_message(_push(room, name)))
    elif act == "heartbeat":
        time = request.form.get("time", "").strip()
        if not time:
            raise BadArgument("a heartbeat needs a time")
        receipt = room.service.heartbeat(name, parse_time(time), wait="evaluated")
        flash(f"The time of the stream is now {time}, in snapshot {receipt.snapshot}.")
    else:
        raise BadArgument(f"{act!r} is not an action on a stream")
    return redirect(url_for(".stream", name=name))


def _push(room: Room, name: str) -> PushReceipt:
    data, time = request.form.get("data", ""), request.form.get("timestamp", "").strip()
    if not data.strip():
        raise BadArgument("write some RDF to push")
    media_type = request.form.get("type", "")
    timestamp = parse_time(time) if time else None
    return room.service.push(name, data.encode(), media_type, timestamp=timestamp, wait="evaluated")


def _push_message(receipt: PushReceipt) -> str:
    elements = "1 element" if receipt.accepted == 1 else f"{receipt.accepted} elements"
    late = f", {receipt.late} of them late" if receipt.late else ""
    return f"{elements} accepted{late}, in snapshot {receipt.snapshot}. Every query has evaluated them."


def _recent(room: Room, iri: str, state: dict[str, Any]) -> Table | str:
    """The triples of the last elements; or why there are none to show."""
    if state["time"] is None:
        return "No element has arrived yet."
    try:
        for elements in _RECENT_ELEMENTS:
            with suppress(SnapshotGone):
                return _last(room, iri, state["time"], elements)
    except (RilletError, StoreError) as error:
        return describe(error).detail
    last = state["last_element_at"]
    came = "before the server started" if last is None else f"at {moment(last)}"
    return f"No elements are retained; the last one came {came}."


def _last(room: Room, iri: str, time: int, elements: int) -> Table:
    """The triples of so many elements."""
    with room.control(_RECENT_DEADLINE_S) as control:
        answer = room.service.query(_RECENT.format(stream=iri, elements=elements), at=time, control=control)
        found = table_of(room.service, answer, TABLE, room.prefixes())
    return replace(found, rows=[[_as_time(row[0]), *row[1:]] for row in found.rows])


def _as_time(cell: Shown | None) -> Shown | None:
    """As the page shows other times: without the datatype."""
    return None if cell is None else Shown("time", cell.text.replace("T", " "), cell.full)


def _late(room: Room, stream: str) -> list[dict[str, Any]]:
    """The last of those that are retained, the newest first."""
    return list(reversed(room.service.late_elements(stream, limit=_LATE_ELEMENTS, newest=True)["elements"]))


def _one(room: Room, name: str, form: Any, problem: object = None) -> str:
    definition = room.service.stream(name)
    readers = [query for query in room.service.queries() if query.any_stream or definition.number in query.streams]
    state = room.service.stream_status(definition.iri)
    return render_template(
        "console/stream.html",
        stream=definition,
        state=state,
        recent_elements=_RECENT_ELEMENTS[0],
        figures=room.service.stream_figures(definition),
        recent=_recent(room, definition.iri, state),
        retained=room.service.status()["retention"]["streams"].get(definition.name),
        readers=readers,
        late=room.http_url("streams", definition.name, "late"),
        late_elements=_late(room, definition.iri) if state["late"] else None,
        form=form,
        sample=PUSH,
        formats={**FORMATS, _NDJSON: "JSON lines, one element each"},
        problem=problem,
    )
