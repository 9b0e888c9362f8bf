"""Attached stores: how each answers, how old what is held of it is, which patterns are held or asked, and how the store
differs from ours. A store can be read anew."""

from __future__ import annotations

from flask import flash, redirect, render_template, request, url_for
from flask.typing import ResponseReturnValue

from endpoint.console.room import Room
from endpoint.errors import describe
from hbase_store.errors import StoreError
from stream_ext.errors import RilletError


def page(room: Room) -> ResponseReturnValue:
    if request.method == "GET":
        return _shown(room)
    name = request.form.get("source", "")
    try:
        room.check_may_write()
        snapshot = room.service.refresh_source(name)
    except (RilletError, StoreError) as error:
        problem = describe(error)
        return _shown(room, problem), problem.status
    flash(f"What is held of {name} is as new as snapshot {snapshot}.")
    return redirect(url_for(".sources"))


def _shown(room: Room, problem: object = None) -> str:
    sources = [room.service.source_status(each["source"]) for each in room.service.sources_status()]
    return render_template("console/sources.html", sources=sources, problem=problem)
