"""Terms as SPARQL's JSON results write them."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from hbase_store.layout.terms import parse_term

_json = msgspec.json.Encoder().encode

#: An IRI or a literal in ASCII without escapes: its parts are the same in JSON.
_PARTS = rb"<([ !#-\[\]-~]*)>" rb'|"([ !#-\[\]-~]*)"(?:\^\^<([ !#-\[\]-~]+)>|@([A-Za-z0-9-]+))?'
_PLAIN = re.compile(_PARTS).fullmatch
#: Of many terms, one a line. The last part is a line that is anything else.
_PLAIN_LINES = re.compile(rb"^(?:" + _PARTS + rb"|(.*))$", re.MULTILINE).findall


def terms_json(texts: Sequence[bytes]) -> list[bytes]:
    """As `term_json` of each: their parts are found in one pass."""
    found = _PLAIN_LINES(b"\n".join(texts)) if len(texts) > 1 else []
    if len(found) != len(texts):  # a text has a line break of its own
        return [term_json(text) for text in texts]
    shown = []
    for text, (iri, value, datatype, language, _) in zip(texts, found, strict=True):
        if iri:
            shown.append(b'{"type":"uri","value":"%s"}' % iri)
        elif datatype:
            shown.append(b'{"type":"literal","datatype":"%s","value":"%s"}' % (datatype, value))
        elif value and not language:
            shown.append(b'{"type":"literal","value":"%s"}' % value)
        else:
            shown.append(term_json(text))
    return shown


def term_json(text: bytes) -> bytes:
    """A term as SPARQL's JSON results write it."""
    plain = _PLAIN(text)
    if plain is None:
        return _parsed_term_json(text)
    iri, value, datatype, language = plain.groups()
    if iri is not None:
        return b'{"type":"uri","value":"%s"}' % iri
    if datatype is not None:
        return b'{"type":"literal","datatype":"%s","value":"%s"}' % (datatype, value)
    if language is not None:
        return b'{"type":"literal","xml:lang":"%s","value":"%s"}' % (language, value)
    return b'{"type":"literal","value":"%s"}' % value


def _parsed_term_json(text: bytes) -> bytes:
    term = parse_term(text)
    if term.kind == "iri":
        return b'{"type":"uri","value":%s}' % _json(term.value)
    if term.kind == "blank":
        return b'{"type":"bnode","value":%s}' % _json(term.value)
    if term.language:
        return b'{"type":"literal","xml:lang":%s,"value":%s}' % (_json(term.language), _json(term.value))
    if term.datatype:
        return b'{"type":"literal","datatype":%s,"value":%s}' % (_json(term.datatype), _json(term.value))
    return b'{"type":"literal","value":%s}' % _json(term.value)
