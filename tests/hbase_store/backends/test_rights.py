"""A user of HBase who may not do what is needed learns which right is missing, and of what."""

from __future__ import annotations

from typing import Any, NoReturn

import Hbase_thrift as thrift
import pytest

import hbase_store
from hbase_store import provisioning
from hbase_store.errors import StoreUnavailable
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
        with pytest.raises(StoreUnavailable, match=r"AccessDenied.*user=anna, action=READ\)$"):
            hbase_store.open(url)
        findings = provisioning.check(url)
        assert {found.found for found in findings} == {"it may not be read"}
        assert findings[0].advice.endswith("grant 'USER', 'RW', 'ns_slab'")
