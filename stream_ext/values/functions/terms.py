"""Functions on terms (SPARQL 1.1, 17.4.2): what a term is, its parts, and terms made from parts."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from hbase_store.layout.terms import LANG_STRING, XSD_STRING, iri, literal, parse_term
from stream_ext.evaluation_budget import Control
from stream_ext.rdf.iris import is_absolute, resolve
from stream_ext.values.values import Resource, Value, is_number

_STRING = Resource(iri(XSD_STRING))
_LANG_STRING = Resource(iri(LANG_STRING))
_FORBIDDEN_IN_IRI = frozenset('<>"{}|^`\\') | {chr(code) for code in range(0x21)}


@lru_cache(maxsize=256)
def _resource(text: bytes) -> Resource:
    return Resource(text)  # the same few datatypes again and again


def is_iri(text: bytes | None) -> bool | None:
    return None if text is None else text.startswith(b"<")


def is_blank(text: bytes | None) -> bool | None:
    return None if text is None else text.startswith(b"_:")


def is_literal(text: bytes | None) -> bool | None:
    return None if text is None else text.startswith(b'"')


def is_numeric(value: Value | None) -> bool | None:
    return None if value is None else is_number(value)


def same_term(left: bytes | None, right: bytes | None) -> bool | None:
    return None if left is None or right is None else left == right


def str_(text: bytes | None) -> str | None:
    if text is None or text.startswith(b"_:"):
        return None
    if text.endswith((b'"', b">")) and (text.startswith(b"<") or text.endswith(b'"')) and b"\\" not in text:
        return text[1:-1].decode()  # nothing to be read but brackets or quotes
    return parse_term(text).value


def lang(text: bytes | None) -> str | None:
    if text is None or not text.startswith(b'"'):
        return None
    return "" if text.endswith((b'"', b">")) else text[text.rindex(b'"@') + 2 :].decode()


def datatype(text: bytes | None) -> Resource | None:
    if text is None or not text.startswith(b'"'):
        return None
    if text.endswith(b">"):
        return _resource(text[text.rindex(b'"^^') + 3 :])
    return _STRING if text.endswith(b'"') else _LANG_STRING


def strdt_within(control: Control) -> Callable[[Value | None, Value | None], bytes | None]:
    def strdt(lexical: Value | None, datatype: Value | None) -> bytes | None:
        if not isinstance(lexical, str) or not isinstance(datatype, Resource) or not is_iri(datatype.text):
            return None
        if datatype == _LANG_STRING:  # its literals have a language
            return None
        control.term(len(lexical) + len(datatype.text))
        return literal(lexical, datatype=parse_term(datatype.text).value)

    return strdt


def strlang_within(control: Control) -> Callable[[Value | None, Value | None], bytes | None]:
    def strlang(lexical: Value | None, language: Value | None) -> bytes | None:
        if not isinstance(lexical, str) or not isinstance(language, str):
            return None
        control.term(len(lexical) + len(language))
        try:
            return literal(lexical, language)
        except ValueError:  # no language tag: an error of SPARQL
            return None

    return strlang


def iri_within(base: str, control: Control) -> Callable[[Value | None], Resource | None]:
    def iri_of(value: Value | None) -> Resource | None:
        if isinstance(value, Resource):
            return value if is_iri(value.text) else None
        if not isinstance(value, str) or not _FORBIDDEN_IN_IRI.isdisjoint(value):
            return None
        control.term(len(value) + len(base))
        resolved = resolve(value, base)
        return Resource(iri(resolved)) if is_absolute(resolved) else None

    return iri_of
