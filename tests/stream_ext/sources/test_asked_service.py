"""Registered queries that ask a source, as it has more than is held: with the keys of their windows, and seldom."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from stream_ext.clock import ManualClock
from stream_ext.errors import BadArgument
from stream_ext.evaluation_budget import Control
from stream_ext.remote.fetching import CannotFetch
from stream_ext.remote.sparql_client import Solution
from tests.parts.waiting import until
from tests.stream_ext.opened import EX, emissions_of, opened, push, triple, values
from tests.stream_ext.sources.pretended_source import PretendedSource
from tests.stream_ext.sources.test_held_service import CITIES, near, rows

ASKED = {"mode": "ask"}


def test_the_source_is_asked_about_the_keys_of_the_window_that_are_new_and_all_queries_share_the_answers(
    tmp_path: Path,
) -> None:
    source = PretendedSource(*CITIES, f"<{EX}z3> <{EX}partOf> <{EX}c3> .", **ASKED)
    with opened(tmp_path, sources=[source]) as service:
        for name in ("one", "two"):
            service.register(near(name))
        assert service.sources_status()[0]["held"] == 0
        push(service, "taxis", 1_500, triple("a", "z1", "in"), triple("b", "z2", "in"))
        asked = len(source.asked)
        push(service, "taxis", 2_500, triple("c", "z3", "in"))
        assert rows(service, "one") == rows(service, "two") == [("a", "c1"), ("b", "c2")]
        assert len(source.asked) == asked + 1, "two zones, two queries, one request"
        push(service, "taxis", 3_500, triple("d", "z1", "in"))
        assert rows(service, "two") == [("a", "c1"), ("b", "c2"), ("c", "c3")]
        assert len(source.asked) == asked + 2 and "z3" in source.asked[-1] and "z1" not in source.asked[-1]
        push(service, "taxis", 4_500, triple("e", "z2", "in"))
        assert len(source.asked) == asked + 2, "nothing is new"


def test_answers_are_asked_for_again_when_they_are_old_and_emissions_say_how_old_they_are(tmp_path: Path) -> None:
    clock = ManualClock(1_000_000)
    source = PretendedSource(*CITIES, refresh_s=60.0, **ASKED)
    with opened(tmp_path, clock, sources=[source]) as service:
        service.register(near())
        push(service, "taxis", 1_500, triple("a", "z1", "in"))
        push(service, "taxis", 2_500, triple("b", "z2", "in"))
        source.change("DELETE DATA { :z1 :partOf :c1 }")
        clock.advance(59_000)
        push(service, "taxis", 3_500, triple("c", "z9", "in"))
        assert rows(service) == [("a", "c1"), ("b", "c2")]
        assert emissions_of(service, "near")[-1]["sources"] == {"main": {"as_of": {"from": 1_000_000, "to": 1_059_000}}}
        clock.advance(1_000)
        push(service, "taxis", 4_500, triple("d", "z9", "in"))
        assert rows(service) == [("b", "c2")]
        assert emissions_of(service, "near")[-1]["sources"] == {"main": {"as_of": {"from": 1_060_000, "to": 1_060_000}}}
        with pytest.raises(BadArgument, match="asks the source main, which has no snapshots"):
            service.emission_again("near", emissions_of(service, "near")[-1]["emission"])


def test_a_source_that_is_away_holds_up_no_push_however_the_clock_moves(tmp_path: Path) -> None:
    """Only what nobody had time to evaluate is lag."""
    clock, source = ManualClock(1_000_000), PretendedSource(*CITIES, **ASKED)
    with opened(tmp_path, clock, sources=[source]) as service:
        service.register(near())
        push(service, "taxis", 1_500, triple("a", "z1", "in"))
        source.away = True
        for second in range(2, 10):
            push(service, "taxis", 1_000 * second + 500, triple(f"t{second}", "z2", "in"))
            clock.advance(20_000)
        assert "connection refused" in str(service.query_status("near")["error"])
        source.away = False
        clock.advance(70_000)
        push(service, "taxis", 10_500, triple("b", "z1", "in"))
        until(
            lambda: [e["time"] for e in emissions_of(service, "near")] == [*range(2_000, 11_000, 1_000)],
            "all are made up for",
        )


def test_a_refresh_and_an_update_through_us_make_it_ask_again(tmp_path: Path) -> None:
    source = PretendedSource(*CITIES, **ASKED)
    with opened(tmp_path, sources=[source]) as service:
        service.register(near(r2s="ISTREAM"))
        push(service, "taxis", 1_500, triple("a", "z1", "in"))
        push(service, "taxis", 2_500, triple("b", "z9", "in"))
        source.change("INSERT DATA { :z1 :partOf :c7 }")
        service.refresh_source("main", "evaluated")
        push(service, "taxis", 3_500, triple("c", "z9", "in"))
        assert values(emissions_of(service, "near")[-1]) == [("a", "c7")]
        source.change("INSERT DATA { :z9 :partOf :c9 }")
        service.source_written([(f"<{EX}z9>".encode(), f"<{EX}partOf>".encode(), f"<{EX}c9>".encode(), b"")])
        push(service, "taxis", 4_500, triple("d", "z8", "in"))
        assert values(emissions_of(service, "near")[-1]) == [("b", "c9"), ("c", "c9")]
        head = service.head()
        service.source_written([(f"<{EX}z9>".encode(), f"<{EX}pays>".encode(), f"<{EX}c9>".encode(), b"")])
        assert service.head() == head, "no query asks for that"


def test_a_group_that_is_exclusive_is_one_request_until_our_own_store_has_some_of_it(tmp_path: Path) -> None:
    source = PretendedSource(*CITIES, f"<{EX}c1> <{EX}near> <{EX}c2> .", f"<{EX}c2> <{EX}near> <{EX}c1> .", **ASKED)
    with opened(tmp_path, sources=[source]) as service:
        service.register(near(pattern="?z :partOf ?c . ?c :near ?d FILTER(?d != :c9)", select="?t ?d"))
        push(service, "taxis", 1_500, triple("a", "z1", "in"))
        asked = len(source.asked)
        push(service, "taxis", 2_500, triple("b", "z2", "in"))
        assert rows(service) == [("a", "c2")] and len(source.asked) == asked + 1
        assert "FILTER" in source.asked[-1] and "near" in source.asked[-1]
        service.update(f"INSERT DATA {{ <{EX}z2> <{EX}partOf> <{EX}c5> . <{EX}c5> <{EX}near> <{EX}c6>, <{EX}c9> }}")
        push(service, "taxis", 3_500, triple("c", "z9", "in"))
        assert rows(service) == [("a", "c2"), ("b", "c1"), ("b", "c6")]
        service.update(f"DELETE DATA {{ <{EX}z2> <{EX}partOf> <{EX}c5> . <{EX}c5> <{EX}near> <{EX}c6>, <{EX}c9> }}")
        push(service, "taxis", 4_500, triple("d", "z9", "in"))
        assert rows(service) == [("a", "c2"), ("b", "c1")]


def test_what_is_missed_while_the_source_is_away_is_made_up_for_also_after_a_restart(tmp_path: Path) -> None:
    clock = ManualClock(1_000_000)
    source = PretendedSource(*CITIES, **ASKED)
    with opened(tmp_path, clock, sources=[source]) as service:
        service.register(near())
        push(service, "taxis", 1_500, triple("a", "z1", "in"))
        source.away = True
        push(service, "taxis", 2_500, triple("b", "z2", "in"))
        push(service, "taxis", 3_500, triple("c", "z2", "in"))
        status = service.query_status("near")
        error = status["error"]
        assert error.startswith("SourceFailed: ") and "connection refused" in error and "catches up" in error
        assert status["state"] == "waiting" and not status["gap"]
        figures = service.query_figures(service.query_definition("near"))
        assert figures["waiting"] and not figures["failed"]
        assert emissions_of(service, "near") == []
    with opened(tmp_path, clock, sources=[source]) as service:
        push(service, "taxis", 4_500, triple("d", "z9", "in"))
        assert emissions_of(service, "near") == []
        source.away = False
        clock.advance(10_000)
        push(service, "taxis", 5_500, triple("e", "z9", "in"))
        until(lambda: service.query_status("near")["error"] is None, "it has caught up")
        assert service.query_status("near")["state"] == "running"
        assert [values(each) for each in emissions_of(service, "near")] == [
            [("a", "c1")],
            [("a", "c1"), ("b", "c2")],
            [("a", "c1"), ("b", "c2"), ("c", "c2")],
            [("a", "c1"), ("b", "c2"), ("c", "c2")],
        ]
        assert all(each["sources"]["main"]["as_of"]["from"] == 1_010_000 for each in emissions_of(service, "near"))


def test_a_path_that_only_the_source_has_edges_of_is_one_request_and_else_it_is_walked(tmp_path: Path) -> None:
    chain = [f"<{EX}z{i}> <{EX}partOf> <{EX}z{i + 1}> ." for i in range(1, 5)]
    many = [f"<{EX}a{i}> <{EX}partOf> <{EX}b{i}> ." for i in range(100)]
    source = PretendedSource(*chain, *many, **ASKED)
    with opened(tmp_path, sources=[source]) as service:
        service.register(near(pattern="?z :partOf+ ?c"))
        push(service, "taxis", 1_500, triple("a", "z1", "in"))
        asked = len(source.asked)
        push(service, "taxis", 2_500, triple("b", "z4", "in"))
        assert rows(service) == [("a", f"z{i}") for i in range(2, 6)]
        assert len(source.asked) == asked + 1
        service.update(f"INSERT DATA {{ <{EX}z5> <{EX}partOf> <{EX}z6> . <{EX}z9> <{EX}partOf> <{EX}z2> }}")
        push(service, "taxis", 3_500, triple("c", "z9", "in"))
        here = [*((f"z{i}") for i in range(2, 7))]
        assert rows(service) == [*(("a", end) for end in here), ("b", "z5"), ("b", "z6")]
        asked = len(source.asked)
        push(service, "taxis", 4_500, triple("d", "z1", "in"))
        assert ("c", "z2") in rows(service) and len(rows(service)) == 12
        assert len(source.asked) == asked + 1 and "z9" in source.asked[-1], "what is beyond it is known"
        received = sum(len(list(source.store.query(text))) for text in source.asked[asked:])  # type: ignore[arg-type]
        assert received < 20, "of a hundred edges"
        service.update(f"DELETE DATA {{ <{EX}z9> <{EX}partOf> <{EX}z2> }}")
        source.change("DELETE DATA { :z2 :partOf :z3 }")
        service.refresh_source("main", "evaluated")
        push(service, "taxis", 5_500, triple("e", "z8", "in"))
        assert rows(service) == [("a", "z2"), ("b", "z5"), ("b", "z6"), ("d", "z2")]


class TimedSource(PretendedSource):
    """Remembers what time each question had."""

    def __init__(self, *lines: str, **settings: object) -> None:
        super().__init__(*lines, **settings)  # type: ignore[arg-type]
        self.times: list[Control] = []

    def select(self, text: str, control: Control) -> Iterator[list[Solution]]:
        self.times.append(control)
        return super().select(text, control)


@pytest.mark.parametrize("graph", ["", "GRAPH ?g "])
def test_all_rounds_of_a_path_have_the_time_of_one_request(tmp_path: Path, graph: str) -> None:
    name = f" <{EX}g>" if graph else ""
    source = TimedSource(*(f"<{EX}z{i}> <{EX}partOf> <{EX}z{i + 1}>{name} ." for i in range(1, 5)), **ASKED)
    with opened(tmp_path, sources=[source]) as service:
        here = f"<{EX}z5> <{EX}partOf> <{EX}z6>"
        service.update(f"INSERT DATA {{ GRAPH{name} {{ {here} }} }}" if graph else f"INSERT DATA {{ {here} }}")
        service.register(near(pattern=f"{graph}{{ ?z :partOf+ ?c }}"))
        push(service, "taxis", 1_500, triple("a", "z1", "in"))
        source.times.clear()
        push(service, "taxis", 2_500, triple("b", "z9", "in"))
        assert len(rows(service)) == 5
        first, *others = source.times
        assert len(others) >= 3 and all(each is first for each in others)
        push(service, "taxis", 3_500, triple("c", "z9", "in"))
        assert source.times[-1] is not first, "the next evaluation has a time of its own"


@pytest.mark.parametrize(("graph", "expected"), [("", ["a"]), ("GRAPH :g ", ["a"]), ("GRAPH :none ", [])])
def test_a_constant_reaches_itself_in_no_step_also_if_no_edge_has_it(
    tmp_path: Path, graph: str, expected: list[str]
) -> None:
    source = PretendedSource(*CITIES, f"<{EX}z1> <{EX}near> <{EX}c1> <{EX}g> .", **ASKED)
    with opened(tmp_path, sources=[source]) as service:
        service.update(f"INSERT DATA {{ <{EX}z1> <{EX}near> <{EX}c1> }}")  # so that it is followed here
        service.register(near(pattern=f"{graph}{{ :z9 (:near/:near)? ?z }}", select="?t"))
        push(service, "taxis", 1_500, triple("a", "z9", "in"), triple("b", "z8", "in"))
        push(service, "taxis", 2_500, triple("c", "z7", "in"))
        assert [row[0] for row in rows(service)] == expected


def test_a_server_without_the_source_waits_for_it(tmp_path: Path) -> None:
    clock = ManualClock(1_000_000)
    source = PretendedSource(*CITIES, **ASKED)
    with opened(tmp_path, clock, sources=[source]) as service:
        service.register(near())
    with opened(tmp_path, clock) as service:
        push(service, "taxis", 1_500, triple("a", "z1", "in"))
        push(service, "taxis", 2_500, triple("b", "z9", "in"))
        assert "--attach" in service.query_status("near")["error"]
    with opened(tmp_path, clock, sources=[source]) as service:
        clock.advance(10_000)
        push(service, "taxis", 3_500, triple("c", "z9", "in"))
        until(lambda: len(emissions_of(service, "near")) == 2, "both are made up for")
        assert rows(service) == [("a", "c1")]


def of_another_row(text: str, found: list[Solution]) -> list[Solution]:
    return [row | {"row": b'"77"^^<http://www.w3.org/2001/XMLSchema#integer>'} for row in found]


def of_another_zone(text: str, found: list[Solution]) -> list[Solution]:
    return [row | {"z": b"<http://ex/other>"} if "z" in row else row for row in found]


def without_city(text: str, found: list[Solution]) -> list[Solution]:
    return [{name: value for name, value in row.items() if name != "c"} for row in found]


def broken(text: str, found: list[Solution]) -> list[Solution]:
    raise CannotFetch("it answered half a document")


@pytest.mark.parametrize("spoilt", [of_another_row, of_another_zone, without_city, broken])
def test_an_answer_that_cannot_be_is_no_row_and_the_query_continues_with_a_right_one(tmp_path: Path, spoilt) -> None:  # type: ignore[no-untyped-def]
    clock = ManualClock(1_000_000)
    source = PretendedSource(*CITIES, **ASKED)
    with opened(tmp_path, clock, sources=[source]) as service:
        service.register(near())
        push(service, "taxis", 1_500, triple("a", "z1", "in"))
        honest, source.spoil = source.spoil, spoilt
        push(service, "taxis", 2_500, triple("b", "z2", "in"))
        assert emissions_of(service, "near") == [] or rows(service) == []
        if spoilt is not of_another_zone:
            assert service.query_status("near")["error"].startswith("SourceFailed: ")
        source.spoil = honest
        clock.advance(70_000)
        push(service, "taxis", 3_500, triple("c", "z9", "in"))
        until(lambda: service.query_status("near")["error"] is None, "it has caught up")
        assert rows(service) == [("a", "c1"), ("b", "c2")]


def test_a_blank_node_in_a_variable_that_is_compared_fails_by_name(tmp_path: Path) -> None:
    source = PretendedSource(f"<{EX}z1> <{EX}partOf> _:b .", f"_:b <{EX}near> <{EX}c1> .", **ASKED)
    with opened(tmp_path, sources=[source]) as service:
        service.register(near("whole", "?z :partOf ?c . ?c :near ?d", select="?t ?d"))
        service.register(near("apart", "?z :partOf ?c . ?c :near ?d", "ISTREAM", "?t ?d"))
        service.register(near("each", "?z :partOf ?c", select="DISTINCT ?c"))
        push(service, "taxis", 1_500, triple("a", "z1", "in"))
        push(service, "taxis", 2_500, triple("b", "z9", "in"))
        assert rows(service, "whole") == [("a", "c1")]
        for name, variable in (("apart", "?c"), ("each", "?c")):
            assert f"blank node for {variable}" in service.query_status(name)["error"]


def test_explain_and_the_source_say_what_is_asked(tmp_path: Path) -> None:
    source = PretendedSource(*CITIES, held_max=1)
    with opened(tmp_path, sources=[source]) as service:
        found = service.explain(near(pattern="?z :partOf ?c OPTIONAL { ?c :pays ?f }"))["sources"]
        asked = {"source": "main", "asked": f"SELECT ?c ?z WHERE {{ ?z <{EX}partOf> ?c . }}", "exclusive": True}
        assert found == [
            {"source": "main", "pattern": f"?s <{EX}partOf> ?o", "way": "asked", "quads": 2},
            {"source": "main", "pattern": f"?s <{EX}pays> ?o", "way": "held", "quads": 0},
            asked,
        ]
        service.update(f"INSERT DATA {{ <{EX}z1> <{EX}partOf> <{EX}c2> }}")
        found = service.explain(near(pattern="?z :partOf ?c OPTIONAL { ?c :pays ?f }"))["sources"]
        assert found[-1] == asked | {"exclusive": False}
        service.register(near())
        assert service.source_status("main")["groups"] == [
            {"pattern": f"?s <{EX}partOf> ?o", "way": "asked", "quads": 2}
        ]


def test_explain_does_not_say_how_it_is_where_the_source_does_not_count(tmp_path: Path) -> None:
    source = PretendedSource(*CITIES, **ASKED)
    with opened(tmp_path, sources=[source]) as service:
        source.away = True
        (found,) = service.explain(near())["sources"]
        assert found["way"] is None and "connection refused" in found["error"]
