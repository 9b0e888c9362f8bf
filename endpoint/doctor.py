"""What `rillet doctor` looks at. A check says what it found and, where that will not do, what to do."""

from __future__ import annotations

import os
import platform
import shutil
import socket
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

_PYTHON_MIN = (3, 11)
_SPARK_ADVICE = "pip install 'pyspark>=4.1,<5', or without it: rillet serve --engine inline"
_SHM = Path("/dev/shm")
_SHM_FREE_BYTES_MIN = 64 << 20


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
    import hbase_store
    from hbase_store.errors import StoreError

    path = Path(url.removeprefix("lmdb:"))
    if url.startswith("lmdb:") and not path.exists():
        folder = next(parent for parent in path.resolve().parents if parent.exists())
        writable = os.access(folder, os.W_OK)
        return Check("store", writable, f"{url} is not there yet, and can be made", f"{folder} cannot be written to")
    try:
        with closing(hbase_store.open(url, read_only=True)) as store:
            return Check("store", True, f"{url} is at snapshot {int(store.refresh())}")
    except StoreError as error:
        return Check("store", False, str(error), "another store: --store lmdb:PATH or hbase://HOST:9090/NAMESPACE")


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
