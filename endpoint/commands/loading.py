"""`rillet load`: files into a store, without a server. One file is one snapshot: all of it, or none."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from endpoint.commands.flags import (
    DEFAULT_SERVER,
    Commands,
    UsageError,
    add_command,
    add_setting,
    add_store,
    base_iri,
    iri,
)

if TYPE_CHECKING:
    from endpoint.load import Source

_EXAMPLES = """\
  rillet load people.ttl cities.nt.gz
  rillet load --graph http://example.org/2024 facts.nt
  zcat dump.nq.gz | rillet load --format nq -"""

MEDIA_TYPES = {
    "nt": "application/n-triples",
    "nq": "application/n-quads",
    "ttl": "text/turtle",
    "trig": "application/trig",
}


def add(commands: Commands) -> None:
    parser = add_command(commands, "load", load, "fill a store from files; each file becomes one snapshot", _EXAMPLES)
    parser.add_argument("files", nargs="+", metavar="FILE", help=".nt .nq .ttl .trig, also .gz; - is standard input")
    add_store(parser)
    parser.add_argument("--format", choices=MEDIA_TYPES, help="what the files are, whatever their names say")
    parser.add_argument("--graph", type=iri, metavar="IRI", help="the named graph for what is in no graph of its own")
    what = "what relative IRIs resolve against"
    add_setting(parser, "--base", what, DEFAULT_SERVER + "/", type=base_iri, metavar="IRI")


def load(arguments: argparse.Namespace) -> None:
    sources = [source_of(name, arguments.format) for name in arguments.files]
    from endpoint.load import load_all

    for source, triples, sn, took_s in load_all(arguments.store, sources, arguments.graph, arguments.base, sys.stderr):
        took = f"in {took_s:.2f} s ({triples / took_s:,.0f} a second)" if took_s else "were loaded before"
        print(f"{source.name}: {triples:,} triples {took}, snapshot {sn}", flush=True)


def source_of(name: str, format: str | None) -> Source:
    from pathlib import Path

    from endpoint.load import Source

    stem = name.lower().removesuffix(".gz")
    suffix = format or stem.rpartition(".")[2] if "." in stem or format else ""
    if suffix not in MEDIA_TYPES:
        what = "standard input" if name == "-" else name
        raise UsageError(f"{what}: which format is it? Say --format {'|'.join(MEDIA_TYPES)}")
    if name != "-" and not Path(name).is_file():
        raise UsageError(f"{name}: there is no such file")
    return Source(name, MEDIA_TYPES[suffix])
