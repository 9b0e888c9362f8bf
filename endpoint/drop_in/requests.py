"""A request on the path of a SparqlEndpoint: a query, an update, or neither (then the service is described)."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import parse_qsl

from starlette.requests import Request

from endpoint.http.body import as_text
from endpoint.http.exchange import FORM
from endpoint.limits import HttpLimits
from endpoint.routes.protocol import QUERY_TYPE, UPDATE_TYPE
from stream_ext.errors import BadArgument, TooLarge, UnsupportedMedia

_PARAMETERS_MAX = 10_000
_OF_DATASET = ("default-graph-uri", "named-graph-uri", "using-graph-uri", "using-named-graph-uri")


@dataclass(frozen=True, slots=True)
class PathRequest:
    query: str | None
    update: str | None
    default_graphs: tuple[str, ...] = ()
    named_graphs: tuple[str, ...] = ()


async def read(request: Request, limits: HttpLimits) -> PathRequest:
    pairs = _pairs(request.url.query)
    if request.method == "POST":
        body = await _body(request, limits.text_bytes * 4)
        media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if media_type in (QUERY_TYPE, UPDATE_TYPE):
            pairs.append(("query" if media_type == QUERY_TYPE else "update", as_text(body, "text")))
        elif media_type == FORM:
            pairs += _pairs(as_text(body, "form"))
        elif body:
            raise UnsupportedMedia(
                f"Content-Type {media_type or '(none)'}: a text comes as {QUERY_TYPE}, {UPDATE_TYPE} or {FORM}"
            )
    return _request(pairs, request.method, limits)


def _request(pairs: list[tuple[str, str]], method: str, limits: HttpLimits) -> PathRequest:
    texts = [(name, value) for name, value in pairs if name in ("query", "update") and value]
    if len(texts) > 1:
        raise BadArgument("Cannot do both query and update: send one text a request")
    for _, text in texts:
        if len(text) > limits.text_bytes:
            raise TooLarge(f"the text has {len(text)} characters; the limit is {limits.text_bytes}")
    found = dict(texts)
    default, named, *of_update = (tuple(value for key, value in pairs if key == name) for name in _OF_DATASET)
    if any(of_update) or ("update" in found and (default or named)):
        raise BadArgument("the graphs of an update are named in its text: USING <...>, WITH <...>")
    if "update" in found and method != "POST":
        raise BadArgument("an update is sent by POST")
    return PathRequest(found.get("query"), found.get("update"), default, named)


def _pairs(encoded: str) -> list[tuple[str, str]]:
    try:
        return parse_qsl(encoded, keep_blank_values=True, max_num_fields=_PARAMETERS_MAX)
    except ValueError:
        raise BadArgument(f"more than {_PARAMETERS_MAX} parameters: no request here takes so many") from None


async def _body(request: Request, bytes_max: int) -> bytes:
    pieces, size = [], 0
    async for piece in request.stream():
        size += len(piece)
        if size > bytes_max:
            raise TooLarge(f"a body of more than {bytes_max} bytes: no query or update is so long")
        pieces.append(piece)
    return b"".join(pieces)
