"""Live queries on /sparql: answered for as long as one listens, and then gone."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from stream_ext.clock import SystemClock
from stream_ext.service import Service
from tests.endpoint.live import BASE, NEAR, Live, live

SSE = {"accept": "text/event-stream"}
TEXT = NEAR.replace("REGISTER RSTREAM near AS", "")


def queries(running: Live) -> list[str]:
    return [each["query"] for each in running.http.get("/queries").json()["queries"]]


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_windowed_question_goes_on_being_answered_while_one_listens(method: str, tmp_path: Path) -> None:
    with live(tmp_path / "store") as running:
        running.http.put("/streams/taxis").raise_for_status()
        running.update("INSERT DATA { <http://ex/z1> <http://ex/partOf> <http://ex/c1> }")
        asked = {"params": {"query": TEXT}} if method == "GET" else {"data": {"query": TEXT}}
        with running.http.stream(method, "/sparql", headers=SSE, **asked) as answer:  # type: ignore[arg-type]  # httpx's own names
            assert answer.headers["content-type"].startswith("text/event-stream")
            lines = answer.iter_lines()
            next(lines)
            assert len(queries(running)) == 1
            for time in (1000, 1150):
                running.push(time).raise_for_status()
            emission = json.loads(next(line for line in lines if line.startswith("data: "))[6:])
            assert [row["taxi"]["value"] for row in emission["results"]["bindings"]] == ["http://ex/t1"]
        gone = threading.Event()
        for _ in range(1000):
            if not queries(running):
                gone.set()
                break
            gone.wait(0.01)
        assert gone.is_set(), "it ends with its connection"


@pytest.mark.parametrize(
    ("status", "says", "query"),
    [
        (400, "has windows", "SELECT * { ?s ?p ?o }"),
        (404, "no stream 'taxis'", TEXT),
        (400, "a NOW window is not built yet", TEXT.replace("RANGE 1s STEP 100ms", "NOW")),
    ],
)
def test_what_cannot_be_live_is_told_why(status: int, says: str, query: str, tmp_path: Path) -> None:
    with live(tmp_path / "store") as running:
        answer = running.http.get("/sparql", params={"query": query}, headers=SSE)
        assert (answer.status_code, says in answer.text) == (status, True), answer.text
        assert queries(running) == []


def test_it_needs_the_token_where_there_is_one(tmp_path: Path) -> None:
    with live(tmp_path / "store", token="secret") as running:
        assert running.http.get("/sparql", params={"query": TEXT}, headers=SSE).status_code == 401


def test_one_that_was_left_behind_is_dropped_at_the_next_start(tmp_path: Path) -> None:
    url = f"lmdb:{tmp_path / 'store'}"
    with Service.open(url, base=BASE, clock=SystemClock(), engine="inline") as service:
        service.create_stream("taxis", {})
        service.register_live(TEXT, "live.1")
        service.register(NEAR)
    with Service.open(url, base=BASE, clock=SystemClock(), engine="inline") as service:
        assert [query.name for query in service.queries()] == ["near"]
