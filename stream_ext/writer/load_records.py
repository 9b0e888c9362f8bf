"""Loads: the records of what was loaded (a file, or a part of another store), and how wrong lines are handled.

A file is recognised by its path, size and time; or, if it was moved or copied, by its size and digest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from hbase_store import Store
from hbase_store.layout.terms import iri
from stream_ext.errors import BadData
from stream_ext.rdf.ntriples import careful_rows
from stream_ext.rdf.parsed import Row

#: The greatest number of bad lines that are reported one by one.
REPORTED_MAX = 10


class Loaded(msgspec.Struct, omit_defaults=True):
    """The record of a load. `bad`: the number of lines that were left out. `sn`: the snapshot of the load; it is not
    stored in the record."""

    path: str
    size: int
    modified_ns: int
    graph: str | None
    statements: int = 0
    digest: str = ""  # SHA-256 of the file as it is, packed or not
    bad: int = 0
    sn: int = 0
    part: str = ""  # of what is copied from a SPARQL endpoint, which is the path: which part of the graph

    def packed(self) -> bytes:
        return msgspec.msgpack.encode(self)

    def is_place_of(self, other: Loaded) -> bool:
        mine = (self.path, self.size, self.modified_ns, self.graph, self.part)
        return mine == (other.path, other.size, other.modified_ns, other.graph, other.part)

    def is_copy_of(self, other: Loaded) -> bool:
        same = (self.size, self.digest, self.graph) == (other.size, other.digest, other.graph)
        return same and bool(self.digest)


def loaded(store: Store) -> list[Loaded]:
    """The oldest first."""
    found = []
    for (kind, sn), body in store.catalog(store.head()).items():
        if kind == "load":
            known = msgspec.msgpack.decode(body, type=Loaded)
            known.sn = sn
            found.append(known)
    return sorted(found, key=lambda known: known.sn)


def graph_term(graph: str | None) -> bytes | None:
    return None if graph is None else iri(graph)


@dataclass(frozen=True, slots=True)
class BadLine:
    line: int
    column: int
    message: str


class UnusualLineReader:
    """Reads a line that the fast reader cannot read. With `go_on` a bad line is left out, counted and reported; else it
    is an error that ends the load."""

    def __init__(self, quads: bool, go_on: bool) -> None:
        self._quads, self._go_on = quads, go_on
        self.bad = 0
        self.reported: list[BadLine] = []

    def __call__(self, line: bytes, number: int) -> Sequence[Row]:
        try:
            return careful_rows(line, number, self._quads)
        except BadData as error:
            if not self._go_on:
                raise
            self.bad += 1
            if len(self.reported) < REPORTED_MAX:
                self.reported.append(BadLine(error.line, error.column, error.message))
            return []
