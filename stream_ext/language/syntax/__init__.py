"""Texts of the language to the algebra: a tokenizer and a recursive descent, no generated parser.

A text is run as written, or rejected with an error that names the syntax, line and column; nothing is ignored."""

from __future__ import annotations

import re
from functools import lru_cache
from weakref import WeakValueDictionary

from stream_ext.errors import QuerySyntaxError
from stream_ext.language.algebra.algebra import Unit
from stream_ext.language.syntax.cursor import Cursor
from stream_ext.language.syntax.tokens import Check
from stream_ext.language.syntax.units import unit

__all__ = ["Check", "parse", "parse_again"]


#: The default address of an endpoint, against which relative IRIs of a text resolve.
DEFAULT_BASE = "http://127.0.0.1:8000/"


def parse(text: str, base: str = DEFAULT_BASE, check: Check | None = None) -> Unit:
    """The algebra of `text`. Relative IRIs resolve against BASE, else against `base`. `check` is called again and again
    while a long text is read, and may raise to end it."""
    if not text.isascii():
        _check_characters(text)
    return unit(Cursor(text, base, check))


def parse_again(text: str, base: str, check: Check | None = None) -> Unit:
    """As `parse`, for texts that are parsed again and again. The result, an immutable value, is remembered: that of a
    short text in a cache, that of a long one as long as it is in use, for one request needs it more than once."""
    if len(text) <= _REMEMBERED_CHARACTERS:
        return _remembered(text, base)
    known = _in_use.get((text, base))
    if known is None:
        known = _in_use[text, base] = parse(text, base, check)
    return known


_remembered = lru_cache(maxsize=256)(parse)
_in_use: WeakValueDictionary[tuple[str, str], Unit] = WeakValueDictionary()
_REMEMBERED_CHARACTERS = 10_000  # updates with data are long, and come once


def _check_characters(text: str) -> None:
    """Half a surrogate pair is no character; nothing that is stored or sent could hold it."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        before = re.split("\r\n|\n|\r", text[: error.start])
        message = "half a surrogate pair is no character"
        raise QuerySyntaxError(message, text, len(before), len(before[-1]) + 1) from None
