"""`GET /$/heads`: the writer tells the readers of its store each new snapshot and commit of emissions, so that they
need not look into the store again and again.

    4711 903\\n      the head, and the number of the last commit; again each second, as a sign of life

For servers of the same store only. A reader then reads the store itself."""

from __future__ import annotations

import asyncio

from endpoint.errors import Forbidden
from endpoint.http.exchange import Exchange
from stream_ext.errors import NotWriter

MEDIA_TYPE = b"text/plain; charset=utf-8"
#: How often the writer looks at its own head, which costs nothing; and the time between signs of life.
_LOOK_S, _ALIVE_S = 0.004, 1.0


async def send_heads(exchange: Exchange) -> None:
    exchange.parameters().done("none")
    if not exchange.is_forwarded:
        raise Forbidden("only servers of the same store may follow its heads; /$/stats has the head")
    state, loop = exchange.state, asyncio.get_running_loop()
    service = state.service
    if service.role != "writer":
        raise NotWriter("this server is not the writer of its store", 1)
    await exchange.start(200, MEDIA_TYPE, [])
    gone = asyncio.create_task(exchange.gone())
    sent: tuple[int, int] | None = None
    sent_s = loop.time()
    state.followers += 1
    try:
        while not (gone.done() or state.stopping) and service.role == "writer":
            now = int(service.head()), service.commits
            if now != sent or loop.time() - sent_s >= _ALIVE_S:
                sent, sent_s = now, loop.time()
                await exchange.piece(b"%d %d\n" % now)
            await asyncio.sleep(_LOOK_S)
    finally:
        state.followers -= 1
        gone.cancel()
    await exchange.end()
