"""A Thrift server of HBase that is only pretended: its verbs over sorted dictionaries, each call counted.

`fault`, if set, is called before each verb with its name, and may raise what the real client would."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import Hbase_thrift as thrift
import pytest

from hbase_store.backends import thrift_connections
from hbase_store.backends.hbase import HBaseKeyValue
from hbase_store.backends.thrift_verbs import COLUMN


class PretendedHBase:
    def __init__(self) -> None:
        self.tables: dict[bytes, dict[bytes, tuple[int, bytes]]] = {}
        self.calls: Counter[str] = Counter()
        self.answers: list[int] = []  # bytes of each answer with rows
        self.fault: Callable[[str], object] = lambda verb: None
        self._scanners: dict[int, Iterator[Any]] = {}
        self._lock = threading.RLock()

    @contextmanager
    def counted(self) -> Iterator[PretendedHBase]:
        self.calls.clear()
        self.answers.clear()
        yield self

    def backend(self, monkeypatch: pytest.MonkeyPatch) -> HBaseKeyValue:
        """With connections of its own, one a thread."""
        monkeypatch.setattr(thrift_connections.Connections, "_connect", lambda *_: _Connection(self))
        return HBaseKeyValue("nowhere", 1, "rillet")

    def row_answer(self, rows: Sequence[tuple[bytes, bytes]]) -> list[Any]:
        self.answers.append(sum(len(key) + len(value) for key, value in rows))
        return [SimpleNamespace(row=key, columns={COLUMN: SimpleNamespace(value=value)}) for key, value in rows]


class _Connection:
    def __init__(self, server: PretendedHBase) -> None:
        self.client = _Client(server)

    def close(self) -> None:
        self.client.is_open = False

    def disown(self) -> None:
        pass


class _Client:
    """Of the verbs that the backend calls."""

    def __init__(self, server: PretendedHBase) -> None:
        self._server, self.is_open = server, True

    def __getattribute__(self, name: str) -> Any:
        found = object.__getattribute__(self, name)
        if name.startswith("_") or name == "is_open":
            return found
        server = self._server

        def called(*arguments: Any) -> Any:
            assert self.is_open, "a connection that was given up is used"
            with server._lock:
                server.calls[name] += 1
                server.fault(name)
                return found(*arguments)

        return called

    def getTableNames(self) -> list[bytes]:
        return list(self._server.tables)

    def createTable(self, name: bytes, families: object) -> None:
        if name in self._server.tables:
            raise thrift.AlreadyExists(message=b"table name already in use")
        self._server.tables[name] = {}

    def getRowsWithColumns(self, name: bytes, rows: Sequence[bytes], columns: object, _: object) -> list[Any]:
        if name not in self._server.tables:
            raise thrift.IOError(message=b"org.apache.hadoop.hbase.TableNotFoundException: " + name)
        table = self._server.tables[name]
        return self._server.row_answer([(row, table[row][1]) for row in rows if row in table])

    def scannerOpenWithScan(self, name: bytes, scan: Any, _: object) -> int:
        table, bare = self._server.tables[name], scan.filterString is not None
        rows = sorted(row for row in table if row >= scan.startRow and (not scan.stopRow or row < scan.stopRow))
        self._server._scanners[id(scan)] = iter([(row, b"" if bare else table[row][1]) for row in rows])
        return id(scan)

    def scannerGetList(self, scanner: int, count: int) -> list[Any]:
        if scanner not in self._server._scanners:
            raise thrift.IllegalArgument(message=b"scanner ID is invalid")
        rows = self._server._scanners[scanner]
        return self._server.row_answer([row for _, row in zip(range(count), rows, strict=False)])

    def scannerClose(self, scanner: int) -> None:
        self._server._scanners.pop(scanner, None)

    def mutateRowsTs(self, name: bytes, mutations: Sequence[Any], time: int, _: object) -> None:
        table = self._server.tables[name]
        for of_row in mutations:
            for mutation in of_row.mutations:
                if not mutation.isDelete:
                    table[of_row.row] = time, mutation.value
                elif of_row.row in table and table[of_row.row][0] <= time:
                    del table[of_row.row]

    def atomicIncrement(self, name: bytes, key: bytes, column: bytes, count: int) -> int:
        table = self._server.tables[name]
        total = int.from_bytes(table.get(key, (0, b""))[1], "big") + count
        table[key] = 0, total.to_bytes(8, "big")
        return total

    def checkAndPut(self, name: bytes, key: bytes, column: bytes, expected: bytes | None, put: Any, _: object) -> bool:
        table = self._server.tables[name]
        if (table[key][1] if key in table else None) != expected:
            return False
        table[key] = 1 << 62, put.value
        return True
