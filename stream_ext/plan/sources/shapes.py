"""Shapes: what patterns and paths are, as far as it matters for sending them to a source."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from stream_ext.language.algebra.algebra import (
    Bgp,
    Extend,
    Filter,
    Form,
    Graph,
    Join,
    LeftJoin,
    Minus,
    PathPattern,
    Pattern,
    Query,
    SubSelect,
    TriplePattern,
    Union,
    Values,
)
from stream_ext.language.algebra.formulas import (
    Path,
    PathAlternative,
    PathInverse,
    PathNegated,
    PathRepeat,
    PathSequence,
    Repeat,
)
from stream_ext.language.algebra.replace_parts import rebuilt
from stream_ext.language.algebra.terms import Constant, Node, Position, Variable
from stream_ext.language.algebra.walk import walk
from stream_ext.plan.logic import GraphScope, Names

#: The variables that a pattern binds in each solution, and those that it may bind.
Binds = Callable[[Pattern], tuple[Names, Names]]

#: Of what stands in no text.
NOWHERE_IN_TEXT = Position(1, 1)
_DERIVED = frozenset(
    b"byte int long short unsignedByte unsignedInt unsignedLong unsignedShort nonNegativeInteger nonPositiveInteger "
    b"positiveInteger negativeInteger".split()
)
#: With a plus, zeros before it, or zeros behind other digits of its fraction.
_OTHER_NUMBER = re.compile(rb"\+.*|-?0[0-9].*|.*\.[0-9]+0|-0|.*\.")
_XSD = b'"^^<http://www.w3.org/2001/XMLSchema#'
#: Of each type what all stores write so, whether they retain the text of a literal or its value.
_INTEGER = re.compile(rb"0|-?[1-9][0-9]*")
_ONE_WAY = {
    b"boolean": re.compile(rb"true|false"),
    b"integer": _INTEGER,
    **dict.fromkeys(_DERIVED, _INTEGER),
    b"decimal": re.compile(rb"-?(0|[1-9][0-9]{0,8})\.[0-9]{0,8}[1-9]"),
    b"dateTime": re.compile(rb"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z?"),
    b"date": re.compile(rb"[0-9]{4}-[0-9]{2}-[0-9]{2}"),
}
_ZERO = re.compile(rb"[+-]?[0.]+([eE].*)?")
#: Types whose values are texts.
_TEXTS = frozenset({b"string", b"anyURI"})
_TYPE = Constant(b"<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>")


def has_triples(pattern: Pattern) -> bool:
    return any(isinstance(part, Bgp) and (part.patterns or part.paths) for part in walk(pattern))


def needs_triple(pattern: Pattern) -> bool:
    """Whether each solution has a triple in the graph that the pattern is in."""
    match pattern:
        case Bgp(patterns, paths):
            return bool(patterns) or any(not may_be_empty(path.path) for path in paths)
        case Join(left, right):
            return needs_triple(left) or needs_triple(right)
        case LeftJoin(left) | Minus(left):
            return needs_triple(left)
        case Union(parts):
            return all(map(needs_triple, parts))
        case Filter(_, inner) | Extend(inner):
            return needs_triple(inner)
        case SubSelect(query):
            grouped = bool(query.shape.group_by)
            return needs_triple(query.pattern) and (grouped or query.shape.place("aggregate") is None)
        case _:
            return False


def is_connected(pattern: Join, binds: Binds) -> bool:
    """Whether its parts share variables: otherwise all combinations of their solutions would be sent."""
    waiting, left = [pattern.left, pattern.right], []
    while waiting:
        part = waiting.pop()
        if isinstance(part, Join):
            waiting += [part.left, part.right]
        else:
            left.append(binds(part)[1])
    reached = left.pop()
    while found := [names for names in left if names & reached]:
        left = [names for names in left if not names & reached]
        reached = reached.union(*found)
    return not left


def within(scope: GraphScope, inner: Pattern) -> Pattern:
    """`inner` under GRAPH; over the graphs of FROM NAMED, if the variable has no others."""
    assert scope.node is not None
    found = Graph(scope.node, inner)
    if isinstance(scope.node, Constant) or scope.graphs is None:
        return found
    rows = tuple((graph,) for graph in scope.graphs)
    return Join(Values((scope.node.name,), rows, NOWHERE_IN_TEXT), found)


def distinct(pattern: Pattern) -> SubSelect:
    names = dict.fromkeys(
        node.name
        for part in walk(pattern)
        if isinstance(part, Bgp)
        for node in _nodes(part)
        if isinstance(node, Variable)
    )
    return SubSelect(Query(Form.SELECT, pattern, tuple(names), True, 0, None, (), None), NOWHERE_IN_TEXT)


def _nodes(bgp: Bgp) -> Iterator[Node]:
    for triple in bgp.patterns:
        yield from (triple.subject, triple.predicate, triple.object)
    for path in bgp.paths:
        yield from (path.subject, path.object)


def with_named_nodes(pattern: Pattern) -> Pattern:
    """With variables in place of blank nodes: what is joined over them elsewhere needs their values."""

    def by(part: Any) -> Any:
        return Variable(part.name) if isinstance(part, Variable) and part.hidden else None

    return rebuilt(pattern, by)


def guess(triple: TriplePattern) -> float:
    """About how many triples match, as far as the text shows."""
    subject, predicate, target = (
        isinstance(node, Constant) for node in (triple.subject, triple.predicate, triple.object)
    )
    if subject:
        return 1.0 if target else 10.0
    if target:
        return 1e4 if triple.predicate == _TYPE else 100.0
    return 1e5 if predicate else 1e7


def is_other_number(text: bytes) -> bool:
    """Whether a number is certainly not in canonical form. Of 2.0 and 1e0 that depends on whom one asks."""
    lexical, found, datatype = text.rpartition(b'"^^<http://www.w3.org/2001/XMLSchema#')
    if not found or datatype not in (b"integer>", b"decimal>"):
        return False
    return _OTHER_NUMBER.fullmatch(lexical[1:]) is not None


def has_value(text: bytes) -> bool:
    """Whether a term is a literal that some stores take for its value: a number, a time, true or false."""
    _, found, datatype = text.rpartition(_XSD)
    return bool(found) and datatype[:-1] not in _TEXTS


def is_exact_number(text: bytes) -> bool:
    datatype = text.rpartition(_XSD)[2][:-1]
    return has_value(text) and (datatype in _DERIVED or datatype in (b"integer", b"decimal"))


def is_zero(text: bytes) -> bool:
    """Whether it is a number that -0.0 equals."""
    lexical, found, datatype = text.rpartition(_XSD)
    is_number = datatype[:-1] in _DERIVED or datatype[:-1] in (b"integer", b"decimal", b"double", b"float")
    return bool(found) and is_number and _ZERO.fullmatch(lexical[1:]) is not None


def is_written_one_way(text: bytes) -> bool:
    """Whether all stores write a term so. Of 2.0, 1e0 and +01:00 that depends on whom one asks."""
    lexical, _, datatype = text.rpartition(_XSD)
    form = _ONE_WAY.get(datatype[:-1])
    return not has_value(text) or (form is not None and form.fullmatch(lexical[1:]) is not None)


def is_small_integer(text: bytes) -> bool:
    """Whether its datatype is derived from xsd:integer."""
    _, found, datatype = text.rpartition(b'"^^<http://www.w3.org/2001/XMLSchema#')
    return bool(found) and datatype[:-1] in _DERIVED


def predicates_of(path: Path) -> list[Constant] | None:
    """The predicates of its steps; None: any but some."""
    match path:
        case Constant():
            return [path]
        case PathInverse(inner) | PathRepeat(inner):
            return predicates_of(inner)
        case PathSequence(parts) | PathAlternative(parts):
            found = [predicates_of(part) for part in parts]
            return None if None in found else [each for some in found for each in some or ()]
        case PathNegated():
            return None


def may_be_empty(path: Path) -> bool:
    """Whether it leads from a node to itself in no step."""
    match path:
        case PathRepeat(inner, times):
            return times is not Repeat.ONE_OR_MORE or may_be_empty(inner)
        case PathInverse(inner):
            return may_be_empty(inner)
        case PathSequence(parts):
            return all(map(may_be_empty, parts))
        case PathAlternative(parts):
            return any(map(may_be_empty, parts))
        case _:
            return False


def with_its_start(pattern: PathPattern) -> SubSelect | None:
    """`:a :p* ?x` as `:a :p+ ?x` and :a itself; None: it is no such path."""
    ends = (pattern.subject, pattern.object)
    variable = next((end for end in ends if isinstance(end, Variable)), None)
    start = next((end for end in ends if isinstance(end, Constant)), None)
    if variable is None or start is None or not isinstance(pattern.path, PathRepeat) or not may_be_empty(pattern.path):
        return None
    inner, times = pattern.path.inner, pattern.path.times
    if may_be_empty(inner):
        return None
    steps = inner if times is Repeat.ZERO_OR_ONE else PathRepeat(inner, Repeat.ONE_OR_MORE)
    itself = Values((variable.name,), ((start,),), NOWHERE_IN_TEXT)
    return distinct(Union((Bgp((), (replace(pattern, path=steps),)), itself), NOWHERE_IN_TEXT))


def has_zero_steps(path: Path) -> bool:
    """Whether a part of it may be empty."""
    match path:
        case PathRepeat(inner, times):
            return times is not Repeat.ONE_OR_MORE or has_zero_steps(inner)
        case PathInverse(inner):
            return has_zero_steps(inner)
        case PathSequence(parts) | PathAlternative(parts):
            return any(map(has_zero_steps, parts))
        case _:
            return False


def differs_by_engine(path: Path, repeated: bool = False) -> bool:
    """Engines make a set of an alternative that is not repeated, or a bag. `!(p|^q)` is an alternative, too."""
    match path:
        case PathNegated(forward, backward):
            return bool(forward and backward) and not repeated
        case PathAlternative(parts):
            return not repeated or any(differs_by_engine(part, repeated) for part in parts)
        case PathRepeat(inner):
            return differs_by_engine(inner, True)
        case PathInverse(inner):
            return differs_by_engine(inner, repeated)
        case PathSequence(parts):
            return any(differs_by_engine(part, repeated) for part in parts)
        case _:
            return False
