"""How many calls a push makes of HBase, listeners included: on a pretended Thrift server, which counts them."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from hbase_store import Store
from hbase_store.errors import NotInMemory
from hbase_store.memory_only import memory_only
from stream_ext.clock import ManualClock
from stream_ext.remote.allowed_urls import NOTHING
from stream_ext.service.service import Limits, Service
from stream_ext.upkeep.retention import Retain
from stream_ext.writer.write_queue import PublishingPace
from tests.hbase_store.pretended_hbase import PretendedHBase
from tests.parts.waiting import until
from tests.stream_ext.opened import BASE, Reader, push, registration, triple

#: Rows of slice and sn, the head; emission and commit, the head of the emissions; and one more, now and then.
A_PUSH = 8


@pytest.fixture
def hbase() -> PretendedHBase:
    return PretendedHBase()


@pytest.fixture
def service(hbase: PretendedHBase, monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    clock = ManualClock(1_000_000)
    store = Store(hbase.backend(monkeypatch), "pretended", clock, folding=False)
    store.take_lease("")
    store.emissions.take_over()
    service = Service(store, BASE, clock, PublishingPace(0, 0), Limits(), None, Retain(), NOTHING)
    yield service
    service.close()


@pytest.mark.parametrize(
    "texts",
    [
        [registration()],
        [registration(), registration("r")],  # what they say together is one record
    ],
)
def test_listeners_cost_no_calls(service: Service, hbase: PretendedHBase, texts: list[str]) -> None:
    for text in texts:
        service.register(text)
    push(service, "s", 1_000, triple("a", 1))
    push(service, "s", 2_000, triple("a", 2))
    readers = [Reader(service, name) for name in ("q", "r")[: len(texts)] for _ in range(10)]
    for reader in readers:
        assert reader.read_to(1) == [1]
    for number in range(2, 7):  # collection scans from time to time, listeners would at each emission
        for reader in readers:
            reader.forget()
        with hbase.counted():
            push(service, "s", (number + 1) * 1_000, triple("a", number + 1))
            for reader in readers:
                reader.wait()  # who reads what is stored and not in memory yet scans: a matter of microseconds
                assert reader.read_to(number) == [*range(1, number + 1)]
                assert reader.subscription.take() == []
        if hbase.calls["scannerOpenWithScan"] == 0:
            break
    assert hbase.calls["scannerOpenWithScan"] == 0, "they are told from memory"
    assert hbase.calls.total() <= A_PUSH, hbase.calls


def test_a_service_on_hbase_reads_its_store_when_it_starts(
    hbase: PretendedHBase, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    triples = " . ".join(f"<http://ex/{i}> <http://ex/knows> <http://ex/{i + 1}>" for i in range(300))
    text = "SELECT ?a ?c { ?a <http://ex/knows> ?b . ?b <http://ex/knows> ?c }"

    def opened(read_ahead: int) -> Service:
        store = Store(hbase.backend(monkeypatch), "pretended", ManualClock(1_000_000), folding=False)
        store.take_lease("")
        store.emissions.take_over()
        clock, pace = ManualClock(1_000_000), PublishingPace(0, 0)
        return Service(store, BASE, clock, pace, Limits(), None, Retain(), NOTHING, read_ahead=read_ahead)

    def rows(service: Service) -> list[tuple[bytes | None, ...]]:
        with hbase.counted():
            return service.decode(service.query(text))

    with opened(read_ahead=0) as service:
        service.update(f"INSERT DATA {{ {triples} }}")
        service.store.fold()
    with opened(read_ahead=0) as service:
        assert len(rows(service)) == 299
        assert hbase.calls["getRowsWithColumns"] > 2
    with caplog.at_level(logging.INFO, "rillet.store"), opened(read_ahead=64 << 20) as service:
        until(lambda: "read ahead with" in caplog.text, "the store is not read ahead")
        assert len(rows(service)) == 299
        assert hbase.calls["getRowsWithColumns"] <= 1, "the head, and nothing of what is in the store"


def test_what_is_in_memory_of_a_store_on_hbase_is_answered_by_who_must_not_wait(
    service: Service, hbase: PretendedHBase
) -> None:
    names = " . ".join(f"<http://ex/{i}> <http://ex/name> 'a name that is no part of an id, {i}'" for i in range(300))
    service.update(f"INSERT DATA {{ {names} }}")
    service.store.fold()
    for asked in (7, 8, 7, 8, 9):
        text = f"SELECT ?n {{ <http://ex/{asked}> <http://ex/name> ?n }}"
        answer = service.query(text)
        assert service.decode(answer) == [(f'"a name that is no part of an id, {asked}"'.encode(),)]
    with memory_only(), hbase.counted():
        question = service.question("SELECT ?n { <http://ex/8> <http://ex/name> ?n } # again")
        assert service.is_ready(question)
        assert service.decode(service.query(question)) == [(b'"a name that is no part of an id, 8"',)]
    assert hbase.calls.total() == 0
    with memory_only(), pytest.raises(NotInMemory):
        service.store.refresh()
