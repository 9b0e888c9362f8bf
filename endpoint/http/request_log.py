"""Requests in the log: failed and cut-off ones as warnings with their cause, 401 and 403 as info, others as debug."""

from __future__ import annotations

import logging
from http import HTTPStatus

from endpoint.http.exchange import Exchange, Message

log = logging.getLogger("rillet.http")

#: Status codes of rejections that are logged.
_NOTEWORTHY = frozenset({int(HTTPStatus.UNAUTHORIZED), int(HTTPStatus.FORBIDDEN)})
_BAD_REQUEST, _SERVER_ERROR = int(HTTPStatus.BAD_REQUEST), int(HTTPStatus.INTERNAL_SERVER_ERROR)


def log_request(scope: Message, exchange: Exchange, took_s: float, failure: Exception | None) -> None:
    """Logs a request. Never its query string: it contains the text of a query, and perhaps secrets."""
    status = exchange.status
    cut_off = failure is not None and status < _BAD_REQUEST
    if cut_off or status >= _SERVER_ERROR:
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
