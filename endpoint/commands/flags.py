"""Flags that commands share. Every setting has a flag and a variable: `--batch-ms` is RILLET_BATCH_MS."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from stream_ext.errors import RilletError

DEFAULT_STORE = "lmdb:rillet-data"
DEFAULT_SERVER = "http://127.0.0.1:8000"

Commands = Any  # argparse gives its sub-parsers no public type


class UsageError(RilletError):
    """The command does not make sense as it was written."""


class Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(2, f"rillet: {message}\n(try: {self.prog} --help)\n")


def add_command(
    commands: Commands, name: str, run: Callable[[argparse.Namespace], int | None], what: str, examples: str
) -> Parser:
    parser: Parser = commands.add_parser(
        name,
        help=what,
        description=what[0].upper() + what[1:] + ".",
        epilog="examples:\n" + examples,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.set_defaults(run=run)
    return parser


def add_setting(parser: Parser, flag: str, help: str, default: Any = None, **more: Any) -> None:
    """A flag whose default may come from the environment; argparse reads a text from there as one from the line."""
    variable = "RILLET_" + flag.lstrip("-").replace("-", "_").upper()
    shown = "" if default is None else f", default {default}"
    parser.add_argument(flag, default=os.environ.get(variable, default), help=f"{help} ({variable}{shown})", **more)


def add_store(parser: Parser) -> None:
    add_setting(parser, "--store", "lmdb:PATH, or hbase://HOST:9090/NAMESPACE", DEFAULT_STORE, metavar="URL")


def add_server(parser: Parser) -> None:
    add_setting(parser, "--server", "the server to talk to", DEFAULT_SERVER, metavar="URL")
    add_setting(parser, "--token", "what a server wants from those who write", metavar="TOKEN")


def seconds(text: str) -> float:
    """The value of a flag that is a length of time."""
    from endpoint.parameters import parse_duration
    from stream_ext.errors import BadArgument

    try:
        return parse_duration(text, "it")
    except BadArgument:
        raise argparse.ArgumentTypeError(f"{text!r} is no length of time: write 30s, 500ms, 2m or 0") from None


def whole(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number")
    return int(text)


class Refuse(argparse.Action):
    """A flag that is designed and not there yet: refused by name, never ignored."""

    def __init__(self, option_strings: Sequence[str], dest: str, **more: Any) -> None:
        super().__init__(option_strings, dest, nargs="?", help=argparse.SUPPRESS)

    def __call__(self, parser: argparse.ArgumentParser, *_: Any, **__: Any) -> NoReturn:
        parser.error(f"{'/'.join(self.option_strings)} is not built yet in this version")
