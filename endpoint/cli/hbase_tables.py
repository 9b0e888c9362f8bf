"""`rillet hbase create|check|drop`: the tables of a store on HBase."""

from __future__ import annotations

import argparse

from endpoint.cli import terminal
from endpoint.cli.flags import Commands, UsageError, add_command, add_store

_ACTIONS = ("create", "check", "drop")


def add(commands: Commands) -> None:
    hbase_ = add_command(
        commands,
        "hbase",
        run,
        "make, check or drop the tables of a store on HBase",
        "  rillet hbase check --store hbase://127.0.0.1:9090/rillet\n"
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
    add_store(hbase_)


def run(arguments: argparse.Namespace) -> int:
    from hbase_store import provisioning

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
    found = provisioning.check(arguments.store)
    rows = [[each.table, each.found, each.advice] for each in found]
    print("\n".join(terminal.table(["table", "found", "advice"], rows)))
    return 0 if all(each.is_there for each in found) else 1
