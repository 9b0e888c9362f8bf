"""A service that is not the writer any more reads on, and writes again once it may: from what the store says then."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

from endpoint.trial_hbase.server import HBase
from hbase_store import Store
from hbase_store.backends.hbase import HBaseKeyValue
from hbase_store.backends.lease import LEASE_MS, Leasing
from hbase_store.backends.lmdb import LmdbKeyValue
from stream_ext.catalog.catalog import Catalog
from stream_ext.clock import ManualClock
from stream_ext.errors import DeadlineExceeded, NotWriter, OutcomeUnknown
from stream_ext.remote.allowed_urls import NOTHING
from stream_ext.service.service import Limits, Service
from stream_ext.service.standby import LOOK_MS
from stream_ext.upkeep.retention import Retain, Retention
from stream_ext.writer.write_queue import PublishingPace
from tests.hbase_store import faulty
from tests.hbase_store.faulty import Leased
from tests.stream_ext.opened import BASE, Reader, emissions_of, push, registration, times, triple

T = TypeVar("T")
PATIENCE_S = 60.0


def service_over(kv: Leasing, clock: ManualClock, address: str) -> Service:
    store = Store(kv, "shared", clock, folding=False)
    store.take_lease(address)
    store.emissions.take_over()
    return Service(store, BASE, clock, PublishingPace(0, 0), Limits(), None, Retain(), NOTHING)


class World:
    """Some services of one store, each as if it were in a process of its own: with a clock and a lease of its own."""

    def __init__(self, folder: Path) -> None:
        self.kv = Leased(LmdbKeyValue(folder / "store"))
        self.services: list[Service] = []

    def service(self, clock: ManualClock, address: str) -> Service:
        self.services.append(service_over(self.kv, clock, address))
        return self.services[-1]

    def close(self) -> None:
        self.kv.repair()
        for service in self.services:
            service.close()
        self.kv._inner.close()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path)
    yield world
    world.close()


def answered(act: Callable[[], T], clock: ManualClock) -> T:
    """As a client who sends a request again while he is told that nothing of it was done."""
    give_up = time.monotonic() + PATIENCE_S
    while True:
        try:
            return act()
        except NotWriter:
            assert time.monotonic() < give_up, "it is still not the writer"
            clock.advance(LOOK_MS)
            time.sleep(0.001)  # its thread works


def advance_until(condition: Callable[[], bool], clock: ManualClock) -> None:
    """Time passes while it waits."""
    give_up = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < give_up
        clock.advance(LOOK_MS)
        time.sleep(0.001)


def one(service: Service, seq: int, **named: Any) -> tuple[int, bool]:
    """A push of one element at second `seq`: the stream's batch, and whether it was there already."""
    receipt = push(service, "s", seq * 1_000, triple("a", seq), source="sensor", seq=seq, **named)
    return receipt.batch, receipt.repeated


def test_a_server_that_slept_while_another_wrote_continues_from_what_that_one_wrote(world: World) -> None:
    check_that_a_sleeper_continues(world.service)


@pytest.mark.hbase
@pytest.mark.xdist_group("hbase")
def test_a_server_that_slept_continues_over_a_real_hbase(hbase_server: HBase) -> None:
    namespace = f"standby_{uuid.uuid4().hex[:8]}"
    services: list[Service] = []

    def service(clock: ManualClock, address: str) -> Service:
        services.append(service_over(HBaseKeyValue("127.0.0.1", hbase_server.thrift_port, namespace), clock, address))
        return services[-1]

    try:
        check_that_a_sleeper_continues(service)
    finally:
        for opened in services:
            opened.close()


def check_that_a_sleeper_continues(service: Callable[[ManualClock, str], Service]) -> None:
    asleep, awake = ManualClock(1_000_000), ManualClock(1_000_000)
    a = service(asleep, "http://a")
    a.register(registration())
    reader = Reader(a, "q")
    assert [one(a, 1), one(a, 2)] == [(1, False), (2, False)]
    awake.advance(LEASE_MS)
    b = service(awake, "http://b")
    assert [one(b, 3), one(b, 4)] == [(3, False), (4, False)]
    before = emissions_of(b)
    b.close()
    asleep.advance(2 * LEASE_MS)
    assert answered(lambda: one(a, 4), asleep) == (4, True), "an acknowledged push counts once"
    assert answered(lambda: one(a, 5), asleep) == (5, False)
    status = a.stream_status("s")
    assert (status["time"], status["batches"]) == (5_000, 5)
    assert emissions_of(a)[: len(before)] == before
    assert times(emissions_of(a)) == sorted(set(times(emissions_of(a))))
    assert reader.read_to(len(emissions_of(a))) == list(range(1, len(emissions_of(a)) + 1)), (
        "who listens goes on after the last number"
    )
    assert a.status()["waits_for"] == []
    assert a.status()["writer"]["fault"] is None


def test_a_server_that_is_not_the_writer_reads_what_the_writer_publishes(world: World) -> None:
    asleep, awake = ManualClock(1_000_000), ManualClock(1_000_000)
    a = world.service(asleep, "http://a")
    a.register(registration())
    one(a, 1)
    awake.advance(LEASE_MS)
    b = world.service(awake, "http://b")
    asleep.advance(LEASE_MS)
    advance_until(lambda: a.status()["waits_for"] != [], asleep)
    (waits,) = a.status()["waits_for"]
    assert waits["kind"] == "lease"
    assert "send writes to http://b" in str(waits["why"])
    update = f"INSERT DATA {{ {triple('x', 7)} }}"
    with pytest.raises(NotWriter, match="Nothing of this request was applied"):
        a.update(update)
    assert b.update(update).snapshot == a.head() + 1
    b.register(registration("r"))
    advance_until(lambda: a.head() == b.head(), asleep)
    assert a.query("SELECT * { ?s ?p ?o }").count == 1
    assert {query.name for query in a.queries()} == {"q", "r"}
    b.close()
    assert answered(lambda: one(a, 2), asleep) == (2, False)
    assert (times(emissions_of(a, "q")), times(emissions_of(a, "r"))) == ([2_000], [2_000])


def test_an_outage_longer_than_anybody_waits_ends_by_itself(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stream_ext.retry._GIVE_UP_MS", 0)
    clock = ManualClock(1_000_000)
    service = world.service(clock, "http://a")
    service.register(registration())
    reader = Reader(service, "q")
    one(service, 1)
    world.kv.fault = faulty.applied_then_unreachable
    with pytest.raises(OutcomeUnknown, match="a push with source and seq can safely be sent again"):
        one(service, 2)
    advance_until(lambda: any(wait["kind"] == "store" for wait in service.status()["waits_for"]), clock)
    assert service.query("ASK {}", snapshot=1).boolean, "what is known is answered"
    with pytest.raises(NotWriter, match="nobody answers"):
        one(service, 2)
    world.kv.repair()
    assert answered(lambda: one(service, 2), clock) == (2, True), "it did count"
    assert answered(lambda: one(service, 3), clock) == (3, False)
    assert service.status()["waits_for"] == []
    assert reader.read_to(len(emissions_of(service))) == list(range(1, len(emissions_of(service)) + 1))


def test_an_idle_server_says_that_its_store_is_away(world: World) -> None:
    clock = ManualClock(1_000_000)
    service = world.service(clock, "http://a")
    world.kv.deaf = True
    advance_until(lambda: [wait["why"] for wait in service.status()["waits_for"]] == ["nobody answers"], clock)
    world.kv.deaf = False
    advance_until(lambda: service.status()["waits_for"] == [], clock)
    service.create_stream("s", {})


@pytest.mark.parametrize("fault", [faulty.unreachable, faulty.applied_then_unreachable])
def test_a_way_back_that_fails_half_way_is_gone_again(
    world: World, fault: Callable[..., bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    asleep, awake = ManualClock(1_000_000), ManualClock(1_000_000)
    a = world.service(asleep, "http://a")
    a.register(registration())
    one(a, 1)
    awake.advance(LEASE_MS)
    b = world.service(awake, "http://b")
    one(b, 2)
    b.close()

    def at_the_head(kv: Any, stages: Any, compare_and_set: Any) -> bool:
        if compare_and_set.key != key:
            return bool(kv.publish_unharmed(stages, compare_and_set))
        return fault(kv, stages, compare_and_set)

    for key in (b"head", b"emitted"):
        world.kv.fault = at_the_head
        asleep.advance(2 * LEASE_MS)
        advance_until(lambda: any(wait["kind"] == "store" for wait in a.status()["waits_for"]), asleep)
        world.kv.repair()
        assert answered(lambda: one(a, 2), asleep) == (2, True)
        if key == b"head":  # once more, on the way to the emission log
            a.store.resign()
    assert answered(lambda: one(a, 3), asleep) == (3, False)


def test_a_beginning_that_fails_is_made_again_and_who_listens_stays(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = ManualClock(1_000_000)
    service = world.service(clock, "http://a")
    service.register(registration())
    one(service, 1)
    reader = Reader(service, "q")
    begins = Retention.start

    def fails(retention: Retention, catalog: Catalog) -> None:
        monkeypatch.setattr(Retention, "start", begins)
        raise faulty.StoreUnavailable("the region moves")

    monkeypatch.setattr(Retention, "start", fails)
    service.store.resign()
    assert answered(lambda: one(service, 2), clock) == (2, False)
    assert Retention.start is begins, "it has failed once"
    assert answered(lambda: one(service, 3), clock) == (3, False)
    assert reader.read_to(2) == [1, 2]
    assert service.status()["waits_for"] == []


def test_queries_whose_emissions_cannot_be_stored_continue_when_they_can_be(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stream_ext.retry._GIVE_UP_MS", 0)
    clock = ManualClock(1_000_000)
    service = world.service(clock, "http://a")
    service.register(registration())
    one(service, 1)

    def full(kv: Any, stages: Any, compare_and_set: Any) -> bool:
        if compare_and_set.key == b"emitted":
            raise faulty.StoreUnavailable("no room is left")
        return bool(kv.publish_unharmed(stages, compare_and_set))

    world.kv.fault = full
    pushed = push(service, "s", 2_000, triple("a", 2), source="sensor", seq=2)
    assert (pushed.accepted, pushed.pending) == (1, True), "it is published"
    with pytest.raises(
        DeadlineExceeded, match="snapshot 3 is published, but this server cannot wait for its evaluation"
    ):
        service._engine.await_evaluated(3, 10)
    world.kv.repair()
    assert answered(lambda: one(service, 2), clock) == (2, True)
    assert answered(lambda: one(service, 3), clock) == (3, False)
    assert times(emissions_of(service)) == [2_000, 3_000]
