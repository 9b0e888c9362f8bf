"""From text to tokens: one compiled expression finds them all.

A token is its kind, its raw text and its offset. Line and column are worked out from offsets, and only when
someone asks: for an error, or for a part of the algebra that carries its position."""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import NoReturn

from stream_ext.errors import QuerySyntaxError
from stream_ext.plan.terms import Position

_BASE = (
    "A-Za-z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u02ff\u0370-\u037d\u037f-\u1fff\u200c-\u200d\u2070-\u218f"
    "\u2c00-\u2fef\u3001-\ud7ff\uf900-\ufdcf\ufdf0-\ufffd\U00010000-\U000effff"
)
_U = _BASE + "_"
_CHARS = _U + "0-9\u00b7\u0300-\u036f\u203f-\u2040\\-"
_ESCAPED = r"%[0-9A-Fa-f]{2}|\\[_~.\-!$&'()*+,;=/?#@%]"
_PREFIX = f"[{_BASE}][{_CHARS}]*(?:\\.+[{_CHARS}]+)*"
_LOCAL = f"(?:[{_U}:0-9]|{_ESCAPED})(?:[{_CHARS}:]+|{_ESCAPED}|\\.+(?=[{_CHARS}:%\\\\]))*"

#: Kinds are the names of the groups. Longest first where one token can begin another; `bad` catches what is none.
_TOKEN = re.compile(
    "(?:[ \t\r\n]++|#[^\r\n]*+)*+(?:"
    f"(?P<var>[?$][{_U}0-9][{_U}0-9\u00b7\u0300-\u036f\u203f-\u2040]*)"
    f"|(?P<pname>(?:{_PREFIX})?:(?:{_LOCAL})?)"
    r'|(?P<iri><(?:[^\x00-\x20<>"{}|^`\\]++|\\u[0-9A-Fa-f]{4}|\\U[0-9A-Fa-f]{8})*+>)'
    f"|(?P<blank>_:[{_U}0-9](?:[{_CHARS}.]*[{_CHARS}])?)"
    "|(?P<word>[A-Za-z_][A-Za-z0-9_]*)"
    r'|(?P<long>"""(?:[^"\\]++|\\.|"{1,2}(?!"))*+"""'
    r"|'''(?:[^'\\]++|\\.|'{1,2}(?!'))*+''')"
    r'|(?P<string>"(?:[^"\\\r\n]++|\\[^\r\n])*+"'
    r"|'(?:[^'\\\r\n]++|\\[^\r\n])*+')"
    r"|(?P<double>(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)[eE][+-]?[0-9]+)"
    r"|(?P<decimal>[0-9]*\.[0-9]+)"
    "|(?P<integer>[0-9]+)"
    "|(?P<lang>@[A-Za-z]+(?:-[A-Za-z0-9]+)*)"
    r"|(?P<op>\^\^|&&|\|\||!=|<=|>=|[{}()\[\].;,=<>*/+\-!^|?@])"
    r"|(?P<end>\Z)"
    "|(?P<bad>.))",
    re.DOTALL,
)
_LINE_END = re.compile("\r\n|\n|\r")
_CODE_POINT = re.compile(r"\\u[0-9A-Fa-f]{4}|\\U[0-9A-Fa-f]{8}")

Token = tuple[str, str, int]  # kind, raw text, offset


class Source:
    """A text, its tokens, and where in it things stand."""

    __slots__ = ("_line_starts", "_shifts", "text", "tokens", "written")

    def __init__(self, text: str) -> None:
        self.written = text
        self.text = text  # `written` with the escapes outside of strings and IRIs resolved; offsets are of this one
        self._line_starts: list[int] | None = None
        self._shifts: list[tuple[int, int]] = []  # from this offset on, so many characters are missing
        self.tokens = _tokens(text)
        if "\\u" in text or "\\U" in text:
            self._resolve_escapes()

    def position(self, offset: int) -> Position:
        if self._shifts:
            offset += sum(missing for start, missing in self._shifts if start <= offset)
        if self._line_starts is None:
            self._line_starts = [0, *(m.end() for m in _LINE_END.finditer(self.written))]
        line = bisect_right(self._line_starts, offset)
        return Position(line, offset - self._line_starts[line - 1] + 1)

    def fail(self, message: str, offset: int) -> NoReturn:
        at = self.position(offset)
        raise QuerySyntaxError(message, self.written, at.line, at.column)

    def _resolve_escapes(self) -> None:
        """Outside of strings and IRIs an escape stands for a character of the grammar itself."""
        places = [at for kind, raw, at in self.tokens if kind == "bad" and raw == "\\"]
        escapes = [m for at in places if (m := _CODE_POINT.match(self.text, at))]
        if not escapes:
            return
        parts, end, length = [], 0, 0
        shifts: list[tuple[int, int]] = []
        for escape in escapes:
            parts += [self.text[end : escape.start()], unescape(self, escape[0], escape.start())]
            length += escape.start() - end + 1
            shifts.append((length, len(escape[0]) - 1))
            end = escape.end()
        self.text = "".join([*parts, self.text[end:]])
        self._shifts = shifts
        self.tokens = _tokens(self.text)


def _tokens(text: str) -> list[Token]:
    # An empty text gives one end, others may give two: `finditer` looks once more at the end.
    return [
        (m.lastgroup, m[m.lastindex], m.start(m.lastindex))  # type: ignore[index, arg-type, misc]  # one group always matches
        for m in _TOKEN.finditer(text)
    ]


_SIMPLE = {"t": "\t", "b": "\b", "n": "\n", "r": "\r", "f": "\f", '"': '"', "'": "'", "\\": "\\"}
_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|([tbnrf\"'\\]))|\\", re.DOTALL)


def unescape(source: Source, raw: str, offset: int) -> str:
    """The characters that `raw` (which begins at `offset`) stands for; an escape that is none is an error there."""

    def character(match: re.Match[str]) -> str:
        code = match[1] or match[2]
        if code:
            value = int(code, 16)
            if value <= 0x10FFFF and not 0xD800 <= value <= 0xDFFF:
                return chr(value)
        elif match[3]:
            return _SIMPLE[match[3]]
        shown = raw[match.start() : match.start() + (len(match[0]) if code else 2)]
        why = "is no character of Unicode" if code else r"is no escape; those there are: \t \b \n \r \f \" \' \\ \u \U"
        return source.fail(f"{shown} {why}", offset + match.start())

    return _ESCAPE.sub(character, raw)


def string_value(source: Source, kind: str, raw: str, offset: int) -> str:
    """The lexical form that a string token writes."""
    width = 3 if kind == "long" else 1
    inner = raw[width:-width]
    return unescape(source, inner, offset + width) if "\\" in inner else inner
