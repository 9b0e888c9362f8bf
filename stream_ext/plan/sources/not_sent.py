"""Not sent: what keeps a part of a query from being sent to a source as it is (`plan.sources.exclusive`).

?s :p "01"^^xsd:integer      to a source that writes 1: it would find other triples than are there
?s :p* ?o  in GRAPH ?g       engines differ in which graphs have a node that no triple has"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from stream_ext.language.algebra.algebra import (
    Bgp,
    Filter,
    Form,
    Join,
    Minus,
    Pattern,
    Query,
    TriplePattern,
    Values,
)
from stream_ext.language.algebra.formulas import And, Compare, CompareOp, Expression, FunctionCall, Membership
from stream_ext.language.algebra.terms import Constant, Variable, has_name
from stream_ext.language.algebra.walk import walk
from stream_ext.plan.logic import GraphScope
from stream_ext.plan.sources.shapes import (
    NOWHERE_IN_TEXT,
    Binds,
    has_value,
    is_exact_number,
    is_other_number,
    is_small_integer,
    is_written_one_way,
    is_zero,
    may_be_empty,
    needs_triple,
)
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


def is_read_otherwise(constant: Constant, traits: SourceTraits) -> bool:
    """Whether the source may find other terms for it, such as 1 for 01: what it finds is to be compared with it."""
    return has_value(constant.text) and (traits.by_value or not is_written_one_way(constant.text))


def equal_to(name: str, constant: Constant, inner: Pattern, traits: SourceTraits) -> Pattern:
    """The solutions whose variable may be the constant. A store that compares by value would put the constant in place
    of what is equal to it; it is asked for a range where its numbers are exact, and for all where they are not."""
    if not traits.by_value:
        return Join(Values((name,), ((constant,),), NOWHERE_IN_TEXT), inner)
    if not is_exact_number(constant.text):
        return inner
    value = Variable(name)
    ends = (Compare(op, value, constant) for op in (CompareOp.GE, CompareOp.LE))
    return Filter(And(*ends), inner)


def check_written(parts: Iterable[object], traits: SourceTraits) -> None:
    if any(is_other(part, traits) for part in parts):
        raise NotSent


def may_send_condition(condition: Expression, traits: SourceTraits) -> bool:
    """Whether its terms mean the same to the source. One that compares by value puts a term in place of what is equal
    to it, and has no terms that are the same."""
    for part in walk(condition):
        match part:
            case FunctionCall("SAMETERM", arguments):
                if traits.by_value or any(is_other(each, traits) for each in arguments):
                    return False
            case Compare(CompareOp.EQ) | Membership() if traits.by_value:
                return False
            case Constant(text) if traits.distinguishes_zeros and is_zero(text):
                return False
            case Constant(text) if traits.by_value and has_value(text):
                return False
    return True


def is_other(part: object, traits: SourceTraits) -> bool:
    """Whether it is a constant that is another one to the source, or may be."""
    return isinstance(part, Constant) and (is_written_otherwise(part, traits) or is_read_otherwise(part, traits))


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
