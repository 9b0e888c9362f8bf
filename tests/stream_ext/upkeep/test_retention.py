"""What a running service lets go of, and what it keeps: bytes stay bounded, and no answer changes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from queue import Queue
from typing import Any

import pytest

from hbase_store.errors import SnapshotGone
from stream_ext.clock import ManualClock
from stream_ext.emissions import subscriptions
from stream_ext.errors import Gone, Overload
from stream_ext.service.service import Service
from stream_ext.upkeep.retention import Retain
from stream_ext.writer.change import Change
from tests.parts.waiting import PATIENCE_S, until
from tests.stream_ext.opened import EX, Reader, emissions_of, open_service, opened, push, registration, triple, values

SECOND, MINUTE, HOUR = 1_000, 60_000, 3_600_000
FOREVER = Retain(snapshots_ms=1 << 40, emissions_ms=1 << 40)
JOIN = (
    "PREFIX : <http://ex/> REGISTER ISTREAM joined AS SELECT ?x ?z FROM NAMED WINDOW :w ON s [RANGE PT60S STEP PT10S] "
    "WHERE { WINDOW :w { ?x :p ?y } ?x :likes ?z }"
)
TABLES = ("slab", "sn", "slice", "run", "runindex", "runs", "emission", "commit")


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(HOUR)


def rows(service: Service, table: str) -> int:
    return sum(1 for _ in service.store.kv.scan(table, b"", None))


def sizes(service: Service) -> dict[str, int]:
    return {
        table: sum(len(key) + len(value) for key, value in service.store.kv.scan(table, b"", None)) for table in TABLES
    }


def live(service: Service, clock: ManualClock, minutes: Iterator[int] | range) -> None:
    """Every ten seconds a push, every minute an update that adds and removes, every five a collection."""
    for minute in minutes:
        for second in range(0, 60, 10):
            time = minute * MINUTE + second * SECOND
            push(service, "s", time, triple(f"a{(minute + second) % 9}", second))
            clock.advance(10 * SECOND)
        liked = f"INSERT DATA {{ {triple(f'a{minute % 9}', f'z{minute % 4}', 'likes')} }}"
        gone = f"DELETE DATA {{ {triple(f'a{(minute + 5) % 9}', f'z{minute % 4}', 'likes')} }}"
        service.update(f"{gone} ; {liked}", wait="evaluated")
        if minute % 5 == 4:
            service.store.fold()
            service.collect()


def register(service: Service) -> None:
    service.create_stream("s", {"retention": "30s", "timeless": [], "time": None})
    service.register(registration(name="counted", window="RANGE PT120S STEP PT60S"))
    service.register(JOIN)


def test_a_long_life_takes_no_more_bytes_than_a_shorter_one(tmp_path: Path, clock: ManualClock) -> None:
    with opened(tmp_path, clock, retain=Retain(5 * MINUTE, 20 * MINUTE)) as service:
        register(service)
        live(service, clock, range(60))
        early = sizes(service)
        live(service, clock, range(60, 180))
        late = sizes(service)
    for table in TABLES:
        assert late[table] <= 1.5 * early[table] + 20_000, table
    assert 0 < late["slice"] < 20_000


def test_a_query_without_windows_holds_nothing_back(tmp_path: Path, clock: ManualClock) -> None:
    with opened(tmp_path, clock, retain=Retain(snapshots_ms=MINUTE)) as service:
        service.create_stream("s", {})
        service.register("PREFIX : <http://ex/> REGISTER RSTREAM likes AS SELECT ?x { ?x :likes ?y }")
        live(service, clock, range(10))
        assert service.store.oldest() > 50
        assert len(emissions_of(service, "likes")) > 10
        assert service.status()["retention"]["fault"] is None


def test_a_restart_after_collection_says_the_same_as_a_life_without_any(tmp_path: Path) -> None:
    observed: list[dict[str, list[dict[str, Any]]]] = []
    for name, retain, ends in (("whole", FOREVER, [40]), ("cut", Retain(MINUTE, 1 << 40), [7, 8, 19, 30, 40])):
        clock, start = ManualClock(HOUR), 0
        for end in ends:
            with opened(tmp_path / name, clock, retain=retain) as service:
                if start == 0:
                    register(service)
                live(service, clock, range(start, end))
                service.store.fold()
                service.collect()
                start = end
        with opened(tmp_path / name, clock, retain=retain) as service:
            observed.append({query: emissions_of(service, query) for query in ("counted", "joined")})
            if retain is not FOREVER:
                assert service.store.oldest() > 100
    assert len(observed[0]["joined"]) > 50
    assert observed[0] == observed[1]


def test_a_snapshot_that_was_collected_is_gone_and_the_oldest_is_named(tmp_path: Path, clock: ManualClock) -> None:
    with opened(tmp_path, clock, retain=Retain(snapshots_ms=MINUTE)) as service:
        for number in range(20):
            service.update(f"INSERT DATA {{ {triple('a', number)} }}", wait="evaluated")
            clock.advance(10 * SECOND)
        service._engine.merge.flush()
        service.collect()
        oldest = service.store.oldest()
        assert 10 < oldest < 20
        text = "SELECT * { ?s ?p ?o }"
        assert len(service.query(text, snapshot=oldest).columns[0]) == oldest
        with pytest.raises(SnapshotGone, match=f"the oldest one is {oldest}"):
            service.query(text, snapshot=oldest - 1)
        assert service.status()["retention"]["oldest_snapshot"] == oldest


def test_retention_may_be_changed(tmp_path: Path, clock: ManualClock) -> None:
    text = f"PREFIX : <http://ex/> {registration().partition(' AS ')[2]}"
    with opened(tmp_path, clock, retain=Retain(snapshots_ms=HOUR)) as service:
        service.create_stream("s", {"retention": "1s"})
        push(service, "s", 0, triple("a", 1))
        clock.advance(2 * MINUTE)
        service.collect()
        service.change_stream("s", {"retention": "1h"})
        for number in range(1, 10):
            push(service, "s", number * SECOND, triple("a", number))
            clock.advance(2 * MINUTE)
        service.collect()
    with opened(tmp_path, clock, retain=Retain(snapshots_ms=HOUR)) as service:
        assert len(service.query(text, at=5 * SECOND).columns[0]) == 3
        with pytest.raises(SnapshotGone, match="no longer retained"):
            service.query(text, at=SECOND)
        service.change_stream("s", {"retention": "5m"})
        service.collect()
        assert len(service.query(text, at=11 * SECOND).columns[0]) == 2
        with pytest.raises(SnapshotGone, match="no longer retained"):
            service.query(text, at=5 * SECOND)


def hold(service: Service) -> None:
    """The queries hear nothing of what is published."""
    service._engine.inline.head_moved = lambda sn: None  # type: ignore[method-assign]


def let_go(service: Service) -> None:
    del service._engine.inline.head_moved
    service._engine.inline.head_moved(service.head())
    service._engine.merge.wait(service.head(), 10)


def test_what_nobody_reads_may_go_before_the_queries_have_come_that_far(tmp_path: Path, clock: ManualClock) -> None:
    with opened(tmp_path, clock, retain=Retain(timing_bytes=2_000)) as service:
        service.create_stream("unread", {"retention": "1h"})
        service.register(registration(window="RANGE PT1S STEP PT1S"))
        hold(service)
        for number in range(20):
            push(service, "unread", number, *(triple(f"a{n}", n) for n in range(20)), wait="published")
        push(service, "s", 100, triple("a", 1), wait="published")
        push(service, "s", 1_000, triple("b", 1), wait="published")
        assert service.status()["retention"]["collected"]["batches"] > 10
        let_go(service)
        assert [emission["time"] for emission in emissions_of(service)] == [1_000]


def test_a_heartbeat_is_known_however_old_it_is(tmp_path: Path, clock: ManualClock) -> None:
    with opened(tmp_path, clock) as service:
        service.create_stream("s", {"retention": "1ms"})
        service.register(registration(window="RANGE PT1S STEP PT1S"))
        hold(service)
        service.heartbeat("s", 500)
        push(service, "s", 600, triple("a", 1), wait="published")
        clock.advance(MINUTE)
        service.collect()
        let_go(service)
        push(service, "s", 1_000, triple("b", 1))
        assert [emission["time"] for emission in emissions_of(service)] == [1_000]


@pytest.mark.parametrize("restart", [False, True])
def test_what_a_query_read_stays_until_the_others_have_come_to_where_it_was_dropped(
    restart: bool, tmp_path: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(tmp_path, clock) as service:
        for stream in ("s", "t"):
            service.create_stream(stream, {"retention": "1ms"})
        service.register(registration(window="RANGE PT1S STEP PT1S"))
        service.register(registration("other", stream="t", window="RANGE PT1S STEP PT1S"))
        push(service, "t", 100, triple("a", 1))
        hold(service)
        read = push(service, "s", 100, triple("a", 1), wait="published").snapshot
        push(service, "t", 1_000, triple("a", 1), wait="published")
        service.drop_query("q")
        clock.advance(MINUTE)
        if restart:
            service.close()
            with monkeypatch.context() as patched:
                patched.setattr("stream_ext.runners.inline.InlineRunner.head_moved", lambda self, sn: None)
                service = open_service(tmp_path, clock)
            hold(service)
        service.collect()
        let_go(service)
        service.collect()
        assert service.store.horizon(1) > read, "now it may go"
        assert [emission["time"] for emission in emissions_of(service, "other")] == [1_000]
        service.close()


def test_what_came_too_late_stays_until_the_queries_have_come_that_far(tmp_path: Path, clock: ManualClock) -> None:
    with opened(tmp_path, clock) as service:
        service.create_stream("left", {"retention": "1ms"})
        service.create_stream("right", {"retention": "1ms", "idle": "1s"})
        service.register(
            "PREFIX : <http://ex/> REGISTER RSTREAM q AS SELECT ?x FROM NAMED WINDOW :v ON left [RANGE PT1S STEP PT1S] "
            "FROM NAMED WINDOW :w ON right [RANGE PT1S STEP PT1S] WHERE { WINDOW :v { ?x :p 1 } WINDOW :w { ?x :p 2 } }"
        )
        push(service, "right", 100, triple("a", 2))
        push(service, "left", MINUTE, triple("a", 1))
        received = Reader(service, "q")
        clock.advance(2 * SECOND)  # it falls idle
        received.read_to(60)
        assert emissions_of(service)[-1]["time"] == MINUTE
        hold(service)
        late = push(service, "right", 200, triple("a", 2), wait="published")
        assert late.late == 1
        clock.advance(MINUTE)
        service.collect()
        let_go(service)
        push(service, "left", MINUTE + SECOND, triple("a", 1))
        push(service, "right", MINUTE + SECOND, triple("a", 2))
        assert emissions_of(service)[-1]["time"] == MINUTE + SECOND


def test_elements_go_when_neither_a_window_nor_the_retention_needs_them(tmp_path: Path, clock: ManualClock) -> None:
    with opened(tmp_path, clock, retain=Retain(snapshots_ms=0)) as service:
        service.create_stream("s", {"retention": "20s"})
        for number in range(6):
            push(service, "s", number * 10 * SECOND, triple("a", number))
            clock.advance(10 * SECOND)
        service.collect()
        assert rows(service, "slice") == 2, "of the last 20 s"
        service.register(registration(window="RANGE PT1M STEP PT10S"))
        for number in range(6, 30):
            push(service, "s", number * 10 * SECOND, triple("a", number))
            clock.advance(10 * SECOND)
        service.collect()
        assert 6 <= rows(service, "slice") <= 8, "those of the window, and the step before it"
        assert service.status()["retention"]["collected"]["batches"] >= 22
        service.drop_query("q")
        clock.advance(HOUR)
        service.collect()
        assert rows(service, "slice") == 0


def test_a_window_that_reaches_back_to_what_is_gone_is_not_answered_from_the_rest(
    tmp_path: Path, clock: ManualClock
) -> None:
    asked = registration().partition(" AS ")[2]
    text = f"PREFIX : <http://ex/> {asked}"
    with opened(tmp_path, clock, retain=Retain(snapshots_ms=HOUR)) as service:
        service.create_stream("s", {"retention": "10s"})
        for number in range(10):
            push(service, "s", number * SECOND, triple("a", number))
            clock.advance(2 * SECOND)
        service.collect()
        assert len(service.query(text, at=9 * SECOND).columns[0]) == 3
        with pytest.raises(SnapshotGone, match="no longer retained"):
            service.query(text, at=4 * SECOND)


def test_what_retention_by_itself_holds_goes_first_when_the_budget_is_full(tmp_path: Path, clock: ManualClock) -> None:
    with opened(tmp_path, clock, retain=Retain(0, timing_bytes=8_000)) as service:
        service.create_stream("unread", {"retention": "1h"})
        service.create_stream("s", {"retention": "1h"})
        service.register(registration(window="RANGE PT5S STEP PT1S"))
        for number in range(60):
            push(service, "unread", number * SECOND, *(triple(f"a{number}", i) for i in range(20)))
            push(service, "s", number * SECOND, *(triple(f"b{number}", i) for i in range(20)))
            clock.advance(SECOND)
        service.collect()
        status = service.status()["retention"]
        assert 2_000 < status["timing_bytes"] <= 8_000
        assert not status["full"]
        assert len(emissions_of(service)[-1]["results"]["bindings"]) == 100, "windows lose nothing"


def test_when_windows_by_themselves_fill_the_budget_pushes_wait_until_they_have_moved(
    tmp_path: Path, clock: ManualClock
) -> None:
    with opened(tmp_path, clock, retain=Retain(0, timing_bytes=4_000)) as service:
        service.create_stream("s", {"retention": "1s"})
        service.create_stream("absorbed", {"timeless": True})
        service.register(registration(window="RANGE PT60S STEP PT1S"))
        pushed = 0
        with pytest.raises(Overload, match="--timing-bytes 4000"):
            for number in range(60):
                push(service, "s", number * SECOND, *(triple(f"b{number}", i) for i in range(20)))
                pushed += 1
        assert 5 < pushed < 60
        assert service.status()["retention"]["full"]
        push(service, "absorbed", 1, triple("c", 1))
        service.heartbeat("s", 200 * SECOND, wait="evaluated")
        clock.advance(10 * SECOND)
        service.collect()
        assert push(service, "s", 201 * SECOND, triple("b", 1)).accepted == 1


def test_emissions_are_retained_for_their_time_and_then_reported_to_be_gone(tmp_path: Path, clock: ManualClock) -> None:
    with opened(tmp_path, clock, retain=Retain(emissions_ms=MINUTE)) as service:
        service.register(registration(window="RANGE PT1S STEP PT1S"))
        expected: list[Any] = []
        for number in range(600):
            push(service, "s", number * SECOND, triple("a", number))
            clock.advance(SECOND)
            if number % 30 == 29:
                expected += emissions_of(service, since=len(expected))
        service.collect()
        status = service.query_status("q")
        oldest, last = status["oldest_emission"], status["emissions"]
        assert (last, 59 <= last - oldest <= 61) == (599, True)
        remembered = service._engine.emissions._recent
        assert [number for _, number in remembered] == [*range(oldest, last + 1)]
        assert service._engine.emissions._recent_bytes == sum(map(subscriptions._size, remembered.values()))
        service._engine.emissions._recent.clear()  # what is remembered is not what is stored
        assert emissions_of(service) == expected[oldest - 1 :], "after 0: from the oldest that there is"
        assert emissions_of(service, since=oldest) == expected[oldest:]
        with pytest.raises(Gone, match=f"the oldest is {oldest}"):
            service.emissions("q", since=oldest - 2)
        assert rows(service, "emission") == last - oldest + 1
        assert rows(service, "commit") < 130
    with opened(tmp_path, clock, retain=Retain(emissions_ms=MINUTE)) as service:
        assert service.query_status("q")["oldest_emission"] == oldest
        service.drop_query("q")
        service.update(f"INSERT DATA {{ {triple('x', 1)} }}", wait="evaluated")
        service._engine.merge.flush()
        service.collect()
        assert rows(service, "emission") == 0


def test_with_no_retention_what_no_window_wants_is_counted_and_not_stored(tmp_path: Path, clock: ManualClock) -> None:
    with opened(tmp_path, clock) as service:
        service.create_stream("s", {"retention": 0, "timeless": ["http://ex/kept"]})
        receipt = push(service, "s", SECOND, triple("a", 1), triple("b", 2, "kept"))
        assert (receipt.accepted, rows(service, "slice")) == (1, 0)
        push(service, "s", 2 * SECOND, triple("a", 1))
        assert (rows(service, "slice"), dict(service._injector.dropped)) == (0, {service.stream("s").number: 1})
        assert len(service.query("SELECT * { ?s ?p ?o }").columns[0]) == 1
        service.register(registration())
        push(service, "s", 3 * SECOND, triple("a", 3))
        push(service, "s", 4 * SECOND, triple("b", 4))
        assert rows(service, "slice") == 2
        assert emissions_of(service)[-1]["time"] == 4 * SECOND


def test_alarms_let_go_by_themselves(tmp_path: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(tmp_path, clock, retain=Retain(snapshots_ms=0)) as service:
        floors: Queue[int] = Queue()
        floor = service.store.floor
        monkeypatch.setattr(service.store, "floor", lambda sn, horizons: (floor(sn, horizons), floors.put(sn)))
        for number in range(5):
            service.update(f"INSERT DATA {{ {triple('a', number)} }}", wait="evaluated")
        service._engine.merge.flush()
        clock.advance(10 * SECOND)
        assert floors.get(timeout=PATIENCE_S) == 5
        clock.advance(10 * SECOND)
        assert floors.get(timeout=PATIENCE_S) == 5
        assert service.status()["retention"]["oldest_snapshot"] == 5


def test_what_comes_before_a_windows_first_instance_is_held_for_no_query(tmp_path: Path, clock: ManualClock) -> None:
    """Such arrivals make no evaluation, so the query is never evaluated; nor is one that waits for a silent stream."""
    late = 1000 * SECOND
    with opened(tmp_path, clock, retain=Retain(0)) as service:
        service.register(registration("a", window=f"RANGE PT5S STEP PT1S T0 {late} REPORT CONTENT_CHANGE"))
        service.register(
            f"PREFIX : <http://ex/> REGISTER RSTREAM b AS SELECT ?x ?y FROM NAMED WINDOW :w ON s [RANGE 5s STEP 1s T0 "
            f"{late}] FROM NAMED WINDOW :v ON silent [RANGE 5s STEP 1s T0 {late}] WHERE {{ WINDOW :w {{ ?x :p ?y }} }}"
        )
        for number in range(200):
            push(service, "s", number * SECOND, triple("a", number))
            clock.advance(SECOND)
        service.collect()
        assert rows(service, "slice") <= 70, "those of the stream's own retention"
        push(service, "s", late - 3 * SECOND, triple("a", 1))
        clock.advance(HOUR)
        push(service, "s", late + 500, triple("a", 2))
        service.collect()
        assert [len(each["results"]["bindings"]) for each in emissions_of(service, "a")] == [1, 2]
        push(service, "silent", late + SECOND, triple("a", 2))
        push(service, "s", late + SECOND, triple("a", 3))
        assert [(each["time"], len(each["results"]["bindings"])) for each in emissions_of(service, "b")] == [
            (late + SECOND, 2)
        ]


def test_the_status_says_which_query_holds_the_elements_of_a_stream(tmp_path: Path, clock: ManualClock) -> None:
    def held_by() -> dict[str, str | None]:
        service.collect()
        return {name: each["held_by"] for name, each in service.status()["retention"]["streams"].items()}

    with opened(tmp_path, clock, retain=Retain(0)) as service:
        service.create_stream("s", {"retention": "1s"})
        service.register(registration("short", window="RANGE PT5S STEP PT1S"))
        push(service, "s", SECOND, triple("a", 1))
        clock.advance(MINUTE)
        push(service, "s", 2 * SECOND, triple("a", 2))
        assert held_by() == {"s": "short"}
        service.register(
            "PREFIX : <http://ex/> REGISTER RSTREAM waits AS SELECT ?x FROM NAMED WINDOW :w ON s [RANGE 1s STEP 1s] "
            "FROM NAMED WINDOW :v ON silent [RANGE 1s STEP 1s] WHERE { WINDOW :w { ?x :p ?y } }"
        )
        for number in range(100, 110):
            push(service, "s", number * SECOND, triple("a", number))
            clock.advance(SECOND)
        assert held_by() == {"s": "waits"}
        clock.advance(MINUTE)
        service.drop_query("waits")
        assert held_by()["s"] == "short"


def test_what_a_paused_query_saw_is_asked_again_as_long_as_it_is_there(tmp_path: Path, clock: ManualClock) -> None:
    with opened(tmp_path, clock, retain=Retain(snapshots_ms=MINUTE)) as service:
        service.create_stream("s", {"retention": "30s"})
        window = "RANGE PT10S STEP PT1S"
        service.register(registration("a", window=window, r2s="ISTREAM"))
        service.register(registration("b", window=window, r2s="ISTREAM", pattern="?x :p ?y } { ?x :likes ?z"))
        service.update(f"INSERT DATA {{ {triple('x', 'z', 'likes')} }}")
        for second in range(4):
            push(service, "s", second * SECOND, triple("x", second))
        for name in "ab":
            service.pause_query(name)
            assert service.latest(name).count == 3
        service.update(f"DELETE DATA {{ {triple('x', 'z', 'likes')} }}")
        clock.advance(10 * MINUTE)
        push(service, "s", 10 * MINUTE, triple("x", 5))
        service.collect()
        for name in "ab":
            with pytest.raises(SnapshotGone):
                service.latest(name)
            with pytest.raises(Gone, match="cannot be made again"):
                service.emission_again(name, 2)
            service.resume_query(name)
            with pytest.raises(SnapshotGone):
                service.latest(name)
        push(service, "s", 11 * MINUTE, triple("x", 6))
        push(service, "s", 12 * MINUTE, triple("x", 7))
        assert [service.latest(name).count for name in "ab"] == [0, 0]


def test_an_emission_is_not_made_again_from_what_is_left_of_its_window(tmp_path: Path, clock: ManualClock) -> None:
    with opened(tmp_path, clock) as service:
        service.create_stream("s", {"retention": "30s"})
        service.register(registration("a", window="RANGE PT10S STEP PT1S"))
        for second in range(4):
            push(service, "s", second * SECOND, triple("x", second))
        assert json.loads(service.emission_again("a", 3)) == emissions_of(service, "a")[2]
        service.pause_query("a")
        clock.advance(MINUTE)
        push(service, "s", MINUTE, triple("x", 5))
        service.collect()
        assert service.status()["retention"]["collected"]["batches"] > 0, "else this proves nothing"
        with pytest.raises(Gone, match="cannot be made again"):
            service.emission_again("a", 3)


@pytest.mark.parametrize("lateness", ["0s", "60s"])
def test_each_emission_is_made_again_while_its_snapshot_is_retained(
    lateness: str, tmp_path: Path, clock: ManualClock
) -> None:
    """Also those of the first minutes, and those whose window waited for late elements."""
    with opened(tmp_path, clock, retain=Retain(snapshots_ms=2 * MINUTE)) as service:
        service.create_stream("s", {"retention": "0s"})
        service.register(registration(window=f"RANGE PT20S STEP PT10S LATENESS {lateness}"))
        for number in range(30):
            clock.advance(10 * SECOND)
            push(service, "s", number * 10 * SECOND, triple(f"a{number}", number))
            service.collect()
            oldest = service.status()["retention"]["oldest_snapshot"]
            for emission in emissions_of(service):
                if emission["snapshot"] >= oldest:
                    again = json.loads(service.emission_again("q", emission["emission"]))
                    assert values(again) == values(emission)
        assert service.status()["retention"]["collected"]["batches"] > 0, "else this proves nothing"


def test_a_writer_that_takes_no_change_is_shown_as_a_fault_until_it_does(
    tmp_path: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(tmp_path, clock) as service:
        retention = service._engine.retention
        submit = retention._submit

        def refused(change: Change) -> Future[Any]:
            raise Overload("9 requests are waiting to be written", 1)

        monkeypatch.setattr(retention, "_submit", refused)
        clock.advance(MINUTE)
        until(lambda: service.status()["retention"]["fault"] == "9 requests are waiting to be written", "the fault")
        monkeypatch.setattr(retention, "_submit", submit)
        clock.advance(MINUTE)
        until(lambda: service.status()["retention"]["fault"] is None, "the end of the fault")


def test_closes_that_waited_for_long_while_arrivals_were_evaluated_find_the_store_as_it_is(tmp_path: Path) -> None:
    """Each of the two has a network, and the one of the closes saw the store at the first close only."""
    text = (
        f"PREFIX : <{EX}> REGISTER ISTREAM q AS SELECT DISTINCT ?x ?z FROM NAMED WINDOW :w ON s "
        "[RANGE PT60S STEP PT10S T0 0 REPORT CONTENT_CHANGE, WINDOW_CLOSE] "
        "WHERE { WINDOW :w { ?x :p ?y } ?x :likes ?z }"
    )

    def observed(folder: Path, retain: Retain) -> list[tuple[int, list[tuple[str, ...]]]]:
        clock = ManualClock(HOUR)
        with opened(folder, clock, retain=retain) as service:
            service.register(text)
            for second in (1, 12, 13, 14, 25):
                push(service, "s", second * SECOND, triple("a", second))
                service.update(f"INSERT DATA {{ {triple('a', f'z{second}', 'likes')} }}", wait="evaluated")
                clock.advance(MINUTE)
                service.collect()
            assert service.why_not_evaluated("q") is None
            return [(each["time"], values(each)) for each in emissions_of(service)]

    found = observed(tmp_path / "short", Retain(snapshots_ms=SECOND, emissions_ms=1 << 40))
    assert found == observed(tmp_path / "long", FOREVER)
    assert found[-2:] == [(20_000, [("a", "z14")]), (25_000, [])]
