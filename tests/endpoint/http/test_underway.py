"""Questions while they run: listed, cancelled, timed out; and small answers that are remembered."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import repeat
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from endpoint.http.answer_cache import AnswerCache, Reply
from endpoint.limits import HttpLimits
from stream_ext.errors import DeadlineExceeded, QueryCancelled
from stream_ext.evaluation_budget import Control
from stream_ext.oneshot.answers import Decoded
from stream_ext.writer.change import HeadView, Intent
from tests.endpoint.live import Live, live
from tests.parts.waiting import PATIENCE_S

ALL = "SELECT * { ?s ?p ?o }"


class Endless:
    """An evaluation that goes on until its control ends it; it looks at it whenever it is told to."""

    def __init__(self, looks: bool = True) -> None:
        self.began, self.ended, self.let_go = threading.Event(), threading.Event(), threading.Event()
        self.error: Exception | None = None
        self._looks = looks

    def __call__(self, text: str, snapshot: Any, at: Any, dataset: Any, control: Control, **more: Any) -> Any:
        self.began.set()
        try:
            while not self.let_go.wait(0.005):
                if self._looks:
                    control.check()
        except (QueryCancelled, DeadlineExceeded) as error:
            self.error = error
            raise
        finally:
            self.ended.set()
        control.check()
        raise AssertionError("it was let go without having been cancelled")


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Live]:
    with live(tmp_path / "store", limits=HttpLimits(query_s=30, rows=1_000)) as server:
        server.update("INSERT DATA { <http://ex/a> <http://ex/p> 1 }")
        yield server


@pytest.fixture
def endless(running: Live, monkeypatch: pytest.MonkeyPatch) -> Iterator[Endless]:
    made = Endless()
    monkeypatch.setattr(running.service, "query", made)
    yield made
    made.let_go.set()


def in_background(call: Callable[[], httpx.Response]) -> Any:
    pool = ThreadPoolExecutor(1)
    future = pool.submit(call)
    pool.shutdown(wait=False)
    return future


def test_a_running_query_is_listed_and_can_be_cancelled(running: Live, endless: Endless) -> None:
    asked = in_background(lambda: httpx.get(running.url + "/sparql", params={"query": ALL}, timeout=PATIENCE_S))
    assert endless.began.wait(PATIENCE_S)
    (listed,) = running.http.get("/$/queries").json()["queries"]
    assert (listed["query"], listed["state"]) == (ALL, "running")
    assert running.http.delete(f"/$/queries/{listed['id']}").status_code == 204
    answer = asked.result(PATIENCE_S)
    assert (answer.status_code, "cancelled" in answer.text) == (503, True)
    assert running.http.get("/$/queries").json() == {"queries": []}
    assert running.http.delete(f"/$/queries/{listed['id']}").status_code == 404


def test_a_client_that_goes_away_ends_its_query(running: Live, endless: Endless) -> None:
    host, port = running.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(f"GET /sparql?query={quote(ALL)} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode())
        assert endless.began.wait(PATIENCE_S)
    assert endless.ended.wait(PATIENCE_S)
    assert isinstance(endless.error, QueryCancelled)


def test_a_query_has_its_time_and_no_more(running: Live, endless: Endless) -> None:
    answer = running.http.get("/sparql", params={"query": ALL, "timeout": "50ms"})
    assert (answer.status_code, "0.05 s" in answer.text) == (503, True)
    assert endless.ended.wait(PATIENCE_S)
    assert isinstance(endless.error, DeadlineExceeded)


def test_who_waits_is_answered_in_time_even_by_an_operator_that_does_not_look(
    running: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    deaf = Endless(looks=False)
    monkeypatch.setattr(running.service, "query", deaf)
    answer = running.http.get("/sparql", params={"query": ALL, "timeout": "50ms"})
    assert answer.status_code == 503
    assert not deaf.ended.is_set()
    deaf.let_go.set()
    assert deaf.ended.wait(PATIENCE_S)


class Held:
    """A change that keeps the writer until it is let go."""

    def __init__(self) -> None:
        self.began, self.let_go = threading.Event(), threading.Event()

    def __call__(self, view: HeadView) -> Intent:
        self.began.set()
        self.let_go.wait(PATIENCE_S)
        return Intent(lambda sn: sn)


@pytest.fixture
def held(running: Live) -> Iterator[Held]:
    made = Held()
    done = in_background(lambda: running.service.change(made))
    assert made.began.wait(PATIENCE_S)
    yield made
    made.let_go.set()
    done.result(PATIENCE_S)


def test_a_running_update_is_listed_and_can_be_cancelled_before_it_is_published(running: Live, held: Held) -> None:
    text = "INSERT { ?s <http://ex/q> ?o } WHERE { ?s <http://ex/p> ?o }"
    asked = in_background(lambda: httpx.post(running.url + "/update", data={"update": text}, timeout=PATIENCE_S))
    listed: list[dict[str, Any]] = []
    while not listed:
        listed = running.http.get("/$/queries").json()["queries"]
    assert (listed[0]["update"], listed[0]["state"]) == (text, "running")
    assert running.http.delete(f"/$/queries/{listed[0]['id']}").status_code == 204
    # One that did not wait for the writer yet has ended.
    assert {each["state"] for each in running.http.get("/$/queries").json()["queries"]} <= {"cancelled"}
    held.let_go.set()
    answer = asked.result(PATIENCE_S)
    assert (answer.status_code, "the update was cancelled" in answer.text) == (503, True)
    assert running.http.get("/sparql", params={"query": "ASK { ?s <http://ex/q> ?o }"}).json()["boolean"] is False
    assert running.http.get("/$/queries").json() == {"queries": []}


def test_an_update_whose_client_goes_away_is_done(running: Live, held: Held) -> None:
    body = b"update=" + quote("INSERT DATA { <http://ex/b> <http://ex/p> 2 }").encode()
    host, port = running.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as connection:
        head = f"POST /update HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(body)}\r\n"
        connection.sendall(f"{head}content-type: application/x-www-form-urlencoded\r\n\r\n".encode() + body)
        while not running.http.get("/$/queries").json()["queries"]:
            pass
    held.let_go.set()
    while running.http.get("/$/queries").json()["queries"]:
        pass
    assert running.http.get("/sparql", params={"query": "ASK { <http://ex/b> ?p 2 }"}).json()["boolean"] is True


@pytest.fixture
def flood(running: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every answer goes on for ever."""
    batch = Decoded([b'"row"'], [[0] * 5_000] * 3, 5_000)
    monkeypatch.setattr(running.service, "decoded", lambda columns, answer: repeat(batch))


@pytest.mark.usefixtures("flood")
def test_a_cancel_while_the_answer_is_sent_cuts_it_off(running: Live) -> None:
    with httpx.stream("GET", running.url + "/sparql", params={"query": ALL}, timeout=PATIENCE_S) as answer:
        (listed,) = running.http.get("/$/queries").json()["queries"]
        running.http.delete(f"/$/queries/{listed['id']}").raise_for_status()
        with pytest.raises(httpx.RemoteProtocolError):
            answer.read()


@pytest.mark.usefixtures("flood")
def test_nothing_more_is_written_for_a_client_that_goes_away_while_it_reads(running: Live) -> None:
    with httpx.stream("GET", running.url + "/sparql", params={"query": ALL}, timeout=PATIENCE_S) as answer:
        next(answer.iter_bytes())
        assert len(running.server._app.app_state.underway) == 1
    for _ in range(200):
        if not running.http.get("/$/queries").json()["queries"]:
            return
    raise AssertionError("the query still runs")


def test_an_answer_of_too_many_rows_is_refused(running: Live) -> None:
    running.service.update(
        "INSERT DATA { " + " ".join(f"<http://ex/s> <http://ex/n> {n} ." for n in range(1_001)) + "}"
    )
    answer = running.http.get("/sparql", params={"query": "SELECT ?n { ?s <http://ex/n> ?n }"})
    assert (answer.status_code, "1001 rows; the limit is 1000" in answer.text) == (413, True)


def test_solutions_that_no_machine_holds_are_refused_and_a_few_of_them_are_not(running: Live) -> None:
    triples = " ".join(f"<http://ex/s{n}> <http://ex/of> <http://ex/c> ." for n in range(9_000))
    running.service.update(f"INSERT DATA {{ {triples} }}")
    query = "SELECT {} {{ ?a <http://ex/of> ?c . ?b <http://ex/of> ?c . ?d <http://ex/of> ?c }} {}"
    refused = running.http.get("/sparql", params={"query": query.format("?c", "")})
    assert (refused.status_code, "729000000000 solutions" in refused.text) == (413, True)
    for form, end, count in (("?c", "LIMIT 5", 5), ("?c", "OFFSET 3 LIMIT 5", 5), ("DISTINCT ?c", "", 1)):
        rows = running.http.get("/sparql", params={"query": query.format(form, end)}, headers={"accept": "text/csv"})
        assert rows.text.split() == ["c", *["http://ex/c"] * count]


# ---- what is remembered


def test_what_is_asked_again_is_not_evaluated_again_until_the_snapshot_changes(
    running: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    evaluated: list[str] = []
    query = running.service.query

    def counted(text: str, *rest: Any, **named: Any) -> Any:
        evaluated.append(text)
        return query(text, *rest, **named)

    monkeypatch.setattr(running.service, "query", counted)

    def ask(accept: str = "text/csv", **parameters: str) -> str:
        return running.http.get("/sparql", params={"query": ALL, **parameters}, headers={"accept": accept}).text

    first = ask()
    assert (ask(), len(evaluated)) == (first, 1)
    assert (ask("application/json") == first, len(evaluated)) == (False, 2)
    assert (ask(snapshot=str(running.service.head())), len(evaluated)) == (first, 3)
    assert (ask(snapshot=str(running.service.head())), len(evaluated)) == (first, 4)  # it may be gone one day
    posted = [running.http.post("/sparql", data={"query": ALL}, headers={"accept": "text/csv"}).text for _ in range(2)]
    assert (posted, len(evaluated)) == ([first, first], 5)
    running.update("INSERT DATA { <http://ex/b> <http://ex/p> 2 }")
    assert ask().count("\n") == first.count("\n") + 1


def test_the_remembered_is_bounded() -> None:
    retained = AnswerCache(bytes_max=100)
    assert retained.get((b"a", "", "", b""), 7) is None
    retained.put((b"a", "", "", b""), 7, Reply(b"x" * 60, b"t"))
    retained.put((b"old", "", "", b""), 6, Reply(b"x", b"t"))
    assert retained.get((b"old", "", "", b""), 7) is None
    assert retained.get((b"a", "", "", b""), 7) == Reply(b"x" * 60, b"t")
    retained.put((b"b", "", "", b""), 7, Reply(b"y" * 60, b"t"))
    assert retained.get((b"a", "", "", b""), 7) is None
    assert retained.get((b"b", "", "", b""), 8) is None
