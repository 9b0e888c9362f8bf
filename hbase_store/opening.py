"""From the address of a store to its backend: `lmdb:PATH` is a folder here, `hbase://HOST:PORT/NAMESPACE` a cluster,
behind one or several Thrift servers."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Literal
from urllib.parse import urlsplit

from hbase_store.backends.lease import Leasing
from hbase_store.errors import BadStoreUrl
from hbase_store.verification import verify

if TYPE_CHECKING:
    from hbase_store.backends.lmdb import LmdbKeyValue

Durability = Literal["process", "power"]

THRIFT_PORT = 9090


class WallClock:
    """The machine's clock."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def wait(self, condition: threading.Condition, until_ms: int | None) -> None:
        left_s = None if until_ms is None else until_ms / 1000 - time.time()
        if left_s is None or left_s > 0:
            condition.wait(left_s)


def connect(url: str, read_only: bool, durability: Durability) -> Leasing:
    """The backend that `url` names; its libraries are imported only then."""
    if url.startswith("lmdb:") and len(url) > len("lmdb:"):
        from hbase_store.backends.lmdb import LmdbKeyValue

        backend = LmdbKeyValue(url.removeprefix("lmdb:"), read_only=read_only, durability=durability)
        return _verified(backend) if backend.machine_crashed() else backend
    if url.startswith("hbase://"):
        from hbase_store.backends.hbase import HBaseKeyValue

        (first, *others), namespace = place_of(url)
        return HBaseKeyValue(*first, namespace, read_only=read_only, others=others)
    raise BadStoreUrl(f"{url!r} is not the address of a store; write lmdb:PATH or hbase://HOST:{THRIFT_PORT}/NAMESPACE")


def _verified(backend: LmdbKeyValue) -> LmdbKeyValue:
    try:
        verify(backend)
    except BaseException:
        backend.close()
        raise
    return backend


def place_of(url: str) -> tuple[list[tuple[str, int]], str]:
    """The Thrift servers, and the namespace: hbase://HOST1:9090,HOST2:9090/NAMESPACE."""
    advice = f"{url!r}: write hbase://HOST:{THRIFT_PORT}/NAMESPACE, or several HOST:PORT with commas"
    hosts, _, path = url.removeprefix("hbase://").partition("/")
    namespace = path.strip("/")
    servers: list[tuple[str, int]] = []
    for each in hosts.split(","):
        try:
            parts = urlsplit(f"hbase://{each.strip()}")
            host, port = parts.hostname, parts.port or THRIFT_PORT
        except ValueError as error:
            raise BadStoreUrl(f"{advice} ({error})") from error
        if not host:
            raise BadStoreUrl(advice)
        servers.append((host, port))
    if not namespace:
        raise BadStoreUrl(advice)
    return servers, namespace
