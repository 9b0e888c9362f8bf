"""The operators of registered queries while they run: rows, time, state; and what happened to a query."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

from stream_ext.catalog.past import PastEvent, with_event
from stream_ext.clock import ManualClock
from stream_ext.continuous.query_budget import Budget
from stream_ext.network.operator_meter import LOOKED_AT_S, OperatorMeter
from stream_ext.network.operators.rowwise.sources import UnitRow
from stream_ext.network.wires import Stage
from stream_ext.service.service import Service
from tests.parts.waiting import until
from tests.stream_ext.opened import EX, emissions_of, opened, push, registration, triple, values

JOIN = registration(window="RANGE 1s STEP 1s", pattern="?x :p ?y").replace("} }", "} ?y :partOf ?z }")


def rows_of(service: Service, name: str = "q") -> dict[str, int]:
    (network,) = service.query_operators(name)["networks"]
    return {each["operator"]: each["rows"] for each in network["operators"]}


def test_operators_count_what_they_put_out_from_the_first_look_on(tmp_path: Path) -> None:
    with opened(tmp_path) as service:
        service.update(f"INSERT DATA {{ <{EX}a> <{EX}partOf> <{EX}c>, <{EX}d> }}")
        service.register(JOIN)
        push(service, "s", 100, triple("x", "a"))
        push(service, "s", 1100, triple("y", "b"))
        assert set(rows_of(service).values()) == {0}, "nobody has looked before"
        push(service, "s", 2100, triple("z", "a"))
        push(service, "s", 3100, triple("z", "a"))
        found = rows_of(service)
        (network,) = service.query_operators("q")["networks"]
        assert (network["evaluated"], network["evaluations"]) == ("when windows close", 2)
        # A row for each of y and z, when its window is evaluated; only z is joined, and how often is its weight.
        assert found == {f"?x <{EX}p> ?y in {EX}w": 2, f"count of ?y <{EX}partOf> ?z": 1}
        assert all(each["state_bytes"] > 0 and each["ms"] > 0 for each in network["operators"])


def test_a_query_that_somebody_looks_at_emits_the_same(tmp_path: Path) -> None:
    emitted = []
    for looks in (False, True):
        with opened(tmp_path / str(looks)) as service:
            service.update(f"INSERT DATA {{ <{EX}a> <{EX}partOf> <{EX}c> }}")
            service.register(JOIN)
            service.register(registration("arriving", window="RANGE 1s", r2s="ISTREAM"))
            for time in range(100, 6000, 700):
                push(service, "s", time, triple(f"x{time}", "a"), triple(f"x{time}", time))
                if looks:
                    service.query_operators("q"), service.query_operators("arriving")
            emitted.append([[values(each) for each in emissions_of(service, name)] for name in ("q", "arriving")])
    assert emitted[0] == emitted[1]
    assert all(any(rows) for rows in emitted[0]), "both emit something"


def test_the_meter_ends_when_nobody_looks_any_more() -> None:
    now, stage = [0.0], Stage(UnitRow(), (), 1.0, "one row")
    meter = OperatorMeter([stage], [(0, stage, [])], lambda: now[0])
    assert meter.stepped()
    now[0] = LOOKED_AT_S + 1
    assert not meter.stepped()
    assert meter.read().steps == 2
    assert meter.stepped(), "somebody has looked again"


def test_it_is_said_why_nothing_is_measured(tmp_path: Path) -> None:
    with opened(tmp_path) as service:
        service.register(registration())
        push(service, "s", 100, triple("a", 1))
        service.pause_query("q")
        assert service.query_operators("q") == {
            "query": "q", "shared_by": 1, "networks": [], "why": "the query is not evaluated now",
        }  # fmt: skip


def test_queries_of_one_template_say_that_they_share_operators(tmp_path: Path) -> None:
    with opened(tmp_path) as service:
        for n in range(3):
            service.register(registration(f"q{n}", pattern=f"?x :p :n{n}", select="SELECT ?x"))
        push(service, "s", 1100, triple("a", "n1"))
        push(service, "s", 4100, triple("a", "n1"))
        assert service.query_operators("q1")["shared_by"] == 3


def test_queries_over_the_same_windows_say_which_operators_they_share(tmp_path: Path) -> None:
    with opened(tmp_path) as service:
        service.register(registration("q0", pattern="?x :p ?y . ?x :q ?z", select="SELECT ?x"))
        service.register(registration("q1", pattern="?a :p ?b . ?a :q ?c", select="SELECT ?c"))
        for time in range(1100, 6100, 1000):
            push(service, "s", time, triple(f"x{time}", "a"), triple(f"x{time}", "b", "q"))
        for name, first in (("q0", "project x"), ("q1", "project c")):
            ((each,),) = (service.query_operators(name)["networks"],)
            lines, (s, y, z) = each["operators"], "xyz" if name == "q0" else "abc"
            scans = [f"?{s} <http://ex/{p}> ?{o} in http://ex/w (shared by 2)" for p, o in (("p", y), ("q", z))]
            shown = [first, "join (shared by 2)", f"├─ {scans[0]}", f"└─ {scans[1]}"]
            assert [line["operator"] for line in lines] == shown
            assert [line.get("shared_with") for line in lines] == [None, *[["q1" if name == "q0" else "q0"]] * 3]
            assert ["rows" in line for line in lines] == [True, True, False, False]


def test_queries_say_that_their_operators_are_over_longer_windows(tmp_path: Path) -> None:
    with opened(tmp_path) as service:
        pattern = "?x :p ?y . ?x :q ?z"
        service.register(registration("q0", window="RANGE 5s STEP 1s", pattern=pattern, select="SELECT ?x"))
        service.register(registration("q1", window="RANGE 2s STEP 1s", pattern=pattern, select="SELECT ?z"))
        for time in range(1100, 9100, 1000):
            push(service, "s", time, triple(f"x{time}", "a"), triple(f"x{time}", "b", "q"))
        ((long,),) = (service.query_operators("q0")["networks"],)
        ((short,),) = (service.query_operators("q1")["networks"],)
        assert long["operators"][1]["operator"] == "join (shared by 2)"
        assert long["operators"][1]["shared_with"] == ["q1"]
        assert short["operators"][1]["operator"] == "join (over windows 3000 ms longer, shared by 2)"
        assert short["operators"][1]["shared_with"] == ["q0"]


# ---- what happened to a query


def past(service: Service, name: str = "q") -> list[tuple[Any, ...]]:
    return [(each["time_ms"], each["what"], each["why"], each["text"]) for each in service.query_past(name)]


def test_the_past_of_a_query_outlives_a_restart_and_its_replacement(tmp_path: Path) -> None:
    clock = ManualClock(1_000_000)
    text, other = registration(), registration(window="RANGE 2s STEP 1s")
    with opened(tmp_path, clock) as service:
        service.register(text)
        assert past(service) == []
        service.pause_query("q")
        clock.advance(5)
        service.resume_query("q")
        clock.advance(5)
        service.register(other, replaces=True)
    with opened(tmp_path, clock) as service:
        assert past(service) == [
            (1_000_010, "replaced", "", text), (1_000_005, "resumed", "", ""), (1_000_000, "paused", "", ""),
        ]  # fmt: skip
        service.drop_query("q")
        service.register(text)
        assert past(service) == [], "a new query of the name has no past"


def test_a_failure_stays_in_the_past_when_the_query_is_resumed(tmp_path: Path) -> None:
    with opened(tmp_path, budget=Budget(bytes=1 << 16)) as service:
        service.register(registration(window="RANGE 1h STEP 1s"))
        push(service, "s", 100, *(triple(f"a{n}", n) for n in range(5_000)), wait="published")
        service.heartbeat("s", 1_100)
        until(lambda: past(service), "the query fails, and that is stored")
        service.resume_query("q")
        *_, resumed, failed = past(service)  # by now it may have failed once more
        assert (resumed[1], failed[1]) == ("resumed", "failed")
        assert "bytes" in failed[2] or "memory" in failed[2]


def test_the_past_is_bounded() -> None:
    found: list[PastEvent] = []
    for n in range(100):
        found = with_event(found, PastEvent(n, n, "replaced", text=f"{n}" * 10_000))
    assert [event.time_ms for event in found] == list(range(70, 100))
    assert [bool(event.text) for event in found[-4:]] == [False, True, True, True]
    long = with_event([], PastEvent(1, 1, "failed", why="x" * 10_000))
    assert len(long[0].why) == 2_001


def test_looking_at_operators_while_queries_come_and_go_disturbs_nobody(tmp_path: Path) -> None:
    with opened(tmp_path) as service:
        service.register(registration())
        push(service, "s", 100, triple("a", 1))
        looks, errors, ends = [0], list[Exception](), threading.Event()

        def look() -> None:
            while not ends.is_set():
                try:
                    service.query_operators("q")
                    looks[0] += 1
                except Exception as error:  # noqa: BLE001 -- it is reported below
                    errors.append(error)
                    return

        thread = threading.Thread(target=look)
        thread.start()
        for n in range(40):
            service.register(registration(f"other{n}", pattern=f"?x :p :n{n}", select="SELECT ?x"))
            push(service, "s", 1000 * n + 1100, triple(f"a{n}", f"n{n}"))
            if n % 3 == 0:
                service.pause_query("q")
                service.resume_query("q")
            if n % 2:
                service.drop_query(f"other{n}")
        ends.set()
        thread.join()
        assert errors == [] and looks[0] > 10
        assert service.query_status("q")["state"] == "running"
