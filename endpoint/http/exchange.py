"""One request and its answer, directly on ASGI.

The route is found by the raw path: frameworks decode `%2F` too early, and an IRI in a path has many of them."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from functools import cached_property, partial  # noqa: TID251  (computed on the event loop only)
from typing import Any
from urllib.parse import quote, unquote_to_bytes

import msgspec

from endpoint.errors import TextTooLong, describe, headers_of, render
from endpoint.http import browsers
from endpoint.http.access import Caller
from endpoint.http.app_state import AppState
from endpoint.http.body import Paced, Receive, as_text, read_body, unpack
from endpoint.http.connections import BODY_FOLLOWS
from endpoint.http.parameters import Parameters, parse_pairs
from endpoint.http.sealed import COMMIT
from endpoint.http.sealed import ERROR as ERROR_KIND
from endpoint.http.sealed import HEADER as SEALED
from stream_ext.errors import BadArgument, TooLarge, UnsupportedMedia
from stream_ext.rdf.versions import is_of_messages

Message = MutableMapping[str, Any]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Message, Receive, Send], Awaitable[None]]
Headers = list[tuple[bytes, bytes]]

JSON = b"application/json"
FORM = "application/x-www-form-urlencoded"

_VARIES = (b"vary", b"Accept")
_NAME = re.compile(r"[A-Za-z_][\w.-]*")


class Exchange:
    def __init__(self, scope: Message, receive: Receive, send: Send, state: AppState) -> None:
        self.receive, self.state = receive, state
        self._scope, self._send = scope, send
        self.method: str = "GET" if scope["method"] == "HEAD" else scope["method"]  # uvicorn leaves out a HEAD's body
        self.path = raw_path(scope)
        self.query_string: bytes = scope["query_string"]
        self.headers = headers_in(scope)
        self.accept = self.headers.get("accept", "")
        self.started = False
        self.status = 0  # of the answer, once it has begun
        self.route = "none"  # as the table of routes has it, once it is found
        self._own_scheme: str = scope.get("scheme", "http")
        self.root: str = scope.get("root_path", "")
        self._forwarded_scheme: str | None = None  # the client's, if another server of this store sent the request on
        self._unread = False  # the rest of the body is still on the connection
        self.unpacked: bytes | None = None  # the body, once all of it was read

    # ---- the request ----

    def parameters(self) -> Parameters:
        return Parameters(parse_pairs(self.query_string))

    @property
    def media_type(self) -> str:
        """The Content-Type without its parameters; a charset that is not UTF-8 is refused, and so is a message log."""
        media_type, *parameters = self.headers.get("content-type", "").split(";")
        for parameter in parameters:
            name, _, value = (piece.strip().strip('"').lower() for piece in parameter.partition("="))
            if name == "charset" and value not in ("utf-8", "utf8", "us-ascii"):
                raise UnsupportedMedia(f"charset={value} is not supported; send UTF-8")
            if name == "version" and is_of_messages(value):
                raise UnsupportedMedia("a message log is no graph and no query: POST it to a stream, /streams/NAME")
        return media_type.strip().lower()

    @property
    def content_type(self) -> str:
        """The Content-Type as it was sent, with its parameters."""
        return self.headers.get("content-type", "")

    async def body(self, limit: int | None = None) -> bytes:
        limits = self.state.limits
        body = await self.sent_body(limit)
        encoding = self.headers.get("content-encoding")
        if not encoding:
            self.unpacked = body
            return body
        most = min(limit or limits.inflated_bytes, limits.inflated_bytes)
        unpacked = await self.state.workers.unpackers.run(unpack, body, encoding, most)
        self.state.bodies.hold(self, len(unpacked))
        self.unpacked = unpacked
        return unpacked

    def replay(self, body: bytes) -> None:
        """The body was read in order to be forwarded, and is now handled here after all."""
        receive = self.receive

        async def again() -> Message:
            self.receive = receive
            return {"type": "http.request", "body": body, "more_body": False}

        self.receive = again

    async def sent_body(self, limit: int | None = None) -> bytes:
        """The body as it was sent, still compressed."""
        hold, declared = partial(self.state.bodies.hold, self), self.headers.get("content-length")
        self._unread = True
        body = await read_body(self.paced(), declared, limit or self.state.limits.body_bytes, hold)
        self._unread = False
        return body

    def paced(self) -> Paced:
        """`receive` for the body; it rejects a client that sends too slowly."""
        return Paced(self.receive, self.state.limits.slow_s, self.state.limits.rate_bytes)

    async def text_body(self, what: str) -> str:
        """The body as a query or update."""
        return self.checked_text(as_text(await self.body(self.state.limits.text_bytes * 3), what))

    def checked_text(self, text: str) -> str:
        limit = self.state.limits.text_bytes
        if len(text) > limit:
            # In a URL it is the URL that is too long; in a body the body.
            kind = TextTooLong if self.method == "GET" else TooLarge
            raise kind(f"the text has {len(text)} characters; the limit is {limit}")
        return text

    def url(self, *segments: str) -> str:
        """The URL of a resource of this server, with the host name that this client uses."""
        path = "/".join(quote(segment, safe="") for segment in segments)
        host = self.headers.get("host")
        return f"{self.scheme}://{host}{self.root}/{path}" if host else self.state.base + path

    # ---- who asks ----

    @property
    def is_forwarded(self) -> bool:
        """Whether another server of this store has forwarded the request, and has checked the client."""
        return self._forwarded_scheme is not None

    @property
    def scheme(self) -> str:
        return self._forwarded_scheme or self._own_scheme

    @cached_property
    def caller(self) -> Caller:
        return caller_of(self._scope, self.headers)

    @property
    def client_address(self) -> str:
        return (self._scope.get("client") or ("unknown",))[0]

    def check_host(self) -> None:
        """First of all: finds out who sends the request; refuses it if this server does not answer its host name."""
        header, seal = self.headers.get(SEALED), self.state.seal
        if header is not None and seal is not None:
            target = self.path + (b"?" + self.query_string if self.query_string else b"")
            self._forwarded_scheme = seal.scheme_of(header, self._scope["method"], target)
        else:
            self.state.access.check_host(self.headers.get("host"))

    def check_may_read(self) -> None:
        if self.state.access.closed and not self.is_forwarded:
            self.state.access.check_read(self.caller, self.state.is_reader(self.caller))

    def check_may_write(self) -> None:
        if not self.is_forwarded:
            self.state.access.check_write(self.caller)

    # ---- the answer ----

    async def answer(
        self,
        status: int,
        body: bytes = b"",
        media_type: bytes | None = None,
        headers: Headers | None = None,
        snapshot: int | None = None,
    ) -> None:
        length = [] if status == 204 else [(b"content-length", b"%d" % len(body))]
        await self.start(status, media_type, length + (headers or []), snapshot, body_follows=True)
        await self._send({"type": "http.response.body", "body": body})

    async def answer_json(
        self, status: int, value: object, headers: Headers | None = None, snapshot: int | None = None
    ) -> None:
        await self.answer(status, msgspec.json.encode(value) + b"\n", JSON, headers, snapshot)

    async def answer_error(self, error: Exception) -> None:
        if self.started:
            raise error  # the connection is closed: an incomplete answer must not look complete
        problem = describe(error)
        body, media_type = render(problem, self.accept)
        headers = headers_of(error, problem.status, self._unread)
        if SEALED in self.headers:
            headers.append((ERROR_KIND.encode(), problem.type.rpartition(":")[2].encode()))
        await self.answer(problem.status, body, media_type, headers)

    async def start(
        self,
        status: int,
        media_type: bytes | None,
        headers: Headers,
        snapshot: int | None = None,
        *,
        body_follows: bool = False,
    ) -> None:
        """Sends the head of an answer; `piece` and `end` follow. `body_follows`: at once."""
        self.started, self.status = True, status
        shown = self.state.head() if snapshot is None else snapshot
        for_origin = self.state.access.for_origin(self.headers.get("origin"))
        all_headers = [(b"rillet-snapshot", b"%d" % shown), _VARIES, *browsers.of_data(media_type), *for_origin]
        all_headers += headers
        if self.is_forwarded:
            all_headers.append((COMMIT.encode(), b"%d" % self.state.service.commits))
        if media_type is not None:
            all_headers.append((b"content-type", media_type))
        head = {"type": "http.response.start", "status": status, "headers": all_headers}
        if body_follows:
            head[BODY_FOLLOWS] = True
        await self._send(head)

    async def relay(self, status: int, headers: Headers) -> None:
        """Sends the head of an answer that another server has given; `piece` and `end` follow."""
        self.started, self.status = True, status
        for_origin = self.state.access.for_origin(self.headers.get("origin"))
        await self._send({"type": "http.response.start", "status": status, "headers": [*headers, *for_origin]})

    async def hand_on(self, app: Application, mounted_at: str, path: str) -> None:
        """Lets another application answer, as if the request were for `path`."""
        root = self.root + mounted_at
        scope = {**self._scope, "root_path": root, "path": root + path, "raw_path": (root + path).encode()}
        await app(scope, self.receive, self._watched)

    async def _watched(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.started, self.status = True, message["status"]
        await self._send(message)

    async def gone(self) -> None:
        """Returns when the client has closed the connection. For requests whose body was read."""
        while (await self.receive())["type"] != "http.disconnect":
            pass

    async def piece(self, body: bytes) -> None:
        await self._send({"type": "http.response.body", "body": body, "more_body": True})

    async def end(self) -> None:
        await self._send({"type": "http.response.body", "body": b""})


def raw_path(scope: Message) -> bytes:
    """The path as the client sent it, without the prefix at which the application is mounted."""
    raw: bytes = scope.get("raw_path") or scope["path"].encode()
    root: str = scope.get("root_path", "")
    return raw.removeprefix(root.encode()) if root else raw


def path_name(segment: bytes, what: str) -> str:
    """The name of a stream or query in a path: a local name, or an IRI with its delimiters percent-encoded."""
    try:
        name = unquote_to_bytes(segment).decode()
    except UnicodeDecodeError:
        raise BadArgument(f"the {what} in the path is not UTF-8") from None
    if not (_NAME.fullmatch(name) or re.fullmatch(r"[A-Za-z][A-Za-z0-9+.-]*:[^\s<>\"{}|\\^`]*", name)):
        raise BadArgument(
            f"{name!r} is not the name of a {what}: write [A-Za-z_][A-Za-z0-9_.-]* or a percent-encoded IRI"
        )
    return name


def caller_of(scope: Message, headers: Mapping[str, str]) -> Caller:
    return Caller.of(scope.get("scheme", "http"), (scope.get("server") or (None, 80))[1], headers)


def headers_in(scope: Message) -> dict[str, str]:
    headers: dict[str, str] = {}
    for name, value in scope["headers"]:
        key, text = name.decode("latin-1"), value.decode("latin-1")
        headers[key] = f"{headers[key]}, {text}" if key in headers else text
    return headers
