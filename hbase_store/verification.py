"""Verification: every checksum of a store, once, after its machine crashed while a process was writing.

With `--durability process` the kernel writes pages to disk when it likes, and in what order it likes. A process that
dies loses nothing of that; a machine that goes down may lose the last second, or leave old pages among new ones. Then
the store is not to answer before it is known to be whole."""

from __future__ import annotations

from collections.abc import Iterator

from hbase_store.backends.keyvalue import TABLES, KeyValue
from hbase_store.errors import Corrupt, StoreError
from hbase_store.layout.run_blocks import index_key, run_number, unpack_index
from hbase_store.layout.run_list import list_key, unpack_list
from hbase_store.layout.sealed import is_whole
from hbase_store.log.head import HeadCell

_AFTER_CRASH = (
    "the machine went down while this store was written with --durability process, and it is damaged: "
    "{}. Restore it from a backup, or load the data again; with --durability power, acknowledged data "
    "survives"
)


def verify(kv: KeyValue) -> int:
    """After a crash of the machine: `check_rows`, with an error that says so."""
    try:
        return check_rows(kv)
    except StoreError as error:
        raise Corrupt(_AFTER_CRASH.format(error)) from error


def check_rows(kv: KeyValue) -> int:
    """Checks all rows, and counts them; Corrupt if a row is damaged or a part of a listed run is missing."""
    count = 0
    blocks: dict[int, int] = {}
    for table in TABLES:
        if table == "meta":
            continue  # its cells are checked whenever they are read
        for key, value in kv.scan(table, b"", None):
            if not is_whole(value):
                raise Corrupt(f"the checksum of row {key.hex()} of table {table} is wrong")
            if table == "run":
                blocks[run_number(key)] = blocks.get(run_number(key), 0) + 1
            count += 1
    for number, expected in _listed_blocks(kv):
        if (found := blocks.get(number, 0)) != expected:
            raise Corrupt(f"run {number} has {found} of its {expected} blocks")
    return count


def _listed_blocks(kv: KeyValue) -> Iterator[tuple[int, int]]:
    """The runs that the head names, and how many blocks each was written with."""
    head = HeadCell(kv, b"head").refresh()
    if not head.run_list:
        return
    (value,) = kv.get_many("runs", [list_key(head.run_list)])
    for run in unpack_list(value, head.run_list).runs:
        keys = [index_key(run.number, piece) for piece in range(run.pieces)]
        index = unpack_index(list(zip(keys, kv.get_many("runindex", keys), strict=True))) if keys else {}
        yield run.number, sum(len(column.rows) for column in index.values())
