"""Texts of the language to the algebra: a tokenizer and a recursive descent, no generated parser.

What is not in the grammar is rejected here, with line and column; what is, and the engine does not run, is rejected by
`plan/refused_syntax`. Nothing is ignored."""

from __future__ import annotations

import re

from stream_ext.errors import QuerySyntaxError
from stream_ext.language.algebra.statements import Unit
from stream_ext.language.syntax.cursor import Cursor
from stream_ext.language.syntax.tokens import Check
from stream_ext.language.syntax.units import unit

__all__ = ["Check", "parse"]


#: The default address of an endpoint, against which relative IRIs of a text resolve.
DEFAULT_BASE = "http://127.0.0.1:8000/"


def parse(text: str, base: str = DEFAULT_BASE, check: Check | None = None) -> Unit:
    """The algebra of `text`. Relative IRIs resolve against BASE, else against `base`. `check` is called again and again
    while a long text is read, and may raise to end it."""
    if not text.isascii():
        _check_characters(text)
    return unit(Cursor(text, base, check))


def _check_characters(text: str) -> None:
    """Half a surrogate pair is no character; nothing that is stored or sent could hold it."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        before = re.split("\r\n|\n|\r", text[: error.start])
        message = "half a surrogate pair is no character"
        raise QuerySyntaxError(message, text, len(before), len(before[-1]) + 1) from None
