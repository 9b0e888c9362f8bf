"""CQELS-QL and windows without closes: examples that were worked out by hand, through the service."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stream_ext.clock import ManualClock
from stream_ext.service.service import Service
from tests.stream_ext.opened import EX, emissions_of, open_service, opened, push, push_lines, triple, values

PREFIX = f"PREFIX : <{EX}>"


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    with opened(tmp_path) as service:
        yield service


def cqels(select: str, pattern: str, kind: str = "QUERY q", more: str = "") -> str:
    return f"{PREFIX} REGISTER {kind} AS {select} WHERE {{ {pattern} }}{more}"


def observed(service: Service, name: str = "q", since: int = 0) -> list[tuple[int, list[tuple[str, ...]]]]:
    return [(emission["time"], values(emission)) for emission in emissions_of(service, name, since)]


def bag(emission: dict[str, Any]) -> object:
    shown = {key: value for key, value in emission.items() if key not in ("results", "graph")}
    graph = sorted(emission["graph"].splitlines()) if "graph" in emission else None
    return shown, values(emission) if "results" in emission else graph


def all_again(service: Service, name: str = "q") -> None:
    """Each emission, made again from its snapshot."""
    for emission in emissions_of(service, name):
        assert bag(json.loads(service.emission_again(name, emission["emission"]))) == bag(emission)


# ---- the papers' example


def test_table_1_of_the_paper_of_2011(service: Service) -> None:
    """Notify two people when they can reach each other from two different and directly connected rooms.

    With T = 2 the paper's window at 3 holds what came at 1, 2 and 3: [t-T, t], which is BOUNDS []. In its table the
    person who was seen before comes first in `reaches`; in the template of its Q2 it is the one who is seen now. We
    take the table's reading. The pattern is Q2's in both: from the room of now to a connected one of before."""
    rooms = " ".join(f":{a} :conn :{b} ." for a, b in [("r1", "r2"), ("r1", "r3"), ("r2", "r1"), ("r3", "r1")])
    service.update(f"{PREFIX} INSERT DATA {{ {rooms} }}")
    service.register(
        cqels(
            "CONSTRUCT { ?p2 :reaches ?p1 }",
            "STREAM <http://ex/s> [NOW] { ?p1 :detectedAt ?l1 } "
            "STREAM <http://ex/s> [RANGE 2ms BOUNDS []] { ?p2 :detectedAt ?l2 } ?l1 :conn ?l2",
        )
    )
    for time, room in enumerate(["r1", "r2", "r1", "r2"]):
        push(service, "http://ex/s", time, triple(f"m{time}", room, "detectedAt"))
    assert [(emission["time"], emission["graph"].split()[:3:2]) for emission in emissions_of(service)] == [
        (1, [f"<{EX}m0>", f"<{EX}m1>"]),
        (2, [f"<{EX}m1>", f"<{EX}m2>"]),
        (3, [f"<{EX}m2>", f"<{EX}m3>"]),
    ], "at 0 there is nobody to be reached, and nothing is said of an empty answer"
    all_again(service)


# ---- what a window holds


def test_a_triple_that_is_sent_again_is_a_new_arrival_and_joins_again(service: Service) -> None:
    service.register(cqels("SELECT ?x ?z", "STREAM s [RANGE 1s] { ?x :p ?y } STREAM t [TRIPLES 2] { ?y :p ?z }"))
    push(service, "s", 1000, triple("a", "b"))
    push(service, "t", 900, triple("b", "c"))
    push(service, "t", 1200, triple("b", "d"), triple("b", "c"))
    push(service, "s", 1300, triple("a", "b"))
    push(service, "s", 2300, triple("a", "b"))
    c, d = ("a", "c"), ("a", "d")
    assert observed(service) == [(1000, [c]), (1200, [c, d]), (1300, [c, d]), (2300, [c, d])]
    assert [[w["from"] for w in e["windows"]] for e in emissions_of(service)] == [
        [0, 900],
        [200, 1200],
        [300, 1200],
        [1300, 1200],
    ]
    assert service.latest("q").count == 2, "(1300, 2300] holds the last one only"
    all_again(service)


@pytest.mark.parametrize("order", ["STREAM s [NOW] { ?x :p ?y }", "STREAM [NOW] :s { ?x :p ?y }"])
def test_now_holds_what_has_arrived_of_one_timestamp(order: str, service: Service) -> None:
    service.create_stream("s", {"iri": f"{EX}s"})
    service.register(cqels("SELECT RSTREAM ?x", order))
    push_lines(
        service, "s", *({"timestamp": t, "data": triple(x, 1)} for t, x in [(5, "a"), (5, "b"), (3, "c"), (6, "d")])
    )
    assert observed(service) == [(5, [("a",)]), (5, [("a",), ("b",)]), (6, [("d",)])]
    extents = [(w["from"], w["to"], w["bounds"]) for e in emissions_of(service) for w in e["windows"]]
    assert extents == [(5, 5, "[]"), (5, 5, "[]"), (6, 6, "[]")]
    all_again(service)


def test_timestamps_of_elements_and_their_order_in_windows_that_count(service: Service) -> None:
    functions = "PREFIX rlt: <urn:rillet:ns#>"
    listed = '(GROUP_CONCAT(STRAFTER(STR(?x), "ex/"); SEPARATOR=" ") AS ?all)'
    for kind, text in {
        "bag": f"SELECT RSTREAM {listed} WHERE {{ STREAM s [TRIPLES 3] {{ ?x :p ?y }} }}",
        "set": f"SELECT {listed} FROM NAMED WINDOW :w ON s [TRIPLES 3] WHERE {{ WINDOW :w {{ ?x :p ?y }} }}",
        "times": "SELECT RSTREAM ?x ?t WHERE { "
        "STREAM s [ELEMENTS 2] { ?x :p ?y BIND(rlt:timestamp(?x, :p, ?y) AS ?t) } }",
    }.items():
        service.register(f"{PREFIX} {functions} {text}", kind)
    push(service, "s", 7, triple("b", 1), triple("a", 1))
    push(service, "s", 9, triple("b", 1))
    push(service, "s", 8, triple("c", 1))
    assert [rows for _, rows in observed(service, "bag")] == [[("b a",)], [("b a b",)], [("a c b",)]]
    assert [rows for _, rows in observed(service, "set")] == [[("b a",)], [("a b",)], [("a c b",)]]
    seven, eight, nine = (f"1970-01-01T00:00:00.00{n}Z" for n in (7, 8, 9))
    assert [rows for _, rows in observed(service, "times")] == [
        [("a", seven), ("b", seven)],
        [("a", seven), ("b", nine), ("b", nine)],
        [("b", nine), ("c", eight)],
    ]
    for name in ("bag", "set", "times"):
        all_again(service, name)


def test_lengths_in_nanoseconds_and_closed_bounds(service: Service) -> None:
    service.register(cqels("SELECT RSTREAM ?x", "STREAM s [RANGE 2000000ns BOUNDS []] { ?x :p ?y }"))
    for time in (1, 2, 3, 4):
        push(service, "s", time, triple(f"x{time}", 1))
    assert observed(service)[2:] == [(3, [("x1",), ("x2",), ("x3",)]), (4, [("x2",), ("x3",), ("x4",)])]


# ---- what is emitted


def test_what_only_the_store_or_time_brings_is_not_new(service: Service) -> None:
    service.register(cqels("SELECT ?x ?k", "STREAM s [RANGE 1s] { ?x :p ?y } ?y :k ?k"))
    push(service, "s", 100, triple("a", "b"))
    service.update(f"{PREFIX} INSERT DATA {{ :b :k 1 }}", wait="evaluated")
    assert observed(service) == []
    push(service, "s", 200, triple("c", "d"))
    assert observed(service) == [], "(a, 1) is in the answer, and contains no new arrival"
    push(service, "s", 300, triple("e", "b"))
    assert observed(service) == [(300, [("e", "1")])]
    assert service.latest("q").count == 2
    all_again(service)


def test_a_group_is_emitted_with_its_new_value_and_what_expires_says_nothing(service: Service) -> None:
    service.register(cqels("SELECT ?y (COUNT(*) AS ?n)", "STREAM s [RANGE 100ms] { ?x :p ?y }", more=" GROUP BY ?y"))
    push(service, "s", 100, triple("a", 1))
    push(service, "s", 150, triple("a", 1), triple("b", 2))
    push(service, "s", 210, triple("c", 3))
    service.heartbeat("s", 10_000, wait="evaluated")
    assert observed(service) == [(100, [("1", "1")]), (150, [("1", "2"), ("2", "1")]), (210, [("3", "1")])]
    all_again(service)


def test_ask_says_true_when_what_arrived_makes_it_so(service: Service) -> None:
    pattern = "STREAM s [RANGE 100ms] { ?x :p ?y } ?x :on true"
    service.register(cqels("ASK", pattern))
    service.register(cqels("ASK DSTREAM", pattern, "QUERY gone"))
    service.update(f"{PREFIX} INSERT DATA {{ :a :on true }}")
    push(service, "s", 100, triple("a", 1))
    push(service, "s", 150, triple("a", 2))
    push(service, "s", 260, triple("b", 1))
    push(service, "s", 270, triple("a", 1))
    assert [(e["time"], e["boolean"]) for e in emissions_of(service)] == [(100, True), (270, True)]
    assert [(e["time"], e["boolean"]) for e in emissions_of(service, "gone")] == [(260, True)]


@pytest.mark.parametrize("restart", [False, True])
def test_limit_ranks_by_first_appearance_and_says_what_is_new_in_it(restart: bool, tmp_path: Path) -> None:
    with opened(tmp_path) as service:
        service.register(cqels("SELECT ?x", "STREAM s [RANGE 100ms] { ?x :p ?y }", more=" LIMIT 2"))
        for time, x in [(100, "c"), (110, "b"), (120, "a")]:
            push(service, "s", time, triple(x, 1))
        if restart:
            service.close()
            service = open_service(tmp_path)
        push(service, "s", 205, triple("d", 1))
        push(service, "s", 215, triple("e", 1))
        # At 205 c has gone; without d the answer would be b, a, too. At 215 b has gone: a, d with or without e.
        assert observed(service) == [(100, [("c",)]), (110, [("b",)])]
        assert service.latest("q").count == 2
        service.close()


def test_what_is_replayed_is_new_once(service: Service) -> None:
    """A join with one element of before the close before, and one of after it."""
    service.create_stream("s", {"retention": "1h"})
    for time, x, y in [(5, "a", "b"), (12, "b", "c"), (12, "b", "c"), (25, "z", "b"), (31, "b", "a")]:
        push(service, "s", time, triple(x, y))
    replayed = "STREAM s [START 0 END 30 STEP 10] { ?x :p ?y . ?y :p ?z }"
    service.register(cqels("SELECT ?x ?z", replayed))
    service.register(cqels("SELECT DSTREAM ?x ?z", replayed, "QUERY gone"))
    service.register(cqels("SELECT ?x", "STREAM s [START 10 END 30] { ?x :p ?y }", "QUERY once"))
    push(service, "s", 40, triple("c", "a"))
    assert observed(service) == [(20, [("a", "c")] * 2), (30, [("z", "c")] * 2)]
    assert observed(service, "gone") == []
    assert observed(service, "once") == [(30, [("b",), ("b",), ("z",)])]
    assert service.query_status("q")["state"] == service.query_status("once")["state"] == "ended"
    all_again(service)


@pytest.mark.parametrize("restart", [False, True])
def test_at_closes_too_each_arrival_is_new_once(restart: bool, tmp_path: Path) -> None:
    """What makes a close due comes before it is evaluated, and is new at the next one."""
    texts = {
        "stepped": cqels(
            "SELECT ?x", "STREAM s [RANGE 20ms SLIDE 10ms REPORT WINDOW_CLOSE] { ?x :p ?y }", "QUERY stepped"
        ),
        "counted": cqels("SELECT ?x", "STREAM s [ELEMENTS 2] { ?x :p ?y }", "QUERY counted COMPUTED EVERY 10ms"),
    }
    service = open_service(tmp_path)
    service.create_stream("s", {"retention": "1h"})
    push(service, "s", 3, triple("z", 1))
    for text in texts.values():
        service.register(text)
    push(service, "s", 4, triple("y", 1))
    service.register(texts["stepped"].replace("QUERY stepped", "QUERY later"))
    for time, x in [(5, "a"), (10, "b"), (12, "a"), (20, "c"), (31, "d")]:
        push(service, "s", time, triple(x, 1))
        if restart:
            service.close()
            service = open_service(tmp_path)
    service.heartbeat("s", 60, wait="evaluated")
    for name, before in [("stepped", [("y",)]), ("counted", []), ("later", [])]:
        first = [("a",), ("b",), *before]
        assert observed(service, name) == [(10, first), (20, [("a",), ("c",)]), (40, [("d",)])], name
        all_again(service, name)
    service.close()


def test_what_was_there_at_registration_is_held_and_is_not_new(service: Service) -> None:
    service.create_stream("s", {"retention": "1h"})
    push(service, "s", 1000, triple("a", 1))
    service.register(cqels("SELECT ?x ?z", "STREAM s [RANGE 1s] { ?x :p ?y } STREAM s [NOW] { ?z :p ?y }"))
    push(service, "s", 1500, triple("b", 1))
    assert observed(service) == [(1500, [("a", "b"), ("b", "b")])], "not a alone: it came before the registration"
    all_again(service)


# ---- counting, lateness, retention


@pytest.mark.parametrize("restart", [False, True])
def test_a_step_counts_from_the_registration_through_pauses_and_restarts(restart: bool, tmp_path: Path) -> None:
    service = open_service(tmp_path)

    def again() -> None:
        nonlocal service
        if restart:
            service.close()
            service = open_service(tmp_path)

    push_before = {"retention": "1h"}
    service.create_stream("s", push_before)
    push(service, "s", 1, triple("z", 1))
    service.register(cqels("SELECT RSTREAM ?x", "STREAM s [TRIPLES 2 STEP 3] { ?x :p ?y }"))
    push(service, "s", 2, triple("a", 1))
    again()
    push(service, "s", 3, triple("b", 1))
    again()
    push(service, "s", 4, triple("c", 1), triple("d", 1))
    assert observed(service) == [(4, [("c",), ("d",)])], "the third since the registration, in the middle of an element"
    again()
    service.pause_query("q")
    push(service, "s", 5, triple("e", 1))
    service.resume_query("q")
    again()
    push(service, "s", 6, triple("f", 1))
    assert observed(service, since=1) == [(6, [("e",), ("f",)])], "the sixth: those of the pause count"
    again()
    late = push(service, "s", 1, *(triple(f"l{n}", 1) for n in range(3)))
    assert (late.late, len(emissions_of(service))) == (1, 2), "it completes a multiple, and makes no evaluation"
    again()
    push(service, "s", 7, triple("g", 1))
    assert observed(service, since=2) == [(7, [("f",), ("g",)])], "so that comes with the next arrival"
    service.close()


@pytest.mark.parametrize("window", ["TRIPLES 3", "ELEMENTS 3", "ALL"])
def test_what_a_window_holds_is_retained_however_old_it_is(window: str, tmp_path: Path) -> None:
    clock = ManualClock(1_000_000)
    service = open_service(tmp_path, clock)
    service.register(cqels("SELECT RSTREAM ?x", f"STREAM s [{window}] {{ ?x :p ?y }}"))
    for time in range(1, 6):
        push(service, "s", time, triple(f"x{time}", 1))
    for _ in range(2):
        clock.advance(36_000_000)
        service.collect()
        service.close()
        service = open_service(tmp_path, clock)
    push(service, "s", 3, triple("y", 1))
    there = {"ALL": ["x1", "x2", "x3", "x4", "x5", "y"]}.get(window, ["x4", "x5", "y"])
    assert observed(service)[-1] == (5, [(name,) for name in there])
    late = push(service, "s", 2, triple("w", 1)).late
    assert late == (window != "ALL"), "three are later"
    service.close()


def test_late_is_what_can_be_in_no_window_any_more(service: Service) -> None:
    service.register(cqels("SELECT ?x", "STREAM s [RANGE 1s] { ?x :p ?y }"))
    push(service, "s", 5000, triple("a", 1))
    assert push(service, "s", 4500, triple("b", 1)).late == 0
    assert push(service, "s", 4000, triple("c", 1)).late == 1
    assert observed(service) == [(5000, [("a",)]), (5000, [("b",)])]
    assert service.query_status("q")["late"] == 1
    assert service.query_status("q")["waits_for"] == []


# ---- beside other dialects


def test_the_same_question_in_three_dialects(service: Service) -> None:
    """Each is evaluated at other times; what is in the windows is the same."""
    stream = f"{EX}s"
    service.register(
        cqels(
            "SELECT ?s ?o ?z",
            f"STREAM <{EX}s1> [RANGE 3s SLIDE 1s] {{ ?s :p ?o }} STREAM <{EX}s2> [TRIPLES 10] {{ ?s :q ?z }} "
            f"GRAPH <{EX}kb> {{ ?s a :Room }}",
        )
    )
    service.register(
        f"REGISTER QUERY rooms AS {PREFIX} SELECT ?s ?o ?z FROM STREAM <{stream}1> [RANGE 3s STEP 1s] "
        f"FROM STREAM <{stream}2> [RANGE TRIPLES 10] FROM <{EX}kb> WHERE {{ ?s :p ?o . ?s :q ?z . ?s a :Room }}"
    )
    service.register(
        f"{PREFIX} REGISTER RSTREAM :out AS SELECT ?s ?o ?z FROM <{EX}kb> FROM NAMED WINDOW :w1 ON <{stream}1> "
        f"[RANGE PT3S STEP PT1S] FROM NAMED WINDOW :w2 ON <{stream}2> [ELEMENTS 10] "
        "WHERE { WINDOW :w1 { ?s :p ?o } WINDOW :w2 { ?s :q ?z } ?s a :Room }"
    )
    service.update(f"{PREFIX} INSERT DATA {{ GRAPH :kb {{ :a a :Room }} }}")
    push(service, f"{stream}1", 1500, triple("a", 1))
    push(service, f"{stream}2", 1600, triple("a", 2, "q"))
    push(service, f"{stream}2", 2100, triple("a", 3, "q"))
    push(service, f"{stream}1", 3000, triple("b", 1))
    service.heartbeat(f"{stream}2", 3000, wait="evaluated")
    one, two = ("a", "1", "2"), ("a", "1", "3")
    assert observed(service) == [(1600, [one]), (2100, [two])]
    for name in ("rooms", f"{EX}out"):
        assert observed(service, name) == [(2000, [one]), (3000, [one, two])]


def test_queries_of_different_dialects_are_chained(service: Service) -> None:
    service.register(cqels("CONSTRUCT { ?x :near ?y }", "STREAM s [NOW] { ?x :p ?z } ?z :k ?y", "STREAM near"))
    service.register(
        f"{PREFIX} REGISTER RSTREAM counted AS SELECT ?y (COUNT(*) AS ?n) "
        "FROM NAMED WINDOW :w ON near [RANGE 1s STEP 1s] WHERE { WINDOW :w { ?x :near ?y } } GROUP BY ?y"
    )
    service.register(
        f"{PREFIX} REGISTER QUERY last AS SELECT ?x FROM STREAM near [RANGE TRIPLES 2] WHERE {{ ?x :near ?y }}"
    )
    service.update(f"{PREFIX} INSERT DATA {{ :b :k 1 }}")
    for time, x in [(100, "a"), (200, "c"), (300, "d")]:
        push(service, "s", time, triple(x, "b"))
    push(service, "s", 1000, triple("e", "none"))
    assert observed(service, "last") == [(100, [("a",)]), (200, [("a",), ("c",)]), (300, [("c",), ("d",)])]
    assert observed(service, "counted") == [(1000, [("1", "3")])]


def test_a_variable_ranges_over_all_streams(service: Service) -> None:
    service.create_stream("s", {"iri": f"{EX}s"})
    service.register(cqels("SELECT ?s ?x", "STREAM ?s [TRIPLES 1] { ?x :p ?y }"))
    push(service, "s", 100, triple("a", 1))
    service.create_stream("t", {"iri": f"{EX}t"})
    push(service, "t", 50, triple("b", 1))
    push(service, "s", 120, triple("c", 1))
    assert observed(service) == [(100, [("s", "a")]), (100, [("t", "b")]), (120, [("s", "c")])]


def test_explain_says_the_policy_and_where_it_is_from(service: Service) -> None:
    text = cqels("SELECT ?x", "STREAM s [TRIPLES 3 STEP 2] { ?x :p ?y } STREAM t [RANGE 2s SLIDE 1s] { ?x :q ?z }")
    found = service.explain(text)
    assert (found["dialect"], found["r2s"], found["origins"]["r2s"]) == ("CQELS-QL", "ISTREAM", "default")
    counted, stepped = found["windows"]
    assert [counted[key] for key in ("extent", "count", "count_step", "bounds", "t0")] == ["TRIPLES", 3, 2, None, None]
    assert [stepped[key] for key in ("extent", "range_ms", "step_ms", "bounds", "t0")] == ["RANGE", 2000, 1000, "(]", 0]
    assert found["policy"]["evaluated"] == {"value": ["at every arrival"], "origin": "default"}
    assert found["policy"]["empty"] == {"value": "silent", "origin": "default"}


@pytest.mark.parametrize("kind", ["QUERY q", "RSTREAM q"])
def test_the_whole_answer_is_that_of_the_last_evaluation_also_if_nothing_was_said_of_it(
    service: Service, kind: str
) -> None:
    service.create_stream("s", {})
    service.register(cqels("SELECT ?x ?y", "STREAM s [TRIPLES 1] { ?x :p ?y }", kind))
    push(service, "s", 1, triple("a", "b"))
    assert service.latest("q").count == 1
    push(service, "s", 2, triple("a", "b", "other"))
    assert [time for time, _ in observed(service)] == [1], "an empty answer is silent"
    assert service.latest("q").count == 0
