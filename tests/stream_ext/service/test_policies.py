"""Policies through the whole service: bounds, lateness, periods, idle streams, times by a predicate."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from stream_ext.clock import ManualClock
from stream_ext.errors import BadArgument
from stream_ext.service.service import Service
from tests.stream_ext.opened import (
    EX,
    Reader,
    emissions_of,
    opened,
    push,
    push_lines,
    registration,
    times,
    triple,
    values,
)

TWO = (
    f"PREFIX : <{EX}> REGISTER RSTREAM q AS SELECT ?x FROM NAMED WINDOW :w ON s [RANGE 1s] "
    "FROM NAMED WINDOW :v ON t [RANGE 1s] WHERE { WINDOW :w { ?x :p ?y } }"
)


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    with opened(tmp_path) as service:
        yield service


def observed(service: Service) -> list[tuple[int, list[tuple[str, ...]]]]:
    return [(emission["time"], values(emission)) for emission in emissions_of(service)]


def extents(service: Service) -> list[tuple[int, int]]:
    return [(window["from"], window["to"]) for emission in emissions_of(service) for window in emission["windows"]]


def test_a_window_that_holds_its_end_closes_when_time_has_passed_it(service: Service) -> None:
    service.register(registration(window="RANGE 1s STEP 1s BOUNDS (]"))
    push(service, "s", 1000, triple("a", 1))
    push(service, "s", 1000, triple("b", 1))
    assert emissions_of(service) == []
    push(service, "s", 1001, triple("c", 1))
    assert observed(service) == [(1000, [("a", "1"), ("b", "1")])]
    assert emissions_of(service)[0]["windows"] == [{"stream": "s", "from": 0, "to": 1000, "bounds": "(]"}]
    service.heartbeat("s", 2000, wait="evaluated")
    assert observed(service)[1:] == [(2000, [("c", "1")])]


def test_a_window_of_the_past_tells_from_where_to_where_it_reached(service: Service) -> None:
    service.register(registration(window="FROM NOW - 3s TO NOW - 1s STEP 1s"))
    push(service, "s", 500, triple("a", 1))
    push(service, "s", 1500, triple("b", 1))
    push(service, "s", 4000, triple("c", 1))
    assert observed(service) == [
        (2000, [("a", "1")]),
        (3000, [("a", "1"), ("b", "1")]),
        (4000, [("b", "1")]),
    ]
    assert [(w["from"], w["to"]) for e in emissions_of(service) for w in e["windows"]] == [
        (-1000, 1000),
        (0, 2000),
        (1000, 3000),
    ]


def test_a_window_of_the_past_without_a_step_holds_each_element_once(service: Service) -> None:
    """As long as it is: [NOW - 3s TO NOW - 1s] closes every two seconds."""
    service.register(registration(window="FROM NOW - 3s TO NOW - 1s"))
    for time in range(500, 8_000, 1_000):
        push(service, "s", time, triple(f"e{time}", 1))
    service.heartbeat("s", 10_000, wait="evaluated")
    assert [(w["from"], w["to"]) for e in emissions_of(service) for w in e["windows"]] == [
        (start, start + 2000) for start in range(-1000, 8_000, 2000)
    ]
    assert [name for _, rows in observed(service) for name, _ in rows] == [
        f"e{time}" for time in range(500, 8_000, 1_000)
    ]


def test_the_lateness_of_a_window_goes_before_that_of_its_stream(service: Service) -> None:
    service.create_stream("s", {"lateness": "5s"})
    service.register(registration(window="RANGE 1s STEP 1s LATENESS 0"))
    service.register(registration("slow", window="RANGE 1s STEP 1s"))
    service.register(registration("slower", window="RANGE 1s STEP 1s MAXDELAY 7s"))
    push(service, "s", 500, triple("a", 1))
    push(service, "s", 1000, triple("b", 1))
    assert [len(emissions_of(service, name)) for name in ("q", "slow", "slower")] == [1, 0, 0]
    receipt = push(service, "s", 600, triple("c", 1))
    assert receipt.late == 1
    assert [service.query_status(name)["late"] for name in ("q", "slow", "slower")] == [1, 0, 0]
    push(service, "s", 7000, triple("d", 1))
    assert [times(emissions_of(service, name)) for name in ("slow", "slower")] == [[1000, 2000], []]
    push(service, "s", 8000, triple("d", 1))
    assert times(emissions_of(service, "slower")) == [1000]


@pytest.mark.parametrize("head", ["REGISTER RSTREAM q AS", "REGISTER QUERY q COMPUTED EVERY 500ms AS"])
def test_periods_are_the_multiples_of_their_length(service: Service, head: str) -> None:
    report = "" if "COMPUTED" in head else " REPORT PERIODIC 500ms"
    text = registration(window=f"RANGE 1s STEP 1s T0 100{report}").replace("REGISTER RSTREAM q AS", head)
    service.register(text)
    push(service, "s", 600, triple("a", 1))
    push(service, "s", 2000, triple("b", 1))
    assert observed(service) == [(1000, [("a", "1")]), (1500, []), (2000, [])]
    assert [(w["from"], w["to"]) for e in emissions_of(service) for w in e["windows"]] == [
        (100, 1000),
        (1100, 1500),
        (1100, 2000),
    ]


def test_an_idle_stream_lets_time_pass_without_it_until_it_comes_again(tmp_path: Path) -> None:
    clock = ManualClock(50_000)
    with opened(tmp_path, clock) as service:
        service.create_stream("t", {"idle": "5s"})
        service.register(TWO)
        push(service, "t", 100, triple("z", 1))
        push(service, "s", 100, triple("a", 1))
        push(service, "s", 2100, triple("b", 1))
        assert (emissions_of(service), service.query_status("q")["waits_for"]) == ([], ["t"])
        reader = Reader(service, "q")
        clock.advance(4_999)
        assert emissions_of(service) == []
        clock.advance(1)
        assert reader.read_to(2) == [1, 2]
        assert (times(emissions_of(service)), service.query_status("q")["waits_for"]) == ([1000, 2000], [])
        push(service, "s", 3000, triple("c", 1))
        assert times(emissions_of(service))[2:] == [3000]
        receipt = push_lines(
            service, "t", {"timestamp": 700, "data": triple("z", 1)}, {"timestamp": 3300, "data": triple("z", 1)}
        )
        assert receipt.late == 1, "700 was in the window that was reported without it"
        push(service, "s", 5000, triple("d", 1))
        assert (times(emissions_of(service))[3:], service.query_status("q")["waits_for"]) == ([], ["t"])
    with opened(tmp_path, clock) as service:
        reader = Reader(service, "q", since=3)
        clock.advance(5_000)
        assert reader.read_to(5) == [4, 5]
        assert times(emissions_of(service)) == [1000, 2000, 3000, 4000, 5000]


def test_idle_may_be_given_to_a_stream_that_is_read_already_and_taken_away(tmp_path: Path) -> None:
    clock = ManualClock(50_000)
    with opened(tmp_path, clock) as service:
        service.create_stream("t", {})
        service.register(TWO)
        push(service, "t", 100, triple("z", 1))
        push(service, "s", 100, triple("a", 1))
        push(service, "s", 2100, triple("b", 1))
        clock.advance(60_000)
        assert (emissions_of(service), service.query_status("q")["waits_for"]) == ([], ["t"])
        assert service.change_stream("t", {"idle": "5s"}).options.idle_ms == 5_000
        reader = Reader(service, "q")
        clock.advance(4_999)
        assert emissions_of(service) == [], "the time counts from the change on"
        clock.advance(1)
        assert reader.read_to(2) == [1, 2]
        receipt = push_lines(
            service, "t", {"timestamp": 700, "data": triple("z", 1)}, {"timestamp": 3300, "data": triple("z", 1)}
        )
        assert receipt.late == 1, "700 was in the window that was reported without it"
        push(service, "s", 4000, triple("d", 1))
    with opened(tmp_path, clock) as service:
        reader = Reader(service, "q", since=3)
        clock.advance(5_000)
        assert reader.read_to(4) == [4], "a restart does not forget it"
        push(service, "t", 4100, triple("z", 1))
        service.change_stream("t", {"idle": None})
        clock.advance(6_000)
        push(service, "s", 6000, triple("d", 1))
        assert times(emissions_of(service)) == [1000, 2000, 3000, 4000]
        assert service.query_status("q")["waits_for"] == ["t"]


def test_what_is_late_is_the_same_whether_idle_was_an_option_from_the_first_on(tmp_path: Path) -> None:
    counted = []
    for options in ({}, {"idle": "5s"}):
        clock = ManualClock(50_000)
        with opened(tmp_path / str(len(options)), clock) as service:
            service.create_stream("t", options)
            service.register(TWO)
            for time in range(100, 4000, 300):
                push(service, "t", time, triple("z", 1))
                push(service, "s", time, triple("a", 1))
            service.change_stream("t", {"idle": "5s"})
            push(service, "s", 9000, triple("b", 1))
            reader = Reader(service, "q")
            clock.advance(5_000)
            reader.read_to(9)
            late = [push(service, "t", time, triple("z", 1)).late for time in (3900, 8200, 9300)]
            counted.append((late, times(emissions_of(service)), service.query_status("q")["late"]))
    assert counted[0] == counted[1]
    assert counted[0][0] == [1, 1, 0]


def test_a_stream_that_never_had_an_element_falls_idle_too(tmp_path: Path) -> None:
    clock = ManualClock(50_000)
    with opened(tmp_path, clock) as service:
        service.create_stream("t", {"idle": 300})
        service.register(TWO)
        push(service, "s", 100, triple("a", 1))
        reader = Reader(service, "q")
        clock.advance(300)
        push(service, "s", 1100, triple("b", 1))
        assert (reader.read_to(1), times(emissions_of(service))) == ([1], [1000])
        head = service.head()
        clock.advance(10_000)
        assert service.head() == head, "it is idle already: nothing more is written"


def test_a_stream_has_one_time_and_a_query_may_only_name_that(service: Service) -> None:
    service.create_stream("s", {"time": EX + "at"})
    service.register(registration(window="RANGE 1s ON :at STEP 1s"))
    push(service, "s", None, triple("a", 100, "at"), triple("a", 1))
    push(service, "s", None, triple("b", 1100, "at"), triple("b", 1))
    assert observed(service) == [(1000, [("a", "1")])]
    with pytest.raises(BadArgument, match="times from <http://ex/at>, and a stream has only one source of time"):
        service.register(registration("other", window="RANGE 1s ON :when STEP 1s"))
    service.create_stream("plain", {})
    with pytest.raises(BadArgument, match="sent with its elements"):
        service.register(registration("third", stream="plain", window="RANGE 1s @:when STEP 1s"))
    _, _, warnings = service.register(registration("fourth", stream="fresh", window="RANGE 1s @:when STEP 1s"))
    assert "except for its time" in warnings[0]
    assert service.stream("fresh").options.time == EX + "when"


def test_the_clocks_closes_are_given_by_the_lateness_of_each_window(tmp_path: Path) -> None:
    clock = ManualClock(10_200)
    with opened(tmp_path, clock) as service:
        service.create_stream("s", {"lateness": 500})
        service.register(registration(window="RANGE 1s STEP 1s LATENESS 100"))
        service.register(registration("shut", window="RANGE 1s STEP 1s BOUNDS (]"))
        push(service, "s", None, triple("a", 1))
        first, second = Reader(service, "q"), Reader(service, "shut")
        clock.advance(899)
        assert emissions_of(service) == []
        clock.advance(1)
        assert first.read_to(1) == [1]
        assert emissions_of(service, "shut") == []
        clock.advance(401)
        assert second.read_to(1) == [1]
        assert times(emissions_of(service)) == times(emissions_of(service, "shut")) == [11_000]


@pytest.mark.parametrize(
    "lacking",
    [
        "?x :owns ?y MINUS { WINDOW :w { ?y :p ?z } }",
        "?x :owns ?y FILTER NOT EXISTS { WINDOW :w { ?y :p ?z } }",
        "?x :owns ?y OPTIONAL { WINDOW :w { ?y :p ?z } } FILTER(!BOUND(?z))",
        "?x :owns ?y { SELECT (COUNT(?z) AS ?n) { WINDOW :w { ?y :p ?z } } } FILTER(?n = 0)",
    ],
)
@pytest.mark.parametrize("r2s", ["RSTREAM", "ISTREAM"])
def test_what_has_fallen_silent_is_emitted_when_the_windows_have_become_empty(
    service: Service, lacking: str, r2s: str
) -> None:
    service.update(f"PREFIX : <{EX}> INSERT DATA {{ :ann :owns :cat }}")
    service.register(
        f"PREFIX : <{EX}> REGISTER {r2s} q AS SELECT ?x ?y FROM NAMED WINDOW :w ON s [RANGE 2s STEP 1s] "
        f"WHERE {{ {lacking} }}"
    )
    push(service, "s", 500, triple("cat", 1))
    service.heartbeat("s", 6000, wait="evaluated")
    missed: list[tuple[str, ...]] = [("ann", "cat")]
    later = missed if r2s == "RSTREAM" else []
    assert observed(service) == [(1000, []), (2000, []), (3000, missed), *((c * 1000, later) for c in (4, 5, 6))]


def test_what_time_by_itself_brings_about_is_emitted_while_the_windows_are_empty(service: Service) -> None:
    due = '"1970-01-01T00:00:05Z"^^<http://www.w3.org/2001/XMLSchema#dateTime>'
    service.update(f"PREFIX : <{EX}> INSERT DATA {{ :bill :due {due} }}")
    service.register(
        f"PREFIX : <{EX}> REGISTER RSTREAM q AS SELECT ?x FROM NAMED WINDOW :w ON s [RANGE 1s STEP 1s] "
        "WHERE { ?x :due ?t FILTER(?t <= NOW()) FILTER NOT EXISTS { WINDOW :w { ?x :paid ?y } } }"
    )
    push(service, "s", 500, triple("rent", 1, "paid"))
    service.heartbeat("s", 7000, wait="evaluated")
    assert observed(service) == [*((c * 1000, []) for c in (1, 2, 3, 4)), *((c * 1000, [("bill",)]) for c in (5, 6, 7))]
