"""Commands for a running server: `rillet register`, `watch`, `status`; `pause`, `resume`, `move` and `drop` of a
query; `heartbeat` and `late` of a stream."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from endpoint.cli import terminal
from endpoint.cli.bars import Bars
from endpoint.cli.flags import (
    Commands,
    Parser,
    UsageError,
    add_command,
    add_server,
    no_such_file,
    open_file,
    whole,
)

if TYPE_CHECKING:
    from endpoint.client import Client

_UNAUTHORIZED = 401
_REGISTER = """\
  rillet register -f near.rq
  rillet register -f near.rq --replace      near has another text now
  rillet register --name near 'SELECT ?t FROM NAMED WINDOW <urn:w> ON STREAM taxis [RANGE 10s STEP 1s]
                               WHERE { WINDOW <urn:w> { ?t ?p ?z } }'"""
_WATCH = """\
  rillet watch near                  on a terminal: a table that shows the latest result
  rillet watch near | tee near.txt   one line for each row
  rillet watch near --json --since 0 all retained emissions as JSON, then new ones"""
_QUERY, STREAM = "the name or IRI of the query", "the name or IRI of the stream"
AS_JSON = "print the response of the server as JSON"


def add(commands: Commands) -> None:
    register_ = add_command(commands, "register", register, "register a continuous query", _REGISTER)
    add_text(register_)
    register_.add_argument("--name", help="the name of the query, if the text has none")
    register_.add_argument("--replace", action="store_true", help="drop a query of this name with another text")
    add_server(register_)
    watch_ = add_command(commands, "watch", watch, "show the results of a registered query as they are emitted", _WATCH)
    watch_.add_argument("query", help=_QUERY)
    watch_.add_argument("--since", type=whole, metavar="N", help="start after emission N; default: with the latest")
    watch_.add_argument("--limit", type=whole, metavar="N", help="stop after N emissions")
    watch_.add_argument("--json", action="store_true", help="print each emission as one line of JSON")
    add_server(watch_)
    status_ = add_command(
        commands,
        "status",
        status,
        "show the state of the server, attached stores and registered queries",
        "  rillet status\n  rillet status near",
    )
    status_.add_argument("query", nargs="*", help="show these queries only")
    status_.add_argument("--json", action="store_true", help=AS_JSON)
    add_server(status_)
    for run, what in (
        (pause, "pause a registered query until it is resumed"),
        (resume, "resume a query that is paused, failed or parked"),
        (drop, "drop a registered query and its emissions"),
    ):
        parser = add_command(commands, run.__name__, run, what, f"  rillet {run.__name__} near")
        parser.add_argument("query", help=_QUERY)
        add_server(parser)
    move_ = add_command(
        commands, "move", move, "move a registered query to another runner", "  rillet move near inline"
    )
    move_.add_argument("query", help=_QUERY)
    move_.add_argument("runner", choices=("inline", "spark"), help="the server's own process, or Spark")
    add_server(move_)

    heartbeat_ = add_command(
        commands,
        "heartbeat",
        heartbeat,
        "advance the time of a stream without an element",
        "  rillet heartbeat taxis 2000",
    )
    heartbeat_.add_argument("stream", help=STREAM)
    heartbeat_.add_argument("time", help="milliseconds or xsd:dateTime; windows that end at or before this time close")
    add_server(heartbeat_)
    late_ = add_command(commands, "late", late, "list the late elements of a stream", "  rillet late taxis")
    late_.add_argument("stream", help=STREAM)
    late_.add_argument("--since", type=whole, metavar="SN", help="only elements from snapshots after this one")
    late_.add_argument("--limit", type=whole, metavar="N", help="at most N elements")
    late_.add_argument("--json", action="store_true", help=AS_JSON)
    add_server(late_)


def add_text(parser: Parser) -> None:
    parser.add_argument("text", nargs="?", help="the text, or the name of a file with the text; -: standard input")
    parser.add_argument("-f", "--file", metavar="FILE", help="a file with the text")


def text_of(arguments: argparse.Namespace) -> str:
    if (arguments.text is None) == (arguments.file is None):
        raise UsageError("give the text, or -f FILE, or - to read it from standard input")
    text = arguments.text
    if text in (None, "-") or _is_file(text):
        text = read(arguments.file or text).decode()
    if not text.strip():
        raise UsageError("the text is empty")
    return str(text)


def _is_file(text: str) -> bool:
    """Whether the argument is a file name: SPARQL has braces or blanks, one word is a name."""
    from pathlib import Path

    if set(text) & set("{} \n") or not text:
        return False
    if Path(text).is_file():
        return True
    if set(text) & set("./"):
        raise no_such_file(text)
    return False


def read(name: str) -> bytes:
    if name == "-":
        return sys.stdin.buffer.read()
    with open_file(name) as file:
        return file.read()


@contextmanager
def client_of(arguments: argparse.Namespace) -> Iterator[Client]:
    """A client that turns errors into messages for people."""
    import httpx

    from endpoint.client import Client, Refused
    from stream_ext.errors import RilletError

    try:
        client = Client(arguments.server, token=arguments.token or None)
    except OSError as error:  # an error without a file name
        trusted = os.environ.get("SSL_CERT_FILE") or os.environ.get("SSL_CERT_DIR")
        raise RilletError(f"{trusted} (SSL_CERT_FILE) has no certificates: {error.strerror or error}") from error
    try:
        with client:
            yield client
    except Refused as error:
        advice = "; give it with --token TOKEN or RILLET_TOKEN" if error.status == _UNAUTHORIZED else ""
        raise RilletError(f"{error}{advice}") from error
    except httpx.ConnectError as error:
        raise RilletError(_why_not_connected(arguments.server, str(error))) from None
    except httpx.RemoteProtocolError as error:
        advice = "; if it serves HTTPS, write https://" if arguments.server.startswith("http:") else ""
        raise RilletError(f"{arguments.server}: {str(error).rstrip('.')}{advice}") from error
    except (httpx.TransportError, httpx.InvalidURL) as error:
        raise RilletError(f"{arguments.server}: {error}") from error


def _why_not_connected(server: str, why: str) -> str:
    """The cause of a failed connection; if only TLS failed, there is a server."""
    if "CERTIFICATE_VERIFY_FAILED" in why:
        return f"{server} is not trusted: {why}; SSL_CERT_FILE=FILE names a file (PEM) with the certificates to trust"
    if "SSL" in why:
        return f"{server}: {why}; if it serves HTTP only, write http://"
    return f"no server answers at {server}; start one with `rillet serve`, or give --server URL"


def print_json(value: Any) -> None:
    import json

    print(json.dumps(value, indent=2 if terminal.is_live(sys.stdout) else None, ensure_ascii=False))


# ---- register, status


def register(arguments: argparse.Namespace) -> None:
    text = text_of(arguments)
    with client_of(arguments) as client:
        registered = client.register(text, arguments.name, replace=arguments.replace)
    for warning in registered.get("warnings", []):
        print(f"warning: {warning}", file=sys.stderr)
    print(f"{registered['query']} is registered; see its results with: rillet watch {registered['query']}")


def status(arguments: argparse.Namespace) -> None:
    with client_of(arguments) as client:
        server, sources = client.status(), client.sources()
        names = arguments.query
        if arguments.json and not names:
            names = [each["query"] for each in client.queries()]  # with their plans
        queries = [client.query_status(name) for name in names] if names else client.query_statuses()
    if arguments.json:
        print_json({"server": server, "sources": sources, "queries": queries})
        return
    behind = f"the queries are {server['lag']} snapshots behind" if server["lag"] else "all queries have evaluated it"
    print(f"{arguments.server}: store {server['store']}, snapshot {server['head']}; {behind}")
    print(f"queries run on {server['runner']}: {server['why']}; {server['subscriptions']} subscribed")
    for shard in (server["spark"] or {}).get("shards", ()):
        print(_of_shard(shard))
    if server["role"] == "reader":
        print(f"role: reader; {_writer_of(server['holder'])}")
    if server["readers"]:
        print(f"role: writer; other servers of the same store that follow it: {server['readers']}")
    if server["fault"]:
        print(terminal.paint(f"fault: {server['fault']}", "31"))
    for source in sources:
        print(_of_source(source))
    columns = ["query", "state", "runner", "emissions", "lag", "late", "waits for"]
    rows = [[*(str(each[key]) for key in columns[:-1]), ", ".join(_waits_for(each))] for each in queries]
    print("\n".join(terminal.table(columns, rows)) if rows else "no queries are registered")
    # Many queries wait for the same: each reason is printed once, for the first of them.
    reasons: dict[str, str] = {}
    for query in queries:
        for stream in query["stream_times"]:
            if stream["stalled"]:
                reasons.setdefault(stream["stream"], f"{query['query']} waits for {stream['awaits']}")
    for reason in reasons.values():
        print(reason)


def _waits_for(status: dict[str, Any]) -> list[str]:
    """The streams that hold the query back: those behind the others, or else those that stand still."""
    return status["waits_for"] or [each["stream"] for each in status["stream_times"] if each["stalled"]]


def _of_shard(shard: dict[str, Any]) -> str:
    where = f"process {shard['pid']} of {shard['host']}" if shard["pid"] is not None else "no process"
    why = f" ({shard['why']})" if shard["why"] else ""
    return (
        f"shard {shard['shard']} runs on {shard['runner']}{why}: {where}, {shard['core_share']:.0%} of a core, "
        f"{shard['lag']} snapshots behind, built {shard['builds']} times"
    )


def _writer_of(holder: dict[str, Any] | None) -> str:
    if holder is None:
        return "it is not known which process writes"
    where = holder["address"] or "which is not a server"
    return f"the writer is process {holder['pid']}, {where}"


def _of_source(source: dict[str, Any]) -> str:
    as_of = source["as_of"]
    held = f"; {source['held']} quads of it are held, as of {terminal.moment(as_of['to'])}" if as_of else ""
    error = "" if source["error"] is None else f": {source['error']}"
    line = f"attached store {source['source']} at {source['url']} is {source['state']}{error}{held}"
    return terminal.paint(line, "31") if error else line


def pause(arguments: argparse.Namespace) -> None:
    with client_of(arguments) as client:
        _print_state(client.pause(arguments.query))


def resume(arguments: argparse.Namespace) -> None:
    with client_of(arguments) as client:
        _print_state(client.resume(arguments.query))


def _print_state(status: dict[str, Any]) -> None:
    print(f"{status['query']} is {status['state']}")


def move(arguments: argparse.Namespace) -> None:
    with client_of(arguments) as client:
        status = client.move(arguments.query, arguments.runner)
    print(f"{status['query']} runs {status['runner']}: {status['why']}")


def heartbeat(arguments: argparse.Namespace) -> None:
    from stream_ext.times import parse_time

    with client_of(arguments) as client:
        receipt = client.heartbeat(arguments.stream, arguments.time, wait="evaluated")
        come_to = client.stream_status(arguments.stream)["time"]
    if come_to > parse_time(arguments.time):
        print(f"{receipt['stream']} had already reached {terminal.moment(come_to)}: nothing changed")
    else:
        print(f"the time of {receipt['stream']} is now {arguments.time}: snapshot {receipt['snapshot']}")


def late(arguments: argparse.Namespace) -> None:
    with client_of(arguments) as client:
        found = client.late(arguments.stream, since=arguments.since, limit=arguments.limit)
    if arguments.json:
        print_json(found)
        return
    columns = ["time", "snapshot", "late for", "data"]
    rows = [
        [str(each["timestamp"]), str(each["snapshot"]), ", ".join(each["queries"]), " ".join(each["data"].split("\n"))]
        for each in found["elements"]
    ]
    print(f"{found['stream']}: {found['late']} late, {len(rows)} shown")
    if rows:
        print("\n".join(terminal.table(columns, rows)))


def drop(arguments: argparse.Namespace) -> None:
    with client_of(arguments) as client:
        client.drop_query(arguments.query)
    print(f"{arguments.query} was dropped")


# ---- watch


def watch(arguments: argparse.Namespace) -> None:
    import json

    live = terminal.is_live(sys.stdout) and not arguments.json
    with client_of(arguments) as client:
        known = client.query_status(arguments.query)
        since = max(0, int(known["emissions"]) - 1) if arguments.since is None else arguments.since
        if live:
            print(f"{arguments.query}: no result yet{_why_nothing(client, known)}")
        bars = Bars()
        for count, emission in enumerate(client.subscribe(arguments.query, since, on_change=_print_notice), start=1):
            if arguments.json:
                print(json.dumps(emission, ensure_ascii=False), flush=True)
            elif live:
                _draw(emission, terminal.prefixes_of(known["text"]), bars.line(emission))
            else:
                _print_lines(emission)
            if count == arguments.limit:
                return


def _why_nothing(client: Client, status: dict[str, Any]) -> str:
    if waits_for := _waits_for(status):
        return f"; it waits for {', '.join(waits_for)}"
    if status["evaluated"] is not None:
        return ""
    times = [each["time"] for each in client.streams() if each["stream"] in status["streams"]]
    come_to = max((time for time in times if time is not None), default=None)
    return (
        ""
        if come_to is None
        else (f"; its streams have reached {terminal.moment(come_to)}, and its first evaluation is after that")
    )


def _print_notice(line: str) -> None:
    print(f"rillet: {line}", file=sys.stderr, flush=True)


def _draw(emission: dict[str, Any], prefixes: dict[str, str], bars: str = "") -> None:
    """Draws the whole screen: the last values as bars, and the answer as a table."""
    columns, rows = terminal.answer_rows(emission, prefixes)
    time = terminal.moment(emission["time"])
    head = f"{emission['query']}  {emission['r2s']}  emission {emission['emission']}  time {time}"
    lines = terminal.fitting(terminal.table(columns, rows), 3)
    count = "1 row" if len(rows) == 1 else f"{len(rows)} rows"
    sys.stdout.write("\x1b[H\x1b[2J" + "\n".join([head, f"{count}  {bars}".rstrip(), *lines]) + "\n")
    sys.stdout.flush()


def _print_lines(emission: dict[str, Any]) -> None:
    """Prints number, time, and the values of one row; an empty answer is a line, too."""
    _, rows = terminal.answer_rows(emission)
    for row in rows or [["(empty)"]]:
        print("\t".join([str(emission["emission"]), str(emission["time"]), *row]), flush=True)
