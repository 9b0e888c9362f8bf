"""What `rillet doctor` looks at. A check says what it found and, where that will not do, what to do."""

from __future__ import annotations

import fcntl
import os
import platform
import shutil
import socket
import struct
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import msgspec

import hbase_store
from hbase_store import Store
from hbase_store.errors import BadStoreUrl, StoreError
from hbase_store.lease import CellHolder, FileHolder, is_dead
from hbase_store.meta_cells import LEASE_KEY
from stream_ext.clock import SystemClock

_PYTHON_MIN = (3, 11)
_SPARK_ADVICE = "pip install 'pyspark>=4.1,<5', or without it: rillet serve --engine inline"
_SHM = Path("/dev/shm")
_SHM_FREE_BYTES_MIN = 64 << 20
_FLOCK = "hhqqi4x"  # struct flock of Linux: type, whence, start, length, process


@dataclass(frozen=True, slots=True)
class Check:
    what: str
    good: bool
    found: str
    advice: str = ""


def checks(store: str, port: int) -> Iterator[Check]:
    yield _python()
    yield _java()
    yield _spark()
    yield _store(store)
    yield _port(port)
    yield _shared_memory()


def _python() -> Check:
    advice = f"install Python {_PYTHON_MIN[0]}.{_PYTHON_MIN[1]} or later"
    return Check("Python", sys.version_info >= _PYTHON_MIN, platform.python_version(), advice)


def _java() -> Check:
    from stream_ext.runner.spark.java import describe

    found, said = describe()
    return Check("Java", found, said, "without it: rillet serve --engine inline")


def _spark() -> Check:
    try:
        version = metadata.version("pyspark")
    except metadata.PackageNotFoundError:
        return Check(
            "Spark", False, "pyspark is not installed", "pip install 'pyspark>=4.1,<5', or serve --engine inline"
        )
    return Check("Spark", int(version.split(".")[0]) == 4, f"pyspark {version}", "pip install 'pyspark>=4.1,<5'")


def _store(url: str) -> Check:
    path = Path(url.removeprefix("lmdb:"))
    if url.startswith("lmdb:") and not path.exists():
        return _place(url, next(parent for parent in path.resolve().parents if parent.exists()))
    try:
        with closing(hbase_store.open(url, read_only=True)) as store:
            return Check("store", True, f"{url} is at snapshot {int(store.refresh())}{_writer(path, store)}")
    except BadStoreUrl as error:
        return Check("store", False, str(error))  # it says what to write
    except StoreError as error:
        return Check("store", False, str(error), "another store: --store lmdb:PATH or hbase://HOST:9090/NAMESPACE")


def _place(url: str, folder: Path) -> Check:
    if os.access(folder, os.W_OK):
        return Check("store", True, f"{url} is not there yet, and can be made")
    advice = f"{folder} cannot be written to; another place: --store lmdb:PATH"
    return Check("store", False, f"{url} is not there yet, and cannot be made", advice)


def _writer(path: Path, store: Store) -> str:
    holder = _holder_of_file(path / "writer.lock") if store.url.startswith("lmdb:") else _holder_of_cell(store)
    if holder is None:
        return ", and nobody writes to it"
    return f"; process {holder.pid} writes to it" + (f" (the server at {holder.address})" if holder.address else "")


def _holder_of_file(file: Path) -> FileHolder | None:
    """Asks the kernel who has the lock and takes none, for a server that is just starting must find it free."""
    try:
        with file.open("rb") as lock:
            request = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
            kind, *_, pid = struct.unpack(_FLOCK, fcntl.fcntl(lock, fcntl.F_GETLK, request))
            content = lock.read()
    except FileNotFoundError:
        return None  # nobody has ever written here
    if kind == fcntl.F_UNLCK:
        return None
    try:
        return msgspec.json.decode(content, type=FileHolder)
    except msgspec.DecodeError:
        return FileHolder(pid=pid)  # it has yet to write its name


def _holder_of_cell(store: Store) -> CellHolder | None:
    (cell,) = store.kv.get_many("meta", [LEASE_KEY])
    holder = None if cell is None else msgspec.json.decode(cell, type=CellHolder)
    return holder if holder and holder.until_ms > SystemClock().now_ms() and not is_dead(holder) else None


def _port(port: int) -> Check:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            who = "a Rillet server answers there" if _is_rillet(port) else error.strerror or "it is taken"
            return Check("port", "Rillet" in who, f"{port}: {who}", "choose another: rillet serve --port N")
    return Check("port", True, f"{port} is free")


def _is_rillet(port: int) -> bool:
    import httpx

    try:
        return "rillet-snapshot" in httpx.get(f"http://127.0.0.1:{port}/$/ping", timeout=2).headers
    except httpx.HTTPError:
        return False


def _shared_memory() -> Check:
    """Spark's workers get their input through it."""
    if not _SHM.is_dir() or not os.access(_SHM, os.W_OK):
        return Check(
            "/dev/shm", False, "it is not there, or not writable", "mount a tmpfs there (docker: --shm-size 256m)"
        )
    free = shutil.disk_usage(_SHM).free
    return Check("/dev/shm", free >= _SHM_FREE_BYTES_MIN, f"{free >> 20} MB free", "make room: at least 64 MB")
