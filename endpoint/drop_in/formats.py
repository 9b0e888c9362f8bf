"""Which format an answer has, by the rules of rdflib-endpoint: what Accept names first, and XML if it names nothing
that is written here. No request is refused for its Accept header."""

from __future__ import annotations

from rdflib.query import Result
from rdflib_endpoint.utils import (
    GENERIC_CONTENT_TYPE_TO_RDFLIB_FORMAT,
    GRAPH_CONTENT_TYPE_TO_RDFLIB_FORMAT,
    SPARQL_RESULT_CONTENT_TYPE_TO_RDFLIB_FORMAT,
    parse_accept_header,
)

GRAPHS: dict[str, str] = {**GRAPH_CONTENT_TYPE_TO_RDFLIB_FORMAT, **GENERIC_CONTENT_TYPE_TO_RDFLIB_FORMAT}
SOLUTIONS: dict[str, str] = {**SPARQL_RESULT_CONTENT_TYPE_TO_RDFLIB_FORMAT, **GENERIC_CONTENT_TYPE_TO_RDFLIB_FORMAT}
_ACCEPT_CHARACTERS = 4_096


def media_type_of(accept: str, is_graph: bool) -> str:
    usual = "application/rdf+xml" if is_graph else "application/sparql-results+xml"
    formats = GRAPHS if is_graph else SOLUTIONS
    preferred = parse_accept_header(accept[:_ACCEPT_CHARACTERS])
    return next((each for each in preferred if each in formats), usual)


def written(result: Result, accept: str) -> tuple[bytes, str]:
    """The answer, and its media type."""
    is_graph = result.type in ("CONSTRUCT", "DESCRIBE")
    media_type = media_type_of(accept, is_graph)
    body = result.serialize(format=(GRAPHS if is_graph else SOLUTIONS)[media_type])
    assert isinstance(body, bytes)
    return body, media_type
