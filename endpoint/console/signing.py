"""Signing in with the server's token, and out."""

from __future__ import annotations

from flask import flash, redirect, render_template, request, url_for
from flask.typing import ResponseReturnValue

from endpoint.console.room import Room
from endpoint.errors import Unauthorized


def closed() -> ResponseReturnValue:
    """In place of a page that only those may see who have signed in."""
    return render_template("console/sign_in.html", error=None), 401


def page(room: Room) -> ResponseReturnValue:
    if request.method == "GET":
        return render_template("console/sign_in.html", error=None)
    try:
        level = room.sign_in(request.form.get("token", "").strip())
    except Unauthorized as error:
        return render_template("console/sign_in.html", error=str(error)), 401
    flash("Signed in: you may change things now." if level == "write" else "Signed in: you may look.")
    return redirect(url_for(".overview"))


def out(room: Room) -> ResponseReturnValue:
    room.sign_out()
    flash("Signed out.")
    return redirect(url_for(".overview"))
