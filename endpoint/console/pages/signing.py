"""Signing in with a token of the server, and signing out."""

from __future__ import annotations

from urllib.parse import quote

from flask import flash, redirect, render_template, request, url_for
from flask.typing import ResponseReturnValue

from endpoint.console.room import Room
from endpoint.errors import Unauthorized

#: A text up to this length is filled in again after the sign-in, by the address of its page.
_IN_ADDRESS_MAX = 16_384


def closed() -> ResponseReturnValue:
    """The sign-in page, in place of a page that needs a sign-in; it leads back to this page."""
    back, typed = quote(request.path), ""
    if request.method == "GET":
        back += "?" * bool(request.query_string) + request.query_string.decode("latin-1")
    else:
        text = request.form.get("query", "").replace("\r\n", "\n")
        if 0 < len(text) <= _IN_ADDRESS_MAX:
            back += f"?query={quote(text, safe='')}"  # it is filled in and not run
        else:
            typed = text or request.form.get("data", "") or request.form.get("text", "")
    return _sign_in_page(back=_page_here(back), typed=typed), 401


def page(room: Room) -> ResponseReturnValue:
    if request.method == "GET":
        return _sign_in_page()
    back = _page_here(request.form.get("back", ""))
    try:
        level = room.sign_in(request.form.get("token", "").strip())
    except Unauthorized as error:
        return _sign_in_page(str(error), back, request.form.get("typed", "")), 401
    flash("You are signed in and may make changes." if level == "write" else "You are signed in and may read.")
    return redirect(request.script_root + back if back else url_for(".overview"))


def _sign_in_page(error: str | None = None, back: str = "", typed: str = "") -> str:
    return render_template("console/sign_in.html", error=error, back=back, typed=typed)


def _page_here(path: str) -> str:
    """The path, if it is the path of a page of this console; otherwise ""."""
    console = url_for(".overview").removeprefix(request.script_root)
    is_here = path.startswith(console) and not path.startswith("//")
    return path if is_here and path.isascii() and path.isprintable() and "\\" not in path else ""


def out(room: Room) -> ResponseReturnValue:
    room.sign_out()
    flash("Signed out.")
    return redirect(url_for(".overview"))
