"""`rillet load`: loads files into a store, or through the server that has it open. One file is one snapshot: all or
nothing."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from endpoint.cli.flags import (
    DEFAULT_SERVER,
    Commands,
    UsageError,
    add_command,
    add_setting,
    add_store,
    base_iri,
    iri,
    no_such_file,
    server,
)

if TYPE_CHECKING:
    from endpoint.files.reading import Source

_EXAMPLES = """\
  rillet load people.ttl cities.nt.gz
  rillet load --graph http://example.org/2024 facts.nt
  rillet load --server http://127.0.0.1:8000 rooms.ttl
  zcat dump.nq.gz | rillet load --format nq -"""

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
_PACKED = (".gz", ".bz2", ".zst", ".xz")


_FILES = f".{' .'.join(MEDIA_TYPES)}, also compressed ({' '.join(_PACKED)})"


def add(commands: Commands) -> None:
    parser = add_command(commands, "load", load, "load files into a store; each file becomes one snapshot", _EXAMPLES)
    parser.add_argument("files", nargs="+", metavar="FILE", help=f"{_FILES}; - is standard input")
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
    what = "the base of relative IRIs"
    add_setting(parser, "--base", what, DEFAULT_SERVER + "/", type=base_iri, metavar="IRI")


def load(arguments: argparse.Namespace) -> None:
    sources = [source_of(name, arguments.format) for name in arguments.files]
    if arguments.go_on and (other := next((source.name for source in sources if not source.is_lines), None)):
        raise UsageError(f"{other}: --go-on leaves out lines, and this form has none; it is for .nt and .nq")
    from endpoint.files.load import Wanted, load_all

    wanted = Wanted(arguments.graph, arguments.base, arguments.go_on)
    where = arguments.server or arguments.store
    for done in load_all(arguments.store, sources, wanted, sys.stderr, arguments.token or None, arguments.server):
        what, took_s = done.loaded, done.seconds
        rate = f" ({what.statements / took_s:,.0f} a second)" if what.statements >= _RATED_MIN and took_s else ""
        took = f"in {took_s:.2f} s{rate}" if took_s else "were loaded before"
        print(f"{done.source.name}: {what.statements:,} triples {took}, snapshot {what.sn} of {where}", flush=True)
        if took_s and what.bad:
            print(f"{done.source.name}: {what.bad:,} bad lines were left out; the first:", file=sys.stderr)
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
        raise UsageError(f"{what}: which format is it? Say --format {'|'.join(MEDIA_TYPES)}")
    if name != "-" and not Path(name).is_file():
        raise no_such_file(name)
    return Source(name, MEDIA_TYPES[suffix])
