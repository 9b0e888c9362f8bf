"""Shape: a part without the names of its variables.

?post1 sib:hashtag ?tag  and  ?post2 sib:hashtag ?tag  have one shape, and the names (post1, tag) and (post2, tag): both
have the same rows, so these are read once."""

from __future__ import annotations

from dataclasses import replace

from stream_ext.language.algebra.terms import Node, Variable
from stream_ext.plan.logic import Alternatives, GraphScope, Logic, PatternScan, Select


def shape_of(item: Logic) -> tuple[Logic, tuple[str, ...]]:
    """The part with numbers instead of names, and the names in order of the numbers. Parts other than triple patterns,
    and merges of these, are their own shape."""
    names: list[str] = []
    if isinstance(item, PatternScan):
        return _numbered(item, names), tuple(names)
    if isinstance(item, Select) and item == _bare(item) and isinstance(item.inner, Alternatives):
        names += item.names
        if all(isinstance(part, PatternScan) for part in item.inner.parts):
            parts = tuple(_numbered(part, names) for part in item.inner.parts if isinstance(part, PatternScan))
            shape = replace(item, inner=Alternatives(parts), names=tuple(map(str, range(len(item.names)))))
            return shape, tuple(names)
    return item, tuple(sorted(item.variables))


def _bare(select: Select) -> Select:
    """Its rows as they are."""
    return Select(select.inner, (), None, (), (), (), select.names, select.distinct, 0, None)


def _numbered(source: PatternScan, names: list[str]) -> PatternScan:
    def number(name: str) -> str:
        if name not in names:
            names.append(name)
        return str(names.index(name))

    def node(each: Node) -> Node:
        return replace(each, name=number(each.name)) if isinstance(each, Variable) else each

    graph = source.graph
    scope = graph if graph.node is None else GraphScope(node(graph.node), graph.graphs, graph.everything)
    subject, predicate, object = node(source.subject), node(source.predicate), node(source.object)
    time = None if source.time is None else number(source.time)
    occurrence = None
    if source.occurrence is not None:
        at, arrival, place = map(number, source.occurrence)
        occurrence = (at, arrival, place)
    return replace(
        source, subject=subject, predicate=predicate, object=object, graph=scope, time=time, occurrence=occurrence
    )
