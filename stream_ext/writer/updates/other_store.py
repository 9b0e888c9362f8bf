"""The other store: what an update must leave alone, because it is not written to.

Our own store and the source main are one dataset, and an update is written to one of them. What it would delete from
the other stays there, so it fails, before anything is written, and says of which quad."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from hbase_store import Snapshot
from hbase_store.arrays import Ids
from stream_ext.errors import SourceFailed
from stream_ext.evaluation_budget import Control
from stream_ext.language.algebra.algebra import Bgp, Form, Graph, Join, Pattern, Query, TriplePattern, Union, Values
from stream_ext.language.algebra.terms import Constant, Position, Variable
from stream_ext.language.printing import to_sparql
from stream_ext.network.operators.remote.remote_question import sendable
from stream_ext.remote.fetching import CannotFetch
from stream_ext.remote.source import Source
from stream_ext.remote.sparql_client import Solution

#: Subject, predicate, object and graph (None: the default graph), as texts.
TermQuad = tuple[bytes, bytes, bytes, bytes | None]

_HERE = Position(1, 1)
_BATCH = 500
#: So many quads are asked for; more are not looked up one by one while others wait.
_QUADS_MAX = 100_000
_S, _P, _O, _G = (Variable(name) for name in "spog")
_ANY = Bgp((TriplePattern(_S, _P, _O, _HERE),))


class QuadInOtherStore(Exception):
    """A quad that would be deleted is in the store that is not written to."""


@dataclass(frozen=True, slots=True)
class SourceAside:
    """The source, where our own store is written to."""

    source: Source
    control: Control

    def check_quads(self, quads: Iterable[TermQuad]) -> None:
        """QuadInOtherStore for a quad that the source holds."""
        remaining = iter(quads)
        count = 0
        while batch := list(islice(remaining, _BATCH)):
            count += len(batch)
            if count > _QUADS_MAX:
                raise QuadInOtherStore(
                    f"more than {_QUADS_MAX:,} quads would be deleted, and the source {self._name} would have to be "
                    "asked whether it holds one of them: delete them in parts"
                )
            for quad in batch:
                if any(term is not None and term.startswith(b"_:q") for term in quad):
                    raise self._held(quad, "a blank node of it")
            sendable = [quad for quad in batch if not any(term is not None and term.startswith(b"_:") for term in quad)]
            if sendable and (found := self._first(_one_of_sendable(sendable))) is not None:
                raise self._held((found["s"], found["p"], found["o"], found.get("g")))

    def check_graph(self, graph: Constant | None) -> None:
        """QuadInOtherStore if the source holds a triple in a graph; None: its default graph."""
        pattern = _ANY if graph is None else Graph(graph, _ANY)
        if (found := self._first(pattern)) is not None:
            quad = (found["s"], found["p"], found["o"], None if graph is None else graph.text)
            raise self._held(quad)

    def check_named_graphs(self) -> None:
        if (found := self._first(Graph(_G, _ANY))) is not None:
            raise self._held((found["s"], found["p"], found["o"], found["g"]))

    @property
    def _name(self) -> str:
        return self.source.settings.name

    def _held(self, quad: TermQuad, why: str = "it") -> QuadInOtherStore:
        return QuadInOtherStore(
            f"{shown(quad)} is to be deleted, and the source {self._name} holds {why}: this server writes to its own "
            "store; delete it there, or start the server with --attach-update"
        )

    def _first(self, pattern: Pattern) -> Solution | None:
        text = to_sparql(Query(Form.SELECT, pattern, ("s", "p", "o", "g"), False, 0, 1, (), None))
        try:
            return next((row for some in self.source.select(text, self.control) for row in some), None)
        except CannotFetch as error:
            raise SourceFailed(str(error)) from None


@dataclass(frozen=True, slots=True)
class OwnAside:
    """Our own store, where the source is written to."""

    snapshot: Snapshot
    ids: Callable[[list[bytes]], Ids]  # 0 for a term that it has never seen

    def check_quads(self, quads: Sequence[TermQuad]) -> None:
        """QuadInOtherStore for a quad that our own store holds."""
        if not quads:
            return
        texts = sorted({term for quad in quads for term in quad if term is not None})
        known = dict(zip(texts, self.ids(texts).tolist(), strict=True))
        columns = [np.array([known.get(quad[i] or b"", 0) for quad in quads], np.uint64) for i in range(4)]
        named = np.array([quad[3] is not None for quad in quads])
        there = (columns[0] != 0) & (columns[1] != 0) & (columns[2] != 0) & ((columns[3] != 0) | ~named)
        found = np.flatnonzero(there & self.snapshot.contains(columns[0], columns[1], columns[2], columns[3]))
        if len(found):
            raise self._held(quads[int(found[0])])

    def check_graph(self, graph: Constant | None) -> None:
        id = 0 if graph is None else int(self.ids([graph.text])[0])
        if (graph is None or id) and len(self.snapshot.predicates(id)):
            named = "its default graph" if graph is None else graph.text.decode()
            raise QuadInOtherStore(f"Rillet's own store has triples in {named}, and updates go to the source: {_OWN}")

    def check_named_graphs(self) -> None:
        if len(self.snapshot.graphs()):
            raise QuadInOtherStore(f"Rillet's own store has named graphs, and updates go to the source: {_OWN}")

    def _held(self, quad: TermQuad) -> QuadInOtherStore:
        return QuadInOtherStore(
            f"{shown(quad)} is to be deleted, and Rillet's own store has it, while updates go to the source: {_OWN}"
        )


_OWN = "delete it with a server that was started with --updates ours"


def shown(quad: TermQuad) -> str:
    s, p, o, g = quad
    triple = b" ".join((s, p, o)).decode()
    return triple if g is None else f"{triple} in {g.decode()}"


def _one_of_sendable(quads: Sequence[TermQuad]) -> Pattern:
    try:
        return _one_of(quads)
    except CannotFetch as error:
        raise SourceFailed(str(error)) from None


def _one_of(quads: Sequence[TermQuad]) -> Pattern:
    default = [quad[:3] for quad in quads if quad[3] is None]
    named = [quad for quad in quads if quad[3] is not None]
    parts: list[Pattern] = []
    if default:
        parts.append(Join(_table(("s", "p", "o"), default), _ANY))
    if named:
        parts.append(Join(_table(("s", "p", "o", "g"), named), Graph(_G, _ANY)))
    return parts[0] if len(parts) == 1 else Union(tuple(parts), _HERE)


def _table(names: tuple[str, ...], rows: Sequence[Sequence[bytes | None]]) -> Values:
    return Values(names, tuple(tuple(Constant(sendable(term or b"")) for term in row) for row in rows), _HERE)
