"""Asked: the triple patterns of a registered query that the source main is asked for with the keys of its windows, as
the source has more quads for them than are held.

    WINDOW :w { ?t :in ?z }  ?z :partOf ?c

    =>  WINDOW :w { ?t :in ?z }  [?z :partOf ?c] of main
    =>  WINDOW :w { ?t :in ?z }  ?z :partOf ?c  or  [?z :partOf ?c] of main, but for what our own store has

the latter where our own store has edges of :partOf, too.

As in one-shot queries, patterns that are exclusive to the source and share variables become one group."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count
from typing import Any, NamedTuple

from stream_ext.language.algebra.formulas import Not
from stream_ext.language.algebra.replace_parts import rebuilt
from stream_ext.language.algebra.terms import Variable
from stream_ext.plan.attached import Attached
from stream_ext.plan.blank_nodes import guarded
from stream_ext.plan.gathering import gathered
from stream_ext.plan.logic import (
    Alternatives,
    Conjunction,
    Existence,
    Logic,
    PatternScan,
    Remote,
    Select,
    Table,
    Test,
    children,
    nodes_of,
)

#: What is asked has very many solutions, or it would be held: everything else is joined first.
_VERY_MANY = 1e9
_KNOWN = ".known"  # no variable of a text has a dot


class AskedPlan(NamedTuple):
    """`exclusive`: the patterns that only the source is asked for: our own store has nothing for them."""

    select: Select
    exclusive: tuple[PatternScan, ...]

    def remotes(self) -> Iterator[tuple[Remote, bool]]:
        """What the source is asked, and whether our own store has nothing for it."""
        separate = {id(item) for node in nodes_of(self.select) if _is_separate(node) for item in children(node)}
        for node in nodes_of(self.select):
            if isinstance(node, Remote) and node.group is not None:
                yield node, id(node) not in separate


def with_asked(select: Select, is_asked: Callable[[PatternScan], bool], attached: Attached) -> AskedPlan:
    exclusive: list[PatternScan] = []

    def by(scan: PatternScan) -> Logic | None:
        if scan.window is not None or not is_asked(scan):
            return None
        own = replace(scan, own=True)
        parts = [_asked(part) if isinstance(part, Remote) else part for part in attached.scan(own)]
        if len(parts) == 1 and isinstance(parts[0], Remote):
            exclusive.append(own)
        return parts[0] if len(parts) == 1 else Alternatives(tuple(parts))

    found = guarded(gathered(_replaced(select, PatternScan, by)))
    numbers = count(1)
    return AskedPlan(_replaced(found, Remote, lambda remote: _unless_known(remote, numbers)), tuple(exclusive))


def _asked(remote: Remote) -> Remote:
    assert remote.group is not None, "a source is asked for a group"
    return replace(remote, group=replace(remote.group, guess=_VERY_MANY))


def _unless_known(remote: Remote, numbers: count[int]) -> Logic | None:
    """What both have as a condition, which holds or not as our own store changes."""
    group = remote.group
    if group is None or not isinstance(group.unless, PatternScan):
        return None
    name = f"{_KNOWN}{next(numbers)}"
    known = Test(Not(Variable(name)), group.unless.variables | {name}, frozenset(), (Existence(name, group.unless),))
    return Conjunction((replace(remote, group=replace(group, unless=None)),), (known,))


def _is_separate(node: Logic) -> bool:
    """Whether it is what `_unless_known` makes."""
    return isinstance(node, Conjunction) and any(
        question.name.startswith(_KNOWN) for test in node.tests for question in test.questions
    )


def _replaced(select: Select, kind: type[Any], by: Callable[[Any], Logic | None]) -> Select:
    """With something else for leaves of a kind, also in questions."""

    def each(part: Any) -> Any:
        match part:
            case Test():
                if not part.questions:
                    return part
                return replace(part, questions=tuple(rebuilt(question, each) for question in part.questions))
            case Remote() | Table() | PatternScan():
                found = by(part) if isinstance(part, kind) else None
                return part if found is None else found
            case _:
                return None

    return rebuilt(select, each)
