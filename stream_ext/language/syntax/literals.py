"""Literals: strings with their language or datatype, numbers with their sign, booleans."""

from __future__ import annotations

from hbase_store.layout import terms
from stream_ext.language.algebra.algebra import Constant
from stream_ext.language.syntax.cursor import Cursor
from stream_ext.language.syntax.tokens import string_value
from stream_ext.language.syntax.words import XSD

NUMBERS = frozenset({"integer", "decimal", "double"})
STRINGS = frozenset({"string", "long"})
_BOOLEANS = {"true": Constant(terms.literal("true", datatype=XSD + "boolean"))}
_BOOLEANS["false"] = Constant(terms.literal("false", datatype=XSD + "boolean"))


def signed_number_here(cursor: Cursor) -> bool:
    """Whether a sign stands here with its number directly behind: one token in the grammar of SPARQL."""
    if cursor.raw not in ("+", "-") or cursor.kind != "op":
        return False
    kind, _, offset = cursor.peek()
    return kind in NUMBERS and offset == cursor.offset + 1


def literal_here(cursor: Cursor) -> Constant | None:
    """The literal here, moved past; None where something else stands."""
    kind = cursor.kind
    if kind in STRINGS:
        return _string(cursor)
    if kind in NUMBERS:
        return _number(cursor, "")
    if kind == "word" and cursor.raw.lower() in _BOOLEANS:
        constant = _BOOLEANS[cursor.raw.lower()]
        cursor.advance()
        return constant
    if signed_number_here(cursor):
        sign = cursor.raw
        cursor.advance()
        return _number(cursor, sign)
    return None


def _number(cursor: Cursor, sign: str) -> Constant:
    constant = Constant(terms.literal(sign + cursor.raw, datatype=XSD + cursor.kind))
    cursor.advance()
    return constant


def _string(cursor: Cursor) -> Constant:
    value = string_value(cursor.source, cursor.kind, cursor.raw, cursor.offset)
    cursor.advance()
    if cursor.kind == "lang":
        language = cursor.raw[1:].lower()  # as RDF 1.1 allows: their value is the same in any case
        cursor.advance()
        return Constant(terms.literal(value, language=language))
    if cursor.take("^^"):
        if cursor.kind not in ("iri", "pname"):
            cursor.expected("the IRI of a datatype after '^^'")
        return Constant(terms.literal(value, datatype=cursor.iri()))
    return Constant(terms.literal(value))
