"""`rillet explain`: what a text means, read here; it needs no server and no store, and changes nothing."""

from __future__ import annotations

import argparse
import json

from endpoint.commands.flags import DEFAULT_SERVER, Commands, add_command, add_setting
from endpoint.commands.talking import add_text, text_of

_EXAMPLES = """\
  rillet explain -f near.rq
  rillet explain --sparql -f near.rq          as plain SPARQL 1.1, for another engine
  rillet explain --json 'SELECT * { ?s ?p ?o }'"""


def add(commands: Commands) -> None:
    parser = add_command(commands, "explain", explain, "say what a text means: its policy and its plan", _EXAMPLES)
    add_text(parser)
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="the policy as JSON, as a server says it")
    form.add_argument("--sparql", action="store_true", help="the query or update as plain SPARQL 1.1 instead")
    add_setting(parser, "--base", "what relative IRIs resolve against", DEFAULT_SERVER + "/", metavar="IRI")


def explain(arguments: argparse.Namespace) -> None:
    text = text_of(arguments)
    if arguments.json:
        from stream_ext import explanation

        print(json.dumps(explanation.explain(text, arguments.base), indent=2))
        return
    from stream_ext.printing import to_sparql
    from stream_ext.printing.plan import explain_text
    from stream_ext.syntax import parse

    unit = parse(text, arguments.base)
    print(to_sparql(unit) if arguments.sparql else explain_text(unit), end="\n" * bool(arguments.sparql))
