"""Pushes: times, lateness, what is absorbed, blank nodes, and what a refused one leaves behind."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from hbase_store import Batch, Sn
from hbase_store.errors import StoreUnavailable
from hbase_store.layout import rows
from stream_ext.clock import ManualClock, SystemClock
from stream_ext.continuous.shard import Shard
from stream_ext.errors import BadArgument, BadData, NotFound, Overload, RilletError, TooLarge
from stream_ext.service.service import Limits, Service
from stream_ext.upkeep.evaluation_lag import Lag
from stream_ext.upkeep.late_elements import Late, LateElements
from tests.stream_ext.opened import (
    EX,
    NDJSON,
    NT,
    Reader,
    emissions_of,
    open_service,
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


def ask_store(service: Service, pattern: str) -> list[tuple[bytes | None, ...]]:
    return sorted(service.decode(service.query(f"PREFIX : <{EX}> SELECT * WHERE {{ {pattern} }}")), key=str)


def test_a_push_is_answered_with_its_batch_and_snapshot(service: Service) -> None:
    service.create_stream("s", {})
    first = push(service, "s", 5, triple("a", 1), triple("a", 2))
    second = push(service, f"{service.base}streams/s", 6, triple("a", 3))
    assert (first.stream, first.accepted, first.late, first.batch, first.repeated) == ("s", 1, 0, 1, False)
    assert (second.batch, second.snapshot) == (2, first.snapshot + 1)


def test_a_windows_content_follows_the_times_of_the_elements(service: Service) -> None:
    service.register(registration(window="RANGE PT2S STEP PT1S"))
    push_lines(
        service,
        "s",
        {"timestamp": 100, "data": triple("a", 1)},
        {"timestamp": 1500, "data": triple("b", 2)},
        {"timestamp": "1970-01-01T00:00:03Z", "data": triple("c", 3)},
    )
    emissions = emissions_of(service)
    assert times(emissions) == [1000, 2000, 3000]
    assert [values(emission) for emission in emissions] == [[("a", "1")], [("a", "1"), ("b", "2")], [("b", "2")]]
    assert emissions[0]["windows"] == [{"stream": "s", "from": -1000, "to": 1000, "bounds": "[)"}]


def test_the_time_predicate_goes_before_the_lines_timestamp_and_that_before_the_parameter(service: Service) -> None:
    service.create_stream("s", {"time": EX + "at"})
    service.create_stream("t", {})
    push_lines(service, "s", {"timestamp": 5, "data": triple("a", 700, "at")}, timestamp=9)
    push_lines(service, "t", {"timestamp": 5, "data": triple("a", 1)}, {"data": triple("a", 2)}, timestamp=9)
    assert service.store.vts(service.head())[service.stream("s").number].time == 700
    columns = service.store.stream(service.head(), service.stream("t").number)
    assert columns is not None
    assert columns.time.tolist() == [5, 9]


def test_an_element_without_the_time_predicate_is_refused(service: Service) -> None:
    service.create_stream("s", {"time": EX + "at"})
    with pytest.raises(BadArgument, match="element 2 has no <http://ex/at>"):
        push_lines(service, "s", {"data": triple("a", 1, "at")}, {"timestamp": 3, "data": triple("a", 1)})


@pytest.mark.parametrize(
    ("time", "says"),
    [
        ('"soon"', "'soon' is not a time"),
        ("_:b", "a blank node is not a time"),
        (f"<{EX}noon>", "<http://ex/noon> is not a time"),
        ('"99999999999999999999"', "out of range"),
    ],
)
def test_a_time_that_is_none_is_reported_with_its_element(service: Service, time: str, says: str) -> None:
    service.create_stream("s", {"time": EX + "at"})
    with pytest.raises(BadArgument, match=f"^element 2, by <http://ex/at>: .*{says}"):
        push_lines(service, "s", {"data": triple("a", 1, "at")}, {"data": f"<{EX}a> <{EX}at> {time} ."})


def test_an_element_with_two_different_times_is_refused(service: Service) -> None:
    service.create_stream("s", {"time": EX + "at"})
    with pytest.raises(BadData, match="two times"):
        push(service, "s", None, triple("a", 1, "at"), triple("b", 2, "at"))


def test_heartbeats_let_time_pass_and_close_windows(service: Service) -> None:
    service.register(registration(window="RANGE PT1S STEP PT1S"))
    push(service, "s", 100, triple("a", 1))
    assert emissions_of(service) == []
    receipt = service.heartbeat("s", 1000, wait="evaluated")
    assert (receipt.accepted, receipt.batch) == (0, 1)
    assert times(emissions_of(service)) == [1000]
    service.heartbeat("s", 500, wait="evaluated")
    assert service.store.vts(service.head())[1].time == 1000, "time never goes back"


def test_lateness_holds_the_streams_time_back(service: Service) -> None:
    service.create_stream("s", {"lateness": "2s"})
    service.register(registration(window="RANGE PT1S STEP PT1S"))
    push(service, "s", 500, triple("a", 1))
    push(service, "s", 2900, triple("b", 2))
    assert emissions_of(service) == []
    assert push(service, "s", 600, triple("c", 3)).late == 0
    push(service, "s", 3000, triple("d", 4))
    assert [(emission["time"], values(emission)) for emission in emissions_of(service)] == [
        (1000, [("a", "1"), ("c", "3")])
    ]


def test_late_counts_elements_whose_window_was_reported(service: Service) -> None:
    service.register(registration("narrow", window="RANGE PT1S STEP PT1S"))
    service.register(registration("wide", window="RANGE PT3S STEP PT1S"))
    assert push(service, "s", 100, triple("a", 1)).late == 0
    assert push(service, "s", 2500, triple("a", 2)).late == 0
    receipt = push_lines(
        service,
        "s",
        {"timestamp": 1900, "data": triple("a", 3)},
        {"timestamp": 2100, "data": triple("a", 4)},
        {"timestamp": 2600, "data": triple("a", 5)},
    )
    assert (receipt.accepted, receipt.late) == (3, 1), "1900 was in the instance that closed at 2000"
    assert service.query_status("narrow")["late"] == 1
    assert service.query_status("wide")["late"] == 1


def test_late_elements_can_be_read_back_with_who_missed_them(service: Service) -> None:
    service.create_stream("s", {"timeless": [EX + "name"]})
    service.register(registration("narrow", window="RANGE PT1S STEP PT1S"))
    service.register(registration("coarse", window="RANGE PT9S STEP PT9S"))
    push(service, "s", 100, triple("a", 1))
    push(service, "s", 2500, triple("a", 2))
    assert service.late_elements("s") == {"stream": "s", "late": 0, "elements": []}
    first = push_lines(
        service,
        "s",
        {"timestamp": 2600, "data": triple("c", 1)},
        {"timestamp": 1900, "graph": EX + "g", "data": triple("a", 3) + triple("a", "bob", "name")},
    )
    found = service.late_elements("s")
    assert (found["late"], len(found["elements"])) == (1, 1)
    (late,) = found["elements"]
    assert (late["timestamp"], late["graph"], late["snapshot"]) == (1900, EX + "g", first.snapshot)
    assert late["queries"] == ["narrow"]
    assert sorted(late["data"].split("\n")) == sorted([triple("a", 3), triple("a", "bob", "name")])
    push(service, "s", 50, triple("b", 4))
    assert [each["timestamp"] for each in service.late_elements("s", since=first.snapshot)["elements"]] == [50]
    assert [each["timestamp"] for each in service.late_elements("s", limit=1)["elements"]] == [1900]


def test_only_so_many_late_elements_are_retained_and_all_are_counted() -> None:
    elements = LateElements(retained_max=2)
    for sn in range(1, 6):
        elements.add(1, [Late(sn, 0, 0, sn, (7,))])
    assert ([late.sn for late in elements.retained(1)], elements.counted(1)) == ([4, 5], 5)
    elements.forget(1)
    assert (elements.retained(1), elements.counted(1)) == ([], 0)


def test_elements_of_one_push_are_never_late_for_one_another(service: Service) -> None:
    service.register(registration(window="RANGE PT1S STEP PT1S"))
    receipt = push_lines(
        service, "s", {"timestamp": 5000, "data": triple("a", 1)}, {"timestamp": 1, "data": triple("b", 2)}
    )
    assert receipt.late == 0
    assert values(emissions_of(service)[0]) == [("b", "2")]


def test_the_first_push_decides_whose_time_the_stream_has(tmp_path: Path) -> None:
    with opened(tmp_path) as service:
        service.create_stream("clock", {})
        service.create_stream("own", {})
        push(service, "clock", None, triple("a", 1))
        push(service, "own", 1, triple("a", 1))
        with pytest.raises(BadArgument, match="'clock' takes its times from the clock"):
            push(service, "clock", 1, triple("a", 1))
        with pytest.raises(BadArgument, match="'own' takes its times from its elements"):
            push(service, "own", None, triple("a", 1))
    with opened(tmp_path) as service, pytest.raises(BadArgument, match="'clock' takes its times from the clock"):
        push(service, "clock", 1, triple("a", 1))


def test_a_push_in_which_only_some_elements_have_a_time_is_refused(service: Service) -> None:
    service.create_stream("s", {})
    with pytest.raises(BadArgument, match="some elements of this push have a time"):
        push_lines(service, "s", {"timestamp": 1, "data": triple("a", 1)}, {"data": triple("a", 2)})


def test_a_stream_that_runs_by_the_clock_closes_its_windows_when_they_fall_due(tmp_path: Path) -> None:
    clock = ManualClock(10_200)
    with opened(tmp_path, clock) as service:
        service.create_stream("s", {"lateness": 100})
        service.register(registration(window="RANGE PT2S STEP PT1S"))
        push(service, "s", None, triple("a", 1))
        observed: list[int] = []
        reader = Reader(service, "q")
        clock.advance(800)
        assert service.emissions("q") == [], "lateness is 100"
        for number in (1, 2):
            clock.advance(1_000 if number > 1 else 100)
            observed = reader.read_to(number)
        assert observed == [1, 2]
        assert [(e["time"], values(e)) for e in emissions_of(service)] == [
            (11_000, [("a", "1")]),
            (12_000, [("a", "1")]),
        ]
        receipt = push(service, "s", None, triple("b", 2))
        assert receipt.late == 0
        clock.advance(1_000)
        reader.read_to(3)
        assert values(emissions_of(service)[2]) == [("b", "2")]


def test_a_stream_by_its_elements_times_never_looks_at_the_clock(tmp_path: Path) -> None:
    clock = ManualClock(10_000)
    with opened(tmp_path, clock) as service:
        service.register(registration(window="RANGE PT1S STEP PT1S"))
        push(service, "s", 100, triple("a", 1))
        head = service.head()
        clock.advance(100_000)
        assert (service.head(), emissions_of(service)) == (head, [])


def test_a_repeated_push_adds_nothing_after_a_restart_either(tmp_path: Path) -> None:
    with opened(tmp_path) as service:
        service.register(registration())
        push(service, "s", 1, triple("a", 1), source="kafka-0", seq=4)
    with opened(tmp_path) as service:
        head = service.head()
        repeated = push(service, "s", 1, triple("a", 1), source="kafka-0", seq=4)
        assert (repeated.repeated, repeated.accepted, repeated.snapshot) == (True, 0, head)
        assert not push(service, "s", 2, triple("a", 1), source="kafka-0", seq=5).repeated
        assert not push(service, "s", 2, triple("a", 1), source="kafka-1", seq=0).repeated


def test_a_stream_remembers_the_senders_that_pushed_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "SOURCES_MAX", 3)
    with opened(tmp_path) as service:
        service.create_stream("s", {})
        for source, seq in (("a", 1), ("b", 1), ("c", 1), ("a", 2), ("d", 1)):
            assert not push(service, "s", 1, triple("a", 1), source=source, seq=seq).repeated
        assert all(push(service, "s", 1, triple("a", 1), source=source, seq=1).repeated for source in "acd")
    with opened(tmp_path) as service:
        assert push(service, "s", 1, triple("a", 1), source="a", seq=2).repeated
        assert not push(service, "s", 1, triple("a", 1), source="b", seq=1).repeated  # it was forgotten
        with pytest.raises(BadArgument, match="source has 1025 characters"):
            push(service, "s", 1, triple("a", 1), source="x" * 1025, seq=1)


def test_what_is_known_of_senders_does_not_grow_without_bound() -> None:
    position = None
    for sn in range(1, 5):
        senders = {f"{sn}-{n}": sn for n in range(rows.SOURCES_MAX // 2)}
        position = rows.moved(position, rows.StreamMove(1, sn, sources={"always": sn, **senders}), sn)
    assert position is not None
    assert len(position.sources) == rows.SOURCES_MAX
    assert position.sources["always"] == position.sources["4-0"] == 4
    assert "2-0" not in position.sources


def test_timeless_says_what_the_store_absorbs(service: Service) -> None:
    service.create_stream("all", {"timeless": True})
    service.create_stream("some", {"timeless": [EX + "name"], "graph": EX + "g"})
    service.create_stream("none", {})
    push(service, "all", 1, triple("a", 1))
    push(service, "some", 1, triple("b", "bob", "name"), triple("b", 7, "position"))
    push(service, "none", 1, triple("c", 3))
    assert ask_store(service, "?s ?p ?o") == [
        (b"<http://ex/a>", b"<http://ex/p>", b'"1"^^<http://www.w3.org/2001/XMLSchema#integer>')
    ]
    assert ask_store(service, "GRAPH :g { ?s :name ?o }") == [(b"<http://ex/b>", b"<http://ex/bob>")]
    assert ask_store(service, "GRAPH :g { ?s :position ?o }") == []


def test_the_graph_of_an_element_goes_before_that_of_the_stream(service: Service) -> None:
    service.create_stream("s", {"timeless": True, "graph": EX + "g"})
    push_lines(
        service,
        "s",
        {"timestamp": 1, "graph": EX + "own", "data": triple("a", "x")},
        {"timestamp": 1, "data": triple("b", "x")},
    )
    assert ask_store(service, "GRAPH :own { ?s :p ?o }") == [(b"<http://ex/a>", b"<http://ex/x>")]
    assert ask_store(service, "GRAPH :g { ?s :p ?o }") == [(b"<http://ex/b>", b"<http://ex/x>")]


def test_each_graph_of_a_trig_push_is_an_element_and_names_where_it_is_absorbed(service: Service) -> None:
    service.create_stream("s", {"timeless": True})
    body = f"@prefix : <{EX}> . :g1 {{ :a :p :x }} :g2 {{ :b :p :x }} :c :p :x ."
    assert service.push("s", body.encode(), "application/trig", timestamp=3).accepted == 3
    for graph, subject in (("GRAPH :g1", b"a"), ("GRAPH :g2", b"b"), ("", b"c")):
        assert ask_store(service, f"{graph} {{ ?s :p :x }}") == [(b"<http://ex/" + subject + b">",)]


def subjects(service: Service) -> list[bytes]:
    return sorted(row[0] or b"" for row in ask_store(service, "?s :p ?o"))


def test_a_blank_label_is_one_node_within_a_push_and_another_in_the_next(service: Service) -> None:
    service.create_stream("s", {"timeless": True})
    text = f"_:b1 <{EX}p> <{EX}x> . _:b1 <{EX}p> <{EX}y> .\n"
    for time in (1, 2):
        service.push("s", text.encode(), "text/turtle", timestamp=time)
    found = subjects(service)
    assert len(found) == 4
    assert len(set(found)) == 2
    assert all(subject.startswith(b"_:b") for subject in found)


def test_a_blank_label_is_another_node_in_each_line_of_ndjson(service: Service) -> None:
    service.create_stream("s", {"timeless": True})
    line = {"timestamp": 1, "data": f"_:x <{EX}p> <{EX}a> . _:x <{EX}p> <{EX}b> ."}
    push_lines(service, "s", line, line)
    assert len(set(subjects(service))) == 2


@pytest.mark.parametrize("form", ["ndjson", "messages"])
@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_elements_with_blank_nodes_and_without_come_in_any_order(
    order: tuple[int, ...], form: str, service: Service
) -> None:
    """The label is another node in each element, and in those that have no graph nothing is in its place."""
    elements = [f"_:x <{EX}p> <{EX}b> .", triple("c", "d"), f"_:x <{EX}p> _:y ."]
    service.register(f"PREFIX : <{EX}> REGISTER QUERY all AS SELECT RSTREAM ?x ?y {{ STREAM s [ALL] {{ ?x :p ?y }} }}")
    if form == "ndjson":
        receipt = push_lines(service, "s", *({"timestamp": 1000, "data": elements[place]} for place in order))
    else:
        log = 'VERSION "1.2-messages"\n' + "\nMESSAGE\n".join(elements[place] for place in order)
        receipt = service.push("s", log.encode(), "text/turtle", timestamp=1000, wait="evaluated")
    assert receipt.accepted == 3
    rows = list(service.decode(service.latest("all")))
    assert len({cell for row in rows for cell in row if cell is not None and cell.startswith(b"_:")}) == 3
    named = sorted(cell for row in rows for cell in row if cell is not None and not cell.startswith(b"_:"))
    assert named == [f"<{EX}{name}>".encode() for name in "bcd"]


def test_a_refused_push_changes_nothing(service: Service) -> None:
    service.create_stream("s", {"timeless": True})
    push(service, "s", 1, triple("a", 1))
    head = service.head()
    refused: list[tuple[type[RilletError], str, bytes, dict[str, object]]] = [
        (BadData, "s", b"<http://ex/s> <http://ex/p> .", {"timestamp": 1}),
        (BadArgument, "s", triple("b", 1).encode(), {}),
        (BadArgument, "s", triple("b", 1).encode(), {"timestamp": 1, "seq": 3}),
        (BadArgument, "s", triple("b", 1).encode(), {"timestamp": 1, "wait": "for ever"}),
        (NotFound, "other", triple("b", 1).encode(), {"timestamp": 1}),
        (TooLarge, "s", triple("b" * 5_000_000, 1).encode(), {"timestamp": 1}),
    ]
    for error, stream, data, named in refused:
        with pytest.raises(error):
            service.push(stream, data, NT, **named)  # type: ignore[arg-type]  # on purpose
    assert service.head() == head
    assert push(service, "s", 2, triple("c", 1)).batch == 2


def test_a_push_over_the_limit_is_refused(tmp_path: Path) -> None:
    service = open_service(tmp_path, limits=Limits(push_bytes=10))
    service.create_stream("s", {})
    with pytest.raises(TooLarge, match="exceeds the limit of 10"):
        push(service, "s", 1, triple("a", 1))
    service.close()


def test_a_push_of_many_kinds_of_lines_names_the_bad_one(service: Service) -> None:
    service.create_stream("s", {})
    with pytest.raises(BadData, match="line 2"):
        service.push("s", b'{"timestamp":1,"data":""}\n{"timestamp":2,"data":"<a"}\n', NDJSON)


def test_queries_that_are_far_behind_take_no_more_pushes(tmp_path: Path) -> None:
    clock = ManualClock(1_000_000)
    with opened(tmp_path, clock, limits=Limits(lag_ms=3_000)) as service:
        service.register(registration())
        service.create_stream("unread", {})
        service._engine.inline.close()  # a runner that is too slow
        push(service, "s", 1, triple("a", 1), wait="published")
        clock.advance(3_000)
        push(service, "s", 1, triple("a", 2), wait="published")
        clock.advance(1)
        with pytest.raises(Overload, match=r"3001 ms behind, more than 3000 ms \(--max-lag\)"):
            push(service, "s", 2, triple("a", 1), wait="published")
        push(service, "unread", 2, triple("a", 1), wait="published")


def test_pushes_are_held_against_the_work_that_waits_not_only_against_the_time_that_it_has_waited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Steps of two seconds: a push is taken while those before it need at most three."""
    clock = ManualClock(1_000_000)
    with opened(tmp_path, clock, limits=Limits(lag_ms=3_000)) as service:
        service.register(registration())
        service._engine.merge.wait(service.head(), 60)
        turn, begun, steps = threading.Semaphore(0), threading.Semaphore(0), Shard.step

        def slow(shard: Shard, sn: int) -> object:
            begun.release()
            assert turn.acquire(timeout=60)
            return steps(shard, sn)

        monkeypatch.setattr(Shard, "step", slow)
        first = push(service, "s", 1, triple("a", 1), wait="published").snapshot
        assert begun.acquire(timeout=60)
        clock.advance(599)  # it may be a pause
        for _ in range(8):
            push(service, "s", 2, triple("a", 1), wait="published")
        clock.advance(1)
        with pytest.raises(Overload, match=r"have work for 4800 ms before this push, more than 3000 ms") as refused:
            push(service, "s", 3, triple("a", 1), wait="published")
        assert refused.value.retry_after_s == 1
        turn.release(9)
        service._engine.merge.wait(first + 8, 60)
        push(service, "s", 3, triple("a", 1), wait="published")
        turn.release(1_000)


def test_a_step_that_was_slow_once_counts_for_nothing_and_those_that_are_slow_now_do() -> None:
    lag = Lag()
    for sn in range(3):
        lag.published(sn, 0, -1)
    for took_ms in (5_000, 10, 5_000, 10, 10):
        lag.stepped(took_ms)
    assert lag.ahead_ms(0, 0, 10_000) == 20
    for _ in range(3):
        lag.stepped(4_000)
    assert lag.ahead_ms(0, 0, 10_000) == 8_000
    assert lag.ahead_ms(0, 3_000, 10_000) == 5_000
    assert lag.ahead_ms(3, 3_000, 10_000) == 0


def test_a_commit_whose_outcome_is_unknown_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(tmp_path, SystemClock()) as service:
        service.create_stream("s", {})
        commit, tries = service.store.commit, []

        def loses_its_answer(batch: Batch) -> Sn:
            tries.append(batch)
            if len(tries) == 1:
                raise StoreUnavailable("the connection was lost")
            return commit(batch)

        monkeypatch.setattr(service.store, "commit", loses_its_answer)
        assert push(service, "s", 1, triple("a", 1)).snapshot == 2
        assert tries[0] is tries[1]


def test_a_store_that_does_not_answer_for_a_while_costs_no_evaluation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(tmp_path) as service:
        service.register(registration(pattern="?x :p ?y").replace("} }", "} ?y :is ?z }"))
        service.update(f"INSERT DATA {{ {triple('one', 'known', 'is')} }}")
        push(service, "s", 100, triple("a", "one"))
        push(service, "s", 1100, triple("b", "one"))
        changes, rows, failed = service.store.net_changes, service.store.row, []

        def gone(kind: str) -> bool:
            if kind not in failed and threading.current_thread().name == "rillet-inline":
                failed.append(kind)
                raise StoreUnavailable("the region moves")
            return False

        monkeypatch.setattr(service.store, "net_changes", lambda *a, **b: gone("changes") or changes(*a, **b))
        monkeypatch.setattr(service.store, "row", lambda *a: gone("row") or rows(*a))
        service.update(f"DELETE DATA {{ {triple('one', 'known', 'is')} }}")
        service.heartbeat("s", 2100, "evaluated")
        assert sorted(failed) == ["changes", "row"]
        assert service.query_status("q")["state"] == "running"
        assert [values(emission) for emission in emissions_of(service)] == [[("a", "one")], []]
