"""`rillet`: parses the command line; the modules of the commands do the work, and nothing heavy is imported before.

Exit codes: 0 success, 1 failure, 2 wrong usage, 130 interrupted."""

from __future__ import annotations

import argparse
import difflib
import os
import sys
from collections.abc import Sequence

from endpoint.cli import (
    backing_up,
    demonstrating,
    explaining,
    hbase_tables,
    loading,
    maintenance,
    new_project,
    packing,
    pushing,
    query,
    resources,
    server_commands,
    serving,
    top,
)
from endpoint.cli.flags import Command, Parser, UsageError, add_command
from endpoint.cli.settings_file import find_settings

_DESCRIPTION = "An RDF store with streams: SPARQL 1.1 queries and continuous queries over the same data."
_EPILOG = """\
examples:
  rillet new rooms                          make a folder to start from
  rillet load people.ttl                    load a file into the store in ./rillet-data
  rillet serve                              start a server on http://127.0.0.1:8000
  rillet query 'SELECT * { ?s ?p ?o } LIMIT 5'
  rillet register -f near.rq                register a continuous query
  rillet push taxis positions.ndjson        push elements to a stream
  rillet watch near                         show the results of the query as they are emitted

exit codes: 0 success, 1 failure, 2 wrong usage, 130 interrupted
settings: rillet.toml in this folder (or --config FILE) sets the defaults of flags, as port = 8080;
  so does a variable RILLET_NAME (RILLET_STORE, RILLET_PORT ...); RILLET_DEBUG=1 shows tracebacks"""


class _Formatter(argparse.RawDescriptionHelpFormatter):
    """Leaves room for the names of the commands: argparse does not count that they are indented once more."""

    def format_help(self) -> str:
        self._action_max_length += self._indent_increment
        return super().format_help()


def build_parser() -> Parser:
    parser = Parser(
        prog="rillet",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=_Formatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"rillet {_version()}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True, parser_class=Command)
    serving.add(commands)
    new_project.add(commands)
    loading.add(commands)
    query.add(commands)
    pushing.add(commands)
    server_commands.add(commands)
    top.add(commands)
    resources.add(commands)
    explaining.add(commands)
    demonstrating.add(commands)
    backing_up.add(commands)
    hbase_tables.add(commands)
    packing.add(commands)
    maintenance.add(commands)
    help_ = add_command(commands, "help", _help, "show this help, or the help of a command", "  rillet help push")
    help_.add_argument("command", nargs="?", choices=list(commands.choices), metavar="COMMAND", help="the command")
    return parser


def _help(arguments: argparse.Namespace) -> None:
    parser = build_parser()
    if arguments.command is None:
        parser.print_help()
    else:
        parser.parse_args([arguments.command, "--help"])


def main(argv: Sequence[str] | None = None) -> int:
    parser = build_parser()
    given = list(sys.argv[1:] if argv is None else argv)
    if not given:
        parser.print_help(sys.stderr)
        return 2
    _check_order(parser, given)
    try:
        settings = find_settings(given, os.environ)
        if settings is not None:
            settings.set_defaults(parser)
    except UsageError as error:
        parser.error(str(error))
    except OSError as error:
        parser.error(_message(error))
    arguments = parser.parse_args(given)
    arguments.settings_file = None if settings is None else str(settings.path)
    try:
        return int(arguments.run(arguments) or 0)
    except KeyboardInterrupt:
        print(file=sys.stderr)  # the terminal has written ^C into our line
        return 130
    except BrokenPipeError:
        # The reader has closed the pipe (`| head`); Python must not report this when it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        if os.environ.get("RILLET_DEBUG"):
            raise
        print(f"rillet: {_message(error)}", file=sys.stderr)
        return 2 if _is_usage(error) else 1


def _check_order(parser: Parser, argv: list[str]) -> None:
    """Rejects a flag before the command: flags belong after it."""
    first = argv[0].partition("=")[0]
    if not first.startswith("-") or first in parser._option_string_actions:
        return
    (action,) = (each for each in parser._actions if isinstance(each, argparse._SubParsersAction))
    flags = {flag: name for name, command in action.choices.items() for flag in command._option_string_actions}
    near = first if first in flags else next(iter(difflib.get_close_matches(first, flags, n=1)), None)
    hint = "" if near is None else f": {near} must follow the command (rillet {flags[near]} {near} ...)"
    parser.error(f"unknown option before the command: {first}{hint}")


def _message(error: Exception) -> str:
    """The message for an error: the text of an operating error; a bug of ours is named as such."""
    from endpoint.errors import STATUS

    if any(isinstance(error, kind) for kind, _ in STATUS):
        return str(error)
    if isinstance(error, OSError):
        return f"{error.strerror or error}: {error.filename}" if error.filename else str(error)
    return f"internal error of rillet: {type(error).__name__}: {error}\n(RILLET_DEBUG=1 shows the traceback)"


def _is_usage(error: Exception) -> bool:
    return isinstance(error, UsageError)


def _version() -> str:
    from hbase_store.version import __version__

    return __version__


if __name__ == "__main__":  # without it `python -m endpoint.cli.command_line` would do nothing and succeed
    raise SystemExit(main())
