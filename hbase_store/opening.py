"""From the address of a store to its backend: `lmdb:PATH` is a folder here, `hbase://HOST:PORT/NAMESPACE` a cluster,
behind one or several Thrift servers."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal
from urllib.parse import urlsplit

from hbase_store.backends.lease import Leasing, this_machine
from hbase_store.errors import BadStoreUrl
from hbase_store.verification import verify

if TYPE_CHECKING:
    from hbase_store.backends.hbase import HBaseKeyValue
    from hbase_store.backends.lmdb import LmdbKeyValue
    from hbase_store.backends.thrift_transports import ThriftAccess

Durability = Literal["process", "power"]

THRIFT_PORT = 9090


def connect(url: str, read_only: bool, durability: Durability) -> Leasing:
    """The backend that `url` names; its libraries are imported only then."""
    if url.startswith("lmdb:") and len(url) > len("lmdb:"):
        from hbase_store.backends.lmdb import LmdbKeyValue

        backend = LmdbKeyValue(url.removeprefix("lmdb:"), read_only=read_only, durability=durability)
        return _verified(backend) if backend.machine_crashed() else backend
    if url.startswith("hbase://"):
        return place_of(url).opened(read_only)
    meant = f"did you mean lmdb:{url}? Write" if url and ":" not in url else "write"
    raise BadStoreUrl(
        f"{url!r} is not the address of a store; {meant} lmdb:PATH or hbase://HOST:{THRIFT_PORT}/NAMESPACE"
    )


def is_shared(url: str) -> bool:
    """Whether several processes may write rows to this store at the same time; one of them publishes."""
    return url.startswith("hbase://")


def place_of_files(url: str) -> str:
    """Which file of which machine a store of files is; the same path may be another file elsewhere. A process
    namespace is a machine: LMDB knows its readers by their process numbers. Empty: there is no such file here, or the
    store is not of files."""
    if not url.startswith("lmdb:"):
        return ""
    try:
        file = os.stat(os.path.join(url.removeprefix("lmdb:"), "data.mdb"))
    except OSError:
        return ""
    return f"{this_machine()}/{file.st_dev}/{file.st_ino}"


def _verified(backend: LmdbKeyValue) -> LmdbKeyValue:
    try:
        verify(backend)
    except BaseException:
        backend.close()
        raise
    return backend


@dataclass(frozen=True, slots=True)
class HBasePlace:
    """The Thrift servers, how they are spoken to, and the namespace."""

    servers: list[tuple[str, int]]
    namespace: str
    access: ThriftAccess

    def opened(self, read_only: bool = False) -> HBaseKeyValue:
        from hbase_store.backends.hbase import HBaseKeyValue

        (host, port), *others = self.servers
        return HBaseKeyValue(
            host, port, self.namespace, read_only, self.access.timeout_ms, others=others, access=self.access
        )


def place_of(url: str) -> HBasePlace:
    """hbase://HOST1:9090,HOST2:9090/NAMESPACE, and behind a question mark the options of `thrift_transports`."""
    from hbase_store.backends.thrift_transports import access_of

    advice = f"{url!r}: write hbase://HOST:{THRIFT_PORT}/NAMESPACE, or several HOST:PORT with commas"
    hosts, _, path = url.removeprefix("hbase://").partition("/")
    path, _, options = path.partition("?")
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
        raise BadStoreUrl(
            f"{url!r} has no namespace, the prefix of its tables: write hbase://{hosts}/rillet, for example"
        )
    return HBasePlace(servers, namespace, access_of(options, [host for host, _ in servers], os.environ))
