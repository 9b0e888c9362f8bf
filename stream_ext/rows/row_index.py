"""The index of one side of a join: its rows in a ring, chained by the hash of their join columns.

Rows are added at one end. At the other end, the oldest rows are deleted once they have expired. A row that has expired
before an older one is skipped by probes until then; if such rows fill the ring, it is rebuilt without them. So memory
follows the windows, and the cost per row is constant."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from hbase_store.arrays import frozen
from stream_ext.evaluation_budget import Control
from stream_ext.rows.kernels import distinct as kernels
from stream_ext.rows.kernels import ring
from stream_ext.rows.key_table import line_up
from stream_ext.rows.zset import (
    FOREVER,
    Columns,
    Deferred,
    Ids,
    Untils,
    Weights,
    ZSet,
    are_shared,
    consolidate,
    empty,
    ending_earlier,
    latest,
    packed,
    spread,
)

Slots = npt.NDArray[np.int64]

_LEAST_CAPACITY = 16
#: A table of fewer rows has much room, so that it is seldom laid out anew.
_SMALL = 1024
_CHUNK = 1024
_NUMBERS_MAX = 1 << 31
#: So few retractions are left beside the rows that they retract.
_RETRACTED_LEAST = 16
#: A pair is two places.
_PAIR = 2
#: Room is made for what was found before; what does not fit is looked up once more.
_FAN_LEAST = 0.0
_PAIRS_LEAST = 64
#: For so many rows at most: a few that found much say little of many.
_THOUGHT = 1 << 15
#: To kernels: every row counts once. They are compiled for arrays that they may not change, or for others.
_ONCE: Weights = frozen(np.empty(0, np.int64))
_UNWEIGHTED: Weights = np.empty(0, np.int64)


def buckets(capacity: int) -> int:
    """The least power of two that is not below `capacity`."""
    return 1 << (capacity - 1).bit_length()


def room_for(count: int, most: float = 1.5) -> int:
    """How many rows a table gets room for that will have `count` of them: four times as many while it is small, `most`
    times as many later."""
    return max(min(4 * count, _SMALL), int(most * count))


def key_of(columns: Sequence[Ids] | Ids, count: int) -> Ids:
    """One number for each row, equal if all columns are. For several columns it is a hash: compare the columns, too."""
    if len(columns) == 1:
        return np.ascontiguousarray(columns[0])
    key = np.zeros(count, np.uint64)
    for column in columns:
        kernels.mix(key, column)
    return key


class KeyedRows:
    """A change as kernels take it: a matrix with a line for each column, and each row's key for an index."""

    def __init__(self, matrix: Ids, untils: Untils, weights: Weights | None, key: Sequence[int]) -> None:
        self.matrix: Ids = frozen(matrix)
        self.untils: Untils = frozen(spread(untils))
        self._given = untils
        self.weights: Weights = _ONCE if weights is None else frozen(np.ascontiguousarray(weights))
        self._look_up_by(key)

    @classmethod
    def of(cls, change: ZSet, key: Sequence[int]) -> KeyedRows:
        matrix = np.empty((change.width, change.count), np.uint64)
        for place, line in enumerate(matrix):
            line[:] = change.column(place)
        return cls(matrix, change.until_array(), change.weights, key)

    def _look_up_by(self, key: Sequence[int]) -> None:
        if len(key) == 1:
            self.key: Ids = self.matrix[key[0] : key[0] + 1]
            self.keys: Ids = self.matrix[key[0]]
        else:
            self.key = frozen(self.matrix[list(key)])
            self.keys = frozen(key_of(self.key, self.matrix.shape[1]))

    @property
    def ends(self) -> list[tuple[int, int]]:
        """(number of rows, their last validity), chunk by chunk."""
        return _ends_of(self._given)

    def keyed(self, key: Sequence[int]) -> KeyedRows:
        """The same rows for another index."""
        other = KeyedRows.__new__(KeyedRows)
        other.matrix, other.untils, other.weights = self.matrix, self.untils, self.weights
        other._given = self._given
        other._look_up_by(key)
        return other

    def some(self, count: int) -> KeyedRows:
        """A sample of so many rows at most, from all places, whatever their validity."""
        if len(self) <= count:
            return self
        places = np.arange(count) * len(self) // count
        return KeyedRows(np.ascontiguousarray(self.matrix[:, places]), self.untils[places], None, ())

    def __len__(self) -> int:
        return len(self.untils)


def _ends_of(untils: Untils) -> list[tuple[int, int]]:
    """(number of rows, their last validity), chunk by chunk."""
    if len(untils) <= _CHUNK or are_shared(untils):
        return [(len(untils), latest(untils))]
    starts = np.arange(0, len(untils), _CHUNK)
    counts = np.minimum(len(untils) - starts, _CHUNK)
    return list(zip(counts.tolist(), np.maximum.reduceat(untils, starts).tolist(), strict=True))


class RowIndex:
    def __init__(self, width: int, key: Sequence[int], capacity: int = _LEAST_CAPACITY) -> None:
        self.key = tuple(key)
        # Not read-only, as its copies are not: kernels are compiled for one of both.
        self._own: Slots = np.array(self.key, np.int64)
        self.width = width
        self._every: Slots = np.arange(width)
        self._weights = np.empty(0, np.int64)  # of each cell, once a row counts more or less than once
        self._fan = _FAN_LEAST  # so many rows for each that is looked up are thought to be found
        self._allocate(max(capacity, _LEAST_CAPACITY))

    def _allocate(self, capacity: int) -> None:
        size = buckets(capacity)
        self._cells = line_up(np.empty, size, ring.VALUES + self.width)
        self._weights = np.empty(size if self.weighted else 0, np.int64)
        self._ends: deque[tuple[int, int]] = deque()  # ascending: up to which number rows end by which time
        self._heads = np.full(2 * size, ring.END, np.int32)
        self._shift = np.uint64(64 - (2 * size - 1).bit_length())
        self._tail = self._number = self._retracted = 0

    def __len__(self) -> int:
        """The number of rows in the ring; some may have expired."""
        return self._number - self._tail

    @property
    def weighted(self) -> bool:
        return len(self._weights) > 0

    @property
    def capacity(self) -> int:
        return len(self._cells)

    @property
    def number(self) -> int:
        """The number that the next row gets."""
        return self._number

    def shorten(self, by: int) -> None:
        """All rows end earlier by so much from now on."""
        self._cells[:, ring.UNTIL] = ending_earlier(self._cells[:, ring.UNTIL], by)
        self._ends = deque((number, last if last == FOREVER else last - by) for number, last in self._ends)

    def by(self, key: Sequence[int], time: int, mark: int) -> tuple[RowIndex, int]:
        """An index of the same rows by another key; and the number in it of the first row with `mark` or more here."""
        old, new = self.valid_rows(time, 0, mark), self.valid_rows(time, mark)
        other = RowIndex(self.width, key, len(old) + len(new))
        other.insert(old, time)
        first = other.number
        other.insert(new, time)
        return other, first

    def insert(self, change: ZSet, time: int) -> None:
        if change.count:
            self.insert_rows(KeyedRows.of(change, self.key), time)

    def insert_rows(self, rows: KeyedRows, time: int) -> None:
        if len(rows):
            self.make_room(len(rows), rows.weights, time)
            self._append(rows)

    def make_room(self, count: int, weights: Weights, time: int) -> None:
        """For so many rows with these weights, which come at this time."""
        while self._ends and self._ends[0][1] < time:
            self._tail = self._ends.popleft()[0]
        is_full = len(self) + count > len(self._cells) or self._number + count >= _NUMBERS_MAX
        # Until they cancel out, a retraction and its row are found, and joined, both of them.
        if is_full or self._retracted > max(_RETRACTED_LEAST, len(self) // 4):
            self._lay_out(time, count)
        self._count(weights)

    def _count(self, weights: Weights) -> None:
        """Rows with these weights are about to come."""
        if len(weights) and not self.weighted:
            self._weights = np.ones(len(self._cells), np.int64)
        if len(weights):
            self._retracted += int(np.count_nonzero(weights < 0))

    def _append(self, rows: KeyedRows) -> None:
        ring.ring_insert(
            rows.keys, rows.matrix, rows.untils, rows.weights, self._cells, self._weights, self._heads, self._shift,
            self._number,
        )  # fmt: skip
        self._came(rows.ends)

    def _came(self, ends: Sequence[tuple[int, int]]) -> None:
        """So many rows were written into the ring, which end at these times at the latest."""
        for count, last in ends:
            self._number += count
            # What is given up with what stands before it need not be told apart.
            before = self._ends.pop()[1] if self._ends and self._ends[-1][1] >= last else last
            self._ends.append((self._number, before))

    def side(self, rows: npt.NDArray[np.int64], weights: Weights) -> tuple[object, ...]:
        """Of `ring_join`: rows that come, and this ring."""
        shift = int(self._shift)
        return rows, weights, self._own, self._cells, self._weights, self._heads, shift, self._tail, self._number

    def came(self, untils: Untils | None, count: int) -> None:
        """`ring_join` has written so many rows into the ring."""
        self._came([(count, FOREVER)] if untils is None else _ends_of(untils))

    def _lay_out(self, time: int, coming: int) -> None:
        """Rebuilds the ring from the rows valid at `time`; retractions and the rows they retract cancel out."""
        valid = self.valid_rows(time)
        if valid.weights is not None and (valid.weights < 0).any():
            valid = consolidate(valid)
        self._allocate(max(_LEAST_CAPACITY, room_for(len(valid) + coming)))
        if valid.count:
            rows = KeyedRows.of(valid, self.key)
            self._count(rows.weights)
            self._append(rows)

    def valid_rows(self, time: int, start: int = 0, stop: int = _NUMBERS_MAX) -> ZSet:
        """The valid rows with numbers from `start` on and below `stop`."""
        return self.at(self._valid(time, start, stop))

    def _valid(self, time: int, start: int, stop: int) -> Slots:
        """The cells of the rows with these numbers that are valid."""
        places = np.arange(max(start, self._tail), min(stop, self._number)) & (len(self._cells) - 1)
        valid: Slots = places[self._cells[places, ring.UNTIL] >= time]
        return valid

    def at(self, places: Slots) -> ZSet:
        columns = np.empty((self.width, len(places)), np.int64)
        ring.ring_take(self._cells, frozen(places), ring.VALUES, columns)
        return ZSet(
            tuple(columns.view(np.uint64)),
            len(places),
            self._weights[places] if self.weighted else None,
            self._cells[places, ring.UNTIL],
        )

    def lazily_at(self, places: Slots) -> ZSet:
        """The rows at these places, all valid for ever; columns that nobody reads are never copied."""
        values = self._cells[:, ring.VALUES :].view(np.uint64).T
        weights = self._weights[places] if self.weighted else None
        return ZSet(tuple(Deferred(column, places) for column in values), len(places), weights)

    def probe(self, columns: Columns, count: int, time: int, control: Control = Control.FREE) -> tuple[Slots, Slots]:
        """(i, place) for each probe row i and each remembered row that agrees with it and is valid at `time`.

        `columns`: the columns of the probes that are compared with the key of the index, in its order; `control` is
        asked before memory for the pairs is allocated."""
        if not count or not len(self):
            return np.empty(0, np.int64), np.empty(0, np.int64)
        keys = frozen(key_of(columns, count))
        key = np.stack(columns) if len(columns) > 1 else keys.reshape(1, -1)
        return self._found(keys, frozen(key), time, _NUMBERS_MAX, control)

    def _found(self, keys: Ids, key: Ids, time: int, limit: int, control: Control) -> tuple[Slots, Slots]:
        if not self.key:
            places = self._valid(time, 0, limit)
            control.room(len(keys) * len(places), _PAIR)
            return np.arange(len(keys)).repeat(len(places)), np.tile(places, len(keys))
        most = control.most(_PAIR)
        room = min(max(1024, int(self._fan * min(len(keys), _THOUGHT)) + 2 * len(keys)), max(1024, most))
        while True:
            left, right = np.empty(room, np.int64), np.empty(room, np.int64)
            found = ring.ring_probe(
                keys, key, self._own, self._cells, self._heads, self._shift, self._tail, limit, time, most, left, right
            )
            if found > most:
                control.room(found, _PAIR)
            if found <= room:
                self._fan = max(_FAN_LEAST, 1.25 * found / len(keys), 0.75 * self._fan)
                return left[:found], right[:found]
            room = found

    def partners(
        self, rows: KeyedRows, time: int, limit: int = _NUMBERS_MAX, control: Control = Control.FREE
    ) -> tuple[Slots, Slots]:
        """As `probe`, for rows whose keys are known, and only with rows that have a number below `limit`."""
        if not len(rows) or not len(self):
            return np.empty(0, np.int64), np.empty(0, np.int64)
        return self._found(rows.keys, rows.key, time, limit, control)

    def coexisting(
        self, found: tuple[Slots, Slots], rows: KeyedRows, came: Slots, places: Slots, first: int, times: Slots
    ) -> tuple[Slots, Slots]:
        """The pairs of `found` that are both valid when the later of them comes: the columns `came` of the rows, and
        those at `places` here, have the numbers of evaluations, times two; these begin with number `first`, and are at
        these times."""
        left, right = found
        kept = ring.ring_coexisting(left, right, rows.matrix, rows.untils, came, self._cells, places, first, times)
        return left[:kept], right[:kept]

    def pair(
        self, rows: KeyedRows, found: tuple[Slots, Slots], lines: tuple[int, int], start: int, out: SideBySideRows,
        own: Sequence[int] | None = None,
    ) -> None:  # fmt: skip
        """Writes the rows and their partners side by side, from `start` on; each side from its line on. `own`: only
        these columns of the partners."""
        left, right = found
        if not len(left):
            return
        places = self._every if own is None else np.array(own, np.int64)
        ring.ring_pair(
            frozen(left), frozen(right), rows.matrix, np.arange(len(rows.matrix)), rows.untils, rows.weights,
            self._cells, self._weights, out.weights is not None, places, *lines, start, out.matrix, out.untils,
            out.untils if out.weights is None else out.weights,
        )  # fmt: skip


class JoinedRings:
    """Both sides of a join: with each step rows come to either, and the pairs that are new are returned."""

    def __init__(self, left: RowIndex, right: RowIndex, rest: Sequence[int]) -> None:
        """`rest`: the columns of the right that a pair has, behind those of the left."""
        self._left, self._right = left, right
        self._rest: Slots = np.array(rest, np.int64)
        self._width = left.width + len(rest)
        self._room = _PAIRS_LEAST  # so many pairs are thought to be found at most

    def step(self, left: ZSet, right: ZSet, time: int, control: Control, cells: int) -> ZSet:
        """The rows that come are not empty on both sides. `cells`: so many are needed for each pair."""
        mine, theirs = packed(left.columns, left.untils, left.count), packed(right.columns, right.untils, right.count)
        my_weights, their_weights = _weights_of(left), _weights_of(right)
        self._left.make_room(left.count, my_weights, time)
        self._right.make_room(right.count, their_weights, time)
        sides = *self._left.side(mine, my_weights), *self._right.side(theirs, their_weights)
        is_weighted, is_in = self._left.weighted or self._right.weighted, False
        lines, most = 1 + self._width + is_weighted, control.most(cells)
        room = min(self._room, max(_PAIRS_LEAST, most))
        while True:
            pairs, out = np.empty((_PAIR, room), np.int64), np.empty(lines * room, np.uint64)
            found, is_in = ring.ring_join(*sides, self._rest, time, most, is_in, pairs, out)
            control.room(found, cells)
            if found <= min(most, room):
                break
            room, most = found, max(most, found)
        self._room = max(_PAIRS_LEAST, found + found // 4, self._room - self._room // 4)
        for side, rows in ((self._left, left), (self._right, right)):
            if rows.count:
                side.came(rows.untils, rows.count)
        if not found:
            return empty(self._width)
        cells_found = out[: lines * found] if 2 * found > room else out[: lines * found].copy()  # without the room
        ends, *columns = cells_found.reshape(lines, found)
        weights = columns.pop().view(np.int64) if is_weighted else None
        return ZSet(tuple(columns), found, weights, ends.view(np.int64))


def _weights_of(rows: ZSet) -> Weights:
    return _UNWEIGHTED if rows.weights is None else np.array(rows.weights)


class SideBySideRows:
    """Room for rows of two sides, side by side."""

    def __init__(self, width: int, count: int, weighted: bool) -> None:
        self.matrix = np.empty((width, count), np.uint64)
        self.untils = np.empty(count, np.int64)
        self.weights = np.empty(count, np.int64) if weighted else None


def paired_weights(left: ZSet, right: ZSet) -> Weights | None:
    """The weights of pairs of rows."""
    if left.weights is None:
        return right.weights
    return left.weights if right.weights is None else left.weights * right.weights
