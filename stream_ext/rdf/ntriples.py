"""N-Triples and N-Quads: one expression for the lines that are as they mostly are, a careful reader for the rest.

The expression takes a whole document apart without a Python loop. A line that it does not know goes to the
careful reader, which either understands it (an escape in an IRI, blanks around ^^) or says what is wrong where."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Protocol

from stream_ext.errors import BadData
from stream_ext.rdf.canonical import BadEscape, canonical, unescape
from stream_ext.rdf.parsed import Row

IRI = rb"<[A-Za-z][A-Za-z0-9+.\-]*+:[^\x00-\x20<>\"{}|^`\\]*+>"
# Labels of ASCII; others are the careful reader's.
_BLANK = rb"_:[A-Za-z0-9_](?:[A-Za-z0-9_.\-]*[A-Za-z0-9_\-])?(?![A-Za-z0-9_\-\x80-\xff])"
_LITERAL = rb'"(?:[^"\\\r\n]++|\\[^\r\n])*+"(?:@[A-Za-z]++(?:-[A-Za-z0-9]++)*+|\^\^' + IRI + rb")?+"
_TRIPLE = rb"[ \t]*+(?:(%b|%b)[ \t]*+(%b)[ \t]*+(%b|%b|%b)[ \t]*+" % (IRI, _BLANK, IRI, IRI, _LITERAL, _BLANK)
_GRAPH = rb"(?:(%b|%b)[ \t]*+)?+" % (IRI, _BLANK)
_NO_GRAPH = rb"()"
_LINE_END = rb"(?:#[^\r\n]*+)?+(?:[\r\n]++|\Z)"
_REST = rb"|([^\r\n]++)"

# Group 5 is a line (or the rest of one) that is for the careful reader.
_TRIPLE_LINE = re.compile(_TRIPLE + _NO_GRAPH + rb"\.[ \t]*+)?+" + _LINE_END + _REST)
_QUAD_LINE = re.compile(_TRIPLE + _GRAPH + rb"\.[ \t]*+)?+" + _LINE_END + _REST)
# Statements that may share a line; the last alternative never matches nothing, so the search always moves on.
_STATEMENT = re.compile(rb"[ \t\r\n]*+" + _TRIPLE + _NO_GRAPH + rb"\.)[ \t]*+|[\r\n]++" + _REST)
_QUAD_STATEMENT = re.compile(rb"[ \t\r\n]*+" + _TRIPLE + _GRAPH + rb"\.)[ \t]*+|[\r\n]++" + _REST)

_BLANKS = re.compile(r"[ \t]*")
_LABEL = re.compile(
    "_:[0-9A-Z_a-z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u02ff\u0370-\u037d\u037f-\u1fff\u200c-\u200d\u2070-\u218f"
    "\u2c00-\u2fef\u3001-\ud7ff\uf900-\ufdcf\ufdf0-\ufffd\U00010000-\U000effff]"
    "(?:[-.0-9A-Z_a-z\u00b7\u0300-\u036f\u203f-\u2040\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u02ff\u0370-\u037d\u037f-\u1fff"
    "\u200c-\u200d\u2070-\u218f\u2c00-\u2fef\u3001-\ud7ff\uf900-\ufdcf\ufdf0-\ufffd\U00010000-\U000effff]*"
    "[-0-9A-Z_a-z\u00b7\u0300-\u036f\u203f-\u2040\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u02ff\u0370-\u037d\u037f-\u1fff"
    "\u200c-\u200d\u2070-\u218f\u2c00-\u2fef\u3001-\ud7ff\uf900-\ufdcf\ufdf0-\ufffd\U00010000-\U000effff])?"
)
_LINE_BREAK = re.compile(rb"\r\n|\n|\r")
_NEWLINE = re.compile(rb"\n")
_STRING = re.compile(r'"(?:[^"\\]++|\\.)*+"')
_LANGUAGE = re.compile(r"@[A-Za-z]+(?:-[A-Za-z0-9]+)*")
_IRI_FORBIDDEN = re.compile(r'[\x00-\x20<>"{}|^`\\]')
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*:")
_IRI_ESCAPE = re.compile(r"\\u[0-9A-Fa-f]{4}|\\U[0-9A-Fa-f]{8}")


#: What one search goes through: while it runs, no other thread does.
_PIECE_BYTES = 1 << 17


def _never_ends() -> None:
    pass


class Directives(Protocol):
    """Reads lines that are directives, and no statements."""

    def rows(self, line: bytes, number: int = 0) -> list[Row] | None:
        """None: the line is no directive. BadData: it is one that is wrong."""
        ...

    def copy(self) -> Directives:
        """Another one, which has seen the same lines."""
        ...


def read_lines(
    data: bytes,
    quads: bool,
    add: Callable[[list[Row]], object],
    check: Callable[[], None] = _never_ends,
    directives: Directives | None = None,
) -> None:
    """Adds the statements of a document, one a line, some thousand at a time; `check` may end it in between.

    `add` raises BadEscape for a wrong escape; its line is found then. `directives`: None where there are none."""
    expression = _QUAD_LINE if quads else _TRIPLE_LINE
    for start, end in line_pieces(data, _PIECE_BYTES):
        check()
        piece = data[start:end]
        _check_utf8(piece, data, start)
        before = None if directives is None else directives.copy()
        try:
            add(_rows(expression.findall(piece), quads, one_a_line=True, directives=directives))
        except (BadData, BadEscape):
            check_lines(piece, quads, True, _lines_before(data, start), before)
            raise


def document_rows(data: bytes, quads: bool) -> list[Row]:
    """The statements of a short document, one a line."""
    rows: list[Row] = []
    read_lines(data, quads, rows.extend)
    return rows


def line_pieces(data: bytes, size: int, returns: bool = True) -> Iterator[tuple[int, int]]:
    """Where pieces of whole lines begin and end, each of `size` bytes or somewhat less; a longer line is one piece.
    `returns`: a carriage return ends a line, too."""
    line_break = _LINE_BREAK if returns else _NEWLINE
    start = 0
    while len(data) - start > size:
        end = max(data.rfind(sign, start, start + size) for sign in ((b"\n", b"\r") if returns else (b"\n",))) + 1
        if not end:
            found = line_break.search(data, start + size)
            end = found.end() if found else len(data)
        elif data[end - 1 : end + 1] == b"\r\n":
            end += 1
        yield start, end
        start = end
    if start < len(data):
        yield start, len(data)


def statement_rows(data: bytes, quads: bool = False) -> list[Row]:
    """Statements of N-Triples or N-Quads, of which several may stand on one line."""
    try:
        return _rows((_QUAD_STATEMENT if quads else _STATEMENT).findall(data), quads, one_a_line=False)
    except BadData:
        check_lines(data, quads, one_a_line=False)
        raise


def _rows(
    found: list[tuple[bytes, ...]], quads: bool, one_a_line: bool, directives: Directives | None = None
) -> list[Row]:
    rows: list[Row] = []
    append = rows.append
    for s, p, o, g, rest in found:
        if s:
            append((s, p, o, g))
        elif rest:
            if directives is not None and (directed := directives.rows(rest)) is not None:
                rows.extend(directed)
                continue
            rows.extend(_LineReader(rest.decode(), 0, quads, one_a_line).rows())
    return rows


def _lines_before(whole: bytes, start: int) -> int:
    return sum(1 for _ in _LINE_BREAK.finditer(whole, 0, start))


def check_lines(
    data: bytes, quads: bool, one_a_line: bool = True, before: int = 0, directives: Directives | None = None
) -> None:
    """Raises what is wrong with the first line that is wrong, with its number; so many lines stand `before` them."""
    for number, line in enumerate(re.split("\r\n|\n|\r", data.decode()), start=before + 1):
        if directives is not None and directives.rows(line.encode(), number) is not None:
            continue
        for _ in _LineReader(line, number, quads, one_a_line).rows():
            pass


def careful_rows(line: bytes, number: int, quads: bool) -> list[Row]:
    """The statement of one line in canonical terms, or what is wrong with it, and where."""
    try:
        text = line.decode()
    except UnicodeDecodeError as error:
        message = f"the byte {line[error.start]:#04x} is no UTF-8 here"
        raise BadData(message, number, len(line[: error.start].decode()) + 1) from None
    rows = _LineReader(text, number, quads, one_a_line=True).rows()
    return [tuple(canonical(term) if term else term for term in row) for row in rows]  # type: ignore[misc]  # four each


def _check_utf8(piece: bytes, whole: bytes, start: int) -> None:
    try:
        piece.decode()
    except UnicodeDecodeError as error:
        lines = re.split(b"\r\n|\n|\r", piece[: error.start])
        message = f"the byte {piece[error.start]:#04x} is no UTF-8 here"
        raise BadData(message, _lines_before(whole, start) + len(lines), len(lines[-1].decode()) + 1) from None


class _LineReader:
    """One line, read term by term."""

    __slots__ = ("_at", "_number", "_one", "_quads", "_text")

    def __init__(self, text: str, number: int, quads: bool, one_a_line: bool) -> None:
        self._text, self._number, self._quads, self._one = text, number, quads, one_a_line
        self._at = 0

    def rows(self) -> Iterator[Row]:
        while not self._ended():
            s = self._resource("a subject")
            p = self._iri("a predicate") if self._next() == "<" else self._wrong("a predicate, which is an <IRI>")
            o = self._literal() if self._next() == '"' else self._resource("an object", "a literal")
            g = self._resource("a graph") if self._quads and self._next() in ("<", "_") else ""
            if self._next() != ".":
                self._wrong("'.' to end the statement" if g or not self._quads else "'.' or the <IRI> of a graph")
            self._at += 1
            yield s.encode(), p.encode(), o.encode(), g.encode()
            if self._one and not self._ended():
                self._fail("only one statement is allowed on a line: this is after the end of another")

    def _next(self) -> str:
        match = _BLANKS.match(self._text, self._at)
        assert match is not None  # it may match nothing
        self._at = match.end()
        return self._text[self._at : self._at + 1]

    def _ended(self) -> bool:
        return self._next() in ("", "#")

    def _fail(self, message: str, at: int | None = None) -> str:
        raise BadData(message, self._number, (self._at if at is None else at) + 1)

    def _wrong(self, expected: str) -> str:
        found = self._next()
        shown = f"'{found}'" if found else "the end of the line"
        return self._fail(f"expected {expected}, found {shown}")

    def _resource(self, what: str, also: str = "") -> str:
        sign = self._next()
        if sign == "<":
            return self._iri(what)
        if sign == "_":
            return self._blank()
        if sign == '"':
            self._fail(f"a literal cannot be {what}")
        return self._wrong(f"{what} (an <IRI>, a blank node _:label" + (f" or {also})" if also else ")"))

    def _blank(self) -> str:
        match = _LABEL.match(self._text, self._at)
        if match is None:
            return self._fail("a blank node is written _:label")
        self._at = match.end()
        return match[0]

    def _iri(self, what: str) -> str:
        start = self._at
        end = self._text.find(">", start)
        if end < 0:
            self._fail(f"the IRI of {what} that begins here is not closed with '>'")
        raw = self._text[start + 1 : end]
        # Escapes are blotted out, so that only a backslash that begins none is left.
        plain = _IRI_ESCAPE.sub(lambda escape: "_" * len(escape[0]), raw)
        bad = _IRI_FORBIDDEN.search(plain)
        if bad:
            self._fail(f"{bad[0]!r} is not allowed in an IRI", start + 1 + bad.start())
        value = self._unescape(raw, start + 1)
        if _IRI_FORBIDDEN.search(value):
            self._fail("an escape in this IRI is a character that is not allowed in an IRI")
        if not _SCHEME.match(value):
            self._fail(f"<{value}> is relative; N-Triples and N-Quads allow absolute IRIs only")
        self._at = end + 1
        return f"<{value}>"

    def _literal(self) -> str:
        start = self._at
        match = _STRING.match(self._text, start)
        if match is None:
            self._fail("the string that begins here is not closed")
        assert match is not None
        self._unescape(match[0][1:-1], start + 1)
        self._at = match.end()
        if self._text.startswith("@", self._at):
            language = _LANGUAGE.match(self._text, self._at)
            if language is None:
                self._fail("a language tag is letters, then '-' and letters or digits: @en-GB")
            assert language is not None
            self._at = language.end()
            return match[0] + language[0]
        if self._next() == "^" and self._text.startswith("^^", self._at):
            self._at += 2
            return match[0] + "^^" + (self._iri("a datatype") if self._next() == "<" else self._wrong("an <IRI>"))
        return match[0]

    def _unescape(self, text: str, start: int) -> str:
        try:
            return unescape(text)
        except BadEscape as error:
            return self._fail(str(error), start + error.start)
