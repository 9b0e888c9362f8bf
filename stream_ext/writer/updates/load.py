"""LOAD: the triples of a document are added to the store.

Documents are fetched and parsed before the request waits for the writer: a slow remote server delays no other
request."""

from __future__ import annotations

from dataclasses import replace

from hbase_store.layout.terms import parse_term
from stream_ext.errors import BadData, QueryTooLarge, TooLarge, UnsupportedMedia
from stream_ext.evaluation_budget import Control
from stream_ext.language.algebra.statements import Load
from stream_ext.rdf import Parsed, parse_rdf
from stream_ext.rdf.reading import ReadingBudget
from stream_ext.remote.allowed_urls import AllowedUrls, OutOfBounds
from stream_ext.remote.fetching import CannotFetch, fetch
from stream_ext.writer.elements import check_terms
from stream_ext.writer.graph_store import insert
from stream_ext.writer.updates.working import CannotUpdate, Forbidden, Working

#: Bytes of a distinct term of a document besides its text, and of a triple.
_TERM, _TRIPLE = 64, 16


class _Counted(ReadingBudget):
    """What a document expands to is counted as it comes, against the budget of the request."""

    def __init__(self, control: Control, bytes_max: int) -> None:
        super().__init__(control.check, bytes_max)
        self._spend = control.spend

    def expanded(self, size: int) -> None:
        super().expanded(size)
        self._spend(size)


def fetched(operation: Load, allowed_urls: AllowedUrls, control: Control) -> Parsed | None:
    """The parsed document; None: it could not be loaded, and the operation is SILENT. `control` ends the loading when
    the request was cancelled, and is charged for the document: all documents of a request wait for the writer
    together."""
    control.check()
    spent = control.spent
    try:
        parsed = _parsed(operation, replace(allowed_urls, timeout_s=control.left_s(allowed_urls.timeout_s)), control)
    except (OutOfBounds, CannotUpdate) as error:
        control.check()
        if operation.silent:
            return None
        if isinstance(error, OutOfBounds):
            raise Forbidden(str(error)) from None
        raise
    finally:
        control.return_to(spent)
    control.spend(sum(map(len, parsed.terms)) + _TERM * len(parsed.terms) + _TRIPLE * len(parsed.s))
    return parsed


def _parsed(operation: Load, allowed_urls: AllowedUrls, control: Control) -> Parsed:
    try:
        found = fetch(parse_term(operation.source.text).value, allowed_urls)
        control.spend(len(found.data))
        parsed = parse_rdf(found.data, found.media_type, found.url, _Counted(control, allowed_urls.bytes_max))
        check_terms(parsed.terms)
    except CannotFetch as error:
        raise CannotUpdate(str(error)) from None
    except QueryTooLarge:
        raise  # the request is too large, not this document
    except (BadData, UnsupportedMedia, TooLarge) as error:
        raise CannotUpdate(f"{operation.source.text.decode()}: {error}") from None
    if operation.into is not None and (parsed.g >= 0).any():
        raise CannotUpdate(
            f"{operation.source.text.decode()} names graphs itself: load it without INTO GRAPH, and each "
            "statement goes to the graph that it names"
        )
    return parsed


def load(operation: Load, parsed: Parsed, working: Working) -> None:
    insert(working.batch, None if operation.into is None else operation.into.text, [parsed])
