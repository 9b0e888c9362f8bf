"""Registration: names, streams that come with a query, answers, and what dropping leaves."""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from stream_ext.catalog.catalog import generated_name
from stream_ext.clock import ManualClock
from stream_ext.errors import BadArgument, NameInUse, NotFound, QuerySyntaxError, TooLarge, Unsupported
from stream_ext.service.service import Limits, Service
from tests.stream_ext.opened import BASE, EX, Reader, emissions_of, opened, push, registration, times, triple, values
from tests.stream_ext.writer.test_updates_together import at_once

FROM_S = "FROM NAMED WINDOW <urn:w> ON s [RANGE 1s] { WINDOW <urn:w> { ?x <urn:p> ?y } }"


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    with opened(tmp_path) as service:
        yield service


# ---- streams -------------------------------------------------------------------------------------------------


def test_a_stream_answers_to_its_name_and_its_iri(service: Service) -> None:
    made, created = service.create_stream("rooms", {})
    assert created
    assert (made.name, made.iri) == ("rooms", BASE + "streams/rooms")
    own, _ = service.create_stream("halls", {"iri": EX + "halls"})
    assert service.stream(EX + "halls") == service.stream("halls") == own
    by_iri, _ = service.create_stream(EX + "doors", {})
    assert (by_iri.name, by_iri.iri) == (EX + "doors", EX + "doors")
    addressed, _ = service.create_stream(BASE + "streams/windows", {})
    assert service.stream("windows") == addressed
    with pytest.raises(
        NotFound, match=r"no stream 'attic'; there are .*; CREATE STREAM attic creates it, or PUT /streams/attic"
    ):
        service.stream("attic")
    with pytest.raises(
        NotFound, match=r"no stream 'rooom' \(did you mean 'rooms'\?\); there .*; CREATE STREAM rooom creates it"
    ):
        service.stream("rooom")


def test_the_same_stream_again_is_no_error_and_other_options_are(service: Service) -> None:
    made, _ = service.create_stream("s", {"lateness": "5s"})
    assert service.create_stream("s", {"lateness": 5000}) == (made, False)
    assert service.create_stream(made.iri, {"lateness": "PT5S"}) == (made, False)
    with pytest.raises(NameInUse, match="other options"):
        service.create_stream("s", {})
    with pytest.raises(NameInUse, match=r'other options \("timeless": true requested, false in use\): drop it'):
        service.create_stream("s", {"lateness": "5s", "timeless": True})
    differing = '"graph": "http://ex/g" requested, null in use; "lateness": 0 requested, 5000 in use'
    with pytest.raises(NameInUse, match=differing):
        service.create_stream("s", {"graph": "http://ex/g"})
    with pytest.raises(NameInUse, match="the IRI"):
        service.create_stream("s", {"lateness": "5s", "iri": EX + "s"})
    with pytest.raises(NameInUse, match="is also a name of stream 's'"):
        service.create_stream("t", {"iri": made.iri})


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"colour": "red"}, "unknown stream option 'colour'; the options are iri, timeless, graph, time, lateness"),
        ({"lateness": "soon"}, "'soon' is not a duration"),
        ({"lateness": True}, "true is not a duration"),
        ({"lateness": -1}, "is not a duration"),
        ({"lateness": "PT0.0001S"}, "whole milliseconds"),
        ({"lateness": 2**53 + 1}, "is longer than"),
        ({"retention": "1" + "0" * 30 + "d"}, "is longer than"),
        ({"timeless": "yes"}, "neither true nor false"),
        ({"timeless": ["p"]}, "'p' is not an absolute IRI"),
        ({"graph": "g"}, "not an absolute IRI"),
        ({"idle": "never"}, "is not a duration"),
        ({"idle": 0}, "would make the stream idle at once"),
    ],
)
def test_an_option_that_is_not_understood_is_refused_by_name(
    service: Service, options: dict[str, object], why: str
) -> None:
    with pytest.raises(BadArgument, match=why):
        service.create_stream("s", options)
    assert service.streams() == []


@pytest.mark.parametrize(
    ("written", "ms"),
    [(250, 250), ("5s", 5000), ("2 min", 120000), ("1h", 3600000), ("PT1.5S", 1500), ("P1D", 86400000)],
)
def test_durations_are_written_in_many_ways(service: Service, written: object, ms: int) -> None:
    assert service.create_stream("s", {"lateness": written})[0].options.lateness_ms == ms


def test_a_stream_that_is_read_cannot_be_dropped(service: Service) -> None:
    service.register(registration("reader"))
    with pytest.raises(NameInUse, match="read by 'reader'"):
        service.drop_stream("s")
    push(service, "s", 1, triple("a", 1))
    service.drop_query("reader")
    service.drop_stream("s")
    assert service.streams() == []


def test_a_stream_created_anew_is_empty_and_has_no_time(service: Service) -> None:
    service.create_stream("s", {})
    push(service, "s", 50_000, triple("a", 1))
    service.drop_stream("s")
    with pytest.raises(NotFound):
        push(service, "s", 1, triple("a", 1))
    service.create_stream("s", {})
    service.register(registration(window="RANGE PT1S STEP PT1S"))
    assert push(service, "s", None, triple("b", 2)).batch == 1
    assert service.query_status("q")["emissions"] == 0


# ---- queries -------------------------------------------------------------------------------------------------


def test_registering_makes_the_streams_that_are_missing_and_says_so(service: Service) -> None:
    head = service.head()
    definition, created, warnings = service.register(registration())
    assert created
    assert (definition.name, definition.iri, definition.r2s) == ("q", BASE + "queries/q", "RSTREAM")
    assert [stream.name for stream in service.streams()] == ["s"]
    assert len(warnings) == 1
    assert "stream 's' did not exist: it was created with the default options" in warnings[0]
    assert service.head() == head + 1 == definition.registered_sn, "both in one snapshot"
    assert service.register(registration("q2"))[2] == []


def test_a_name_in_use_is_free_for_the_same_text_only(service: Service) -> None:
    definition, _, _ = service.register(registration())
    head = service.head()
    assert service.register(registration()) == (definition, False, [])
    assert service.register(registration() + "\n")[0] == definition, "a file has an end of line that a shell takes away"
    assert service.head() == head
    with pytest.raises(NameInUse, match="another text"):
        service.register(registration(pattern="?x :other ?y"))


def test_a_query_is_replaced_in_one_snapshot(service: Service) -> None:
    """What the new query emits is what a query of another name, registered at the same time, emits."""
    old, _, _ = service.register(registration(window="RANGE PT5S STEP PT1S"))
    push(service, "s", 1_500, triple("a", 1), wait="evaluated")
    push(service, "s", 3_500, triple("b", 2), wait="evaluated")
    head, text = service.head(), registration(window="RANGE PT4S STEP PT2S")
    new, created, warnings = service.register(text, replaces=True)
    service.register(registration("other", window="RANGE PT4S STEP PT2S"))
    assert created
    assert (new.name, new.registered_sn, service.head()) == (old.name, head + 1, head + 2)
    assert new.number != old.number
    assert warnings == [], "the stream that came with the old query stays"
    push(service, "s", 6_500, triple("c", 3), wait="evaluated")
    found, beside = emissions_of(service), emissions_of(service, "other")
    assert [emission["emission"] for emission in found] == [1, 2]
    assert [times([emission]) + values(emission) for emission in found] == [
        times([emission]) + values(emission) for emission in beside
    ]
    assert times(found) == [4_000, 6_000]
    assert service.register(text, replaces=True) == (new, False, []), "the same text again changes nothing"


def test_a_replacement_that_is_refused_leaves_the_query_as_it_is(service: Service) -> None:
    service.register("REGISTER STREAM made AS CONSTRUCT { ?x <urn:p> ?y } " + FROM_S)
    service.register(registration("reader", stream="made"))
    before = [query.text for query in service.queries()]
    with pytest.raises(NameInUse, match="stream 'made' is read by 'reader': drop these queries first"):
        service.register("REGISTER STREAM made AS CONSTRUCT { ?x <urn:q> ?y } " + FROM_S, replaces=True)
    with pytest.raises(BadArgument, match="its own output"):
        service.register(
            "REGISTER STREAM reader AS CONSTRUCT { ?x <urn:q> ?y } " + FROM_S.replace("ON s", "ON reader"),
            replaces=True,
        )
    assert [query.text for query in service.queries()] == before


def test_a_replaced_query_ends_its_subscriptions_and_the_streams_that_nobody_reads_now(service: Service) -> None:
    service.register(registration("q", stream="old"))
    subscription = service.subscribe("q", 0, lambda: None)
    service.register(registration("q", stream="new"), replaces=True)
    assert subscription.ended
    assert [stream.name for stream in service.streams()] == ["new"]


def test_replacements_that_wait_at_the_same_time_are_made_one_after_the_other(service: Service) -> None:
    """Each ends the query before it, and the stream that came with that one."""
    texts = [registration("q", stream=f"of_{number}") for number in range(4)]
    outcomes = at_once(service, *(partial(service.register, text, replaces=True) for text in texts))
    assert [outcome[1] for outcome in outcomes if not isinstance(outcome, Exception)] == [True] * 4
    assert [query.text for query in service.queries()] == texts[-1:]
    assert [stream.name for stream in service.streams()] == ["of_3"]
    push(service, "of_3", 1500, triple("a", 1))
    push(service, "of_3", 2500, triple("a", 2), wait="evaluated")
    assert times(emissions_of(service)) == [2000], "the writer goes on"


def test_a_query_without_a_name_is_given_one(service: Service) -> None:
    text = registration().replace("REGISTER RSTREAM q AS ", "")
    service.register(registration("q1", window="RANGE PT9S"))
    assert service.register(text)[0].name == "q2"
    assert service.register(text)[0].name == "q3"
    service.drop_query("q2")
    assert service.register(text)[0].name == "q2"


def test_a_query_answers_to_its_name_and_its_iri(service: Service) -> None:
    named, _, _ = service.register(registration(":out"))
    assert (named.name, named.iri) == (EX + "out", EX + "out")
    assert service.query_status(EX + "out")["query"] == EX + "out"
    service.register(registration(f"<{BASE}queries/local>"))
    assert service.query_status("local")["iri"] == BASE + "queries/local"
    assert service.query_status(BASE + "queries/local")["query"] == "local"
    with pytest.raises(NotFound, match=r"no registered query 'absent'; there are .*; SHOW QUERIES lists them"):
        service.query_status("absent")
    with pytest.raises(NotFound, match="no registered query 's': it is a stream"):
        service.query_status("s")


def test_the_path_and_the_text_must_name_the_same_query(service: Service) -> None:
    with pytest.raises(BadArgument, match="registers 'q', but the path names 'r'"):
        service.register(registration("q"), name="r")
    assert service.register(registration("q"), name=BASE + "queries/q")[1]
    bare = registration().replace("REGISTER RSTREAM q AS ", "")
    assert service.register(bare, name="mine")[0].name == "mine"


@pytest.mark.parametrize(
    ("select", "pattern", "names"),
    [
        ("?x", "?x <urn:p> ?y", []),
        ("?z", "?x <urn:p> ?y", ["?z"]),
        ("*", "?x <urn:p> ?y FILTER (?Y > 3)", ["?Y"]),
        ("(COUNT(?x) AS ?n) (MAX(?v) AS ?m)", "?x <urn:p> ?y", ["?v"]),
        ("?n", "SELECT (COUNT(?x) AS ?n) { ?x <urn:p> ?y } GROUP BY ?q", ["?q"]),
        ("?x ?b ?u ?g", "?x <urn:p>+ ?y BIND (1 AS ?b) VALUES ?u { 1 } GRAPH ?g { [] ?q [] }", []),
        ("?x", "?x <urn:p> ?y FILTER NOT EXISTS { ?x <urn:q> ?z FILTER (?z > ?y && ?zz) }", ["?zz"]),
    ],
)
def test_a_variable_without_a_value_is_warned_of(select: str, pattern: str, names: list[str], service: Service) -> None:
    text = f"SELECT {select} FROM NAMED WINDOW <urn:w> ON s [RANGE 1s] {{ WINDOW <urn:w> {{ {pattern} }} }}"
    service.create_stream("s", {})
    warnings = service.register(text, name="q")[2]
    assert warnings == [f"{name} is never bound in this text, so it never has a value" for name in names]
    assert service.explain(text).get("warnings", []) == warnings


@pytest.mark.parametrize(
    ("window", "numbers"),
    [
        ("RANGE 10 STEP 1", ["RANGE 10", "STEP 1"]),
        ("RANGE 1h 30 SLIDE 2s", ["RANGE 30"]),
        ("TUMBLING 60000", ["TUMBLING 60000"]),
        ("RANGE 10s STEP 1000 ms LATENESS 0 T0 5", []),
    ],
)
def test_a_length_without_a_unit_is_warned_of(service: Service, window: str, numbers: list[str]) -> None:
    warnings = service.explain(registration(window=window)).get("warnings", [])
    assert [warning.partition(" has no unit")[0] for warning in warnings] == numbers
    if "RANGE 10" in numbers:
        warnings = service.register(registration(window=window))[2]
        assert "RANGE 10 has no unit, which means milliseconds: write 10s if seconds are meant, or 10ms" in warnings


def test_a_stream_that_was_probably_mistyped_is_warned_of(service: Service) -> None:
    service.create_stream("climate", {})
    warnings = service.register(registration(stream="climte"), name="q")[2]
    assert warnings[0].startswith("stream 'climte' did not exist (did you mean 'climate'?): it was created")


def test_a_window_over_what_a_select_says_is_warned_of(service: Service) -> None:
    service.create_stream("s", {})
    service.register(registration("hot"))
    warnings = service.register(registration("alarms", stream="hot"))[2]
    assert warnings[0].startswith(
        "stream 'hot' did not exist ('hot' is a query, but only the output of a CONSTRUCT is a stream): it was created"
    )


def test_variables_of_templates_and_streams_count_too(service: Service) -> None:
    window = "FROM NAMED WINDOW <urn:w> ON ?s [RANGE 1s] { WINDOW <urn:w> { ?x <urn:p> ?y } }"
    assert service.register(f"SELECT ?s ?x {window}", name="q")[2] == []
    warnings = service.explain(f"CONSTRUCT {{ ?x <urn:at> ?s ; <urn:of> ?yy }} {window}")["warnings"]
    assert warnings == ["?yy is never bound in this text, so it never has a value"]


def test_a_window_that_nothing_reads_is_warned_of(service: Service) -> None:
    service.create_stream("s", {})
    windows = "FROM NAMED WINDOW <urn:w> ON s [RANGE 1s] FROM NAMED WINDOW <urn:v> ON s [RANGE 2s]"
    warnings = service.register(f"SELECT ?x {windows} {{ WINDOW <urn:v> {{ ?x ?p ?o }} }}", name="q")[2]
    assert warnings == ["no pattern reads the window <urn:w>; WINDOW <urn:w> { ... } would read it"]
    assert service.query_status("q")["streams"] == ["s"], "two windows, one stream"
    assert "warnings" not in service.explain(f"SELECT ?x {windows} {{ WINDOW ?any {{ ?x ?p ?o }} }}")


def test_what_cannot_be_registered_is_refused_and_leaves_nothing(service: Service) -> None:
    head = service.head()
    with pytest.raises(QuerySyntaxError):
        service.register("REGISTER RSTREAM q AS SELECT")
    with pytest.raises(BadArgument, match="an update cannot be registered"):
        service.register(f"INSERT DATA {{ {triple('a', 1)} }}")
    for asked in ("EXPLAIN REGISTER RSTREAM q AS SELECT * { ?s ?p ?o }", "SHOW QUERIES"):
        with pytest.raises(BadArgument, match="register nothing: send the text to /sparql"):
            service.register(asked)
    with pytest.raises(BadArgument, match="the text is empty"):
        service.register(" # nothing\n")
    with pytest.raises(Unsupported, match="BOUNDS of a window"):
        service.register(registration(window="NOW BOUNDS []"))
    assert (service.head(), service.streams(), service.queries()) == (head, [], [])


def test_a_name_that_is_made_is_free_and_found_soon() -> None:
    chance = random.Random(3)
    for count in (0, 1, 2, 3, 1_000, 100_000):
        names = Asked(f"q{number}" for number in range(1, count + 1))
        assert generated_name(names.taken) == f"q{count + 1}"
        assert names.times < 40
        fewer = Asked(chance.sample(sorted(names), count // 2))
        assert generated_name(fewer.taken) not in fewer


class Asked(set[str]):
    """Names that are taken, and how often somebody has asked."""

    times = 0

    def taken(self, name: str) -> bool:
        self.times += 1
        return name in self


def test_no_more_queries_than_the_limit(tmp_path: Path) -> None:
    with opened(tmp_path, limits=Limits(queries=1)) as service:
        service.register(registration("a"))
        with pytest.raises(TooLarge, match="the limit"):
            service.register(registration("b"))


def test_many_that_come_at_once_are_few_snapshots_and_say_what_they_say_one_by_one(tmp_path: Path) -> None:
    texts = [registration(f"q{n}", pattern=f"?x :p :n{n % 7} . ?x :p ?y") for n in range(300)]
    observed = []
    for is_one_call in (True, False):
        with opened(tmp_path / str(is_one_call)) as service:
            head = service.head()
            many = service.register_all(texts) if is_one_call else map(service.register, texts)
            registered = [(found.name, found.number, created, warnings) for found, created, warnings in many]
            assert (service.head() - head < 100) == is_one_call
            push(service, "s", 500, triple("a", "n1"), triple("b", "n2"), triple("a", "n5"))
            push(service, "s", 2500, triple("b", "n3"))
            said_by = {
                name: [(e["time"], e["emission"], values(e)) for e in emissions_of(service, name)]
                for name, *_ in registered
            }
            observed.append((registered, said_by, [query.name for query in service.queries()]))
    assert observed[0] == observed[1]


def test_one_that_is_refused_among_many_leaves_the_others(service: Service) -> None:
    service.create_stream("s", {})
    many = service.register_all([registration("a"), registration("b"), registration("a", pattern="?y :q ?x")])
    with pytest.raises(NameInUse):
        list(many)
    assert sorted(query.name for query in service.queries()) == ["a", "b"]
    (again,) = service.register_all([registration("b")])
    assert again[1] is False, "it is there already"


def test_a_dropped_query_ends_and_a_new_one_of_that_name_starts_at_one(service: Service) -> None:
    service.register(registration())
    push(service, "s", 1500, triple("a", 1))
    push(service, "s", 4500, triple("a", 2))
    assert [e["emission"] for e in emissions_of(service)] == [1, 2, 3]
    reader = Reader(service, "q", since=3)
    service.drop_query("q")
    assert reader.read_to(4) == []
    assert reader.subscription.ended
    with pytest.raises(NotFound):
        service.emissions("q")
    service.register(registration())
    push(service, "s", 5500, triple("a", 3))
    emissions = emissions_of(service)
    assert [e["emission"] for e in emissions] == [1]
    assert times(emissions) == [5000], "4000 was reached at registration"
    assert values(emissions[0]) == [("a", "2")], "its windows hold what came before, too"


def test_the_latest_answer_is_the_whole_answer_whatever_is_emitted(service: Service) -> None:
    for r2s in ("RSTREAM", "ISTREAM"):
        service.register(registration(r2s.lower(), r2s=r2s))
        answer = service.latest(r2s.lower())
        assert (answer.variables, service.decode(answer), answer.boolean) == (("x", "y"), [], None)
    push(service, "s", 100, triple("a", "one"))
    push(service, "s", 1100, triple("b", "two"))
    push(service, "s", 2100, triple("c", "three"))
    for name in ("rstream", "istream"):
        rows = service.decode(service.latest(name))
        assert sorted(str(row[0]) for row in rows) == ["b'<http://ex/a>'", "b'<http://ex/b>'"], name
    assert [values(e) for e in emissions_of(service, "istream")] == [[("a", "one")], [("b", "two")]]


def test_the_latest_answer_is_cut_as_the_emissions_were(service: Service) -> None:
    service.create_stream("s", {})
    service.update(f"INSERT DATA {{ <{EX}first> <{EX}is> <{EX}known> }}")  # so that it has the lower id
    service.register(registration(r2s="ISTREAM", select="SELECT ?x") + " LIMIT 1")
    push(service, "s", 100, triple("second", "b"))
    push(service, "s", 1100, triple("first", "b"))
    service.heartbeat("s", 2100, "evaluated")
    assert [values(emission) for emission in emissions_of(service)] == [[("second",)], []]
    assert service.decode(service.latest("q")) == [(f"<{EX}second>".encode(),)]


def test_an_ask_says_true_or_false(service: Service) -> None:
    service.register(registration(select="ASK", window="RANGE PT1S STEP PT1S"))
    assert service.latest("q").boolean is False
    push(service, "s", 100, triple("a", 1))
    push(service, "s", 2100, triple("a", 1, "other"))
    assert [e["boolean"] for e in emissions_of(service)] == [True, False]
    assert "results" not in emissions_of(service)[0]
    assert service.latest("q").boolean is False


def test_a_query_joins_the_store_as_it_is_when_its_window_closes(service: Service) -> None:
    service.register(registration(pattern="?x :p ?z", select="SELECT ?x ?y").replace("} }", "} ?x :label ?y }"))
    service.update(f"INSERT DATA {{ {triple('a', 'old', 'label')} }}")
    push(service, "s", 100, triple("a", 1))
    push(service, "s", 1100, triple("b", 1))
    service.update(
        f"DELETE DATA {{ {triple('a', 'old', 'label')} }} ; INSERT DATA {{ {triple('a', 'new', 'label')} }}",
        wait="evaluated",
    )
    push(service, "s", 2100, triple("b", 1))
    assert [values(e) for e in emissions_of(service)] == [[("a", "old")], [("a", "new")]]


def test_status_says_what_a_query_waits_for(service: Service) -> None:
    text = (
        f"PREFIX : <{EX}> REGISTER RSTREAM q AS SELECT ?x ?y FROM NAMED WINDOW :w ON s [RANGE PT1S] "
        "FROM NAMED WINDOW :v ON t [RANGE PT1S] WHERE { WINDOW :w { ?x :p ?y } WINDOW :v { ?x :p ?y } }"
    )
    service.register(text)
    assert service.query_status("q")["waits_for"] == ["s", "t"]
    push(service, "s", 5000, triple("a", 1))
    status = service.query_status("q")
    assert status["waits_for"] == ["t"]
    assert (status["state"], status["runner"], status["emissions"], status["lag"]) == ("running", "inline", 0, 0)
    push(service, "t", 6000, triple("a", 1))
    assert service.query_status("q")["waits_for"] == ["s"]
    sn = service.heartbeat("s", 6000, wait="evaluated").snapshot
    assert service.query_status("q")["evaluated"] == {"time": 6000, "snapshot": sn}


def test_status_says_why_a_query_is_silent_when_all_its_streams_stand_still(tmp_path: Path) -> None:
    clock = ManualClock(1_000_000)
    with opened(tmp_path, clock) as service:
        service.create_stream("s", {})
        service.register(registration(window="RANGE 1s STEP 1s"))
        (before,) = service.query_status("q")["stream_times"]
        assert before["awaits"] == (
            "stream s: it has no time yet; no element has come yet; push elements or a heartbeat"
        )
        push(service, "s", 1_000, triple("a", 1))
        push(service, "s", 2_500, triple("b", 1))
        clock.advance(300_000)
        status = service.query_status("q")
        assert (status["waits_for"], status["lag"], status["state"]) == ([], 0, "running")
        assert (status["evaluated"]["time"], status["next_close"]) == (2_000, 3_000)
        assert status["stream_times"] == [
            {
                "stream": "s",
                "time": 2_500,
                "last_element_at": 1_000_000,
                "silent_ms": 300_000,
                "awaits": "stream s: its time is 2500, and the next close is at 3000; the last element came 5 min ago; "
                "push elements or a heartbeat",
                "stalled": True,
            }
        ]
        service.heartbeat("s", 3_000, wait="evaluated")
        after = service.query_status("q")
        assert (after["evaluated"]["time"], after["next_close"]) == (3_000, 4_000), "it waited for just that"
    with opened(tmp_path, clock) as service:
        assert service.query_status("q")["stream_times"] == after["stream_times"], "a restart forgets nothing"


def test_a_stream_that_had_heartbeats_only_has_had_no_element(service: Service) -> None:
    service.create_stream("hb", {})
    service.heartbeat("hb", 1_000)
    text = "SELECT ?s FROM NAMED WINDOW <w> ON STREAM hb [RANGE 1s STEP 1s] WHERE { WINDOW <w> { ?s ?p ?o } }"
    service.register(f"REGISTER RSTREAM q AS {text}")
    (stream,) = service.query_status("q")["stream_times"]
    assert "no element has come yet" in stream["awaits"] and stream["last_element_at"] is None


def test_of_two_streams_those_are_awaited_that_have_not_reached_the_next_close(service: Service) -> None:
    text = (
        f"PREFIX : <{EX}> REGISTER RSTREAM q AS SELECT ?x ?y FROM NAMED WINDOW :w ON s [RANGE PT1S] "
        "FROM NAMED WINDOW :v ON t [RANGE PT1S] WHERE { WINDOW :w { ?x :p ?y } WINDOW :v { ?x :p ?y } }"
    )
    service.register(text)
    push(service, "s", 5000, triple("a", 1))
    push(service, "t", 5000, triple("a", 1))
    status = service.query_status("q")
    assert (status["waits_for"], status["next_close"]) == ([], 6000)
    assert [bool(each["awaits"]) for each in status["stream_times"]] == [True, True]
    assert status["stream_times"][0]["awaits"].endswith("or a heartbeat, or give the stream the option idle")
    push(service, "s", 6000, triple("a", 1))
    status = service.query_status("q")
    assert status["waits_for"] == ["t"]
    assert [bool(each["awaits"]) for each in status["stream_times"]] == [False, True]


# ---- one-shot questions, updates, EXPLAIN --------------------------------------------------------------------


def test_updates_are_snapshots_and_questions_may_look_back(service: Service) -> None:
    first = service.update(f"INSERT DATA {{ {triple('a', 1)} GRAPH <{EX}g> {{ {triple('g', 1)} }} }}").snapshot
    second = service.update(f"DELETE DATA {{ {triple('a', 1)} }} ; INSERT DATA {{ {triple('b', 2)} }}").snapshot
    assert second == first + 1
    text = f"SELECT ?s WHERE {{ ?s <{EX}p> ?o }}"
    assert service.decode(service.query(text)) == [(b"<http://ex/b>",)]
    assert service.decode(service.query(text, snapshot=first)) == [(b"<http://ex/a>",)]
    assert service.query(f"ASK {{ GRAPH <{EX}g> {{ ?s ?p ?o }} }}").boolean is True


def test_the_last_operation_on_a_quad_wins_within_an_update(service: Service) -> None:
    service.update(f"INSERT DATA {{ {triple('a', 1)} }} ; DELETE DATA {{ {triple('a', 1)} }}")
    assert service.query("ASK { ?s ?p ?o }").boolean is False
    service.update(f"DELETE DATA {{ {triple('a', 1)} }} ; INSERT DATA {{ {triple('a', 1)} }}")
    assert service.query("ASK { ?s ?p ?o }").boolean is True


def test_a_blank_label_of_an_update_is_fresh_in_each_request(service: Service) -> None:
    for _ in range(2):
        service.update(f"INSERT DATA {{ _:x <{EX}p> <{EX}y> . _:x <{EX}q> <{EX}y> }}")
    rows = service.decode(service.query(f"SELECT ?x WHERE {{ ?x <{EX}p> ?y . ?x <{EX}q> ?y }}"))
    assert len(set(rows)) == 2


def test_a_windowed_question_needs_a_time(service: Service) -> None:
    service.create_stream("s", {})
    push(service, "s", 100, triple("a", 1))
    text = registration().replace("REGISTER RSTREAM q AS ", "")
    with pytest.raises(BadArgument, match="or give a time"):
        service.query(text)
    assert service.decode(service.query(text, at=1000))[0][0] == b"<http://ex/a>"
    assert service.decode(service.query(text, at=9000)) == []


def test_a_windowed_question_about_the_past_means_the_streams_of_the_past(service: Service) -> None:
    service.create_stream("s", {})
    snapshot = push(service, "s", 100, triple("a", "b")).snapshot
    service.drop_stream("s")
    question = f"SELECT ?x FROM NAMED WINDOW <urn:w> ON s [RANGE 1s] {{ WINDOW <urn:w> {{ ?x <{EX}p> ?y }} }}"
    assert len(service.decode(service.query(question, snapshot=snapshot, at=1000))) == 1
    with pytest.raises(NotFound):
        service.query(question, at=1000)
    service.create_stream("s", {})
    assert len(service.decode(service.query(question, snapshot=snapshot, at=1000))) == 1
    assert service.decode(service.query(question, at=1000)) == []


def test_texts_of_the_wrong_kind_are_refused_with_a_way_out(service: Service) -> None:
    with pytest.raises(BadArgument, match="this is an update"):
        service.query(f"INSERT DATA {{ {triple('a', 1)} }}")
    with pytest.raises(BadArgument, match="cannot be evaluated once"):
        service.query(registration())
    with pytest.raises(BadArgument, match="this is a query, not an update"):
        service.update("ASK { ?s ?p ?o }")


def test_explain_says_the_policy_in_force_and_makes_nothing(service: Service) -> None:
    explained = service.explain(registration(window="RANGE PT3S"))
    window = explained["windows"][0]
    assert {k: window[k] for k in ("stream", "range_ms", "step_ms", "count", "bounds", "t0", "report")} == {
        "stream": "s",
        "range_ms": 3000,
        "step_ms": 3000,
        "count": None,
        "bounds": "[)",
        "t0": 0,
        "report": ["WINDOW_CLOSE"],
    }
    assert window["origins"]["step_ms"] == "default"
    assert service.explain(f"INSERT DATA {{ {triple('a', 1)} }}")["operations"][0]["quads"] == 1
    assert (service.streams(), service.queries(), service.head()) == ([], [], 0)


def test_a_predicate_that_no_stored_triple_has_is_probably_mistyped(service: Service) -> None:
    service.update("PREFIX : <http://ex/> INSERT DATA { :z :partOf :bern . GRAPH :g { :z :pays 1 } }")

    def warned(pattern: str, name: str) -> list[str]:
        return service.register(registration(name, pattern=f"?x :p ?y }} {pattern} {{ "))[2]

    warned("", "reads_windows_only")
    assert warned("?y :partof ?z", "slip") == [
        "no stored triple has the predicate <http://ex/partof> yet (did you mean '<http://ex/partOf>'?)"
    ]
    assert len(warned("?y :partof+/:partOf ?z", "path")) == 1, "the constants of a query are no triples"
    assert warned("?y :partOf ?z GRAPH ?g { ?y :pays ?fare }", "right") == []
    service.update("PREFIX : <http://ex/> DELETE DATA { :z :partOf :bern }")
    assert len(warned("?y :partOf ?z", "deleted")) == 1
