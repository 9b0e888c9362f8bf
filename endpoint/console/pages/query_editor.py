"""The query editor, and EXPLAIN. The text itself decides what it is, as on the protocol's routes."""

from __future__ import annotations

import time
from typing import Any

from flask import flash, redirect, render_template, request, url_for
from flask.typing import ResponseReturnValue

from endpoint.console.display import number, prefixes_of
from endpoint.console.editor.examples import CITY, EXAMPLES, EXPLAINED, FIRST
from endpoint.console.pages.answers import (
    DOWNLOADS,
    FORMS,
    GRAPH_DOWNLOADS,
    GRAPH_FORMS,
    TABLE,
    Table,
    administration_table,
    table_of,
)
from endpoint.console.pages.explained import Plan, plan_of
from endpoint.console.pages.replacing import NameConflict, described
from endpoint.console.room import Room
from endpoint.errors import Problem, describe
from endpoint.http.parameters import whole_number
from hbase_store.errors import StoreError
from stream_ext.errors import BadArgument, NotFound, RilletError
from stream_ext.language.algebra.algebra import Form, Query, Register
from stream_ext.language.algebra.statements import Explain, Update
from stream_ext.oneshot.question import Question
from stream_ext.service.administration import administer, changes_state
from stream_ext.times import parse_time
from stream_ext.writer.updates.request import Updated

_DEADLINE_S = 60.0
_RUN_NAME_MAX = 64


def query(room: Room) -> ResponseReturnValue:
    """A text in the address is only filled in; it runs when the user presses the button, as someone else may have
    written the address."""
    if request.method != "POST":
        return _editor(room, text=request.args.get("query", FIRST), came="query" in request.args)
    text, act = request.form.get("query", ""), request.form.get("act", "run")
    try:
        text = room.checked_text(text)
        question = room.service.question(text, room.limits.control(_DEADLINE_S).check)
        if act == "explain":
            return _editor(room, text=text, plan=_plan(room, question))
        if act == "analyze":
            return _editor(room, text=text, plan=_measured(room, question))
        if act in ("register", "replace"):
            return _register(room, question, replaces=act == "replace")
        return _run(room, question)
    except (RilletError, StoreError) as error:
        problem = described(error)
        return _editor(room, text=text, problem=problem), problem.status


def _run(room: Room, question: Question) -> ResponseReturnValue:
    text, unit = question.text, question.unit
    if isinstance(unit, Explain):
        return _editor(room, text=text, plan=_plan(room, question))
    if isinstance(unit, Query):
        return _ask(room, question, unit)
    if isinstance(unit, Update | Register) or changes_state(unit):
        room.check_may_write()
    if isinstance(unit, Update):
        with room.control(_DEADLINE_S, "update", _run_name()) as control:
            return _editor(room, text=text, done=_done(room.service.update(question, control=control)))
    if isinstance(unit, Register):
        return _register(room, question)
    result = administer(unit, room.service)
    return _editor(room, text=text, table=administration_table(result.variables, result.rows))


def _register(room: Room, question: Question, replaces: bool = False) -> ResponseReturnValue:
    """Registers the text, which may be a query without REGISTER: it gets a name."""
    room.check_may_write()
    definition, created, warnings = room.service.register(question, replaces=replaces)
    flash(f"{definition.name} is registered." if created else f"{definition.name} was already registered.")
    for warning in warnings:
        flash(warning, "warning")
    return redirect(url_for(".registered", name=definition.name))


def _plan(room: Room, question: Question) -> Plan:
    return plan_of(question.unit, room.service.explain(question), prefixes_of(question.text))


def _measured(room: Room, question: Question) -> Plan:
    """The plan of a query that is run; of anything else the plan alone, as nothing may change."""
    unit = question.unit
    if not isinstance(unit, Query) or unit.windows:
        raise BadArgument("only a query without windows is measured; the page of a registered query shows its rates")
    with room.control(_DEADLINE_S, run=_run_name()) as control:
        found = room.service.analyze(question, _integer("snapshot"), control)
    return plan_of(unit, found, prefixes_of(question.text))


def _run_name() -> str:
    """The name that the page gave to this run, which it chose at random; "": it cannot be cancelled."""
    return request.form.get("run", "")[:_RUN_NAME_MAX]


def cancel(room: Room) -> ResponseReturnValue:
    """Ends a query that the same page has started."""
    control = room.running.get(_run_name())
    if control is not None:
        control.cancel()
    return "", 204


def _done(updated: Updated) -> str:
    counted = ""
    if updated.inserted is not None and updated.deleted is not None:  # the counts may be unknown
        counted = f"{number(updated.inserted)} triples added, {number(updated.deleted)} deleted. "
    return f"{counted}Snapshot {updated.snapshot} contains the change."


def _ask(room: Room, question: Question, unit: Query) -> ResponseReturnValue:
    text = question.text
    forms = GRAPH_FORMS if unit.form in (Form.CONSTRUCT, Form.DESCRIBE) else FORMS
    form = request.form.get("as", TABLE)
    form = form if form in forms else TABLE
    snapshot, at = _integer("snapshot"), _time("at")
    if at is None and unit.windows:
        at = _reached(room, question)
    started_s = time.perf_counter()
    with room.control(_DEADLINE_S, run=_run_name()) as control:
        answer = room.service.query(question, snapshot=snapshot, at=at, control=control)
        took_ms = (time.perf_counter() - started_s) * 1000
        table = table_of(room.service, answer, form, prefixes_of(text))
    whole = room.http_url("sparql")
    downloads = GRAPH_DOWNLOADS if forms is GRAPH_FORMS else DOWNLOADS
    return _editor(
        room, text=text, table=table, forms=forms, form=form, took_ms=took_ms, sn=answer.sn, whole=whole,
        downloads=downloads, at=at if unit.windows else None,
    )  # fmt: skip


def _editor(
    room: Room,
    *,
    text: str,
    table: Table | None = None,
    problem: Problem | NameConflict | None = None,
    done: str = "",
    **more: Any,
) -> str:
    return render_template(
        "console/query.html",
        text=text,
        table=table,
        problem=problem,
        done=done,
        examples={"The city that is played": CITY, **EXAMPLES} if room.demo.state.exists else EXAMPLES,
        options={name: _filled_in(name) for name in ("snapshot", "at")},
        oldest=room.service.status()["retention"]["oldest_snapshot"],
        **more,
    )


def _filled_in(name: str) -> str:
    return (request.form if request.method == "POST" else request.args).get(name, "")


def explain(room: Room) -> ResponseReturnValue:
    text = request.values.get("query")
    if text is None:
        return render_template("console/explain.html", text=EXPLAINED, plan=None, problem=None)
    try:
        text = room.checked_text(text)
        plan = _plan(room, room.service.question(text, room.limits.control(_DEADLINE_S).check))
        return render_template("console/explain.html", text=text, plan=plan, problem=None)
    except (RilletError, StoreError) as error:
        problem = describe(error)
        return render_template("console/explain.html", text=text, plan=None, problem=problem), problem.status


def _reached(room: Room, question: Question) -> int | None:
    """The time that all streams of the question have reached; None: one of them has none yet, or is a variable."""
    names = {window["stream"] for window in room.service.explain(question)["windows"]}
    try:
        times = [room.service.stream_status(name)["time"] for name in names]
    except NotFound:
        return None
    return None if None in times else min(times)


def _integer(name: str) -> int | None:
    text = _filled_in(name).strip()
    if not text:
        return None
    return whole_number(f"{name}: ", text)


def _time(name: str) -> int | None:
    text = _filled_in(name).strip()
    return parse_time(text) if text else None
