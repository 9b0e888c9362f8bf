"""Exact sums of decimals and floats, which do not depend on the order in which numbers came and went.

Each distinct number has an *effect*, a line of integers that is added to its group's line: what kind of number it is,
and its value in parts of 30 bits, decimals as multiples of 10**-18, floats as multiples of 2**-128. Few numbers are
too great or too fine for that; their sums are kept apart, in Python's decimals, which hold every decimal and float."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Context, Decimal
from fractions import Fraction
from math import inf, isfinite, nan

import numpy as np
import numpy.typing as npt

from hbase_store.arrays import Ids, frozen
from stream_ext.language.algebra.algebra import ArithmeticOp
from stream_ext.network.operators.groups.range_sums import SumOfRange, text_of_sum
from stream_ext.network.operators.groups.terms_of_groups import TermsOfGroups
from stream_ext.rows.kernels import group as kernels
from stream_ext.rows.key_table import KeyTable, Slots, fitted
from stream_ext.rows.zset import Weights
from stream_ext.values.values import Number, Value, arithmetic

Lines = npt.NDArray[np.int64]

#: The kinds of numbers, from narrow to wide; a sum is of the widest that is in it.
_KINDS: dict[type, int] = {int: 0, Decimal: 1, np.float32: 2, float: 3}
# Places in a line: how many of each kind, then of errors, NaN, INF and -INF; then the parts of both values.
_ERRORS, _NANS, _POSITIVE, _NEGATIVE, _DECIMAL, _BINARY = 4, 5, 6, 7, 8, 15
_PARTS, _PART_BITS = 7, 30
_WIDTH = _BINARY + _PARTS
_PLACES, _UNIT_BITS = 18, 128
_VALUE_BITS_MAX = _PARTS * _PART_BITS - 1
#: So much room that no sum of numbers is rounded.
_CONTEXT = Context(prec=1_000_000, Emax=999_999, Emin=-999_999)


class ExactSums:
    """By group, of those that have other things than inline integers."""

    def __init__(self, terms: TermsOfGroups) -> None:
        self._terms = terms
        self._line_of = np.zeros(0, np.int32)  # by group; line 0 is nobody's
        self._lines = np.zeros((64, _WIDTH), np.int64)
        self._used = 1
        self._far: dict[int, Decimal] = {}  # by line: the sum of what does not fit into it

    # ---- counting

    def fit(self, capacity: int) -> None:
        self._line_of = fitted(self._line_of, capacity)

    def keep(self, retained: npt.NDArray[np.intp], capacity: int) -> None:
        line_of = self._line_of[retained]
        used = np.flatnonzero(line_of)
        lines = line_of[used]
        self._far = {new: self._far[old] for new, old in enumerate(lines.tolist(), 1) if old in self._far}
        self._used = 1 + len(used)
        self._lines = fitted(np.concatenate([self._lines[:1], self._lines[lines]]), 2 * self._used)
        line_of[used] = np.arange(1, self._used, dtype=np.int32)
        self._line_of = fitted(line_of, capacity)

    def add(self, slots: Slots, weights: Weights, sign: int, ids: Ids) -> None:
        """Of terms that are no inline integers; 0 is unbound, and an error."""
        self._open_lines(slots)
        table = KeyTable(1)
        places = table.number(np.ascontiguousarray(ids).reshape(1, -1))
        distinct = table.cells[: table.used, 0].view(np.uint64)
        effects = np.zeros((len(distinct), _WIDTH), np.int64)
        far: dict[int, Decimal] = {}
        for place, value in enumerate(self._values(distinct)):
            _fill(effects[place], value, far, place)
        lines = self._line_of[slots]
        kernels.add_effects(frozen(lines), weights, sign, frozen(places), frozen(effects), self._lines)
        if far:
            self._add_far(lines, weights, sign, places, far)

    def _values(self, ids: Ids) -> Sequence[Value | SumOfRange | None]:
        return self._terms.values(ids)

    def _open_lines(self, slots: Slots) -> None:
        new = np.unique(slots[self._line_of[slots] == 0])
        self._line_of[new] = np.arange(self._used, self._used + len(new), dtype=np.int32)
        self._used += len(new)
        if self._used > len(self._lines):
            self._lines = fitted(self._lines, 2 * self._used)

    def _add_far(self, lines: Slots, weights: Weights, sign: int, places: Slots, far: dict[int, Decimal]) -> None:
        for i in np.flatnonzero(np.isin(places, list(far))).tolist():
            weight = Decimal(sign * (int(weights[i]) if len(weights) else 1))
            line = int(lines[i])
            more = _CONTEXT.multiply(far[int(places[i])], weight)
            self._far[line] = _CONTEXT.add(self._far.get(line, Decimal(0)), more)

    # ---- of several processes

    def part(self, groups: int) -> tuple[Slots, Lines, dict[int, Decimal]]:
        """The groups that have lines, their lines, and by the places of these the sums that do not fit into them."""
        owners = np.flatnonzero(self._line_of[:groups])
        lines = self._line_of[owners]
        far = {place: self._far[line] for place, line in enumerate(lines.tolist()) if line in self._far}
        return owners.astype(np.int32), self._lines[lines], far

    def absorb(self, slots: Slots, lines: Lines, far: dict[int, Decimal]) -> None:
        """Adds the lines of another process; the slots are distinct."""
        self._open_lines(slots)
        own = self._line_of[slots]
        self._lines[own] += lines
        for place, more in far.items():
            line = int(own[place])
            self._far[line] = _CONTEXT.add(self._far.get(line, Decimal(0)), more)

    def texts(self, slots: Slots, integers: list[tuple[int, int]]) -> list[bytes | None]:
        """For each group its sum, to be added to those of other ranges; its inline integers as in `sums`. None with an
        error among them."""
        return [self._text(line, cells, *more) for line, cells, more in self._each(slots, integers)]

    def _each(self, slots: Slots, integers: list[tuple[int, int]]) -> Iterator[tuple[int, list[int], tuple[int, int]]]:
        """Of each group its line, what is in it, and its inline integers."""
        lines = self._line_of[slots]
        return zip(lines.tolist(), self._lines[lines].tolist(), integers, strict=True)

    def _text(self, line: int, cells: list[int], count: int, integers: int) -> bytes | None:
        if cells[_ERRORS]:
            return None
        counts = [cells[0] + count, *cells[1:_ERRORS], *cells[_NANS:_DECIMAL]]
        decimals = _together(cells[_DECIMAL:_BINARY]) + integers * 10**_PLACES
        return text_of_sum(counts, decimals, _together(cells[_BINARY:]), self._far.get(line, Decimal(0)))

    # ---- results

    def concern(self, slots: Slots) -> npt.NDArray[np.bool_]:
        """Which groups have, or had, other things than inline integers."""
        concerned: npt.NDArray[np.bool_] = self._line_of[slots] != 0
        return concerned

    def sums(self, slots: Slots, integers: list[tuple[int, int]], average: bool) -> list[Value | None]:
        """For each group the sum or average of its numbers, with its inline integers (how many, their sum) added.

        None with an error among them."""
        return [self._sum(line, cells, *more, average) for line, cells, more in self._each(slots, integers)]

    def averages(self, slots: Slots, integers: list[tuple[int, int]], counts: list[int]) -> list[Value | None]:
        """`counts`: of how many numbers, for each group."""
        sums = self.sums(slots, integers, False)
        each = zip(sums, counts, strict=True)
        return [arithmetic(ArithmeticOp.DIVIDE, sum_, n) if sum_ is not None and n else sum_ for sum_, n in each]

    def _sum(self, line: int, cells: list[int], count: int, integers: int, average: bool) -> Value | None:
        if cells[_ERRORS]:
            return None
        sum_ = self._value(line, cells, integers)
        count += sum(cells[:_ERRORS])
        return arithmetic(ArithmeticOp.DIVIDE, sum_, count) if average and count else sum_

    def _value(self, line: int, cells: list[int], integers: int) -> Number:
        decimals = _together(cells[_DECIMAL:_BINARY]) + integers * 10**_PLACES
        if cells[2] or cells[3]:
            return self._float(line, cells, decimals)
        total = Decimal(decimals).scaleb(-_PLACES, _CONTEXT)
        if line in self._far:
            total = _CONTEXT.add(total, self._far[line])
        return total if cells[1] else int(total)

    def _float(self, line: int, cells: list[int], decimals: int) -> Number:
        if cells[_NANS] or (cells[_POSITIVE] and cells[_NEGATIVE]):
            number = nan
        elif cells[_POSITIVE] or cells[_NEGATIVE]:
            number = inf if cells[_POSITIVE] else -inf
        elif line in self._far or decimals:
            exact = Fraction(_together(cells[_BINARY:]), 1 << _UNIT_BITS) + Fraction(decimals, 10**_PLACES)
            exact += Fraction(self._far.get(line, Decimal(0)))
            number = _rounded(exact.numerator, exact.denominator)
        else:
            number = _rounded(_together(cells[_BINARY:]), 1 << _UNIT_BITS)
        with np.errstate(over="ignore"):
            return number if cells[3] else np.float32(number)


class SumsOfRanges(ExactSums):
    """Of numbers, and of sums of other processes."""

    def _values(self, ids: Ids) -> Sequence[Value | SumOfRange | None]:
        return self._terms.values_or_sums(ids)


def _fill(effect: Lines, value: Value | SumOfRange | None, far: dict[int, Decimal], place: int) -> None:
    """What a number adds to its group; what is too great or too fine for its parts is put into `far`."""
    if isinstance(value, SumOfRange):
        _fill_with_sum(effect, value, far, place)
        return
    kind = _KINDS.get(type(value), _ERRORS)
    effect[kind] = 1
    if kind == _ERRORS:
        return
    if kind >= 2:
        number = float(value)  # type: ignore[arg-type]  # its kind says: a float
        if not isfinite(number):
            effect[_NANS if number != number else _POSITIVE if number > 0 else _NEGATIVE] = 1
            return
        numerator, denominator = number.as_integer_ratio()
        units, unit = numerator << _UNIT_BITS, denominator
    else:
        numerator, denominator = value.as_integer_ratio()  # type: ignore[union-attr]  # an integer or a decimal
        units, unit = numerator * 10**_PLACES, denominator
    if units % unit or (units // unit).bit_length() > _VALUE_BITS_MAX:
        far[place] = Decimal(value) if kind < 2 else Decimal(number)  # type: ignore[arg-type]  # as above
        return
    _put(effect, _DECIMAL if kind < 2 else _BINARY, units // unit)


def _fill_with_sum(effect: Lines, value: SumOfRange, far: dict[int, Decimal], place: int) -> None:
    effect[:_ERRORS] = value.counts[:_ERRORS]
    effect[_NANS:_DECIMAL] = value.counts[_ERRORS:]
    decimals, floats, rest = value.decimals, value.floats, value.far
    if decimals.bit_length() > _VALUE_BITS_MAX:
        rest, decimals = _CONTEXT.add(rest, Decimal(decimals).scaleb(-_PLACES, _CONTEXT)), 0
    if floats.bit_length() > _VALUE_BITS_MAX:  # a half is five tenths
        rest, floats = _CONTEXT.add(rest, Decimal(floats * 5**_UNIT_BITS).scaleb(-_UNIT_BITS, _CONTEXT)), 0
    _put(effect, _DECIMAL, decimals)
    _put(effect, _BINARY, floats)
    if rest:
        far[place] = rest


def _put(effect: Lines, first: int, units: int) -> None:
    """A number in its parts, which are zero."""
    if not units:
        return
    for part in range(_PARTS - 1):
        effect[first + part] = units & ((1 << _PART_BITS) - 1)
        units >>= _PART_BITS
    effect[first + _PARTS - 1] = units  # with the sign


def _together(parts: list[int]) -> int:
    total = 0
    for part in reversed(parts):
        total = (total << _PART_BITS) + part
    return total


def _rounded(numerator: int, denominator: int) -> float:
    """The nearest double; infinite where there is none."""
    try:
        return numerator / denominator
    except OverflowError:
        return inf if numerator > 0 else -inf
