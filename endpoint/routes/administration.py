"""CREATE STREAM, DROP, UNREGISTER and SHOW on the protocol's routes, answered as a SPARQL result.

So a plain SPARQL client can administer streams and queries, without our other routes."""

from __future__ import annotations

from endpoint import negotiation
from endpoint.formats import results
from endpoint.http.exchange import Exchange
from stream_ext.service.administration import AdministrationAnswer, Statement, administer, changes_state


async def run(exchange: Exchange, statement: Statement) -> None:
    """Runs the statement. The caller has rejected changes by GET."""
    workers = exchange.state.workers
    if changes_state(statement):
        exchange.check_may_write()
    offer = negotiation.choose(exchange.accept, results.OFFERS)
    pool = workers.writers if changes_state(statement) else workers.readers
    answer: AdministrationAnswer = await pool.run(administer, statement, exchange.state.service)
    body = b"".join(results.write(offer.format, answer.variables, results.few(answer.rows), None))
    await exchange.answer(200, body, results.content_type(offer))
