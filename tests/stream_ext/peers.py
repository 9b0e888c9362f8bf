"""Three engines, asked the same thing over the same data: ours, pyoxigraph and rdflib.

Answers come in one form, with the freedoms that the specification leaves taken out: numbers by datatype and value
(an engine may write 3.0 as 3), quotients to nine digits."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyoxigraph
import rdflib
import rdflib.plugins.sparql

import hbase_store
from hbase_store import Loading, Store
from stream_ext.errors import RilletError, Unsupported
from stream_ext.oneshot.answers import answer_once, rows_of
from stream_ext.oneshot.question import Question
from stream_ext.rdf import careful_rows, parse_rdf
from tests.conformance.sameness import Row, same
from tests.conformance.values import comparable
from tests.stream_ext.generated import EX, Asked, Quad, trig

#: More rows than this are not compared: they say nothing that fewer do not.
ROWS_MAX = 1500


@dataclass(frozen=True)
class Answered:
    """A table by names, a boolean, a graph (a table of three columns), or that it went wrong, and how."""

    names: tuple[str, ...] = ()
    rows: tuple[Row, ...] = ()
    boolean: bool | None = None
    error: str = ""


class TooMuch(Exception):
    """The answer is larger than what is compared."""


def agree(one: Answered, other: Answered) -> bool:
    if one.error or other.error:
        return bool(one.error and other.error)
    if one.boolean != other.boolean or set(one.names) != set(other.names):
        return False
    places = [other.names.index(name) for name in one.names]
    return same(one.rows, [[row[place] for place in places] for row in other.rows])


# ---- ours ---------------------------------------------------------------------------------------------------------


class Ours:
    def __init__(self, place: Path, data: Sequence[Quad]) -> None:
        self.store = hbase_store.open(f"lmdb:{place}", folding=False)
        load(self.store, data)

    def ask(self, asked: Asked) -> Answered:
        """Raises Unsupported for what is refused: nothing should be."""
        try:
            answer = answer_once(self.store, Question.read(str(asked), EX), self.store.head(), None)
        except Unsupported:
            raise
        except RilletError as error:
            return Answered(error=f"{type(error).__name__}: {error}")
        if answer.graph is not None:
            triples = zip(*(answer.vocabulary.decode(column) for column in answer.graph), strict=True)
            return Answered(("s", "p", "o"), tuple(tuple(map(comparable, triple)) for triple in triples))
        rows = tuple(tuple(map(comparable, row)) for row in rows_of(answer))
        return Answered(tuple(answer.variables), rows, answer.boolean)

    def raw(self, asked: Asked) -> list[tuple[bytes | None, ...]]:
        """The rows in their order, as they are."""
        return rows_of(answer_once(self.store, Question.read(str(asked), EX), self.store.head(), None))

    def close(self) -> None:
        self.store.close()


def load(store: Store, data: Sequence[Quad]) -> None:
    parsed = parse_rdf(trig(data).encode(), "application/trig", EX)
    loading = Loading(careful_rows, True)
    loading.add(parsed.terms, (parsed.s, parsed.p, parsed.o, parsed.g))
    store.load(loading)


# ---- the peers ----------------------------------------------------------------------------------------------------


def pyoxigraph_of(data: Sequence[Quad]) -> Callable[[Asked], Answered]:
    store = pyoxigraph.Store()
    store.load(trig(data).encode(), format=pyoxigraph.RdfFormat.TRIG)

    def ask(asked: Asked) -> Answered:
        try:
            return _pyoxigraph_said(store.query(str(asked), base_iri=EX))
        except (SyntaxError, ValueError, RuntimeError, OSError) as error:
            return Answered(error=str(error))

    return ask


def _pyoxigraph_said(answer: Any) -> Answered:
    if isinstance(answer, pyoxigraph.QueryBoolean):
        return Answered(boolean=bool(answer))
    if isinstance(answer, pyoxigraph.QueryTriples):
        found = {tuple(_bytes(term) for term in (t.subject, t.predicate, t.object)) for t in answer}
        return Answered(("s", "p", "o"), tuple(found))
    names = [variable.value for variable in answer.variables]
    rows = []
    for row in answer:
        rows.append(tuple(_bytes(row[name]) for name in names))
        if len(rows) > ROWS_MAX:
            raise TooMuch
    return Answered(tuple(names), tuple(rows))


def _bytes(term: object) -> bytes | None:
    return None if term is None else comparable(str(term).encode())


def rdflib_of(data: Sequence[Quad]) -> Callable[[Asked], Answered]:
    logging.getLogger("rdflib.term").setLevel(logging.ERROR)  # it tells of each literal that is none
    rdflib.plugins.sparql.SPARQL_LOAD_GRAPHS = False  # FROM names graphs of the dataset, and nothing is fetched
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dataset = rdflib.Dataset()
        dataset.parse(data=trig(data), format="trig")

    def ask(asked: Asked) -> Answered:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return _rdflib_said(dataset.query(str(asked), base=EX))
        except Exception as error:  # noqa: BLE001  rdflib raises whatever its functions happen to raise
            return Answered(error=f"{type(error).__name__}: {error}")

    return ask


def _rdflib_said(answer: Any) -> Answered:
    if answer.type == "ASK":
        return Answered(boolean=bool(answer.askAnswer))
    if answer.type == "CONSTRUCT":
        return Answered(("s", "p", "o"), tuple({tuple(_n3(term) for term in triple) for triple in answer.graph}))
    names = tuple(str(name) for name in answer.vars)
    return Answered(names, tuple(tuple(_n3(row[name]) for name in names) for row in answer))


def _n3(term: Any) -> bytes | None:
    return None if term is None else comparable(term.n3().encode())


# ---- three of them ------------------------------------------------------------------------------------------------


def compare(ours: Ours, data: Sequence[Quad], asked: Asked) -> str:
    """What both peers say and we do not; "" if there is no such thing. The third is asked when two differ.

    FROM is ours alone: the peers are asked without it, over the data as it shows them."""
    seen, plain = asked.seen(data), asked.whole.over_all
    theirs = pyoxigraph_of(seen)(plain)
    mine = ours.ask(asked.whole)
    if agree(mine, theirs):
        return ""
    third = rdflib_of(seen)(plain)
    return f"ours {shown(mine)}\ntheirs {shown(theirs)}" if agree(theirs, third) else ""


def shown(answered: Answered) -> str:
    if answered.error:
        return f"an error: {answered.error}"
    if answered.boolean is not None:
        return str(answered.boolean)
    lines = sorted(" ".join("-" if term is None else term.decode() for term in row) for row in answered.rows)
    return f"{len(lines)} rows of {answered.names}:\n  " + "\n  ".join(lines[:12])
