"""`rillet explain`: shows how a text is understood; without a server and a store, and without changing anything.

With a store it also shows the plan: the operators, the estimated rows of each, and with --analyze the actual rows
and times."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

from endpoint.cli import terminal
from endpoint.cli.flags import DEFAULT_SERVER, Commands, UsageError, add_command, add_setting, whole
from endpoint.cli.server_commands import add_text, text_of
from endpoint.cli.terminal import prefixes_of

if TYPE_CHECKING:
    from stream_ext.oneshot.plan_lines import PlanLine

_EXAMPLES = """\
  rillet explain -f near.rq
  rillet explain --sparql near.rq             as plain SPARQL 1.1, for another engine
  rillet explain --json 'SELECT * { ?s ?p ?o }'
  rillet explain report.rq --store lmdb:rillet-data --analyze"""


def add(commands: Commands) -> None:
    parser = add_command(commands, "explain", explain, "explain a query: its windows and its plan", _EXAMPLES)
    add_text(parser)
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print the explanation as JSON")
    form.add_argument("--sparql", action="store_true", help="print the query or update as plain SPARQL 1.1")
    form.add_argument(
        "--analyze", action="store_true", help="run it on --store; show the rows and the time of each operator"
    )
    parser.add_argument("--store", metavar="URL", help="show the operators that evaluate the query on this store")
    parser.add_argument("--snapshot", type=whole, metavar="SN", help="use an earlier snapshot of --store")
    add_setting(parser, "--base", "the base of relative IRIs", DEFAULT_SERVER + "/", metavar="IRI")


def explain(arguments: argparse.Namespace) -> None:
    text = text_of(arguments)
    if arguments.store is not None:
        _of_store(arguments, text)
    elif arguments.analyze or arguments.snapshot is not None:
        raise UsageError("--analyze and --snapshot need a store: name it with --store URL")
    elif arguments.json:
        from stream_ext.oneshot.explanation import explain as explained
        from stream_ext.oneshot.question import Question

        print(json.dumps(explained(Question.read(text, arguments.base)), indent=2))
    else:
        _meaning(arguments, text)


def _meaning(arguments: argparse.Namespace, text: str) -> None:
    from stream_ext.language.printing import to_sparql
    from stream_ext.language.syntax import parse
    from stream_ext.oneshot.explain_text import explain_text

    unit = parse(text, arguments.base)
    print(to_sparql(unit) if arguments.sparql else explain_text(unit), end="\n" * bool(arguments.sparql))


# ---- over a store ----------------------------------------------------------------------------------------------


def _of_store(arguments: argparse.Namespace, text: str) -> None:
    from endpoint.files.local import planned

    if arguments.json or arguments.sparql:
        raise UsageError("--json and --sparql do not depend on a store: leave --store out")
    found = planned(arguments.store, text, arguments.base, arguments.snapshot, arguments.analyze)
    prefixes = prefixes_of(text)
    rows = [_row(line, prefixes) for line in found]
    columns = ["operator", "estimated", "rows", "ms"] if arguments.analyze else ["operator", "estimated"]
    print("\n".join(terminal.table(columns, [row[: len(columns)] for row in rows])))


def _row(line: PlanLine, prefixes: dict[str, str]) -> list[str]:
    estimated = "" if line.estimated is None else f"{line.estimated:,.0f}"
    measured = ["", ""] if line.rows is None else [f"{line.rows:,}", f"{line.ms:,.3f}"]
    return [terminal.shortened(line.text, prefixes), estimated, *measured]
