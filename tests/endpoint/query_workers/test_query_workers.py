"""Query workers: answers are those of the server, and questions end there as they do here, whatever becomes of it."""

from __future__ import annotations

import os
import resource
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from endpoint.limits import HttpLimits
from endpoint.query_workers.process import PROCESS_BYTES, QUERIES_MOST
from endpoint.routes import one_shot
from endpoint.serve import ServeSettings
from hbase_store.cache import CACHE_BYTES
from stream_ext.errors import BadArgument, QueryCancelled
from stream_ext.values.functions.custom import register_function, unregister_function
from tests.endpoint.http.test_underway import Endless, in_background
from tests.endpoint.live import Live, live
from tests.parts.waiting import PATIENCE_S, until

COUNT = 12_000
ALL = "SELECT ?s ?o { ?s <http://ex/p> ?o }"
LIGHT = "SELECT ?o { <http://ex/s7> ?p ?o }"
CSV = {"accept": "text/csv"}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("workers") / "store"
    with live(folder) as server:
        triples = " ".join(f"<http://ex/s{n}> <http://ex/p> {n % 100} ." for n in range(COUNT))
        server.service.update(f"INSERT DATA {{ {triples} GRAPH <http://ex/g> {{ <http://ex/a> <http://ex/p> 'ä' }} }}")
    return folder


@pytest.fixture
def server(store: Path) -> Iterator[Live]:
    with live(store, limits=HttpLimits(query_s=30, rows=COUNT), query_workers=1) as running:
        until(lambda: worker_of(running)["state"] == "ready", "the worker is ready")
        yield running


def worker_of(server: Live) -> dict[str, Any]:
    """The newest one."""
    observed: list[dict[str, Any]] = server.http.get("/$/stats").json()["query_workers"]
    return observed[-1] if observed else {"state": "none", "pid": 0, "asked": 0}


def asked(server: Live) -> int:
    return int(worker_of(server)["asked"])


def ask(server: Live, text: str, accept: str = "text/csv", **more: str) -> httpx.Response:
    return server.http.get("/sparql", params={"query": text, **more}, headers={"accept": accept})


@pytest.fixture
def stopped(server: Live) -> Iterator[int]:
    """The worker hears nothing for a while, as in an operator that takes long."""
    pid = int(worker_of(server)["pid"])
    os.kill(pid, signal.SIGSTOP)
    yield pid
    if worker_of(server)["pid"] == pid:
        os.kill(pid, signal.SIGCONT)


# ---- answers


ANSWERS = [
    (ALL, "text/csv"),
    (ALL, "application/sparql-results+json"),
    (ALL, "application/sparql-results+xml"),
    ("SELECT ?o (COUNT(?s) AS ?n) { ?s <http://ex/p> ?o } GROUP BY ?o", "text/tab-separated-values"),
    ("CONSTRUCT { ?o <http://ex/of> ?s } WHERE { ?s <http://ex/p> ?o }", "application/n-triples"),
    ("CONSTRUCT { ?o <http://ex/of> ?s } WHERE { ?s <http://ex/p> ?o }", "text/turtle"),
]


def test_a_worker_says_what_the_server_would_say(server: Live) -> None:
    """One server for all answers: its worker takes seconds to start."""
    for count, (text, accept) in enumerate(ANSWERS, start=1):
        there = ask(server, text, accept)
        assert (there.status_code, asked(server)) == (200, count), accept
        with pytest.MonkeyPatch.context() as here_alone:
            here_alone.setattr(server.server._app.app_state.query_workers, "free", lambda: None)
            here = ask(server, text + " # otherwise it is remembered", accept)
        assert asked(server) == count, accept
        assert sorted(there.text.splitlines()) == sorted(here.text.splitlines()), accept
        for header in ("content-type", "rillet-snapshot"):
            assert there.headers[header] == here.headers[header], accept


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """However slow the machine is, nothing goes to a worker because it has run for long."""
    monkeypatch.setattr(one_shot, "PATIENCE_S", 600.0)


def test_what_is_light_stays_here(server: Live) -> None:
    for text in (LIGHT, "ASK { ?s <http://ex/p> 5 }", ALL + " LIMIT 10"):
        ask(server, text).raise_for_status()
    assert asked(server) == 0


def test_what_takes_longer_than_was_thought_goes_to_a_worker(server: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    light = "SELECT ?p ?o { <http://ex/s7> ?p ?o FILTER(?o > 5) }"
    here = ask(server, light).text
    assert asked(server) == 0
    endless = Endless()
    monkeypatch.setattr(one_shot, "PATIENCE_S", 0.05)
    monkeypatch.setattr(server.service, "query", endless)
    assert ask(server, light + " # again").text == here
    assert asked(server) == 1
    assert endless.ended.wait(PATIENCE_S)
    assert isinstance(endless.error, QueryCancelled)


def test_a_worker_reads_what_was_written_just_now_and_what_was_there_before(server: Live) -> None:
    before = int(ask(server, LIGHT).headers["rillet-snapshot"])
    server.update("INSERT DATA { <http://ex/new> <http://ex/p> 'new' }")
    try:
        # One row more than the limit allows: so it was read.
        assert ask(server, ALL).status_code == 413
        assert ask(server, ALL, snapshot=str(before)).text.count("\n") == COUNT + 1
    finally:
        server.update("DELETE DATA { <http://ex/new> <http://ex/p> 'new' }")
    assert asked(server) == 2


def test_the_dataset_that_the_request_names_goes_with_the_question(
    server: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(one_shot, "HEAVY_ROWS", -1.0)
    answer = ask(server, "SELECT ?s ?o { ?s ?p ?o }", **{"default-graph-uri": "http://ex/g"})
    assert (answer.text.splitlines(), asked(server)) == (["s,o", "http://ex/a,ä"], 1)


def test_a_question_that_calls_a_function_of_this_process_stays_here(server: Live) -> None:
    register_function("http://ex/same", lambda term: term)
    try:
        answer = ask(server, "SELECT (COUNT(?f) AS ?n) { ?s <http://ex/p> ?o BIND(<http://ex/same>(?o) AS ?f) }")
    finally:
        unregister_function("http://ex/same")
    assert (answer.text.split(), asked(server)) == (["n", str(COUNT)], 0)


# ---- errors and ends


def test_errors_of_a_worker_are_reported_as_those_of_the_server(server: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "SELECT ?a ?b { ?a <http://ex/p> ?x . ?b <http://ex/p> ?x }"
    there = server.http.get("/sparql", params={"query": text}, headers={"accept": "text/csv, application/problem+json"})
    assert asked(server) == 1
    monkeypatch.setattr(server.server._app.app_state.query_workers, "free", lambda: None)
    here = server.http.get("/sparql", params={"query": text}, headers={"accept": "text/csv, application/problem+json"})
    assert (there.status_code, there.json()) == (here.status_code, here.json())
    assert there.json()["type"] == "urn:rillet:error:query-too-large"


def test_a_query_in_a_worker_is_listed_and_can_be_cancelled(server: Live, stopped: int) -> None:
    waiting = in_background(lambda: httpx.get(server.url + "/sparql", params={"query": ALL}, timeout=PATIENCE_S))
    until(lambda: asked(server) == 1, "the worker is asked")
    (listed,) = server.http.get("/$/queries").json()["queries"]
    assert (listed["query"], listed["state"], listed["worker"]) == (ALL, "running", 1)
    assert server.http.delete(f"/$/queries/{listed['id']}").status_code == 204
    answer = waiting.result(PATIENCE_S)
    assert (answer.status_code, "cancelled" in answer.text) == (503, True)
    os.kill(stopped, signal.SIGCONT)
    until(lambda: worker_of(server)["queries"] == 0, "the worker has nothing to do")
    assert ask(server, ALL).text.count("\n") == COUNT + 1
    assert worker_of(server)["pid"] == stopped


@pytest.mark.usefixtures("stopped")
def test_who_waits_for_a_worker_is_answered_in_time(server: Live) -> None:
    answer = ask(server, ALL, timeout="100ms")
    assert (answer.status_code, "0.1 s" in answer.text) == (503, True)


def test_a_worker_that_does_not_hear_a_cancel_is_replaced(server: Live, stopped: int) -> None:
    server.server._app.app_state.query_workers.cancel_grace_s = 0.05
    assert ask(server, ALL, timeout="50ms").status_code == 503
    until(lambda: worker_of(server)["pid"] != stopped and worker_of(server)["state"] == "ready", "there is another")
    with pytest.raises(ProcessLookupError):
        os.kill(stopped, 0)
    assert ask(server, ALL).status_code == 200
    assert "rillet_query_workers_replaced_total 1" in server.http.get("/$/metrics").text


def test_a_worker_that_dies_is_replaced_and_its_query_fails(server: Live, stopped: int) -> None:
    waiting = in_background(lambda: httpx.get(server.url + "/sparql", params={"query": ALL}, timeout=PATIENCE_S))
    until(lambda: asked(server) == 1, "the worker is asked")
    os.kill(stopped, signal.SIGKILL)
    answer = waiting.result(PATIENCE_S)
    assert (answer.status_code, "SIGKILL" in answer.text, "send the query again" in answer.text) == (503, True, True)
    assert ask(server, ALL).status_code == 200  # while there is none, the server answers itself
    until(lambda: worker_of(server)["state"] == "ready", "the worker is ready")
    assert ask(server, ALL + " # once more").status_code == 200
    assert asked(server) == 1


def test_an_answer_is_cut_off_when_its_worker_dies(store: Path) -> None:
    with live(store, limits=HttpLimits(rows=1 << 30), query_workers=1) as server:
        until(lambda: worker_of(server)["state"] == "ready", "the worker is ready")
        text = "SELECT ?a ?b { ?a <http://ex/p> ?x . ?b <http://ex/p> ?x }"
        with httpx.stream("GET", server.url + "/sparql", params={"query": text}, timeout=PATIENCE_S) as answer:
            os.kill(int(worker_of(server)["pid"]), signal.SIGKILL)
            with pytest.raises(httpx.RemoteProtocolError):
                answer.read()


def test_a_client_that_goes_away_while_it_reads_ends_its_query_there(store: Path) -> None:
    with live(store, limits=HttpLimits(rows=1 << 30), query_workers=1) as server:
        until(lambda: worker_of(server)["state"] == "ready", "the worker is ready")
        text = "SELECT ?a ?b { ?a <http://ex/p> ?x . ?b <http://ex/p> ?x }"
        with httpx.stream("GET", server.url + "/sparql", params={"query": text}, timeout=PATIENCE_S) as answer:
            next(answer.iter_bytes())
            assert worker_of(server)["queries"] == 1
        until(lambda: worker_of(server)["queries"] == 0, "the worker has nothing to do")
        assert server.http.get("/$/queries").json() == {"queries": []}


def test_workers_end_with_the_server(store: Path) -> None:
    with live(store, query_workers=2) as server:
        pids = [one["pid"] for one in server.http.get("/$/stats").json()["query_workers"]]
    assert len(pids) == 2
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_an_embedded_store_has_a_worker_unless_somebody_says_otherwise() -> None:
    assert ServeSettings("lmdb:here").workers() == 1
    assert ServeSettings("lmdb:here", query_workers=0).workers() == 0
    assert ServeSettings("hbase://127.0.0.1:9090/x").workers() == 0
    assert ServeSettings("hbase://127.0.0.1:9090/x", query_workers=2).workers() == 2


# ---- budgets


def test_one_row_with_a_costly_call_goes_to_a_worker(server: Live) -> None:
    """It may take long, and the server has others to answer."""
    for text, goes in (
        ("SELECT (REPLACE(STR(?o), '7', '8') AS ?x) { <http://ex/s7> ?p ?o }", True),
        ("SELECT (GROUP_CONCAT(?o) AS ?x) { <http://ex/s7> ?p ?o }", True),
        ("SELECT (CONCAT(STR(?o), '8') AS ?x) { <http://ex/s7> ?p ?o FILTER(REGEX(STR(?o), '7')) }", False),
    ):
        before = asked(server)
        assert ask(server, text).status_code == 200
        assert (asked(server) > before) is goes, text


@pytest.mark.parametrize("workers", [0, 1])
def test_what_exceeds_the_budget_is_413_wherever_it_is_answered(store: Path, workers: int) -> None:
    limits = HttpLimits(query_bytes=8 << 20, term_bytes=1000)
    with live(store, limits=limits, query_workers=workers) as running:
        until(lambda: worker_of(running)["state"] == ("ready" if workers else "none"), "the worker is ready")
        for text, why in (
            ("SELECT * { ?s <http://ex/p> ?x . ?t <http://ex/p> ?y }", "--query-bytes"),
            (f"SELECT (REPLACE(?x, 'a', ?x) AS ?y) {{ BIND('{'a' * 400}' AS ?x) }}", "--term-bytes"),
        ):
            answer = running.http.get(
                "/sparql", params={"query": text}, headers={"accept": "application/problem+json, text/csv"}
            )
            assert (answer.status_code, answer.json()["type"]) == (413, "urn:rillet:error:query-too-large")
            assert why in answer.json()["detail"]
        update = "INSERT { ?s <http://ex/q> ?y } WHERE { ?s <http://ex/p> ?x . ?t <http://ex/p> ?y }"
        assert running.http.post("/update", data={"update": update}).status_code == 413
        assert ask(running, LIGHT).status_code == 200


@pytest.mark.parametrize("workers", [0, 1])
def test_what_others_leave_no_memory_for_is_429_wherever_it_is_answered(store: Path, workers: int) -> None:
    limits = HttpLimits(query_bytes=1 << 30, queries_bytes=1 << 30)
    with live(store, limits=limits, query_workers=workers) as running:
        until(lambda: worker_of(running)["state"] == ("ready" if workers else "none"), "the worker is ready")
        memory = running.server._app.app_state.memory
        large = "SELECT (COUNT(DISTINCT ?t) AS ?n) { ?s <http://ex/p> ?x . ?t <http://ex/p> ?x FILTER(?s != ?t) }"
        assert ask(running, large).status_code == 200
        until(lambda: memory.used == 0, "what the query had is free")
        memory.reserve(1020 << 20)
        assert "rillet_query_memory_bytes 1.06954752e+09" in running.http.get("/$/metrics").text
        answer = ask(running, large + " # again")
        assert answer.status_code == 429, answer.text
        assert answer.headers["retry-after"] == "1"
        assert "--queries-bytes" in answer.text
        assert ask(running, LIGHT).status_code == 200
        memory.release(1020 << 20)
        assert ask(running, large + " # once more").status_code == 200
        until(lambda: memory.used == 0, "what the queries had is free")


def test_all_together_have_at_least_what_one_may() -> None:
    with pytest.raises(BadArgument, match=r"--queries-bytes 1000: .*\(--query-bytes\)"):
        ServeSettings("lmdb:x", query_bytes=1001, queries_bytes=1000).limits()
    assert ServeSettings("lmdb:x", query_bytes=1 << 60).limits().query_memory().bytes_max == 1 << 60


def test_the_memory_of_a_worker_is_bounded(server: Live) -> None:
    """What budgets do not count, several questions together included, ends one of them, and not the machine."""
    most = PROCESS_BYTES + CACHE_BYTES * 3 // 2 + QUERIES_MOST * HttpLimits().query_bytes
    assert resource.prlimit(int(worker_of(server)["pid"]), resource.RLIMIT_DATA)[0] == most
