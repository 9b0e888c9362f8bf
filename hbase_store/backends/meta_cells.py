"""The cells of `meta` that the backends keep themselves: layout version, counters and the lease.

A cell that was once compared-and-set is changed by compare-and-set alone; `delete` does not reach it."""

from __future__ import annotations

from hbase_store.backends.keyvalue import CALL_BYTES_MAX, KEY_BYTES_MAX, CompareAndSet, Put
from hbase_store.errors import BadRow, LayoutError

#: Changes whenever rows are written in a way that older code cannot read.
LAYOUT_VERSION = b"4"
LAYOUT_KEY = b"layout"
LEASE_KEY = b"lease"
COUNTER_PREFIX = b"counter/"


def counter_key(counter: str) -> bytes:
    return COUNTER_PREFIX + counter.encode()


def check_layout(found: bytes | None, where: str) -> None:
    if found is None:
        raise LayoutError(f"{where} contains something that is not a Rillet store; choose another place")
    if found != LAYOUT_VERSION:
        raise LayoutError(
            f"{where} has layout version {found.decode(errors='replace')}, this Rillet reads and writes version "
            f"{LAYOUT_VERSION.decode()}; use the Rillet that wrote it, or load the data into a new store"
        )


def check_put(put: Put) -> None:
    """Refuses what any backend would refuse, so that a store can be copied from one backend to another."""
    if not 0 < len(put.key) <= KEY_BYTES_MAX:
        raise BadRow(f"a key of {len(put.key)} bytes in {put.table}: LMDB's limit is 1 to {KEY_BYTES_MAX} bytes")
    if len(put.value) > CALL_BYTES_MAX:
        raise BadRow(
            f"a value of {len(put.value)} bytes in {put.table}: split it into pieces of {CALL_BYTES_MAX} at most"
        )


def check_compare_and_set(change: CompareAndSet) -> None:
    check_put(Put("meta", change.key, change.new, 0))
    if not change.new or change.expected == b"":
        raise BadRow(
            f"the cell {change.key!r} cannot be compared with an empty value: to HBase, an empty value is "
            "an absent cell"
        )
