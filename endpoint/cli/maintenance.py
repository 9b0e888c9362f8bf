"""`rillet warm`, `doctor`, `bench`, `completion`: commands about the machine and the program itself."""

from __future__ import annotations

import argparse
import sys
from importlib import import_module
from typing import Any

from endpoint.cli import terminal
from endpoint.cli.flags import Commands, UsageError, add_command, add_server, add_setting, add_store, whole
from endpoint.cli.server_commands import client_of
from stream_ext.errors import RilletError

_SHELLS = ("bash", "zsh", "tcsh")
#: What a script of `rillet completion` asks for: a list of the server, and the field with the name.
_NAMED = {"streams": "stream", "queries": "query"}


def add(commands: Commands) -> None:
    add_command(commands, "warm", warm, "prepare this machine, so that a server starts in less time", "  rillet warm")
    doctor_ = add_command(commands, "doctor", doctor, "check this machine and report what to fix", "  rillet doctor")
    add_store(doctor_)
    add_setting(doctor_, "--port", "the port to check", "8000", type=whole)
    bench_ = add_command(
        commands, "bench", bench, "run a benchmark", "  rillet bench line --quick --json line.json\n  rillet bench"
    )
    bench_.add_argument("name", nargs="?", help="the benchmark; not given: list the benchmarks")
    bench_.add_argument("--quick", action="store_true", help="use smaller inputs (at most 50 s)")
    bench_.add_argument("--json", metavar="FILE", help="write the raw figures to this file")
    bench_.add_argument(
        "--minutes", type=float, default=0.0, help="streams: observe the memory of the server for so many minutes"
    )
    bench_.add_argument("--large", action="store_true", help="streams: also query a store with 10,000,000 triples")
    completion_ = add_command(
        commands,
        "completion",
        completion,
        "print the completion script for a shell, or the names that it offers",
        "  rillet completion bash > ~/.local/share/bash-completion/completions/rillet\n"
        '  rillet completion zsh > "${fpath[1]}/_rillet"',
    )
    completion_.add_argument(
        "what", choices=[*_SHELLS, *_NAMED], help="a shell; or streams, queries: their names on the server"
    )
    add_server(completion_)


def warm(arguments: argparse.Namespace) -> None:
    import time

    from stream_ext.runners.spark.archive_making import make
    from stream_ext.runners.spark.java import find_java
    from stream_ext.warm import warm as compile_all

    started = time.monotonic()
    compile_all()
    print(f"the kernels are compiled ({time.monotonic() - started:.1f} s)", flush=True)
    started = time.monotonic()
    try:
        home = make(find_java())
    except RilletError as error:  # all works without, and only starts later
        print(f"the classes of Spark are not prepared: {error}")
    else:
        print(f"the classes of Spark are prepared, in {home.path} ({time.monotonic() - started:.1f} s)")


def doctor(arguments: argparse.Namespace) -> int:
    from endpoint.cli.doctor import checks

    failed = 0
    for check in checks(arguments.store, arguments.port):
        mark = terminal.paint("ok ", "32") if check.good else terminal.paint("BAD", "31")
        print(f"{mark}  {check.what}: {check.found}")
        if not check.good:
            failed += 1
            if check.advice:
                print(f"     {check.advice}")
    print("everything is in order" if not failed else f"{failed} to fix")
    return 1 if failed else 0


def bench(arguments: argparse.Namespace) -> None:
    benches = _benchmarks()
    if arguments.name is None:
        print("\n".join(f"{name}  {found.what}" for name, found in benches.items()))
        return
    if arguments.name not in benches:
        raise UsageError(f"there is no benchmark {arguments.name!r}; the benchmarks are {', '.join(benches)}")
    found = benches[arguments.name]
    module = found.load()
    if (arguments.minutes or arguments.large) and not found.watches:
        raise UsageError(
            f"the benchmark {arguments.name!r} does not support --minutes and --large; the benchmark streams does"
        )
    more = {"minutes": arguments.minutes, "large": arguments.large} if found.watches else {}
    figures: dict[str, Any] = module.run(arguments.quick, **more)
    if arguments.json:
        found.keep(arguments.json, arguments.quick, figures)
    print(module.summary(figures))


def _benchmarks() -> dict[str, Any]:
    """The benchmarks. They are not part of the installed packages: they need a checkout and other engines."""
    try:
        benches: dict[str, Any] = import_module("tests.benchmarks").BENCHES
    except ModuleNotFoundError as error:
        raise UsageError(
            "the benchmarks are in tests/benchmarks of the project's source and are not installed with "
            f"the package: run this in a checkout after `make setup` ({error})"
        ) from error
    return benches


def completion(arguments: argparse.Namespace) -> None:
    from endpoint.cli.command_line import build_parser
    from endpoint.cli.completion import plain, script

    if arguments.what in _SHELLS:
        sys.stdout.write(script(build_parser(), arguments.what) + "\n")
        return
    with client_of(arguments) as client:
        listed = client.streams() if arguments.what == "streams" else client.queries()
    for name in plain(each[_NAMED[arguments.what]] for each in listed):
        print(name)
