"""How many calls a push makes of HBase, listeners included: on a pretended Thrift server, which counts them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from hbase_store import Store
from stream_ext.clock import ManualClock
from stream_ext.remote.allowed_urls import NOTHING
from stream_ext.service.service import Limits, Service
from stream_ext.upkeep.retention import Retain
from stream_ext.writer.write_queue import PublishingPace
from tests.hbase_store.pretended_hbase import PretendedHBase
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
