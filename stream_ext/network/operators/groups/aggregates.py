"""Aggregates: the tallies that each of them needs, and its value for a group.

Several aggregates share the tallies of one argument. An error in a group (an unbound argument, a sum of what is no
number) makes an aggregate an error, but for COUNT and SAMPLE, which look at what is bound. GROUP_CONCAT and SAMPLE take
values in the order of the occurrences that their rows are made of, and where these are the same, or none, of terms."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar, cast

import numpy as np
import numpy.typing as npt

from hbase_store.arrays import Ids, frozen
from stream_ext.evaluation_budget import Control
from stream_ext.language.algebra.terms import has_name
from stream_ext.network.operators.groups.partial_groups import PackedArray, PartialTally
from stream_ext.network.operators.groups.sum_results import ZERO_ID, SumResults
from stream_ext.network.operators.groups.tallies import (
    ONCE,
    Counts,
    Extremum,
    RowCounts,
    Sums,
    Tally,
    ValueCounts,
    ValueOccurrences,
)
from stream_ext.network.operators.groups.terms_of_groups import TermsOfGroups
from stream_ext.network.operators.scans import occurrences
from stream_ext.plan.logic import LATEST, Occurrence
from stream_ext.plan.properties.partial_groups import AVG_OF_RANGES, SUM_IN_RANGE, SUM_OF_RANGES, count_of
from stream_ext.rows.kernels import group as kernels
from stream_ext.rows.key_table import KeyTable, Slots
from stream_ext.rows.zset import Weights
from stream_ext.values.vocabulary import Vocabulary

_CELL = 8

Places = npt.NDArray[np.intp]
TallyT = TypeVar("TallyT", bound=Tally)
#: Writes the values of an aggregate for groups (their slots, and their numbers of rows): ids, 0 for an error.
Result = Callable[[Slots, Counts, Ids], None]


@dataclass(frozen=True, slots=True)
class Aggregated:
    variable: str
    function: str  # COUNT, SUM, AVG, MIN, MAX, SAMPLE, GROUP_CONCAT; LATEST ... of occurrences
    argument: str | None  # a column; None: COUNT(*)
    distinct: bool = False
    separator: str = " "
    follows: tuple[Occurrence, ...] = ()  # columns; none: values stand in the order of terms

    @property
    def followed(self) -> tuple[str, ...]:
        return tuple(name for occurrence in self.follows for name in occurrence)


class Tallies:
    """All tallies of the groups of one operator."""

    def __init__(
        self,
        inside: tuple[str, ...],
        aggregates: tuple[Aggregated, ...],
        vocabulary: Vocabulary,
        rows: int,
        control: Control = Control.FREE,
    ) -> None:
        """`rows`: the place in the groups' cells of how many rows each has."""
        self.terms = TermsOfGroups(vocabulary, control)
        self._of_sums = SumResults(self.terms)
        followed = {name for aggregate in aggregates for name in aggregate.followed}
        self._inside = tuple(name for name in inside if name not in followed)  # the variables of a solution
        self.arguments: tuple[str, ...] = ()  # the columns that the tallies want of each row
        self._bound: dict[str, ValueCounts] = {}
        self._sums: dict[str, Sums] = {}
        self._members: dict[tuple[str, ...], ValueOccurrences] = {}
        self._listed: set[str] = set()  # arguments of which every value is told
        self._followers: dict[tuple[str, str], Tally] = {}
        self._results = [self._result(aggregate) for aggregate in aggregates]
        self._rows = rows
        self._others = [result for result in self._results if result is not _count_rows]
        lines = [self._others.index(result) if result in self._others else kernels.END for result in self._results]
        self._lines: npt.NDArray[np.int64] = np.array(lines, np.int64)

    # ---- what the aggregates need

    def _result(self, aggregate: Aggregated) -> Result:
        function, argument, distinct = aggregate.function, aggregate.argument, aggregate.distinct
        followed = aggregate.followed
        if function in LATEST:
            return partial(self._latest, self._members_of(followed), LATEST.index(function))
        if argument is None:
            return self._count_distinct_rows() if distinct else _count_rows
        if function == "COUNT":
            return _count_of(self._bound_of(argument, distinct))
        if function == SUM_IN_RANGE:
            return partial(self._of_sums.part, self._sums_of(argument, distinct))
        if function == SUM_OF_RANGES:
            return partial(self._of_sums.sum, self._sums_of(argument, False, True), False)
        if function == AVG_OF_RANGES:
            counts = self._sums_of(count_of(argument), False)
            return partial(self._of_sums.average_of_ranges, self._sums_of(argument, False, True), counts)
        if function in ("SUM", "AVG"):
            return partial(self._of_sums.sum, self._sums_of(argument, distinct), function == "AVG")
        if function == "GROUP_CONCAT":
            members, bound = self._members_of((argument, *followed)), self._bound_of(argument, False)
            if not followed:
                self._listed.add(argument)
            return partial(self._concatenation, members, bound, distinct, aggregate.separator)
        if function == "SAMPLE" and followed:
            return partial(self._first, self._members_of((argument, *followed)))
        extremum = self._extremum_of(argument, function == "MAX")
        if function == "SAMPLE":
            return partial(_choose, extremum)
        bound = self._bound_of(argument, False)
        return partial(_choose_unless_error, extremum, bound)

    def _want(self, names: tuple[str, ...]) -> None:
        self.arguments += tuple(name for name in names if name not in self.arguments)

    def _bound_of(self, argument: str, distinct: bool) -> ValueCounts:
        if distinct:
            return self._follower("bound", argument, lambda members: ValueCounts())
        self._want((argument,))
        return self._bound.setdefault(argument, ValueCounts())

    def _sums_of(self, argument: str, distinct: bool, of_ranges: bool = False) -> Sums:
        if distinct:
            return self._follower("sums", argument, lambda members: Sums(self.terms))
        self._want((argument,))
        return self._sums.setdefault(argument, Sums(self.terms, of_ranges))

    def _extremum_of(self, argument: str, greatest: bool) -> Extremum:
        kind = "greatest" if greatest else "least"
        return self._follower(kind, argument, lambda members: Extremum(members, self.terms, greatest))

    def _members_of(self, arguments: tuple[str, ...]) -> ValueOccurrences:
        self._want(arguments)
        return self._members.setdefault(arguments, ValueOccurrences(len(arguments)))

    def _follower(self, kind: str, argument: str, make: Callable[[ValueOccurrences], TallyT]) -> TallyT:
        """A tally that gets each distinct value once; created at its first use."""
        members = self._members_of((argument,))
        found = self._followers.get((kind, argument))
        if found is None:
            tally = make(members)
            self._followers[kind, argument] = tally
            members.followers.append(tally)
            return tally
        return cast(TallyT, found)

    def _count_distinct_rows(self) -> Result:
        members = self._members_of(tuple(filter(has_name, self._inside)))
        rows = RowCounts()
        members.followers.append(rows)
        return _count_of(rows)

    # ---- counting

    @property
    def cells(self) -> int:
        """How many numbers the values take that are told apart: of DISTINCT, and of GROUP_CONCAT."""
        return sum(members.cells for members in self._members.values())

    def fit(self, capacity: int) -> None:
        for tally in self._all():
            tally.fit(capacity)

    def keep(self, retained: npt.NDArray[np.intp], capacity: int) -> None:
        for tally in self._all():
            tally.keep(retained, capacity)

    def clean(self) -> None:
        for members in self._members.values():
            members.clean()

    def _all(self) -> Iterator[ValueCounts | Sums | ValueOccurrences]:
        yield from self._bound.values()
        yield from self._sums.values()
        yield from self._members.values()

    def add(self, slots: Slots, weights: Weights, sign: int, columns: tuple[Ids, ...], once: bool) -> None:
        """Counts rows in or out, by the columns of `arguments`. `once`: there will be no more rows."""
        ids = dict(zip(self.arguments, map(frozen, columns), strict=True))
        for argument, bound in self._bound.items():
            bound.add(slots, weights, sign, ids[argument])
        for argument, sums in self._sums.items():
            sums.add(slots, weights, sign, ids[argument])
        for arguments, members in self._members.items():
            if once and self._only_the_best(arguments, members):
                for follower in members.followers:  # nothing leaves, so the best is known without the others
                    follower.add(slots, ONCE, 1, ids[arguments[0]])
                continue
            members.add(slots, weights, sign, tuple(ids[argument] for argument in arguments))

    def _only_the_best(self, arguments: tuple[str, ...], members: ValueOccurrences) -> bool:
        """Whether only the least and the greatest of these values are needed."""
        best = bool(members.followers) and all(isinstance(follower, Extremum) for follower in members.followers)
        return best and self._listed.isdisjoint(arguments)

    def _counted(self) -> Iterator[ValueCounts | Sums]:
        yield from self._bound.values()
        yield from self._sums.values()

    def forget_changes(self) -> None:
        for members in self._members.values():
            members.forget_changes()

    def parts(self, groups: int) -> tuple[PartialTally, ...]:
        """What was counted once for so many groups, for another process."""
        counted = [tally.part(groups) for tally in self._counted()]
        for arguments, members in self._members.items():
            only_best = self._only_the_best(arguments, members)
            counted.append(best_of(members, groups) if only_best else members.part())
        return tuple(counted)

    def absorb(self, slots: Slots, parts: Sequence[PartialTally]) -> None:
        """Counts what other processes have counted once; the groups have these slots here."""
        rest = iter(parts)
        for tally in self._counted():
            tally.absorb(slots, next(rest))
        for arguments, members in self._members.items():
            part = next(rest)
            if not self._only_the_best(arguments, members):
                members.absorb(slots, part)
                continue
            owners, (values,) = part.numbers[0].array(), (column.array() for column in part.ids)
            for follower in members.followers:
                follower.add(frozen(slots[owners]), ONCE, 1, frozen(values))

    def pass_on(self) -> None:
        """Called when all rows of a step are counted."""
        for members in self._members.values():
            members.pass_on()

    # ---- results

    def results(self, slots: Slots, rows: Counts) -> Ids:
        """A line for each aggregate, with its values for these groups; `rows`: the numbers of rows of the groups."""
        return _written(self._results, slots, rows)

    def result_lines(self, slots: Slots, table: KeyTable) -> tuple[Counts, Counts]:
        """The results as kernels take them: a line for each aggregate except the plain count of rows; and for each
        aggregate its line (END: it is the count)."""
        rows = table.cell(slots, self._rows) if self._others else np.empty(0, np.int64)
        return self._lines, frozen(_written(self._others, slots, rows).view(np.int64))

    def _concatenation(
        self,
        members: ValueOccurrences,
        bound: ValueCounts,
        distinct: bool,
        separator: str,
        slots: Slots,
        rows: Counts,
        ids: Ids,
    ) -> None:
        entries = members.of(slots)
        owners, values, counts = members.owners(entries), members.values(entries), members.counts(entries)
        keys = occurrences.keys(members.rest_of_rows(entries))
        order = self._order(owners, keys, values)
        if distinct and keys:  # each value at its first place
            order = order[occurrences.firsts(owners[order], values[order])]
        strings, places = self.terms.strings(values[order])
        repeats = np.ones(len(order), np.int64) if distinct else counts[order]
        self._check_lengths(owners[order], strings, places, repeats, len(separator))
        parts: dict[int, list[str | None]] = {slot: [] for slot in slots.tolist()}
        for slot, place, count in zip(owners[order].tolist(), places.tolist(), repeats.tolist(), strict=True):
            parts[slot] += [strings[place]] * count
        whole = (bound.counts[slots] == rows).tolist()  # no argument is an error
        joined = [_together(parts[slot], separator) if ok else None for slot, ok in zip(parts, whole, strict=True)]
        ids[:] = self.terms.ids_of_strings([text and self.terms.control.text(text) for text in joined])

    def _check_lengths(
        self, owners: Slots, strings: Sequence[str | None], places: Places, repeats: Counts, separator: int
    ) -> None:
        """Before any is put together: of each group, and of all."""
        lengths = np.array([0 if text is None else len(text) for text in strings], np.float64)  # no product overflows
        sums = np.bincount(owners, (lengths[places] + separator) * repeats) if len(owners) else np.zeros(1)
        self.terms.control.term(int(sums.max()) - separator)
        self.terms.control.room(int(sums.sum()) // _CELL + int(repeats.sum()), 1)

    def _order(self, owners: Slots, keys: Sequence[Ids], values: Ids) -> npt.NDArray[np.intp]:
        """Of the values of each owner; those that are equal in all keys stand in the order of terms."""
        if not keys:
            return occurrences.in_order(owners, [self.terms.ranks(values)])
        order = occurrences.in_order(owners, keys)
        tied = occurrences.tied((*keys, owners), order)
        if not len(tied):
            return order
        ranks = np.zeros(len(owners), np.int64)
        ranks[tied] = self.terms.ranks(values[tied])
        return occurrences.in_order(owners, [*keys, ranks])

    def _first(self, members: ValueOccurrences, slots: Slots, rows: Counts, ids: Ids) -> None:
        entries = members.of(slots)
        owners, values = members.owners(entries), members.values(entries)
        picks = occurrences.first_of_each(owners, occurrences.keys(members.rest_of_rows(entries)))
        ranks = self.terms.ranks(values[picks])
        picks = picks[occurrences.first_of_each(owners[picks], [ranks])]
        _put(owners[picks], values[picks], slots, ids)

    def _latest(self, members: ValueOccurrences, part: int, slots: Slots, rows: Counts, ids: Ids) -> None:
        entries = members.present(slots)
        owners, columns = members.owners(entries), occurrences.latest(members.rest_of_rows(entries, 0))
        picks = occurrences.first_of_each(owners, [~column for column in columns])
        _put(owners[picks], columns[part][picks], slots, ids)


def best_of(members: ValueOccurrences, groups: int) -> PartialTally:
    """The least and the greatest values of groups, as far as they are wanted."""
    found = [each.best[:groups] for each in members.followers if isinstance(each, Extremum)]
    owners = [np.flatnonzero(best) for best in found]
    values = [best[places] for best, places in zip(found, owners, strict=True)]
    return PartialTally((PackedArray.of(np.concatenate(owners)),), (PackedArray.of(np.concatenate(values)),))


def _put(owners: Slots, values: Ids, slots: Slots, ids: Ids) -> None:
    """Writes the value of each owner at its place among the slots; 0 at the others."""
    ids[:] = 0
    order = np.argsort(slots)
    ids[order[np.searchsorted(slots, owners, sorter=order)]] = values


def _written(results: Sequence[Result], slots: Slots, rows: Counts) -> Ids:
    written = np.empty((len(results), len(slots)), np.uint64)
    for line, result in zip(written, results, strict=True):
        result(slots, rows, line)
    return written


def _count_rows(slots: Slots, rows: Counts, ids: Ids) -> None:
    ids[:] = rows.view(np.uint64)
    ids += np.uint64(ZERO_ID)


def _count_of(tally: ValueCounts | RowCounts) -> Result:
    return partial(_count, tally)


def _count(tally: ValueCounts | RowCounts, slots: Slots, rows: Counts, ids: Ids) -> None:
    kernels.count_ids(slots, tally.counts, ids)


def _choose(extremum: Extremum, slots: Slots, rows: Counts, ids: Ids) -> None:
    ids[:] = extremum.best[slots]


def _choose_unless_error(extremum: Extremum, bound: ValueCounts, slots: Slots, rows: Counts, ids: Ids) -> None:
    _choose(extremum, slots, rows, ids)
    ids[bound.counts[slots] < rows] = 0


def _together(parts: list[str | None], separator: str) -> str | None:
    texts = [text for text in parts if text is not None]
    return separator.join(texts) if len(texts) == len(parts) else None
