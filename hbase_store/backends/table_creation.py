"""The tables of a new store on HBase, created at the same time.

HBase takes half a second for a table, and most of that is waiting: its master tells a server of regions what to do only
a few times a second, and asks as seldom whether it is done. It creates several tables in hardly more time than one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from hbase_store.backends.in_parallel import InParallel
from hbase_store.backends.thrift_connections import NoAnswer, first_line
from hbase_store.backends.thrift_verbs import create_table
from hbase_store.errors import StoreUnavailable


def create_tables(
    call: Callable[..., object], parallel: InParallel, names: Sequence[bytes], where: str, compression: str = "NONE"
) -> None:
    """Those that are absent, with one region each. `call` makes a call of Thrift; `where` names the store in errors."""
    creations = [partial(_create, call, name, where, compression) for name in names]
    try:
        parallel.all(creations)
    except NoAnswer:
        # A busy HBase takes longer for all of them than a call may take. It goes on with those that it has begun.
        for create in creations:
            create()


def _create(call: Callable[..., object], name: bytes, where: str, compression: str) -> None:
    try:
        call(create_table, name, compression)
    except StoreUnavailable as error:
        if "AccessDenied" in str(error):
            raise StoreUnavailable(
                f"this user may not create the table {name.decode()} in {where}; let an administrator create the "
                f"tables: `rillet hbase create --script` prints the commands ({first_line(error.__cause__)})"
            ) from error
        raise
