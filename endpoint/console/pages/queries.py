"""Registered queries: list and register; of one query its state, its latest answer, and its emissions as they
arrive."""

from __future__ import annotations

from flask import flash, redirect, render_template, request, url_for
from flask.typing import ResponseReturnValue

from endpoint.console.display import prefixes_of
from endpoint.console.editor.examples import REGISTRATION
from endpoint.console.pages.answers import TABLE, table_of
from endpoint.console.pages.explained import plan_of
from endpoint.console.pages.replacing import described
from endpoint.console.pages.subscribers import may_see_addresses
from endpoint.console.room import Room
from endpoint.monitoring.rate_history import NAMES_MAX
from endpoint.monitoring.subscribers import shown_subscribers
from hbase_store.errors import StoreError
from stream_ext.errors import BadArgument, RilletError
from stream_ext.language.syntax import parse

#: How many earlier emissions the live view shows.
_EARLIER = 40


def page(room: Room) -> ResponseReturnValue:
    if request.method == "GET":
        return _list(room, request.args.get("query", REGISTRATION), request.args.get("replace"))
    text, replaced = request.form.get("query", ""), request.form.get("replace") or None
    name = replaced or request.form.get("name", "").strip() or None
    try:
        text = room.checked_text(text)
        room.check_may_write()
        definition, created, warnings = room.service.register(text, name, replaces=replaced is not None)
    except (RilletError, StoreError) as error:
        problem = described(error)
        return _list(room, text, replaced, problem), problem.status
    flash(f"{definition.name} is registered." if created else f"{definition.name} was already registered.")
    for warning in warnings:
        flash(warning, "warning")
    return redirect(url_for(".registered", name=definition.name))


def _list(room: Room, text: str, replaced: str | None = None, problem: object = None) -> str:
    """`replaced`: the query whose text is edited."""
    queries = room.service.queries()
    states = [room.service.query_status(query.name) for query in queries[:NAMES_MAX]]
    return render_template(
        "console/queries.html", states=states, count=len(queries), text=text, replaced=replaced, problem=problem
    )


def registered(room: Room, name: str) -> ResponseReturnValue:
    if request.method == "POST":
        room.check_may_write()
        return _act(room, name, request.form.get("act", ""))
    state = room.service.query_status(name)
    if "state" in request.args:  # the page is open, and reads again what moves on
        return render_template("console/query_state.html", state=state)
    text = str(state["text"])
    answer = room.service.latest(name)
    definition = room.service.query_definition(name)
    return render_template(
        "console/registered.html",
        state=state,
        stays=definition.home == "inline",
        has_spark=room.service.has_spark,
        plan=plan_of(parse(text, definition.base), {}, prefixes_of(text)),
        table=table_of(room.service, answer, TABLE, prefixes_of(text)),
        answered=answer.sn,
        results=room.http_url("queries", state["query"], "results"),
        past=room.service.query_past(name),
        subscribers=shown_subscribers(room.service, room.subscribers, name),
        shown=may_see_addresses(room),
        since=max(0, int(state["emissions"]) - _EARLIER),
        prefixes=prefixes_of(text),
    )


def _act(room: Room, name: str, act: str) -> ResponseReturnValue:
    if act == "drop":
        room.service.drop_query(name)
        flash(f"The query {name} was dropped.")
        return redirect(url_for(".queries"))
    if act == "pause":
        room.service.pause_query(name)
        flash(f"{name} is paused: it is not evaluated until it is resumed.")
    elif act == "resume":
        room.service.resume_query(name)
        flash(f"{name} is resumed.")
    elif act == "move":
        runner = request.form.get("runner", "")
        room.service.move_query(name, runner)
        flash(f"{name} was moved to {runner}.")
    else:
        raise BadArgument(f"{act!r} is not an action on a query")
    return redirect(url_for(".registered", name=name))
