"""The console as an application, as `rillet serve` mounts it."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import TYPE_CHECKING

from flask import Flask, Response, render_template, request
from flask.typing import ResponseReturnValue
from werkzeug.exceptions import HTTPException, MethodNotAllowed

from endpoint.console.blueprint import console_blueprint, failed
from endpoint.console.sessions import Sessions
from endpoint.errors import Problem
from endpoint.http import browsers
from endpoint.http.access import Access, Caller
from endpoint.limits import HttpLimits
from endpoint.monitoring.rate_history import RateHistory
from endpoint.monitoring.settings_in_force import SettingInForce
from endpoint.monitoring.subscribers import Subscribers
from stream_ext.errors import TooLarge

if TYPE_CHECKING:
    from stream_ext.query_memory import QueryMemory
    from stream_ext.service.service import Service


class Console(Flask):
    session_interface: Sessions = Sessions()

    def __init__(self, access: Access) -> None:
        super().__init__("endpoint.console", static_folder=None, template_folder=None)
        self._access = access

    def is_reader(self, caller: Caller) -> bool:
        """Whether the request has the cookie of somebody who has signed in here."""
        return self._access.sign_ins.level(self.session_interface.sign_in_of(self, caller)) is not None


def create_console(
    service: Service,
    access: Access,
    limits: HttpLimits,
    memory: QueryMemory,
    rates: RateHistory,
    subscribers: Subscribers,
    settings: Sequence[SettingInForce] = (),
    http: str = "..",
) -> Console:
    """`rates`: whoever starts the server starts and closes them."""
    app = Console(access)
    app.secret_key = secrets.token_bytes(32)  # a new key at each start: sign-ins end with the process
    app.config.update(
        MAX_CONTENT_LENGTH=limits.body_bytes,
        MAX_FORM_MEMORY_SIZE=limits.text_bytes * 4,
        SESSION_COOKIE_HTTPONLY=True,
        SESSION_COOKIE_SAMESITE="Strict",
    )
    blueprint = console_blueprint(
        service,
        access=access,
        limits=limits,
        http=http,
        memory=memory,
        rates=rates,
        subscribers=subscribers,
        settings=settings,
    )
    app.register_blueprint(blueprint)
    app.register_error_handler(HTTPException, _of_flask)
    app.register_error_handler(Exception, failed)
    app.after_request(_as_page)
    return app


def _as_page(response: Response) -> Response:
    """Shows errors as a page, those before routing included."""
    for header, value in browsers.of_page().items():
        response.headers.setdefault(header, value)
    return response


def _of_flask(error: HTTPException) -> ResponseReturnValue:
    if error.code == 413:
        return failed(TooLarge("the request is larger than this server accepts"))
    status = error.code or 500
    problem = Problem("about:blank", error.name, status, error.description or "")
    if request.blueprint is None:  # a plain page, without the links of the others
        allowed = {"Allow": ", ".join(error.valid_methods or ())} if isinstance(error, MethodNotAllowed) else {}
        return f"{problem.detail}\n", status, {"Content-Type": "text/plain; charset=utf-8", **allowed}
    return render_template("console/error.html", problem=problem), status
