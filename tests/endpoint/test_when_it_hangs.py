"""The store hangs, and every thread that reads or writes with it: who looks after the server hears so at once."""

from __future__ import annotations

import re
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from endpoint.http.underway import Underway
from endpoint.limits import HttpLimits
from hbase_store.backends.lmdb import LmdbKeyValue
from tests.endpoint.live import NT, TAXI_IN_ZONE, Live, live
from tests.parts.waiting import PATIENCE_S, until

VERBS = ("get_many", "scan", "put_many", "delete", "delete_range", "allocate", "publish", "sync")
OPERATIONS = ("/$/ping", "/$/ready", "/$/stats", "/$/metrics", "/$/queries", "/streams", "/queries")
FEW = HttpLimits(readers=3, writers=3, waiting=100, heartbeat_s=0.05)


class Gate:
    """Calls of the store, which hang while it is closed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._open = threading.Event()
        self._open.set()
        self._lock, self.hanging = threading.Lock(), 0
        for verb in VERBS:
            monkeypatch.setattr(LmdbKeyValue, verb, self._through(getattr(LmdbKeyValue, verb)))

    def _through(self, verb: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            with self._lock:
                self.hanging += 1
            self._open.wait()
            with self._lock:
                self.hanging -= 1
            return verb(*arguments, **named)

        return call

    @contextmanager
    def closed(self) -> Iterator[None]:
        self._open.clear()
        try:
            yield
        finally:
            self._open.set()


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Gate:
    return Gate(monkeypatch)


@pytest.fixture
def server(gate: Gate, tmp_path: Path) -> Iterator[Live]:
    with live(tmp_path / "store", limits=FEW) as running:
        running.update("INSERT DATA { <http://ex/z1> <http://ex/partOf> <http://ex/c1> }")
        running.http.put("/streams/taxis").raise_for_status()
        running.register().raise_for_status()
        running.push(1000).raise_for_status()
        running.http.get("/$/metrics").raise_for_status()
        yield running


@contextmanager
def all_threads_hang(server: Live, gate: Gate) -> Iterator[None]:
    """Queries, small and large ones, pushes and pages, more than there are threads for them."""
    state = server.server._app.app_state

    def send(method: str, path: str, **more: Any) -> None:
        with suppress(httpx.HTTPError):
            httpx.request(method, server.url + path, timeout=60, **more)

    asked: list[tuple[str, str, dict[str, Any]]] = []
    for number in range(5):
        asked += [
            ("GET", "/sparql", {"params": {"query": f"ASK {{ <http://ex/unknown{number}> ?p ?o }}"}}),
            ("GET", "/sparql", {"params": {"query": f"SELECT * {{ ?s ?p 'unknown{number}' }}"}}),
            ("GET", "/$/loads", {}),  # reads the store each time
            ("GET", "/console/graphs", {}),
            ("GET", "/console/queries", {}),
            ("GET", "/queries/near/results", {"headers": {"accept": "application/json"}}),
        ]
    # The pushes go first: later ones are refused, because the queries do not come on.
    pushes = [
        ("POST", f"/streams/taxis?timestamp={2000 + number}", {"content": TAXI_IN_ZONE, "headers": NT})
        for number in range(5)
    ]
    asked = [*pushes, *asked]
    threads = [threading.Thread(target=send, args=one[:2], kwargs=one[2]) for one in asked]
    with gate.closed():
        for thread in threads:
            thread.start()
        until(lambda: gate.hanging > FEW.readers and state.workers.writers.busy > FEW.writers, "all threads hang")
        yield
    for thread in threads:
        thread.join()


def test_operations_answer_at_once_whatever_hangs(server: Live, gate: Gate) -> None:
    with all_threads_hang(server, gate):
        for path in OPERATIONS:
            times = []
            for _ in range(5):
                began = time.monotonic()
                answer = server.http.get(path)
                times.append(time.monotonic() - began)
                assert answer.status_code == 200 or path == "/$/ready", answer.text
            assert min(times) < 0.1, (path, times)  # the others may have waited for the processor
        assert [one["stream"] for one in server.http.get("/streams").json()["streams"]] == ["taxis"]
        assert [one["query"] for one in server.http.get("/queries").json()["queries"]] == ["near"]


def test_nobody_waits_for_a_small_query_but_who_asks_it(server: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    query, asked = server.service.query, []

    def after_a_ping(*arguments: Any, **named: Any) -> Any:
        asked.append(arguments[0])
        assert httpx.get(server.url + "/$/ping", timeout=PATIENCE_S).text == "pong\n"
        return query(*arguments, **named)

    monkeypatch.setattr(server.service, "query", after_a_ping)
    small = "ASK { <http://ex/z1> <http://ex/partOf> <http://ex/c1> }"
    assert server.http.get("/sparql", params={"query": small}).json()["boolean"] is True
    assert [each.text for each in asked] == [small]


def test_operations_answer_at_once_while_a_hundred_clients_ask_a_store_that_is_slow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of them would be awaited for a moment; a hundred moments are seconds."""
    with live(tmp_path / "store") as running:
        query = running.service.query

        def slowly(*arguments: Any, **named: Any) -> Any:
            threading.Event().wait(0.025)
            return query(*arguments, **named)

        together = threading.Barrier(100)

        def ask(number: int) -> int:
            text = quote(f"ASK {{ <http://ex/s{number}> <http://ex/p> 1 }}")
            with closing(HTTPConnection("127.0.0.1", running.port, timeout=60)) as connection:
                connection.connect()
                together.wait(PATIENCE_S)
                connection.request("GET", f"/sparql?query={text}")
                return connection.getresponse().status

        monkeypatch.setattr(running.service, "query", slowly)
        running.http.get("/$/ready")  # is connected
        with ThreadPoolExecutor(100) as clients:
            answers = [clients.submit(ask, number) for number in range(100)]
            times = []
            while not all(answer.done() for answer in answers):
                began = time.monotonic()
                assert running.http.get("/$/ready").text == "ready\n"
                times.append(time.monotonic() - began)
        assert [answer.result() for answer in answers] == [200] * 100
        assert statistics.median(times) < 1.0, times


def test_what_is_waited_for_is_reported_within_two_seconds_and_for_as_long_as_it_lasts(
    server: Live, gate: Gate
) -> None:
    assert server.http.get("/$/ready").text == "ready\n"
    assert server.http.get("/$/stats").json()["waits_for"] == []
    with all_threads_hang(server, gate):
        began = time.monotonic()
        until(lambda: server.http.get("/$/ready").status_code == 503, "it says that it waits")
        assert time.monotonic() - began < 20  # two, on a quiet machine
        assert "waits for the store: " in server.http.get("/$/ready").text
        stats = server.http.get("/$/stats").json()
        assert [wait["kind"] for wait in stats["waits_for"]] == ["store"]
        assert stats["waits_for"][0]["since"] <= server.service.clock.now_ms() - 1_000
        assert float(sample(server, 'rillet_waits_seconds{for="store"}')) >= 1
        for page in ("/console/", "/console/sign-in"):
            text = httpx.get(server.url + page, timeout=PATIENCE_S).text
            assert "waiting for the store" in text, text
    until(lambda: server.http.get("/$/ready").text == "ready\n", "it is ready again")
    assert server.http.get("/$/stats").json()["waits_for"] == []
    assert "waiting for" not in server.http.get("/console/").text


def test_a_page_that_reads_the_store_says_that_it_is_away_and_takes_no_thread(server: Live, gate: Gate) -> None:
    with all_threads_hang(server, gate):
        until(lambda: server.http.get("/$/ready").status_code == 503, "it says that it waits")
        for _ in range(12):  # more than the console has threads
            answer = httpx.get(server.url + "/console/", timeout=PATIENCE_S)
            assert answer.status_code == 200


def test_what_was_known_last_says_how_old_it_is(server: Live, gate: Gate) -> None:
    assert server.http.get("/$/stats").json()["age_ms"] == 0
    assert float(sample(server, "rillet_figures_age_seconds")) == 0
    with gate.closed():
        pushing = threading.Thread(target=server.push, args=(5_000,))
        pushing.start()
        until(lambda: float(sample(server, "rillet_figures_age_seconds")) > 0.2, "the figures grow old")
        assert float(sample(server, 'rillet_stream_batches_total{stream="taxis"}')) == 1
    pushing.join()
    assert float(sample(server, "rillet_figures_age_seconds")) == 0
    assert float(sample(server, 'rillet_stream_batches_total{stream="taxis"}')) == 2


def test_one_stream_and_one_query_are_as_they_were_known_last(server: Live, gate: Gate) -> None:
    now = {path: server.http.get(path).json() for path in ("/streams/taxis", "/queries/near")}
    assert [each.pop("age_ms") for each in now.values()] == [0, 0]
    assert (now["/streams/taxis"]["time"], now["/queries/near"]["state"]) == (1000, "running")
    with all_threads_hang(server, gate):
        until(lambda: server.http.get("/$/ready").status_code == 503, "it says that it waits")
        for path, was in now.items():
            for _ in range(20):  # more than there are threads
                then = server.http.get(path, timeout=PATIENCE_S).json()
                assert then.pop("age_ms") >= 0
                assert then == was
        assert server.http.get("/streams/nope").status_code == 404
    assert server.http.get("/streams/taxis").json()["age_ms"] == 0


def sample(server: Live, name: str) -> str:
    found = re.search(rf"^{re.escape(name)} (\S+)$", server.http.get("/$/metrics").text, re.MULTILINE)
    assert found is not None, name
    return found[1]


def test_what_only_holds_queries_back_is_reported_and_no_reason_not_to_be_ready(server: Live) -> None:
    for kind, status in (("spark", 200), ("clock", 200), ("disk", 503), ("lease", 503)):
        server.service.waits.begin(kind, "of a test")
        answer = server.http.get("/$/ready")
        assert (answer.status_code, f"waits for the {kind}: of a test" in answer.text) == (status, True)
        assert "of a test" in server.http.get("/console/").text
        server.service.waits.end(kind)
    assert server.http.get("/$/ready").text == "ready\n"


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "PROPFIND", "TRACE"])
def test_the_console_says_which_methods_it_knows(server: Live, method: str) -> None:
    for path in ("/console/server", "/console/graphs", "/console/static/console.css"):
        answer = server.http.request(method, path)
        assert answer.status_code == 405, (path, answer.text)
        assert "GET" in answer.headers["allow"]
    assert server.http.request(method, "/console/nowhere").status_code in (404, 405)


def test_texts_under_way_are_listed_in_short() -> None:
    underway, text = Underway(), "SELECT * { ?s ?p ?o } #" + "x" * 100_000
    with underway.listed("query", text, 1.0, HttpLimits()):
        (listed,) = underway.summaries()
    assert text.startswith(listed["query"].removesuffix(" ..."))
    assert len(listed["query"]) < 3_000
