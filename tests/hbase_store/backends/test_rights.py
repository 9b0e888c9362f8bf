"""A user of HBase who may not do what is needed learns which right is missing, and of what."""

from __future__ import annotations

from typing import Any, NoReturn

import Hbase_thrift as thrift
import pytest

import hbase_store
from hbase_store import provisioning
from hbase_store.backends.keyvalue import Put
from hbase_store.errors import StoreRefused, StoreUnavailable
from hbase_store.opening import place_of
from tests.hbase_store.backends.thrift_server import Tables, served

_DENIED = (
    b"org.apache.hadoop.hbase.security.AccessDeniedException: Insufficient permissions (user=anna, action=%s)\n\tat"
)


def denied(action: bytes) -> NoReturn:
    raise thrift.IOError(_DENIED % action)


class NothingMayBeMade(Tables):
    """Of an HBase without our tables."""

    def getRowsWithColumns(self, table: bytes, rows: list[bytes], columns: Any, attributes: Any) -> NoReturn:
        raise thrift.IOError(b"org.apache.hadoop.hbase.TableNotFoundException: " + table)

    def createTable(self, name: bytes, families: Any) -> NoReturn:
        denied(b"CREATE")


class NothingMayBeRead(Tables):
    def getRowsWithColumns(self, table: bytes, rows: list[bytes], columns: Any, attributes: Any) -> NoReturn:
        denied(b"READ")

    def getTableRegions(self, name: bytes) -> NoReturn:
        denied(b"READ")


class NothingCanBeWritten(Tables):
    def __init__(self, why: bytes) -> None:
        super().__init__()
        self.why = why

    def mutateRowsTs(self, table: bytes, batches: list[Any], time: int, attributes: Any) -> NoReturn:
        raise thrift.IOError(self.why % table)


def test_who_may_not_create_tables_learns_how_an_administrator_does_it() -> None:
    with served("buffered", NothingMayBeMade()) as port:
        url = f"hbase://127.0.0.1:{port}/ns"
        with pytest.raises(StoreUnavailable, match=r"may not create the table ns_.*hbase create --script"):
            hbase_store.open(url)
        with pytest.raises(StoreUnavailable, match=r"AccessDenied.*CREATE"):
            provisioning.create(url)
        with pytest.raises(StoreUnavailable, match="there is no store at"):
            hbase_store.open(url, read_only=True)


def test_who_may_not_read_learns_which_right_is_missing() -> None:
    with served("buffered", NothingMayBeRead()) as port:
        url = f"hbase://127.0.0.1:{port}/ns"
        with pytest.raises(StoreUnavailable, match=r"user=anna, action=READ\)\. Let an administrator grant"):
            hbase_store.open(url)
        findings = provisioning.check(url)
        assert {found.found for found in findings} == {"it may not be read"}
        assert findings[0].advice.endswith("grant 'USER', 'RW', 'ns_slab'")


_BATCH = b"org.apache.hadoop.hbase.client.RetriesExhaustedWithDetailsException: Failed 1 action: "


@pytest.mark.parametrize(
    ("why", "advice"),
    [
        (
            _BATCH + b"%s: 1 time, servers with issues: null\n\tat",
            "no table for a call: .*ns_sn.*`rillet hbase create`",
        ),
        (_BATCH + b"org.apache.hadoop.hbase.security.AccessDeniedException: (table=%s): 1 time", "does not permit.*RW"),
        (b"org.apache.hadoop.hbase.NamespaceNotFoundException: of %s", "create_namespace"),
    ],
)
def test_a_write_for_which_something_is_missing_is_refused_and_says_what(why: bytes, advice: str) -> None:
    """As HBase 2.6 says it."""
    with served("buffered", NothingCanBeWritten(why)) as port:
        kv = place_of(f"hbase://127.0.0.1:{port}/ns").opened()
        with pytest.raises(StoreRefused, match=advice):
            kv.put_many([Put("sn", b"key", b"value", 1)])
        kv.close()


def test_a_write_that_only_failed_is_not_refused() -> None:
    why = _BATCH + b"NotServingRegionException: %s: 1 time, servers with issues: localhost,38745,1"
    with served("buffered", NothingCanBeWritten(why)) as port:
        kv = place_of(f"hbase://127.0.0.1:{port}/ns").opened()
        with pytest.raises(StoreUnavailable) as caught:
            kv.put_many([Put("sn", b"key", b"value", 1)])
        assert not isinstance(caught.value, StoreRefused)
        kv.close()
