"""Requests in the log: failed and cut-off ones as warnings with their cause, 401 and 403 as info, others as debug."""

from __future__ import annotations

import http
import logging

from endpoint.http.exchange import Exchange, Message

log = logging.getLogger("rillet.http")

#: Status codes of rejections that are logged.
_NOTEWORTHY = frozenset({http.HTTPStatus.UNAUTHORIZED, http.HTTPStatus.FORBIDDEN})


def log_request(scope: Message, exchange: Exchange, took_s: float, failure: Exception | None) -> None:
    """Logs a request. Never its query string: it contains the text of a query, and perhaps secrets."""
    status = exchange.status
    cut_off = failure is not None and status < http.HTTPStatus.BAD_REQUEST
    if cut_off or status >= http.HTTPStatus.INTERNAL_SERVER_ERROR:
        level = logging.WARNING
    else:
        level = logging.INFO if status in _NOTEWORTHY else logging.DEBUG
    if not log.isEnabledFor(level):
        return
    fields = {
        "method": scope["method"],
        "path": exchange.path.decode("latin-1"),
        "status": status,
        "ms": round(took_s * 1000, 1),
        "client": (scope.get("client") or ("unknown",))[0],
    }
    if failure is not None:
        fields |= {"error": type(failure).__name__, "cause": str(failure)}
    trace = failure if log.isEnabledFor(logging.DEBUG) else None
    message = "a response was cut off" if cut_off else "a request failed" if failure else "a request was answered"
    log.log(level, message, exc_info=trace, extra={"fields": fields})
