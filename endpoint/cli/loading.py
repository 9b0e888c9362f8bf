"""`rillet load`: loads files, or another SPARQL store, into a store or through the server that has it open; and
`rillet dump`, the export. One file is one snapshot: all or nothing."""

from __future__ import annotations

import argparse
import os
import sys
from contextlib import closing
from typing import TYPE_CHECKING

from endpoint.cli.flags import (
    DEFAULT_SERVER,
    Commands,
    Parser,
    UsageError,
    add_command,
    add_setting,
    add_spark,
    add_store,
    at_least_one,
    base_iri,
    iri,
    no_such_file,
    server,
    some_seconds,
    spark_of,
    whole,
)

if TYPE_CHECKING:
    from endpoint.files.load import Done
    from endpoint.files.reading import Source

_EXAMPLES = """\
  rillet load people.ttl cities.nt.gz
  rillet load --graph http://example.org/2024 facts.nt
  rillet load --server http://127.0.0.1:8000 rooms.ttl
  zcat dump.nq.gz | rillet load --format nq -
  rillet load --from http://127.0.0.1:3030/ds/sparql
  rillet load --from https://example.org/sparql --from-graph http://example.org/people"""

_DUMP = """\
  rillet dump all.nq.gz
  rillet dump --sorted | sha256sum
  rillet dump --graph http://example.org/people --snapshot 12 people.nq
  rillet dump --server http://127.0.0.1:8000 all.nq"""

MEDIA_TYPES = {
    "nt": "application/n-triples",
    "nq": "application/n-quads",
    "ttl": "text/turtle",
    "trig": "application/trig",
    "n3": "text/n3",
    "rdf": "application/rdf+xml",
    "jsonld": "application/ld+json",
}
_SUFFIXES = {"xml": "rdf", "owl": "rdf", "json": "jsonld"}
_RATED_MIN = 1_000  # for fewer triples no rate is shown
_TASKS_MAX = 4
_PACKED = (".gz", ".bz2", ".zst", ".xz")


_FILES = f".{' .'.join(MEDIA_TYPES)}, also compressed ({' '.join(_PACKED)})"


def add(commands: Commands) -> None:
    parser = add_command(commands, "load", load, "load files, or another SPARQL store, into a store", _EXAMPLES)
    parser.add_argument("files", nargs="*", metavar="FILE", help=f"{_FILES}; - is standard input")
    add_store(parser)
    parser.add_argument(
        "--server", type=server, metavar="URL", help="load into the store of this server, instead of --store"
    )
    parser.add_argument("--format", choices=MEDIA_TYPES, help="the format of the files; default: by their names")
    parser.add_argument(
        "--graph", type=iri, metavar="IRI", help="load triples that are in no named graph into this graph"
    )
    parser.add_argument(
        "--go-on",
        action="store_true",
        help="skip invalid lines (of .nt and .nq); report their number and the first ten",
    )
    add_setting(parser, "--token", "the token of the server that has the store open", metavar="TOKEN")
    what = "processes that read and sort long sources; default: one for each core, at most 4; 1: none but this one"
    parser.add_argument("--tasks", type=at_least_one, metavar="N", help=what)
    what = "tasks of Spark read and sort long sources: local[N], or a cluster whose machines see the files and TMPDIR"
    add_spark(parser, what)
    _add_from(parser)
    what = "the base of relative IRIs"
    add_setting(parser, "--base", what, DEFAULT_SERVER + "/", type=base_iri, metavar="IRI")

    dump_ = add_command(commands, "dump", dump, "write the data of a store as N-Quads", _DUMP)
    dump_.add_argument(
        "file", nargs="?", default="-", help="the file to write; .gz is compressed; - (the default) is standard output"
    )
    add_store(dump_)
    dump_.add_argument("--server", type=server, metavar="URL", help="read from this server, instead of --store")
    dump_.add_argument(
        "--graph", type=_graph, metavar="IRI", help="write only this graph; default is the default graph"
    )
    dump_.add_argument("--snapshot", type=whole, metavar="SN", help="write an earlier snapshot")
    dump_.add_argument("--sorted", action="store_true", help="sort the lines, so that two dumps can be compared")
    add_setting(dump_, "--token", "the token of the server", metavar="TOKEN")


def _graph(text: str) -> str:
    return text if text == "default" else iri(text)


def dump(arguments: argparse.Namespace) -> None:
    from endpoint.files import dumping

    graph, snapshot = arguments.graph, arguments.snapshot
    with (
        dumping.of_server(arguments.server, arguments.token or None, graph, snapshot)
        if arguments.server
        else dumping.of_store(arguments.store, graph, snapshot)
    ) as lines:
        done = dumping.dump(lines, arguments.file, arguments.sorted)
    where = arguments.server or arguments.store
    print(f"{done.quads:,} quads, snapshot {done.snapshot} of {where}", file=sys.stderr)


def _add_from(parser: Parser) -> None:
    parser.add_argument(
        "--from", dest="source", metavar="URL", help="copy the data of this SPARQL endpoint, graph by graph"
    )
    parser.add_argument(
        "--from-auth",
        metavar="FILE",
        help="a file with user:password or Bearer TOKEN; else the variable RILLET_FROM_AUTH",
    )
    parser.add_argument(
        "--from-graph",
        action="append",
        type=_graph,
        metavar="IRI",
        help="copy only this graph; can be repeated; default is the default graph",
    )
    what = "copy or skip the default graph of the source; auto: skip it if it is the union of the named graphs"
    parser.add_argument("--default-graph", choices=("auto", "copy", "skip"), default="auto", help=what)
    parser.add_argument(
        "--part", type=whole, metavar="N", help="triples per query, about (default 1,000,000); 0: one query per graph"
    )
    parser.add_argument("--again", action="store_true", help="copy graphs that have been copied before once more")
    what = "the longest time without data from the source (default 5m)"
    parser.add_argument("--from-timeout", type=some_seconds, default=300.0, metavar="TIME", help=what)


def load(arguments: argparse.Namespace) -> None:
    if arguments.source is not None:
        _copy(arguments)
        return
    if (arguments.tasks or arguments.spark_master) and arguments.server:
        raise UsageError(
            "--tasks and --spark-master are for a store that no server has open: a server uses its own (--push-readers)"
        )
    if not arguments.files:
        raise UsageError("name the files to load, or give --from URL")
    sources = [source_of(name, arguments.format) for name in arguments.files]
    if arguments.go_on and (other := next((source.name for source in sources if not source.is_lines), None)):
        raise UsageError(f"{other}: --go-on skips invalid lines, so it works for .nt and .nq only")
    from endpoint.files.load import Wanted, load_all

    wanted = Wanted(arguments.graph, arguments.base, arguments.go_on)
    spark = spark_of(arguments, arguments.spark_master)
    tasks = arguments.tasks or (None if spark else min(os.cpu_count() or 1, _TASKS_MAX))
    token, server = arguments.token or None, arguments.server
    for done in load_all(arguments.store, sources, wanted, sys.stderr, token, server, tasks, spark):
        _print(done, arguments)


def _copy(arguments: argparse.Namespace) -> None:
    if arguments.files or arguments.go_on or arguments.format or arguments.tasks or arguments.spark_master:
        raise UsageError(
            "--from copies a store: give no files, no --format, no --go-on, no --tasks and no --spark-master with it"
        )
    from endpoint.files.copying import PART_TRIPLES, Copy, copy_all, read_authorization
    from stream_ext.remote.sparql_source import SparqlSource

    only = arguments.from_graph
    graphs = None if only is None else tuple(None if each == "default" else each for each in only)
    part = PART_TRIPLES if arguments.part is None else arguments.part
    wanted = Copy(graphs, arguments.graph, arguments.default_graph, part, arguments.again)
    authorization = read_authorization(arguments.from_auth, os.environ.get)
    with closing(SparqlSource(arguments.source, authorization, arguments.from_timeout)) as source:
        triples = 0
        for done in copy_all(arguments.store, source, wanted, sys.stderr, arguments.token or None, arguments.server):
            _print(done, arguments)
            triples += done.loaded.statements
    print(f"{arguments.source} has been copied: {triples:,} triples")


def _print(done: Done, arguments: argparse.Namespace) -> None:
    what, took_s, where = done.loaded, done.seconds, arguments.server or arguments.store
    rate = f" ({what.statements / took_s:,.0f} a second)" if what.statements >= _RATED_MIN and took_s else ""
    took = f"in {took_s:.2f} s{rate}" if took_s else "were loaded before"
    print(f"{done.source.name}: {what.statements:,} triples {took}, snapshot {what.sn} of {where}", flush=True)
    if took_s and what.bad:
        print(f"{done.source.name}: {what.bad:,} invalid lines were skipped; the first:", file=sys.stderr)
        for bad in done.bad_lines:
            print(f"{done.source.name}:{bad.line}:{bad.column}: {bad.message}", file=sys.stderr)


def source_of(name: str, format: str | None) -> Source:
    from pathlib import Path

    from endpoint.files.reading import Source

    stem = name.lower()
    for packed in _PACKED:
        stem = stem.removesuffix(packed)
    suffix = format or (stem.rpartition(".")[2] if "." in stem else "")
    suffix = _SUFFIXES.get(suffix, suffix)
    if suffix not in MEDIA_TYPES:
        what = "standard input" if name == "-" else name
        raise UsageError(f"{what}: unknown format; give --format {'|'.join(MEDIA_TYPES)}")
    if name != "-" and not Path(name).is_file():
        raise no_such_file(name)
    return Source(name, MEDIA_TYPES[suffix])
