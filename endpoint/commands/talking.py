"""`rillet query`, `register`, `watch`, `status`: what one says to a running server."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from endpoint.commands import terminal
from endpoint.commands.flags import Commands, Parser, UsageError, add_command, add_server, whole

if TYPE_CHECKING:
    from endpoint.client import Client

_ACCEPT = {
    "json": "application/sparql-results+json",
    "xml": "application/sparql-results+xml",
    "csv": "text/csv",
    "tsv": "text/tab-separated-values",
}
_QUERY = """\
  rillet query 'SELECT * { ?s ?p ?o } LIMIT 5'
  rillet query -f report.rq --format csv > report.csv
  rillet query 'ASK { ?s ?p ?o }' --snapshot 12
  rillet query 'SELECT * { ?s ?p ?o }' --store lmdb:rillet-data      without a server
  rillet query "INSERT DATA { <http://ex/a> <http://ex/p> 1 }\""""
_REGISTER = """\
  rillet register -f near.rq
  rillet register --name near 'SELECT ?t FROM NAMED WINDOW <urn:w> ON STREAM taxis [RANGE 10s STEP 1s]
                               WHERE { WINDOW <urn:w> { ?t ?p ?z } }'"""
_WATCH = """\
  rillet watch near                  a table that is drawn again with each answer
  rillet watch near | tee near.txt   a line for each row
  rillet watch near --json --since 0 all that is kept, as JSON, and then what comes"""


def add(commands: Commands) -> None:
    register_ = add_command(commands, "register", register, "register a query that goes on being answered", _REGISTER)
    add_text(register_)
    register_.add_argument("--name", help="its name, if the text gives none")
    add_server(register_)
    watch_ = add_command(commands, "watch", watch, "show what a registered query says, as it says it", _WATCH)
    watch_.add_argument("query", help="its name or IRI")
    watch_.add_argument("--since", type=whole, metavar="N", help="begin after emission N (default: with the last one)")
    watch_.add_argument("--limit", type=whole, metavar="N", help="end after N emissions")
    watch_.add_argument("--json", action="store_true", help="each emission as it is sent, one line of JSON")
    add_server(watch_)
    status_ = add_command(commands, "status", status, "how the server and its queries are doing", "  rillet status")
    status_.add_argument("--json", action="store_true", help="as the server sends it")
    add_server(status_)


def add_query(commands: Commands) -> None:
    parser = add_command(commands, "query", query, "ask once, or update", _QUERY)
    add_text(parser)
    parser.add_argument("--format", choices=["table", *_ACCEPT], help="default: table on a terminal, else tsv")
    parser.add_argument("--snapshot", type=whole, metavar="SN", help="ask an earlier snapshot")
    parser.add_argument("--at", metavar="TIME", help="when to evaluate a query with windows")
    parser.add_argument("--timeout", metavar="TIME", help="how long the server may take: 30s")
    parser.add_argument("--explain", action="store_true", help="say what the text means, and do nothing")
    parser.add_argument("--store", metavar="URL", help="read this store itself, without a server")
    add_server(parser)


def add_text(parser: Parser) -> None:
    parser.add_argument("text", nargs="?", help="the text; - is standard input")
    parser.add_argument("-f", "--file", metavar="FILE", help="a file with the text")


def text_of(arguments: argparse.Namespace) -> str:
    if (arguments.text is None) == (arguments.file is None):
        raise UsageError("give the text, or -f FILE, or - to read it from standard input")
    return str(arguments.text) if arguments.text not in (None, "-") else read(arguments.file or "-").decode()


def read(name: str) -> bytes:
    if name == "-":
        return sys.stdin.buffer.read()
    with open(name, "rb") as file:
        return file.read()


@contextmanager
def client_of(arguments: argparse.Namespace) -> Iterator[Client]:
    """A client whose errors are told to a person."""
    import httpx

    from endpoint.client import Client, Refused
    from stream_ext.errors import RilletError

    try:
        with Client(arguments.server, token=arguments.token or None) as client:
            yield client
    except Refused as error:
        raise RilletError(str(error)) from error
    except httpx.ConnectError:
        advice = "start one with `rillet serve`, or say --server URL"
        raise RilletError(f"no server answers at {arguments.server}; {advice}") from None
    except (httpx.TransportError, httpx.InvalidURL) as error:
        raise RilletError(f"{arguments.server}: {error}") from error


# ---- query


def query(arguments: argparse.Namespace) -> None:
    text = text_of(arguments)
    format = arguments.format or ("table" if terminal.is_live(sys.stdout) else "tsv")
    if arguments.store is not None:
        _query_store(arguments, text, format)
        return
    accept = _ACCEPT["json" if format == "table" else format]
    with client_of(arguments) as client:
        wishes = {name: getattr(arguments, name) for name in ("snapshot", "at", "timeout")}
        if arguments.explain:
            print_json(client.query(text, explain="true"))
            return
        answer = client.query(text, accept=accept, **wishes)
    if answer == "":
        print("done")  # an update
    elif format == "json":
        print_json(answer)
    elif format == "table":
        _print_table(answer)
    else:
        sys.stdout.write(answer)


def _query_store(arguments: argparse.Namespace, text: str, format: str) -> None:
    from endpoint import local, results

    if arguments.timeout or arguments.explain:
        raise UsageError("--timeout and --explain are for a server; with --store the text is simply run")
    if local.changes(text):
        raise UsageError("a store opened with --store is read only; send it to a server (--server)")
    with local.asked(arguments.store, text, arguments.snapshot, arguments.at) as (answer, batches):
        pieces = results.write("json" if format == "table" else format, answer.variables, batches, answer.boolean)
        body = b"".join(pieces).decode()
    if format == "table":
        import json

        _print_table(json.loads(body))
    else:
        sys.stdout.write(body if body.endswith("\n") else body + "\n")


def _print_table(answer: dict[str, Any]) -> None:
    columns, rows = terminal.answer_rows(answer)
    print("\n".join(terminal.table(columns, rows)))


def print_json(value: Any) -> None:
    import json

    print(json.dumps(value, indent=2 if terminal.is_live(sys.stdout) else None, ensure_ascii=False))


# ---- register, status


def register(arguments: argparse.Namespace) -> None:
    text = text_of(arguments)
    with client_of(arguments) as client:
        registered = client.register(text, arguments.name)
    for warning in registered.get("warnings", []):
        print(f"warning: {warning}", file=sys.stderr)
    print(f"{registered['query']} is registered; its answers: rillet watch {registered['query']}")


def status(arguments: argparse.Namespace) -> None:
    with client_of(arguments) as client:
        server = client.status()
        queries = [client.query_status(each["query"]) for each in client.queries()]
    if arguments.json:
        print_json({"server": server, "queries": queries})
        return
    print(f"{arguments.server}: store {server['store']}, snapshot {server['head']}, {server['lag']} not evaluated yet")
    print(f"queries run {server['runner']}: {server['why']}; {server['subscriptions']} are listening")
    if server["fault"]:
        print(terminal.paint(f"fault: {server['fault']}", "31"))
    columns = ["query", "state", "runner", "emissions", "lag", "late", "waits for"]
    rows = [[*(str(each[key]) for key in columns[:-1]), ", ".join(each["waits_for"])] for each in queries]
    print("\n".join(terminal.table(columns, rows)) if rows else "no query is registered")


# ---- watch


def watch(arguments: argparse.Namespace) -> None:
    import json

    live = terminal.is_live(sys.stdout) and not arguments.json
    with client_of(arguments) as client:
        since = arguments.since
        if since is None:
            since = max(0, int(client.query_status(arguments.query)["emissions"]) - 1)
        if live:
            print(f"{arguments.query}: nothing yet")
        for count, emission in enumerate(client.subscribe(arguments.query, since, on_change=_say), start=1):
            if arguments.json:
                print(json.dumps(emission, ensure_ascii=False), flush=True)
            elif live:
                _draw(emission)
            else:
                _print_lines(emission)
            if count == arguments.limit:
                return


def _say(line: str) -> None:
    print(f"rillet: {line}", file=sys.stderr, flush=True)


def _draw(emission: dict[str, Any]) -> None:
    """The whole screen anew: the answer is the table, not what led to it."""
    import shutil

    columns, rows = terminal.answer_rows(emission)
    height = shutil.get_terminal_size((120, 24)).lines
    head = f"{emission['query']}  {emission['r2s']}  emission {emission['emission']}  time {emission['time']}"
    lines = terminal.table(columns, rows)
    cut = [*lines[: height - 4], f"... {len(lines) - height + 4} more"] if len(lines) > height - 3 else lines
    count = "1 row" if len(rows) == 1 else f"{len(rows)} rows"
    sys.stdout.write("\x1b[H\x1b[2J" + "\n".join([head, count, *cut]) + "\n")
    sys.stdout.flush()


def _print_lines(emission: dict[str, Any]) -> None:
    """number, time, and the values of one row; an empty answer is a line too."""
    _, rows = terminal.answer_rows(emission)
    for row in rows or [["(empty)"]]:
        print("\t".join([str(emission["emission"]), str(emission["time"]), *row]), flush=True)
