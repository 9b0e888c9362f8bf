"""The W3C's tests of its protocols: requests that a manifest describes, sent as they stand, and what must come back.

http.client sends a path and a body as they are; friendlier clients would mend what these tests want broken."""

from __future__ import annotations

import http.client
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from pyoxigraph import Literal, NamedNode
from rdflib import Graph
from rdflib.compare import isomorphic

from tests.endpoint.live import Live
from tests.stream_ext.w3c import MANIFEST, RDF_TYPE, Node, Properties, file_of, folder, graph

HT, CNT = "http://www.w3.org/2011/http#", "http://www.w3.org/2011/content#"
RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
RDFS = "http://www.w3.org/2000/01/rdf-schema#"
UPDATE = "http://www.w3.org/2009/sparql/tests/test-update#"

#: What `hts:` names, as statuses.
STATUSES = {
    "OK": {200},
    "Created": {201},
    "NoContent": {204},
    "NotFound": {404},
    "StatusCode2xx": set(range(200, 300)),
    "StatusCode3xx": set(range(300, 400)),
    "StatusCode4xx": set(range(400, 500)),
}


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def media_type(self) -> str:
        return self.headers.get("content-type", "").partition(";")[0]

    def graph(self) -> Graph:
        return Graph().parse(data=self.body, format=self.media_type)


@dataclass(frozen=True)
class Request:
    method: str
    path: str
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes | None = None

    def send(self, server: Live) -> Answer:
        address = urlsplit(server.url)
        connection = http.client.HTTPConnection(str(address.hostname), address.port, timeout=20)
        try:
            connection.request(self.method, self.path, self.body, self.headers)
            response = connection.getresponse()
            headers = {name.lower(): value for name, value in response.getheaders()}
            return Answer(response.status, headers, response.read())
        finally:
            connection.close()


@dataclass(frozen=True)
class Expected:
    statuses: set[int]
    boolean: bool | None
    format: str | None
    location: str | None
    media_type: str | None
    body: bytes | None


@dataclass(frozen=True)
class Case:
    name: str
    data: list[tuple[str, Path]]
    steps: list[tuple[Request, Expected]]


def cases(manifest: str, kind: str) -> list[Case]:
    found = graph(folder() / "sparql11" / manifest)
    return [
        _case(found, node, properties)
        for node, properties in found.items()
        if NamedNode(MANIFEST + kind) in properties.get(RDF_TYPE, ())
    ]


def _case(found: dict[Node, Properties], node: Node, test: Properties) -> Case:
    action = found[test[MANIFEST + "action"][0]]
    data = [
        (_text(found[each], RDFS + "label"), file_of(found[each][UPDATE + "graph"][0]))
        for each in test.get(UPDATE + "graphData", ())
    ]
    steps = [
        (_request(found, found[each]), _expected(found, found[found[each][HT + "resp"][0]]))
        for each in _list(found, action[HT + "requests"][0])
    ]
    assert isinstance(node, NamedNode)
    return Case(node.value.rpartition("#")[2], data, steps)


def _list(found: dict[Node, Properties], node: Node) -> Iterator[Node]:
    while node != NamedNode(RDF + "nil"):
        yield found[node][RDF + "first"][0]
        node = found[node][RDF + "rest"][0]


def _text(properties: Properties, name: str) -> str:
    value = properties[name][0]
    assert isinstance(value, Literal)
    return value.value


def _headers(found: dict[Node, Properties], message: Properties) -> dict[str, str]:
    lists = message.get(HT + "headers", ())
    fields = [found[each] for head in lists for each in _list(found, head)]
    return {_text(each, HT + "fieldName"): _text(each, HT + "fieldValue") for each in fields}


def _body(found: dict[Node, Properties], message: Properties) -> bytes | None:
    if not message.get(HT + "body"):
        return None
    body = found[message[HT + "body"][0]]
    return _text(body, CNT + "chars").encode(_text(body, CNT + "characterEncoding"))


def _request(found: dict[Node, Properties], message: Properties) -> Request:
    method, path = _text(message, HT + "methodName"), _text(message, HT + "absolutePath")
    return Request(method, path, _headers(found, message), _body(found, message))


def _expected(found: dict[Node, Properties], message: Properties) -> Expected:
    statuses: set[int] = set()
    for status in message[MANIFEST + "expectedStatus"]:
        assert isinstance(status, NamedNode)
        statuses |= STATUSES[status.value.rpartition("#")[2]]

    def text(name: str) -> str | None:
        return _text(message, MANIFEST + name) if message.get(MANIFEST + name) else None

    boolean = text("expectedBoolean")
    return Expected(
        statuses,
        None if boolean is None else boolean == "true",
        text("expectedFormat"),
        text("expectedLocation"),
        _headers(found, message).get("content-type"),
        _body(found, message),
    )


def same_graph(answer: Answer, turtle: bytes, base: str) -> bool:
    return isomorphic(answer.graph(), Graph().parse(data=turtle, format="turtle", publicID=base))
