"""Equal requests at once: one of them is evaluated, and all get its answer."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote

import httpx
import pytest

from endpoint.http.answer_cache import Evaluation, Reply
from endpoint.routes import one_shot
from stream_ext.errors import QueryTooLarge
from stream_ext.evaluation_budget import Control
from tests.endpoint.live import Live, live
from tests.parts.waiting import until

ALL = "SELECT * { ?s ?p ?o }"
CLIENTS = 8


class Held:
    """Evaluations, each of which waits until it is let go."""

    def __init__(self, running: Live, monkeypatch: pytest.MonkeyPatch) -> None:
        self.let_go, self.controls = threading.Event(), list[Control]()
        self.errors: list[Exception] = []  # of the next evaluations
        self._query = running.service.query
        monkeypatch.setattr(running.service, "query", self)

    def __call__(self, text: str, snapshot: Any, at: Any, dataset: Any, control: Control, **more: Any) -> Any:
        answer = self._query(text, snapshot, at, dataset, control)
        self.controls.append(control)
        while not self.let_go.wait(0.005):
            control.check()
        if self.errors:
            raise self.errors.pop()
        return answer


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Live]:
    with live(tmp_path / "store") as server:
        server.update("INSERT DATA { <http://ex/a> <http://ex/p> 1 }")
        yield server


@pytest.fixture
def held(running: Live, monkeypatch: pytest.MonkeyPatch) -> Iterator[Held]:
    made = Held(running, monkeypatch)
    yield made
    made.let_go.set()


@pytest.fixture
def clients() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(2 * CLIENTS) as pool:
        yield pool


class Asking:
    def __init__(self, running: Live, clients: ThreadPoolExecutor) -> None:
        self.running, self._clients = running, clients

    def __call__(self, text: str, count: int, **parameters: str) -> list[Future[httpx.Response]]:
        """Begun, and listed by the server."""
        before = len(self.listed())
        asked = [self._clients.submit(self._one, text, parameters) for _ in range(count)]
        until(lambda: len(self.listed()) == before + count, "all are listed")
        return asked

    def _one(self, text: str, parameters: dict[str, str]) -> httpx.Response:
        accept = {"accept": "text/csv"}
        return httpx.get(self.running.url + "/sparql", params={"query": text, **parameters}, headers=accept, timeout=60)

    def listed(self) -> list[dict[str, Any]]:
        queries: list[dict[str, Any]] = self.running.http.get("/$/queries").json()["queries"]
        return queries


@pytest.fixture
def ask(running: Live, clients: ThreadPoolExecutor) -> Asking:
    return Asking(running, clients)


def texts_of(asked: list[Future[httpx.Response]]) -> set[str]:
    return {one.result(60).raise_for_status().text for one in asked}


def test_equal_requests_at_once_are_evaluated_once(ask: Asking, held: Held) -> None:
    asked = ask(ALL, CLIENTS)
    held.let_go.set()
    assert texts_of(asked) == {"s,p,o\r\nhttp://ex/a,http://ex/p,1\r\n"}
    assert {one.result().headers["rillet-snapshot"] for one in asked} == {str(ask.running.service.head())}
    assert len(held.controls) == 1


def test_an_answer_that_is_another_each_time_is_not_shared(ask: Asking, held: Held) -> None:
    asked = ask("SELECT (UUID() AS ?id) {}", CLIENTS)
    held.let_go.set()
    assert len(texts_of(asked)) == len(held.controls) == CLIENTS


class Waiting:
    """The question of a request, as far as it waits for an equal one."""

    shared: Any = None

    async def in_time(self, awaited: Any) -> Any:
        return await awaited

    def check_wanted(self) -> None:
        pass


@pytest.mark.parametrize(("sn", "is_shared"), [(6, False), (7, True), (8, True)])
def test_what_began_before_a_snapshot_is_no_answer_to_what_is_asked_after_it(sn: int, is_shared: bool) -> None:
    """A snapshot may be published between the reading of an evaluation and its being known to equal requests."""

    async def asked() -> Any:
        evaluation, question = Evaluation(), Waiting()
        asyncio.get_running_loop().call_soon(lambda: evaluation.share((sn, Reply(b"x", b"t"))))
        return await one_shot._of_equal(evaluation, 7, cast(Any, question))

    assert (asyncio.run(asked()) is not None) == is_shared


def test_what_is_asked_after_an_update_sees_it(ask: Asking, held: Held) -> None:
    before = ask(ALL, 2)
    ask.running.update("INSERT DATA { <http://ex/b> <http://ex/p> 2 }")
    after = ask(ALL, 2)
    held.let_go.set()
    (old,), (new,) = texts_of(before), texts_of(after)
    assert (old.count("http://ex/p"), new.count("http://ex/p")) == (1, 2)
    assert len(held.controls) == 2


def test_whose_equal_fails_or_is_cancelled_is_evaluated_all_the_same(ask: Asking, held: Held) -> None:
    asked = ask(ALL, 3)
    ask.running.http.delete(f"/$/queries/{ask.listed()[0]['id']}").raise_for_status()
    until(lambda: len(held.controls) == 3, "the two others are evaluated")
    held.errors.append(QueryTooLarge("of a test"))
    held.let_go.set()
    assert sorted(one.result(60).status_code for one in asked) == [200, 413, 503]


def test_who_waits_for_an_equal_is_cancelled_at_once(ask: Asking, held: Held) -> None:
    asked = ask(ALL, 2)
    first, second = (one["id"] for one in ask.listed())
    ask.running.http.delete(f"/$/queries/{second}").raise_for_status()
    until(lambda: any(one.done() for one in asked), "the cancelled one is answered")
    assert [one["id"] for one in ask.listed()] == [first]
    held.let_go.set()
    assert sorted(one.result(60).status_code for one in asked) == [200, 503]
    assert len(held.controls) == 1


def test_who_waits_for_an_equal_and_goes_away_is_no_more_listed(ask: Asking, held: Held) -> None:
    asked = ask(ALL, 1)
    until(lambda: held.controls, "it is evaluated")
    with socket.create_connection(("127.0.0.1", ask.running.port)) as connection:
        head = f"GET /sparql?query={quote(ALL, safe='')} HTTP/1.1\r\nhost: localhost\r\naccept: text/csv\r\n\r\n"
        connection.sendall(head.encode())
        until(lambda: len(ask.listed()) == 2, "it waits")
    until(lambda: len(ask.listed()) == 1, "it is gone")
    held.let_go.set()
    assert texts_of(asked)


def test_who_waits_for_an_equal_waits_no_longer_than_its_time(ask: Asking, held: Held) -> None:
    asked = ask(ALL, 2, timeout="300ms")
    assert {one.result(60).status_code for one in asked} == {503}


def test_a_large_answer_is_not_shared(ask: Asking, held: Held) -> None:
    rows = " ".join(f"<http://ex/s{n}> <http://ex/of> <http://ex/o{n}> ." for n in range(5_000))
    ask.running.service.update(f"INSERT DATA {{ {rows} }}")
    asked = ask("SELECT * { ?s <http://ex/of> ?o }", 3)
    held.let_go.set()
    (answer,) = texts_of(asked)
    assert answer.count("\n") == 5_001
