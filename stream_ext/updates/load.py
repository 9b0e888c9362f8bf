"""LOAD: what a document says comes into the store.

Documents are fetched and parsed before the request waits for the writer: a slow server somewhere holds nobody up."""

from __future__ import annotations

from collections.abc import Callable

from hbase_store.terms import parse_term
from stream_ext.adaptor import check_terms
from stream_ext.errors import BadData, TooLarge, UnsupportedMedia
from stream_ext.fetching import CannotFetch, fetch
from stream_ext.graph_store import insert
from stream_ext.outside import OutOfBounds, Outside
from stream_ext.plan.algebra import Load
from stream_ext.rdf import Parsed, parse_rdf
from stream_ext.rdf.reading import Reading
from stream_ext.updates.working import CannotUpdate, Forbidden, Working


def fetched(operation: Load, outside: Outside, check: Callable[[], None]) -> Parsed | None:
    """None where there is nothing, and LOAD SILENT does not mind. `check` ends it when nobody wants it any more."""
    try:
        return _parsed(operation, outside, Reading(check, outside.bytes_max))
    except (OutOfBounds, CannotUpdate) as error:
        if operation.silent:
            return None
        if isinstance(error, OutOfBounds):
            raise Forbidden(str(error)) from None
        raise


def _parsed(operation: Load, outside: Outside, reading: Reading) -> Parsed:
    try:
        found = fetch(parse_term(operation.source.text).value, outside)
        parsed = parse_rdf(found.data, found.media_type, found.url, reading)
        check_terms(parsed.terms)
    except CannotFetch as error:
        raise CannotUpdate(str(error)) from None
    except (BadData, UnsupportedMedia, TooLarge) as error:
        raise CannotUpdate(f"{operation.source.text.decode()}: {error}") from None
    if operation.into is not None and (parsed.g >= 0).any():
        raise CannotUpdate(
            f"{operation.source.text.decode()} names graphs of its own: load it without INTO GRAPH, and each statement "
            "goes to the graph that it names"
        )
    return parsed


def load(operation: Load, parsed: Parsed, working: Working) -> None:
    insert(working.batch, None if operation.into is None else operation.into.text, [parsed])
