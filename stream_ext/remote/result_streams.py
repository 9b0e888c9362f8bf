"""SPARQL results that are read while they come: solutions, some at a time, from JSON, XML or TSV.

An answer that ends too early, or is something else, is a ValueError: what came before the fault is no answer. Nothing
of unbounded length is collected, and XML with a document type, which may expand to anything, is not read."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any
from xml.parsers import expat

import msgspec

from hbase_store.layout.terms import iri, literal, parse_term
from hbase_store.writing.loading import LINE_BYTES_MAX
from stream_ext.remote.sparql_client import RESULTS, Solution

XML, TSV = "application/sparql-results+xml", "text/tab-separated-values"
#: What a store may answer with, the best first. Some stores have no JSON.
ACCEPTED = f"{RESULTS}, application/json;q=0.9, {XML};q=0.6, application/xml;q=0.5, {TSV};q=0.3"

#: What is longer, and not whole, is read again when as much more has come: so each character is read a few times only.
_LONG_CHARACTERS = 1 << 14
_BINDINGS = re.compile(r'"bindings"\s*:\s*\[')
_BETWEEN = re.compile(r"[\s,]*")
#: Of a solution, with what is before the next one; it is looked for at the end of what has come.
_END = re.compile(r"\}\s*\}\s*,")
_TAIL_CHARACTERS = 1 << 12
_XSD = "http://www.w3.org/2001/XMLSchema#"
_NAMESPACE = "http://www.w3.org/2005/sparql-results#"
_LANGUAGE = "http://www.w3.org/XML/1998/namespace lang"
_BARE = (
    (re.compile(r"[+-]?[0-9]+"), "integer"),
    (re.compile(r"[+-]?[0-9]*\.[0-9]+"), "decimal"),
    (re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)[eE][+-]?[0-9]+"), "double"),
    (re.compile(r"true|false"), "boolean"),
)

Body = Iterator[bytes]
Reader = Callable[[Body], Iterator[list[Solution]]]


def reader_of(media_type: str) -> Reader | None:
    """The reader of a media type; None: it is no form of SPARQL results that is read."""
    return _READERS.get(media_type)


# ---- JSON ------------------------------------------------------------------------------------------------------


class _Given(msgspec.Struct, gc=False):
    """A term as JSON has it."""

    type: str
    value: str
    language: str | None = msgspec.field(name="xml:lang", default=None)
    datatype: str | None = None


_decode_many = msgspec.json.Decoder(list[dict[str, _Given]]).decode


def json_solutions(body: Body) -> Iterator[list[Solution]]:
    try:
        yield from _json_solutions(body)
    except RecursionError:
        raise ValueError("they are nested too deeply") from None


def _json_solutions(body: Body) -> Iterator[list[Solution]]:
    decode, texts = json.JSONDecoder().raw_decode, codecs.getincrementaldecoder("utf-8")()
    text, begun, tried = "", False, 0
    for piece in chain(body, (None,)):  # None: there is no more
        text += texts.decode(piece or b"", piece is None)
        if piece is not None and tried > _LONG_CHARACTERS and len(text) < 2 * tried:
            continue
        if not begun:
            if (start := _BINDINGS.search(text)) is None:
                _check_size(text)
                tried = len(text)
                continue
            text, begun = text[start.end() :], True
        found, at = _many(text)
        while True:
            at = _BETWEEN.match(text, at).end()  # type: ignore[union-attr]  # it may match nothing
            if text[at : at + 1] == "]":
                yield found
                _check_rest(text[at:], body, texts)
                return
            try:
                binding, at = decode(text, at)
            except json.JSONDecodeError:
                break  # the rest of it is still to come
            found.append(_solution(binding))
        text = text[at:]
        tried = len(text)
        _check_size(text)
        yield found
    raise ValueError("they end too early")


def _many(text: str) -> tuple[list[Solution], int]:
    """The solutions up to the last whole one, and where it ends; nothing, if anything about them is unusual.

    A solution ends with }}, and so may a text in the middle of one; but then what is before it is no JSON."""
    ends = [found.end() for found in _END.finditer(text, max(0, len(text) - _TAIL_CHARACTERS))]
    if not ends:
        return [], 0
    begin = _BETWEEN.match(text).end()  # type: ignore[union-attr]  # it may match nothing
    try:
        found = _decode_many(f"[{text[begin : ends[-1] - 1]}]")
        return [{name: _term_of(given) for name, given in each.items()} for each in found], ends[-1]
    except (msgspec.DecodeError, ValueError):
        return [], 0  # it is looked at one by one, and the fault is found there


def _check_rest(text: str, body: Body, texts: codecs.IncrementalDecoder) -> None:
    """Reads to the end, so that a connection or a document that breaks off after the last solution is seen."""
    for piece in body:
        if more := texts.decode(piece).strip():
            text += more
            _check_size(text)
    json.loads('{"results":{"bindings":[' + text + texts.decode(b"", True))


def _check_size(text: str) -> None:
    _check_length(len(text))


def _check_length(length: int) -> None:
    if length > LINE_BYTES_MAX:
        raise ValueError(f"one of more than {LINE_BYTES_MAX} characters")


def _solution(binding: Any) -> Solution:
    if not isinstance(binding, dict):
        raise ValueError(f"{binding!r:.100} is no solution")
    return {name: _term(given) for name, given in binding.items()}


def _term(given: Any) -> bytes:
    if not isinstance(given, dict) or not isinstance(value := given.get("value"), str):
        raise ValueError(f"{given!r:.100} is no term")
    language, datatype = given.get("xml:lang"), given.get("datatype")
    if not isinstance(language, str | None) or not isinstance(datatype, str | None):
        raise ValueError(f"{given!r:.100} is no literal")
    return _term_of(_Given(given.get("type", ""), value, language, datatype))


def _term_of(given: _Given) -> bytes:
    match given.type:
        case "uri" if given.value:
            return iri(given.value)
        case "literal" | "typed-literal":
            return literal(given.value, given.language, given.datatype)
        case "bnode":
            return b"_:" + given.value.encode()
    raise ValueError(f"a term of type {given.type!r:.100}")


# ---- XML -------------------------------------------------------------------------------------------------------


def xml_solutions(body: Body) -> Iterator[list[Solution]]:
    reader = _XmlReader()
    for piece in body:
        yield reader.read(piece, False)
    yield reader.read(b"", True)
    if not reader.whole:
        raise ValueError("they are no SPARQL results")


class _XmlReader:
    def __init__(self) -> None:
        self._parser = parser = expat.ParserCreate(namespace_separator=" ")
        parser.StartDoctypeDeclHandler = self._doctype
        parser.StartElementHandler, parser.EndElementHandler = self._start, self._end
        parser.CharacterDataHandler = self._characters
        self.whole = False
        self._found: list[Solution] = []
        self._solution: Solution = {}
        self._name = ""
        self._attributes: dict[str, str] = {}
        self._text: list[str] = []
        self._size = 0

    def read(self, piece: bytes, last: bool) -> list[Solution]:
        try:
            self._parser.Parse(piece, last)
        except expat.ExpatError as error:
            raise ValueError(str(error)) from None
        found, self._found = self._found, []
        return found

    def _doctype(self, *_: object) -> None:
        raise ValueError("XML with a document type is not read")

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        match self._local(tag):
            case "result":
                self._solution = {}
            case "binding":
                self._name = attributes.get("name", "")
            case "uri" | "literal" | "bnode":
                self._attributes, self._text, self._size = attributes, [], 0
            case "triple":
                raise ValueError("a term that is a triple")

    def _characters(self, text: str) -> None:
        self._size += len(text)
        if self._size > LINE_BYTES_MAX:
            raise ValueError(f"one of more than {LINE_BYTES_MAX} characters")
        self._text.append(text)

    def _end(self, tag: str) -> None:
        match self._local(tag):
            case "uri":
                self._solution[self._name] = iri("".join(self._text))
            case "bnode":
                self._solution[self._name] = b"_:" + "".join(self._text).encode()
            case "literal":
                given = self._attributes
                value = literal("".join(self._text), given.get(_LANGUAGE), given.get("datatype"))
                self._solution[self._name] = value
            case "result":
                self._found.append(self._solution)
            case "sparql":
                self.whole = True
        self._text, self._size = [], 0

    @staticmethod
    def _local(tag: str) -> str:
        space, _, name = tag.rpartition(" ")
        return name if space == _NAMESPACE else ""


# ---- TSV -------------------------------------------------------------------------------------------------------


def tsv_solutions(body: Body) -> Iterator[list[Solution]]:
    texts = codecs.getincrementaldecoder("utf-8")()
    names: list[str] | None = None
    text, pieces, size = "", list[str](), 0
    for piece in body:
        pieces.append(texts.decode(piece))
        size += len(pieces[-1])
        if "\n" not in pieces[-1]:
            _check_length(size)
            continue
        *lines, text = "".join(pieces).split("\n")
        pieces, size = [text], len(text)
        _check_length(size)
        if names is None and lines:
            names, lines = [name.lstrip("?$") for name in lines[0].rstrip("\r").split("\t")], lines[1:]
        yield [_row(names or [], line.rstrip("\r")) for line in lines]
    if size or names is None or texts.decode(b"", True):
        raise ValueError("they end in the middle of a line")


def _row(names: list[str], line: str) -> Solution:
    cells = line.split("\t") if names != [""] else []
    if names != [""] and len(cells) != len(names):
        raise ValueError(f"a line of {len(cells)} cells for {len(names)} variables")
    return {name: _written(cell) for name, cell in zip(names, cells, strict=False) if cell}


def _written(cell: str) -> bytes:
    """A term as Turtle writes it, without prefixes."""
    if cell.startswith("_:"):
        return cell.encode()
    for form, datatype in _BARE:
        if form.fullmatch(cell):
            return literal(cell, datatype=_XSD + datatype)
    term = parse_term(cell.encode())
    return iri(term.value) if term.kind == "iri" else literal(term.value, term.language, term.datatype)


_READERS: dict[str, Reader] = {
    RESULTS: json_solutions,
    "application/json": json_solutions,
    XML: xml_solutions,
    "application/xml": xml_solutions,
    "text/xml": xml_solutions,
    TSV: tsv_solutions,
}
