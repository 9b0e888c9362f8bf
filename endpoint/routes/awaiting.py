"""wait=evaluated: waits until a written snapshot is evaluated, in threads of its own, so that it delays no other write.

If this takes longer than the time limit of a query, the answer is 202 with "pending": true."""

from __future__ import annotations

from endpoint.http.exchange import Exchange
from endpoint.http.parameters import Wait
from stream_ext.errors import Overload


async def is_pending(exchange: Exchange, wait: Wait, snapshot: int) -> bool:
    """Whether the client waits for the evaluation of this published snapshot, and it is not complete in time."""
    if wait != "evaluated":
        return False
    state = exchange.state
    try:
        return not await state.workers.waiters.run(state.service.is_evaluated_in_time, snapshot)
    except Overload:  # the maximum number of requests wait already
        return True


async def answer_pending(exchange: Exchange, snapshot: int) -> None:
    """The answer to an update whose snapshot is published and not evaluated yet."""
    await exchange.answer_json(202, {"snapshot": snapshot, "pending": True}, snapshot=snapshot)
