"""Wires: the outputs of stages, and what is known of their columns at planning time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec

from stream_ext.language.algebra.terms import Variable
from stream_ext.network.operators.core.operator import Operator
from stream_ext.network.operators.joins.intersection import Intersection
from stream_ext.network.operators.joins.join import JoinOperator
from stream_ext.network.operators.joins.left_join import LeftJoinOperator
from stream_ext.network.operators.rowwise.union import UnionOperator
from stream_ext.network.operators.scans.counted_scan import CountedScan, LatestCountedScan
from stream_ext.network.operators.scans.numbered_scan import NumberedCountedScan
from stream_ext.network.operators.scans.window_scan import WindowScan
from stream_ext.plan.logic import NO_NAMES, Conjunction, Logic, Names, PatternScan
from stream_ext.windows.counted_window import CountedWindow
from stream_ext.windows.displacing import Displacing


@dataclass(frozen=True, slots=True)
class Wire:
    """The output of a stage: its columns, and which of them are bound in every row."""

    stage: int
    variables: tuple[str, ...]
    certain: Names
    rows: float = 1.0  # as many are expected
    resources: Names = NO_NAMES  # which of them never hold a literal

    @property
    def maybe(self) -> Names:
        if len(self.certain) == len(self.variables):
            return NO_NAMES  # mostly
        return frozenset(self.variables) - self.certain


class Stage(msgspec.Struct, frozen=True, eq=False):
    operator: Operator
    inputs: tuple[int, ...]
    estimate: float  # of its rows; for EXPLAIN
    label: str  # what it does, for EXPLAIN


#: A stage that is stepped: its number, and the numbers of those whose changes nobody reads after it.
Step = tuple[int, Stage, list[int]]


@dataclass(frozen=True, slots=True)
class Ground:
    """Where independent parts begin: the unit row, or the values for which a question is asked (`carried`)."""

    wire: Wire
    carried: Names = NO_NAMES


Scan = WindowScan | CountedScan | LatestCountedScan | NumberedCountedScan


@dataclass
class Plan:
    stages: list[Stage] = field(default_factory=list)
    scans: list[Scan] = field(default_factory=list)
    counted: dict[str, CountedWindow] = field(default_factory=dict)  # by the names of the windows
    displacing: dict[str, Displacing] = field(default_factory=dict)  # the same for many evaluations in one step


def in_steps(stages: Sequence[Stage], last: int, scans: Sequence[Scan]) -> list[Step]:
    """The stages that are stepped, with their numbers; and for each those whose changes are not read after it. What has
    elements that wait is stepped, whoever reads it."""
    own_scans = set(map(id, scans))
    needed = [id(stage.operator) in own_scans for stage in stages]
    needed[last] = True
    for at in reversed(range(len(stages))):
        if needed[at]:
            for i in stages[at].inputs:
                needed[i] = True
    reader = {i: at for at, stage in enumerate(stages) if needed[at] for i in stage.inputs}
    done: list[list[int]] = [[] for _ in stages]
    for i, at in reader.items():
        if i != last:
            done[at].append(i)
    return [(at, stage, done[at]) for at, stage in enumerate(stages) if needed[at]]


def resources_of(operator: Operator, inputs: tuple[Wire, ...], node: Logic | None) -> Names:
    """The columns without literals: subjects, predicates and graphs; joins retain those of their sides."""
    found = inputs[0].resources if inputs else NO_NAMES
    if isinstance(operator, UnionOperator):
        others = [wire.resources | (frozenset(operator.variables) - set(wire.variables)) for wire in inputs]
        found = others[0].intersection(*others[1:])
    elif isinstance(operator, JoinOperator | LeftJoinOperator):
        found = both_resources(inputs[0], inputs[1])
    for source in node.items if isinstance(operator, Intersection) and isinstance(node, Conjunction) else (node,):
        if isinstance(source, PatternScan):
            parts = (source.subject, source.predicate, source.graph.node)
            found |= {part.name for part in parts if isinstance(part, Variable)}
    return found


def both_resources(left: Wire, right: Wire) -> Names:
    """Of a variable that both sides have, a row may have what the one says where the other leaves it unbound."""
    own_left, own_right = set(left.variables) - set(right.variables), set(right.variables) - set(left.variables)
    certain = (left.resources & left.certain) | (right.resources & right.certain)
    single = (left.resources & own_left) | (right.resources & own_right)
    return single | (certain & left.certain & right.certain) | (left.resources & right.resources)


def maybe_of(left: Wire, right: Wire) -> Names:
    return left.maybe | right.maybe


def merged_names(left: Wire, right: Wire) -> tuple[str, ...]:
    known = frozenset(left.variables)
    return left.variables + tuple(v for v in right.variables if v not in known)
