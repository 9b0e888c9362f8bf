"""In front of the console, which answers in threads: the body of a request is read before it gets a thread."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from a2wsgi import WSGIMiddleware

from endpoint.http.body import Disconnected, Receive
from endpoint.http.exchange import Exchange, Message, Send
from stream_ext.errors import RilletError

if TYPE_CHECKING:
    from endpoint.http.app_state import AppState

#: A page of at most so many pieces releases its thread at once, however slowly the client reads.
_PAGE_PIECES = 256
_QUICK_THREADS = 4
_WITHOUT_STORE = (b"", b"/", b"/sign-in", b"/sign-out", b"/snapshot", b"/figures", b"/log")


class ReadFirst:
    """The ASGI application in front of the console. A body that arrives slowly occupies no thread, and pages that
    need no store have threads of their own."""

    def __init__(self, console: Any, state: AppState) -> None:
        self._pages = WSGIMiddleware(console, send_queue_size=_PAGE_PIECES)
        self._without_store = WSGIMiddleware(console, _QUICK_THREADS, _PAGE_PIECES)
        self._state = state

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await cast("Any", self._pages)(scope, receive, send)
            return
        exchange = Exchange(scope, receive, send, self._state)
        try:
            if (body := await self._body(exchange)) is not None:
                quick = exchange.path in _WITHOUT_STORE or exchange.path.startswith(b"/static/")
                app: Any = self._without_store if quick else self._pages
                await app(scope, _given(body, receive), send)
        finally:
            self._state.bodies.release(exchange)

    async def _body(self, exchange: Exchange) -> bytes | None:
        """None: the client is gone, or the body was rejected."""
        if int(exchange.headers.get("content-length") or 0) > self._state.limits.body_bytes:
            return b""  # the application sees the declared length and shows the error on a page
        try:
            return await exchange.sent_body()
        except Disconnected:
            return None
        except RilletError as error:
            await exchange.answer_error(error)
            return None


def _given(body: bytes, receive: Receive) -> Receive:
    pieces = iter([{"type": "http.request", "body": body, "more_body": False}])

    async def give() -> Message:
        return next(pieces, None) or await receive()

    return give
