"""Early stop: the driver of a query, a triple pattern whose matches may come piece by piece if few answers are enough.

SELECT * { ?s :p ?o . ?o :q ?z } LIMIT 10 need not join a million edges: a thousand of :p will mostly do."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from stream_ext.network.change_bytes import MANY, count_alive
from stream_ext.network.operators.answers.distinct import Distinct, first_of_each
from stream_ext.network.operators.core.moment import Moment
from stream_ext.network.operators.joins.exists import ExistsOperator
from stream_ext.network.operators.joins.intersection import Intersection
from stream_ext.network.operators.joins.join import JoinOperator
from stream_ext.network.operators.joins.left_join import LeftJoinOperator
from stream_ext.network.operators.joins.minus import MinusOperator
from stream_ext.network.operators.joins.otherwise import Otherwise
from stream_ext.network.operators.joins.store_join import StoreJoin
from stream_ext.network.operators.rowwise.extend import ExtendOperator
from stream_ext.network.operators.rowwise.filter import FilterOperator
from stream_ext.network.operators.rowwise.project import Project
from stream_ext.network.operators.rowwise.union import UnionOperator
from stream_ext.network.wires import Stage
from stream_ext.rows.zset import ZSet, concat, empty

#: Rows of the first piece, where a few answers are enough; each next one is four times as large.
_PIECE = 1024


@dataclass(frozen=True, slots=True)
class Driver:
    """The stage whose rows may come piece by piece, and those that depend on it.

    What is made of all pieces is then what is made of their sum, but for a row that two of them make (`distinct`)."""

    stage: int
    driven: tuple[int, ...]
    distinct: bool


#: Operators that make of the sum of their inputs the sum of what they make of each, and in which inputs.
_OF_THE_FIRST = (LeftJoinOperator, ExistsOperator, Otherwise)
#: Values that a question is asked for, or an OPTIONAL looks for, are distinct in each piece: that is all they need.
_OF_ALL = (StoreJoin, Intersection, FilterOperator, ExtendOperator, Project, UnionOperator, Distinct)


def driver_of(stages: Sequence[Stage], last: int) -> Driver | None:
    """The first triple pattern, if all that follows from it works row by row; None: all must come at once."""
    stage = next((i for i, each in enumerate(stages) if each.inputs and isinstance(each.operator, StoreJoin)), None)
    if stage is None:
        return None
    exact, driven, moved = sums_of_parts(stages, stage), list[int](), {stage}
    for i in range(stage + 1, len(stages)):
        if not moved.isdisjoint(stages[i].inputs):
            moved.add(i)
            driven.append(i)
    is_distinct = isinstance(stages[last].operator, Distinct)
    if not all(i in exact for i in driven) or not exact.get(last, False) | (is_distinct and last in exact):
        return None
    return Driver(stage, tuple(driven), is_distinct)


def sums_of_parts(stages: Sequence[Stage], driver: int) -> dict[int, bool]:
    """The stages whose rows can be made of parts of the driver's rows, each part by itself.

    True: the rows are the sum of those of all parts. False: they are what comes of DISTINCT, so a row may be made of
    several parts; as values that are looked up for rows of the same part they are right."""
    exact, reached = {driver: True}, {driver}
    for i in range(driver + 1, len(stages)):
        stage = stages[i]
        if reached.isdisjoint(stage.inputs):
            continue
        reached.add(i)
        if all(each in exact or each not in reached for each in stage.inputs) and _adds_up(stage, exact):
            moving = [exact[each] for each in stage.inputs if each in exact]
            kept = moving[:1] if isinstance(stage.operator, _OF_THE_FIRST) else moving
            exact[i] = all(kept) and not isinstance(stage.operator, Distinct)
    return exact


def _adds_up(stage: Stage, moved: Container[int]) -> bool:
    """Whether it makes of the sum of its rows from these stages the sum of what it makes of each part."""
    moving = [i in moved for i in stage.inputs]
    if isinstance(stage.operator, _OF_THE_FIRST):
        return moving[0]
    if isinstance(stage.operator, MinusOperator):
        return moving == [True, False]
    if isinstance(stage.operator, JoinOperator):
        return moving.count(True) == 1
    return isinstance(stage.operator, _OF_ALL) and all(moving)


def piece_by_piece(stages: Sequence[Stage], last: int, moment: Moment, driver: Driver, enough: int) -> ZSet:
    """The rows of the last stage: evaluates the driver's matches piece by piece, until there are enough rows."""
    changes, width = list[ZSet](), len(stages[last].operator.variables)
    for i, stage in enumerate(stages):
        if i in driver.driven or i == driver.stage:
            changes.append(empty(len(stage.operator.variables)))
        else:
            moment.control.check()
            changes.append(stage.operator.step(moment, *(changes[j] for j in stage.inputs)))
    found = empty(width)
    for piece in _pieces(stages[driver.stage], moment, changes):
        changes[driver.stage] = piece
        for i in driver.driven:
            moment.control.check()
            stage = stages[i]
            changes[i] = stage.operator.step(moment, *(changes[j] for j in stage.inputs))
        more = concat([found, changes[last]], width)
        found = first_of_each(more) if driver.distinct else more
        if found.count > MANY:
            count_alive(moment.control, [*changes, found])
        if found.count >= enough:
            break
    return found


def _pieces(stage: Stage, moment: Moment, changes: Sequence[ZSet]) -> Iterator[ZSet]:
    size = _PIECE
    assert isinstance(stage.operator, StoreJoin)
    for part in stage.operator.pieces(moment, changes[stage.inputs[0]]):
        start = 0
        while start < part.count:
            yield part.take(np.arange(start, min(start + size, part.count)))
            start, size = start + size, size * 4
