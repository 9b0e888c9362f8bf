"""The Graph Store Protocol over real HTTP: the W3C's tests, and what they leave open."""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import httpx
import pyoxigraph
import pytest
from pyoxigraph import Literal
from rdflib import Graph

from endpoint.formats.graph_results import QUADS, TRIPLES
from endpoint.limits import HttpLimits
from tests.endpoint.live import BASE, NT, Live, live
from tests.endpoint.w3c_http import RDFS, Answer, Case, Request, cases, same_graph
from tests.stream_ext.w3c import folder, graph

MANIFESTS = ("graph-store-protocol/manifest-direct.ttl", "graph-store-protocol/manifest-indirect.ttl")


@pytest.fixture
def empty(tmp_path: Path) -> Iterator[Live]:
    with live(tmp_path / "store") as running:
        yield running


# ---- the W3C's tests


def w3c_cases() -> list[Case]:
    return [case for manifest in MANIFESTS for case in cases(manifest, "GraphStoreProtocolTest")]


def test_all_the_cases_of_the_w3c_are_there() -> None:
    assert len(w3c_cases()) == 14  # the 13 of the lists, and one that is written down but not listed


@pytest.mark.parametrize("number", range(14))
def test_it_does_as_the_w3c_says(empty: Live, number: int) -> None:
    case = w3c_cases()[number]
    location = ""
    for request, expected in case.steps:
        path = request.path.replace("/gsp", "/data", 1).replace("$LOCATION$", quote(location, safe=""))
        answer = replace(request, path=path).send(empty)
        assert answer.status in expected.statuses, (case.name, request, answer)
        if expected.location:
            location = answer.headers["location"]
        if expected.media_type:
            assert answer.headers["content-type"] == expected.media_type
        if expected.body is not None:
            assert same_graph(answer, expected.body, BASE), (case.name, answer.body.decode())


#: The older tests are prose; these of their bodies are no Turtle: they lack the last dot.
DOTLESS = re.compile(r'((?:foaf:name "Jane Doe"|foaf:familyName "Doe"|foaf:givenName "Jane")\s*)$', re.MULTILINE)
#: What they expect and does not follow from what they sent.
MISTAKEN = {"get_of_post__existing_graph": "it expects the graph of the first PUT, which the second has replaced"}


def older_cases() -> Iterator[tuple[str, str, str]]:
    """(name, request, response) of the 18 tests that the W3C has replaced by the ones above, in their order."""
    found = graph(folder() / "sparql11" / "http-rdf-update" / "manifest.ttl")
    for node, properties in found.items():
        for comment in properties.get(RDFS + "comment", ()):
            assert isinstance(comment, Literal)
            if "#### Request" in comment.value:
                answered = re.sub(r"^    ", "", comment.value, flags=re.MULTILINE)
                request, response = answered.split("#### Request")[1].split("#### Response")
                yield str(node).rstrip(">").rpartition("#")[2], request.strip("\n"), response.strip("\n")


def test_it_does_as_the_older_tests_of_the_w3c_say(empty: Live) -> None:
    host = urlsplit(BASE).netloc
    turtle = {"content-type": "text/turtle"}
    Request("PUT", "/data/person/2.ttl", turtle, b"<http://ex/a> <http://ex/b> 1 .").send(empty)  # it deletes this one
    new_path, names = "", []
    for name, answered, expected in older_cases():
        answered = answered.replace("$HOST$/$GRAPHSTORE$", f"{host}/data").replace("$GRAPHSTORE$", "/data")
        answer = _send(empty, answered.replace("$HOST$", host).replace("$NEWPATH$", new_path))
        status = int(expected.split(maxsplit=1)[0])
        assert answer.status in ({200, 204} if status == 200 else {status}), (name, answer)
        new_path = urlsplit(answer.headers.get("location", "")).path if "$NEWPATH$" in expected else new_path
        _, _, body = expected.replace("$HOST$/$GRAPHSTORE$", f"{host}/data").partition("\n\n")
        if body.strip() and name not in MISTAKEN:
            assert same_graph(answer, body.encode(), BASE), (name, answer.body.decode())
        names.append(name)
    assert len(names) == 18
    assert set(MISTAKEN) <= set(names)


def _send(server: Live, answered: str) -> Answer:
    head, _, body = answered.partition("\n\n")
    first, *lines = head.strip().split("\n")
    method, path, _ = first.split()
    headers = dict(line.split(": ", 1) for line in lines if not line.startswith("Host"))
    sent = DOTLESS.sub(r"\1 .", body).replace("\n", "\r\n").encode() if body.strip() else None
    return Request(method, path, headers, sent).send(server)


# ---- what they leave open

TURTLE, TRIG = {"content-type": "text/turtle"}, {"content-type": "application/trig"}
G = "/data?graph=http%3A%2F%2Fex%2Fg"


def quads(data: bytes | str, media_type: str) -> pyoxigraph.Dataset:
    """As another engine reads it; two of them are equal if they differ in labels alone."""
    form = pyoxigraph.RdfFormat.from_media_type(media_type)
    found = pyoxigraph.Dataset(pyoxigraph.parse(data, form, base_iri=BASE))
    found.canonicalize(pyoxigraph.CanonicalizationAlgorithm.UNSTABLE)
    return found


def fetch(server: Live, path: str, accept: str = "application/n-triples") -> httpx.Response:
    return server.http.get(path, headers={"accept": accept})


def test_a_write_is_one_snapshot_and_one_that_changes_nothing_is_none(empty: Live) -> None:
    def put(data: str) -> tuple[int, int]:
        answer = empty.http.put(G, content=data, headers=TURTLE)
        return answer.status_code, int(answer.headers["rillet-snapshot"])

    first = put("<http://ex/a> <http://ex/p> 1, 2 .")
    assert first == (201, 1)
    assert put("<http://ex/a> <http://ex/p> 2, 3 .") == (204, 2)
    assert {line.split()[2][1] for line in fetch(empty, G).text.splitlines()} == {"2", "3"}
    assert put("") == (204, 3)
    assert fetch(empty, G).status_code == 404
    assert put("") == (204, 3)
    assert empty.http.delete(G).status_code == 404
    assert empty.http.delete("/data?default").status_code == 204
    assert empty.service.head() == 3
    old = empty.http.get(G + "&snapshot=1", headers={"accept": "application/n-triples"})
    assert {line.split()[2][1] for line in old.text.splitlines()} == {"1", "2"}
    assert empty.http.get(G + "&snapshot=9").status_code == 410


def test_blank_nodes_are_fresh_in_every_document(empty: Live) -> None:
    document = "_:x <http://ex/p> _:y . _:y <http://ex/q> _:x ."
    parts = [("file", (f"{n}.ttl", document, "text/turtle")) for n in range(2)]
    for _ in range(2):
        empty.http.post(G, files=parts).raise_for_status()
    found = Graph().parse(data=fetch(empty, G).text, format="nt")
    assert (len(found), len(set(found.all_nodes()))) == (8, 8)


def test_a_file_is_known_by_its_name_where_a_browser_says_nothing(empty: Live) -> None:
    files = {"upload": ("people.TTL", "<a> <b> <c> .", "application/octet-stream")}
    assert empty.http.post(G, files=files).status_code == 201
    assert fetch(empty, G).text == "<http://ex/a> <http://ex/b> <http://ex/c> .\n"  # relative to the graph itself
    unknown = {"upload": ("people.doc", "x", "application/octet-stream")}
    refused = empty.http.post(G, files=unknown)
    assert (refused.status_code, "part 1" in refused.text) == (415, True)


SAMPLE = """
@prefix ex: <http://ex/ns#> .
ex:a a ex:Thing ; ex:says "one", "zwei"@de, 3, "<&\\"\\t,\\n\\r", "2.50"^^<http://www.w3.org/2001/XMLSchema#decimal> ;
  ex:knows [ ex:says "blank" ], ex:b, <http://ex/%20%C3%A4/ü> .
ex:b ex:knows ex:a .
"""


@pytest.mark.parametrize("offer", TRIPLES, ids=lambda offer: offer.media_type)
def test_every_form_of_a_graph_says_the_same_and_can_be_sent_again(empty: Live, offer: Any) -> None:
    empty.http.put(G, content=SAMPLE, headers=TURTLE).raise_for_status()
    expected = quads(SAMPLE, "text/turtle")
    answer = fetch(empty, G, offer.media_type)
    assert answer.headers["content-type"].partition(";")[0] == offer.media_type
    read_as = {"nt": "application/n-triples", "turtle": "text/turtle", "xml": "application/rdf+xml"}
    media_type = read_as.get(offer.format, "application/ld+json")
    assert quads(answer.content, media_type) == expected
    again = empty.http.put("/data?default", content=answer.content, headers={"content-type": media_type})
    assert again.status_code == 201
    assert quads(fetch(empty, "/data?default").content, "application/n-triples") == expected


def test_turtle_says_numbers_and_booleans_as_people_do_and_keeps_every_other_spelling(empty: Live) -> None:
    spellings = [
        *(f'"{text}"^^xsd:integer' for text in ("30", "-7", "+7", "007", "x")),
        *(f'"{text}"^^xsd:decimal' for text in ("4.5", "-.5", "4", "1.")),
        *(f'"{text}"^^xsd:boolean' for text in ("true", "false", "1")),
        '"1e6"^^xsd:double', '"30"^^xsd:int', '"30"',
    ]  # fmt: skip
    answered = (
        f"@prefix xsd: <http://www.w3.org/2001/XMLSchema#> . <http://ex/s> <http://ex/p> {', '.join(spellings)} ."
    )
    empty.http.put(G, content=answered, headers=TURTLE).raise_for_status()
    answer = fetch(empty, G, "text/turtle").text
    assert set(re.split(", | ", answer)) >= {"30", "-7", "4.5", "true", "false"}
    lines = fetch(empty, G, "application/n-triples").content
    assert quads(answer, "text/turtle") == quads(lines, "application/n-triples") == quads(answered, "text/turtle")


@pytest.mark.parametrize("offer", QUADS, ids=lambda offer: offer.media_type)
def test_all_graphs_can_be_read_at_once_and_quads_added(empty: Live, offer: Any) -> None:
    sent = "<http://ex/s> <http://ex/p> 1, _:b . <http://ex/g> { <http://ex/s> <http://ex/p> 2 . _:b <http://ex/q> 3 }"
    added = empty.http.post("/data", content=sent, headers={"content-type": "application/trig"})
    assert (added.status_code, empty.service.head()) == (204, 1)
    answer = fetch(empty, "/data", offer.media_type)
    assert quads(answer.content, offer.media_type) == quads(sent, "application/trig")


def test_a_large_graph_is_sent_in_pieces_and_is_whole(empty: Live) -> None:
    lines = "".join(f"<http://ex/s{n % 977}> <http://ex/p{n % 7}> {n} .\n" for n in range(30_000))
    expected = quads(lines, "text/turtle")
    empty.http.put(G, content=gzip.compress(lines.encode()), headers=TURTLE | {"content-encoding": "gzip"})
    for accept in ("text/turtle", "application/ld+json", "application/rdf+xml", "application/n-triples"):
        with empty.http.stream("GET", G, headers={"accept": accept}) as answer:
            assert "content-length" not in answer.headers
            body = answer.read()
        assert quads(body, accept) == expected


def test_rdf_xml_refuses_a_predicate_that_has_no_name(empty: Live) -> None:
    empty.http.put(G, content="<http://ex/s> <http://ex/p/> 1 .", headers=TURTLE)
    refused = fetch(empty, G, "application/rdf+xml")
    assert (refused.status_code, "<http://ex/p/>" in refused.text) == (406, True)


def test_head_says_what_get_would(empty: Live) -> None:
    empty.http.put(G, content="<http://ex/s> a <http://ex/T> .", headers=TURTLE)
    head = empty.http.head(G)
    assert (head.status_code, head.content, head.headers["content-type"]) == (200, b"", "text/turtle; charset=utf-8")
    assert fetch(empty, G, "text/turtle").text == "<http://ex/s> a <http://ex/T> .\n"


@pytest.mark.parametrize(
    ("status", "says", "method", "path", "request_"),
    [
        (400, "absolute IRI", "GET", "/data?graph=g", {}),
        (400, "absolute IRI", "GET", "/data?graph=http://ex/a%20b", {}),
        (400, "name one graph", "GET", G + "&default", {}),
        (400, "name one graph", "GET", "/data/a?default", {}),
        (400, "takes no value", "GET", "/data?default=yes", {}),
        (400, "name the graph", "DELETE", "/data", {}),
        (400, "name the graph", "PUT", "/data", {"content": "", "headers": TURTLE}),
        (400, "belongs to writes", "GET", G + "&wait=evaluated", {}),
        (400, "belongs to reads", "DELETE", G + "&snapshot=1", {}),
        (400, "unknown for this request: format=", "GET", "/data?default&format=nt", {}),
        (400, "line 1", "PUT", G, {"content": "<a> <b> .", "headers": TURTLE}),
        (
            400,
            "names graphs",
            "PUT",
            G,
            {"content": "<a> {<a> <b> 1}", "headers": {"content-type": "application/trig"}},
        ),
        (400, "boundary", "POST", G, {"content": "x", "headers": {"content-type": "multipart/form-data"}}),
        (400, "no end", "POST", G, {"content": "x", "headers": {"content-type": "multipart/form-data; boundary=b"}}),
        (404, "no graph", "GET", "/data?graph=http://ex/nowhere", {}),
        (405, "GET, PUT, POST, DELETE", "PATCH", G, {}),
        (406, "text/turtle", "GET", "/data?default", {"headers": {"accept": "text/csv"}}),
        (406, "application/trig", "GET", "/data", {"headers": {"accept": "text/turtle"}}),
        (415, "Content-Type", "PUT", G, {"content": "x"}),
        (415, "image/png", "POST", G, {"content": "x", "headers": {"content-type": "image/png"}}),
    ],
)
def test_a_bad_request_changes_nothing(
    server: Live, status: int, says: str, method: str, path: str, request_: dict[str, Any]
) -> None:
    head = server.service.head()
    answer = server.http.request(method, path, **request_)
    assert (answer.status_code, says in answer.text) == (status, True), answer.text
    assert server.service.head() == head


def test_graphs_larger_than_the_budget_are_neither_written_nor_deleted(tmp_path: Path) -> None:
    lines = "".join(f"<http://ex/s{n}> <http://ex/p> <http://ex/o> .\n" for n in range(1_000))
    with live(tmp_path / "store") as roomy:
        roomy.http.put(G, content=lines, headers=NT).raise_for_status()
    with live(tmp_path / "store", limits=HttpLimits(query_bytes=100_000)) as tight:
        few = {"content": lines[: lines.index("\n") + 1], "headers": NT}
        for method, path, body in (
            ("PUT", G, few),
            ("POST", G + "2", {"content": lines, "headers": NT}),
            ("POST", "/data", {"content": lines, "headers": {"content-type": "application/n-quads"}}),
            ("DELETE", G, {}),
        ):
            answer = tight.http.request(method, path, **body)
            assert answer.status_code == 413, (method, answer.text)
            assert "the write of a graph needs more" in answer.text
        assert tight.http.post(G, **few).status_code == 204
        assert tight.service.head() == 2


def test_graphs_larger_than_the_budget_are_not_read_and_what_was_read_is_given_back(tmp_path: Path) -> None:
    lines = "".join(f"<http://ex/s{n}> <http://ex/p> <http://ex/o> .\n" for n in range(10_000))
    with live(tmp_path / "store") as roomy:
        for graph in (G, G + "2"):
            roomy.http.put(graph, content=lines, headers=NT).raise_for_status()
    most = 1 << 20  # 10,000 quads take 720 kB; all queries together have one such answer
    with live(tmp_path / "store", limits=HttpLimits(query_bytes=most, queries_bytes=most)) as server:
        for _ in range(5):
            assert server.http.get(G, headers={"accept": "application/n-triples"}).text.count("\n") == 10_000
        answer = server.http.get("/data", headers={"accept": "application/n-quads"})
        assert (answer.status_code, "the read of a graph needs more" in answer.text) == (413, True), answer.text
        assert server.http.get(G).status_code == 200
