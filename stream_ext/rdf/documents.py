"""Documents: N-Triples and N-Quads by our own reader, the other forms of RDF by pyoxigraph's parsers.

pyoxigraph keeps lexical forms ("01"^^xsd:integer stays as it is); its quads come back as N-Quads bytes, so that
all forms go through one door and one spelling."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import IO, Any

from stream_ext.errors import BadData, UnsupportedMedia
from stream_ext.rdf.canonical import BadEscape
from stream_ext.rdf.nesting import Shallow, check_nesting
from stream_ext.rdf.ntriples import check_lines, document_rows
from stream_ext.rdf.parsed import Parsed, Row, parsed_of

N_TRIPLES, N_QUADS = "application/n-triples", "application/n-quads"
TURTLE, TRIG = "text/turtle", "application/trig"
RDF_XML, JSON_LD = "application/rdf+xml", "application/ld+json"
NDJSON = "application/x-ndjson"

DOCUMENT_TYPES = (N_TRIPLES, N_QUADS, TURTLE, TRIG, RDF_XML, JSON_LD)
#: Read from files only: it is more than RDF, and what is more is refused.
N3 = "text/n3"
_OTHERS = {TURTLE: "TURTLE", TRIG: "TRIG", RDF_XML: "RDF_XML", JSON_LD: "JSON_LD"}
_READ_AS_LINES = {**_OTHERS, N3: "N3"}
_HINTS = {
    "application/x-www-form-urlencoded": " (what curl says if it is told nothing else: -H 'Content-Type: text/turtle')",
    "application/json": " (JSON-LD is application/ld+json, a push of one JSON object a line application/x-ndjson)",
}
_CONTEXT_ELSEWHERE = 'a JSON-LD "@context" that stands elsewhere is not fetched: write it out in the document'
_STATEMENTS_AT_ONCE = 1 << 15
_PREAMBLE = re.compile(r"^Parser error(?: at line \d+(?: between columns? \d+ and(?: columns?)? \d+| column \d+)?)?: ")
_POSTAMBLE = re.compile(r" \(line \d+\)$")


def parse_rdf(data: bytes, media_type: str, base: str) -> Parsed:
    """A document in one of `DOCUMENT_TYPES`; relative IRIs resolve against `base` where the form has them."""
    media_type = essence(media_type, DOCUMENT_TYPES)
    return numbered(data, media_type, rows_of(data, media_type, base))


def essence(media_type: str, known: tuple[str, ...]) -> str:
    """The media type without its parameters, if it is one of `known`."""
    name, *parameters = (part.strip().lower() for part in media_type.split(";"))
    if name not in known:
        hint = _HINTS.get(name, "")
        raise UnsupportedMedia(f"{name or 'no media type'}{hint} is not read here; these are: {', '.join(known)}")
    for parameter in parameters:
        if parameter.startswith("charset=") and parameter[8:].strip("\"'") not in ("utf-8", "utf8", "us-ascii"):
            raise UnsupportedMedia(f"{parameter} is not read; send UTF-8")
    return name


def rows_of(data: bytes, media_type: str, base: str) -> list[Row]:
    if media_type in (N_TRIPLES, N_QUADS):
        return document_rows(data, quads=media_type == N_QUADS)
    return document_rows(_as_n_quads(data, _OTHERS[media_type], base), quads=True)


def numbered(data: bytes, media_type: str, rows: list[Row]) -> Parsed:
    try:
        return parsed_of(rows)
    except BadEscape:
        # Only N-Triples and N-Quads are not checked before; the search for the place raises.
        check_lines(data, quads=media_type == N_QUADS)
        raise


def lines_of(stream: IO[bytes], media_type: str, base: str) -> Iterator[bytes]:
    """A document in a form that is no lines, as lines of N-Quads, some thousand statements at a time."""
    import pyoxigraph

    rdf_format = getattr(pyoxigraph.RdfFormat, _READ_AS_LINES[media_type])
    try:
        read = Shallow(stream) if media_type == JSON_LD else stream
        quads = iter(pyoxigraph.parse(read, rdf_format, base_iri=base or None))  # type: ignore[arg-type]  # read() is all
        while some := list(islice(quads, _STATEMENTS_AT_ONCE)):
            if media_type == N3 and any(quad.graph_name != pyoxigraph.DefaultGraph() for quad in some):
                raise BadData("this document has formulas ({ ... }), which are no RDF: take them out")
            written: Any = pyoxigraph.serialize(some, format=pyoxigraph.RdfFormat.N_QUADS)
            yield bytes(written)
    except SyntaxError as error:
        raise BadData(_reason(error), error.lineno or 0, error.offset or 0) from None
    except ValueError as error:
        raise BadData(str(error)) from None


def _as_n_quads(data: bytes, format_name: str, base: str) -> bytes:
    import pyoxigraph

    rdf_format = getattr(pyoxigraph.RdfFormat, format_name)
    if format_name == _OTHERS[JSON_LD]:
        check_nesting(data)
    try:
        quads = list(pyoxigraph.parse(data, rdf_format, base_iri=base or None))
    except SyntaxError as error:
        raise BadData(_reason(error), error.lineno or 0, error.offset or 0) from None
    except ValueError as error:
        raise BadData(str(error)) from None
    written: Any = pyoxigraph.serialize(quads, format=pyoxigraph.RdfFormat.N_QUADS)
    return bytes(written)


def _reason(error: SyntaxError) -> str:
    told = _POSTAMBLE.sub("", _PREAMBLE.sub("", error.msg or str(error)))
    return _CONTEXT_ELSEWHERE if "LoadDocumentCallback" in told else told
