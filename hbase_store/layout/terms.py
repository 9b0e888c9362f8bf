"""Terms and ids: a term is its canonical N-Triples text, an id is a 64-bit number that stands for it.

The top four bits of an id (its tag) say how to find the text again. A small integer and a blank node carry
theirs in the id itself; every other term is looked up in the dictionary. Decoding gives back the very bytes
that were encoded: `"01"^^<xsd:integer>` equals 1 but is another term, so it goes to the dictionary."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from hbase_store.arrays import Ids
from hbase_store.errors import IdsExhausted

TAG_SHIFT = 60
DATA_MASK = (1 << TAG_SHIFT) - 1
#: LOCAL ids belong to one running query: terms that it made and that the store does not know.
DICTIONARY, INTEGER, BLANK, LOCAL = 0, 1, 8, 9
#: The id of "no term"; as a graph it is the default graph.
NO_TERM = 0
#: The tag of the predicate of a held edge: a copy of an edge of another store, in the graph in which it is there.
#: Held edges lie beside our own, and are read only by those who ask for them.
HELD = 10
HELD_BASE = HELD << TAG_SHIFT

# Added to an integer, so that ids sort as their values do.
_ZERO = 1 << (TAG_SHIFT - 1)
_INTEGER_BASE = INTEGER << TAG_SHIFT
_BLANK_BASE = BLANK << TAG_SHIFT

XSD_STRING = "http://www.w3.org/2001/XMLSchema#string"
LANG_STRING = "http://www.w3.org/1999/02/22-rdf-syntax-ns#langString"
_INTEGER_SUFFIX = b'"^^<http://www.w3.org/2001/XMLSchema#integer>'
_INTEGER_TEXT = re.compile(rb'"(0|-?[1-9][0-9]{0,17})' + re.escape(_INTEGER_SUFFIX))
_BLANK_TEXT = re.compile(rb"_:b(0|[1-9][0-9]{0,17})")


class Term(NamedTuple):
    kind: Literal["iri", "literal", "blank"]
    value: str
    language: str | None = None
    datatype: str | None = None


# ---- text

_IRI_FORBIDDEN = re.compile(r'[\x00-\x20<>"{}|^`\\]')
_LITERAL_ESCAPED = re.compile(r'["\\\n\r]')
_LITERAL_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r"}
_LANGUAGE = re.compile(r"[A-Za-z]+(-[A-Za-z0-9]+)*")
_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.))", re.DOTALL)
_UNESCAPES = {"t": "\t", "b": "\b", "n": "\n", "r": "\r", "f": "\f", '"': '"', "'": "'", "\\": "\\"}


def iri(value: str) -> bytes:
    """`http://ex/a` becomes `<http://ex/a>`; what N-Triples forbids in an IRI becomes a \\u escape."""
    if _IRI_FORBIDDEN.search(value):
        value = _IRI_FORBIDDEN.sub(lambda found: f"\\u{ord(found[0]):04X}", value)
    return f"<{value}>".encode()


def literal(lexical: str, language: str | None = None, datatype: str | None = None) -> bytes:
    if _LITERAL_ESCAPED.search(lexical):
        lexical = _LITERAL_ESCAPED.sub(lambda found: _LITERAL_ESCAPES[found[0]], lexical)
    quoted = f'"{lexical}"'.encode()
    if language is not None:
        if datatype is not None and datatype != LANG_STRING:
            raise ValueError(f"a literal has a language or a datatype, not both: @{language} and <{datatype}>")
        if not _LANGUAGE.fullmatch(language):
            raise ValueError(f"{language!r} is not a language tag")
        return quoted + b"@" + language.encode()
    if datatype is None or datatype == XSD_STRING:
        return quoted
    return quoted + b"^^" + iri(datatype)


def parse_term(text: bytes) -> Term:
    """The parts of a term; any escape that N-Triples knows is read, though only canonical text is written."""
    if text.startswith(b"<") and text.endswith(b">"):
        return Term("iri", _unescape(text[1:-1].decode()))
    if text.startswith(b"_:"):
        return Term("blank", text[2:].decode())
    end = text.rfind(b'"')
    if end < 1 or not text.startswith(b'"'):
        raise ValueError(f"{text!r} is not the N-Triples text of a term")
    value, suffix = _unescape(text[1:end].decode()), text[end + 1 :].decode()
    if not suffix:
        return Term("literal", value)
    if suffix.startswith("@"):
        return Term("literal", value, language=suffix[1:])
    if suffix.startswith("^^<") and suffix.endswith(">"):
        return Term("literal", value, datatype=_unescape(suffix[3:-1]))
    raise ValueError(f"{text!r} is not the N-Triples text of a term")


def _unescape(text: str) -> str:
    return _ESCAPE.sub(_unescaped, text) if "\\" in text else text


def _unescaped(found: re.Match[str]) -> str:
    code = found[1] or found[2]
    if code:
        return chr(int(code, 16))
    if found[3] not in _UNESCAPES:
        raise ValueError(f"{found[0]!r} is not an escape sequence of N-Triples")
    return _UNESCAPES[found[3]]


# ---- ids that carry their term


def inline_id(text: bytes) -> int:
    """The id of a term that needs no dictionary (a canonical integer within 60 bits, `_:b7`), or 0."""
    if text.endswith(_INTEGER_SUFFIX):
        if found := _INTEGER_TEXT.fullmatch(text):
            return integer_id(int(found[1]))
    elif text.startswith(b"_:") and (found := _BLANK_TEXT.fullmatch(text)):
        return blank_id(int(found[1]))
    return NO_TERM


def integer_id(value: int) -> int:
    """The id of `value` as a canonical xsd:integer; 0 if it does not fit into 60 bits."""
    return _INTEGER_BASE + _ZERO + value if -_ZERO <= value < _ZERO else NO_TERM


def integer_ids(values: npt.NDArray[np.int64]) -> Ids:
    """The ids of values that fit into 60 bits."""
    return (values + _ZERO).astype(np.uint64) + np.uint64(_INTEGER_BASE)


def blank_id(number: int) -> int:
    return _BLANK_BASE + number if 0 <= number <= DATA_MASK else NO_TERM


def inline_text(id: int) -> bytes:
    """The text of an id whose tag is not DICTIONARY."""
    tag, data = id >> TAG_SHIFT, id & DATA_MASK
    if tag == INTEGER:
        return b'"%d' % (data - _ZERO) + _INTEGER_SUFFIX
    if tag == BLANK:
        return b"_:b%d" % data
    raise ValueError(f"{id} has tag {tag}, which no version of this store has written")


def check_numbers(what: str, last: int) -> None:
    """`last` is the last of some numbers that were just taken for new terms or blank nodes."""
    if last > DATA_MASK:
        raise IdsExhausted(
            f"this store has used all {DATA_MASK} numbers for a {what}, and it never uses a number again: load its "
            "data into a new store (`rillet load`), which numbers only the terms that exist"
        )


def held(predicate: int) -> int:
    """The predicate under which the held edges of a predicate are stored; a predicate is a term of the dictionary."""
    return HELD_BASE | predicate


def is_held(predicates: Ids) -> npt.NDArray[np.bool_]:
    """Which predicates are those of held edges."""
    return predicates >= np.uint64(HELD_BASE)


def tag_of(ids: Ids) -> npt.NDArray[np.uint8]:
    return (ids >> np.uint64(TAG_SHIFT)).astype(np.uint8)


def inline_integers(ids: Ids) -> npt.NDArray[np.int64]:
    """The values of ids whose tag is INTEGER."""
    return (ids & np.uint64(DATA_MASK)).astype(np.int64) - _ZERO


def blank_ids(first: int, count: int) -> Ids:
    return np.arange(_BLANK_BASE + first, _BLANK_BASE + first + count, dtype=np.uint64)


_ENCODABLE = (b"<", b'"')


def check_encodable(texts: Iterable[bytes]) -> None:
    """Refuses labels of blank nodes of a document, which mean nothing outside of it: they need fresh ids."""
    for text in [text for text in texts if text[:1] not in _ENCODABLE]:
        if text.startswith(b"_:"):
            raise ValueError(
                f"{text.decode()} is a blank node label of a document; give the node an id with Batch.blanks()"
            )
        raise ValueError(f"{text!r} is not the N-Triples text of a term")
