"""A source in this process that evaluates whole queries itself, because they call functions that only it has.

    BIND(<urn:f:nearest>(?taxi) AS ?zone)      a function in Python of an attached rdflib dataset

It reads its own data, our store at a snapshot, and the windows, which are graphs for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, cast

import numpy as np
import numpy.typing as npt

from hbase_store import Snapshot
from stream_ext.evaluation_budget import Control
from stream_ext.language.algebra.algebra import Query
from stream_ext.remote.source import Source
from stream_ext.remote.sparql_client import Solution

Ids = npt.NDArray[np.uint64]
#: Subject, predicate and object.
Texts = tuple[bytes, bytes, bytes]


@dataclass(frozen=True, slots=True)
class OwnData:
    """Our own store, as an evaluation sees it. `ids`: of terms, 0 where it does not know one; `terms`: of ids."""

    snapshot: Snapshot
    ids: Callable[[Sequence[bytes]], Ids]
    terms: Callable[[Ids], list[bytes]]


@dataclass(frozen=True, slots=True)
class WholeQuestion:
    """One evaluation. `text`: a SELECT or ASK in SPARQL 1.1, in which a window is the graph of its name; `functions`:
    what it calls, by IRI."""

    text: str
    functions: tuple[str, ...]
    windows: Mapping[str, Sequence[Texts]]
    own: OwnData
    now_ms: int


class FunctionsGone(Exception):
    """Functions that the query called when it was registered are not there."""


class EvaluatingSource(Source, Protocol):
    def functions_of(self, query: Query) -> list[str]:
        """The functions of this process that the query may call; none: our engine evaluates it. BadArgument if it
        calls some, and cannot be evaluated with them."""
        ...

    def evaluate(self, question: WholeQuestion, control: Control) -> list[Solution]:
        """The rows of a SELECT, in order; one or none for an ASK. Blank nodes of our own store have their labels there
        (`_:b7`), others begin with `_:q`, and are the same in each answer. Raises whatever a function raises."""
        ...


def evaluating(source: Source | None) -> EvaluatingSource | None:
    """The source, if it evaluates whole queries. Its class is looked at: properties of a source ask it over the
    network."""
    return cast(EvaluatingSource, source) if hasattr(type(source), "evaluate") else None
