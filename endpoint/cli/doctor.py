"""The checks of `rillet doctor`. A check shows what it found and, if that is a problem, how to fix it."""

from __future__ import annotations

import fcntl
import os
import platform
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import msgspec

import hbase_store
from hbase_store import Store
from hbase_store.backends.lease import CellHolder, FileHolder, is_dead
from hbase_store.backends.meta_cells import LEASE_KEY
from hbase_store.errors import BadStoreUrl, StoreError
from stream_ext.child_environment import environment
from stream_ext.clock import SystemClock

_PYTHON_MIN = (3, 11)
_SPARK_ADVICE = "pip install 'pyspark>=4.1,<5', or without it: rillet serve --engine inline"
_JAVA_S_MAX = 60
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
    from stream_ext.runners.spark.java import describe, find_java

    found, version = describe()
    if found:
        found, version = _starts(find_java().home / "bin" / "java", version)
    return Check("Java", found, version, "without it: rillet serve --engine inline")


def _starts(java: Path, version: str) -> tuple[bool, str]:
    """Whether Java starts: a file may name the version of a Java that does not run."""
    try:
        done = subprocess.run(
            [java, "-version"],
            capture_output=True,
            text=True,
            timeout=_JAVA_S_MAX,
            check=False,
            env=environment(os.environ),
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return False, f"{version}, but it does not start: {error}"
    if done.returncode:
        return False, f"{version}, which does not start: {' '.join(done.stderr.split())[:200]}"
    return True, version


def _spark() -> Check:
    try:
        version = metadata.version("pyspark")
    except metadata.PackageNotFoundError:
        return Check(
            "Spark", False, "pyspark is not installed", "pip install 'pyspark>=4.1,<5', or serve --engine inline"
        )
    try:
        import pyspark  # noqa: F401 -- whether it can be imported
    except ImportError as error:
        return Check("Spark", False, f"pyspark {version} cannot be imported: {error}", _SPARK_ADVICE)
    return Check("Spark", int(version.split(".")[0]) == 4, f"pyspark {version}", "pip install 'pyspark>=4.1,<5'")


def _store(url: str) -> Check:
    path = Path(url.removeprefix("lmdb:"))
    if url.startswith("lmdb:") and not path.exists():
        return _place(url, next(parent for parent in path.resolve().parents if parent.exists()))
    try:
        with closing(hbase_store.open(url, read_only=True)) as store:
            found = f"{url} is at snapshot {int(store.refresh())}{_writer(path, store)}"
            why = _unwritable(path) if url.startswith("lmdb:") else None
            if why is not None:
                return Check(
                    "store", False, f"{found}, but this user cannot write there: {why}", f"make {path} writable"
                )
            return Check("store", True, found)
    except BadStoreUrl as error:
        return Check("store", False, str(error))  # its message names the form of an address
    except StoreError as error:
        return Check("store", False, str(error), "another store: --store lmdb:PATH or hbase://HOST:9090/NAMESPACE")


def _place(url: str, folder: Path) -> Check:
    """Creates a store in this place and removes it: only a test shows what the disk allows."""
    try:
        with (
            tempfile.TemporaryDirectory(prefix=".rillet-doctor-", dir=folder) as tried,
            closing(hbase_store.open(f"lmdb:{tried}/store", folding=False)) as store,
        ):
            store.commit(store.begin())
    except (OSError, StoreError) as error:
        advice = f"{folder} must be writable and have free space; or choose another place: --store lmdb:PATH"
        return Check("store", False, f"{url} does not exist yet, and cannot be created ({error})", advice)
    return Check("store", True, f"{url} does not exist yet, and can be created")


def _unwritable(folder: Path) -> str | None:
    """The reason why nothing can be written in the folder; None: it is writable."""
    try:
        with tempfile.TemporaryFile(dir=folder) as tried:
            tried.write(b"x")
            tried.flush()
    except OSError as error:
        return error.strerror or str(error)
    return None


def _writer(path: Path, store: Store) -> str:
    holder = _holder_of_file(path / "writer.lock") if store.url.startswith("lmdb:") else _holder_of_cell(store)
    if holder is None:
        return ", and no process writes to it"
    return f"; process {holder.pid} writes to it" + (f" (the server at {holder.address})" if holder.address else "")


def _holder_of_file(file: Path) -> FileHolder | None:
    """The process that has the lock. The call does not take the lock, which a starting server may need."""
    try:
        with file.open("rb") as lock:
            request = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
            kind, *_, pid = struct.unpack(_FLOCK, fcntl.fcntl(lock, fcntl.F_GETLK, request))
            content = lock.read()
    except FileNotFoundError:
        return None  # no process has ever written here
    if kind == fcntl.F_UNLCK:
        return None
    try:
        return msgspec.json.decode(content, type=FileHolder)
    except msgspec.DecodeError:
        return FileHolder(pid=pid)  # it has not written its name yet


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
            who = "a Rillet server answers there" if _is_rillet(port) else error.strerror or "the port is in use"
            return Check("port", "Rillet" in who, f"{port}: {who}", "choose another: rillet serve --port N")
    return Check("port", True, f"{port} is free")


def _is_rillet(port: int) -> bool:
    import httpx

    try:
        return "rillet-snapshot" in httpx.get(f"http://127.0.0.1:{port}/$/ping", timeout=2).headers
    except httpx.HTTPError:
        return False


def _shared_memory() -> Check:
    """Whether there is enough shared memory: Spark's workers get their input through it."""
    why = _unwritable(_SHM)
    if why is not None:
        return Check(
            "/dev/shm", False, f"this user cannot write there: {why}", "mount a tmpfs (docker: --shm-size 256m)"
        )
    free = shutil.disk_usage(_SHM).free
    return Check("/dev/shm", free >= _SHM_FREE_BYTES_MIN, f"{free >> 20} MB free", "free some space: at least 64 MB")
