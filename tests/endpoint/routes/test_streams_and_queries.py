"""Streams, queries and their emissions over real HTTP, as 'The wire, exactly' says."""

from __future__ import annotations

import gzip
import json
import socket
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import process_time, time_ns
from typing import Any, cast
from urllib.parse import quote

import httpx
import pytest
import zstandard
from SPARQLWrapper import JSON, POST, SPARQLWrapper

from endpoint.client import Client, Refused
from endpoint.http.body import unpack
from endpoint.limits import HttpLimits
from hbase_store.errors import Fenced
from tests.endpoint.live import NEAR, NT, SPARQL_QUERY, Live, live
from tests.parts.waiting import until

DATA = "<http://ex/t1> <http://ex/in> <http://ex/z1> ."
LINE = {"content-type": "application/x-ndjson"}


@pytest.fixture
def near(tmp_path: Path) -> Iterator[Live]:
    """A server of its own with the query `near` registered; heartbeats often, so that silence is seen soon."""
    with live(tmp_path / "store", limits=HttpLimits(heartbeat_s=0.05)) as running:
        running.update("INSERT DATA { <http://ex/z1> <http://ex/partOf> <http://ex/c1> }")
        running.register().raise_for_status()
        yield running


def bindings(answer: dict[str, Any]) -> list[dict[str, str]]:
    return [{name: term["value"] for name, term in row.items()} for row in answer["results"]["bindings"]]


ROW = {"taxi": "http://ex/t1", "zone": "http://ex/z1", "city": "http://ex/c1"}


# ---- streams


def test_a_stream_is_created_once_and_described(server: Live) -> None:
    options = {"lateness": "5s", "timeless": ["http://ex/p"], "graph": "http://ex/g"}
    answers = [server.http.put("/streams/made", json=options) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [201, 200]
    assert server.http.put("/streams/made", json={"lateness": "6s"}).status_code == 409
    described = server.http.get("/streams/made").json()
    assert described["stream"] == "made"
    assert (described["lateness"], described["timeless"], described["graph"]) == (5000, ["http://ex/p"], "http://ex/g")
    assert "made" in [stream["stream"] for stream in server.http.get("/streams").json()["streams"]]
    assert server.http.delete("/streams/made").status_code == 204
    assert server.http.get("/streams/made").status_code == 404


def test_a_message_log_is_pushed_and_refused_by_other_routes(server: Live) -> None:
    server.http.put("/streams/logged", json={"timeless": True}).raise_for_status()
    log = b'VERSION "1.2-messages" <http://ex/m1> { <a:s> <a:p> 1 } <a:s> <a:p> 1 .\n'
    log += b"MESSAGE <http://ex/m1> { <a:t> <a:p> 2 }"
    trig = {"content-type": "application/trig; version=1.2-messages; charset=utf-8"}

    def push(body: bytes, headers: dict[str, str]) -> httpx.Response:
        return server.http.post("/streams/logged?timestamp=5", content=body, headers=headers)

    assert push(log, trig).json()["accepted"] == push(log, {"content-type": "application/trig"}).json()["accepted"] == 2
    assert push(b"MESSAGE\n" * 3, trig).json()["accepted"] == 3
    graph = server.http.get("/data?graph=http://ex/m1", headers={"accept": "application/n-triples"}).text
    assert sorted(line.split()[0] for line in graph.splitlines()) == ["<a:s>", "<a:t>"]
    wrong = push(log.replace(b"\nMESSAGE", b"\n<a:x> MESSAGE"), trig)
    assert (wrong.status_code, "line 2, column 7" in wrong.text) == (400, True)
    for media_type in ("text/turtle; profile=x", "text/turtle; version=3", "application/ld+json; version=1.2-messages"):
        assert push(log, {"content-type": media_type}).status_code == 415
    assert server.http.post("/data?default", content=log, headers=trig).status_code == 415
    assert server.http.post("/data", content=log, headers={"content-type": "application/trig"}).status_code == 400


def test_json_that_nests_without_end_is_refused_wherever_it_is_read(server: Live) -> None:
    server.http.put("/streams/s").raise_for_status()
    nested = b'{"http://ex/p":' * 6_000 + b"1" + b"}" * 6_000
    ld = {"content-type": "application/ld+json"}
    answers = [
        server.http.put("/streams/deep", content=nested),
        server.http.post("/streams/s?timestamp=1", content=nested, headers=ld),
        server.http.post("/streams/s?timestamp=1", content=b'{"data": ' + nested + b"}", headers=LINE),
        server.http.post("/data?default", content=nested, headers=ld),
    ]
    assert [(answer.status_code, "nest" in answer.text) for answer in answers] == [(400, True)] * 4


def test_options_are_as_short_for_a_change_as_for_a_stream_that_is_made(tmp_path: Path) -> None:
    long, packed = b"[" + b"[]," * 700_000 + b"[]]", {"content-encoding": "gzip"}
    with live(tmp_path) as usual:
        usual.http.put("/streams/s").raise_for_status()
        answers = [
            usual.http.request(method, "/streams/s", content=body, headers=headers)
            for method in ("PUT", "PATCH")
            for body, headers in ((long, {}), (gzip.compress(long), packed))
        ]
    assert [answer.status_code for answer in answers] == [413] * 4


def test_a_parameter_that_belongs_to_other_texts_is_not_called_unknown(server: Live) -> None:
    refused = server.http.post("/sparql?at=1000", data={"query": NEAR})
    assert refused.status_code == 400
    assert "at= (it does not belong to this kind of text)" in refused.text


def test_a_query_is_replaced_if_the_request_says_so(server: Live) -> None:
    server.http.put(
        "/queries/shown", content=NEAR.replace(" near ", " shown "), headers=SPARQL_QUERY
    ).raise_for_status()
    other = NEAR.replace(" near ", " shown ").replace("RANGE 1s", "RANGE 2s")
    refused = server.http.put("/queries/shown", content=other, headers=SPARQL_QUERY)
    assert (refused.status_code, "?replace=true" in refused.text) == (409, True)
    assert server.http.put("/queries/shown?replace=maybe", content=other, headers=SPARQL_QUERY).status_code == 400
    replaced = server.http.put("/queries/shown?replace=true", content=other, headers=SPARQL_QUERY)
    assert (replaced.status_code, replaced.json()["query"]) == (201, "shown")
    assert server.http.get("/queries/shown").json()["text"] == other
    again = server.http.post("/queries", data={"query": other, "replace": "true"})
    assert again.status_code == 200
    with Client(server.url) as client:
        assert client.register(NEAR.replace(" near ", " shown "), replace=True)["query"] == "shown"
    assert server.http.delete("/queries/shown").status_code == 204


def test_a_subscriber_of_a_replaced_query_is_told_and_does_not_meet_the_new_one(near: Live) -> None:
    """The numbers of the new query begin at 1 again: who comes again after number 1 misses its first emission."""

    def push(time: int) -> None:
        near.http.post(f"/streams/taxis?timestamp={time}&wait=evaluated", content=DATA, headers=NT).raise_for_status()

    push(1_000)
    push(1_150)
    with Client(near.url) as client:
        emissions = client.subscribe("near")
        assert next(emissions)["emission"] == 1
        client.register(NEAR.replace("RANGE 1s", "RANGE 2s"), replace=True)
        push(1_450)
        with pytest.raises(Refused, match="near was dropped, or replaced by another of this name"):
            list(emissions)
        assert [each["emission"] for each in client.emissions("near")][:2] == [1, 2]


@pytest.mark.parametrize("iri", ["http://ex/streams/a%2Fb", "http://ex.org/streams/deep/er#part", "urn:x:y?z=1"])
def test_an_iri_in_the_path_keeps_its_slashes(server: Live, iri: str) -> None:
    path = "/streams/" + quote(iri, safe="")
    assert server.http.put(path).status_code == 201
    assert server.http.get(path).json()["iri"] == iri
    pushed = server.http.post(path + "?timestamp=1", content=DATA, headers=NT)
    assert (pushed.status_code, pushed.json()["accepted"]) == (202, 1)
    assert server.http.post(path + "/heartbeat?timestamp=5").status_code == 202
    assert server.http.delete(path).status_code == 204


def test_a_push_says_what_became_of_it(server: Live) -> None:
    server.http.put("/streams/s").raise_for_status()
    answer = server.http.post("/streams/s?timestamp=1000", content=DATA, headers=NT)
    assert answer.status_code == 202
    answered = answer.json()
    assert answered == {
        "stream": "s",
        "accepted": 1,
        "late": 0,
        "batch": 1,
        "snapshot": int(answer.headers["rillet-snapshot"]),
    }
    lines = "".join(json.dumps({"timestamp": t, "data": DATA}) + "\n" for t in (2000, 1500, 3000))
    assert server.http.post("/streams/s", content=lines, headers=LINE).json()["accepted"] == 3


def test_a_push_that_is_sent_again_adds_nothing(server: Live) -> None:
    server.http.put("/streams/again").raise_for_status()
    address = "/streams/again?timestamp=1&source=meter&seq=7"
    first, second = (server.http.post(address, content=DATA, headers=NT).json() for _ in range(2))
    assert ("repeated" in first, second["repeated"], second["accepted"]) == (False, True, 0)


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.compress], ids=["gzip", "zstd"])
def test_a_compressed_push_is_unpacked_within_bounds(server: Live, pack: Callable[[bytes], bytes]) -> None:
    server.http.put("/streams/packed").raise_for_status()
    headers = NT | {"content-encoding": "zstd" if pack is zstandard.compress else "gzip"}

    def push(body: bytes) -> int:
        return server.http.post("/streams/packed?timestamp=1", content=body, headers=headers).status_code

    assert push(pack(DATA.encode())) == 202
    assert push(pack(DATA.encode())[:-3]) == 400
    assert push(b"not packed at all") == 400
    assert push(pack(b"#" * 2_000_000)) == 413


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.compress], ids=["gzip", "zstd"])
def test_a_body_of_many_members_takes_time_in_proportion_to_it(pack: Callable[[bytes], bytes]) -> None:
    member = pack(b"")
    few, many = (_seconds(lambda n=n: unpack(member * n + pack(b"x"), _ENCODING[pack], 100)) for n in (5_000, 50_000))
    assert many < 30 * few
    assert unpack(pack(b"a" * 3_000) + pack(b"b"), _ENCODING[pack], 4_000) == b"a" * 3_000 + b"b"


_ENCODING: dict[Callable[[bytes], bytes], str] = {gzip.compress: "gzip", zstandard.compress: "zstd"}


def _seconds(act: Callable[[], object]) -> float:
    began = process_time()
    act()
    return process_time() - began


def test_many_large_bodies_at_once_are_asked_to_come_back_and_small_ones_are_let_in(tmp_path: Path) -> None:
    large, half = (DATA + "\n#" + "x" * (1 << 21)).encode(), 1 << 20
    with live(tmp_path, limits=HttpLimits(bodies_bytes=3 << 20)) as server:
        server.http.put("/streams/s").raise_for_status()

        def push(body: bytes, **more: str) -> httpx.Response:
            return server.http.post("/streams/s?timestamp=1", content=body, headers=NT | more)

        with socket.create_connection(("127.0.0.1", int(server.url.rpartition(":")[2])), 20) as slow:
            slow.sendall(
                f"POST /streams/s?timestamp=1 HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(large)}\r\n".encode()
            )
            slow.sendall(b"Content-Type: application/n-triples\r\n\r\n" + large[:half])
            # A push that came before it would have it refused.
            until(lambda: server.server._app.app_state.bodies.nbytes, "the slow body is known")
            refused = push(large)
            assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
            assert refused.headers["connection"] == "close"
            assert push(gzip.compress(large), **{"content-encoding": "gzip"}).status_code == 429
            assert push(DATA.encode()).status_code == 202
            slow.sendall(large[half:])
            assert slow.recv(12) == b"HTTP/1.1 202"
        assert push(large).status_code == 202
        assert server.server._app.app_state.bodies.nbytes == 0


@pytest.mark.parametrize(
    ("status", "says", "method", "path", "request_"),
    [
        (404, "no stream", "POST", "/streams/nowhere?timestamp=1", {"content": DATA, "headers": NT}),
        (400, "is not the name of a stream", "PUT", "/streams/9lives", {}),
        (400, "is not the name of a stream", "PUT", "/streams/a%20b", {}),
        (404, "percent-encoded", "GET", "/streams/http://ex/s", {}),
        (415, "Content-Type", "POST", "/streams/bad?timestamp=1", {"content": DATA}),
        (
            415,
            "image/png",
            "POST",
            "/streams/bad?timestamp=1",
            {"content": DATA, "headers": {"content-type": "image/png"}},
        ),
        (415, "br", "POST", "/streams/bad?timestamp=1", {"content": DATA, "headers": NT | {"content-encoding": "br"}}),
        (400, "line 2", "POST", "/streams/bad?timestamp=1", {"content": DATA + "\n<oops", "headers": NT}),
        (400, "line", "POST", "/streams/bad", {"content": '{"timestamp": 1, "data": "<"}\n', "headers": LINE}),
        (400, "timestmp=", "POST", "/streams/bad?timestmp=1", {"content": DATA, "headers": NT}),
        (400, "time", "POST", "/streams/bad?timestamp=noon", {"content": DATA, "headers": NT}),
        (400, "seq=", "POST", "/streams/bad?timestamp=1&source=a", {"content": DATA, "headers": NT}),
        (400, "wait=", "POST", "/streams/bad?timestamp=1&wait=long", {"content": DATA, "headers": NT}),
        (413, "100000 bytes", "POST", "/streams/bad?timestamp=1", {"content": DATA * 9000, "headers": NT}),
        (400, "timestamp", "POST", "/streams/bad/heartbeat", {}),
        (400, "latness", "PUT", "/streams/other", {"json": {"latness": "5s"}}),
        (400, "JSON", "PUT", "/streams/other", {"content": "{"}),
        (400, "JSON object", "PUT", "/streams/other", {"json": ["5s"]}),
        (404, "no stream", "GET", "/streams/nowhere/late", {}),
        (400, "since=", "GET", "/streams/bad/late?since=x", {}),
        (404, "no asset", "GET", "/$/assets/other.js", {}),
        (404, "nothing at /streams/bad/other; an IRI", "GET", "/streams/bad/other", {}),
        (404, "/heartbeet (did you mean 'heartbeat'?)", "POST", "/streams/bad/heartbeet?timestamp=1", {}),
        (404, "/result (did you mean 'results'?)", "GET", "/queries/bad/result", {}),
        (404, "nothing at /streams/http://ex/s; an IRI", "GET", "/streams/http://ex/s", {}),
        (404, "there is nothing at /nope; /docs lists the routes\n", "GET", "/nope", {}),
        (404, "there is nothing at /$/nope; /docs lists the routes\n", "GET", "/$/nope", {}),
        (400, "heartbeat", "POST", "/streams/bad?timestamp=1", {"content": "", "headers": NT}),
        (400, "without a text", "GET", "/sparql?at=1", {}),
        (405, "GET", "PATCH", "/streams/bad/late", {}),
        (405, "POST", "PUT", "/streams/bad/heartbeat", {}),
    ],
)
def test_a_bad_request_changes_nothing(
    server: Live, status: int, says: str, method: str, path: str, request_: dict[str, Any]
) -> None:
    server.http.put("/streams/bad").raise_for_status()
    head = server.service.head()
    answer = server.http.request(method, path, **request_)
    assert answer.status_code == status, answer.text
    assert says in answer.text
    assert "Traceback" not in answer.text
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    assert server.service.head() == head
    assert answer.headers["rillet-snapshot"] == str(head)


def test_a_body_without_a_length_is_cut_off_at_the_limit(server: Live) -> None:
    server.http.put("/streams/endless").raise_for_status()
    sent = 0

    def endless() -> Iterator[bytes]:
        nonlocal sent
        while sent < 100_000_000:
            sent += 10_000
            yield b"#" * 10_000

    answer = server.http.post("/streams/endless?timestamp=1", content=endless(), headers=NT)
    assert answer.status_code == 413
    assert sent < 100_000_000


# ---- queries


def test_a_query_is_registered_described_and_dropped(server: Live) -> None:
    text = NEAR.replace("near", "shown").replace("taxis", "cabs")
    answer = server.register(text)
    assert answer.status_code == 201
    answered = answer.json()
    assert (answered["query"], answered["dialect"]) == ("shown", "RSP-QL")
    assert "cabs" in answered["warnings"][0] and list(answered).index("warnings") < list(answered).index("plan")
    assert answered["results"] == answer.headers["location"] + "/results"
    assert httpx.get(answered["results"]).json()["results"]["bindings"] == []
    assert server.register(text).status_code == 200
    assert server.register(text.replace("100ms", "200ms")).status_code == 409
    status = server.http.get("/queries/shown").json()
    assert (status["state"], status["runner"], status["streams"]) == ("running", "inline", ["cabs"])
    assert server.http.get("/queries/" + quote(answered["iri"], safe="")).json() == status
    assert server.http.delete("/streams/cabs").status_code == 409
    assert server.http.delete("/queries/shown").status_code == 204
    assert [server.http.get(f"/queries/shown{rest}").status_code for rest in ("", "/results")] == [404, 404]
    assert server.http.delete("/streams/cabs").status_code == 404, "it has gone with the query that made it"


def test_put_gives_a_bare_query_its_name_and_must_agree_with_a_written_one(server: Live) -> None:
    bare = NEAR.replace("REGISTER RSTREAM near AS\n", "")
    put = server.http.put("/queries/bare", content=bare, headers=SPARQL_QUERY)
    assert (put.status_code, put.json()["query"]) == (201, "bare")
    assert server.http.put("/queries/far", content=NEAR, headers=SPARQL_QUERY).status_code == 400
    generated = server.register(bare + " # generated")
    assert server.http.get(generated.headers["location"]).status_code == 200
    assert server.http.post("/queries", content=bare).status_code == 415
    assert server.http.post("/queries/bare?action=pause").json()["state"] == "paused"
    assert server.http.post("/queries/bare?action=resume").json()["state"] == "running"
    assert "action=pause, resume or move" in server.http.post("/queries/bare?action=stop").text
    moved = server.http.post("/queries/bare?action=move&runner=inline")
    assert (moved.status_code, moved.json()["runner"], moved.json()["why"]) == (
        200,
        "inline",
        "the query was moved there",
    )
    for wrong, says in (
        ("action=move", "belong together"),
        ("action=pause&runner=spark", "belong together"),
        ("action=move&runner=flink", "is 'inline' or 'spark'"),
        ("action=move&runner=spark", "there is no Spark to move a query to"),
    ):
        refused = server.http.post(f"/queries/bare?{wrong}")
        assert (refused.status_code, says in refused.text) == (400, True)
    names = [query["query"] for query in server.http.get("/queries").json()["queries"]]
    assert {"bare", generated.json()["query"]} <= set(names)


# ---- results


def test_the_latest_answer_is_plain_sparql_results_for_sparqlwrapper(near: Live) -> None:
    near.push(1000)
    near.push(1200)
    client = SPARQLWrapper(near.url + "/queries/near/results")
    client.setReturnFormat(JSON)
    for method in ("GET", POST):
        client.setMethod(method)
        client.setQuery("SELECT * { ignored }")
        assert bindings(client.queryAndConvert()) == [ROW]
    assert near.http.get("/queries/near/results", headers={"accept": "text/csv"}).text.startswith("taxi,zone,city\r\n")


def test_emissions_come_as_lines_from_any_number_on(near: Live) -> None:
    near.push(1000)
    near.push(1500)
    lines = near.http.get("/queries/near/results?since=0").text.splitlines()
    answered = [json.loads(line) for line in lines]
    assert [emission["emission"] for emission in answered] == list(range(1, len(answered) + 1))
    first = answered[0]
    assert (first["query"], first["r2s"], first["time"]) == ("near", "RSTREAM", 1100)
    assert first["windows"] == [{"stream": "taxis", "from": 100, "to": 1100, "bounds": "[)"}]
    assert first["head"] == {"vars": ["taxi", "zone", "city"]}
    assert bindings(first) == [ROW]

    def numbers(parameters: str) -> list[int]:
        answer = near.http.get(f"/queries/near/results?{parameters}", headers={"accept": "application/x-ndjson"})
        return [json.loads(line)["emission"] for line in answer.text.splitlines()]

    assert numbers("since=2") == list(range(3, len(answered) + 1))
    assert numbers("since=1&until=3") == [2, 3]
    assert numbers("limit=2") == [1, 2]
    assert numbers("follow=true&until=2") == [1, 2]
    assert numbers("since=99&wait=10ms") == []


def test_a_wait_holds_an_empty_answer_back_until_there_is_one(near: Live) -> None:
    with ThreadPoolExecutor(2) as pool:
        lines = pool.submit(httpx.get, near.url + "/queries/near/results?since=0&wait=20s", timeout=30)
        latest = pool.submit(httpx.get, near.url + "/queries/near/results?wait=20s", timeout=30)
        near.push(1000)
        near.push(1200)
        assert bindings(json.loads(lines.result().text.splitlines()[0])) == [ROW]
        assert bindings(latest.result().json())[0] == ROW


def events(answer: httpx.Response) -> Iterator[tuple[str, dict[str, Any]]]:
    """(id, data) of each event."""
    number = ""
    for line in answer.iter_lines():
        if line.startswith("id: "):
            number = line[4:]
        elif line.startswith("data: "):
            yield number, json.loads(line[6:])


def test_a_listener_that_comes_back_misses_nothing_and_gets_nothing_twice(near: Live) -> None:
    received: list[tuple[str, int]] = []
    headers = {"accept": "text/event-stream"}
    for first in range(1, 9, 2):
        near.push(1000 * first)
        near.push(1000 * first + 250)
        with near.http.stream("GET", "/queries/near/results", headers=headers) as answer:
            assert answer.headers["content-type"].startswith("text/event-stream")
            for _, (number, answered) in zip(range(2), events(answer), strict=False):
                received.append((number, answered["emission"]))
                headers["last-event-id"] = number
    assert received == [(str(n), n) for n in range(1, 9)]


def test_a_listener_that_comes_back_to_another_query_of_the_name_is_informed(near: Live) -> None:
    for time in (1000, 2000, 3000):
        near.push(time)
    assert httpx.delete(near.url + "/queries/near").status_code == 204
    near.register().raise_for_status()
    headers = {"accept": "text/event-stream", "last-event-id": "2"}
    with near.http.stream("GET", "/queries/near/results", headers=headers) as answer:
        answer.read()
        assert (answer.status_code, "has 0 emissions, so there is no number 2" in answer.text) == (410, True)
    with near.http.stream("GET", "/queries/near/results", headers={**headers, "last-event-id": "0"}) as answer:
        assert answer.status_code == 200


def test_silence_is_filled_with_comments(near: Live) -> None:
    with near.http.stream("GET", "/queries/near/results", headers={"accept": "text/event-stream"}) as answer:
        lines = answer.iter_lines()
        assert next(line for line in lines if "heartbeat" in line) == ": heartbeat"


def test_listeners_end_when_the_query_is_dropped_and_are_let_go_when_they_leave(near: Live) -> None:
    with near.http.stream("GET", "/queries/near/results", headers={"accept": "text/event-stream"}) as answer:
        lines = answer.iter_lines()
        next(line for line in lines if "heartbeat" in line)
        assert near.service.status()["subscriptions"] == 1
        assert httpx.delete(near.url + "/queries/near").status_code == 204
        assert [line for line in lines if line.startswith("data")] == []
    near.register().raise_for_status()
    with near.http.stream("GET", "/queries/near/results", headers={"accept": "text/event-stream"}) as answer:
        next(answer.iter_lines())
    until(lambda: not near.service.status()["subscriptions"], "the listener is let go")


def test_an_event_source_that_comes_again_misses_nothing_of_the_query_that_replaced_its_own(near: Live) -> None:
    """It sends the last id that it got, and forgets it at an empty one, as the HTML standard says."""
    last_id = ""

    def read(count: int) -> Iterator[int]:
        nonlocal last_id
        headers = {"accept": "text/event-stream"} | ({"last-event-id": last_id} if last_id else {})
        with near.http.stream("GET", "/queries/near/results", headers=headers) as answer:
            for line in answer.iter_lines():
                if line == "id" or line.startswith("id:"):
                    last_id = line[3:].removeprefix(" ")
                if line.startswith("data: "):
                    yield int(json.loads(line[6:])["emission"])
                    if not (count := count - 1):
                        return

    for time in (1000, 1100, 1200):
        near.push(time).raise_for_status()
    reading = read(9)
    assert [next(reading), next(reading)] == [1, 2]
    other = NEAR.replace("?city\nFROM", "?city ?nothing\nFROM")
    near.http.post("/queries?replace=true", content=other, headers=SPARQL_QUERY).raise_for_status()
    assert list(reading) == []
    for time in (1300, 1400, 1500, 1600):
        near.push(time).raise_for_status()
    assert list(read(4)) == [1, 2, 3, 4]
    assert last_id == "4"


def test_stopping_the_server_ends_its_listeners_at_once(tmp_path: Path) -> None:
    with live(tmp_path / "store") as running:
        running.register().raise_for_status()
        with running.http.stream("GET", "/queries/near/results", headers={"accept": "text/event-stream"}) as answer:
            lines = answer.iter_lines()
            next(lines)
            running.stop()
            assert [line for line in lines if line.startswith("data")] == []


@pytest.mark.parametrize(
    ("parameters", "headers", "says"),
    [
        ("emission=1&since=0", {}, "emission without other parameters"),
        ("sinc=1", {}, "sinc="),
        ("since=-1", {}, "since="),
        ("follow=perhaps", {}, "follow="),
        ("wait=soon", {}, "wait="),
        ("", {"accept": "text/event-stream", "last-event-id": "x"}, "Last-Event-ID"),
        ("", {"accept": "text/event-stream", "last-event-id": "9" * 5_000}, "Last-Event-ID"),
    ],
)
def test_a_bad_wish_for_results_is_refused(server: Live, parameters: str, headers: dict[str, str], says: str) -> None:
    server.register(NEAR.replace("near", "wished")).raise_for_status()
    answer = server.http.get(f"/queries/wished/results?{parameters}", headers=headers)
    assert (answer.status_code, says in answer.text) == (400, True)


# ---- the client, the token, operations


def test_the_client_registers_pushes_and_subscribes_with_resume(near: Live) -> None:
    with Client(near.url) as client:
        assert client.register(NEAR.replace("near", "heard"))["query"] == "heard"
        client.push("taxis", DATA, timestamp=1000)
        client.push("taxis", DATA, timestamp=1200, wait="evaluated")
        taken = [emission["emission"] for _, emission in zip(range(2), client.subscribe("heard"), strict=False)]
        assert taken == [1, 2]
        assert next(client.subscribe("heard", since=1))["emission"] == 2
        assert bindings(client.query("SELECT ?s { ?s <http://ex/partOf> <http://ex/c1> }")) == [{"s": "http://ex/z1"}]


def test_the_client_continues_with_a_server_that_was_started_again(tmp_path: Path) -> None:
    with live(tmp_path / "store") as first:
        first.register().raise_for_status()
        first.push(1000)
        first.push(1150)
        port = int(first.url.rpartition(":")[2])
        client = Client(first.url)
        emissions = cast("Generator[dict[str, Any], None, None]", client.subscribe("near"))
        assert next(emissions)["emission"] == 1
    with live(tmp_path / "store", port=port) as second:
        second.push(1250)
        assert next(emissions)["emission"] == 2
    emissions.close()
    impatient = client.subscribe("near", patience_s=0.0)
    with pytest.raises(httpx.TransportError):
        next(impatient)
    client.close()


def test_with_a_token_reading_is_free_and_writing_is_not(tmp_path: Path) -> None:
    with live(tmp_path / "store", token="secret") as running:
        assert running.http.get("/sparql", params={"query": "ASK { ?s ?p ?o }"}).status_code == 200
        writes = (
            ("POST", "/update", {"data": {"update": "INSERT DATA { <http://ex/a> a 1 }"}}),
            ("POST", "/sparql", {"data": {"query": NEAR}}),
            ("PUT", "/streams/s", {}),
            ("POST", "/streams/s?timestamp=1", {"content": DATA, "headers": NT}),
            ("POST", "/streams/s/heartbeat?timestamp=1", {}),
            ("DELETE", "/streams/s", {}),
            ("POST", "/queries", {"content": NEAR, "headers": SPARQL_QUERY}),
            ("PUT", "/queries/near", {"content": NEAR, "headers": SPARQL_QUERY}),
            ("DELETE", "/queries/near", {}),
        )
        for method, path, request in writes:
            for token in (None, "wrong"):
                headers = {**request.get("headers", {}), **({"authorization": f"Bearer {token}"} if token else {})}
                answer = running.http.request(method, path, **{**request, "headers": headers})
                assert (answer.status_code, "www-authenticate" in answer.headers) == (401, True), path
        assert running.service.head() == 0
        running.http.headers["authorization"] = "Bearer secret"
        assert running.http.put("/streams/s").status_code == 201


def test_operations_answer(server: Live) -> None:
    assert server.http.get("/$/ping").text == "pong\n"
    assert server.http.get("/$/ready").text == "ready\n"
    assert server.http.get("/$/stats").json()["runner"] == "inline"
    assert server.http.head("/$/ping").status_code == 200


def test_a_server_whose_writer_has_stopped_is_not_ready(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fenced(_: object) -> int:
        raise Fenced("another writer took over")

    with live(tmp_path / "store") as running:
        for verb in ("commit", "take_lease"):
            monkeypatch.setattr(running.service.store, verb, fenced)
        assert running.http.put("/streams/s").status_code == 503
        answer = running.http.get("/$/ready")
        assert (answer.status_code, "another writer took over" in answer.text) == (503, True)
        for text in (answer.text, running.http.get("/console/").text):
            assert "does not write" in text and "restart" not in text, "it writes again by itself"


def test_a_constructed_graph_is_read_as_one_and_an_emission_is_made_again(near: Live) -> None:
    text = NEAR.replace("near", "built").replace(
        "SELECT ?taxi ?zone ?city", "CONSTRUCT { ?city <http://ex/has> ?taxi }"
    )
    near.register(text).raise_for_status()
    for time in (1000, 1150):
        near.push(time).raise_for_status()
    graph = near.http.get("/queries/built/results", headers={"accept": "application/n-triples"})
    assert graph.headers["content-type"].startswith("application/n-triples")
    assert graph.text.strip() == "<http://ex/c1> <http://ex/has> <http://ex/t1> ."
    (line,) = near.http.get("/queries/built/results?since=0").text.splitlines()
    assert json.loads(line)["graph"] == "<http://ex/c1> <http://ex/has> <http://ex/t1> .\n"
    for name in ("built", "near"):
        (stored,) = near.http.get(f"/queries/{name}/results?since=0").text.splitlines()
        again = near.http.get(f"/queries/{name}/results?emission=1")
        assert (again.status_code, again.json()) == (200, json.loads(stored))
    assert near.http.get("/queries/near/results?emission=99").status_code == 404


def test_mistakes_are_reported_with_what_there_is(near: Live) -> None:
    gone = near.http.delete("/streams/nope")
    assert gone.status_code == 404
    assert "there is no stream 'nope'; there is 'taxis'" in gone.text and "CREATE" not in gone.text
    near.http.put("/streams/taxis").raise_for_status()
    assert "did you mean 'taxis'?" in near.http.delete("/streams/taxi").text
    assert "there is no registered query 'x'; there is 'near'" in near.http.get("/queries/x").text
    pushed = near.http.post("/streams/taxis?timestmp=5", content=DATA, headers=NT)
    assert pushed.status_code == 400
    assert "unknown for this request: timestmp= (did you mean 'timestamp'?); known: timestamp," in pushed.text
    assert "qurey= (did you mean 'query'?)" in near.http.get("/sparql?qurey=ASK{}").text


def test_a_stream_is_changed_by_patch_and_says_what_was_probably_not_meant(near: Live) -> None:
    now_s = time_ns() // 10**9
    slip = near.http.post(f"/streams/taxis?timestamp={now_s}", content=DATA, headers=NT).json()
    assert slip["accepted"] == 1 and f"send {now_s * 1000}" in slip["warnings"][0]
    far = f"/streams/taxis?timestamp={now_s * 1_000_000}"
    refused = near.http.post(far, content=DATA, headers=NT)
    assert refused.status_code == 400 and f"was {now_s * 1000} (microseconds) meant?" in refused.text
    assert near.http.patch("/streams/taxis", json={"ahead": "2d"}).json()["ahead"] == 172_800_000
    assert near.http.patch("/streams/taxis", json={"ahead": "any"}).json()["ahead"] == "any"
    assert near.http.patch("/streams/taxis", json={"lateness": "5s"}).status_code == 409
    assert near.http.patch("/streams/nope", json={"ahead": "any"}).status_code == 404
    assert near.http.post(far, content=DATA, headers=NT).status_code == 202
    near.http.post("/sparql", data={"update": 'CREATE STREAM replay WITH (ahead = "any")'}).raise_for_status()
    assert near.http.get("/streams/replay").json()["ahead"] == "any"


def test_a_stream_is_changed_with_the_token_only(tmp_path: Path) -> None:
    with live(tmp_path, token="s3cret") as guarded:
        guarded.service.create_stream("s", {})
        assert guarded.http.patch("/streams/s", json={"ahead": "any"}).status_code == 401
        bearer = {"authorization": "Bearer s3cret"}
        assert guarded.http.patch("/streams/s", json={"ahead": "any"}, headers=bearer).status_code == 200
