"""From text to tokens: one compiled expression finds them all.

A token is its kind, its raw text and its offset. Line and column are computed from offsets when they are needed: for
an error, or for a part of the algebra that carries its position."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator
from itertools import islice
from operator import itemgetter
from typing import Any, Final, NoReturn

from stream_ext.errors import QuerySyntaxError
from stream_ext.language.algebra.terms import Position

_LETTERS = (
    "\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u02ff\u0370-\u037d\u037f-\u1fff\u200c-\u200d\u2070-\u218f"
    "\u2c00-\u2fef\u3001-\ud7ff\uf900-\ufdcf\ufdf0-\ufffd\U00010000-\U000effff"
)
_MARKS = "\u00b7\u0300-\u036f\u203f-\u2040"
_ESCAPED = r"%[0-9A-Fa-f]{2}|\\[_~.\-!$&'()*+,;=/?#@%]"
#: The kinds of tokens, in the order of the groups below.
_NAMES = "none var pname iri blank word long string double decimal integer lang op end bad"  # groups count from 1
KINDS: Final = tuple(_NAMES.split())


_PREFIX_DOTS_MAX = 32


def _token_expression(letters: str, marks: str) -> re.Pattern[str]:
    """Longest first where one token can begin another; `bad` catches what is none. Quantifiers give nothing back
    (`++`, `*+`): a name that is followed by the wrong character is none, whatever its length."""
    names = f"{letters}A-Za-z_0-9{marks}"
    # A name with so many dots is none: each word of `a.b.c. ...` would look for the colon behind the last.
    prefix = f"[{letters}A-Za-z][{names}\\-]*+(?:\\.+[{names}\\-]++){{0,{_PREFIX_DOTS_MAX}}}+"
    local = f"(?:[{letters}A-Za-z_:0-9]|{_ESCAPED})(?:[{names}:\\-]++|{_ESCAPED}|\\.+(?=[{names}\\-:%\\\\]))*+"
    return re.compile(
        "(?:[ \t\r\n]++|#[^\r\n]*+)*+(?:"
        f"([?$][{letters}A-Za-z_0-9][{names}]*+)"
        f"|((?:{prefix})?+:(?:{local})?+)"
        r'|(<(?:[^\x00-\x20<>"{}|^`\\]++|\\u[0-9A-Fa-f]{4}|\\U[0-9A-Fa-f]{8})*+>)'
        f"|(_:[{letters}A-Za-z_0-9](?:[{names}.\\-]*[{names}\\-])?)"
        "|([A-Za-z_][A-Za-z0-9_]*+)"
        r'|("""(?:[^"\\]++|\\.|"{1,2}(?!"))*+"""'
        r"|'''(?:[^'\\]++|\\.|'{1,2}(?!'))*+''')"
        r'|("(?:[^"\\\r\n]++|\\[^\r\n])*+"'
        r"|'(?:[^'\\\r\n]++|\\[^\r\n])*+')"
        r"|((?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)[eE][+-]?[0-9]+)"
        r"|([0-9]*\.[0-9]+)"
        "|([0-9]++)"
        "|(@[A-Za-z]+(?:-[A-Za-z0-9]+)*)"
        r"|(\^\^|&&|\|\||!=|<=|>=|[{}()\[\].;,=<>*/+\-!^|?@])"
        r"|(\Z)"
        "|(.))",
        re.DOTALL,
    )


#: Most texts are ASCII, and an expression without the rest of Unicode takes half the time.
_ASCII_TOKEN: Final = _token_expression("", "")
_TOKEN: Final = _token_expression(_LETTERS, _MARKS)
_LINE_END = re.compile("\r\n|\n|\r")
#: Texts up to this are searched for line ends each time someone asks; longer ones keep a list of them.
_SHORT = 4000
_CODE_POINT = re.compile(r"\\u[0-9A-Fa-f]{4}|\\U[0-9A-Fa-f]{8}")

Token = tuple[str, str, int]  # kind, raw text, offset
#: Raises if parsing was cancelled.
Check = Callable[[], None]

#: A text of so many characters is read in less time than anyone gives it.
_LONG = 1 << 14
_CHECKED_EVERY = 1 << 11


class SourceText:
    """A text, its tokens, and where in it things stand."""

    __slots__ = ("_check", "_line_starts", "_shifts", "text", "tokens", "written")

    def __init__(self, text: str, check: Check | None = None) -> None:
        self._check = check if len(text) > _LONG else None
        self.written = text
        self.text = text  # `written` with the escapes outside of strings and IRIs resolved; offsets are of this one
        self._line_starts: list[int] | None = None
        self._shifts: list[tuple[int, int]] = []  # from this offset on, so many characters are missing altogether
        self.tokens = self._found(text)
        if "\\u" in text or "\\U" in text:
            self._resolve_escapes()

    def _found(self, text: str) -> list[Token]:
        return _tokens(text) if self._check is None else CancellableTokens(text, self._check)

    def position(self, offset: int) -> Position:
        if self._shifts:
            before = bisect_right(self._shifts, offset, key=itemgetter(0))
            offset += self._shifts[before - 1][1] if before else 0
        if self._line_starts is None:
            if len(self.written) < _SHORT and "\r" not in self.written:
                before = self.written.rfind("\n", 0, offset) + 1
                return Position(self.written.count("\n", 0, before) + 1, offset - before + 1)
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
        parts, end, length, missing = [], 0, 0, 0
        shifts: list[tuple[int, int]] = []
        for escape in escapes:
            parts += [self.text[end : escape.start()], unescape(self, escape[0], escape.start())]
            length += escape.start() - end + 1
            missing += len(escape[0]) - 1
            shifts.append((length, missing))
            end = escape.end()
        self.text = "".join([*parts, self.text[end:]])
        self._shifts = shifts
        self.tokens = self._found(self.text)


def matches(text: str, start: int = 0) -> Iterator[re.Match[str]]:
    """The tokens from an offset on, where one begins. The number of the group that matched is the place of its kind in
    KINDS."""
    # An empty text gives one end, others may give two: `finditer` looks once more at the end.
    return (_ASCII_TOKEN if text.isascii() else _TOKEN).finditer(text, start)


def _tokens(text: str) -> list[Token]:
    return [(KINDS[i := m.lastindex or 0], m[i], m.start(i)) for m in matches(text)]


class CancellableTokens(list[Token]):
    """The tokens of a long text, with a `check` for cancellation while they are found and read."""

    __slots__ = ("_check", "_until")

    def __init__(self, text: str, check: Check) -> None:
        self._check, self._until = check, 0
        found = matches(text)
        while some := [(KINDS[i := m.lastindex or 0], m[i], m.start(i)) for m in islice(found, _CHECKED_EVERY)]:
            check()
            self += some

    def __getitem__(self, index: Any) -> Any:
        if index >= self._until:
            self._until = index + _CHECKED_EVERY
            self._check()
        return super().__getitem__(index)


_SIMPLE = {"t": "\t", "b": "\b", "n": "\n", "r": "\r", "f": "\f", '"': '"', "'": "'", "\\": "\\"}
_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|([tbnrf\"'\\]))|\\", re.DOTALL)


def unescape(source: SourceText, raw: str, offset: int) -> str:
    """A string or IRI with its escapes replaced; `raw` begins at `offset` in the text, where errors are reported."""

    def character(match: re.Match[str]) -> str:
        code = match[1] or match[2]
        if code:
            value = int(code, 16)
            if value <= 0x10FFFF and not 0xD800 <= value <= 0xDFFF:
                return chr(value)
        elif match[3]:
            return _SIMPLE[match[3]]
        shown = raw[match.start() : match.start() + (len(match[0]) if code else 2)]
        why = "is not a Unicode character" if code else r"is no escape; those there are: \t \b \n \r \f \" \' \\ \u \U"
        return source.fail(f"{shown} {why}", offset + match.start())

    return _ESCAPE.sub(character, raw)


def string_value(source: SourceText, kind: str, raw: str, offset: int) -> str:
    """The lexical form that a string token writes."""
    width = 3 if kind == "long" else 1
    inner = raw[width:-width]
    return unescape(source, inner, offset + width) if "\\" in inner else inner
