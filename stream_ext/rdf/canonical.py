"""The one spelling of a term: few escapes, no ^^xsd:string, language tags in lower case."""

from __future__ import annotations

import re

from hbase_store.layout import terms

_STRING_SUFFIX = b"^^<http://www.w3.org/2001/XMLSchema#string>"
_SIMPLE = {"t": "\t", "b": "\b", "n": "\n", "r": "\r", "f": "\f", '"': '"', "'": "'", "\\": "\\"}
_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|([tbnrf\"'\\]))|\\", re.DOTALL)

_QUOTE, _GREATER = ord('"'), ord(">")


class BadEscape(ValueError):
    """An escape that stands for nothing; `start` is where in the text it begins."""

    def __init__(self, shown: str, start: int) -> None:
        self.start = start
        super().__init__(f"{shown} is not an escape sequence of N-Triples, or not a Unicode character")


def canonical(text: bytes) -> bytes:
    """`text` is a term as N-Triples may spell it, free of blanks around its parts."""
    if text[0] == _QUOTE:
        return text if _is_canonical_literal(text) else _canonical_literal(text)
    if b"\\" in text:
        return terms.iri(unescape(text[1:-1].decode()))
    return text


def _is_canonical_literal(text: bytes) -> bool:
    """Whether it surely is; literals with escapes are not looked at closely."""
    last = text[-1]
    if b"\\" in text:
        return False
    if last == _GREATER:
        return not text.endswith(_STRING_SUFFIX)
    return last == _QUOTE or text[text.rindex(b'"') :].islower()


def _canonical_literal(text: bytes) -> bytes:
    # Neither a language tag nor an IRI can hold a quote, so the last one ends the string.
    end = text.rindex(b'"')
    lexical, suffix = unescape(text[1:end].decode()), text[end + 1 :].decode()
    if suffix.startswith("@"):
        return terms.literal(lexical, language=suffix[1:].lower())
    if suffix:
        return terms.literal(lexical, datatype=unescape(suffix[3:-1]))
    return terms.literal(lexical)


def unescape(text: str) -> str:
    return _ESCAPE.sub(_character, text) if "\\" in text else text


def _character(match: re.Match[str]) -> str:
    code = match[1] or match[2]
    if code:
        value = int(code, 16)
        if value <= 0x10FFFF and not 0xD800 <= value <= 0xDFFF:
            return chr(value)
    elif match[3]:
        return _SIMPLE[match[3]]
    raise BadEscape(match[0] if code else match.string[match.start() : match.start() + 2], match.start())
