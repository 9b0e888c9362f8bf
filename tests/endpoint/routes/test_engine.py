"""engine=spark: who evaluates a query, and what the response says of it."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from stream_ext.errors import JobFailed
from stream_ext.evaluation_budget import Control
from stream_ext.oneshot.divided import open_stores
from tests.endpoint.live import Live
from tests.stream_ext.oneshot.divided.aggregate_queries import RunHere

QUERY = "SELECT ?p (COUNT(*) AS ?n) { ?s ?p ?o } GROUP BY ?p ORDER BY ?p"


class Broken:
    lanes = 1

    def run(self, tasks: Sequence[Any], control: Control) -> Generator[bytes, None, None]:
        yield from ()
        raise JobFailed("Spark has not done it: there is no Java")


def test_a_server_without_spark_evaluates_the_query_itself_and_says_why(server: Live) -> None:
    answer = server.http.post("/sparql", data={"query": QUERY, "engine": "spark"})
    assert answer.status_code == 200
    assert answer.headers["rillet-engine"] == "inline"
    assert "--engine inline" in answer.headers["rillet-warning"]
    assert answer.json() == server.http.post("/sparql", data={"query": QUERY}).json()


def test_tasks_evaluate_what_can_be_divided(server: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    store = server.service.store  # this process has it open, and LMDB opens a store only once
    monkeypatch.setitem(open_stores._open_stores, open_stores.absolute(store.url), store)
    monkeypatch.setattr(server.service._engine, "spark", SimpleNamespace(tasks=RunHere()))
    answer = server.http.get("/sparql", params={"query": QUERY + " # by tasks", "engine": "spark"})
    assert answer.headers["rillet-engine"] == "spark"
    assert "rillet-warning" not in answer.headers
    assert answer.json() == server.http.get("/sparql", params={"query": QUERY}).json()
    rows = server.http.get("/sparql", params={"query": "SELECT * { ?s ?p ?o }", "engine": "spark"})
    assert rows.headers["rillet-engine"] == "inline"
    assert "neither groups nor DISTINCT" in rows.headers["rillet-warning"]


def test_a_query_that_is_estimated_long_is_divided_without_being_told(
    server: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = server.service.store
    monkeypatch.setitem(open_stores._open_stores, open_stores.absolute(store.url), store)
    monkeypatch.setattr(server.service._engine, "spark", SimpleNamespace(tasks=RunHere()))
    state = server.server._app.app_state
    monkeypatch.setattr(state, "limits", replace(state.limits, spark_rows=2))
    long = server.http.get("/sparql", params={"query": QUERY + " # long"})
    assert long.headers["rillet-engine"] == "spark"
    assert long.json() == server.http.get("/sparql", params={"query": QUERY, "engine": "inline"}).json()
    rows = server.http.get("/sparql", params={"query": "SELECT * { ?s ?p ?o } # all"})
    assert rows.status_code == 200
    assert "rillet-engine" not in rows.headers  # nobody has asked for it


def test_what_spark_cannot_do_is_an_error_with_its_cause(server: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server.service._engine, "spark", SimpleNamespace(tasks=Broken()))
    answer = server.http.get("/sparql", params={"query": QUERY + " # broken", "engine": "spark"})
    assert answer.status_code == 503
    assert "there is no Java" in answer.text


def test_an_engine_of_another_name_is_rejected(server: Live) -> None:
    answer = server.http.get("/sparql", params={"query": QUERY, "engine": "flink"})
    assert answer.status_code == 400
    assert "inline" in answer.text and "spark" in answer.text


def test_explain_says_what_would_be_divided(server: Live) -> None:
    divided = server.http.get("/sparql", params={"query": QUERY, "explain": "true"}).json()["divided"]
    assert divided == {"divided": "?s ?p ?o, by ranges of its subjects", "merged": "group by p"}
    rows = server.http.get("/sparql", params={"query": "SELECT * { ?s ?p ?o }", "explain": "true"}).json()
    assert "neither groups nor DISTINCT" in rows["divided"]["why_not"]
