"""Documents: N-Triples and N-Quads by our own reader, the other forms of RDF by pyoxigraph's parsers.

pyoxigraph keeps lexical forms ("01"^^xsd:integer stays as it is); its quads come back as N-Quads bytes, so that all
forms are read by one reader and get one spelling. Its parsers run in a process of their own, except for documents that
are so short that they cannot expand far, or take long."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import IO, Any

from hbase_store.writing.loading import LINE_BYTES_MAX
from stream_ext.errors import BadData, UnsupportedMedia
from stream_ext.rdf.doctypes import check_doctype, declares
from stream_ext.rdf.nesting import Shallow, check_nesting
from stream_ext.rdf.ntriples import read_lines
from stream_ext.rdf.parsed import Numbering, Parsed, Row
from stream_ext.rdf.parsers import PARSERS, ParserError
from stream_ext.rdf.reading import ReadingBudget, too_long_a_line
from stream_ext.rdf.versions import is_of_messages

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
    "application/x-www-form-urlencoded": " (curl's default; add -H 'Content-Type: text/turtle')",
    "application/json": " (JSON-LD is application/ld+json, a push of one JSON object a line application/x-ndjson)",
}
_REMOTE_CONTEXT = 'a remote JSON-LD "@context" is not fetched: write the context into the document'
#: What is sent to a parser at once.
_PIECE_BYTES = 1 << 18
#: Shorter documents are parsed here: a context that is applied again and again takes the cube of its length.
_SHORT_BYTES = 1 << 12
_PREAMBLE = re.compile(
    r"^Parser error(?: at line \d+(?: between columns? \d+ and(?: columns?)? \d+| column \d+)?"
    r"| between line \d+ column \d+ and line \d+ column \d+)?: "
)
#: Messages of the parsers of Turtle and TriG, in words that are easier to understand.
_REASONS = {
    "A dot is expected at the end of statements": "a '.' is missing at the end of the statement before this",
    "Unexpected end": "the document ends in the middle of a statement: at least a '.' is missing",
    "Unexpected end of file": "the document ends in the middle of what begins here: a string or an IRI is not closed",
}
_NO_SUBJECT = "is not a valid subject or graph name"
_SIGN_BEFORE = " (is a '.', ';' or ',' missing before it?)"
_DOT_BEHIND_PREFIX = " (PREFIX and BASE have no '.' at the end, @prefix and @base have one)"
_LINE_BREAK = re.compile(rb"\r\n|\n|\r")
_POSTAMBLE = re.compile(r" \(line \d+\)$")


def parse_rdf(data: bytes, media_type: str, base: str, reading: ReadingBudget | None = None) -> Parsed:
    """A document in one of `DOCUMENT_TYPES`; relative IRIs resolve against `base` where the form has them."""
    media_type = essence(media_type, DOCUMENT_TYPES)
    numbering = Numbering()
    read_rows(data, media_type, base, numbering.add, reading or ReadingBudget())
    return numbering.parsed()


def essence(media_type: str, known: tuple[str, ...]) -> str:
    """The media type without its parameters, if it is one of `known`."""
    name, parameters = parameters_of(media_type, known)
    if is_of_messages(parameters.get("version", "")):
        raise UnsupportedMedia(
            "a message log is not supported here: it is pushed to a stream; send a version without -messages"
        )
    return name


def parameters_of(media_type: str, known: tuple[str, ...]) -> tuple[str, dict[str, str]]:
    """The media type, if it is one of `known`, and its parameters. What is no UTF-8 is refused."""
    name, *written = (part.strip().lower() for part in media_type.split(";"))
    if name not in known:
        hint = _HINTS.get(name, "")
        raise UnsupportedMedia(f"{name or 'no media type'}{hint} is not supported here; send one of {', '.join(known)}")
    parameters = {}
    for each in filter(None, written):
        parameter, _, value = (part.strip().strip("\"'") for part in each.partition("="))
        parameters[parameter] = value
    if (charset := parameters.get("charset")) not in (None, "utf-8", "utf8", "us-ascii"):
        raise UnsupportedMedia(f"charset={charset} is not supported; send UTF-8")
    return name, parameters


def read_rows(
    data: bytes, media_type: str, base: str, add: Callable[[list[Row]], object], reading: ReadingBudget
) -> None:
    """Adds the statements of a document, some thousand at a time."""
    if media_type in (N_TRIPLES, N_QUADS):
        read_lines(data, media_type == N_QUADS, add, reading.check)
        return
    if media_type == JSON_LD:
        check_nesting(data)
    if media_type == RDF_XML:
        check_doctype(data)
    try:
        for lines in _as_n_quads(data, media_type, base, reading):
            reading.expanded(len(lines))
            read_lines(lines, True, add, reading.check)
    except BadData as error:
        raise (_in_characters(error, data) if media_type == JSON_LD else error) from None


def lines_of(stream: IO[bytes], media_type: str, base: str) -> Iterator[bytes]:
    """A document of any length in a form that is no lines, as lines of N-Quads, some thousand statements at a time."""
    reading = ReadingBudget()
    read = Shallow(stream) if media_type == JSON_LD else stream
    pieces = iter(lambda: read.read(_PIECE_BYTES), b"")
    if media_type == RDF_XML:
        pieces = _checked(pieces)
    for lines in _parsed_in_process(_READ_AS_LINES[media_type], base, pieces, reading):
        reading.expanded(len(lines))
        yield lines


def _as_n_quads(data: bytes, media_type: str, base: str, reading: ReadingBudget) -> Iterator[bytes]:
    if media_type == RDF_XML and declares(data):  # however short it is, it may expand
        return _parsed_in_process(_OTHERS[media_type], base, _pieces(data), reading)
    return as_n_quads(_pieces(data), len(data), media_type, base, reading)


def as_n_quads(
    pieces: Iterator[bytes], size: int, media_type: str, base: str, reading: ReadingBudget
) -> Iterator[bytes]:
    """The pieces of a document that was sent with so many bytes, in a form that is no lines, as lines of N-Quads."""
    if size <= _SHORT_BYTES:
        data = b"".join(pieces)
        reading.took(len(data))
        yield _parsed_here(data, _OTHERS[media_type], base)
    else:
        yield from _parsed_in_process(_OTHERS[media_type], base, pieces, reading)


def _in_characters(error: BadData, data: bytes) -> BadData:
    """The parser of JSON counts the bytes of a line."""
    line = _LINE_BREAK.split(data, error.line)[error.line - 1 : error.line]
    if not line:
        return error
    return BadData(error.message, error.line, len(line[0][: error.column - 1].decode(errors="replace")) + 1)


def _pieces(data: bytes) -> Iterator[bytes]:
    return (data[start : start + _PIECE_BYTES] for start in range(0, len(data), _PIECE_BYTES))


def _checked(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """The pieces of an RDF/XML document, with its document type checked, which comes first."""
    for first in pieces:
        check_doctype(first)
        yield first
        break
    yield from pieces


def _parsed_here(data: bytes, format_name: str, base: str) -> bytes:
    import pyoxigraph

    try:
        quads = list(pyoxigraph.parse(data, getattr(pyoxigraph.RdfFormat, format_name), base_iri=base or None))
    except SyntaxError as error:
        raise BadData(_reason(error.msg or str(error)), error.lineno or 0, error.offset or 0) from None
    except ValueError as error:
        raise BadData(str(error)) from None
    written: Any = pyoxigraph.serialize(quads, format=pyoxigraph.RdfFormat.N_QUADS)
    return bytes(written)


def _parsed_in_process(format_name: str, base: str, pieces: Iterator[bytes], reading: ReadingBudget) -> Iterator[bytes]:
    """N-Quads from a parser process, in pieces of whole lines. A line break within a term is an escape."""
    rest: list[bytes] = []
    size = 0
    try:
        for piece in PARSERS.lines(format_name, base, pieces, reading):
            whole, newline, begun = piece.rpartition(b"\n")
            if newline:
                yield b"".join([*rest, whole, newline])
                rest, size = [], 0
            rest.append(begun)
            size += len(begun)
            if size > LINE_BYTES_MAX:
                raise too_long_a_line()
    except ParserError as wrong:
        raise BadData(_reason(wrong.message), wrong.line, wrong.column) from None
    if size:
        yield b"".join(rest)


def _reason(message: str) -> str:
    reason = _POSTAMBLE.sub("", _PREAMBLE.sub("", message))
    if "LoadDocumentCallback" in reason:
        return _REMOTE_CONTEXT
    if reason.endswith(_NO_SUBJECT):
        return reason + (_DOT_BEHIND_PREFIX if reason.startswith(". ") else _SIGN_BEFORE)
    return _REASONS.get(reason, reason)
