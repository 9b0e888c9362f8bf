"""Whole graphs of the source main, and the descriptions of its resources: what a pattern of a query does not ask for.

A graph is handed on while it comes, without the triples that our own store has, too. A description follows blank nodes,
as that of our own store does; it is one answer, for labels of blank nodes mean something within one answer only. How
far it must follow them is found out by asking for a step more until nothing is added."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count

import numpy as np

from hbase_store import Snapshot, Store
from hbase_store.arrays import Ids
from stream_ext.errors import SourceFailed
from stream_ext.evaluation_budget import Control
from stream_ext.language.algebra.algebra import (
    Extend,
    Filter,
    Form,
    Join,
    Pattern,
    Query,
    SubSelect,
    TriplePattern,
    Union,
    Values,
)
from stream_ext.language.algebra.formulas import FunctionCall
from stream_ext.language.algebra.terms import Constant, Position, Variable
from stream_ext.network.operators.remote.remote_question import AnswerLabels, question_of, sendable
from stream_ext.network.operators.remote.row_kinds import RowKinds, row_kinds
from stream_ext.oneshot.decoded import Decoded
from stream_ext.plan.logic import GraphScope
from stream_ext.plan.sources.exclusive import Attached
from stream_ext.remote.fetching import CannotFetch
from stream_ext.remote.gathering import bytes_of
from stream_ext.remote.source import Source
from stream_ext.remote.sparql_client import Solution
from stream_ext.values.vocabulary import Vocabulary

_HERE = Position(1, 1)
_S, _P, _O, _G = (Variable(name) for name in "spog")
_RESOURCES, _DEPTH_MAX = 200, 16
#: Of triples, however they are asked for.
_TRIPLES = RowKinds(frozenset("spo"), frozenset("s"), frozenset("p"))
_numbers = count()


# ---- whole graphs ----------------------------------------------------------------------------------------------


def graph_of_source(
    source: Source, attached: Attached, scope: GraphScope | None, store: Store, snapshot: Snapshot, control: Control
) -> Iterator[Decoded]:
    """The triples of a graph, or (None) the quads of all of them, that our own store does not have."""
    pattern = _quads(attached) if scope is None else attached.triples(TriplePattern(_S, _P, _O, _HERE), scope)
    if pattern is None:
        return
    names = ("s", "p", "o", "g") if scope is None else ("s", "p", "o")
    labels = AnswerLabels(f"g{next(_numbers)}")
    graph = scope.node.text if scope is not None and isinstance(scope.node, Constant) else None
    for solutions in _solutions(source, pattern, names, control):
        rows = [[labels.own(row[name]) if name in row else None for name in names] for row in solutions]
        known = _known(rows, graph, store, snapshot)
        new_rows = [row for row, here in zip(rows, known, strict=True) if not here]
        places: dict[bytes | None, int] = {}
        columns = [[places.setdefault(row[i], len(places)) for row in new_rows] for i in range(len(names))]
        if new_rows:
            yield Decoded(list(places), columns, len(new_rows))


def _quads(attached: Attached) -> Pattern | None:
    triple = TriplePattern(_S, _P, _O, _HERE)
    parts = [attached.triples(triple, scope) for scope in (GraphScope(), GraphScope(_G))]
    there = tuple(part for part in parts if part is not None)
    return Union(there, _HERE) if len(there) > 1 else there[0] if there else None


def _known(
    rows: Sequence[Sequence[bytes | None]], graph: bytes | None, store: Store, snapshot: Snapshot
) -> Sequence[bool]:
    own = [text if text is not None and not text.startswith(b"_:") else b"" for row in rows for text in row]
    named = sorted({text for text in own if text} | ({graph} if graph is not None else set()))
    ids = dict(zip(named, store.ids(named).tolist(), strict=True)) if named else {}
    width = len(rows[0])
    columns = [np.array([ids.get(text, 0) for text in own[i::width]], np.uint64) for i in range(width)]
    if width == 3:
        columns.append(np.full(len(rows), ids.get(graph, 0) if graph is not None else 0, np.uint64))
    there = (columns[0] != 0) & (columns[1] != 0) & (columns[2] != 0)
    is_named = np.array([row[3] is not None for row in rows]) if width == 4 else np.full(len(rows), graph is not None)
    there &= (columns[3] != 0) | ~is_named
    found = snapshot.contains(columns[0], columns[1], columns[2], columns[3])
    return list(there & found)


def _solutions(source: Source, pattern: Pattern, names: tuple[str, ...], control: Control) -> Iterator[list[Solution]]:
    text, sent = question_of(Query(Form.SELECT, pattern, names, False, 0, None, (), None))
    kinds = row_kinds(pattern).among(names) | _TRIPLES
    try:
        for some in source.select(text, control):
            rows = [{name: row[there] for name, there in zip(names, sent, strict=True) if there in row} for row in some]
            kinds.check(rows, f"the source {source.settings.name} <{source.settings.shown_url}>")
            yield rows
    except CannotFetch as error:
        raise SourceFailed(str(error)) from None


# ---- descriptions ----------------------------------------------------------------------------------------------


def description_of_source(
    source: Source, attached: Attached, resources: Ids, scope: GraphScope, vocabulary: Vocabulary, control: Control
) -> tuple[Ids, Ids, Ids]:
    """The triples of the source that describe some resources."""
    texts = vocabulary.decode(resources) if len(resources) else []
    if any(text.startswith(b"_:qs") for text in texts):
        raise SourceFailed(
            f"the source {source.settings.name} has a blank node for a resource that is to be described, and cannot be "
            "asked for it by its label: describe what leads to it"
        )
    try:
        iris = [sendable(text) for text in texts if text.startswith(b"<")]
    except CannotFetch as error:
        raise SourceFailed(str(error)) from None
    found: list[Solution] = []
    for start in range(0, len(iris), _RESOURCES):
        found += _described(source, attached, iris[start : start + _RESOURCES], scope, control)
    columns = (vocabulary.encode([row[name] for row in found]) for name in "spo")
    s, p, o = (column if found else np.empty(0, np.uint64) for column in columns)
    return s, p, o


def _described(
    source: Source, attached: Attached, iris: list[bytes], scope: GraphScope, control: Control
) -> list[Solution]:
    before: list[Solution] | None = None
    for depth in range(1, _DEPTH_MAX + 1):
        pattern = _steps(attached, iris, scope, depth)
        if pattern is None:
            return []
        found = [row for some in _solutions(source, pattern, ("s", "p", "o"), control) for row in some]
        control.spend(bytes_of(found))
        if not any(row["o"].startswith(b"_:") for row in found) or (before is not None and len(found) == len(before)):
            labels = AnswerLabels(f"d{next(_numbers)}")
            return [{name: labels.own(text) for name, text in row.items()} for row in found]
        before = found
    raise SourceFailed(
        f"the source {source.settings.name} describes a resource by blank nodes that lead on for more than "
        f"{_DEPTH_MAX} steps"
    )


def _steps(attached: Attached, iris: list[bytes], scope: GraphScope, depth: int) -> Pattern | None:
    """The triples of the resources, and those of the blank nodes that they lead to in fewer steps than `depth`."""
    values = Values(("r",), tuple((Constant(text),) for text in iris), _HERE)
    parts: list[Pattern] = []
    for steps in range(depth):
        nodes = [Variable("r"), *(Variable(f"b{step}") for step in range(1, steps + 1))]
        pattern: Pattern = values
        for step in range(steps):
            triple = TriplePattern(nodes[step], Variable(f"p{step}"), nodes[step + 1], _HERE)
            placed = attached.triples(triple, scope)
            if placed is None:
                return None
            is_blank = FunctionCall("ISBLANK", (nodes[step + 1],), False, _HERE)
            pattern = Filter(is_blank, Join(pattern, placed))
        placed = attached.triples(TriplePattern(nodes[-1], _P, _O, _HERE), scope)
        if placed is None:
            return None
        parts.append(Extend(Join(pattern, placed), "s", nodes[-1], _HERE))
    inner = parts[0] if len(parts) == 1 else Union(tuple(parts), _HERE)
    return SubSelect(Query(Form.SELECT, inner, ("s", "p", "o"), True, 0, None, (), None), _HERE)
