"""RDF Messages: one document of many elements, as the W3C's RDF Stream Processing Community Group drafts them.

    VERSION "1.2-messages"
    PREFIX ex: <http://example.org/>
    ex:g { ex:s ex:p 1 }  ex:s ex:q 2 .        the first message, in two graphs
    MESSAGE
    ex:s ex:p 3 .                              the second one

The parsers do not know MESSAGE. They get a statement in its place, the mark, whose IRI is drawn anew for each document,
so that no document can contain it. The marks come out between the statements of the messages, and are removed. Of a
document that is lines, the lines of marks cost nothing more; in Turtle and TriG the delimiters are found by one
expression that skips strings, IRIs, comments and names."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from stream_ext.errors import BadData
from stream_ext.rdf.documents import N_QUADS, N_TRIPLES, TRIG, TURTLE, as_n_quads, read_rows
from stream_ext.rdf.ntriples import read_lines
from stream_ext.rdf.parsed import Indexes, Numbering, Parsed, Row
from stream_ext.rdf.reading import ReadingBudget
from stream_ext.rdf.versions import announces_messages

MESSAGE_TYPES = (N_TRIPLES, N_QUADS, TURTLE, TRIG)

_UNANNOUNCED = (
    "a message delimiter in a document that is no message log: begin the document with VERSION "
    '"1.2-messages", or send it with the media type parameter version=1.2-messages'
)
_IN_A_GRAPH = "a message cannot end inside of a graph: close the graph with '}' before the delimiter"
_IN_A_STATEMENT = "a message cannot end in the middle of a statement (is a '.' missing before the delimiter?)"
_NO_DOT = "@message ends with a '.': write '@message .' or MESSAGE"
_ON_A_LINE = "a message of N-Triples or N-Quads ends with MESSAGE, in capitals and on a line of its own"
_VERSION_LINE = 'a version is announced by VERSION and a string, on a line of its own: VERSION "1.2-messages"'


@dataclass(frozen=True, slots=True)
class Messages:
    """The statements of a message log, and of each of them the number of its message."""

    parsed: Parsed
    message: Indexes
    count: int


def parse_messages(
    data: bytes, media_type: str, base: str, announced: bool, reading: ReadingBudget
) -> Messages | Parsed:
    """A document in one of `MESSAGE_TYPES`; Parsed if it is no message log. `announced`: by its media type."""
    numbering = Numbering()
    if media_type in (N_TRIPLES, N_QUADS):
        directives = LineDirectives(announced)
        read_lines(data, media_type == N_QUADS, numbering.add, reading.check, directives)
        return _without_marks(numbering, directives.mark) if directives.announced else numbering.parsed()
    if announced or b"-messages" in data:
        mark = _drawn_mark()
        delimiters = _Delimiters(data, mark, announced, reading.check)
        for lines in delimiters.errors_placed(as_n_quads(delimiters.pieces(), len(data), media_type, base, reading)):
            reading.expanded(len(lines))
            read_lines(lines, True, numbering.add, reading.check)
        return _without_marks(numbering, mark) if delimiters.announced else numbering.parsed()
    try:
        read_rows(data, media_type, base, numbering.add, reading)
    except BadData as error:
        raise _hinted(error, data) from None
    return numbering.parsed()


def _drawn_mark() -> bytes:
    return b"<m:%b>" % secrets.token_urlsafe(9).encode()


def _without_marks(numbering: Numbering, mark: bytes) -> Messages:
    (number,) = numbering.numbers([mark]).tolist()
    parsed = numbering.parsed()
    is_mark = parsed.s == number
    rows = ~is_mark
    terms = parsed.terms[:number] + parsed.terms[number + 1 :]
    s, p, o, g = (column[rows] - (column[rows] > number) for column in (parsed.s, parsed.p, parsed.o, parsed.g))
    message = np.cumsum(is_mark, dtype=np.int32)[rows]
    # What follows the last delimiter is a message only if it is something.
    count = np.count_nonzero(is_mark) + bool(len(rows) and rows[-1])
    return Messages(Parsed(terms, s, p, o, g), message, int(count))


# ---- N-Triples and N-Quads -----------------------------------------------------------------------------------

_LINE_DIRECTIVE = re.compile(rb"[ \t]*+(@?(?:MESSAGE|VERSION)(?![A-Za-z0-9_:]))", re.IGNORECASE)
_MESSAGE_LINE = re.compile(rb"[ \t]*+MESSAGE[ \t]*+(?:#.*)?", re.DOTALL)
_VERSION_OF_LINE = re.compile(rb'[ \t]*+VERSION[ \t]*+"([^"\\]*+)"[ \t]*+(?:#.*)?', re.DOTALL)


class LineDirectives:
    """The directives of a document that is lines, in order: VERSION is no statement, MESSAGE is the mark."""

    def __init__(self, announced: bool) -> None:
        self.announced = announced
        self._mark: bytes | None = None

    @property
    def mark(self) -> bytes:
        """Drawn when it is needed first: most documents have no messages."""
        if self._mark is None:
            self._mark = _drawn_mark()
        return self._mark

    def copy(self) -> LineDirectives:
        """For a second look at the same lines, whose statements nobody takes: the mark is another one."""
        return LineDirectives(self.announced)

    def rows(self, line: bytes, number: int = 0) -> list[Row] | None:
        found = _LINE_DIRECTIVE.match(line)
        if found is None:
            return None
        column = found.start(1) + 1
        if version := _VERSION_OF_LINE.fullmatch(line):
            self.announced |= announces_messages(version[1], number, column)
            return []
        if b"version" in found[1].lower():
            raise BadData(_VERSION_LINE, number, column)
        if not self.announced:
            raise BadData(_UNANNOUNCED, number, column)
        if not _MESSAGE_LINE.fullmatch(line):
            raise BadData(_ON_A_LINE, number, column)
        return [(self.mark, self.mark, self.mark, b"")]


# ---- Turtle and TriG -----------------------------------------------------------------------------------------

_BLANK = rb"(?:[ \t\r\n]|#[^\r\n]*+)*+"
_STRING = (
    rb'(?:"""(?:[^"\\]++|\\.|"(?!""))*+"""'
    rb"|'''(?:[^'\\]++|\\.|'(?!''))*+'''"
    rb'|"(?:[^"\\\r\n]++|\\.)*+"'
    rb"|'(?:[^'\\\r\n]++|\\.)*+')"
)
_NAME = rb"A-Za-z0-9_:%\x80-\xff"
_KEYWORD = rb"(?i:MESSAGE|VERSION)(?![.\-\\" + _NAME + rb"])"
_AT_KEYWORD = rb"@(?:message|version)(?![A-Za-z0-9\-])"
# What cannot be a delimiter. A '@message' behind a string is its language tag, with blanks between them, too.
_SKIPPED = re.compile(
    rb"(?:[^<\"'#{}@\\" + _NAME + rb"]++"
    rb"|(?!" + _KEYWORD + rb")[" + _NAME + rb"](?:[.\-" + _NAME + rb"]++|\\.)*+"
    rb"|<(?:[^\x00-\x20<>\"{}|^`]*+>)?+"
    rb"|#[^\r\n]*+"
    rb"|" + _STRING + rb"(?:" + _BLANK + rb"@[A-Za-z]++)?+"
    rb"|(?!" + _AT_KEYWORD + rb")@[A-Za-z]*+"
    # So many at a time: while the expression runs, no other thread does.
    rb"|\\){1,2000}+",
    re.DOTALL,
)
_STOP = re.compile(
    rb"(?P<open>\{)|(?P<close>\})"
    rb"|(?P<version>(?:@version|(?i:VERSION))"
    + _BLANK
    + rb"(?:\"(?P<label>[^\"\\\r\n]*+)\"|'(?P<quoted>[^'\\\r\n]*+)'))"
    rb"|(?P<message>" + _KEYWORD + rb")|(?P<at>@message" + _BLANK + rb"(?P<dot>\.)?+)",
)
_IS_VERSION = re.compile(rb"@?version", re.IGNORECASE)
_LINE_BREAK = re.compile(rb"\r\n|\n|\r")
_BREAKS = re.compile(rb"[\r\n]")
_IS_DELIMITER = re.compile(rb"@?message\b", re.IGNORECASE)
_PIECE_BYTES: Final = 1 << 18


class _Misplaced(BadData):
    """An error with a place in the document as it was sent."""


class _Delimiters:
    """The delimiters of a document in Turtle or TriG, and the document with a mark in the place of each."""

    def __init__(self, data: bytes, mark: bytes, announced: bool, check: Callable[[], None]) -> None:
        self._data, self._check = data, check
        self._announced_before, self.announced = announced, announced
        self._mark = mark * 3 + b"."

    def pieces(self) -> Iterator[bytes]:
        """The document for the parser. Its lines are those of the document as it was sent."""
        some: list[bytes] = []
        size = start = 0
        for begin, end in self._places():
            some += (self._data[start:begin], self._instead_of(begin, end))
            size += begin - start + len(some[-1])
            start = end
            if size >= _PIECE_BYTES:
                yield b"".join(some)
                some, size = [], 0
        yield b"".join([*some, self._data[start : start + _PIECE_BYTES]])
        for at in range(start + _PIECE_BYTES, len(self._data), _PIECE_BYTES):
            yield self._data[at : at + _PIECE_BYTES]

    def _instead_of(self, begin: int, end: int) -> bytes:
        """The mark; what follows a delimiter of several lines is in its line and column."""
        breaks = _BREAKS.findall(self._data, begin, end)
        if not breaks:
            return self._mark
        last = max(self._data.rfind(sign, begin, end) for sign in (b"\n", b"\r"))
        return self._mark + b"".join(breaks) + b" " * (end - last - 1)

    def _places(self) -> Iterator[tuple[int, int]]:
        """Where each delimiter begins and ends."""
        data, at, depth = self._data, 0, 0
        self.announced = self._announced_before
        while at < len(data):
            self._check()
            if skipped := _SKIPPED.match(data, at):
                at = skipped.end()
            stop = _STOP.match(data, at)
            if stop is None:
                if word := _IS_VERSION.match(data, at):
                    at = word.end()  # what it lacks is the parser's to say
                elif skipped is None:
                    return  # a string that is not closed: so is this
                continue
            at = stop.end()
            if stop.lastgroup == "open":
                depth += 1
            elif stop.lastgroup == "close":
                depth = max(0, depth - 1)
            elif stop["version"] is not None:
                label = stop["quoted"] if stop["label"] is None else stop["label"]
                self._announce(label, stop.start())
            else:
                self._check_delimiter(stop, depth)
                yield stop.span()

    def _announce(self, label: bytes, at: int) -> None:
        try:
            self.announced |= announces_messages(label)
        except BadData as error:
            raise self._wrong(error.message, at) from None

    def _check_delimiter(self, stop: re.Match[bytes], depth: int) -> None:
        if not self.announced:
            raise self._wrong(_UNANNOUNCED, stop.start())
        if depth:
            raise self._wrong(_IN_A_GRAPH, stop.start())
        if stop["at"] is not None and stop["dot"] is None:
            raise self._wrong(_NO_DOT, stop.start())

    def _wrong(self, message: str, at: int) -> _Misplaced:
        before = _LINE_BREAK.split(self._data[:at])
        return _Misplaced(message, len(before), len(before[-1].decode(errors="replace")) + 1)

    # ---- errors of the parser

    def errors_placed(self, lines: Iterator[bytes]) -> Iterator[bytes]:
        """The same lines; errors are where they are in the document as it was sent."""
        try:
            yield from lines
        except _Misplaced as error:
            raise BadData(error.message, error.line, error.column) from None
        except BadData as error:
            raise self._placed(error) from None

    def _placed(self, error: BadData) -> BadData:
        begin, end = _line_of(self._data, error.line)
        if not error.line:
            return error
        longer = 0  # by so much the marks before it are longer than the delimiters
        for start, stop in self._places():
            if start >= end:
                break
            if start < begin:
                continue
            column = len(self._data[begin:start].decode(errors="replace")) + 1
            if error.column < column + longer:
                break
            if error.column < column + longer + len(self._mark):
                return BadData(_IN_A_STATEMENT, error.line, column)
            longer += len(self._mark) - (stop - start)
        return BadData(error.message, error.line, error.column - longer)


def _line_of(data: bytes, number: int) -> tuple[int, int]:
    """Where a line begins and ends."""
    begin = 0
    for line, found in enumerate(_LINE_BREAK.finditer(data), start=1):
        if line == number:
            return begin, found.start()
        begin = found.end()
    return begin, len(data)


def _hinted(error: BadData, data: bytes) -> BadData:
    """An error of a document that announces no messages: at a delimiter it says so."""
    begin, end = _line_of(data, error.line)
    at = begin + len(data[begin:end].decode(errors="replace")[: error.column - 1].encode())
    if error.line and _IS_DELIMITER.match(data, at, end):
        return BadData(_UNANNOUNCED, error.line, error.column)
    return error
