"""Documents that are small, and expand: each by another means of its form."""

from __future__ import annotations

import json
from itertools import pairwise

TTL, TRIG = "text/turtle", "application/trig"
XML, JSON_LD = "application/rdf+xml", "application/ld+json"

_LONG = "a" * 200_000
_LONG_IRI = f"http://e/{_LONG}".encode()
_RDF = b'<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:e="http://e/"'


def entities(declared: bytes, content: bytes) -> bytes:
    """An RDF/XML document of one triple, with these entities and this value."""
    node = b'<rdf:Description rdf:about="a:x"><e:p>' + content + b"</e:p></rdf:Description>"
    return b"<!DOCTYPE rdf:RDF [" + declared + b"]>" + _RDF + b">" + node + b"</rdf:RDF>"


def _json(value: object) -> bytes:
    return json.dumps(value).encode()


_LETTERS = b"abcdefghij"
_TENFOLD = b"".join(b'<!ENTITY %c "%s">' % (letter, b"&%c;" % before * 10) for before, letter in pairwise(_LETTERS))
#: Ten to the tenth letters in some 600 bytes.
LAUGHS = entities(b'<!ENTITY a "aaaaaaaaaa">' + _TENFOLD, b"&j;")
_TERMS = {f"t{i}": f"http://e/{i}" for i in range(5_000)}

#: What takes more memory to parse than a document of its length may.
OF_MEMORY = {
    "entities of entities": (XML, LAUGHS),
    "one entity in one literal": (XML, entities(b'<!ENTITY b "' + b"x" * 6_000 + b'">', b"&b;" * 300_000)),
    "a long vocabulary in one object": (
        JSON_LD,
        _json({"@context": {"@vocab": f"http://e/{_LONG}"}, **{f"p{i}": i for i in range(20_000)}}),
    ),
    "nodes in nodes": (TTL, b"<a:a> <a:a> " + b"[<a:a> " * 1_500_000),
}
#: What expands while it is parsed.
OF_IRIS = {
    "a long prefix": (TTL, b"@prefix e: <%b> .\n" % _LONG_IRI + b"".join(b"e:%d e:a e:a .\n" % i for i in range(999))),
    "a long base": (TTL, b"@base <%b/> .\n" % _LONG_IRI + b"".join(b"<%d> <> <> .\n" % i for i in range(999))),
    "a long subject": (TTL, b"<%b> <a:p> " % _LONG_IRI + b",".join(b"%d" % i for i in range(999)) + b" ."),
    "a long datatype": (TTL, b"@prefix e: <%b> .\n<a:s> <a:p> " % _LONG_IRI + b",".join([b'""^^e:t'] * 999) + b" ."),
    "a long graph": (TRIG, b"<%b> {" % _LONG_IRI + b"".join(b"<a:%d> <a:p> 1 ." % i for i in range(999)) + b"}"),
    "a long namespace": (
        XML,
        _RDF
        + b' xmlns:f="%b">' % _LONG_IRI
        + b'<rdf:Description rdf:about="a:x"><f:p>b</f:p></rdf:Description>' * 999
        + b"</rdf:RDF>",
    ),
    "a long vocabulary": (
        JSON_LD,
        _json({"@context": {"@vocab": f"http://e/{_LONG}"}, "@graph": [{"@id": "a:x", "p": i} for i in range(999)]}),
    ),
}
#: What takes any time.
OF_TIME = {
    "a context in each node": (
        JSON_LD,
        _json({"@graph": [{"@context": {"p": "a:p"}, "p": i} for i in range(9_000)], "@context": _TERMS}),
    ),
    "a context in a term": (
        JSON_LD,
        _json(
            {"@context": {"p": {"@id": "a:p", "@context": _TERMS}}, "@graph": [{"p": {"t1": i}} for i in range(3_000)]}
        ),
    ),
}
