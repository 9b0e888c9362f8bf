"""Not sent: what keeps a part of a query from being sent to a source as it is (`attached`).

?s :p "01"^^xsd:integer      to a source that writes 1: it would find other triples than are there
?s :p* ?o  in GRAPH ?g       engines differ in which graphs have a node that no triple has"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from stream_ext.language.algebra.algebra import Bgp, Form, Join, Minus, Pattern, Query, TriplePattern
from stream_ext.language.algebra.terms import Constant, has_name
from stream_ext.language.algebra.walk import walk
from stream_ext.plan.logic import GraphScope
from stream_ext.plan.shapes_sent import Binds, is_other_number, is_small_integer, may_be_empty, needs_triple
from stream_ext.remote.source import SourceTraits


class NotSent(Exception):
    """A part is not sent as it is."""


def never_matches(triple: TriplePattern, traits: SourceTraits) -> bool:
    """Whether the source cannot have such a term: it writes numbers, or languages, in another way."""
    return isinstance(triple.object, Constant) and is_written_otherwise(triple.object, traits)


def is_written_otherwise(constant: Constant, traits: SourceTraits) -> bool:
    text = constant.text
    if traits.lowers_languages and (tag := text.rpartition(b'"')[2]).startswith(b"@") and tag != tag.lower():
        return True
    if traits.widens_integers and is_small_integer(text):
        return True
    return traits.canonical_numbers and is_other_number(text)


def check_written(parts: Iterable[object], traits: SourceTraits) -> None:
    if any(isinstance(part, Constant) and is_written_otherwise(part, traits) for part in parts):
        raise NotSent


def check_empty_paths(pattern: Bgp, scope: GraphScope) -> None:
    """From where it is a term leads to itself in no step, in each graph: under GRAPH, only where the graph has any
    triple, and some engines want it to be a node of the graph."""
    empty = [path for path in pattern.paths if may_be_empty(path.path)]
    if empty and scope.graphs is not None and not needs_triple(pattern):
        raise NotSent
    if any(isinstance(end, Constant) for path in empty for end in (path.subject, path.object)):
        raise NotSent


def check_without_minus(pattern: Pattern) -> None:
    # Some engines give the left side of MINUS what is bound around OPTIONAL and EXISTS.
    if any(isinstance(part, Minus) for part in walk(pattern)):
        raise NotSent


def as_select(query: Query, binds: Binds) -> Query:
    if query.form is Form.SELECT:
        return query
    if query.shape.group_by or query.shape.having or query.shape.place("aggregate") is not None:
        raise NotSent
    names = tuple(sorted(filter(has_name, binds(query.pattern)[1])))
    if query.form is Form.ASK:
        return replace(query, form=Form.SELECT, variables=names[:1], limit=1 if query.limit is None else query.limit)
    return replace(query, form=Form.SELECT, variables=names)


def all_of(parts: Iterable[Pattern | None]) -> Pattern:
    found: Pattern | None = None
    for part in parts:
        if part is None:
            raise NotSent
        found = part if found is None else Join(found, part)
    assert found is not None, "an empty pattern is sent as it is"
    return found
