"""A reader forwards a request to the writer, and answers with the writer's answer.

    client --> reader --> writer                  the reader has checked the client, and seals the request
    client <-- reader <-- writer                  when the reader itself can read what was written

If the writer has just changed, or this server becomes the writer meanwhile, the request goes to the new one, as long as
it is certain that nothing of it was done. If that is not certain, it is sent again only if it counts once however often
it is sent (`source` and `seq`); otherwise the client is told that the outcome is unknown. A forwarded request is never
forwarded again."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import TYPE_CHECKING

import httpx

from endpoint.forwarding.requests import ForwardedRequest, relayed, request_of
from endpoint.http.exchange import Exchange
from endpoint.http.sealed import COMMIT, ERROR, HEADER, Seal
from hbase_store.errors import StoreError
from stream_ext.errors import NotWriter, OutcomeUnknown

if TYPE_CHECKING:
    from stream_ext.service.service import Service

log = logging.getLogger("rillet.forwarding")

#: For so long a request waits for a writer that can be reached; and so long for one attempt to connect.
PATIENCE_S, _CONNECT_S = 5.0, 2.0
#: A request that only reads is answered here if the writer does not answer in this time.
_READ_S = 1.0
#: How long the reader waits until it can read what was written.
_CATCH_UP_S = 30.0
_AGAIN_S = 0.1
#: The writer gives a sign of life each second.
_SILENCE_S = 5.0
_LOOK_S = 0.25
_RETRY_AFTER_S = 1
_CONNECTIONS = 512
_NO_CONTENT = 204

_NOTHING_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
#: What the writer says when nothing of a request was done because it is the writer no more.
_NOT_DONE = frozenset(("not-writer", "another-writer", "fenced"))


class _Lost(Exception):
    """The request was sent, and there is no answer."""


class _NotSent(Exception):
    """Nothing of the request reached a writer."""


class ForwardingToWriter:
    """One for each server. On the event loop only."""

    def __init__(self, service: Service, seal: Seal, verify: ssl.SSLContext | bool = True) -> None:
        """`verify`: how the certificate of a writer with https is checked."""
        self._service, self._seal, self._verify = service, seal, verify
        self._client: httpx.AsyncClient | None = None
        self._hearing: asyncio.Task[None] | None = None

    async def forward(self, exchange: Exchange) -> bool:
        if self._service.role == "writer":
            return False
        if exchange.is_forwarded:
            raise NotWriter("this server is not the writer of its store any more; nothing was done", _RETRY_AFTER_S)
        is_read = exchange.method == "GET" and "text/event-stream" not in exchange.accept.lower()
        if not is_read:
            exchange.check_may_write()
        is_load = exchange.path == b"/$/loads"  # it is never in memory as a whole
        request = await request_of(exchange, None if is_load else exchange.state.limits.body_bytes)
        answer = await self._answer(exchange, request, _READ_S if is_read else PATIENCE_S, is_read)
        if answer is None:
            if isinstance(request.body, bytes):
                exchange.replay(request.body)
            return False
        try:
            if not is_read and answer.is_success:
                await self._catch_up(exchange, answer)
            await _relay(exchange, answer)
        finally:
            await answer.aclose()
        return True

    def start(self) -> None:
        """Called on the event loop, when the server listens."""
        self._hearing = asyncio.get_running_loop().create_task(self._hear_writer())

    async def close(self) -> None:
        if self._hearing is not None:
            self._hearing.cancel()
            await asyncio.gather(self._hearing, return_exceptions=True)
        if self._client is not None:
            await self._client.aclose()

    async def _hear_writer(self) -> None:
        """While this server reads, the writer tells it of each snapshot. Otherwise it looks into the store itself."""
        while True:
            if self._service.writer_address:
                with suppress(httpx.HTTPError):
                    await self._hear(self._service.writer_address)
            await asyncio.sleep(_LOOK_S)

    async def _hear(self, address: str) -> None:
        target = b"/$/heads"
        sealed = self._seal.sealed("http", "GET", target)
        url = httpx.URL(address).copy_with(raw_path=target)
        timeout = httpx.Timeout(_SILENCE_S, connect=_CONNECT_S)
        async with self._opened().stream("GET", url, headers={HEADER: sealed}, timeout=timeout) as answer:
            if not answer.is_success:
                return
            try:
                async for line in answer.aiter_lines():
                    head, _, commit = line.partition(" ")
                    self._service.hear(int(head), int(commit))
                    if self._service.writer_address != address:
                        return
            finally:
                self._service.look_for_writer()

    def _opened(self) -> httpx.AsyncClient:
        if self._client is None:
            self._client = httpx.AsyncClient(
                verify=self._verify,
                trust_env=False,
                timeout=httpx.Timeout(None, connect=_CONNECT_S, pool=PATIENCE_S),
                limits=httpx.Limits(max_connections=_CONNECTIONS, max_keepalive_connections=64, keepalive_expiry=5.0),
            )
        return self._client

    async def _answer(
        self, exchange: Exchange, request: ForwardedRequest, patience_s: float, is_read: bool
    ) -> httpx.Response | None:
        """None: this server handles the request itself."""
        loop = asyncio.get_running_loop()
        until = loop.time() + patience_s
        why = "it is not known which process writes"
        while True:
            if self._service.role == "writer" and request.is_read:
                return None
            address = self._service.writer_address
            if address == "":
                why = "the process that writes is not a server: wait until it ends, or stop it"
            elif address is not None:
                try:
                    answer = await self._sent(exchange, request, address, _READ_S if is_read else None)
                except _NotSent as error:
                    why = f"the writer at {address} cannot be reached ({error})"
                    self._service.look_for_writer()
                except _Lost as error:
                    self._service.look_for_writer()
                    if not request.may_repeat or (loop.time() >= until and not is_read):
                        raise self._unknown(address, error) from error
                    why = f"the writer at {address} has not answered ({error})"
                else:
                    if answer.headers.get(ERROR) not in _NOT_DONE or not request.is_read or loop.time() >= until:
                        return answer
                    why = f"{address} is not the writer any more"
                    await answer.aclose()
            if is_read:
                return None  # answered by what is known here
            if loop.time() >= until or not request.is_read:
                raise NotWriter(
                    f"this server reads the store, and forwards writes: {why}. Nothing of this request was applied; "
                    "send it again later",
                    _RETRY_AFTER_S,
                )
            await asyncio.sleep(_AGAIN_S)

    async def _sent(
        self, exchange: Exchange, request: ForwardedRequest, address: str, answer_s: float | None
    ) -> httpx.Response:
        client = self._opened()
        sealed = self._seal.sealed(exchange.scheme, request.method, request.target)
        url = httpx.URL(address).copy_with(raw_path=request.target)
        headers = [*request.headers, (HEADER.encode(), sealed.encode())]
        built = client.build_request(request.method, url, headers=headers, content=request.body)
        sending = asyncio.create_task(client.send(built, stream=True))
        try:
            return await self._while_it_writes(sending, address, answer_s)
        except _NOTHING_SENT as error:
            raise _NotSent(str(error) or type(error).__name__) from error
        except httpx.TransportError as error:
            raise _Lost(str(error) or type(error).__name__) from error
        finally:
            if not sending.done():
                sending.cancel()

    async def _while_it_writes(
        self, sending: asyncio.Task[httpx.Response], address: str, answer_s: float | None
    ) -> httpx.Response:
        """The answer. _Lost as soon as another process is the writer: this one may never answer."""
        loop = asyncio.get_running_loop()
        until = None if answer_s is None else loop.time() + answer_s
        while not sending.done():
            await asyncio.wait({sending}, timeout=_LOOK_S)
            if sending.done():
                break
            if self._service.writer_address != address:
                raise _Lost("another process is the writer now")
            if until is not None and loop.time() >= until:
                raise _Lost("it took too long")
        return sending.result()

    def _unknown(self, address: str, error: Exception) -> OutcomeUnknown:
        return OutcomeUnknown(
            f"this request was forwarded to the writer at {address}, which did not answer ({error}): it is not known "
            f"whether it was applied. Check the snapshots after {self._service.head()}; a push with source and seq can "
            "safely be sent again"
        )

    async def _catch_up(self, exchange: Exchange, answer: httpx.Response) -> None:
        """Returns when this server can read what was written: its client may look at once."""
        snapshot, commit = (int(answer.headers.get(name, "0")) for name in ("rillet-snapshot", COMMIT))
        loop, waiters = asyncio.get_running_loop(), exchange.state.workers.waiters
        until = loop.time() + _CATCH_UP_S
        while loop.time() < until:
            with suppress(StoreError):  # it was written; the store is asked again
                if await waiters.resume(self._service.catch_up, snapshot, commit):
                    return
            await asyncio.sleep(_AGAIN_S)
        fields = {"snapshot": snapshot, "head": self._service.head()}
        log.warning("a write was acknowledged that cannot be read here yet", extra={"fields": fields})


async def _relay(exchange: Exchange, answer: httpx.Response) -> None:
    """Sends the writer's answer on, piece by piece; ends with either of both connections, or when the server stops."""
    await exchange.relay(answer.status_code, relayed(answer.headers.raw))
    if "content-length" in answer.headers or answer.status_code == _NO_CONTENT:
        async for piece in answer.aiter_raw():
            await exchange.piece(piece)
        await exchange.end()
        return
    await _relay_unending(exchange, answer)


async def _relay_unending(exchange: Exchange, answer: httpx.Response) -> None:
    """Of an answer whose length nobody knows, such as the results of a live query."""
    stopping = asyncio.Event()
    exchange.state.listen(stopping)
    over = [asyncio.create_task(stopping.wait()), asyncio.create_task(exchange.gone())]
    pieces = answer.aiter_raw()
    try:
        while True:
            following = asyncio.create_task(_next(pieces))
            await asyncio.wait({following, *over}, return_when=asyncio.FIRST_COMPLETED)
            if not following.done():
                following.cancel()
                with suppress(asyncio.CancelledError, httpx.HTTPError):
                    await following
                break
            try:
                piece = following.result()
            except httpx.HTTPError as error:
                raise ConnectionError(f"the writer broke off its answer: {error}") from error
            if piece is None:
                await exchange.end()
                break
            await exchange.piece(piece)
    finally:
        exchange.state.unlisten(stopping)
        for task in over:
            task.cancel()


async def _next(pieces: AsyncIterator[bytes]) -> bytes | None:
    return await anext(pieces, None)
