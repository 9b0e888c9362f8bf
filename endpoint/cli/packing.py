"""`rillet package`: what tasks of Spark on other machines need, in one file."""

from __future__ import annotations

import argparse
from pathlib import Path

from endpoint.cli.flags import Commands, UsageError, add_command


def add(commands: Commands) -> None:
    package = add_command(
        commands,
        "package",
        run,
        "pack this environment for the machines of a Spark cluster",
        "  rillet package rillet-package.tar.gz\n"
        "  rillet serve --spark-package rillet-package.tar.gz --spark-master spark://10.0.0.5:7077 "
        "--spark-address 10.0.0.9",
    )
    package.add_argument("file", metavar="FILE", help="the file to write, .tar.gz")
    package.add_argument(
        "--python", metavar="PATH", help="the interpreter on those machines; if not given, the path of this one"
    )


def run(arguments: argparse.Namespace) -> None:
    from endpoint.files.packing import pack

    file = Path(arguments.file)
    if not file.name.endswith((".tar.gz", ".tgz")):
        raise UsageError(f"{file}: give a name that ends in .tar.gz, by which Spark knows how to unpack it")
    pack(file, arguments.python)
    print(f"packed {file} ({file.stat().st_size / 1e6:.0f} MB)")
