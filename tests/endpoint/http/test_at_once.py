"""Small queries that the event loop evaluates itself: their answers, and what it leaves to threads."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from endpoint.http.at_once import AtOnce
from hbase_store.memory_only import check_may_wait
from stream_ext.errors import BadArgument
from stream_ext.evaluation_budget import Control
from stream_ext.language.algebra.algebra import Query
from stream_ext.language.syntax import parse
from stream_ext.oneshot.effort import Effort
from tests.endpoint.http.test_workers import Timer
from tests.endpoint.live import Live, live
from tests.endpoint.test_when_it_hangs import Gate
from tests.parts.waiting import PATIENCE_S, until

PEOPLE = 600
NAME = "SELECT ?n { <http://ex/p%d> <http://ex/name> ?n }"


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Gate:
    return Gate(monkeypatch)


@pytest.fixture
def server(gate: Gate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Live]:
    """Its event loop finds no query late, and tries all, however slow this machine is."""
    monkeypatch.setattr("endpoint.http.at_once._LIGHT_S", PATIENCE_S)
    with live(tmp_path / "store") as running:
        running.server._app.app_state.at_once = AtOnce(Timer())
        people = (f"<http://ex/p{n}> <http://ex/name> 'a name too long for an id, {n}'" for n in range(PEOPLE))
        known = (f"<http://ex/p0> <http://ex/knows> <http://ex/p{n}>" for n in range(PEOPLE))
        running.update(f"INSERT DATA {{ {' . '.join([*people, *known])} }}")
        yield running


def names(server: Live, text: str) -> list[str]:
    answer = server.http.get("/sparql", params={"query": text}, headers={"accept": "text/csv"})
    return answer.raise_for_status().text.splitlines()[1:]


def counts(server: Live) -> tuple[int, int]:
    at_once = server.server._app.app_state.at_once
    return at_once.answered, at_once.in_vain


def test_texts_that_differ_in_a_constant_are_answered_at_once(server: Live) -> None:
    for n in range(2, 40):
        assert names(server, NAME % n) == [f"a name too long for an id, {n}".join('""')]
    assert counts(server)[0] == 35  # the first is read, the second planned for all, the third measured


def test_who_has_many_rows_is_left_to_a_thread(server: Live) -> None:
    friends = "SELECT ?f ?n { <http://ex/p%d> <http://ex/knows> ?f . ?f <http://ex/name> ?n }"
    for n in (3, 2, 1):
        assert names(server, friends % n) == []
    answered, _ = counts(server)
    for text in (friends % 0, (friends % 0) + " # again"):
        assert len(names(server, text)) == PEOPLE
    assert counts(server)[0] == answered


def test_an_update_is_seen_by_the_next_query(server: Live) -> None:
    for n in (1, 2, 3):
        names(server, NAME % n)
    for n in range(4, 9):
        server.update(f"INSERT DATA {{ <http://ex/p{n}> <http://ex/name> 'other {n}' }}")
        assert sorted(names(server, NAME % n)) == [f"a name too long for an id, {n}".join('""'), f"other {n}"]


def test_the_loop_waits_for_no_store_that_hangs(server: Live, gate: Gate) -> None:
    for n in (1, 2, 3):
        names(server, NAME % n)
    server.service.store.fold()  # from now on the names are to be read from the store
    names(server, NAME % 4)
    with ThreadPoolExecutor(1) as pool:
        with gate.closed():
            asked = pool.submit(names, server, NAME % (PEOPLE - 1))
            until(lambda: gate.hanging > 0, "a thread reads")
            assert server.http.get("/$/ping", timeout=PATIENCE_S).text == "pong\n"
            assert names(server, (NAME % 4) + " # again") == ['"a name too long for an id, 4"']  # that is in memory
        assert asked.result() == [f'"a name too long for an id, {PEOPLE - 1}"']


# ---- when it is tried --------------------------------------------------------------------------------------------


def effort(text: str = "SELECT * { ?s ?p ?o }", seconds: float = 0.0001) -> Effort:
    query = parse(text, "http://ex/")
    assert isinstance(query, Query)
    made = Effort(query)
    made.took(seconds)
    return made


def tried(at_once: AtOnce, of: Effort, call: Callable[[Control], Any] = lambda _: "found") -> bool:
    return at_once.result(of, call) is not None


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * { ?s <http://ex/p>+ ?o }",
        "SELECT * { ?s ?p ?o FILTER REGEX(?o, 'a') }",
        "SELECT * { SERVICE <http://ex/other> { ?s ?p ?o } }",
        "SELECT (GROUP_CONCAT(?o) AS ?all) { ?s ?p ?o }",
        "CONSTRUCT WHERE { ?s ?p ?o }",
        "SELECT * { { SELECT * { ?s ?p ?o FILTER EXISTS { ?o <http://ex/p>* ?s } } } }",
    ],
)
def test_what_may_take_long_for_one_row_is_not_tried(text: str) -> None:
    assert not effort(text).is_at_most(1.0)


def test_what_took_long_in_a_thread_is_not_tried() -> None:
    assert effort(seconds=0.1).is_at_most(1.0)
    assert not effort(seconds=0.1).is_at_most(0.001)


def test_tries_in_vain_become_rare_and_one_that_is_not_ends_that() -> None:
    async def test() -> None:
        at_once, of = AtOnce(Timer()), effort()
        for left_out in (1, 3, 7):
            assert not tried(at_once, of, lambda _: None)
            assert [tried(at_once, of) for _ in range(left_out)] == [False] * left_out
        assert tried(at_once, of) and tried(at_once, of)
        assert not tried(at_once, of, lambda _: None)
        assert not tried(at_once, of) and tried(at_once, of)

    asyncio.run(test())


def test_the_loop_evaluates_for_a_few_milliseconds_a_pass_and_pauses_after_a_late_one() -> None:
    async def test() -> None:
        timer = Timer()
        at_once, of = AtOnce(timer), effort()

        def taking(seconds: float) -> Callable[[Control], str]:
            def call(_: Control) -> str:
                timer.now_s += seconds
                return "found"

            return call

        assert tried(at_once, of, taking(0.003)) and tried(at_once, of, taking(0.003))
        assert not tried(at_once, of)
        await asyncio.sleep(0)
        for pause in (0.01, 0.02, 0.04):
            assert tried(at_once, of, taking(0.006))
            await asyncio.sleep(0)
            timer.now_s += pause * 0.9
            assert not tried(at_once, of)
            timer.now_s += pause * 0.2
        assert tried(at_once, of)

    asyncio.run(test())


def test_errors_are_those_of_the_query() -> None:
    async def test() -> None:
        def wrong(_: Control) -> str:
            raise BadArgument("no")

        def waits(_: Control) -> str:
            check_may_wait()
            return "waited"

        with pytest.raises(BadArgument):
            tried(AtOnce(Timer()), effort(), wrong)
        assert not tried(AtOnce(Timer()), effort(), waits)
        check_may_wait()  # after that this thread may wait again

    asyncio.run(test())


def test_many_rows_are_not_gathered() -> None:
    async def test() -> None:
        assert not tried(AtOnce(Timer()), effort(), lambda control: control.room(1 << 12, 1))

    asyncio.run(test())
