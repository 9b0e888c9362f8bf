"""Awaiting: until what was written has been evaluated, in threads of their own, so that no other write waits for one.

wait=evaluated, and it takes longer than a query may   =>   202, with "pending": true"""

from __future__ import annotations

from endpoint.http.exchange import Exchange
from endpoint.http.parameters import Wait
from stream_ext.errors import Overload


async def is_pending(exchange: Exchange, wait: Wait, snapshot: int) -> bool:
    """Whether this snapshot, which is published, should be evaluated by now and is not."""
    if wait != "evaluated":
        return False
    state = exchange.state
    try:
        return not await state.workers.waiters.run(state.service.is_evaluated_in_time, snapshot)
    except Overload:  # as many wait as may
        return True


async def answer_pending(exchange: Exchange, snapshot: int) -> None:
    """To whoever changed the store."""
    await exchange.answer_json(202, {"snapshot": snapshot, "pending": True}, snapshot=snapshot)
