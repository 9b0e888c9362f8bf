"""The console as an application of its own, as `rillet serve` mounts it."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

from flask import Flask, render_template, request
from flask.typing import ResponseReturnValue
from werkzeug.exceptions import HTTPException, MethodNotAllowed

from endpoint.access import Access
from endpoint.console.blueprint import console_blueprint, failed
from endpoint.errors import Problem
from endpoint.limits import HttpLimits
from stream_ext.errors import TooLarge

if TYPE_CHECKING:
    from stream_ext.service import Service


def create_console(service: Service, access: Access, limits: HttpLimits, http: str = "..") -> Flask:
    app = Flask("endpoint.console", static_folder=None, template_folder=None)
    app.secret_key = secrets.token_bytes(32)  # who signed in does so again after a restart
    app.config.update(
        MAX_CONTENT_LENGTH=limits.body_bytes,
        MAX_FORM_MEMORY_SIZE=limits.text_bytes * 4,
        SESSION_COOKIE_NAME="rillet_console",
        SESSION_COOKIE_HTTPONLY=True,
        SESSION_COOKIE_SAMESITE="Strict",
    )
    app.register_blueprint(console_blueprint(service, access=access, limits=limits, http=http))
    app.register_error_handler(HTTPException, _of_flask)
    app.register_error_handler(Exception, failed)
    return app


def _of_flask(error: HTTPException) -> ResponseReturnValue:
    if error.code == 413:
        return failed(TooLarge("what was sent is larger than this server takes"))
    status = error.code or 500
    problem = Problem("about:blank", error.name, status, error.description or "")
    if request.blueprint is None:  # not one of the pages, with their links to others
        allowed = {"Allow": ", ".join(error.valid_methods or ())} if isinstance(error, MethodNotAllowed) else {}
        return f"{problem.detail}\n", status, {"Content-Type": "text/plain; charset=utf-8", **allowed}
    return render_template("console/error.html", problem=problem), status
