"""Provisioning: the tables of a store on HBase, made, examined and dropped; and who uses the store.

Rillet makes its tables itself when it opens a new store. Through Thrift they begin as one region each, without
compression. An administrator who wants them split from the start, or who does not let Rillet make tables, runs the
script in `hbase shell`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from hbase_store.backends.hbase import COMPRESSIONS, is_absent, table_name
from hbase_store.backends.in_parallel import InParallel
from hbase_store.backends.keyvalue import TABLES
from hbase_store.backends.lease import CellHolder, holder_of, is_dead
from hbase_store.backends.table_creation import create_tables
from hbase_store.backends.thrift_connections import ConnectionDied, Connections, broken
from hbase_store.backends.thrift_verbs import BUCKETS, delete_table, family_of, regions_of
from hbase_store.clock import WallClock
from hbase_store.errors import BadStoreUrl, StoreUnavailable
from hbase_store.layout.run_list import NO_RUNS, RunList, list_key, unpack_list
from hbase_store.log.head import Head, HeadCell
from hbase_store.opening import HBasePlace, place_of

#: Keys of one table resemble each other: each is stored as its difference from the one before.
_ENCODING = "FAST_DIFF"


@dataclass(frozen=True, slots=True)
class TableFinding:
    """What was found of one table. `advice`: what to do; empty: it is in order."""

    table: str
    found: str
    is_there: bool = True
    advice: str = ""


@dataclass(frozen=True, slots=True)
class NamespaceStatus:
    """A store on HBase, seen from outside. `regions`: of each table, how many each region server has."""

    servers: list[tuple[str, bool]]  # of Thrift, and whether each answers
    holder: CellHolder | None  # who had the lease last
    lease_left_ms: int  # 0: nobody writes
    head: Head
    emitted: Head
    runs: RunList
    regions: dict[str, dict[str, int]]


def script(url: str, compression: str = "NONE") -> str:
    """The commands for `hbase shell` that make the tables, split into the buckets of their keys."""
    namespace = _of(url, compression).namespace
    lines = []
    if ":" in namespace:
        own = namespace.partition(":")[0]
        lines.append(f"begin; create_namespace '{own}'; rescue StandardError => why; puts why; end  # it may be there")
    splits = ", ".join(f'"\\x{bucket:02x}"' for bucket in range(1, BUCKETS))
    for table in TABLES:
        family = (
            f"{{NAME => 'n', VERSIONS => 1, BLOOMFILTER => 'ROW', BLOCKCACHE => true, COMPRESSION => '{compression}', "
            f"DATA_BLOCK_ENCODING => '{_ENCODING}'}}"
        )
        split = "" if table == "meta" else f", SPLITS => [{splits}]"
        lines.append(f"create '{table_name(namespace, table)}', {family}{split}")
    return "\n".join(lines) + "\n"


def regions_at_first(namespace: str) -> dict[str, int]:
    """The tables of a store, and into how many regions each is best split: one for each bucket of its keys."""
    return {table_name(namespace, table): 1 if table == "meta" else BUCKETS for table in TABLES}


def create(url: str, compression: str = "NONE") -> None:
    """Makes the tables that are absent, through Thrift: one region each."""
    place = _of(url, compression)
    names = [table_name(place.namespace, table).encode() for table in TABLES]
    with _connected(place) as (connections, parallel):
        create_tables(partial(_call, connections), parallel, names, url, compression)
    place.opened().close()  # which notes the version of the layout


def check(url: str) -> list[TableFinding]:
    """What there is of each table, and whether it may be read."""
    place = _of(url)
    connections = Connections(place.servers, place.access.timeout_ms, place.access)
    try:
        return [_finding(connections, table_name(place.namespace, table), table != "meta") for table in TABLES]
    finally:
        connections.close()


def _finding(connections: Connections, name: str, may_be_split: bool) -> TableFinding:
    try:
        # The list of regions is empty, and no error, for a table that does not exist.
        regions = len(_call(connections, regions_of, name.encode()))
        family: Any = _call(connections, family_of, name.encode()) if regions else None
    except StoreUnavailable as error:
        if is_absent(error):
            regions, family = 0, None
        elif "AccessDenied" in str(error):
            advice = f"grant the user of the Thrift server the right to read it: grant 'USER', 'RW', '{name}'"
            return TableFinding(name, "it may not be read", advice=advice)
        else:
            raise
    if not regions:
        return TableFinding(name, "it does not exist", False, "rillet hbase create, or the script in hbase shell")
    if family is None:
        return TableFinding(name, "it has no family n", advice="it is no table of Rillet: use another namespace")
    compression = family.compression.decode() if isinstance(family.compression, bytes) else family.compression
    found = f"{regions} region{'s' * (regions != 1)}, compression {compression}, versions {family.maxVersions}"
    if may_be_split and regions == 1:
        return TableFinding(name, found, advice="HBase splits it as it grows; the script makes tables that are split")
    return TableFinding(name, found)


def status(url: str) -> NamespaceStatus:
    """Who writes, how far the store has come, and where its regions are. It reads only."""
    place = _of(url)
    answers = [(f"{host}:{port}", _answers(place, (host, port))) for host, port in place.servers]
    kv = place.opened(read_only=True)
    connections = Connections(place.servers, place.access.timeout_ms, place.access)
    try:
        holder, head = holder_of(kv), HeadCell(kv, b"head").refresh()
        runs = NO_RUNS
        if head.run_list:
            runs = unpack_list(kv.get_many("runs", [list_key(head.run_list)])[0], head.run_list)
        return NamespaceStatus(
            servers=answers,
            holder=holder,
            lease_left_ms=_left_ms(holder),
            head=head,
            emitted=HeadCell(kv, b"emitted").refresh(),
            runs=runs,
            regions={table: _regions(connections, table_name(place.namespace, table)) for table in TABLES},
        )
    finally:
        connections.close()
        kv.close()


def regions(url: str) -> dict[str, dict[str, int]]:
    """Of each table, how many regions each region server has."""
    place = _of(url)
    connections = Connections(place.servers, place.access.timeout_ms, place.access)
    try:
        return {table: _regions(connections, table_name(place.namespace, table)) for table in TABLES}
    finally:
        connections.close()


def _left_ms(holder: CellHolder | None) -> int:
    if holder is None or is_dead(holder):
        return 0
    return max(0, holder.until_ms - WallClock().now_ms())


def _regions(connections: Connections, name: str) -> dict[str, int]:
    regions = _call(connections, regions_of, name.encode())
    return dict(Counter(f"{region.serverName.decode()}:{region.port}" for region in regions))


def _answers(place: HBasePlace, server: tuple[str, int]) -> bool:
    connections = Connections([server], place.access.timeout_ms, place.access)
    try:
        _call(connections, regions_of, table_name(place.namespace, "meta").encode())
    except (StoreUnavailable, ConnectionDied):
        return False
    finally:
        connections.close()
    return True


def drop(url: str) -> list[str]:
    """Deletes all tables of the store, with all its data; the names of those that there were. A store to which a
    process writes is not deleted."""
    place = _of(url)
    store = place.opened()
    try:
        store.lease(WallClock()).take("")  # AnotherWriter, if a process writes
    finally:
        store.close()
    names = [table_name(place.namespace, table) for table in TABLES]
    with _connected(place) as (connections, parallel):
        parallel.all([partial(_call, connections, delete_table, name.encode()) for name in names])
    return names


@contextmanager
def _connected(place: HBasePlace) -> Iterator[tuple[Connections, InParallel]]:
    """For calls about all tables at the same time."""
    connections, parallel = Connections(place.servers, place.access.timeout_ms, place.access), InParallel(len(TABLES))
    try:
        yield connections, parallel
    finally:
        parallel.close()
        connections.close()


def _call(connections: Connections, verb: Any, *arguments: Any) -> Any:
    try:
        return connections.call(verb, *arguments)
    except ConnectionDied as died:
        raise broken("HBase", died) from died


def _of(url: str, compression: str = "NONE") -> HBasePlace:
    if not url.startswith("hbase://"):
        raise BadStoreUrl(f"{url}: this is about stores on HBase; give --store hbase://HOST:9090/NAMESPACE")
    if compression not in COMPRESSIONS:
        raise BadStoreUrl(f"compression {compression!r}: write one of {', '.join(COMPRESSIONS)}")
    return place_of(url)
