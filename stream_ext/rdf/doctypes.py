"""The document type before an RDF/XML document: entities of its own are read, and none that lie elsewhere.

    <!DOCTYPE rdf:RDF [ <!ENTITY owl "http://www.w3.org/2002/07/owl#"> ]>      is read
    <!DOCTYPE rdf:RDF [ <!ENTITY file SYSTEM "file:///etc/passwd"> ]>          is refused
    <!DOCTYPE rdf:RDF [ <!ENTITY % more "..."> %more; ]>                       is refused

A document type that itself lies elsewhere (<!DOCTYPE rdf:RDF SYSTEM "...">) is never fetched."""

from __future__ import annotations

import re

from stream_ext.errors import BadData

#: A document type is looked for, and through, in so many bytes.
_LOOKED_THROUGH_BYTES = 1 << 20
_BEFORE = rb"(?:\xef\xbb\xbf)?+(?:\s++|<\?(?:[^?]++|\?(?!>))*+\?>|<!--(?:[^-]++|-(?!->))*+-->)*+"
_DOCTYPE = re.compile(_BEFORE + rb"<!DOCTYPE\b", re.IGNORECASE)
_COMMENT = rb"<!--(?:[^-]++|-(?!->))*+-->"
_VALUE = rb"\"[^\"]*+\"|'[^']*+'"
#: In the brackets: comments and values are passed over, and what is refused is found.
_INNER = re.compile(
    rb"%b|<!ENTITY\s++(?P<percent>%%\s++)?+(?P<name>[^\s\"'>]++)\s++(?P<elsewhere>SYSTEM|PUBLIC)?+|%b"
    rb"|%%(?P<reference>[A-Za-z_:][^\s;\"'<>\[\]]*+);|(?P<end>\])" % (_COMMENT, _VALUE),
    re.IGNORECASE,
)


def declares(data: bytes) -> bool:
    """Whether it may declare entities: also one that is written in another encoding."""
    return b"\0" in data or b"<!entity" in data.lower()


def check_doctype(data: bytes) -> None:
    """BadData, if entities lie elsewhere. `data`: the document, or its beginning."""
    data = data[:_LOOKED_THROUGH_BYTES]
    found = _DOCTYPE.match(data)
    begin = data.find(b"[", found.end()) if found else -1
    if found is None or begin < 0 or b">" in data[found.end() : begin]:
        return
    for part in _INNER.finditer(data, begin + 1):
        if part["end"]:
            return
        if part["elsewhere"]:
            _refuse(
                data,
                part.start(),
                f"the entity {_shown(part['name'])} is defined outside the document: {_shown(part['elsewhere'])}",
            )
        if part["percent"]:
            _refuse(data, part.start(), f"%{_shown(part['name'])} is a parameter entity")
        if part["reference"]:
            _refuse(data, part.start(), f"%{_shown(part['reference'])}; refers to a parameter entity")


def _refuse(data: bytes, start: int, what: str) -> None:
    before = data[:start]
    column = start - before.rfind(b"\n")
    message = f'{what}; entities outside the document are not fetched: write the value itself, <!ENTITY name "value">'
    raise BadData(message, before.count(b"\n") + 1, column)


def _shown(text: bytes) -> str:
    return text[:60].decode(errors="replace")
