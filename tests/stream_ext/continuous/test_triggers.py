"""What makes a query be evaluated: arrivals, content, windows of the past, changes of the store; and pauses."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from stream_ext.clock import ManualClock
from stream_ext.errors import Unsupported
from stream_ext.service.service import Service
from tests.stream_ext.opened import (
    BASE,
    EX,
    emissions_of,
    opened,
    push,
    push_lines,
    registration,
    times,
    triple,
    values,
)


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    with opened(tmp_path) as service:
        yield service


def observed(service: Service, since: int = 0) -> list[tuple[int, list[tuple[str, ...]]]]:
    return [(emission["time"], values(emission)) for emission in emissions_of(service, since=since)]


# ---- arrivals


def test_every_arrival_is_evaluated_at_once_over_the_window_that_is_open(service: Service) -> None:
    service.register(registration(window="RANGE 2s STEP 1s REPORT CONTENT_CHANGE"))
    push(service, "s", 500, triple("a", 1))
    push(service, "s", 1000, triple("b", 1))
    push(service, "s", 900, triple("c", 1))
    assert observed(service) == [
        (500, [("a", "1")]),
        (1000, [("a", "1"), ("b", "1")]),
        (1000, [("a", "1"), ("b", "1"), ("c", "1")]),
    ]
    assert [(w["from"], w["to"]) for e in emissions_of(service) for w in e["windows"]] == [
        (-1000, 500),
        (0, 1000),
        (0, 1000),
    ]
    push_lines(service, "s", {"timestamp": 2600, "data": triple("e", 1)}, {"timestamp": 2500, "data": triple("d", 1)})
    assert observed(service, since=3) == [
        (2500, [("b", "1"), ("d", "1")]),
        (2600, [("b", "1"), ("d", "1"), ("e", "1")]),
    ]
    late = push(service, "s", 900, triple("z", 1))
    assert (late.late, len(emissions_of(service))) == (1, 5), "it can be in no window any more, and makes no evaluation"
    service.heartbeat("s", 9000, wait="evaluated")
    assert len(emissions_of(service)) == 5


@pytest.mark.parametrize("r2s", ["RSTREAM", "ISTREAM"])
def test_timestamps_of_one_push_that_come_to_one_time_are_one_evaluation_that_can_be_made_again(
    service: Service, r2s: str
) -> None:
    service.register(registration(window="RANGE 2s STEP 1s REPORT CONTENT_CHANGE", r2s=r2s))
    push(service, "s", 1500, triple("a", 1))
    push_lines(service, "s", {"timestamp": 1400, "data": triple("c", 1)}, {"timestamp": 1300, "data": triple("b", 1)})
    a, b, c = ("a", "1"), ("b", "1"), ("c", "1")
    whole = [[a], [a, b, c]]
    assert observed(service) == [(1500, rows) for rows in (whole if r2s == "RSTREAM" else [[a], [b, c]])]
    assert [json.loads(service.emission_again("q", number)) for number in (1, 2)] == emissions_of(service)


def test_an_arrival_waits_for_no_other_stream(service: Service) -> None:
    text = (
        f"PREFIX : <{EX}> REGISTER ISTREAM q AS SELECT ?x FROM NAMED WINDOW :w ON s [RANGE 10s EMIT ON_UPDATE] "
        "FROM NAMED WINDOW :v ON t [RANGE 10s] WHERE { WINDOW :w { ?x :p ?y } WINDOW :v { ?x :p ?z } }"
    )
    service.register(text)
    push(service, "s", 5000, triple("a", 1))
    push(service, "t", 100, triple("a", 1))
    assert observed(service) == [(5000, []), (5000, [("a",)])]


@pytest.mark.parametrize("report", ["CONTENT_CHANGE", "WINDOW_CLOSE, CONTENT_CHANGE", "CONTENT_CHANGE, PERIODIC 7s"])
@pytest.mark.parametrize("restart", [False, True])
def test_a_first_arrival_from_before_registration_finds_what_was_retained(
    report: str, restart: bool, tmp_path: Path
) -> None:
    clock = ManualClock(1_000_000)
    with opened(tmp_path, clock) as service:
        service.create_stream("s", {"retention": "30s", "timeless": []})
        push(service, "s", 1000, triple("a", 1))
        service.heartbeat("s", 9000)
        window = f"RANGE 2s STEP 1s REPORT {report}"
        service.register(registration(window=window))
        service.register(registration("came", window=window, r2s="ISTREAM"))
        service._engine.merge.wait(service.head(), 10)  # or the queries were an hour behind
        clock.advance(3_600_000)
        service.collect()
        if restart:
            service.close()
            service = stack_reopen(tmp_path)
        push(service, "s", 1500, triple("b", 1))
        if restart:
            service.close()
            service = stack_reopen(tmp_path)
        push(service, "s", 1700, triple("c", 1))
        a, b, c = ("a", "1"), ("b", "1"), ("c", "1")
        assert observed(service) == [(1500, [a, b]), (1700, [a, b, c])]
        assert observed_of(service, "came") == [(1500, [a, b]), (1700, [c])]
        service.close()


# ---- arrivals beside closes

BOTH = "RANGE 2s STEP 1s LATENESS 500ms REPORT WINDOW_CLOSE, CONTENT_CHANGE"


@pytest.mark.parametrize("restart", [False, True])
def test_arrivals_are_emitted_at_once_and_the_closes_come_behind_them(restart: bool, tmp_path: Path) -> None:
    with opened(tmp_path) as service:
        service.register(registration(window=BOTH))
        service.register(registration("came", window=BOTH, r2s="ISTREAM"))
        service.register(registration("ranked", window=BOTH) + " LIMIT 1")
        push(service, "s", 900, triple("a", 1))
        push(service, "s", 1400, triple("b", 1))
    with opened(tmp_path) as service:
        push(service, "s", 1600, triple("c", 1))
        a, b, c = ("a", "1"), ("b", "1"), ("c", "1")
        assert observed(service) == [
            (900, [a]),
            (1400, [a, b]),
            (1000, [a]),  # the stream's time is 1100 now, so this close falls due
            (1600, [a, b, c]),
        ]
        assert [(told_["from"], told_["to"]) for e in emissions_of(service) for told_ in e["windows"]] == [
            (-1000, 900),
            (0, 1400),
            (-1000, 1000),
            (0, 1600),
        ]
        push(service, "s", 1700, triple("d", 1))
        last = (1700, [a, b, c, ("d", "1")])
        assert observed(service)[4:] == [last]
        in_turn = [[a], [b], [], [b, c], [("d", "1")]]
        assert [rows for _, rows in observed_of(service, "came")] == in_turn, "compared with what was evaluated before"
        assert [rows for _, rows in observed_of(service, "ranked")] == [[a]] * 5
        for name in ("q", "came"):
            for emission in emissions_of(service, name):
                assert json.loads(service.emission_again(name, emission["emission"])) == emission
        assert service.latest("q").count == service.latest("came").count == 4


def observed_of(service: Service, name: str) -> list[tuple[int, list[tuple[str, ...]]]]:
    return [(emission["time"], values(emission)) for emission in emissions_of(service, name)]


def test_an_arrival_next_to_periods_is_emitted_over_the_window_that_is_open(service: Service) -> None:
    service.register(registration(window="RANGE 2s STEP 1s REPORT PERIODIC 700ms EMIT ON_UPDATE"))
    push(service, "s", 500, triple("a", 1))
    push_lines(service, "s", {"timestamp": 1400, "data": triple("c", 1)}, {"timestamp": 900, "data": triple("b", 1)})
    a, b, c = ("a", "1"), ("b", "1"), ("c", "1")
    assert observed(service) == [(500, [a]), (700, [a]), (900, [a, b]), (1400, [a, b]), (1400, [a, b, c])]


# ---- content


@pytest.mark.parametrize("restart", [False, True])
def test_nothing_is_emitted_while_every_window_is_empty_and_the_answer_before_stays(
    restart: bool, tmp_path: Path
) -> None:
    with opened(tmp_path) as service:
        service.register(registration(window="RANGE 1s STEP 1s REPORT NON_EMPTY_CONTENT", r2s="ISTREAM"))
        push(service, "s", 100, triple("a", 1))
        push(service, "s", 1100, triple("a", 1, "other"))
        service.heartbeat("s", 2_000_000, wait="evaluated")
        assert observed(service) == [(1000, [("a", "1")]), (2000, [])], "an empty answer over content is reported"
        if restart:
            service.close()
            service = stack_reopen(tmp_path)
        push(service, "s", 2_000_100, triple("a", 1))
        push(service, "s", 2_001_000, triple("a", 1))
        push(service, "s", 2_002_000, triple("b", 1))
        assert observed(service)[2:] == [(2_001_000, [("a", "1")]), (2_002_000, [])]
        service.close()


def stack_reopen(folder: Path) -> Service:
    from tests.stream_ext.opened import open_service

    return open_service(folder)


# ---- windows of the past


@pytest.mark.parametrize("restart", [False, True])
def test_a_window_of_the_past_is_replayed_at_registration_and_then_it_ends(restart: bool, tmp_path: Path) -> None:
    with opened(tmp_path) as service:
        service.create_stream("s", {})
        for time in (500, 1500, 2500, 3500):
            push(service, "s", time, triple(f"t{time}", 1))
        service.register(registration(window="START 1000 END 3000 STEP 1s"))
        service.update(f"INSERT DATA {{ {triple('x', 1)} }}", wait="evaluated")
        expected = [(2000, [("t1500", "1")]), (3000, [("t1500", "1"), ("t2500", "1")])]
        assert observed(service) == expected
        assert emissions_of(service)[1]["windows"] == [{"stream": "s", "from": 1000, "to": 3000, "bounds": "[)"}]
        if not restart:
            assert push(service, "s", 2600, triple("late", 1)).late == 0
    with opened(tmp_path) as service:
        push(service, "s", 9000, triple("new", 1))
        assert observed(service) == expected
        assert service.query_status("q")["state"] == "ended"


@pytest.mark.parametrize(
    ("extent", "closes"),
    [
        ("START 1300 END 3300 STEP 1s", [2000, 3000]),  # the multiples of STEP
        ("START 1300 END 3300 STEP 1s T0 300", [2300, 3300]),
        ("START 1300 END 3300", [3300]),  # no STEP: once, at END
        ("START 1300 END 3300 STEP 1s REPORT WINDOW_CLOSE, PERIODIC 2s", [2000, 3000]),
        ("START 1300 END 3300 STEP 1s REPORT PERIODIC 1400ms", [1400, 2800]),
    ],
)
@pytest.mark.parametrize("dialect", ["RSP-QL", "C-SPARQL", "CQELS-QL"])
def test_what_is_replayed_closes_at_multiples_of_its_step_where_no_t0_is_written(
    extent: str, closes: list[int], dialect: str, tmp_path: Path
) -> None:
    texts = {
        "RSP-QL": registration(window=extent),
        "C-SPARQL": f"PREFIX : <{EX}> REGISTER QUERY q AS SELECT ?x ?y FROM STREAM <{BASE}streams/s> [{extent}] "
        "WHERE { ?x :p ?y }",
        "CQELS-QL": f"PREFIX : <{EX}> REGISTER RSTREAM q AS SELECT ?x ?y "
        f"WHERE {{ STREAM s [{extent}] {{ ?x :p ?y }} }}",
    }
    with opened(tmp_path) as service:
        service.create_stream("s", {})
        for time in (500, 1200, 1500, 2500, 3500):
            push(service, "s", time, triple(f"t{time}", 1))
        service.register(texts[dialect])
        service.update(f"INSERT DATA {{ {triple('x', 1)} }}", wait="evaluated")
        answers = [(close, [(f"t{t}", "1") for t in (1500, 2500) if t < close]) for close in closes]
        # CQELS-QL is silent of an empty answer.
        assert observed(service) == [(at, rows) for at, rows in answers if rows or dialect != "CQELS-QL"]


# ---- the store as it changes

NAMED = f"PREFIX : <{EX}> REGISTER RSTREAM q AS SELECT ?x ?y WHERE {{ ?x :p ?y }}"


def change(service: Service, text: str) -> int:
    return service.update(f"PREFIX : <{EX}> {text}", wait="evaluated").snapshot


@pytest.mark.parametrize("restart", [False, True])
def test_a_query_without_windows_answers_at_registration_and_when_its_answer_changes(
    restart: bool, tmp_path: Path
) -> None:
    with opened(tmp_path) as service:
        change(service, "INSERT DATA { :a :p :b }")
        registered, _, _ = service.register(NAMED)
        service.update(f"PREFIX : <{EX}> INSERT DATA {{ :z :other :b }}", wait="evaluated")
        (first,) = emissions_of(service)
        assert (values(first), first["windows"], first["snapshot"]) == ([("a", "b")], [], registered.registered_sn)
        assert first["time"] == 1_000_000, "that of the publication"
        if not restart:
            change(service, "INSERT DATA { :c :p :d }")
    with opened(tmp_path) as service:
        if restart:
            change(service, "INSERT DATA { :c :p :d }")
        change(service, "INSERT DATA { :c :p :d }")
        change(service, "DELETE DATA { :a :p :b }")
        change(service, "DELETE DATA { :c :p :d }")
        assert [values(emission) for emission in emissions_of(service)] == [
            [("a", "b")],
            [("a", "b"), ("c", "d")],
            [("c", "d")],
            [],
        ]
        assert (service.query_status("q")["late"], service.query_status("q")["waits_for"]) == (0, [])


def test_without_windows_an_istream_says_what_came_and_is_silent_else(service: Service) -> None:
    service.register(NAMED.replace("RSTREAM", "ISTREAM"))
    service.register(NAMED.replace("RSTREAM q AS SELECT ?x ?y", "ISTREAM asked AS ASK"))
    change(service, "INSERT DATA { :a :p :b }")
    change(service, "DELETE DATA { :a :p :b } ; INSERT DATA { :c :p :d }")
    change(service, "DELETE DATA { :c :p :d }")
    change(service, "INSERT DATA { :a :p :b }")
    assert [values(emission) for emission in emissions_of(service)] == [[("a", "b")], [("c", "d")], [("a", "b")]]
    assert [emission["boolean"] for emission in emissions_of(service, "asked")] == [True, True]


def test_without_windows_neither_now_nor_chance_cause_anything(tmp_path: Path) -> None:
    clock = ManualClock(1_000_000)

    def tick(service: Service, text: str) -> None:
        clock.advance(10)
        change(service, text)

    with opened(tmp_path, clock) as service:
        change(service, "INSERT DATA { :a :p :b . :a :due 1000015 . :c :due 1000025 }")
        millis = "(SECONDS(NOW()) * 1000 + MINUTES(NOW()) * 60000)"
        service.register(f"PREFIX : <{EX}> REGISTER RSTREAM now AS SELECT ?x (NOW() AS ?t) {{ ?x :p ?y }}")
        service.register(f"PREFIX : <{EX}> REGISTER RSTREAM chance AS SELECT ?x (RAND() AS ?t) {{ ?x :p ?y }}")
        for r2s in ("ISTREAM", "DSTREAM"):
            text = f"SELECT ?x {{ ?x :due ?t FILTER(?t <= {millis}) }} ORDER BY ?x"
            service.register(f"PREFIX : <{EX}> REGISTER {r2s} {r2s} AS {text}")
            service.register(f"PREFIX : <{EX}> REGISTER {r2s} p{r2s} AS {text.removesuffix(' ORDER BY ?x')}")
        tick(service, "INSERT DATA { :x :other :y }")
        tick(service, "INSERT DATA { :y :other :y }")  # :a is due by now, but the store does not say so
    with opened(tmp_path, clock) as service:
        tick(service, "INSERT DATA { :z :other :y }")
        tick(service, "INSERT DATA { :c :p :d . :d :due 1000000 }")
        tick(service, "DELETE DATA { :d :due 1000000 }")
        assert [(e["time"], [x for x, _ in values(e)]) for e in emissions_of(service, "now")] == [
            (1_000_000, ["a"]),
            (1_000_040, ["a", "c"]),
        ]
        assert times(emissions_of(service, "chance")) == [1_000_000, 1_000_040]
        for prefix in ("", "p"):
            came, went = ([(e["time"], values(e)) for e in emissions_of(service, f"{prefix}{r}STREAM")] for r in "ID")
            assert came == [(1_000_040, [("a",), ("c",), ("d",)])], "more than at the evaluation before"
            assert went == [(1_000_050, [("d",)])]


def test_elements_that_the_store_absorbs_change_the_answers_over_it(service: Service) -> None:
    service.create_stream("s", {"timeless": True})
    service.register(NAMED)
    push(service, "s", 5, triple("a", "b"))
    assert [values(emission) for emission in emissions_of(service)] == [[], [("a", "b")]]


# ---- pauses


def test_the_first_emission_after_a_pause_says_so(service: Service) -> None:
    service.register(registration(window="RANGE 1s STEP 1s"))
    push(service, "s", 100, triple("a", 1))
    push(service, "s", 1000, triple("b", 1))
    service.pause_query("q")
    push(service, "s", 3500, triple("c", 1))
    service.resume_query("q")
    for time in (4000, 5000):
        push(service, "s", time, triple("d", 1))
    assert [(emission["time"], emission.get("gap")) for emission in emissions_of(service)] == [
        (1000, None),
        (4000, True),
        (5000, None),
    ]


def test_evaluations_and_rows_are_counted(service: Service) -> None:
    service.register(registration(window="RANGE 1s STEP 1s"))
    service.register(registration("asked", window="RANGE 1s STEP 1s", select="ASK", r2s="ISTREAM"))
    service.register(registration("full", window="RANGE 1s STEP 1s REPORT NON_EMPTY_CONTENT"))
    push(service, "s", 100, triple("a", 1), triple("b", 1))
    service.heartbeat("s", 2_000_000, wait="evaluated")
    counted = {name: service.query_status(name) for name in ("q", "asked", "full")}
    assert [(each["evaluations"], each["rows"]) for each in counted.values()] == [(2000, 2), (2000, 1), (1, 2)]


def test_a_query_over_the_store_answers_anew_when_it_is_resumed(service: Service) -> None:
    service.register(NAMED)
    service.pause_query("q")
    change(service, "INSERT DATA { :a :p :b }")
    service.resume_query("q")
    change(service, "INSERT DATA { :c :p :d }")
    assert [(values(emission), emission.get("gap")) for emission in emissions_of(service)] == [
        ([], None),
        ([("a", "b")], True),
        ([("a", "b"), ("c", "d")], None),
    ]
    assert times(emissions_of(service)) == [1_000_000] * 3


def test_what_does_not_run_together_is_refused_by_name(service: Service) -> None:
    with pytest.raises(Unsupported, match="COMPUTED EVERY for a query without windows"):
        service.register(NAMED.replace("RSTREAM q AS", "QUERY q COMPUTED EVERY 5s AS"))
