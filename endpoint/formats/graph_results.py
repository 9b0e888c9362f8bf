"""Graphs as text: Turtle, N-Triples, RDF/XML, JSON-LD, TriG, N-Quads, from batches of rows (s, p, o[, g]).

As in `results` a writer is a generator of pieces. Consecutive rows with one subject are written together. In a graph
of several batches a subject may be written several times, which all of these formats allow."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from operator import itemgetter

import msgspec

from endpoint.formats.results import Batches, xml_attribute, xml_text
from endpoint.negotiation import Offer
from hbase_store.layout.terms import parse_term
from stream_ext.errors import NotAcceptable
from stream_ext.oneshot.answers import Decoded

Row = tuple[bytes, ...]

_RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
_TYPE = f"<{_RDF}type>".encode()
#: The longest end of an IRI that is a name in XML, with a namespace left before it.
_FIRST = (
    "A-Z_a-z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u02ff\u0370-\u037d\u037f-\u1fff\u200c-\u200d\u2070-\u218f"
    "\u2c00-\u2fef\u3001-\ud7ff\uf900-\ufdcf\ufdf0-\ufffd\U00010000-\U000effff"
)
_LOCAL_NAME = re.compile(f"[{_FIRST}][-.0-9\u00b7\u0300-\u036f\u203f-\u2040{_FIRST}]*\\Z")

#: Under a wildcard the first is chosen. Some clients ask for the plain types, and get them as the Content-Type.
TRIPLES = (
    Offer("text/turtle", "turtle"),
    Offer("application/n-triples", "nt"),
    Offer("application/rdf+xml", "xml"),
    Offer("application/ld+json", "json-ld"),
    Offer("application/trig", "turtle"),
    Offer("application/n-quads", "nt"),
    Offer("text/n3", "turtle"),
    Offer("application/json", "json-ld"),
    Offer("application/xml", "xml"),
    Offer("text/plain", "nt"),
)

#: The formats of a whole dataset.
QUADS = (
    Offer("application/trig", "trig"),
    Offer("application/n-quads", "nq"),
    Offer("application/ld+json", "json-ld"),
)


def write(format: str, batches: Batches) -> Iterator[bytes]:
    return WRITERS[format](batches)


def _rows(batch: Decoded) -> Iterator[Row]:
    """The rows as texts; an unbound graph is the default graph, b""."""
    texts = [text or b"" for text in batch.texts]
    return zip(*([texts[place] for place in column] for column in batch.columns), strict=True)


# ---- lines ----


def write_lines(batches: Batches) -> Iterator[bytes]:
    """N-Triples, or N-Quads for rows of four: the text of a term is its form in N-Triples."""
    for batch in batches:
        yield b"".join(map(_line, _rows(batch)))
    yield b""


def _line(row: Row) -> bytes:
    return b"%s .\n" % b" ".join(filter(None, row))


# ---- Turtle and TriG ----


#: Literals that Turtle writes without quotes and datatype: 30, 4.5, true.
_PLAIN = re.compile(
    rb'"(?:([+-]?[0-9]+)"\^\^<%b#integer|([+-]?[0-9]*\.[0-9]+)"\^\^<%b#decimal|(true|false)"\^\^<%b#boolean)>'
    % ((rb"http://www\.w3\.org/2001/XMLSchema",) * 3)
)


def write_turtle(batches: Batches) -> Iterator[bytes]:
    for batch in map(_plainly, batches):
        yield b"\n".join(map(_subject, *_grouped(_rows(batch))))
    yield b""


def write_trig(batches: Batches) -> Iterator[bytes]:
    for batch in map(_plainly, batches):
        for graph, rows in groupby(_rows(batch), itemgetter(3)):
            block = b"\n".join(map(_subject, *_grouped(rows)))
            yield b"%s {\n%s}\n" % (graph, block) if graph else block
    yield b""


def _plainly(batch: Decoded) -> Decoded:
    return batch._replace(texts=[text and _plain(text) for text in batch.texts])


def _plain(text: bytes) -> bytes:
    found = _PLAIN.fullmatch(text)
    return text if found is None else found[found.lastindex or 0]


def _grouped(rows: Iterable[Row]) -> tuple[list[bytes], list[list[Row]]]:
    """The subjects in the order of their first rows, each with its rows."""
    found: dict[bytes, list[Row]] = {}
    for row in rows:
        found.setdefault(row[0], []).append(row)
    return list(found), list(found.values())


def _subject(subject: bytes, rows: list[Row]) -> bytes:
    """`<s> a <c> ;`, then its other predicates, one on each line."""
    objects: dict[bytes, list[bytes]] = {}
    for row in rows:
        objects.setdefault(row[1], []).append(row[2])
    verbs = [b"%s %s" % (b"a" if p == _TYPE else p, b", ".join(o)) for p, o in objects.items()]
    return b"%s %s .\n" % (subject, b" ;\n    ".join(verbs))


# ---- RDF/XML ----

_XML_HEAD = f'<?xml version="1.0" encoding="UTF-8"?>\n<rdf:RDF xmlns:rdf="{_RDF}">\n'.encode()


def write_xml(batches: Batches) -> Iterator[bytes]:
    before = _XML_HEAD
    for batch in batches:
        yield before + "".join(map(_xml_subject, *_grouped(_rows(batch)))).encode()
        before = b""
    yield before + b"</rdf:RDF>\n"


def _xml_subject(subject: bytes, rows: list[Row]) -> str:
    properties = "".join(_xml_property(row[1], row[2]) for row in rows)
    return f"<rdf:Description {_xml_node(subject, 'about')}>\n{properties}</rdf:Description>\n"


def _xml_node(text: bytes, attribute: str) -> str:
    term = parse_term(text)
    return f'rdf:{"nodeID" if term.kind == "blank" else attribute}="{xml_attribute(xml_text(term.value))}"'


def _xml_property(predicate: bytes, text: bytes) -> str:
    iri = parse_term(predicate).value
    local = _LOCAL_NAME.search(iri)
    if local is None:
        raise NotAcceptable(
            f"RDF/XML cannot express the predicate <{iri}>: its IRI does not end in a name; request text/turtle"
        )
    name, namespace = local[0], xml_attribute(xml_text(iri[: local.start()]))
    opened, closed = f'  <p:{name} xmlns:p="{namespace}"', f"</p:{name}>\n"
    term = parse_term(text)
    if term.kind != "literal":
        return f"{opened} {_xml_node(text, 'resource')}/>\n"
    if term.language:
        opened += f' xml:lang="{xml_attribute(term.language)}"'
    elif term.datatype:
        opened += f' rdf:datatype="{xml_attribute(xml_text(term.datatype))}"'
    return f"{opened}>{xml_text(term.value)}{closed}"


# ---- JSON-LD: expanded, so that nothing has to be known before the first object ----


def write_json_ld(batches: Batches) -> Iterator[bytes]:
    before = b"["
    for batch in batches:
        nodes = [_json_graph(g, list(rows)) for g, rows in groupby(_rows(batch), lambda row: row[3:])]
        yield before + b",\n".join(nodes)
        before = b",\n"
    yield (b"[" if before == b"[" else b"") + b"]\n"


def _json_graph(graph: Row, rows: list[Row]) -> bytes:
    nodes = list(map(_json_subject, *_grouped(rows)))
    if not any(graph):
        return b",\n".join(map(msgspec.json.encode, nodes))
    return msgspec.json.encode({"@id": _json_id(graph[0]), "@graph": nodes})


def _json_subject(subject: bytes, rows: list[Row]) -> dict[str, object]:
    node: dict[str, object] = {"@id": _json_id(subject)}
    objects: dict[bytes, list[bytes]] = {}
    for row in rows:
        objects.setdefault(row[1], []).append(row[2])
    for predicate, values in objects.items():
        node[parse_term(predicate).value] = list(map(_json_object, values))
    return node


def _json_id(text: bytes) -> str:
    return text.decode() if text.startswith(b"_:") else parse_term(text).value


def _json_object(text: bytes) -> dict[str, str]:
    term = parse_term(text)
    if term.kind != "literal":
        return {"@id": _json_id(text)}
    if term.language:
        return {"@value": term.value, "@language": term.language}
    return {"@value": term.value, **({"@type": term.datatype} if term.datatype else {})}


WRITERS: dict[str, Callable[[Batches], Iterator[bytes]]] = {
    "turtle": write_turtle,
    "nt": write_lines,
    "xml": write_xml,
    "json-ld": write_json_ld,
    "trig": write_trig,
    "nq": write_lines,
}
