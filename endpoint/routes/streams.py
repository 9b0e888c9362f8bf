"""`/streams`: create, push, heartbeat, describe, drop; and the late elements of a stream."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from endpoint import negotiation
from endpoint.formats.shown_streams import described
from endpoint.http.exchange import Exchange
from endpoint.http.parameters import Parameters
from endpoint.negotiation import Offer
from endpoint.routes.awaiting import is_pending
from stream_ext.errors import BadArgument, BadData, UnsupportedMedia
from stream_ext.rdf.documents import NDJSON

if TYPE_CHECKING:
    from stream_ext.service.service import PushReceipt

_PUSH_KNOWN = "timestamp, wait, source, seq"
_NO_PARAMETERS = "none"
_OPTIONS_BYTES_MAX = 1 << 20  # far more than all options need
_LATE_OFFERS = (Offer("application/json", "json"), Offer(NDJSON, "ndjson"))


async def list_streams(exchange: Exchange) -> None:
    exchange.parameters().done(_NO_PARAMETERS)
    listed = await exchange.state.listed.get()
    await exchange.answer_json(200, {"streams": listed.value, "age_ms": round(listed.age_s * 1000)})


async def describe(exchange: Exchange, name: str) -> None:
    exchange.parameters().done(_NO_PARAMETERS)
    state, stream = exchange.state, exchange.state.service.stream(name)
    await exchange.answer_json(200, await state.last_known(state.one_stream, (stream.iri, stream.number)))


async def create(exchange: Exchange, name: str) -> None:
    exchange.parameters().done("none; options are a JSON object in the body")
    exchange.check_may_write()
    options = _options(await exchange.body(_OPTIONS_BYTES_MAX))
    found, created = await exchange.state.workers.writers.run(exchange.state.service.create_stream, name, options)
    location = (b"location", exchange.url("streams", found.name).encode())
    await exchange.answer_json(201 if created else 200, described(found), [location])


async def change(exchange: Exchange, name: str) -> None:
    exchange.parameters().done("none; options are a JSON object in the body")
    exchange.check_may_write()
    options = _options(await exchange.body(_OPTIONS_BYTES_MAX))
    found = await exchange.state.workers.writers.run(exchange.state.service.change_stream, name, options)
    await exchange.answer_json(200, described(found))


async def drop(exchange: Exchange, name: str) -> None:
    exchange.parameters().done(_NO_PARAMETERS)
    exchange.check_may_write()
    await exchange.state.workers.writers.run(exchange.state.service.drop_stream, name)
    await exchange.answer(204)


async def push(exchange: Exchange, name: str) -> None:
    parameters = exchange.parameters()
    timestamp, wait = parameters.time("timestamp"), parameters.wait()
    source, seq = _source(parameters)
    parameters.done(_PUSH_KNOWN)
    exchange.check_may_write()
    media_type = exchange.content_type
    if not media_type:
        raise UnsupportedMedia("the Content-Type is missing: send the format of the push, text/turtle for example")
    data = await exchange.body()
    service = exchange.state.service

    def send() -> PushReceipt:
        return service.push(name, data, media_type, timestamp=timestamp, source=source, seq=seq)

    receipt = await exchange.state.workers.writers.run(send)
    await _acknowledge(exchange, receipt, await is_pending(exchange, wait, int(receipt.snapshot)))


async def heartbeat(exchange: Exchange, name: str) -> None:
    parameters = exchange.parameters()
    timestamp, wait = parameters.time("timestamp"), parameters.wait()
    parameters.done("timestamp, wait")
    if timestamp is None:
        raise BadArgument("a heartbeat needs a time: ?timestamp=T")
    exchange.check_may_write()
    receipt = await exchange.state.workers.writers.run(exchange.state.service.heartbeat, name, timestamp)
    await _acknowledge(exchange, receipt, await is_pending(exchange, wait, int(receipt.snapshot)))


async def late(exchange: Exchange, name: str) -> None:
    """The late elements: as one JSON object, or as lines, one for each element."""
    parameters = exchange.parameters()
    since, limit = parameters.integer("since"), parameters.integer("limit")
    parameters.done("since, limit")
    offer, service = negotiation.choose(exchange.accept, _LATE_OFFERS), exchange.state.service

    def read() -> bytes:
        found = service.late_elements(name, since or 0, limit)
        # One by one: encoding all in one call would block every other thread.
        elements = [msgspec.json.encode(each) for each in found.pop("elements")]
        if offer.format == "ndjson":
            return b"".join(element + b"\n" for element in elements)
        return b'%s,"elements":[%s]}\n' % (msgspec.json.encode(found)[:-1], b",".join(elements))

    await exchange.answer(200, await exchange.state.workers.readers.run(read), offer.media_type.encode())


async def _acknowledge(exchange: Exchange, receipt: PushReceipt, pending: bool) -> None:
    acknowledged: dict[str, Any] = {
        "stream": receipt.stream,
        "accepted": receipt.accepted,
        "late": receipt.late,
        "batch": receipt.batch,
        "snapshot": int(receipt.snapshot),
    }
    if receipt.repeated:
        acknowledged["repeated"] = True
    if receipt.warnings:
        acknowledged["warnings"] = list(receipt.warnings)
    if pending:
        acknowledged["pending"] = True
    await exchange.answer_json(202, acknowledged, snapshot=int(receipt.snapshot))


def _options(body: bytes) -> dict[str, Any]:
    """The options of a stream: a JSON object; an empty body has none."""
    if not body.strip():
        return {}
    try:
        options = msgspec.json.decode(body)
    except msgspec.DecodeError as error:
        raise BadData(f"the options are not JSON: {error}") from None
    except RecursionError:
        raise BadData("the options are nested deeper than any option needs") from None
    if not isinstance(options, dict):
        raise BadArgument('the options must be a JSON object, {"lateness": "5s"} for example')
    return options


def _source(parameters: Parameters) -> tuple[str | None, int | None]:
    source, seq = parameters.text("source"), parameters.integer("seq")
    if (source is None) != (seq is None):
        raise BadArgument(
            "source= and seq= belong together: the name of the sender, and the number of this push among its pushes"
        )
    return source, seq
