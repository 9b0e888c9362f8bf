"""Ranking: the order of first appearance, by which LIMIT and OFFSET cut if there is no ORDER BY.

Rows are ranked by first appearance while they remain answers; a row that left counts as new when it returns. A second
copy of a row has a rank of its own; when a copy leaves, it is the latest one.

After a restart, windows and the store give back the rows, but not when each row arrived_at. So that is saved:

    saved       0 1 0 2       of the rows as `Cut.as_they_appear` has them, at which step each arrived_at
    rebuilt     (a) (b) (c) (d)   all of them arrive at once   =>   ranked a, c, b, d

So a saved order is a small number for each row, whatever the terms of the row, and contains no id of this process."""

from __future__ import annotations

import zlib
from collections.abc import Mapping

import msgspec
import numpy as np
import numpy.typing as npt

from stream_ext.network.operators.answers.cut import Cut
from stream_ext.rows.zset import Columns, Weights, ZSet, sum_equal_rows
from stream_ext.values.vocabulary import Vocabulary

#: The number of rows, the number of bytes of each step number, and these numbers, packed.
Saved = tuple[int, int, bytes]
Steps = npt.NDArray[np.int64]
RankingState = tuple[npt.NDArray[np.uint64], Steps, int]

#: The place of the query's own order among those of its sub-SELECTs.
OWN = ""


class Ranking:
    def __init__(self, cut: Cut) -> None:
        self._cut = cut
        width = len(cut.variables)
        self._ranked = np.empty((0, width), np.uint64)  # one row a copy, in order of rank
        self._arrived_at: Steps = np.empty(0, np.int64)  # the step at which each row arrived
        self._next = 0
        self._resumed: Saved | None = None
        self._saved: Saved | None = None  # valid until a row is added or removed

    def become(self, vocabulary: Vocabulary, rows: ZSet) -> None:
        """Ranks these rows, which are all present rows."""
        net = -np.ones(len(self._ranked), np.int64)
        columns = tuple(np.concatenate([a, b]) for a, b in zip(rows.columns, self._ranked.T, strict=True))
        self.step(vocabulary, *sum_equal_rows(columns, np.concatenate([rows.weight_array(), net])))

    def step(self, vocabulary: Vocabulary, columns: Columns, net: Weights) -> None:
        """Applies the net change of the answer."""
        if not len(net) and self._resumed is None:
            return
        self._saved = None
        removed = net < 0
        self._leave(tuple(column[removed] for column in columns), -net[removed])
        copies = np.repeat(np.arange(len(net)), np.maximum(net, 0))
        columns = tuple(column[copies] for column in columns)
        places = self._cut.as_they_appear(vocabulary, columns, len(copies))
        arrived_at = self._steps_of(len(copies))
        order = np.argsort(arrived_at, kind="stable")
        shape = len(copies), len(columns)
        rows = np.stack([column[places] for column in columns], axis=1) if columns else np.empty(shape, np.uint64)
        self._ranked = np.concatenate([self._ranked, rows[order]])
        self._arrived_at = np.concatenate([self._arrived_at, arrived_at[order]])
        self._next = int(self._arrived_at[-1]) + 1 if len(self._arrived_at) else 0

    def _steps_of(self, count: int) -> Steps:
        """The step at which each of these rows arrived: this step; or, for rows that were present when the order was
        saved, the saved step."""
        saved, self._resumed = self._resumed, None
        if saved is not None and saved[0] == count:
            return _unpacked(saved)
        return np.full(count, self._next, np.int64)

    def shown(self) -> tuple[Columns, Weights]:
        """All rows, in order of rank."""
        columns = tuple(np.ascontiguousarray(column) for column in self._ranked.T)
        return columns, np.ones(len(self._ranked), np.int64)

    def _leave(self, columns: Columns, counts: Weights) -> None:
        """Removes copies of rows, of each row the latest first."""
        if not len(counts):
            return
        first = len(counts)
        both = tuple(np.concatenate([a, b]) for a, b in zip(columns, self._ranked.T, strict=True))
        order = np.lexsort(both[::-1]) if both else np.arange(first + len(self._ranked))
        is_other = np.ones(len(order), np.bool_)
        is_other[1:] = False
        for column in both:
            is_other[1:] |= column[order[1:]] != column[order[:-1]]
        starts = np.flatnonzero(is_other)
        sizes = np.diff(np.append(starts, len(order)))
        # Among equal rows the leaving one is first, then the copies in order of rank.
        leaving = np.where(order[starts] < first, counts[np.minimum(order[starts], first - 1)], 0)
        from_end = np.repeat(starts + sizes, sizes) - np.arange(len(order))
        leavers = order[(from_end <= np.repeat(leaving, sizes)) & (order >= first)]
        remaining = np.ones(len(self._ranked), np.bool_)
        remaining[leavers - first] = False
        self._ranked, self._arrived_at = self._ranked[remaining], self._arrived_at[remaining]

    @property
    def is_resumed(self) -> bool:
        """Whether a saved order waits for its rows."""
        return self._resumed is not None

    def resume(self, saved: Saved) -> None:
        """The rows of the next step, which are all that were there when this was saved, take this order."""
        self._resumed = saved

    def state(self) -> RankingState:
        return self._ranked, self._arrived_at, self._next

    def return_to(self, state: RankingState) -> None:
        """Returns to an earlier state; the next step must be given all present rows."""
        self._ranked, self._arrived_at, self._next = state
        self._saved = None

    def save(self, vocabulary: Vocabulary) -> Saved:
        if self._saved is None:
            places = self._cut.as_they_appear(vocabulary, tuple(self._ranked.T), len(self._ranked))
            self._saved = _packed(np.unique(self._arrived_at, return_inverse=True)[1].reshape(-1)[places])
        return self._saved


class Orders:
    """The orders of first appearance of one query, by place; networks of one query share them."""

    def __init__(self, saved: bytes | None = None) -> None:
        """`saved`: the state from which they continue."""
        self._rankings: dict[str, Ranking] = {}
        self._saved = {} if saved is None else msgspec.msgpack.decode(saved, type=dict[str, Saved])

    def of(self, place: str, cut: Cut) -> Ranking:
        found = self._rankings.get(place)
        if found is None:
            found = self._rankings[place] = Ranking(cut)
            if place in self._saved:
                found.resume(self._saved[place])
        return found

    @property
    def are_resumed(self) -> bool:
        return any(ranking.is_resumed for ranking in self._rankings.values())

    def state(self) -> dict[str, RankingState]:
        """For `return_to`, where not each step is an evaluation."""
        return {place: ranking.state() for place, ranking in self._rankings.items()}

    def return_to(self, saved: Mapping[str, RankingState]) -> None:
        for place, state in saved.items():
            self._rankings[place].return_to(state)

    def save(self, vocabulary: Vocabulary) -> bytes | None:
        """The orders as bytes; None: there are none."""
        if not self._rankings:
            return None
        saved: Mapping[str, Saved] = {place: each.save(vocabulary) for place, each in sorted(self._rankings.items())}
        return msgspec.msgpack.encode(saved)


def own_order(orders: Orders, cut: Cut) -> Ranking | None:
    """The ranking of the query itself, not of a sub-SELECT."""
    return orders.of(OWN, cut) if cut.is_by_appearance else None


def _packed(steps: Steps) -> Saved:
    """The steps of a ranking as they are saved: how many, the bytes of one, and all of them compressed."""
    most = int(steps.max()) if len(steps) else 0
    if not most:
        return len(steps), 0, b""
    size = next(size for size in (1, 2, 4, 8) if most < 1 << 8 * size)
    return len(steps), size, zlib.compress(steps.astype(f"<u{size}").tobytes(), 1)


def _unpacked(saved: Saved) -> Steps:
    count, size, packed = saved
    if not size:
        return np.zeros(count, np.int64)
    return np.frombuffer(zlib.decompress(packed), f"<u{size}").astype(np.int64)
