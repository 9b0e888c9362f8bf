"""Bodies and texts that expand or take long, over HTTP: refused with what, where and what to do; nobody else waits."""

from __future__ import annotations

import base64
import quopri
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from endpoint.http.multipart import parts_of
from endpoint.limits import HttpLimits
from stream_ext.errors import BadData, TooLarge
from stream_ext.rdf import documents
from stream_ext.rdf.parse_queue import Rules
from stream_ext.rdf.parsers import Parsers
from tests.endpoint.live import NT, SPARQL_QUERY, Live, live
from tests.parts.waiting import until
from tests.stream_ext.rdf.bombs import LAUGHS, OF_IRIS, OF_TIME, XML

VALUES = "SELECT (COUNT(*) AS ?n) { VALUES ?x { " + " ".join(map(str, range(150_000))) + " } }"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    with live(tmp_path_factory.mktemp("store"), limits=HttpLimits(query_s=60)) as running:
        running.http.put("/streams/s", json={}).raise_for_status()
        limits = running.service.limits
        running.service.limits = replace(limits, push_bytes=4 << 20)  # so that little must be made to exceed it
        yield running


@pytest.mark.parametrize("name", ["entities", "a long prefix", "a long vocabulary"])
def test_what_expands_is_refused_wherever_it_is_sent(server: Live, name: str) -> None:
    media_type, data = OF_IRIS.get(name, (XML, LAUGHS))
    kind = {"content-type": media_type}
    before = server.service.head()
    answers = [
        server.http.post("/streams/s?timestamp=1", content=data, headers=kind),
        server.http.put("/data?default", content=data, headers=kind),
        server.http.post("/data", files={"file": ("x", data, media_type)}),
    ]
    assert [answer.status_code for answer in answers] == [413] * 3
    assert all("prefixes, entities or contexts" in answer.text and "in parts" in answer.text for answer in answers)
    assert server.service.head() == before


def test_a_body_is_read_within_a_time(server: Live) -> None:
    media_type, data = OF_TIME["a context in a term"]
    limits = server.service.limits
    server.service.limits = replace(limits, read_s=0.2)
    try:
        answer = server.http.post("/streams/s?timestamp=1", content=data, headers={"content-type": media_type})
    finally:
        server.service.limits = limits
    assert answer.status_code == 503
    assert "reading the push took longer than 0.2 s" in answer.text


def test_reading_a_text_counts_towards_its_time(server: Live) -> None:
    answer = server.http.post("/sparql?timeout=30ms", content=VALUES, headers=SPARQL_QUERY)
    assert answer.status_code == 503
    assert server.http.post("/sparql", content=VALUES, headers=SPARQL_QUERY).status_code == 200


def test_what_is_read_is_listed_and_can_be_cancelled(server: Live) -> None:
    text, answers = VALUES.replace("COUNT(*)", "COUNT(?x)"), list[int]()

    def ask() -> None:
        answers.append(server.http.post("/sparql", content=text, headers=SPARQL_QUERY).status_code)

    asking = threading.Thread(target=ask)
    asking.start()
    while asking.is_alive():
        for listed in server.http.get("/$/queries").json()["queries"]:
            server.http.delete(f"/$/queries/{listed['id']}")
    asking.join()
    assert answers == [503]


def test_those_who_have_all_parsers_hold_up_nobody_with_a_small_document(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four that take for ever, and many more that wait for them: fewer than there are threads for writes."""
    media_type, slow = OF_TIME["a context in each node"]
    parsers = Parsers(Rules(at_once=2, waiting=3))
    monkeypatch.setattr(documents, "PARSERS", parsers)
    with (
        live(tmp_path / "store", limits=HttpLimits(writers=8, query_s=60)) as server,
        ThreadPoolExecutor(12) as attackers,
    ):
        server.http.put("/streams/s", json={}).raise_for_status()
        reading = server.service.limits
        server.service.limits = replace(reading, read_s=2.0)

        def attack(_: int) -> httpx.Response:
            kind = {"content-type": media_type}
            return httpx.post(server.url + "/streams/s?timestamp=1", content=slow, headers=kind, timeout=60)

        answers = [attackers.submit(attack, number) for number in range(12)]
        until(lambda: parsers.queue.waiting >= 3, "all parsers are taken, and some wait")
        pushed = server.http.post("/streams/s?timestamp=1", content=b"<a:s> <a:p> <a:o> .", headers=NT)
        assert pushed.status_code == 202
        assert parsers.queue.waiting or parsers.queue.free == 0, "nobody was in the way"
        refused = [answer for each in answers if (answer := each.result()).status_code == 429]
        assert len(refused) >= 12 - 2 - 3
        assert all(answer.headers["retry-after"] == "5" and "N-Triples" in answer.text for answer in refused)
        assert {each.result().status_code for each in answers} <= {429, 503}
    parsers.close()


def test_a_form_has_so_many_parts(server: Live) -> None:
    with pytest.raises(TooLarge, match="more than 1000 parts"):
        parts_of(form(*[(NAMED, b"")] * 1_001), FORM)
    assert len(parts_of(form(*[(NAMED, b"")] * 1_000), FORM)) == 1_000
    answer = server.http.post(
        "/sparql", content="a=1&" * 20_000, headers={"content-type": "application/x-www-form-urlencoded"}
    )
    assert answer.status_code == 400
    assert "more than 10000 parameters" in answer.text


FORM = "multipart/form-data; boundary=a"
NAMED = "Content-Disposition: form-data; name=f; filename=f.nt"
TRIPLE = b"<http://ex/a> <http://ex/b> 'c' .\n"


def form(*parts: tuple[str, bytes]) -> bytes:
    return b"".join(b"--a\r\n" + head.encode() + b"\r\n\r\n" + data + b"\r\n" for head, data in parts) + b"--a--\r\n"


@pytest.mark.parametrize(
    ("head", "data", "media_type"),
    [
        (NAMED, TRIPLE, ".nt"),
        ("Content-Disposition: form-data; name=f; filename*=UTF-8''t%C3%A4xis.ttl", TRIPLE, ".ttl"),
        (NAMED + "\r\nContent-Type: text/turtle", TRIPLE, "text/turtle"),
        (NAMED + "\r\nContent-Transfer-Encoding: base64", base64.encodebytes(TRIPLE), ".nt"),
        (NAMED + "\r\nContent-Transfer-Encoding: Quoted-Printable", quopri.encodestring(TRIPLE), ".nt"),
        (NAMED, TRIPLE * 50_000, ".nt"),  # over several steps
        (NAMED, b"\r\n--aa" + b"-" * 100_000 + b"\r\n--", ".nt"),  # what looks like a boundary
    ],
)
def test_a_part_of_a_form_is_what_its_head_says(head: str, data: bytes, media_type: str) -> None:
    types = {".nt": "application/n-triples", ".ttl": "text/turtle"}
    first, second = parts_of(form((head, data), (NAMED, TRIPLE)), 'multipart/form-data; boundary="a"')
    content = data if "Encoding" not in head else TRIPLE
    assert (first.media_type, first.data) == (types.get(media_type, media_type), content)
    assert (second.media_type, second.data) == (types[".nt"], TRIPLE)


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (form((NAMED + "\r\nContent-Transfer-Encoding: base64", b"!")), "part 1 of the form is not base64"),
        (
            form((NAMED + "\r\nContent-Transfer-Encoding: zip", b"!")),
            "part 1 .*Content-Transfer-Encoding: zip; the supported ones are",
        ),
        (form((NAMED, b""), ("Content-Type: text/turtle", b"")), "part 2 .*Content-Disposition"),
        (form((NAMED, b""), ("X: " + "x" * 200_000, b"")), "part 2 .* no empty line between its head, of 8192 bytes"),
        (form((NAMED, b""))[:-5], "has no end"),
        (b"", "has no end"),
    ],
)
def test_a_malformed_form_is_refused_where_it_is_malformed(body: bytes, error: str) -> None:
    with pytest.raises(BadData, match=error):
        parts_of(body, FORM)


def test_options_are_short(server: Live) -> None:
    assert server.http.put("/streams/t", content=b" " * (2 << 20)).status_code == 413


# ---- what can hardly be meant ----------------------------------------------------------------------------------


@pytest.mark.parametrize("more", ["", "# long" + " " * 3_000])
def test_a_variable_without_a_value_is_warned_of_when_asked_once(server: Live, more: str) -> None:
    for _ in range(2):  # the second answer is a remembered one
        answer = server.http.post("/sparql", content="SELECT ?nothere ?é { ?s ?p ?o }" + more, headers=SPARQL_QUERY)
        assert answer.status_code == 200
        assert answer.headers.get_list("rillet-warning") == [
            "?nothere is never bound in this text, so it never has a value",
            "?%C3%A9 is never bound in this text, so it never has a value",
        ]
        assert set(answer.json()) == {"head", "results"}
    assert "rillet-warning" not in server.http.get("/sparql", params={"query": "SELECT ?s { ?s ?p ?o }"}).headers
