"""The errors of the HTTP interface: one table from exception to status, and two ways to write an error.

These errors exist only here, besides those of `stream_ext.errors`:

    RilletError
    ├── Unauthorized       a write without the bearer token
    ├── Forbidden          a write from a web page of another origin
    ├── TooSlow            a body that arrives too slowly
    ├── MethodNotAllowed   the path exists, the method does not (`allowed`)
    ├── WorkerEnded        the process that answered a query is gone
    └── WorkerProblem      an error in a query worker, as the worker described it (`problem`)"""

from __future__ import annotations

import http
import logging
import re

import msgspec

from hbase_store import errors as store
from stream_ext import errors

log = logging.getLogger("rillet.endpoint")

PLAIN = b"text/plain; charset=utf-8"
PROBLEM = b"application/problem+json"


class Unauthorized(errors.RilletError):
    pass


class Forbidden(errors.RilletError):
    pass


class TooSlow(errors.RilletError):
    """The client sends its body too slowly."""


class MethodNotAllowed(errors.RilletError):
    def __init__(self, method: str, path: str, allowed: tuple[str, ...]) -> None:
        self.allowed = allowed
        super().__init__(f"{path} does not support {method}; it supports {', '.join(allowed)}")


class WorkerEnded(errors.RilletError):
    def __init__(self, how: str) -> None:
        super().__init__(
            f"the process that evaluated this query has ended ({how}); another one takes its place: send "
            "the query again, or ask for less"
        )


class TextTooLong(errors.TooLarge):
    """A text in a URL over its limit."""


#: The first class that matches decides; subclasses come before their parents.
STATUS: tuple[tuple[type[Exception], int], ...] = (
    (errors.NotAllowed, 403),
    (errors.ServiceFailed, 502),
    (errors.TextError, 400),
    (errors.BadData, 400),
    (errors.BadArgument, 400),
    (Unauthorized, 401),
    (Forbidden, 403),
    (TooSlow, 408),
    (errors.NotFound, 404),
    (MethodNotAllowed, 405),
    (errors.NotAcceptable, 406),
    (errors.NameInUse, 409),
    (errors.Gone, 410),
    (store.SnapshotGone, 410),
    (TextTooLong, 414),
    (errors.QueryTooLarge, 413),
    (errors.TooLarge, 413),
    (errors.UnsupportedMedia, 415),
    (errors.Overload, 429),
    (errors.SourceAway, 503),
    (errors.SourceFailed, 502),
    (errors.NotWriter, 503),
    (errors.OutcomeUnknown, 503),
    (errors.JobFailed, 503),
    (errors.DeadlineExceeded, 503),
    (errors.QueryCancelled, 503),
    (store.BadStoreUrl, 400),
    (store.StoreUnavailable, 503),
    (store.AnotherWriter, 503),
    (store.Fenced, 503),
    (store.Unwritable, 413),
    (WorkerEnded, 503),
    (errors.RilletError, 503),  # the base class itself: the service is being closed
    (store.StoreError, 500),
)


class Problem(msgspec.Struct, omit_defaults=True):
    """A problem of RFC 9457, the body of an error."""

    type: str
    title: str
    status: int
    detail: str
    line: int = 0
    column: int = 0


class WorkerProblem(errors.RilletError):
    """An error in a query worker. The worker has described it; the exception itself stays there."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.retry_after_s = int(problem.status == http.HTTPStatus.TOO_MANY_REQUESTS)
        super().__init__(problem.detail)


def status_of(error: BaseException) -> int:
    if isinstance(error, WorkerProblem):
        return error.problem.status
    return next((status for kind, status in STATUS if isinstance(error, kind)), 500)


def describe(error: Exception) -> Problem:
    """The problem that the client gets. For our own bugs it only says that there is one: the log has the details."""
    if isinstance(error, WorkerProblem):
        return error.problem
    status = status_of(error)
    known = any(isinstance(error, kind) for kind, _ in STATUS)
    if not known:
        log.error("a request failed because of a fault of this server", exc_info=error)
    return Problem(
        type=f"urn:rillet:error:{_dashed(type(error).__name__) if known else 'internal'}",
        title=http.HTTPStatus(status).phrase,
        status=status,
        detail=str(error) if known else "a fault of this server; its log says more",
        line=getattr(error, "line", 0) or 0,
        column=getattr(error, "column", 0) or 0,
    )


def render(problem: Problem, accept: str) -> tuple[bytes, bytes]:
    """Body and media type of an error: plain text, or problem+json if the Accept header names it."""
    if "application/problem+json" in accept:
        return msgspec.json.encode(problem) + b"\n", PROBLEM
    return problem.detail.encode() + b"\n", PLAIN


def headers_of(error: Exception, status: int, unread: bool) -> list[tuple[bytes, bytes]]:
    """The headers of an error. `unread`: a part of the body was not read, so the connection cannot serve another
    request."""
    headers = []
    later = (errors.Overload, errors.SourceFailed, errors.NotWriter, WorkerProblem)
    if isinstance(error, later) and error.retry_after_s:
        headers.append((b"retry-after", str(error.retry_after_s).encode()))
    if isinstance(error, Unauthorized):
        headers.append((b"www-authenticate", b'Bearer realm="rillet"'))
    if isinstance(error, MethodNotAllowed):
        headers.append((b"allow", ", ".join(error.allowed).encode()))
    if unread or status in (http.HTTPStatus.REQUEST_ENTITY_TOO_LARGE, http.HTTPStatus.REQUEST_TIMEOUT):
        headers.append((b"connection", b"close"))
    return headers


def _dashed(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "-", name).lower()
