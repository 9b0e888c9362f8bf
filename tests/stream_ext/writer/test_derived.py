"""What a registered CONSTRUCT says is a stream that other queries read, and a named graph that is asked once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from hbase_store import Batch
from hbase_store.errors import StoreUnavailable
from stream_ext.clock import ManualClock
from stream_ext.emissions.emission import Silence
from stream_ext.errors import BadArgument, DeadlineExceeded, NameInUse
from stream_ext.service.service import Limits, Service
from stream_ext.upkeep.retention import Retain
from stream_ext.windows.query_state import LastEvaluation
from tests.parts.waiting import until
from tests.stream_ext.opened import EX, Reader, emissions_of, open_service, opened, push, registration, triple, values

BUSY = registration("busy", window="RANGE 2s STEP 1s", select="CONSTRUCT { ?y :of ?x . ?x :in [ :is ?y ] }")
OVER = registration("over", stream="busy", window="RANGE 3s STEP 1s", pattern="?x :of ?y", select="SELECT ?x ?y")


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    with opened(tmp_path) as service:
        yield service


def observed(service: Service, name: str) -> list[tuple[int, list[tuple[str, ...]]]]:
    return [(emission["time"], values(emission)) for emission in emissions_of(service, name)]


def rows(service: Service, pattern: str, **named: int) -> list[tuple[str, ...]]:
    answer = service.query(f"PREFIX : <{EX}> SELECT * WHERE {{ {pattern} }}", **named)
    texts = [tuple("" if cell is None else cell.decode() for cell in row) for row in service.decode(answer)]
    return sorted(tuple(text.removeprefix(f"<{EX}").rstrip(">") for text in row) for row in texts)


def graph(service: Service) -> str:
    return f"<{service.query_definition('busy').iri}>"


# ---- as a stream


@pytest.mark.parametrize("restarts", [(), (1,), (2,), (0, 1, 2, 3)])
def test_each_emission_is_an_element_of_its_time_and_counts_once(restarts: tuple[int, ...], tmp_path: Path) -> None:
    service = open_service(tmp_path)
    service.register(BUSY)
    service.register(OVER)
    for turn, (time, names) in enumerate([(100, "a"), (1100, "b"), (2100, ""), (5000, "c")]):
        push(service, "s", time, *(triple(name, "here") for name in names), triple("x", "y", "other"))
        if turn in restarts:
            service.close()
            service = open_service(tmp_path)
    a, b = ("here", "a"), ("here", "b")
    # busy says {a} at 1000, {a, b} at 2000, {b} at 3000, {} at 4000 and at 5000
    assert [(e["time"], e["graph"].count("/of>")) for e in emissions_of(service, "busy")] == [
        (1000, 1),
        (2000, 2),
        (3000, 1),
        (4000, 0),
        (5000, 0),
    ]
    # and its elements are in [c-3000, c): the close at 2000 falls due when its time has come there
    assert observed(service, "over") == [(2000, [a]), (3000, [a, b]), (4000, [a, b]), (5000, [a, b])]
    status = service.stream_status("busy")
    assert (status["query"], status["time"], status["runs_by"]) == ("busy", 5000, "elements")
    assert service.query_status("busy")["stream"] == "busy"
    service.close()


def test_what_was_stored_and_not_pushed_when_the_server_died_is_pushed_at_the_next_start(tmp_path: Path) -> None:
    with opened(tmp_path) as service:
        service.register(BUSY)
        service.register(OVER)
        push(service, "s", 100, triple("a", "here"))
        service._engine.derived.emitted = lambda rows: None  # type: ignore[method-assign]  # as if it had died before it could
        push(service, "s", 1100, triple("b", "here"), wait="published")
        push(service, "s", 2100, triple("c", "here"), wait="published")
        service._engine.merge.wait(service.head(), 10)
        assert (len(emissions_of(service, "busy")), service.stream_status("busy")["time"]) == (2, None)
    with opened(tmp_path) as service:
        push(service, "s", 3000, triple("d", "here"))
        assert service.stream_status("busy")["time"] == 3000
        assert [time for time, _ in observed(service, "over")] == [2000, 3000]
        again = emissions_of(service, "over")
    with opened(tmp_path) as service:
        push(service, "s", 3500, triple("d", "here"))
        assert emissions_of(service, "over") == again


def test_what_was_emitted_comes_to_its_stream_though_the_store_does_not_answer_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stream_ext.retry._PAUSE_MS", 0)
    with opened(tmp_path) as service:
        service.register(BUSY)
        service.register(OVER)
        push(service, "s", 100, triple("a", "here"))
        begin, begun = service.store.begin, []

        def fails(after: Sequence[Batch]) -> Batch:
            begun.append(len(begun))
            if begun[-1] == 1:  # the one that what `busy` says is in
                raise StoreUnavailable("the region moves")
            return begin(after)

        monkeypatch.setattr(service.store, "begin", fails)
        push(service, "s", 1100, triple("b", "here"))
        push(service, "s", 2100, triple("c", "here"))
        assert len(begun) > 2
        assert observed(service, "over") == [(2000, [("here", "a")])]


def test_a_silence_is_emitted_after_what_was_emitted_before_it_whoever_is_quicker(service: Service) -> None:
    service.register(BUSY)
    service.register(OVER)
    derived, held = service._engine.derived, []
    emissions_of, derived.emitted = derived.emitted, held.extend  # type: ignore[method-assign]  # by a thread that is slow
    push(service, "s", 100, triple("a", "here"))
    push(service, "s", 1100, triple("b", "here"), wait="published")
    service._engine.merge.wait(service.head(), 10)
    until(lambda: held, "the emission is announced")  # which the position does not wait for
    silence = Silence(LastEvaluation(service.head(), 0, 9, 2000), after=1)
    derived.silent({service.query_definition("busy").number: silence})
    assert service.stream_status("busy")["time"] is None
    emissions_of(held)
    service._engine.await_evaluated(service.head(), 10)
    assert (service.stream_status("busy")["time"], service.stream_status("busy")["late"]) == (2000, 0)
    assert observed(service, "over") == [(2000, [("here", "a")])]


def test_a_silent_evaluation_whose_time_did_not_come_to_the_stream_brings_it_there_at_the_next_start(
    tmp_path: Path,
) -> None:
    clock = ManualClock(1_000_500)
    with opened(tmp_path, clock) as service:
        service.register(f"PREFIX : <{EX}> REGISTER ISTREAM came AS CONSTRUCT {{ ?x :p ?y }} {{ ?x :k ?y }}")
        service.register(registration("over", stream="came", window="RANGE 5s STEP 1s"))
        service.update(f"INSERT DATA {{ {triple('a', 'b', 'k')} }}", wait="evaluated")
        clock.advance(2_000)
        service._engine.derived.silent = lambda times: None  # type: ignore[method-assign]  # as if it died here
        service.update(f"DELETE DATA {{ {triple('a', 'b', 'k')} }}")
        service._engine.merge.wait(service.head(), 10)
        assert observed(service, "over") == []
    heads = []
    for _ in range(2):
        with opened(tmp_path, clock) as service:
            Reader(service, "over").read_to(2)
            assert observed(service, "over") == [(1_001_000, [("a", "b")]), (1_002_000, [("a", "b")])]
            heads.append(service.head())
    assert heads[0] == heads[1], "it is told once"


def test_chains_of_three_are_evaluated_by_one_push_that_waits(service: Service) -> None:
    service.register(BUSY)
    service.register(
        registration(
            "twice", stream="busy", window="RANGE 1s STEP 1s", pattern="?x :of ?y", select="CONSTRUCT { ?y :was ?x }"
        )
    )
    service.register(
        registration("end", stream="twice", window="RANGE 1s STEP 1s", pattern="?x :was ?y", select="SELECT ?x ?y")
    )
    push(service, "s", 100, triple("a", "here"))
    push(service, "s", 3000, triple("b", "here"))
    assert observed_graphs(service, "twice") == [(2000, ["a was here"]), (3000, ["a was here"])]
    assert observed(service, "end") == [(3000, [("a", "here")])]


def observed_graphs(service: Service, name: str) -> list[tuple[int, list[str]]]:
    return [
        (
            e["time"],
            sorted(
                " ".join(part.rpartition("/")[2].rstrip(">") for part in line.split()[:3])
                for line in e["graph"].splitlines()
            ),
        )
        for e in emissions_of(service, name)
    ]


def test_the_same_solution_has_the_same_blank_node_in_the_stream(service: Service) -> None:
    service.register(BUSY)
    service.register(
        registration("nodes", stream="busy", window="RANGE 10s STEP 10s", pattern="?x :in ?y", select="SELECT ?x ?y")
    )
    push(service, "s", 100, triple("a", "here"))
    push(service, "s", 1100, triple("b", "here"))
    push(service, "s", 11_000, triple("x", "y", "other"))
    (emission,) = emissions_of(service, "nodes")
    assert [row["x"]["value"].removeprefix(EX) for row in emission["results"]["bindings"]] in (["a", "b"], ["b", "a"])


def test_a_query_over_the_store_is_a_stream_with_the_times_of_its_changes(service: Service) -> None:
    text = f"PREFIX : <{EX}> REGISTER ISTREAM rooms AS CONSTRUCT {{ ?x a :Room }} WHERE {{ ?x :p ?y }}"
    service.register(text)
    service.register(
        registration(
            "new",
            stream="rooms",
            window="RANGE 10s STEP 10s REPORT CONTENT_CHANGE",
            pattern="?x a :Room",
            select="SELECT ?x",
        )
    )
    for change in ("INSERT DATA { :a :p :b }", "DELETE DATA { :a :p :b }", "INSERT DATA { :c :p :b }"):
        service.update(f"PREFIX : <{EX}> {change}", wait="evaluated")
    assert observed(service, "new") == [(1_000_000, [("a",)]), (1_000_000, [("a",), ("c",)])]
    assert rows(service, f"GRAPH <{service.query_definition('rooms').iri}> {{ ?x a :Room }}") == [("c",)]


def test_a_stream_that_waits_under_the_name_becomes_the_querys(service: Service) -> None:
    service.register(OVER)
    registered, _, _ = service.register(BUSY)
    assert service.stream("busy").of_query == registered.number
    push(service, "s", 100, triple("a", "here"))
    push(service, "s", 3000, triple("b", "here"))
    assert observed(service, "over") == [(2000, [("here", "a")]), (3000, [("here", "a")])]


def test_a_stream_with_elements_of_its_own_is_not_taken_over(service: Service) -> None:
    service.create_stream("busy", {})
    push(service, "busy", 100, triple("a", "b"))
    with pytest.raises(NameInUse, match="stream 'busy' already exists with elements of its own"):
        service.register(BUSY)
    assert service.queries() == []


def test_nobody_else_pushes_to_it_and_it_goes_with_its_query(service: Service) -> None:
    service.register(BUSY)
    with pytest.raises(BadArgument, match="stream 'busy' is the output of query 'busy'"):
        push(service, "busy", 100, triple("a", "b"))
    with pytest.raises(BadArgument, match="stream 'busy' is the output of query 'busy'"):
        service.heartbeat("busy", 100)
    with pytest.raises(NameInUse, match="drop the query"):
        service.drop_stream("busy")
    service.register(OVER)
    with pytest.raises(NameInUse, match="stream 'busy' is read by 'over'"):
        service.drop_query("busy")
    service.drop_query("over")
    service.drop_query("busy")
    assert service.streams() == [], "s was made with it, and nobody has pushed to it"


def test_a_name_is_made_that_no_stream_has(service: Service) -> None:
    service.create_stream("q1", {})
    push(service, "q1", 100, triple("a", "b"))
    registered, _, _ = service.register(BUSY.replace("REGISTER RSTREAM busy AS ", ""))
    assert registered.name == "q2"


# ---- rings


def test_a_query_that_would_read_what_it_says_is_refused(service: Service) -> None:
    own = registration("own", stream="own", window="RANGE 1s", select="CONSTRUCT { ?x :p ?y }")
    with pytest.raises(BadArgument, match="query 'own' would read its own output \\(own -> own\\)"):
        service.register(own)
    service.register(registration("one", stream="two", window="RANGE 1s", select="CONSTRUCT { ?x :p ?y }"))
    with pytest.raises(BadArgument, match="\\(two -> one -> two\\)"):
        service.register(registration("two", stream="one", window="RANGE 1s", select="CONSTRUCT { ?x :p ?y }"))
    assert [query.name for query in service.queries()] == ["one"]


def test_a_ring_through_the_store_is_refused(service: Service) -> None:
    """What `facts` says is absorbed; what reads the store beside its window would read it again."""
    service.create_stream("facts", {"timeless": True})
    reading = registration("facts", window="RANGE 1s", select="CONSTRUCT { ?x :k ?z }")
    with pytest.raises(BadArgument, match="\\(facts -> facts\\)"):
        service.register(reading.removesuffix("}") + " ?y :k ?z }")
    service.register(reading.replace("?z", "?y"))
    push(service, "s", 100, triple("a", "b"))
    push(service, "s", 1000, triple("c", "d"))
    assert rows(service, "?x :k ?y") == [("a", "b")]
    with pytest.raises(BadArgument, match="\\(back -> facts -> back\\)"):
        service.create_stream("back", {})
        service.drop_query("facts")
        service.create_stream("facts", {"timeless": True})
        service.register(registration("facts", stream="back", window="RANGE 1s", select="CONSTRUCT { ?x :k ?y }"))
        service.register(
            registration("back", window="RANGE 1s", select="CONSTRUCT { ?x :p ?z }").removesuffix("}") + " ?y :k ?z }"
        )


# ---- as a graph


@pytest.mark.parametrize("r2s", ["RSTREAM", "ISTREAM", "DSTREAM"])
def test_its_latest_answer_is_a_named_graph_that_one_shot_queries_read(r2s: str, tmp_path: Path) -> None:
    with opened(tmp_path) as service:
        service.register(BUSY.replace("RSTREAM", r2s))
        push(service, "s", 100, triple("a", "here"))
        first = push(service, "s", 1100, triple("b", "here")).snapshot + 1
        push(service, "s", 2100, triple("x", "y", "other"))
        service.update(f"PREFIX : <{EX}> INSERT DATA {{ :a :k :n . GRAPH :g {{ :here :of :z }} }}")
    with opened(tmp_path) as service:
        name = graph(service)
        both = [("here", "a"), ("here", "b")]
        assert rows(service, f"GRAPH {name} {{ ?x :of ?y }}") == both
        assert rows(service, f"GRAPH {name} {{ ?x :of ?y }}", snapshot=first) == both[:1]
        assert rows(service, "?x :of ?y") == [], "it is no part of the default graph"
        assert rows(service, f"GRAPH {name} {{ ?x :of ?y }} ?y :k ?z") == [("here", "a", "n")]
        assert rows(service, f"GRAPH {name} {{ ?y :in ?n . ?n :is ?x FILTER NOT EXISTS {{ ?x :of :a }} }}") == []
        assert [row[1:] for row in rows(service, "GRAPH ?g { ?x :of ?y }")] == [*both, ("here", "z")]
        assert {row[0] for row in rows(service, "GRAPH ?g { ?x ?p ?y }")} == {name.rstrip(">"), "g"}
        assert rows(service, f"GRAPH {name} {{ :here :of ?y . GRAPH :g {{ :here :of ?z }} }}") == [
            ("a", "z"),
            ("b", "z"),
        ]
        assert rows(service, f"GRAPH {name} {{ ?x :of/^:of ?y }}") == [("here", "here")] * 2

        def asked(text: str) -> list[tuple[str, ...]]:
            answer = service.query(f"PREFIX : <{EX}> SELECT ?y {text}")
            return sorted(
                tuple((cell or b"").decode().removeprefix(f"<{EX}").rstrip(">") for cell in row)
                for row in service.decode(answer)
            )

        assert asked(f"FROM {name} WHERE {{ :here :of ?y }}") == [("a",), ("b",)]
        assert asked(f"FROM {name} FROM :g WHERE {{ :here :of ?y }}") == [("a",), ("b",), ("z",)]
        assert asked(f"FROM NAMED {name} WHERE {{ GRAPH ?g {{ :here :of ?y }} }}") == [("a",), ("b",)]
        assert asked("FROM NAMED :g WHERE { GRAPH ?g { :here :of ?y } }") == [("z",)]
        assert asked(f"FROM NAMED :g WHERE {{ GRAPH {name} {{ :here :of ?y }} }}") == []
        made = service.query(f"PREFIX : <{EX}> CONSTRUCT {{ ?y :of ?x }} WHERE {{ GRAPH {name} {{ ?x :of ?y }} }}")
        assert made.count == 2


def test_before_its_first_emission_the_graph_is_not_there(service: Service) -> None:
    service.register(BUSY)
    assert rows(service, f"GRAPH {graph(service)} {{ ?x :of ?y }}") == []
    assert rows(service, "GRAPH ?g { }") == []


def test_emissions_that_somebody_still_needs_are_retained_however_old(tmp_path: Path) -> None:
    clock = ManualClock(1_000_000)
    with opened(tmp_path, clock, retain=Retain(emissions_ms=1000)) as service:
        service.register(BUSY)
        for time in (100, 1100, 2100):
            push(service, "s", time, triple(f"t{time}", "here"))
        clock.advance(1_000_000)
        service.collect()
        assert service.query_status("busy")["oldest_emission"] == 2
        assert len(rows(service, f"GRAPH {graph(service)} {{ ?x :of ?y }}")) == 2


def test_who_waits_learns_when_what_was_emitted_does_not_come_to_its_stream(tmp_path: Path) -> None:
    with opened(tmp_path, limits=Limits(evaluated_s=0.1)) as service:
        service.register(registration("one", window="RANGE 1s STEP 1s", select="CONSTRUCT { ?y :p ?x }"))
        push(service, "s", 100, triple("a", "b"))
        service._engine.merge._on_emissions = lambda rows, in_json: None
        receipt = push(service, "s", 1000, triple("c", "d"))
        assert receipt.pending
        with pytest.raises(DeadlineExceeded, match=r"the output of query 'one' did not reach its stream within 0\.1 s"):
            service._engine.await_evaluated(receipt.snapshot, 0.1)
