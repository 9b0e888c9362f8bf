"""Several Thrift servers of one HBase, calls at the same time, and what calls are made for."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import pytest

from endpoint.trial_hbase.server import HBase
from hbase_store.backends import thrift_connections
from hbase_store.backends.calls import purpose, purposes
from hbase_store.backends.hbase import HBaseKeyValue
from hbase_store.backends.in_parallel import InParallel
from hbase_store.backends.keyvalue import CompareAndSet, Put
from hbase_store.backends.thrift_connections import IDLE_S_MAX, ConnectionDied, Connections
from hbase_store.errors import BadStoreUrl, StoreUnavailable
from hbase_store.opening import place_of
from tests.hbase_store.pretended_hbase import PretendedHBase, _Connection
from tests.parts.waiting import PATIENCE_S

SERVERS = [("one", 1), ("two", 2), ("three", 3)]


class Cluster:
    """One HBase behind several Thrift servers, some of which are down."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.hbase = PretendedHBase()
        self.down: set[tuple[str, int]] = set()
        self.connected: list[tuple[str, int]] = []

        def connect(_: object, server: tuple[str, int]) -> Any:
            if server in self.down:
                raise StoreUnavailable(f"no HBase Thrift server answers at {server[0]}:{server[1]}")
            self.connected.append(server)
            return _Connection(self.hbase)

        monkeypatch.setattr(thrift_connections.Connections, "_connect", connect)

    def backend(self) -> HBaseKeyValue:
        return HBaseKeyValue(*SERVERS[0], "rillet", others=SERVERS[1:])


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    return Cluster(monkeypatch)


def at_the_same_time(connections: Connections, calls: int) -> list[object]:
    """The clients that so many calls have, none of which ends before all have begun."""
    barrier = threading.Barrier(calls, timeout=PATIENCE_S)

    def verb(client: object) -> object:
        barrier.wait()
        return client

    with ThreadPoolExecutor(calls) as pool:
        return list(pool.map(lambda _: connections.call(verb), range(calls)))


def test_calls_at_the_same_time_are_spread_over_the_servers(cluster: Cluster) -> None:
    backend = cluster.backend()
    at_the_same_time(backend._connections, 5)
    assert set(cluster.connected) == set(SERVERS)
    assert backend.where == "hbase://one:1,two:2,three:3/rillet"
    assert backend.health() == [("one:1", True), ("two:2", True), ("three:3", True)]


def test_there_are_as_many_connections_as_calls_at_a_time(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """And not as many as threads: each occupies a thread of a Thrift server for as long as it is open."""
    connections = Connections(SERVERS, 1000)
    for calls in (1, 4, 2, 4):
        clients = at_the_same_time(connections, calls)
        assert len(set(map(id, clients))) == calls
    for _ in range(50):
        with ThreadPoolExecutor(1) as a_thread_of_its_own:
            a_thread_of_its_own.submit(connections.call, lambda client: client).result()
    assert len(cluster.connected) == 4
    now_s = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now_s + IDLE_S_MAX + 1)
    (fresh,) = at_the_same_time(connections, 1)
    assert len(cluster.connected) == 5
    assert fresh.is_open and not any(client.is_open for client in clients)  # type: ignore[attr-defined]


def test_reads_wait_for_one_another_but_neither_writes_nor_the_head(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = cluster.backend()
    monkeypatch.setattr(backend, "_connections", Connections(SERVERS, 100, reads_max=2))
    backend.put_many([Put("sn", b"key", b"value", 1)])
    with backend._connections.reading(), backend._connections.reading():
        with pytest.raises(StoreUnavailable, match="one of 2 reads within 100 ms"):
            backend.get_many("sn", [b"key"])
        backend.put_many([Put("sn", b"another key", b"value", 1)])
        assert backend.get_many("meta", [b"head"]) == [None]
    assert backend.get_many("sn", [b"key", b"another key"]) == [b"value", b"value"]


def test_a_server_that_breaks_one_connection_off_is_not_tried_by_the_others(cluster: Cluster) -> None:
    connections = Connections(SERVERS, 1000)
    at_the_same_time(connections, 6)
    broken = cluster.connected[0]

    def fails(client: object) -> None:
        raise OSError("the connection was reset")

    while dict(connections.health())[f"{broken[0]}:{broken[1]}"]:
        with pytest.raises(ConnectionDied):
            connections.call(fails)
    connected = len(cluster.connected)
    assert not any(connection.server == broken for connection in connections._idle)
    at_the_same_time(connections, 6)
    assert broken not in cluster.connected[connected:]


def test_a_call_whose_server_breaks_off_is_made_again_by_another(cluster: Cluster) -> None:
    backend = cluster.backend()
    backend.put_many([Put("sn", b"key", b"value", 1)])
    broken: list[str] = []

    def breaks_off(verb: str) -> None:
        if not broken:
            broken.append(verb)
            cluster.down.add(cluster.connected[0])
            raise OSError("the connection was reset")

    first = cluster.connected[0]
    cluster.hbase.fault = breaks_off
    assert backend.get_many("sn", [b"key"]) == [b"value"]
    assert broken and cluster.connected[-1] != first
    assert dict(backend.health())[f"{first[0]}:{first[1]}"] is False


def test_no_server_that_answers_is_an_error_that_names_one(cluster: Cluster) -> None:
    cluster.down.update(SERVERS)
    with pytest.raises(StoreUnavailable, match="no HBase Thrift server answers at one:1"):
        cluster.backend()


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("hbase://h/ns", ([("h", 9090)], "ns")),
        ("hbase://h:1,i,j:3/mine:ns", ([("h", 1), ("i", 9090), ("j", 3)], "mine:ns")),
    ],
)
def test_an_address_may_name_several_servers(url: str, place: object) -> None:
    found = place_of(url)
    assert (found.servers, found.namespace) == place


@pytest.mark.parametrize("url", ["hbase://h:1,/ns", "hbase:///ns", "hbase://h", "hbase://h:x/ns"])
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(BadStoreUrl):
        place_of(url)


def test_an_address_without_a_namespace_is_completed() -> None:
    with pytest.raises(BadStoreUrl, match=r"no namespace.* write hbase://h:9090/rillet, for example"):
        place_of("hbase://h:9090")


def test_a_store_that_is_there_is_opened_without_listing_or_creating_tables(cluster: Cluster) -> None:
    cluster.backend().close()
    with cluster.hbase.counted():
        cluster.backend().close()
    assert dict(cluster.hbase.calls) == {"getRowsWithColumns": 1}


def test_a_publish_takes_a_call_for_each_table_and_one_for_the_cell(cluster: Cluster) -> None:
    backend = cluster.backend()
    rows = [Put(table, key, b"v", 1) for table, key in (("slab", b"1"), ("slab", b"2"), ("slice", b"3"))]
    stages = [rows, [Put("sn", b"4", b"v", 1)]]
    before = {each.name: (each.begun, each.calls, each.seconds) for each in purposes()}.get("a test", (0, 0, 0.0))
    with cluster.hbase.counted(), purpose("a test") as tally:
        assert backend.publish(stages, CompareAndSet(b"cell", None, b"1"))
    assert tally.calls == cluster.hbase.calls.total() == 4
    after = {each.name: (each.begun, each.calls, each.seconds) for each in purposes()}["a test"]
    assert after[:2] == (before[0] + 1, before[1] + 4)
    assert after[2] - before[2] == pytest.approx(tally.seconds) and tally.seconds > 0


def test_calls_at_the_same_time_have_all_ended_before_the_first_error_is_raised() -> None:
    parallel, ended, began = InParallel(4), threading.Event(), threading.Event()

    def fails() -> None:
        assert began.wait(PATIENCE_S)
        raise StoreUnavailable("nobody answers")

    def ends_late() -> None:
        began.set()
        ended.wait(0.2)
        ended.set()

    with pytest.raises(StoreUnavailable):
        parallel.all([fails, ends_late])
    assert ended.is_set()
    assert parallel.all([lambda i=i: i for i in range(20)]) == list(range(20))  # type: ignore[misc]
    parallel.close()


@pytest.mark.hbase
@pytest.mark.xdist_group("hbase")
def test_more_threads_than_a_thrift_server_has_are_answered(hbase_server: HBase) -> None:
    """That of the tests has 64, and each is its connection's for as long as that is open."""
    threads = 80
    with closing(HBaseKeyValue("127.0.0.1", hbase_server.thrift_port, "threads")) as backend:
        backend.put_many([Put("sn", b"key", b"value", 1)])
        all_have_read = threading.Barrier(threads, timeout=PATIENCE_S)

        def read(_: int) -> list[bytes | None]:
            found = backend.get_many("sn", [b"key"])
            all_have_read.wait()  # none of the threads ends before
            return found

        with ThreadPoolExecutor(threads) as pool:
            assert list(pool.map(read, range(threads))) == [[b"value"]] * threads
