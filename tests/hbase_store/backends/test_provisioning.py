"""The tables of a store on HBase: made by Rillet or by a script, checked, dropped."""

from __future__ import annotations

import os
import threading
import uuid
from collections.abc import Callable
from contextlib import closing
from typing import Any

import Hbase_thrift as thrift
import numpy as np
import pytest

import hbase_store
from endpoint.trial_hbase.server import HBase
from hbase_store import provisioning
from hbase_store.backends.hbase import HBaseKeyValue
from hbase_store.backends.keyvalue import TABLES
from hbase_store.backends.lease import LEASE_MS
from hbase_store.backends.meta_cells import LAYOUT_KEY, LAYOUT_VERSION
from hbase_store.errors import AnotherWriter, BadStoreUrl, StoreUnavailable
from tests.benchmarks.server import free_port
from tests.hbase_store.backends.thrift_server import Tables, served
from tests.parts.waiting import PATIENCE_S


def test_the_script_makes_every_table_split_into_its_buckets() -> None:
    lines = provisioning.script("hbase://h:9090/mine:rillet", "SNAPPY").splitlines()
    assert lines[0].startswith("begin; create_namespace 'mine'; rescue"), "the namespace may be there"
    assert [line.split("'")[1] for line in lines[1:]] == [f"mine:rillet_{table}" for table in TABLES]
    assert all("COMPRESSION => 'SNAPPY'" in line and "VERSIONS => 1" in line for line in lines[1:])
    assert [line for line in lines[1:] if "SPLITS" not in line] == [lines[-1]], "one cell of meta has no buckets"
    assert lines[1].endswith(r'SPLITS => ["\x01", "\x02", "\x03", "\x04", "\x05", "\x06", "\x07"]')


@pytest.mark.parametrize(
    ("url", "compression"), [("lmdb:here", "NONE"), ("hbase://h/ns", "RAR"), ("hbase://h", "NONE")]
)
def test_what_is_no_store_on_hbase_is_refused(url: str, compression: str) -> None:
    with pytest.raises(BadStoreUrl):
        provisioning.script(url, compression)


class CreatedTogether(Tables):
    """An HBase that creates tables when all of them were requested."""

    def __init__(self) -> None:
        super().__init__()
        self.requested = threading.Barrier(len(TABLES), timeout=5)

    def createTable(self, name: bytes, families: Any) -> None:
        try:
            self.requested.wait()
        except threading.BrokenBarrierError:
            raise thrift.IOError(b"the others were not requested meanwhile") from None


@pytest.mark.parametrize("make", [provisioning.create, lambda url: hbase_store.open(url).close()])
def test_the_tables_of_a_new_store_are_created_at_the_same_time(make: Callable[[str], None]) -> None:
    with served("buffered", CreatedTogether()) as port:
        make(f"hbase://127.0.0.1:{port}/ns")


class BusyWithAll(Tables):
    """An HBase that is busy with the first call for each table until another call for one comes."""

    def __init__(self) -> None:
        super().__init__()
        self.begun: list[bytes] = []
        self.again = threading.Event()

    def createTable(self, name: bytes, families: Any) -> None:
        if name in self.begun:
            self.again.set()
            raise thrift.AlreadyExists(b"it is being created")
        self.begun.append(name)
        self.again.wait(PATIENCE_S)


def test_tables_that_a_busy_hbase_does_not_create_in_time_are_requested_again() -> None:
    tables = BusyWithAll()
    with served("buffered", tables) as port, closing(HBaseKeyValue("127.0.0.1", port, "ns", timeout_ms=300)) as backend:
        assert backend.get_many("meta", [LAYOUT_KEY]) == [LAYOUT_VERSION]
    assert sorted(tables.begun) == sorted(b"ns_%s" % table.encode() for table in TABLES)


@pytest.mark.hbase
@pytest.mark.xdist_group("hbase")
def test_tables_are_made_checked_and_dropped_on_a_real_hbase(hbase_server: HBase) -> None:
    url = f"hbase://127.0.0.1:{hbase_server.thrift_port}/made_{uuid.uuid4().hex[:8]}"
    assert not any(found.is_there for found in provisioning.check(url))
    with pytest.raises(StoreUnavailable, match="there is no store at"):
        hbase_store.open(url, read_only=True)
    provisioning.create(url, "GZ")
    provisioning.create(url)  # what is there stays
    found = provisioning.check(url)
    assert all(each.is_there for each in found)
    assert all("compression GZ" in each.found and "1 region" in each.found for each in found), found
    store = hbase_store.open(url)
    store.take_lease("http://the-server/")
    with pytest.raises(AnotherWriter):
        provisioning.drop(url)
    store.close()
    assert len(provisioning.drop(url)) == len(TABLES)
    assert not any(each.is_there for each in provisioning.check(url))


@pytest.mark.hbase
@pytest.mark.xdist_group("hbase")
def test_the_status_shows_who_writes_how_far_it_came_and_where_regions_are(hbase_server: HBase) -> None:
    port = hbase_server.thrift_port
    namespace = f"seen_{uuid.uuid4().hex[:8]}"
    url = f"hbase://127.0.0.1:{port}/{namespace}"
    with pytest.raises(StoreUnavailable, match="there is no store at"):
        provisioning.status(url)
    store = hbase_store.open(url, folding=False)
    store.take_lease("http://the-server/")
    for number in range(3):
        batch = store.begin()
        ids = batch.encode([b"<http://ex/%d>" % number])
        batch.insert(ids, ids, ids, np.zeros(1, np.uint64))
        store.commit(batch)
    store.fold()
    refused = free_port()
    found = provisioning.status(f"hbase://127.0.0.1:{port},127.0.0.1:{refused}/{namespace}")
    assert found.servers == [(f"127.0.0.1:{port}", True), (f"127.0.0.1:{refused}", False)]
    assert found.holder is not None
    assert (found.holder.address, found.holder.pid) == ("http://the-server/", os.getpid())
    assert 0 < found.lease_left_ms <= LEASE_MS
    assert (found.head.last, found.runs.covered) == (3, 3)
    assert set(found.regions) == set(TABLES)
    assert all(sum(on.values()) == 1 for on in found.regions.values())
    assert provisioning.regions(url) == found.regions
    store.close()
    assert provisioning.status(url).lease_left_ms == 0
    provisioning.drop(url)
