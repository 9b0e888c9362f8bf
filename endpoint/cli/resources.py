"""`rillet source` and `rillet stream`: commands of an attached store, or of a stream, of a running server.

rillet source list           rillet source refresh main           rillet stream drop taxis"""

from __future__ import annotations

import argparse

from endpoint.cli import terminal
from endpoint.cli.flags import Command, Commands, add_command, add_server
from endpoint.cli.server_commands import AS_JSON, STREAM, client_of, print_json

_SOURCE = "list attached stores, or fetch what is held of one anew"
_STREAM = "drop a stream"


def add(commands: Commands) -> None:
    actions = _actions(commands, "source", _SOURCE, "  rillet source list\n  rillet source refresh main")
    list_ = add_command(actions, "list", list_sources, "list the attached stores", "  rillet source list")
    list_.add_argument("--json", action="store_true", help=AS_JSON)
    add_server(list_)
    refresh_ = add_command(
        actions, "refresh", refresh, "fetch what is held of an attached store anew", "  rillet source refresh main"
    )
    refresh_.add_argument("source", nargs="?", default="main", help="its name; default: main")
    add_server(refresh_)

    actions = _actions(commands, "stream", _STREAM, "  rillet stream drop taxis")
    drop_ = add_command(actions, "drop", drop, "drop a stream that no query reads", "  rillet stream drop taxis")
    drop_.add_argument("stream", help=STREAM)
    add_server(drop_)


def _actions(commands: Commands, name: str, what: str, examples: str) -> Commands:
    parser = add_command(commands, name, lambda _: None, what, examples)
    return parser.add_subparsers(title="actions", dest="action", metavar="ACTION", required=True, parser_class=Command)


def list_sources(arguments: argparse.Namespace) -> None:
    with client_of(arguments) as client:
        found = client.sources()
    if arguments.json:
        print_json(found)
        return
    rows = [[_cell(each, column) for column in _COLUMNS] for each in found]
    advice = "no store is attached; rillet serve --attach URL attaches one"
    print("\n".join(terminal.table(list(_COLUMNS), rows)) if rows else advice)


_COLUMNS = ("source", "state", "held", "as of", "url")


def _cell(source: dict[str, object], column: str) -> str:
    value = source[column.replace(" ", "_")]
    if isinstance(value, dict):  # the times between which what is held was read
        return terminal.moment(value["to"])
    error = source["error"]
    return f"{value}: {error}" if column == "state" and error is not None else "" if value is None else str(value)


def refresh(arguments: argparse.Namespace) -> None:
    with client_of(arguments) as client:
        receipt = client.refresh_source(arguments.source)
    print(f"what is held of {receipt['source']} is as new as snapshot {receipt['snapshot']}")


def drop(arguments: argparse.Namespace) -> None:
    with client_of(arguments) as client:
        client.drop_stream(arguments.stream)
    print(f"{arguments.stream} was dropped")
