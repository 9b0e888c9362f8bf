"""Groups in rounds: groups of numbered evaluations whose values are no sums (the least, an average of decimals).

In each round every group takes in its next arrivals, however far apart in time these are for different groups.

    group r1    2  4  9            round 1: r1 at 2, r2 at 5
    group r2    5  7               round 2: r1 at 4, r2 at 7        round 3: r1 at 9

So there are as many rounds as one group has arrivals, and the tallies of groups serve as they are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from hbase_store.arrays import Ids
from stream_ext.evaluation_budget import Control
from stream_ext.language.algebra.terms import has_name
from stream_ext.network.operators.core.moment import Moment
from stream_ext.network.operators.groups.aggregates import Aggregated
from stream_ext.network.operators.groups.group import GroupOperator
from stream_ext.network.operators.instants.groups_by_instant import INSTANT, column_or_none, is_arrival
from stream_ext.network.operators.instants.lives import Events, HiddenColumns, LifeLog, begins_of
from stream_ext.network.operators.scans.numbered_scan import evaluations_of
from stream_ext.rows.key_table import KeyTable, Signed, Slots
from stream_ext.rows.zset import ZSet, concat
from stream_ext.values.vocabulary import Vocabulary

_CLEAN_LEAST = 4096


class _Round(NamedTuple):
    """Places of events: what comes and goes without being told, and the arrivals after it."""

    silent: np.typing.NDArray[np.intp]
    arriving: np.typing.NDArray[np.intp]


class GroupsInRounds:
    def __init__(
        self, inside: tuple[str, ...], keys: tuple[str, ...], aggregates: tuple[Aggregated, ...], always: bool
    ) -> None:
        """As those of `GroupOperator`."""
        self.variables = (*keys, *(aggregate.variable for aggregate in aggregates), INSTANT)
        self._hidden = HiddenColumns(inside)
        wanted = [name for each in aggregates for name in _read_by(each, inside)]
        self._inside = tuple(dict.fromkeys((*keys, *wanted)))
        self._columns = [inside.index(name) if name in inside else None for name in self._inside]
        self._keys, self._aggregates, self._always = keys, aggregates, always
        self._table, self._log, self._clean_at = KeyTable(max(1, len(keys))), LifeLog(), _CLEAN_LEAST
        self._group: GroupOperator | None = None

    def step(self, moment: Moment, change: ZSet) -> ZSet:
        evaluations = evaluations_of(moment)
        self._clean()
        if self._group is None:
            self._group = self._new_group(moment.vocabulary, moment.control)
        lives = self._hidden.lives(change, evaluations)
        rows = lives.rows
        columns = tuple(column_or_none(rows, place) for place in self._columns)
        weights = rows.weight_array().view(np.uint64)
        events = self._log.events(lives, self._slots(columns, rows.count), (weights, *columns), evaluations)
        changes = [self._round_change(moment, self._group, events, each) for each in _rounds(events)]
        return concat(changes, len(self.variables))

    def _new_group(self, vocabulary: Vocabulary, control: Control) -> GroupOperator:
        return GroupOperator(self._inside, self._keys, self._aggregates, vocabulary, self._always, control)

    def _slots(self, columns: tuple[Ids, ...], count: int) -> Slots:
        keys = columns[: len(self._keys)]
        lines = np.stack(keys) if keys else np.zeros((1, count), np.uint64)
        return self._table.number(np.ascontiguousarray(lines))

    def _round_change(self, moment: Moment, group: GroupOperator, events: Events, each: _Round) -> ZSet:
        before = [self._change(events, each.silent)]
        if self._always:  # a group counts as changed only if it was there before, and without rows it is
            untouched = self._change(events, each.arriving)
            before.append(ZSet(untouched.stored, untouched.count, np.zeros(untouched.count, np.int64)))
        group.step(moment, concat(before, len(self._inside)))
        if not len(each.arriving):
            return ZSet(tuple(np.empty(0, np.uint64) for _ in self.variables), 0)
        change = group.step(moment, self._change(events, each.arriving))
        instants = np.zeros(self._table.capacity, np.int64)
        instants[events.slots[each.arriving]] = events.instants[each.arriving]
        slots = self._slots(change.columns[: len(self._keys)], change.count)
        return change.with_columns((*change.stored, instants[slots].view(np.uint64)))

    def _change(self, events: Events, which: np.typing.NDArray[np.intp]) -> ZSet:
        weights, *columns = (column[which] for column in events.columns)
        return ZSet(tuple(columns), len(which), weights.view(np.int64) * events.signs[which])

    def _clean(self) -> None:
        """Forgets groups of which no row waits to go, when the number of groups has doubled."""
        if self._table.used <= self._clean_at:
            return
        needed = np.zeros(self._table.used, np.bool_)
        self._log.mark(needed)
        self._log.renumber(self._table.keep(needed))
        self._clean_at = max(_CLEAN_LEAST, 2 * self._table.used)


def _read_by(aggregate: Aggregated, inside: tuple[str, ...]) -> tuple[str, ...]:
    if aggregate.argument is not None:
        return (aggregate.argument,)
    return tuple(filter(has_name, inside)) if aggregate.distinct else ()


def _rounds(events: Events) -> Iterator[_Round]:
    if not len(events.slots):
        return
    arrives = is_arrival(events.instants)
    begins = begins_of(events.slots, events.instants)
    # How many of its arrivals a group has had before: all events of one instant are in one round.
    numbers: Signed = np.cumsum(arrives[begins]) - arrives[begins]
    firsts = begins_of(events.slots[begins])
    numbers -= np.repeat(numbers[firsts], np.diff(firsts, append=len(begins)))
    rounds: Signed = np.repeat(numbers, np.diff(begins, append=len(arrives)))
    order = np.lexsort((arrives, rounds))
    ends = np.searchsorted(rounds[order], np.arange(int(rounds.max()) + 2))
    for start, stop in zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True):
        places = order[start:stop]
        silent = len(places) - int(np.count_nonzero(arrives[places]))
        yield _Round(places[:silent], places[silent:])
