"""A registration says what it is expected to cost; what it took is accounted to it, its class and its streams."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stream_ext.clock import ManualClock
from stream_ext.service.service import Service
from stream_ext.upkeep.retention import Retain
from tests.stream_ext.opened import opened, push, registration, triple


def fed(service: Service, count: int = 100) -> None:
    """`count` triples a second for ten seconds, a tenth of them with the predicate `rare`."""
    for second in range(1, 11):
        lines = [triple(f"x{n}", n, "rare" if n % 10 == 0 else "p") for n in range(count)]
        push(service, "s", second * 1_000, *lines)


def cost(service: Service, text: str) -> dict[str, Any]:
    return dict(service.explain(text)["cost"])


def test_what_is_expected_follows_rate_window_and_pattern(tmp_path: Path) -> None:
    with opened(tmp_path) as service:
        service.create_stream("s", {})
        fed(service)
        ten = cost(service, registration(window="RANGE 10s STEP 1s"))
        thirty = cost(service, registration(window="RANGE 30s STEP 1s"))
        rare = cost(service, registration(window="RANGE 10s STEP 1s", pattern="?x :rare ?y"))
        new = cost(service, registration(window="RANGE 10s STEP 1s", r2s="ISTREAM"))
        counted = cost(service, registration(window="TRIPLES 50", r2s="ISTREAM"))
    # 1,000 triples in nine seconds from the first to the last; nine tenths of them are :p
    assert ten["elements"] == pytest.approx(1_000, rel=0.05)
    assert thirty["elements"] == pytest.approx(3 * ten["elements"], abs=2)
    assert rare["elements"] == pytest.approx(ten["elements"] / 9, abs=2)
    assert ten["rows_a_close"] == pytest.approx(1_000, rel=0.05)
    assert new["rows_a_close"] == pytest.approx(100, rel=0.05)
    assert thirty["state_bytes"] > ten["state_bytes"] > rare["state_bytes"]
    assert thirty["cpu_ms_a_close"] > ten["cpu_ms_a_close"] > rare["cpu_ms_a_close"]
    assert (ten["closes_a_second"], ten["guessed"]) == (1.0, [])
    assert counted["elements"] == 45
    assert "rows in its windows" in ten["says"]
    assert "a second" in ten["says"]


def test_what_is_guessed_is_said_to_be(tmp_path: Path) -> None:
    with opened(tmp_path) as service:
        service.create_stream("s", {})
        assert "nothing is known yet of stream s" in cost(service, registration())["says"]
        assert "cost" not in service.explain(registration(stream="never_made"))
        assert "cost" not in service.explain("SELECT * { ?s ?p ?o }")


def test_a_stream_that_was_silent_for_longer_than_its_elements_are_retained_has_costs(tmp_path: Path) -> None:
    clock = ManualClock(1_000_000)
    with opened(tmp_path, clock, retain=Retain(snapshots_ms=5_000)) as service:
        service.create_stream("s", {"retention": "5s"})
        service.register(registration(pattern="?x :rare ?y"))
        fed(service)
        before = cost(service, registration(pattern="?x :rare ?y"))
        for time in (100_000, 200_000):
            clock.advance(3_600_000)
            service.heartbeat("s", time, wait="evaluated")
        service._engine.merge.flush()
        service.collect()
        after = cost(service, registration(pattern="?x :rare ?y"))
        assert after["elements"] == pytest.approx(10 * before["elements"], abs=10), (
            "which part of the elements fits is not known any more"
        )
        assert service.register(registration("other", pattern="?x :rare ?y"))
    assert before["guessed"] == after["guessed"] == []


def test_a_further_query_of_a_template_is_cheap(tmp_path: Path) -> None:
    with opened(tmp_path) as service:
        service.create_stream("s", {})
        fed(service)
        alone = cost(service, registration("a", pattern="?x :p 1"))
        service.register(registration("a", pattern="?x :p 1"))
        service.register(registration("b", pattern="?x :p 2"))
        third = cost(service, registration("c", pattern="?x :p 3"))
        assert (alone["sharing"], third["sharing"]) == (0, 2)
        assert third["state_bytes"] < alone["state_bytes"] / 5
        assert "shares with 2 others" in third["says"]


def test_what_was_taken_is_accounted_to_query_stream_and_class(tmp_path: Path) -> None:
    clock = ManualClock(1_000_000)
    with opened(tmp_path, clock) as service:
        for stream in ("s", "t"):
            service.create_stream(stream, {})
        service.register(registration("a", pattern="?x :p 1"))
        service.register(registration("b", pattern="?x :p 2"))
        service.register(registration("whole", window="RANGE 8s STEP 1s"))
        both = "FROM NAMED WINDOW :w ON s [RANGE 2s STEP 1s] FROM NAMED WINDOW :v ON t [RANGE 2s STEP 1s]"
        service.register(
            f"PREFIX : <http://ex/> REGISTER RSTREAM both AS SELECT ?x {both} "
            "WHERE { WINDOW :w { ?x :p ?y } WINDOW :v { ?x :p ?z } }"
        )
        for second in range(1, 30):
            clock.advance(1_000)
            push(service, "s", second * 1_000, *(triple(f"x{second}.{n}", n) for n in range(50)))
            push(service, "t", second * 1_000, triple(f"x{second}.1", 1))
        status = {name: service.query_status(name) for name in ("a", "b", "whole", "both")}
        costs = service.costs()
    assert status["whole"]["state_bytes"] > 400 * 8 * 3, "400 rows of two columns and an end"
    assert status["a"]["state_bytes"] == status["b"]["state_bytes"], "one network"
    assert (status["a"]["sharing"], status["whole"]["sharing"]) == (2, 1)
    of = {each["stream"]: each for each in costs["streams"]}
    assert (of["s"]["queries"], of["t"]["queries"]) == (4, 1)
    for what in ("core_ms", "state_bytes", "rows"):
        total = sum(each[what] for each in status.values())
        assert of["s"][what] + of["t"][what] == pytest.approx(total, abs=2)
        assert of["t"][what] == pytest.approx(status["both"][what] / 2, abs=1)
        assert sum(each[what] for each in costs["classes"]) == pytest.approx(total, abs=2)
    windows = {tuple(w["range_ms"] for w in each["windows"]): each["queries"] for each in costs["classes"]}
    assert windows == {(3_000,): 2, (8_000,): 1, (2_000, 2_000): 1}
