"""From text to tokens: one compiled expression finds them all.

A token is its kind, its raw text and its offset. Line and column are worked out from offsets, and only when
someone asks: for an error, or for a part of the algebra that carries its position."""

from __future__ import annotations

import re
from bisect import bisect_right

from stream_ext.errors import QuerySyntaxError
from stream_ext.plan.algebra import Position

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

Token = tuple[str, str, int]  # kind, raw text, offset


class Source:
    """A text, its tokens, and where in it things stand."""

    __slots__ = ("_line_starts", "text", "tokens")

    def __init__(self, text: str) -> None:
        self.text = text
        self._line_starts: list[int] | None = None
        self.tokens: list[Token] = [
            (m.lastgroup, m[m.lastindex], m.start(m.lastindex))  # type: ignore[index, arg-type, misc]  # one group always matches
            for m in _TOKEN.finditer(text)
        ]
        # An empty text gives one end, others may give two: `finditer` looks once more at the end.

    def position(self, offset: int) -> Position:
        if self._line_starts is None:
            self._line_starts = [0, *(m.end() for m in _LINE_END.finditer(self.text))]
        line = bisect_right(self._line_starts, offset)
        return Position(line, offset - self._line_starts[line - 1] + 1)


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
        position = source.position(offset + match.start())
        shown = raw[match.start() : match.start() + (len(match[0]) if code else 2)]
        why = "is no character of Unicode" if code else r"is no escape; those there are: \t \b \n \r \f \" \' \\ \u \U"
        raise QuerySyntaxError(f"{shown} {why}", source.text, position.line, position.column)

    return _ESCAPE.sub(character, raw)


def string_value(source: Source, kind: str, raw: str, offset: int) -> str:
    """The lexical form that a string token writes."""
    width = 3 if kind == "long" else 1
    inner = raw[width:-width]
    return unescape(source, inner, offset + width) if "\\" in inner else inner
