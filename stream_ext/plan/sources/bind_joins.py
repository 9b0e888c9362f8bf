"""Bind joins: patterns and paths of a registered query that the source `main` is asked for, with keys of the windows.

This is for patterns that have too many quads at the source to be held here.

    WINDOW :w { ?t :in ?z }  ?z :partOf ?c

    =>  WINDOW :w { ?t :in ?z }  [?z :partOf ?c] of main
    =>  WINDOW :w { ?t :in ?z }  ?z :partOf ?c  or  [?z :partOf ?c] of main, but for what our own store has

the latter where our own store has edges of :partOf, too. A path that only the source has edges of is sent as it is;
another one is walked here, over both.

Patterns that are exclusive to the source and share variables become one group, as in one-shot queries."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import count
from typing import Any, NamedTuple

from stream_ext.language.algebra.formulas import Not
from stream_ext.language.algebra.replace_parts import rebuilt
from stream_ext.language.algebra.terms import Variable
from stream_ext.plan.logic import (
    Alternatives,
    Conjunction,
    Existence,
    GraphNames,
    Logic,
    PathSource,
    PatternScan,
    Remote,
    Select,
    Table,
    Test,
    children,
    nodes_of,
)
from stream_ext.plan.sources.blank_nodes import guarded
from stream_ext.plan.sources.exclusive import Attached
from stream_ext.plan.sources.exclusive_groups import gathered
from stream_ext.plan.sources.shapes import has_zero_steps, may_be_empty, predicates_of

#: What is asked has very many solutions, or it would be held: everything else is joined first.
_VERY_MANY = 1e9
_KNOWN = ".known"  # no variable of a text has a dot
_S, _P, _O = Variable("s"), Variable("p"), Variable("o")


class BindJoinPlan(NamedTuple):
    """`exclusive`: the patterns that only the source is asked for: our own store has nothing for them."""

    select: Select
    exclusive: tuple[PatternScan, ...]

    def remotes(self) -> Iterator[tuple[Remote, bool]]:
        """What the source is asked, and whether our own store has nothing for it."""
        separate = {id(item) for node in nodes_of(self.select) if _is_separate(node) for item in children(node)}
        for node in nodes_of(self.select):
            if isinstance(node, Remote) and node.group is not None:
                yield node, id(node) not in separate
            elif isinstance(node, PathSource) and node.edges is not None:
                yield node.edges, False


def with_bind_joins(select: Select, is_remote: Callable[[Logic], bool], attached: Attached) -> BindJoinPlan:
    exclusive: list[PatternScan] = []

    def by(leaf: PatternScan | PathSource | GraphNames) -> Logic | None:
        if leaf.window is not None or not is_remote(leaf):
            return None
        own = replace(leaf, own=True)
        parts = [_as_large(part) if isinstance(part, Remote) else part for part in _over_both(own, attached)]
        if len(parts) == 1 and isinstance(parts[0], Remote):
            exclusive.extend(_edges_of(own))
        return parts[0] if len(parts) == 1 else Alternatives(tuple(parts))

    found = guarded(gathered(_replaced(select, (PatternScan, PathSource, GraphNames), by)))
    numbers = count(1)
    return BindJoinPlan(_replaced(found, (Remote,), lambda remote: _unless_known(remote, numbers)), tuple(exclusive))


def _over_both(leaf: PatternScan | PathSource | GraphNames, attached: Attached) -> Sequence[Logic]:
    match leaf:
        case PatternScan():
            return attached.scan(leaf)
        case PathSource():
            return (attached.path(leaf),)
        case GraphNames():
            theirs = attached.graphs(leaf)
            return (leaf,) if theirs is None else (leaf, theirs)


def _edges_of(leaf: PatternScan | PathSource | GraphNames) -> Iterator[PatternScan]:
    """What our own store has nothing of where only the source is asked for it."""
    if isinstance(leaf, PatternScan):
        yield leaf
    elif isinstance(leaf, PathSource):
        of_all = may_be_empty(leaf.path) or has_zero_steps(leaf.path)
        predicates = None if of_all else predicates_of(leaf.path)
        for predicate in [_P] if predicates is None else predicates:
            yield PatternScan(_S, predicate, _O, leaf.graph, None, own=True)


def _as_large(remote: Remote) -> Remote:
    assert remote.group is not None, "a source is asked for a group"
    return replace(remote, group=replace(remote.group, guess=_VERY_MANY))


def _unless_known(remote: Remote, numbers: count[int]) -> Logic | None:
    """What both have as a condition, which holds or not as our own store changes."""
    group = remote.group
    if group is None or group.unless is None:
        return None
    name = f"{_KNOWN}{next(numbers)}"
    known = Test(Not(Variable(name)), group.unless.variables | {name}, frozenset(), (Existence(name, group.unless),))
    return Conjunction((replace(remote, group=replace(group, unless=None)),), (known,))


def _is_separate(node: Logic) -> bool:
    """Whether it is what `_unless_known` makes."""
    return isinstance(node, Conjunction) and any(
        question.name.startswith(_KNOWN) for test in node.tests for question in test.questions
    )


def _replaced(select: Select, kinds: tuple[type[Any], ...], by: Callable[[Any], Logic | None]) -> Select:
    """With something else for leaves of some kinds, also in questions."""

    def each(part: Any) -> Any:
        match part:
            case Test():
                if not part.questions:
                    return part
                return replace(part, questions=tuple(rebuilt(question, each) for question in part.questions))
            case Remote() | Table() | PatternScan() | PathSource() | GraphNames():
                found = by(part) if isinstance(part, kinds) else None
                return part if found is None else found
            case _:
                return None

    return rebuilt(select, each)
