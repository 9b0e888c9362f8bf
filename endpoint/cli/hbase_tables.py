"""`rillet hbase create|check|status|drop|up|down`: the tables of a store on HBase, who uses it, and an HBase to try."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING

from endpoint.cli import terminal
from endpoint.cli.flags import Commands, UsageError, add_command, add_store

if TYPE_CHECKING:
    from hbase_store.provisioning import NamespaceStatus

_ACTIONS = ("create", "check", "status", "drop", "up", "down")
_DATA, _PORT, _NAMESPACE, _HEAP = "rillet-data/hbase", 9090, "rillet", "512m"
#: The options of an HBase for trying out, and which action takes each.
_OF_TRIAL = {"data": ("up", "down"), "port": ("up",), "namespace": ("up",), "heap": ("up",)}


def add(commands: Commands) -> None:
    hbase_ = add_command(
        commands,
        "hbase",
        run,
        "make, check or drop the tables of a store on HBase, show who uses it, or run an HBase for trying out",
        "  rillet hbase up\n"
        "  rillet hbase check --store hbase://127.0.0.1:9090/rillet\n"
        "  rillet hbase status --store hbase://127.0.0.1:9090/rillet\n"
        "  rillet hbase create --script --store hbase://127.0.0.1:9090/rillet | hbase shell -n\n"
        "  rillet hbase drop --yes --store hbase://127.0.0.1:9090/rillet",
    )
    hbase_.add_argument("action", choices=_ACTIONS, help="what to do")
    hbase_.add_argument(
        "--script", action="store_true", help="create: print commands for hbase shell, which also split the tables"
    )
    hbase_.add_argument(
        "--compression", default="NONE", metavar="NAME", help="create: NONE (default), SNAPPY, LZ4, ZSTD or GZ"
    )
    hbase_.add_argument("--yes", action="store_true", help="drop: delete the tables, with all data of the store")
    hbase_.add_argument("--data", metavar="DIR", help=f"up, down: the folder of its data and logs (default {_DATA})")
    hbase_.add_argument("--port", type=int, help=f"up: the port of its Thrift server (default {_PORT})")
    hbase_.add_argument("--namespace", metavar="NAME", help=f"up: whose tables it makes (default {_NAMESPACE})")
    hbase_.add_argument("--heap", metavar="SIZE", help=f"up: the memory of its Java process (default {_HEAP})")
    add_store(hbase_)


def run(arguments: argparse.Namespace) -> int:
    from hbase_store import provisioning

    _check_options(arguments)
    if arguments.action == "up":
        from endpoint.trial_hbase.up import bring_up

        data, port = arguments.data or _DATA, arguments.port or _PORT
        return bring_up(data, port, arguments.namespace or _NAMESPACE, arguments.heap or _HEAP)
    if arguments.action == "down":
        from endpoint.trial_hbase.up import bring_down

        bring_down(arguments.data or _DATA)
        print(f"HBase of {arguments.data or _DATA} has ended; its data is still there")
        return 0
    if arguments.action == "create":
        if arguments.script:
            print(provisioning.script(arguments.store, arguments.compression), end="")
        else:
            provisioning.create(arguments.store, arguments.compression)
            print(f"the tables of {arguments.store} are there")
        return 0
    if arguments.action == "drop":
        if not arguments.yes:
            raise UsageError(f"this deletes all data of {arguments.store}: add --yes if you mean it")
        print("\n".join(f"dropped {name}" for name in provisioning.drop(arguments.store)))
        return 0
    if arguments.action == "status":
        print("\n".join(_lines(provisioning.status(arguments.store))))
        return 0
    found = provisioning.check(arguments.store)
    rows = [[each.table, each.found, each.advice] for each in found]
    print("\n".join(terminal.table(["table", "found", "advice"], rows)))
    return 0 if all(each.is_there for each in found) else 1


def _check_options(arguments: argparse.Namespace) -> None:
    for name, actions in _OF_TRIAL.items():
        if getattr(arguments, name) is not None and arguments.action not in actions:
            raise UsageError(f"--{name} is for {' and '.join(f'rillet hbase {action}' for action in actions)}")


def _lines(status: NamespaceStatus) -> Iterator[str]:
    for server, answers in status.servers:
        yield f"Thrift server {server}: {'it answers' if answers else terminal.paint('it does not answer', '31')}"
    yield f"writer: {_writer(status)}"
    yield (
        f"snapshot {status.head.last} (writer epoch {status.head.epoch}); "
        f"commit {status.emitted.last} of emissions (writer epoch {status.emitted.epoch})"
    )
    runs = status.runs.cover(status.head.last)
    rows, nbytes = sum(run.rows for run in runs), sum(run.nbytes for run in runs)
    left = status.head.last - (runs[-1].last if runs else 0)
    counted = f"{len(runs)} run{'s' * (len(runs) != 1)}"
    waiting = "1 snapshot is" if left == 1 else f"{left} snapshots are"
    yield f"folded: {counted}, {rows:,} rows, {nbytes:,} bytes; {waiting} not folded"
    table = [
        [name, str(sum(on.values())), ", ".join(f"{server}: {count}" for server, count in sorted(on.items()))]
        for name, on in status.regions.items()
    ]
    yield from terminal.table(["table", "regions", "on region servers"], table)


def _writer(status: NamespaceStatus) -> str:
    holder = status.holder
    if holder is None or not status.lease_left_ms:
        return "none"
    where = holder.address or "it is no server"
    return f"process {holder.pid} on {holder.host} ({where}); its lease holds for {status.lease_left_ms / 1000:.0f} s"
