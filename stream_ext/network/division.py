"""Division: where a network that is stepped once can be cut, so that several processes do most of its work.

    ?p :age ?a  ->  ?p :city ?c  ->  filter  ->  group by ?c  ->  order
    \\_______ each task, for some of the ?p ________/    \\__ once, with the partial groups of all tasks __/

The rows of one triple pattern (the *driver*) are divided among tasks. What follows it row by row (the *driven* stages)
is evaluated by each task for its own rows; what the driven stages need from elsewhere is evaluated by each task whole.
At the *merge*, groups or DISTINCT, the tasks' partial results become one. All after it is evaluated once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from stream_ext.evaluation_budget import Check, Control
from stream_ext.network.change_bytes import with_room
from stream_ext.network.early_stop import sums_of_parts
from stream_ext.network.network import Network
from stream_ext.network.operators.answers.distinct import Distinct
from stream_ext.network.operators.answers.slice import Slice
from stream_ext.network.operators.core.moment import Moment
from stream_ext.network.operators.groups.grouped import Grouped
from stream_ext.network.operators.joins.intersection import Intersection
from stream_ext.network.operators.joins.store_join import StoreJoin
from stream_ext.network.operators.rowwise.extend import ExtendOperator
from stream_ext.network.operators.rowwise.filter import FilterOperator
from stream_ext.network.operators.rowwise.project import Project
from stream_ext.network.operators.rowwise.sources import UnitRow
from stream_ext.network.wires import Stage
from stream_ext.rows.zset import ZSet

#: Two tasks must be expected to take less than this part of the time of one.
_WORTH = 0.85
#: How many rows are expected to be left by groups or DISTINCT, of one. Estimates count all.
_MERGED = 0.1
#: The rows of these are in the order of their (first) input.
_IN_ORDER = (StoreJoin, Intersection, FilterOperator, ExtendOperator, Project, Distinct)


class NotDivided(Exception):
    """The network cannot be divided, or would gain nothing; the message says why. It is evaluated as others are."""


@dataclass(frozen=True, slots=True)
class Division:
    """Stages by their numbers, in order. `repeated`: those that each task evaluates whole; `last`: those that are
    evaluated once at the end. `by_subject`: the driver's rows are divided by ranges of their subjects; otherwise each
    task finds all of them and has its share."""

    driver: int
    driven: tuple[int, ...]
    repeated: tuple[int, ...]
    merge: int
    last: tuple[int, ...]
    by_subject: bool


def division_of(network: Network) -> Division:
    """The division that leaves the least for one task; raises NotDivided."""
    stages, end = network.stages, network.last_stage
    found: list[tuple[float, Division]] = []
    why = "no triple pattern of the store is read before its groups or its DISTINCT"
    for driver, stage in enumerate(stages):
        if isinstance(stage.operator, StoreJoin) and stage.inputs:
            try:
                division = _divided_at(stages, end, driver)
            except NotDivided as error:
                why = str(error)
                continue
            found.append((_time_of_two(stages, division), division))
    if not found:
        raise NotDivided(why)
    part, division = min(found, key=lambda each: each[0])
    if part > _WORTH:
        raise NotDivided(
            "most of its work would be done by each task, or after the tasks: two tasks are expected to take "
            f"{part:.0%} of the time of one"
        )
    if _is_cut(network, division) and not _is_in_order(stages, division):
        raise NotDivided("LIMIT and OFFSET would cut off other rows: what is joined comes in another order")
    return division


def _is_cut(network: Network, division: Division) -> bool:
    """Whether LIMIT or OFFSET, perhaps of a sub-SELECT, is applied to what the tasks have found."""
    last = (network.stages[i].operator for i in division.last)
    return network.cut.is_limited or any(isinstance(each, Slice) and each.is_limited for each in last)


def _divided_at(stages: Sequence[Stage], end: int, driver: int) -> Division:
    driven, merge = _driven(stages, driver)
    by_subject = _is_by_subject(stages, driver)
    inputs = () if by_subject else stages[driver].inputs
    repeated = {*_needed(stages, driven, (driver,)), *_needed(stages, inputs, ())} - {driver, *driven}
    last = set(_needed(stages, (end,), (merge,))) - {merge}
    return Division(driver, driven, tuple(sorted(repeated)), merge, tuple(sorted(last)), by_subject)


def _driven(stages: Sequence[Stage], driver: int) -> tuple[tuple[int, ...], int]:
    """The stages that each task evaluates for its rows, and the one where the results of tasks are merged: the last one
    that is possible."""
    exact, reached = sums_of_parts(stages, driver), {driver}
    merges, why = [], "it has neither groups nor DISTINCT: all its rows would be sent"
    for i in range(driver + 1, len(stages)):
        stage = stages[i]
        moving = [each for each in stage.inputs if each in reached]
        if not moving:
            continue
        reached.add(i)
        if any(each not in exact for each in moving):
            continue  # it is behind one that cannot be divided
        if (isinstance(stage.operator, Grouped) and exact[moving[0]]) or isinstance(stage.operator, Distinct):
            merges.append(i)
        elif i not in exact:
            why = f"its rows are not made one by one: {stage.label}"
    merges = [i for i in merges if _is_only_way(stages, driver, i)]
    if not merges:
        raise NotDivided(why)
    wanted = set(_needed(stages, stages[merges[-1]].inputs, ()))
    return tuple(i for i in sorted(exact) if i in wanted and i != driver), merges[-1]


def _is_only_way(stages: Sequence[Stage], driver: int, merge: int) -> bool:
    """Whether all that comes of the driver's rows comes through this stage."""
    reached = {driver}
    for i in range(driver + 1, len(stages)):
        if i != merge and not reached.isdisjoint(stages[i].inputs):
            reached.add(i)
    return max(reached) < merge


def _needed(stages: Sequence[Stage], of: Sequence[int], without: Sequence[int]) -> list[int]:
    """These stages and those that they read, directly or not; what `without` reads is left out."""
    found, waiting = set[int](), list(of)
    while waiting:
        i = waiting.pop()
        if i not in found:
            found.add(i)
            waiting += () if i in without else stages[i].inputs
    return sorted(found)


def _is_by_subject(stages: Sequence[Stage], driver: int) -> bool:
    stage = stages[driver]
    assert isinstance(stage.operator, StoreJoin)
    return isinstance(stages[stage.inputs[0]].operator, UnitRow) and stage.operator.is_scan


def _time_of_two(stages: Sequence[Stage], division: Division) -> float:
    """The expected time of two tasks and what comes after them, as a part of that of one process; by the rows that are
    expected."""
    divided = sum(stages[i].estimate for i in (*division.driven, division.merge))
    whole = sum(stages[i].estimate for i in division.repeated)
    whole += sum(stages[i].estimate for i in division.last) * _MERGED
    if division.by_subject:
        divided += stages[division.driver].estimate
    else:
        whole += stages[division.driver].estimate
    return (whole + divided / 2) / max(1.0, whole + divided)


def _is_in_order(stages: Sequence[Stage], division: Division) -> bool:
    """Whether the merge gets the rows of the tasks, one task after the other, in the order in which one process would
    have them."""
    driven = (stages[i].operator for i in (division.driver, *division.driven))
    return all(isinstance(each, _IN_ORDER) and not (isinstance(each, StoreJoin) and each.has_maybe) for each in driven)


class TaskNetwork:
    """What one task evaluates, for rows of the driver that come piece by piece."""

    def __init__(self, network: Network, division: Division, moment: Moment) -> None:
        self._stages, self._division, self._moment = network.stages, division, moment
        self._changes: dict[int, ZSet] = {}
        for i in division.repeated:
            self._step(i)

    @property
    def driver(self) -> StoreJoin:
        operator = self._stages[self._division.driver].operator
        assert isinstance(operator, StoreJoin)
        return operator

    def rows_of_driver(self) -> ZSet:
        """All of them, if they are not divided by subject."""
        self._step(self._division.driver)
        return self._changes.pop(self._division.driver)

    def piece(self, rows: ZSet) -> ZSet:
        """What the merge gets of these rows of the driver."""
        division = self._division
        self._changes[division.driver] = rows
        for i in division.driven:
            self._step(i)
        (of,) = self._stages[division.merge].inputs
        return self._changes[of]

    def _step(self, i: int) -> None:
        self._moment.control.check()
        stage = self._stages[i]
        inputs = [with_room(self._moment.control, self._changes[j]) for j in stage.inputs]
        self._changes[i] = stage.operator.step(self._moment, *inputs)


def finished(network: Network, division: Division, moment: Moment, merged: ZSet) -> ZSet:
    """The answer, from the rows of the merge."""
    changes = {division.merge: merged}
    for i in division.last:
        moment.control.check()
        stage = network.stages[i]
        changes[i] = stage.operator.step(moment, *(with_room(moment.control, changes[j]) for j in stage.inputs))
    return network.answer.once(moment, with_room(moment.control, changes[network.last_stage]))


def sizes_of_pieces(count: int, rows: int, check: Check = Control.FREE.check) -> Iterator[tuple[int, int]]:
    """(start, end) of pieces of at most so many rows."""
    for start in range(0, count, rows):
        check()
        yield start, min(count, start + rows)
