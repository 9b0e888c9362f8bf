"""`rillet top`: the registered queries of a server, the busiest first, or the operators of one, again and again."""

from __future__ import annotations

import argparse
import sys
import time
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from endpoint.cli import terminal
from endpoint.cli.flags import Commands, UsageError, add_command, add_server, seconds, whole
from endpoint.cli.server_commands import client_of
from endpoint.cli.top_operators import lines_of

if TYPE_CHECKING:
    from endpoint.client import Client

_EXAMPLES = """\
  rillet top                     on a terminal: a table that refreshes itself; Ctrl-C ends it
  rillet top --by lag --every 5s
  rillet top near                the operators of this query: rows, time and memory
  rillet top --times 1           one line for each query
  rillet top --of classes        what queries with the same windows take together; or --of streams"""
_ORDERS = ("rows", "cpu", "emissions", "evaluations", "memory", "lag", "late")
_RATES = {"rows": "rows", "cpu": "core_ms", "emissions": "emissions", "evaluations": "evaluations"}
_COUNTS = {"memory": "state_bytes", "lag": "lag_ms", "late": "late"}
_COLUMNS = (
    "query", "state", "runner", "rows/s", "last rates", "cpu %", "emissions/s", "evaluations/s", "memory",
    "lag ms", "late",
)  # fmt: skip
#: Of streams and classes.
_COST_RATES = {"rows": "rows", "cpu": "core_ms"}
_OF_COSTS = ("rows", "cpu", "memory")
_COST_COLUMNS = ("stream or windows", "queries", "rows/s", "cpu %", "memory")
_SPARK = 20


def add(commands: Commands) -> None:
    what = "show the registered queries with their rates and lags, the busiest first"
    parser = add_command(commands, "top", top, what, _EXAMPLES)
    parser.add_argument("query", nargs="?", help="show the operators of this registered query")
    parser.add_argument("--by", choices=_ORDERS, default="rows", help="what the order is by (default: rows)")
    what = "what is listed: queries; or what they take by stream, or by class (the same windows) (default: queries)"
    parser.add_argument("--of", choices=("queries", "streams", "classes"), default="queries", help=what)
    parser.add_argument("--every", type=seconds, default=2.0, metavar="TIME", help="how often (default: 2s)")
    parser.add_argument("--times", type=whole, metavar="N", help="end after N tables; default: never")
    add_server(parser)


def top(arguments: argparse.Namespace) -> None:
    if arguments.of != "queries" and arguments.by not in _OF_COSTS:
        raise UsageError(f"--of {arguments.of} is ordered by {', '.join(_OF_COSTS)}, not by {arguments.by}")
    live = terminal.is_live(sys.stdout)
    if arguments.query is not None:
        _show_operators(arguments, live)
        return
    columns, cells = (_COLUMNS, _cells) if arguments.of == "queries" else (_COST_COLUMNS, _cost_cells)
    with client_of(arguments) as client:
        rates = Rates(_RATES if arguments.of == "queries" else _COST_RATES)
        rates.take(_read(client, arguments.of), time.monotonic())
        for count in _counted(arguments.times):
            time.sleep(arguments.every)
            rates.take(_read(client, arguments.of), time.monotonic())
            rows = [cells(each) for each in rates.ordered(arguments.by)]
            if live:
                _draw(client, terminal.table(columns, rows))
            else:
                lines = [columns, *rows] if count == 1 else rows
                print("\n".join("\t".join(line) for line in lines), flush=True)


def _show_operators(arguments: argparse.Namespace, live: bool) -> None:
    with client_of(arguments) as client:
        client.query_operators(arguments.query)  # measuring begins
        for _ in _counted(arguments.times):
            time.sleep(arguments.every)
            lines = list(lines_of(client, arguments.query, live))
            if live:
                sys.stdout.write("\x1b[H\x1b[2J" + "\n".join(terminal.fitting(lines, 1)) + "\n")
                sys.stdout.flush()
            else:
                print("\n".join(lines), flush=True)


def _counted(times: int | None) -> Iterator[int]:
    count = 0
    while times is None or count < times:
        count += 1
        yield count


def _read(client: Client, what: str) -> list[dict[str, Any]]:
    if what == "queries":
        return client.query_statuses()
    costs: list[dict[str, Any]] = client.costs()[what]
    return [{**each, "query": each["stream"] if what == "streams" else _class_name(each)} for each in costs]


def _class_name(each: Mapping[str, Any]) -> str:
    """Like a [10s/1s] + b [100 elements]."""
    return " + ".join(
        f"{window['stream']} [{window['count']} elements]"
        if window["count"]
        else f"{window['stream']} [{(window['range_ms'] or 0) / 1000:g}s/{(window['step_ms'] or 0) / 1000:g}s]"
        for window in each["windows"]
    )


@dataclass
class Busy:
    """A query, and how much it did in the last interval."""

    status: Mapping[str, Any]
    rates: dict[str, float] = field(default_factory=dict)
    rows: deque[float] = field(default_factory=lambda: deque(maxlen=_SPARK))

    def by(self, order: str) -> float:
        return self.rates.get(order, 0.0) if order in _RATES else float(self.status.get(_COUNTS[order]) or 0)


class Rates:
    """What changed from one reading to the next one, for each second."""

    def __init__(self, fields: Mapping[str, str] = _RATES) -> None:
        """`fields`: of each rate, what it counts."""
        self._fields = fields
        self._busy: dict[str, Busy] = {}
        self._at_s = 0.0

    def take(self, statuses: list[dict[str, Any]], at_s: float) -> None:
        passed_s, before = at_s - self._at_s, self._busy
        self._at_s, self._busy = at_s, {}
        for status in statuses:
            name = status["query"]
            earlier = before.get(name)
            busy = Busy(status) if earlier is None else Busy(status, rows=earlier.rows)
            if earlier is not None and passed_s > 0:
                # A query that was dropped and registered anew starts from 0.
                busy.rates = {
                    rate: max(0, status[field] - earlier.status[field]) / passed_s
                    for rate, field in self._fields.items()
                }
                busy.rows.append(busy.rates["rows"])
            self._busy[name] = busy

    def ordered(self, by: str) -> list[Busy]:
        return sorted(self._busy.values(), key=lambda each: (-each.by(by), each.status["query"]))


def _cells(busy: Busy) -> list[str]:
    status = busy.status
    rows, cpu_ms, emissions, evaluations = (busy.rates.get(rate, 0.0) for rate in _RATES)
    return [
        status["query"],
        status["state"],
        status["runner"],
        f"{rows:.1f}",
        terminal.sparkline(busy.rows, _SPARK),
        f"{cpu_ms / 10:.1f}",  # of 1,000 ms in a second
        f"{emissions:.1f}",
        f"{evaluations:.1f}",
        _memory(status.get("state_bytes")),
        str(status["lag_ms"] or 0),
        str(status["late"]),
    ]


def _cost_cells(busy: Busy) -> list[str]:
    status, rates = busy.status, busy.rates
    return [
        status["query"], str(status["queries"]), f"{rates.get('rows', 0.0):.1f}", f"{rates.get('cpu', 0.0) / 10:.1f}",
        _memory(status["state_bytes"]),
    ]  # fmt: skip


def _memory(nbytes: float | None) -> str:
    """As measured every ten seconds; a query on Spark is not."""
    return "-" if nbytes is None else f"{nbytes / 1e6:.1f} MB" if nbytes >= 1e5 else f"{nbytes / 1e3:.1f} kB"


def _draw(client: Client, lines: list[str]) -> None:
    """Draws the whole screen, as many lines as fit."""
    server = client.status()
    fault = f"  fault: {server['fault']}" if server["fault"] else ""
    state = f"{server['queries']} queries on {server['runner']}, lag {server['lag_ms']} ms{fault}"
    head = f"snapshot {server['head']}, {state}"
    sys.stdout.write("\x1b[H\x1b[2J" + "\n".join([head, "", *terminal.fitting(lines, 3)]) + "\n")
    sys.stdout.flush()
