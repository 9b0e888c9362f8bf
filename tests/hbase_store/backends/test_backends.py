"""Both backends keep the contract, and say clearly what is wrong when they cannot be opened."""

from __future__ import annotations

import subprocess
import sys
import uuid
from pathlib import Path

import happybase
import lmdb
import pytest

from endpoint.trial_hbase.server import HBase
from hbase_store.backends.hbase import HBaseKeyValue
from hbase_store.backends.keyvalue import CompareAndSet, Put
from hbase_store.backends.lmdb import LmdbKeyValue
from hbase_store.backends.lmdb_opening import Durability
from hbase_store.errors import BadStoreUrl, Corrupt, LayoutError, StoreUnavailable
from tests.hbase_store.check_backend import check_backend

ROOT = Path(__file__).parents[3]
CHILD_S_MAX = 60


def run_python(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Another process, so that locks and crashes are real."""
    command = [sys.executable, "-c", program, *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=CHILD_S_MAX)


def row(number: int, value: bytes = b"v") -> Put:
    return Put("slab", b"row %d" % number, value, 1)


# ---- LMDB


@pytest.mark.parametrize("durability", ["process", "power"])
def test_lmdb_keeps_the_contract(tmp_path: Path, durability: Durability) -> None:
    check_backend(lambda: LmdbKeyValue(tmp_path / "store", durability=durability))


def test_a_folder_is_opened_once_per_process(tmp_path: Path) -> None:
    backend = LmdbKeyValue(tmp_path)
    with pytest.raises(StoreUnavailable, match="already open in this process"):
        LmdbKeyValue(tmp_path / ".." / tmp_path.name, read_only=True)
    backend.close()
    LmdbKeyValue(tmp_path).close()


def test_closing_twice_is_harmless_and_calls_afterwards_say_so(tmp_path: Path) -> None:
    backend = LmdbKeyValue(tmp_path)
    backend.close()
    backend.close()
    with pytest.raises(StoreUnavailable, match="is closed; open it again"):
        backend.get_many("slab", [b"k"])


def test_a_scan_that_nobody_finishes_does_not_keep_the_store_open(tmp_path: Path) -> None:
    backend = LmdbKeyValue(tmp_path)
    backend.put_many(row(number) for number in range(10_000))
    scan = backend.scan("slab", b"", None)
    next(scan)
    backend.close()
    with pytest.raises(StoreUnavailable, match="is closed"):
        list(scan)


def test_another_process_reads_what_was_written(tmp_path: Path) -> None:
    backend = LmdbKeyValue(tmp_path)
    backend.put_many([row(1, b"one")])
    program = """
import sys
from hbase_store.backends.lmdb import LmdbKeyValue
backend = LmdbKeyValue(sys.argv[1], read_only=True)
print(backend.get_many("slab", [b"row 1"]))
backend.close()
"""
    assert run_python(program, str(tmp_path)).stdout == "[b'one']\n"
    backend.close()


def test_a_read_only_store_refuses_writes(tmp_path: Path) -> None:
    LmdbKeyValue(tmp_path).close()
    backend = LmdbKeyValue(tmp_path, read_only=True)
    for write in (
        lambda: backend.put_many([row(1)]),
        lambda: backend.delete("slab", [b"k"], 1),
        lambda: backend.publish([], CompareAndSet(b"k", None, b"v")),
        lambda: backend.allocate("k", 1),
    ):
        with pytest.raises(StoreUnavailable, match="opened read-only"):
            write()
    backend.close()


def test_what_was_acknowledged_survives_kill_9(tmp_path: Path) -> None:
    program = """
import os, signal, sys
from hbase_store.backends.keyvalue import CompareAndSet, Put
from hbase_store.backends.lmdb import LmdbKeyValue
backend = LmdbKeyValue(sys.argv[1])
head = None
for number in range(200):
    new = b"%d" % number
    assert backend.publish([[Put("slab", new, b"v" * 5000, 1)]], CompareAndSet(b"head", head, new))
    head = new
os.kill(os.getpid(), signal.SIGKILL)
"""
    assert run_python(program, str(tmp_path)).returncode == -9
    backend = LmdbKeyValue(tmp_path)
    assert backend.get_many("meta", [b"head"]) == [b"199"]
    assert backend.get_many("slab", [b"%d" % number for number in range(200)]) == [b"v" * 5000] * 200
    backend.close()


def test_a_forked_child_does_not_use_the_environment_of_its_parent_nor_harm_it(tmp_path: Path) -> None:
    program = """
import os, sys
from hbase_store.errors import StoreUnavailable
from hbase_store.backends.keyvalue import Put
from hbase_store.backends.lmdb import LmdbKeyValue
backend = LmdbKeyValue(sys.argv[1])
backend.put_many([Put("slab", b"k", b"v", 1)])
if os.fork() == 0:
    for attempt in (lambda: backend.get_many("slab", [b"k"]), lambda: LmdbKeyValue(sys.argv[1])):
        try:
            attempt()
        except StoreUnavailable as error:
            print(error, flush=True)
    backend.close()
    sys.exit(0)
print(os.wait()[1], backend.get_many("slab", [b"k"]))
backend.close()
"""
    lines = run_python(program, str(tmp_path)).stdout.splitlines()
    assert ["this process is a fork of that one" in line for line in lines] == [True, True, False]
    assert lines[2] == "0 [b'v']"


def test_a_map_that_another_process_has_grown_is_adopted(tmp_path: Path) -> None:
    backend = LmdbKeyValue(tmp_path, map_bytes=1 << 20)
    backend.put_many([row(1, b"one")])
    program = """
import sys
from hbase_store.backends.keyvalue import Put
from hbase_store.backends.lmdb import LmdbKeyValue
backend = LmdbKeyValue(sys.argv[1], map_bytes=1 << 26)
backend.put_many([Put("slab", b"large", bytes(4 << 20), 1)])
backend.close()
"""
    assert run_python(program, str(tmp_path)).returncode == 0
    assert backend.get_many("slab", [b"row 1", b"large"]) == [b"one", bytes(4 << 20)]
    backend.put_many([row(2, bytes(4 << 20))])
    backend.close()


def test_a_full_map_fails_the_write_and_nothing_else(tmp_path: Path) -> None:
    backend = LmdbKeyValue(tmp_path, map_bytes=1 << 20)
    with pytest.raises(StoreUnavailable, match="cannot grow further"):
        backend.put_many([row(1, bytes(4 << 20))])
    backend.put_many([row(2)])
    assert backend.get_many("slab", [b"row 1", b"row 2"]) == [None, b"v"]
    backend.close()


def test_a_store_that_is_not_there_is_not_made_by_reading(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match="there is no store in"):
        LmdbKeyValue(tmp_path / "absent", read_only=True)
    assert not (tmp_path / "absent").exists()


def test_a_file_is_no_store(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("data")
    for read_only in (True, False):
        with pytest.raises(StoreUnavailable, match="is a file; a store is a folder"):
            LmdbKeyValue(file, read_only=read_only)
    with pytest.raises(StoreUnavailable, match="for writing; check its permissions"):
        LmdbKeyValue(file / "below")


def test_another_layout_version_is_refused_by_number(tmp_path: Path) -> None:
    LmdbKeyValue(tmp_path).close()
    with lmdb.open(str(tmp_path), max_dbs=10) as environment, environment.begin(write=True) as transaction:
        transaction.put(b"layout", bytes(8) + b"7", db=environment.open_db(b"meta", txn=transaction))
    with pytest.raises(LayoutError, match="layout version 7"):
        LmdbKeyValue(tmp_path)


def test_somebody_elses_environment_is_refused(tmp_path: Path) -> None:
    with lmdb.open(str(tmp_path)) as environment, environment.begin(write=True) as transaction:
        transaction.put(b"their key", b"their value")
    for read_only in (True, False):
        with pytest.raises(LayoutError, match="not a Rillet store"):
            LmdbKeyValue(tmp_path, read_only=read_only)


def test_a_damaged_file_is_called_corrupt(tmp_path: Path) -> None:
    (tmp_path / "data.mdb").write_bytes(b"no LMDB file at all" * 1000)
    with pytest.raises(Corrupt, match="restore it from a backup"):
        LmdbKeyValue(tmp_path)


def test_a_refused_publish_leaves_nothing_behind(tmp_path: Path) -> None:
    backend = LmdbKeyValue(tmp_path)
    assert not backend.publish([[row(1)]], CompareAndSet(b"head", b"stale", b"new"))
    assert backend.get_many("slab", [b"row 1"]) == [None]
    backend.close()


# ---- HBase


def open_hbase(server: HBase, namespace: str, read_only: bool = False) -> HBaseKeyValue:
    return HBaseKeyValue("127.0.0.1", server.thrift_port, namespace, read_only)


@pytest.fixture(scope="module")
def namespace() -> str:
    return f"test_{uuid.uuid4().hex[:8]}"


@pytest.mark.hbase
@pytest.mark.xdist_group("hbase")
def test_hbase_keeps_the_contract(hbase_server: HBase) -> None:
    namespace = f"contract_{uuid.uuid4().hex[:8]}"
    check_backend(lambda: open_hbase(hbase_server, namespace))


@pytest.mark.hbase
@pytest.mark.xdist_group("hbase")
def test_an_absent_namespace_is_not_made_by_reading(hbase_server: HBase) -> None:
    with pytest.raises(StoreUnavailable, match="there is no store at hbase://"):
        open_hbase(hbase_server, "absent", read_only=True)


@pytest.mark.hbase
@pytest.mark.xdist_group("hbase")
def test_a_read_only_namespace_refuses_writes(hbase_server: HBase, namespace: str) -> None:
    open_hbase(hbase_server, namespace).close()
    backend = open_hbase(hbase_server, namespace, read_only=True)
    with pytest.raises(StoreUnavailable, match="opened read-only"):
        backend.put_many([row(1)])
    with pytest.raises(StoreUnavailable, match="opened read-only"):
        backend.publish([], CompareAndSet(b"k", None, b"v"))
    backend.close()


@pytest.mark.hbase
@pytest.mark.xdist_group("hbase")
def test_tables_have_one_version_a_bloom_filter_and_the_block_cache(hbase_server: HBase, namespace: str) -> None:
    open_hbase(hbase_server, namespace).close()
    connection = happybase.Connection("127.0.0.1", hbase_server.thrift_port)
    family = connection.table(f"{namespace}_slab").families()[b"n"]
    connection.close()
    found = family["max_versions"], family["bloom_filter_type"], family["block_cache_enabled"]
    assert found == (1, b"ROW", True)


@pytest.mark.hbase
@pytest.mark.xdist_group("hbase")
def test_a_forked_child_neither_disturbs_the_connection_of_its_parent_nor_shares_it(
    hbase_server: HBase, namespace: str
) -> None:
    program = """
import os, sys
from hbase_store.backends.hbase import HBaseKeyValue
from hbase_store.backends.keyvalue import CompareAndSet, Put
backend = HBaseKeyValue("127.0.0.1", int(sys.argv[1]), sys.argv[2])
if os.fork() == 0:
    backend.put_many([Put("slab", b"forked", b"from the child", 1)])
    sys.exit(0)
status = os.wait()[1]
# A publish is not repeated on a new connection, so it would fail if the child had shut ours down.
print(status, backend.publish([], CompareAndSet(b"forked", None, b"1")), backend.get_many("slab", [b"forked"]))
backend.close()
"""
    child = run_python(program, str(hbase_server.thrift_port), namespace)
    assert (child.stdout, child.stderr) == ("0 True [b'from the child']\n", "")


@pytest.mark.hbase
@pytest.mark.xdist_group("hbase")
def test_what_was_acknowledged_survives_a_kill_of_hbase_and_the_backend_continues(
    hbase_server: HBase, namespace: str
) -> None:
    backend = open_hbase(hbase_server, namespace)
    backend.publish([[row(1, b"before")]], CompareAndSet(b"killed", None, b"1"))
    hbase_server.kill()
    with pytest.raises(StoreUnavailable, match="no HBase Thrift server answers"):
        backend.get_many("slab", [b"row 1"])
    hbase_server.start()
    assert backend.get_many("slab", [b"row 1"]) == [b"before"]
    assert backend.publish([[row(2)]], CompareAndSet(b"killed", b"1", b"2"))
    backend.close()


def test_nobody_listening_is_reported_with_the_address() -> None:
    with pytest.raises(StoreUnavailable, match=r"no HBase Thrift server answers at 127\.0\.0\.1:1\b"):
        HBaseKeyValue("127.0.0.1", 1, "rillet")


def test_a_namespace_that_cannot_be_a_table_name_is_refused() -> None:
    for namespace in ("", "a b", "a/b", "-a", "ü"):
        with pytest.raises(BadStoreUrl, match="is not a namespace"):
            HBaseKeyValue("127.0.0.1", 1, namespace)
