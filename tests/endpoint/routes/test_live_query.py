"""Live queries on /sparql: they say what a registered query says, and are there as long as somebody listens."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from endpoint.limits import HttpLimits
from stream_ext.clock import SystemClock
from stream_ext.service.service import Service
from tests.endpoint.live import BASE, NEAR, SPARQL_QUERY, Live, live
from tests.parts.waiting import PATIENCE_S

SSE = {"accept": "text/event-stream"}
ARRIVALS = (
    "PREFIX ex: <http://ex/> SELECT ?taxi ?zone ?city "
    "WHERE { STREAM taxis [RANGE 1s] { ?taxi ex:in ?zone } ?zone ex:partOf ?city }"
)
BARE = NEAR.replace("REGISTER RSTREAM near AS\n", "")


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Live]:
    with live(tmp_path / "store", limits=HttpLimits(live=2, heartbeat_s=0.05)) as server:
        server.http.put("/streams/taxis").raise_for_status()
        server.update("INSERT DATA { <http://ex/z1> <http://ex/partOf> <http://ex/c1> }")
        yield server


class Listening:
    """An open answer; it is there when its query is."""

    def __init__(self, answer: httpx.Response) -> None:
        self.answer, self._lines = answer, answer.iter_lines()
        self.name = answer.headers["location"].rpartition("/")[2]

    def emissions(self, count: int) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        while len(found) < count:
            line = next(self._lines)
            if line.startswith("data: "):
                found.append(json.loads(line.removeprefix("data: ")))
        return found

    def rest(self) -> list[str]:
        return [line for line in self._lines if line.startswith("data: ")]


@contextmanager
def listening(server: Live, text: str = BARE, method: str = "GET", **headers: str) -> Iterator[Listening]:
    sent: dict[str, Any] = {"params": {"query": text}} if method == "GET" else {"data": {"query": text}}
    with server.http.stream(method, "/sparql", headers=SSE | headers, **sent) as answer:
        assert answer.status_code == 200, answer.read()
        assert answer.headers["content-type"].startswith("text/event-stream")
        yield Listening(answer)


@pytest.fixture
def dropped(running: Live, monkeypatch: pytest.MonkeyPatch) -> threading.Semaphore:
    """One more for each query that has been dropped."""
    done, drop = threading.Semaphore(0), running.service.drop_query

    def drop_and_tell(name: str) -> None:
        drop(name)
        done.release()

    monkeypatch.setattr(running.service, "drop_query", drop_and_tell)
    return done


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize(
    "text",
    [BARE, BARE.replace("SELECT ?taxi ?zone ?city", "ASK"), BARE.replace("SELECT", "SELECT ISTREAM"), ARRIVALS],
)
def test_it_says_what_the_registered_query_says(running: Live, text: str, method: str) -> None:
    running.http.put("/queries/near", content=text, headers=SPARQL_QUERY).raise_for_status()
    with listening(running, text, method) as listener:
        for time in (1000, 1050, 1210):
            running.push(time, f"<http://ex/t{time}> <http://ex/in> <http://ex/z1> .").raise_for_status()
        running.http.post("/streams/taxis/heartbeat?timestamp=3000&wait=evaluated").raise_for_status()
        observed = running.http.get("/queries/near/results?since=0").text.splitlines()
        registered = [json.loads(line) for line in observed]
        received = listener.emissions(len(registered))
    assert len(registered) > 2
    assert [each | {"query": "near"} for each in received] == registered


def test_it_constructs(running: Live) -> None:
    made = "CONSTRUCT { ?taxi <http://ex/near> ?city }"
    with listening(running, BARE.replace("SELECT ?taxi ?zone ?city", made)) as listener:
        running.push(1000)
        running.push(1100)
        (emission,) = listener.emissions(1)
    assert emission["graph"] == "<http://ex/t1> <http://ex/near> <http://ex/c1> .\n"


def test_it_goes_with_its_listener(running: Live, dropped: threading.Semaphore) -> None:
    with listening(running) as first, listening(running) as second:
        listed = [query["query"] for query in running.http.get("/queries").json()["queries"]]
        assert listed == [first.name, second.name]
    assert dropped.acquire(timeout=PATIENCE_S) and dropped.acquire(timeout=PATIENCE_S)
    assert running.http.get("/queries").json() == {"queries": []}
    with listening(running) as third:
        running.push(1000)
        running.push(1100)
        assert [each["emission"] for each in third.emissions(1)] == [1]


def test_the_server_that_stops_drops_it_and_its_listener_gets_the_end(tmp_path: Path) -> None:
    with live(tmp_path / "store") as server:
        server.http.put("/streams/taxis").raise_for_status()
        with listening(server) as listener:
            server.stop()
            assert listener.rest() == []
    with reopened(tmp_path) as service:
        assert service.queries() == []


def test_one_that_was_left_by_a_crash_is_dropped_at_the_next_start(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    with reopened(tmp_path) as service:
        service.register(NEAR)
        service.register_live(BARE, "live.1")
        assert [query.name for query in service.queries()] == ["near", "live.1"]
    with reopened(tmp_path) as service:
        assert [query.name for query in service.queries()] == ["near"]


def reopened(folder: Path) -> Service:
    return Service.open(f"lmdb:{folder / 'store'}", base=BASE, clock=SystemClock(), engine="inline")


def test_an_operator_can_end_it(running: Live) -> None:
    with listening(running) as listener:
        assert running.http.delete(f"/queries/{listener.name}").status_code == 204
        assert listener.rest() == []
    assert running.http.get("/queries").json() == {"queries": []}


def test_there_are_only_so_many(running: Live) -> None:
    with listening(running), listening(running):
        refused = running.http.get("/sparql", params={"query": BARE}, headers=SSE)
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
        assert "2 live queries" in refused.text


def test_it_needs_the_token_where_there_is_one_and_makes_no_stream(tmp_path: Path) -> None:
    with live(tmp_path / "store", token="secret") as server:
        statuses = {}
        for authorization in ("Bearer wrong", "Bearer secret"):
            headers = SSE | {"authorization": authorization}
            statuses[authorization] = server.http.get("/sparql", params={"query": BARE}, headers=headers).status_code
        assert statuses == {"Bearer wrong": 401, "Bearer secret": 404}
        assert (server.service.streams(), server.service.queries()) == ([], [])


@pytest.mark.parametrize(
    ("says", "text", "parameters"),
    [
        ("needs windows", "SELECT * { ?s ?p ?o }", {}),
        ("snapshot=", BARE, {"snapshot": "1"}),
        ("at=", BARE, {"at": "1000"}),
        ("timeout=", BARE, {"timeout": "1s"}),
        ("default-graph-uri=", BARE, {"default-graph-uri": "http://ex/g"}),
        ("since=", BARE, {"since": "1"}),
        ("a registered DESCRIBE", BARE.replace("SELECT ?taxi ?zone ?city", "DESCRIBE ?taxi"), {}),
        ("setMethod(POST)", NEAR, {}),
    ],
)
def test_what_cannot_be_live_is_refused_with_the_reason(
    running: Live, says: str, text: str, parameters: dict[str, str]
) -> None:
    answer = running.http.get("/sparql", params={"query": text, **parameters}, headers=SSE)
    assert (answer.status_code, says in answer.text) == (400, True), answer.text
    assert running.http.get("/queries").json() == {"queries": []}


def test_who_would_rather_have_something_else_gets_that(running: Live) -> None:
    liked = {"accept": "application/sparql-results+json, text/event-stream;q=0.5"}
    once = running.http.get("/sparql", params={"query": BARE, "at": "1000"}, headers=liked)
    assert (once.status_code, once.headers["content-type"]) == (200, "application/sparql-results+json")
