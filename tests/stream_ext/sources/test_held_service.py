"""Registered queries over an attached source: what they need of it is held, and follows it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from endpoint.files.dumping import of_store
from plugin.store import RilletStore
from stream_ext.clock import ManualClock, SystemClock
from stream_ext.errors import BadArgument, SourceFailed
from stream_ext.evaluation_budget import Control
from stream_ext.remote.fetching import CannotFetch
from stream_ext.remote.sparql_client import Solution
from stream_ext.runners.spark.settings import SparkSettings
from stream_ext.service.service import Service
from tests.parts.waiting import until
from tests.stream_ext.opened import EX, emissions_of, open_service, opened, push, triple, values
from tests.stream_ext.runners.spark.doubles import PATIENCE_S
from tests.stream_ext.runners.spark.stand_in import DRIVER
from tests.stream_ext.sources.pretended_source import PretendedSource

CITIES = (f"<{EX}z1> <{EX}partOf> <{EX}c1> .", f"<{EX}z2> <{EX}partOf> <{EX}c2> .")


def near(name: str = "near", pattern: str = "?z :partOf ?c", r2s: str = "RSTREAM", select: str = "?t ?c") -> str:
    return (
        f"PREFIX : <{EX}> REGISTER {r2s} {name} AS SELECT {select} "
        f"FROM NAMED WINDOW :w ON taxis [RANGE PT10S STEP PT1S] WHERE {{ WINDOW :w {{ ?t :in ?z }} {pattern} }}"
    )


def rows(service: Service, name: str = "near") -> list[tuple[str, ...]]:
    return values(emissions_of(service, name)[-1])


def test_a_registered_query_reads_the_source_and_our_own_store_as_one(tmp_path: Path) -> None:
    source = PretendedSource(*CITIES)
    with opened(tmp_path, sources=[source]) as service:
        service.update(f"INSERT DATA {{ <{EX}z2> <{EX}partOf> <{EX}c2>, <{EX}c3> }}")
        service.register(near())
        for taxi, zone in (("a", "z1"), ("b", "z2"), ("c", "z9")):
            push(service, "taxis", 1_500, triple(taxi, zone, "in"))
        push(service, "taxis", 2_500, triple("d", "z9", "in"))
        assert rows(service) == [("a", "c1"), ("b", "c2"), ("b", "c3")]
        source.change("DELETE DATA { :z1 :partOf :c1 . :z2 :partOf :c2 }; INSERT DATA { :z9 :partOf :c9 }")
        service.refresh_source("main", "evaluated")
        push(service, "taxis", 3_500, triple("e", "z8", "in"))
        assert rows(service) == [("b", "c2"), ("b", "c3"), ("c", "c9"), ("d", "c9")]
        assert service.sources_status()[0]["held"] == 1


def test_what_is_held_is_in_no_answer_but_those_of_registered_queries(tmp_path: Path) -> None:
    source = PretendedSource(*CITIES)
    with opened(tmp_path, sources=[source]) as service:
        service.register(near())
        assert service.sources_status()[0]["held"] == 2
        assert service.query("SELECT * { ?s ?p ?o }").count == 2  # the source is asked
        source.store.clear()
        assert service.query("SELECT * { ?s ?p ?o }").count == 0
        assert service.query("SELECT * { GRAPH ?g { ?s ?p ?o } }").count == 0
        assert service.query(f"SELECT * {{ ?s <{EX}partOf>+ ?o }}").count == 0
        assert len(service.read_dataset().columns[0]) == 0
        service.update("CLEAR ALL; DELETE WHERE { ?s ?p ?o }")
        assert service.sources_status()[0]["held"] == 2


def test_a_refresh_that_finds_nothing_new_makes_no_snapshot(tmp_path: Path) -> None:
    clock = ManualClock(1_000_000)
    source = PretendedSource(*CITIES, refresh_s=60.0)
    with opened(tmp_path, clock, sources=[source]) as service:
        service.register(near())
        head, asked = service.head(), len(source.asked)
        clock.advance(60_000)
        until(lambda: len(source.asked) > asked and service.sources_status()[0]["lag_ms"] == 0, "it is refreshed")
        assert service.head() == head
        source.change("INSERT DATA { :z3 :partOf :c3 }")
        clock.advance(59_999)
        assert service.head() == head
        clock.advance(1)
        until(lambda: service.head() == head + 1, "the change is found")
        # The status follows the snapshot.
        later = {"from": 1_120_000, "to": 1_120_000}
        until(lambda: service.sources_status()[0]["as_of"] == later, "the status is of the refresh that found it")


def test_emissions_say_of_which_time_the_data_of_the_source_are(tmp_path: Path) -> None:
    clock = ManualClock(1_000_000)
    source = PretendedSource(*CITIES)
    with opened(tmp_path, clock, sources=[source]) as service:
        service.register(near())
        push(service, "taxis", 1_500, triple("a", "z1", "in"))
        push(service, "taxis", 2_500, triple("b", "z3", "in"))
        assert emissions_of(service, "near")[-1]["sources"] == {"main": {"as_of": {"from": 1_000_000, "to": 1_000_000}}}
        source.change("INSERT DATA { :z3 :partOf :c3 }")
        clock.advance(5_000)
        service.refresh_source("main")
        push(service, "taxis", 3_500, triple("c", "z8", "in"))
        assert emissions_of(service, "near")[-1]["sources"] == {"main": {"as_of": {"from": 1_005_000, "to": 1_005_000}}}
        for emission in emissions_of(service, "near"):
            again = service.emission_again("near", emission["emission"])
            assert again == service.emissions("near", emission["emission"] - 1, 1)[0].json


def test_what_is_held_continues_while_the_source_is_away(tmp_path: Path) -> None:
    source = PretendedSource(*CITIES)
    with opened(tmp_path, sources=[source]) as service:
        service.register(near())
    source.away = True
    with opened(tmp_path, sources=[source]) as service:
        push(service, "taxis", 1_500, triple("a", "z1", "in"))
        push(service, "taxis", 2_500, triple("b", "z9", "in"))
        assert rows(service) == [("a", "c1")]
        until(lambda: service.sources_status()[0]["state"] == "away", "it is tried")
        assert "connection refused" in service.sources_status()[0]["error"]
        service.register(near("same"))  # it needs no more than is held
        with pytest.raises(SourceFailed, match=r"main.*connection refused"):
            service.register(near("other", "?z :pays ?c"))
        source.away = False
        service.register(near("other", "?z :pays ?c"))


def test_a_query_that_needs_what_cannot_be_held_is_refused_with_the_count(tmp_path: Path) -> None:
    source = PretendedSource(*CITIES, held_max=1)
    with opened(tmp_path, sources=[source]) as service:
        with pytest.raises(BadArgument, match=r"\?s <http://ex/partOf> \?o.*2 quads; at most 1"):
            service.register(near(pattern="?x :partOf+ ?c"))
        assert service.sources_status()[0]["held"] == 0
        service.register(near("one", ":z1 :pays ?c"))


def test_queries_that_differ_in_constants_hold_one_thing_and_release_it_together(tmp_path: Path) -> None:
    source = PretendedSource(*CITIES)
    with opened(tmp_path, sources=[source]) as service:
        service.register(near("one", "?z :partOf :c1", select="?t"))
        asked = len(source.asked)
        service.register(near("two", "?z :partOf :c2", select="?t"))
        assert len(source.asked) == asked and service.sources_status()[0]["held"] == 2
        service.drop_query("one")
        service.refresh_source("main")
        assert service.sources_status()[0]["held"] == 2
        service.drop_query("two")
        service.refresh_source("main")
        assert service.sources_status()[0]["held"] == 0


def test_an_update_through_us_is_in_what_is_held_when_it_is_acknowledged(tmp_path: Path) -> None:
    source = PretendedSource(*CITIES)
    with opened(tmp_path, sources=[source]) as service:
        service.register(near())
        push(service, "taxis", 1_500, triple("a", "z3", "in"))
        source.change("INSERT DATA { :z3 :partOf :c3 . :z3 :pays :p }; DELETE DATA { :z1 :partOf :c1 }")
        quads = [
            (b"<%s%s>" % (EX.encode(), s), b"<http://ex/partOf>", b"<%s%s>" % (EX.encode(), o), b"")
            for s, o in ((b"z3", b"c3"), (b"z1", b"c1"), (b"z7", b"c7"))
        ]
        asked = len(source.asked)
        service.source_written([*quads, (b"<http://ex/z3>", b"<http://ex/pays>", b"<http://ex/p>", b"")])
        assert len(source.asked) == asked + 1 and "VALUES" in source.asked[-1] and "pays" not in source.asked[-1]
        assert service.sources_status()[0]["held"] == 2
        push(service, "taxis", 2_500, triple("b", "z1", "in"))
        assert rows(service) == [("a", "c3")]


def test_blank_nodes_whose_labels_change_are_held_as_the_same(tmp_path: Path) -> None:
    source = PretendedSource(
        f"<{EX}z1> <{EX}at> _:x .",
        f'_:x <{EX}street> "Main" .',
        f"<{EX}z2> <{EX}at> _:y .",
        f'_:y <{EX}street> "High" .',
    )
    query = near(pattern="?z :at/:street ?c", r2s="ISTREAM")
    with opened(tmp_path, sources=[source]) as service:
        service.register(query)
        push(service, "taxis", 1_500, triple("a", "z1", "in"), triple("b", "z2", "in"))
        push(service, "taxis", 2_500, triple("c", "z9", "in"))
        assert rows(service) == [("a", "Main"), ("b", "High")]
        head = service.head()
        assert service.refresh_source("main") == head  # other labels, and nothing else
        source.change('DELETE { ?x :street "Main" } INSERT { ?x :street "Old" } WHERE { ?x :street "Main" }')
        assert service.refresh_source("main") == head + 1
        push(service, "taxis", 3_500, triple("d", "z9", "in"))
        assert rows(service) == [("a", "Old")]


@pytest.mark.parametrize("sorts", [False, True])
def test_a_source_that_cuts_answers_is_read_in_pages_or_refused(tmp_path: Path, sorts: bool) -> None:
    lines = [f"<{EX}z{i}> <{EX}partOf> <{EX}c{j}> ." for i in range(40) for j in range(i % 3 + 1)]
    source = PretendedSource(*lines).with_traits(sorts_by_text=sorts)
    source.rows_max = 7
    with opened(tmp_path, sources=[source]) as service:
        if sorts:
            service.register(near())
            assert service.sources_status()[0]["held"] == len(lines)
        else:
            with pytest.raises(SourceFailed, match="cuts answers short"):
                service.register(near())


@pytest.mark.parametrize(
    ("spoilt", "words"),
    [
        (lambda row: {"s": row["s"]}, "without"),
        (lambda row: {**row, "p": b'"no"'}, "no quad"),
        (lambda row: {**row, "p": b"_:x\n<no>"}, "no quad"),
        (lambda row: {**row, "g": b'"no"'}, "no quad"),
        (lambda row: {**row, "s": b'"no"'}, "no quad"),
    ],
)
def test_an_answer_that_is_no_quad_changes_nothing(tmp_path: Path, spoilt, words: str) -> None:  # type: ignore[no-untyped-def]
    source = PretendedSource(*CITIES)
    with opened(tmp_path, sources=[source]) as service:
        service.register(near())
        head = service.head()
        source.spoil = lambda text, found: [spoilt(row) if "s" in row else row for row in found]
        with pytest.raises(SourceFailed, match=words):
            service.refresh_source("main")
        assert service.head() == head and service.sources_status()[0]["state"] == "failing"
        source.spoil = lambda text, found: found
        service.refresh_source("main")
        assert service.sources_status()[0]["state"] == "ready" and service.sources_status()[0]["error"] is None


def test_an_answer_that_breaks_off_changes_nothing(tmp_path: Path) -> None:
    source = PretendedSource(*CITIES)
    with opened(tmp_path, sources=[source]) as service:
        service.register(near())
        head = service.head()

        def broken(text: str, found: list[dict[str, bytes]]) -> list[dict[str, bytes]]:
            if "COUNT" not in text:
                raise CannotFetch("<http://pretended/sparql> broke off")
            return found

        source.spoil = broken
        source.change("DELETE WHERE { ?s ?p ?o }")
        with pytest.raises(SourceFailed, match="broke off"):
            service.refresh_source("main")
        assert service.head() == head and service.sources_status()[0]["held"] == 2


def test_only_subjects_that_changed_are_fetched_and_deletions_are_found_by_a_full_fetch(tmp_path: Path) -> None:
    clock = ManualClock(1_000_000)
    stamp = '"2026-01-01T00:00:%02dZ"^^<http://www.w3.org/2001/XMLSchema#dateTime>'
    lines = [f"<{EX}z{i}> <{EX}partOf> <{EX}c{i}> .\n<{EX}z{i}> <{EX}modified> {stamp % i} ." for i in range(5)]
    source = PretendedSource(*lines, changed=f"{EX}modified", refresh_s=10.0, full_s=100.0)
    with opened(tmp_path, clock, sources=[source]) as service:
        service.register(near())
        clock.advance(10_000)  # the first whole fetch that knows the last change
        until(lambda: service.sources_status()[0]["lag_ms"] == 0, "it is refreshed")
        source.change(
            f"DELETE DATA {{ :z1 :partOf :c1 . :z2 :partOf :c2 . :z2 :modified {stamp % 2} }}; "
            f"INSERT DATA {{ :z2 :partOf :new ; :modified {stamp % 50} . :z9 :partOf :c9 ; :modified {stamp % 51} }}"
        )
        head = service.head()
        clock.advance(10_000)
        until(lambda: service.head() == head + 1, "the changes are found")
        assert any("VALUES" in text for text in source.asked[-2:])
        assert service.sources_status()[0]["held"] == 6  # z1 was deleted, which nobody has said
        clock.advance(100_000)
        until(lambda: service.head() == head + 2, "the deletion is found")
        assert service.sources_status()[0]["held"] == 5


def test_named_graphs_are_held_apart(tmp_path: Path) -> None:
    source = PretendedSource(
        f"<{EX}z1> <{EX}partOf> <{EX}c1> <{EX}g> .", f"<{EX}z1> <{EX}partOf> <{EX}c2> <{EX}h> .", CITIES[1]
    )
    with opened(tmp_path, sources=[source]) as service:
        service.register(near("each", "GRAPH ?g { ?z :partOf ?c }", select="?t ?c ?g"))
        service.register(near("one", "GRAPH :h { ?z :partOf ?c }"))
        service.register(near("merged", "?z :partOf ?c").replace("WHERE", "FROM :g FROM :h WHERE"))
        push(service, "taxis", 1_500, triple("a", "z1", "in"), triple("b", "z2", "in"))
        push(service, "taxis", 2_500, triple("c", "z9", "in"))
        assert rows(service, "each") == [("a", "c1", "g"), ("a", "c2", "h")]
        assert rows(service, "one") == [("a", "c2")]
        assert rows(service, "merged") == [("a", "c1"), ("a", "c2")]


def test_a_query_without_windows_is_evaluated_when_what_is_held_changes(tmp_path: Path) -> None:
    source = PretendedSource(*CITIES)
    with opened(tmp_path, sources=[source]) as service:
        service.register(f"PREFIX : <{EX}> REGISTER RSTREAM all AS SELECT ?c {{ ?z :partOf ?c }}")
        until(lambda: len(emissions_of(service, "all")) == 1, "its first answer")
        source.change("INSERT DATA { :z3 :partOf :c3 . :z3 :pays :c4 }")
        service.refresh_source("main", "evaluated")
        assert [values(each) for each in emissions_of(service, "all")] == [
            [("c1",), ("c2",)],
            [("c1",), ("c2",), ("c3",)],
        ]
        service.update(f"INSERT DATA {{ <{EX}z3> <{EX}partOf> <{EX}c3> }}", "evaluated")  # it is there already
        assert len(emissions_of(service, "all")) == 2
        source.change("DELETE DATA { :z3 :partOf :c3 }")
        service.refresh_source("main", "evaluated")
        assert len(emissions_of(service, "all")) == 2  # our own store has it


def test_a_store_whose_source_is_not_attached_continues_with_what_is_held(tmp_path: Path) -> None:
    with opened(tmp_path, sources=[PretendedSource(*CITIES)]) as service:
        service.register(near())
    service = open_service(tmp_path)
    try:
        push(service, "taxis", 1_500, triple("a", "z1", "in"))
        push(service, "taxis", 2_500, triple("b", "z9", "in"))
        assert rows(service) == [("a", "c1")]
    finally:
        service.close()


def test_explain_says_what_of_a_registered_query_is_held_and_how_much(tmp_path: Path) -> None:
    source = PretendedSource(*CITIES, f"<{EX}z1> <{EX}pays> <{EX}f> <{EX}g> .", held_max=2)
    pattern = "?z :partOf :c1 GRAPH ?g { ?z :pays ?f } OPTIONAL { ?z ?any ?o }"
    with opened(tmp_path, sources=[source]) as service:
        service.register(near())
        assert service.explain(near(pattern=pattern))["sources"] == [
            {"source": "main", "pattern": "?s ?p ?o", "way": "held", "quads": 2},
            {"source": "main", "pattern": f"?s <{EX}partOf> ?o", "way": "held", "quads": 2},
            {"source": "main", "pattern": f"GRAPH ?g {{ ?s <{EX}pays> ?o }}", "way": "held", "quads": 1},
        ]
        assert service.source_status("main")["groups"] == [
            {"pattern": f"?s <{EX}partOf> ?o", "way": "held", "quads": 2}
        ]
        source.change("INSERT DATA { :z4 :near :z5 }")
        assert service.explain(near(pattern=pattern))["sources"][0]["way"] == "asked"
        assert service.explain(near(pattern="?z (:partOf|:near|:pays)+ ?o"))["sources"][1]["way"] == "held"
        source.change("INSERT DATA { :z4 :partOf :z5 }")
        assert service.explain(near("more", pattern="?z (:near|:other|!:p)+ ?o"))["sources"][0]["way"] == "asked"
        graphs = "GRAPH ?g { SELECT ?z { ?z :partOf ?o } LIMIT 1 }"
        source.change("INSERT DATA { GRAPH :g { :z4 :partOf :z5, :z6, :z7 } }")
        assert service.explain(near("more", pattern=graphs))["sources"][0]["way"] == "refused"


def test_a_change_that_is_known_is_held_without_asking(tmp_path: Path) -> None:
    source = PretendedSource(*CITIES).with_traits(stable_blanks=True)
    with opened(tmp_path, sources=[source]) as service:
        service.register(near(pattern="?z :partOf/:partOf ?c"))
        push(service, "taxis", 1_500, triple("a", "z3", "in"))
        asked, part_of = len(source.asked), b"<http://ex/partOf>"
        node = (b"_:x", part_of, b"<http://ex/c3>", b"")
        service.source_changed([(b"<http://ex/z3>", part_of, b"_:x", b""), node], [])
        push(service, "taxis", 2_500, triple("b", "z9", "in"))
        assert rows(service) == [("a", "c3")] and len(source.asked) == asked
        service.source_changed([], [node])
        push(service, "taxis", 3_500, triple("b", "z9", "in"))
        assert rows(service) == []
        service.source_changed([(b"<http://ex/z3>", b"<http://ex/pays>", b"<http://ex/f>", b"")], [])
        assert service.source_status("main")["held"] == 3  # nobody needs it
        service.refresh_source("main")
        assert service.source_status("main")["held"] == 2  # what was told has not happened


def test_what_a_dropped_query_needed_is_released_also_where_only_changes_are_fetched(tmp_path: Path) -> None:
    clock = ManualClock(1_000_000)
    stamp = '"2026-01-01T00:00:00Z"^^<http://www.w3.org/2001/XMLSchema#dateTime>'
    lines = (*CITIES, f"<{EX}z1> <{EX}pays> <{EX}f> .", f"<{EX}z1> <{EX}modified> {stamp} .")
    source = PretendedSource(*lines, changed=f"{EX}modified", refresh_s=10.0)
    with opened(tmp_path, clock, sources=[source]) as service:
        service.register(near())
        service.register(near("fares", "?z :pays ?c"))
        clock.advance(10_000)
        until(lambda: service.source_status("main")["lag_ms"] == 0, "it is refreshed")
        assert service.source_status("main")["held"] == 3
        service.drop_query("fares")
        clock.advance(10_000)
        until(lambda: service.source_status("main")["held"] == 2, "it is released")


def test_many_registrations_wait_for_one_fetch_each_at_most(tmp_path: Path) -> None:
    source = PretendedSource(*CITIES)
    with opened(tmp_path, sources=[source]) as service:
        texts = [near(f"q{i}", f"?z :partOf :c{i}", select="?t") for i in range(50)]
        assert [created for _, created, _ in service.register_all(texts)] == [True] * 50
        assert len(source.asked) <= 6
        assert service.source_status("main")["groups"] == [
            {"pattern": f"?s <{EX}partOf> ?o", "way": "held", "quads": 2}
        ]


def test_a_source_that_keeps_us_waiting_holds_up_nobody_else(tmp_path: Path) -> None:
    source, asked, goes_on = PretendedSource(*CITIES), threading.Event(), threading.Event()

    def drip(text: str, found: list[dict[str, bytes]]) -> list[dict[str, bytes]]:
        asked.set()
        goes_on.wait(30)
        return found

    with opened(tmp_path, sources=[source]) as service:
        service.register(near())
        source.spoil = drip
        waiting = threading.Thread(target=service.refresh_source, args=("main",))
        waiting.start()
        assert asked.wait(30)
        service.update(f"INSERT DATA {{ <{EX}a> <{EX}b> <{EX}c> }}")  # nobody else waits
        push(service, "taxis", 1_500, triple("a", "z1", "in"))
        push(service, "taxis", 2_500, triple("b", "z9", "in"))
        assert rows(service) == [("a", "c1")]
        goes_on.set()
        waiting.join(30)


def test_what_a_query_needs_by_itself_is_held_where_its_template_would_need_far_more(tmp_path: Path) -> None:
    others = [f"<{EX}x{i}> <{EX}is> <{EX}other> ." for i in range(10_050)]
    source = PretendedSource(*others, *(f"<{EX}z{i}> <{EX}is> <{EX}c{i % 20}> ." for i in range(40)))
    with opened(tmp_path, sources=[source]) as service:
        service.register(near("q0", "?z :is :c0", select="?t"))
        assert service.source_status("main")["groups"] == [
            {"pattern": f"?s <{EX}is> <{EX}c0>", "way": "held", "quads": 2}
        ]
        for number in range(1, 16):
            service.register(near(f"q{number}", f"?z :is :c{number}", select="?t"))
        assert service.source_status("main")["held"] == 32
        service.register(near("q16", "?z :is :c16", select="?t"))  # so many: they share what all of them may need
        assert service.source_status("main")["groups"] == [
            {"pattern": f"?s <{EX}is> ?o", "way": "held", "quads": 10_090}
        ]
        push(service, "taxis", 1_500, *(triple("a", f"z{i}", "in") for i in range(20)))
        push(service, "taxis", 2_500, triple("b", "z1", "in"))
        assert rows(service, "q3") == rows(service, "q16") == [("a",)]
        for number in range(16):
            service.drop_query(f"q{number}")
        service.refresh_source("main")
        assert service.source_status("main")["held"] == 10_090


@pytest.mark.parametrize("service", ["<bio>", "<http://pretended/bio>", "<http://rillet/sources/bio>"])
def test_a_registered_query_asks_a_named_source_by_service(tmp_path: Path, service: str) -> None:
    bio = PretendedSource(f'<{EX}c1> <{EX}named> "Bern" .', name="bio")
    clock = ManualClock(1_000_000)
    with opened(tmp_path, clock, sources=[PretendedSource(*CITIES), bio]) as opened_service:
        pattern = f"?z :partOf ?c SERVICE {service} {{ ?c :named ?n }}"
        opened_service.register(near(pattern=pattern, select="?t ?n"))
        push(opened_service, "taxis", 1_500, triple("a", "z1", "in"), triple("b", "z2", "in"))
        push(opened_service, "taxis", 2_500, triple("c", "z9", "in"))
        assert rows(opened_service) == [("a", "Bern")]
        assert len(bio.asked) == 1
        emission = emissions_of(opened_service, "near")[-1]
        assert opened_service.emission_again("near", emission["emission"]) == (
            opened_service.emissions("near", emission["emission"] - 1, 1)[0].json
        )


def test_a_query_that_asks_a_source_stays_in_the_process_that_has_it(tmp_path: Path) -> None:
    bio = PretendedSource(f'<{EX}c1> <{EX}named> "Bern" .', name="bio")
    spark = SparkSettings(epoch_s=0.2, warmup_epochs=1, driver_module=DRIVER)
    with opened(
        tmp_path, SystemClock(), sources=[PretendedSource(*CITIES), bio], engine="spark", spark=spark
    ) as service:
        assert service._engine.spark is not None and service._engine.spark.wait_for("up", PATIENCE_S)
        service.register(near(pattern="?z :partOf ?c SERVICE <bio> { ?c :named ?n }", select="?t ?n"))
        service.register(near("other"))
        push(service, "taxis", 1_500, triple("a", "z1", "in"), triple("b", "z2", "in"))
        push(service, "taxis", 2_500, triple("c", "z9", "in"))
        assert rows(service) == [("a", "Bern")] and rows(service, "other") == [("a", "c1"), ("b", "c2")]
        assert service.query_definition("near").home == "inline" and service.query_definition("other").home is None


def test_neither_a_dump_nor_rdflib_sees_what_is_held(tmp_path: Path) -> None:
    with opened(tmp_path, sources=[PretendedSource(*CITIES)]) as service:
        service.register(near(pattern="?z :partOf ?c GRAPH ?g { ?z :partOf ?d }"))
        assert service.source_status("main")["held"] == 2
    url = f"lmdb:{tmp_path / 'store'}"
    with of_store(url, None, None) as lines:
        assert list(lines.pieces) == []
    store = RilletStore()
    store.open(url)
    try:
        assert list(store.triples((None, None, None), None)) == [] and list(store.contexts()) == []
    finally:
        store.close()


def test_an_answer_that_does_not_end_is_not_read_into_memory(tmp_path: Path) -> None:
    source = PretendedSource(*CITIES)
    sent = 0

    whole = source.select

    def select(text: str, control: Control) -> Iterator[list[Solution]]:
        nonlocal sent
        if "COUNT" in text:
            yield from whole(text, control)
            return
        while True:
            sent += 1_000
            yield [{"s": b"<http://ex/z1>", "p": f"<{EX}partOf>".encode(), "o": b'"%d"' % n} for n in range(1_000)]

    source.select = select  # type: ignore[method-assign]
    with opened(tmp_path, sources=[source]) as service:
        with pytest.raises(SourceFailed, match="its answer does not end: at most 10,004"):
            service.register(near())
        assert sent <= 12_000
