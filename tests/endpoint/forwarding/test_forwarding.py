"""A server that reads a store answers writes as if it had done them: the server that writes to the store has."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from endpoint.forwarding import forwarding
from endpoint.http.sealed import HEADER, Seal
from tests.endpoint.forwarding.shared import PretendedWriter, shared_store, two_servers
from tests.endpoint.live import NEAR, NT, TAXI_IN_ZONE, Live
from tests.parts.waiting import until

TURTLE, EVENTS = {"content-type": "text/turtle"}, {"accept": "text/event-stream"}
ALL = "SELECT * { ?s ?p ?o } ORDER BY ?s ?p ?o"
ONE = "INSERT DATA { <http://ex/a> <http://ex/b> 1 }"


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[tuple[Live, Live]]:
    with two_servers(tmp_path) as both:
        yield both


def rows(server: Live, text: str = ALL, **named: object) -> list[dict[str, str]]:
    answer = server.http.get("/sparql", params={"query": text, **named})  # type: ignore[arg-type]
    answer.raise_for_status()
    return [{name: term["value"] for name, term in row.items()} for row in answer.json()["results"]["bindings"]]


def stats(server: Live) -> dict[str, object]:
    found: dict[str, object] = server.http.get("/$/stats").json()
    return found


def test_each_server_says_its_role_and_the_reader_says_who_writes(servers: tuple[Live, Live]) -> None:
    writer, reader = servers
    assert (stats(writer)["role"], stats(writer)["holder"]) == ("writer", None)
    holder = stats(reader)["holder"]
    assert stats(reader)["role"] == "reader"
    assert isinstance(holder, dict) and holder["address"] == writer.url + "/"
    assert [server.http.get("/$/ready").status_code for server in servers] == [200, 200]
    assert "rillet_writer 1.0" in writer.http.get("/$/metrics").text
    assert "rillet_writer 0.0" in reader.http.get("/$/metrics").text
    until(lambda: stats(writer)["readers"] == 1, "the writer does not notice its reader")
    assert stats(reader)["readers"] == 0
    assert "rillet_readers 1.0" in writer.http.get("/$/metrics").text


def test_what_is_written_through_the_reader_is_there_at_once_at_both(servers: tuple[Live, Live]) -> None:
    writer, reader = servers
    number = "http://www.w3.org/2001/XMLSchema#integer"
    writes = [
        reader.http.post("/update", data={"update": ONE}),
        reader.http.post(
            "/sparql", content=ONE.replace(" 1 ", " 2 "), headers={"content-type": "application/sparql-update"}
        ),
        reader.http.post("/data?default", content="<http://ex/a> <http://ex/b> 3 .", headers=TURTLE),
        reader.http.post(
            "/data?default", headers={"content-type": "application/n-triples", "content-encoding": "gzip"},
            content=gzip.compress(f'<http://ex/a> <http://ex/b> "4"^^<{number}> .'.encode()),
        ),
        reader.http.post("/$/loads", content=f'<http://ex/a> <http://ex/b> "5"^^<{number}> .\n', headers=NT),
    ]  # fmt: skip
    for written, there in zip(writes, range(1, 6), strict=True):
        assert written.is_success, written.text
        assert int(written.headers["rillet-snapshot"]) == there
    assert [row["o"] for row in rows(reader)] == list("12345")
    assert rows(reader) == rows(writer)
    assert reader.http.put("/data?graph=http://ex/g", content=TAXI_IN_ZONE, headers=NT).status_code == 201
    assert reader.http.delete("/data?graph=http://ex/g").status_code == 204
    assert reader.http.get("/data?graph=http://ex/g").status_code == 404


def test_streams_and_queries_of_the_reader_are_those_of_the_writer(servers: tuple[Live, Live]) -> None:
    writer, reader = servers
    made = reader.http.put("/streams/taxis", json={"lateness": "1ms"})
    assert (made.status_code, made.headers["location"]) == (201, reader.url + "/streams/taxis")
    assert reader.http.put("/streams/taxis", json={"lateness": "1ms"}).status_code == 200
    assert reader.http.put("/streams/taxis", json={"lateness": "2ms"}).status_code == 409
    reader.update("INSERT DATA { <http://ex/z1> <http://ex/partOf> <http://ex/c1> }")
    registered = reader.register()
    assert registered.status_code == 201
    assert registered.json()["results"] == reader.url + "/queries/near/results"
    pushed = reader.push(1_000)
    assert (pushed.status_code, pushed.json()["accepted"], pushed.json()["batch"]) == (202, 1, 1)
    beat = reader.http.post("/streams/taxis/heartbeat?timestamp=2000&wait=evaluated")
    assert beat.status_code == 202
    emissions = reader.http.get("/queries/near/results?since=0").text.splitlines()
    assert emissions, "what was evaluated before the answer can be read here at once"
    assert emissions == writer.http.get("/queries/near/results?since=0").text.splitlines()
    latest = [server.http.get("/queries/near/results").json() for server in servers]
    assert latest[0] == latest[1]
    status = [server.http.get("/queries/near").json() for server in servers]
    assert [each["state"] for each in status] == ["running", "running"]
    assert status[0]["emissions"] == status[1]["emissions"] == len(emissions)
    assert reader.http.get("/queries?status=true").json()["queries"][0]["emissions"] == len(emissions)
    assert reader.http.post("/queries/near?action=pause").json()["state"] == "paused"
    assert reader.http.delete("/queries/near").status_code == 204
    assert reader.http.get("/queries/near/results").status_code == 404
    unknown = reader.http.post("/streams/nobody", content=TAXI_IN_ZONE, headers=NT)
    assert (unknown.status_code, "there is no stream 'nobody'" in unknown.text) == (404, True)


def test_subscribers_of_the_reader_get_what_the_writer_emits(servers: tuple[Live, Live]) -> None:
    writer, reader = servers
    writer.http.put("/streams/taxis", json={})
    writer.update("INSERT DATA { <http://ex/z1> <http://ex/partOf> <http://ex/c1> }")
    writer.register(NEAR)
    until(lambda: reader.http.get("/queries/near").is_success, "the reader does not know the query")
    with reader.http.stream("GET", "/queries/near/results", headers=EVENTS) as events:
        lines = events.iter_lines()
        next(lines)
        writer.push(1_000)
        writer.http.post("/streams/taxis/heartbeat?timestamp=1300").raise_for_status()
        numbers = []
        for line in lines:
            if line.startswith("data:"):
                numbers.append(json.loads(line[5:])["emission"])
                if len(numbers) == 3:
                    break
    assert numbers == [1, 2, 3]


def test_a_live_query_at_the_reader_ends_with_its_connection(servers: tuple[Live, Live]) -> None:
    writer, reader = servers
    writer.http.put("/streams/taxis", json={})
    writer.update("INSERT DATA { <http://ex/z1> <http://ex/partOf> <http://ex/c1> }")
    text = NEAR.replace("REGISTER RSTREAM near AS\n", "")
    with reader.http.stream("GET", "/sparql", params={"query": text}, headers=EVENTS) as events:
        assert events.status_code == 200
        lines = events.iter_lines()
        next(lines)
        writer.push(1_000)
        writer.http.post("/streams/taxis/heartbeat?timestamp=1300").raise_for_status()
        found = next(json.loads(line[5:]) for line in lines if line.startswith("data:"))
        assert found["results"]["bindings"][0]["taxi"]["value"] == "http://ex/t1"
    until(lambda: not writer.service.queries(), "the live query is not dropped")


def test_one_shot_queries_and_snapshots_are_answered_by_the_reader_itself(servers: tuple[Live, Live]) -> None:
    writer, reader = servers
    writer.update(ONE)
    head = writer.service.head()
    assert len(rows(reader, snapshot=head)) == 1, "a snapshot that exists is waited for"
    assert reader.http.get("/sparql", params={"query": ALL, "snapshot": head + 1}).status_code == 410
    before = writer.http.get("/$/metrics").text.count("/sparql")
    rows(reader)
    assert writer.http.get("/$/metrics").text.count("/sparql") == before
    assert reader.http.post("/sparql", data={"query": "EXPLAIN " + ALL}).status_code == 200


def test_a_snapshot_that_another_thread_has_just_read_is_there(
    servers: tuple[Live, Live], monkeypatch: pytest.MonkeyPatch
) -> None:
    writer, reader = servers
    opened = reader.service._opened
    reader.service._role._standby.close()  # so that nobody else follows the writer
    follow = opened.follow

    def after_another_thread() -> bool:
        assert follow()
        return follow()

    writer.update(ONE)
    monkeypatch.setattr(opened, "follow", after_another_thread)
    assert len(rows(reader, snapshot=writer.service.head())) == 1


def test_a_reader_that_is_told_makes_no_calls_of_the_store(
    servers: tuple[Live, Live], monkeypatch: pytest.MonkeyPatch
) -> None:
    writer, reader = servers
    standby = reader.service._role._standby
    until(standby._is_notified, "the writer does not tell the reader of its snapshots")
    looked: list[int] = []
    follow = standby._writing.follow

    def counted() -> bool:
        looked.append(1)
        return follow()

    monkeypatch.setattr(standby._writing, "follow", counted)
    last_sign_ms = standby._last_sign_ms
    until(lambda: standby._last_sign_ms != last_sign_ms, "there is no sign of life")
    assert len(looked) <= 3, "it looks by itself now and then only, and not every 50 ms"
    writer.update(ONE)
    until(lambda: len(rows(reader)) == 1, "the reader does not hear of the snapshot")
    assert len(looked) <= 6


def test_only_servers_of_the_store_may_follow_its_heads(servers: tuple[Live, Live]) -> None:
    writer, reader = servers
    assert writer.http.get("/$/heads").status_code == 403
    sealed = Seal(reader.service.store.secret()).sealed("http", "GET", b"/$/heads")
    assert reader.http.get("/$/heads", headers={HEADER: sealed}).status_code == 503


def test_the_reader_becomes_the_writer_when_the_writer_ends(tmp_path: Path) -> None:
    with shared_store(tmp_path) as shared:
        with shared.serving() as writer:
            reading = shared.serving()
            reader = reading.__enter__()
            reader.update(ONE)
            assert writer.service.role == "writer"
        try:
            answer = reader.http.post("/update", data={"update": ONE.replace(" 1 ", " 2 ")})
            assert answer.status_code == 204, answer.text
            assert (stats(reader)["role"], len(rows(reader))) == ("writer", 2)
            with shared.serving() as again:
                again.update(ONE.replace(" 1 ", " 3 "))
                assert (stats(again)["role"], len(rows(again))) == ("reader", 3)
        finally:
            reading.__exit__(None, None, None)


# ---- who may ------------------------------------------------------------------------------------------------------


def test_the_reader_checks_the_token_and_the_writer_trusts_the_seal(tmp_path: Path) -> None:
    with shared_store(tmp_path) as shared, shared.serving("of-the-writer"), shared.serving("of-the-reader") as reader:
        for token, status in (("", 401), ("of-the-writer", 401), ("of-the-reader", 204)):
            headers = {"authorization": f"Bearer {token}"} if token else {}
            assert reader.http.post("/update", data={"update": ONE}, headers=headers).status_code == status
        page = {"authorization": "Bearer of-the-reader", "origin": "http://evil.example"}
        assert reader.http.post("/update", data={"update": ONE}, headers=page).status_code == 403


def test_a_forged_or_copied_seal_opens_nothing(servers: tuple[Live, Live]) -> None:
    writer, reader = servers
    secret = writer.service.store.secret()
    assert reader.service.store.secret() == secret
    for header in ("yes", "http a b", Seal(b"guessed").sealed("http", "POST", b"/update")):
        answer = writer.http.post("/update", data={"update": ONE}, headers={HEADER: header})
        assert (answer.status_code, "was not forwarded by a server" in answer.text) == (403, True)
    of_another = Seal(secret).sealed("http", "POST", b"/streams/s")
    assert writer.http.post("/update", data={"update": ONE}, headers={HEADER: of_another}).status_code == 403


def test_a_forwarded_request_is_never_forwarded_again(servers: tuple[Live, Live]) -> None:
    _, reader = servers
    sealed = Seal(reader.service.store.secret()).sealed("http", "POST", b"/update")
    answer = reader.http.post("/update", data={"update": ONE}, headers={HEADER: sealed})
    assert (answer.status_code, answer.headers["rillet-error"]) == (503, "not-writer")
    assert rows(reader) == []


# ---- bounds, and writers that do not answer -------------------------------------------------------------------------


def test_bodies_that_are_too_large_end_at_the_reader(
    servers: tuple[Live, Live], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, reader = servers
    reader.http.put("/streams/s", json={}).raise_for_status()
    limits = reader.server._app.app_state.limits
    monkeypatch.setattr("endpoint.forwarding.requests.BUFFERED_BYTES", 10)
    object.__setattr__(limits, "body_bytes", 1_000)

    def pieces() -> Iterator[bytes]:
        for _ in range(100):
            yield TAXI_IN_ZONE.encode() + b"\n"

    try:
        answer = reader.http.post("/streams/s", content=pieces(), headers=NT)
        assert answer.status_code == 413
    except httpx.WriteError:
        pass  # it was refused before all of it was sent
    short = reader.http.post("/streams/s", content=iter([TAXI_IN_ZONE.encode()]), headers=NT)
    assert short.status_code == 202, "a body without a length is passed on as it arrives"


def test_a_writer_that_breaks_off_leaves_the_outcome_unknown(tmp_path: Path) -> None:
    breaks_off = PretendedWriter(lambda request: b"")
    with shared_store(tmp_path) as shared, shared.written_by(breaks_off.address), shared.serving() as reader:
        answer = reader.http.post("/update", data={"update": ONE}, headers={"accept": "application/problem+json"})
        assert answer.status_code == 503
        assert answer.json()["type"] == "urn:rillet:error:outcome-unknown"
        assert len([request for request in breaks_off.requests if b"/update" in request]) == 1, "not sent again"
    breaks_off.close()


def test_a_push_with_source_and_seq_is_sent_again_when_the_answer_was_lost(tmp_path: Path) -> None:
    answers = [b"", b"HTTP/1.1 202 Accepted\r\ncontent-length: 2\r\n\r\n{}"]
    loses_one = PretendedWriter(lambda request: answers.pop(0))
    with shared_store(tmp_path) as shared, shared.written_by(loses_one.address), shared.serving() as reader:
        answer = reader.http.post("/streams/s?source=me&seq=1", content=TAXI_IN_ZONE, headers=NT)
        assert (answer.status_code, answer.text) == (202, "{}")
        assert len(loses_one.requests) == 2
    loses_one.close()


def test_nothing_is_done_while_no_writer_can_be_reached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forwarding, "PATIENCE_S", 0.3)
    for address, why in (("http://127.0.0.1:9/", "cannot be reached"), ("", "is not a server")):
        with (
            shared_store(tmp_path / why.replace(" ", "_")) as shared,
            shared.written_by(address),
            shared.serving() as reader,
        ):
            problem = {"accept": "application/problem+json"}
            answer = reader.http.post("/update", data={"update": ONE}, headers=problem)
            assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
            assert answer.json()["type"] == "urn:rillet:error:not-writer"
            assert why in answer.json()["detail"]
            assert rows(reader) == [], "reads are answered"
            assert reader.http.get("/$/ready").status_code == (200 if address else 503)
