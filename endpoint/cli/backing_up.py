"""`rillet backup` and `rillet restore`: a copy of a store in a folder, and back."""

from __future__ import annotations

import argparse
import sys

from endpoint.cli import terminal
from endpoint.cli.flags import Commands, add_command, add_store


def add(commands: Commands) -> None:
    backup_ = add_command(
        commands,
        "backup",
        backup,
        "copy a store into a folder, also while a server writes to it",
        "  rillet backup /backups/monday --store lmdb:rillet-data\n"
        "  rillet backup /backups/monday --store hbase://127.0.0.1:9090/rillet",
    )
    backup_.add_argument("folder", help="a new or empty folder")
    add_store(backup_)
    restore_ = add_command(
        commands,
        "restore",
        restore,
        "copy a backup into a new store",
        "  rillet restore /backups/monday --store lmdb:restored",
    )
    restore_.add_argument("folder", help="the folder of a backup")
    add_store(restore_)


def backup(arguments: argparse.Namespace) -> None:
    from hbase_store.backup import backup as make

    made = make(arguments.store, arguments.folder, _progress)
    print(f"{arguments.folder} has snapshot {made.snapshot} of {arguments.store}: {made.rows:,} rows, all of them read")


def restore(arguments: argparse.Namespace) -> None:
    from hbase_store.backup import restore as copy_back

    made = copy_back(arguments.folder, arguments.store, _progress)
    print(f"{arguments.store} has snapshot {made.snapshot}, as {arguments.folder} had it: {made.rows:,} rows were read")


def _progress(line: str) -> None:
    if terminal.is_live(sys.stderr):
        print(line, file=sys.stderr)
