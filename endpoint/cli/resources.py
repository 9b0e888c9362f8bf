"""`rillet source` and `rillet stream`: commands of an attached store, or of a stream, of a running server.

rillet source list      rillet source refresh main      rillet stream create taxis      rillet stream drop taxis"""

from __future__ import annotations

import argparse

from endpoint.cli import terminal
from endpoint.cli.flags import Command, Commands, add_command, add_server
from endpoint.cli.server_commands import AS_JSON, STREAM, client_of, print_json

_SOURCE = "list attached stores, or fetch what is held of one anew"
_STREAM = "create or drop a stream"
_CREATE = """\
  rillet stream create readings --lateness 5s --retention 1h
  rillet stream create taxis --timeless http://ex/livesIn"""
#: The options of a stream that are one value each: what each means.
_OPTIONS = {
    "time": ("IRI", "the predicate that has the time of an element; default: timestamps, or the clock"),
    "lateness": ("TIME", "how late elements may come, as 5s; default: 0"),
    "idle": ("TIME", "after this time without an element, time goes on without them; default: it does not"),
    "retention": ("TIME", "for how long elements are retained, as 1h; default: 60s"),
    "batch": ("TIME", "the longest wait for a batch of pushes; default: the server's"),
    "graph": ("IRI", "the graph for triples that are stored permanently; default: the default graph"),
}


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

    actions = _actions(commands, "stream", _STREAM, "  rillet stream create taxis\n  rillet stream drop taxis")
    create_ = add_command(actions, "create", create, "create a stream", _CREATE)
    create_.add_argument("stream", help="the name or IRI of the new stream")
    create_.add_argument(
        "--timeless",
        action="append",
        metavar="IRI",
        help="a predicate whose triples are stored permanently, or all; may be given several times",
    )
    for name, (value, meaning) in _OPTIONS.items():
        create_.add_argument(f"--{name}", metavar=value, help=meaning)
    add_server(create_)
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


def create(arguments: argparse.Namespace) -> None:
    options: dict[str, object] = {name: given for name in _OPTIONS if (given := getattr(arguments, name)) is not None}
    if arguments.timeless is not None:
        options["timeless"] = True if arguments.timeless == ["all"] else arguments.timeless
    with client_of(arguments) as client:
        found = client.create_stream(arguments.stream, **options)
    print(f"{found['stream']} is there; rillet push {found['stream']} FILE pushes elements to it")


def drop(arguments: argparse.Namespace) -> None:
    with client_of(arguments) as client:
        client.drop_stream(arguments.stream)
    print(f"{arguments.stream} was dropped")
