"""`rillet query`: runs a query or an update, on a server or directly on a store."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from endpoint.cli import terminal
from endpoint.cli.flags import Commands, UsageError, add_command, add_server, add_spark, spark_of, whole
from endpoint.cli.server_commands import add_text, client_of, print_json, text_of

if TYPE_CHECKING:
    from stream_ext.language.algebra.statements import Unit

_ROWS = {
    "json": "application/sparql-results+json",
    "xml": "application/sparql-results+xml",
    "csv": "text/csv",
    "tsv": "text/tab-separated-values",
    "ndjson": "application/x-ndjson",
}
#: The formats of CONSTRUCT and DESCRIBE; json and xml mean JSON-LD and RDF/XML.
_GRAPH = {
    "turtle": "text/turtle",
    "nt": "application/n-triples",
    "xml": "application/rdf+xml",
    "json": "application/ld+json",
}
_FORMATS = ["table", *dict.fromkeys([*_ROWS, *_GRAPH])]
_EXAMPLES = """\
  rillet query 'SELECT * { ?s ?p ?o } LIMIT 5'
  rillet query report.rq --format csv > report.csv
  rillet query 'ASK { ?s ?p ?o }' --snapshot 12
  rillet query 'SELECT * { ?s ?p ?o }' --store lmdb:rillet-data      without a server
  rillet query 'SELECT ?p (COUNT(*) AS ?n) { ?s ?p ?o } GROUP BY ?p' --engine spark
  rillet query "INSERT DATA { <http://ex/a> <http://ex/p> 1 }\""""


def add(commands: Commands) -> None:
    parser = add_command(commands, "query", query, "run a SPARQL query or update", _EXAMPLES)
    add_text(parser)
    parser.add_argument(
        "--format", choices=_FORMATS, help="default: table on a terminal, otherwise tsv (for a graph: turtle)"
    )
    parser.add_argument("--snapshot", type=whole, metavar="SN", help="query an earlier snapshot")
    parser.add_argument("--at", metavar="TIME", help="evaluate a query with windows at this time")
    parser.add_argument("--timeout", metavar="TIME", help="the longest that the query may take, for example 30s")
    parser.add_argument(
        "--engine", choices=["inline", "spark"], default="inline",
        help="spark: a long query with groups or DISTINCT is divided among tasks of Spark",
    )  # fmt: skip
    add_spark(parser, "with --store and --engine spark: local[N] or a cluster; default: local[*]")
    parser.add_argument("--explain", action="store_true", help="explain the text and do not run it")
    parser.add_argument("--json", action="store_true", help="print the explanation as JSON")
    parser.add_argument("--store", metavar="URL", help="open this store directly, without a server")
    add_server(parser)


def query(arguments: argparse.Namespace) -> None:
    from stream_ext.language.algebra.algebra import Form, Query
    from stream_ext.language.algebra.statements import Explain
    from stream_ext.oneshot.advice import warnings_of

    text = text_of(arguments)
    unit = _read(text)
    if arguments.json and not (arguments.explain or unit is None or isinstance(unit, Explain)):
        raise UsageError("--json is for explanations (--explain); for a result in JSON write --format json")
    is_graph = isinstance(unit, Query) and unit.form in (Form.CONSTRUCT, Form.DESCRIBE)
    for warning in warnings_of(unit) if isinstance(unit, Query) else ():
        print(f"warning: {warning}", file=sys.stderr)
    format = arguments.format or ("table" if terminal.is_live(sys.stdout) else "turtle" if is_graph else "tsv")
    known = _GRAPH if is_graph else _ROWS
    if format != "table" and format not in known:
        raise UsageError(f"--format {format} does not fit this answer; its formats are table, {', '.join(known)}")
    if arguments.spark_master and (arguments.store is None or arguments.engine != "spark"):
        raise UsageError("--spark-master is for --store with --engine spark; a server has its own")
    began = time.monotonic()
    if arguments.store is not None:
        body = _of_store(arguments, text, format, is_graph)
    elif arguments.explain:
        with client_of(arguments) as client:
            _print_explanation(arguments, text, client.query(text, explain="true"))
        return
    else:
        body = _of_server(arguments, text, known["nt" if is_graph else "json"] if format == "table" else known[format])
    if body == "":
        print("done")  # an update
    elif isinstance(body, dict) and "head" not in body:
        _print_explanation(arguments, text, body)
    elif format == "table":
        answer = terminal.triples(body) if is_graph else _parsed(body)
        print("\n".join(_table(answer, terminal.prefixes_of(text), time.monotonic() - began)))
    elif format == "json":
        print_json(_parsed(body))
    else:
        sys.stdout.write(body if body.endswith("\n") else body + "\n")


def _read(text: str) -> Unit | None:
    """What the text means; None for a text with errors, which the server reports."""
    from stream_ext.errors import TextError
    from stream_ext.language.syntax import parse

    try:
        return parse(text)
    except TextError:
        return None


def _of_server(arguments: argparse.Namespace, text: str, accept: str) -> Any:
    with client_of(arguments) as client:
        wishes = {name: getattr(arguments, name) for name in ("snapshot", "at", "timeout")}
        if arguments.engine != "inline":
            wishes["engine"] = arguments.engine
        return client.query(text, accept=accept, **wishes)


def _of_store(arguments: argparse.Namespace, text: str, format: str, is_graph: bool) -> Any:
    from endpoint.files import local
    from endpoint.formats import graph_results, results

    if arguments.timeout or arguments.explain:
        raise UsageError("--timeout and --explain work with a server only; leave --store out")
    if local.changes(text):
        return _changed(arguments, text)
    spark = spark_of(arguments, (arguments.spark_master or "local[*]") if arguments.engine == "spark" else None)
    with local.answered(arguments.store, text, arguments.snapshot, arguments.at, spark) as (answer, batches):
        if answer.why_not_divided:
            print(f"not evaluated by Spark: {answer.why_not_divided}", file=sys.stderr)
        if is_graph:
            pieces = graph_results.write({"table": "nt", "json": "json-ld"}.get(format, format), batches)
        else:
            pieces = results.write("json" if format == "table" else format, answer.variables, batches, answer.boolean)
        return b"".join(pieces).decode()


def _changed(arguments: argparse.Namespace, text: str) -> Any:
    """Runs an update; through the server that has the store open, if one has."""
    from endpoint.files import local
    from endpoint.files.writer import with_writer

    def there(address: str) -> Any:
        print(f"a server has {arguments.store} open: sending the text to {address}", file=sys.stderr)
        arguments.server = address
        return _of_server(arguments, text, "*/*")

    def here() -> str:
        if not local.is_update(text):
            raise UsageError(
                "streams and registered queries need a server: start one (rillet serve), or name it with --server"
            )
        local.update(arguments.store, text)
        return ""

    return with_writer(here, there)


# ---- output for people -----------------------------------------------------------------------------------------------


def _table(answer: Mapping[str, Any], prefixes: Mapping[str, str], seconds: float) -> Iterable[str]:
    if "boolean" in answer:
        yield "yes" if answer["boolean"] else "no"
        return
    columns, rows = terminal.answer_rows(answer, prefixes)
    yield from terminal.table(columns, rows)
    if terminal.is_live(sys.stdout):
        count = "1 row" if len(rows) == 1 else f"{len(rows):,} rows"
        yield terminal.paint(f"{count}, {seconds * 1e3:,.1f} ms", "2")


def _print_explanation(arguments: argparse.Namespace, text: str, explained: Mapping[str, Any]) -> None:
    """The meaning of the text, the operators that answer it on the server, and what is asked of attached stores."""
    from stream_ext.language.syntax import parse
    from stream_ext.oneshot.explain_text import explain_text

    if arguments.json:
        print_json(explained)
        return
    print(explain_text(parse(text, f"{arguments.server}/")), end="")
    if operators := explained.get("operators"):
        prefixes = terminal.prefixes_of(text)
        rows = [[terminal.shortened(each["operator"], prefixes), _estimate(each)] for each in operators]
        print("\n".join(["", *terminal.table(["operator", "estimated"], rows)]))
    if divided := explained.get("divided"):
        print(f"\n--engine spark: {_division(divided)}")
    if replay := explained.get("replay"):
        print(f"\nreplay of the past: {_replay(replay)}")
    for source in explained.get("sources", ()):
        facts = ", ".join(f"{name} {value}" for name, value in source.items() if name != "source")
        print(f"\nsource {source['source']}: {facts}")


def _division(divided: Mapping[str, Any]) -> str:
    if why_not := divided.get("why_not"):
        return f"not divided: {why_not}"
    return f"divides {divided['divided']}; merges at {divided['merged']}"


def _replay(replay: Mapping[str, Any]) -> str:
    if why_not := replay.get("why_not"):
        return f"by one process: {why_not}"
    return f"{replay['tasks']} tasks at a time ({replay['by']})"


def _estimate(operator: Mapping[str, Any]) -> str:
    return f"{operator['estimated']:,.0f}" if "estimated" in operator else ""


def _parsed(body: Any) -> Any:
    """The answer as JSON; the client has parsed it already if its type is JSON."""
    import json

    return json.loads(body) if isinstance(body, str) else body
