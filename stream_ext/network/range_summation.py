"""Range summation: the rows of all ranges of a divided query become its result.

    ORDER BY DESC(?n) LIMIT 2     range 0: a 9, c 5     range 1: b 7, d 6     result: a 9, b 7
    ISTREAM                       range 0: +a -b        range 1: +b +c        result: a, c
    COUNT(*) of all               range 0: 5            range 1: 4            result: 9

What follows the sum is the answer of the query itself: the same order, cut and R2S as in a network of one shard."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, cast

import msgspec
import numpy as np

from hbase_store import Snapshot
from hbase_store.layout.terms import DATA_MASK
from stream_ext.evaluation_budget import Control
from stream_ext.language.algebra.algebra import R2S
from stream_ext.network.combined_groups import CombinedGroups, GroupedQuery
from stream_ext.network.operators.answers.cut import Cut
from stream_ext.network.operators.answers.r2s import ResultState
from stream_ext.network.operators.answers.range_answer import as_counts
from stream_ext.network.operators.core.moment import Moment
from stream_ext.rows.zset import Columns, Ids, Weights, ZSet, repeated, sum_equal_rows
from stream_ext.values.vocabulary import Vocabulary, is_local
from stream_ext.windows.part import RangeSums

Places = np.typing.NDArray[np.intp]

#: What is made of groups takes no more than this. What would take more is evaluated as a whole, within its own budget.
_SECONDS_MAX, _BYTES_MAX = 10.0, 1 << 30

#: The column that says whose row it is, of several queries.
_WHOSE = ".whose"


class Summed(NamedTuple):
    """The result: `whose` and the `columns` of its rows, in order; terms that are `created`, as in a part; whether a
    computed term decided the order of rows, which another process may have in another order."""

    whose: Ids
    columns: list[Ids]
    created: list[bytes]
    is_out_of_order: bool


class RangeSummation:
    """`ids` and `texts`: from the texts of terms to the store's ids, and back. `query_of`: a query with groups, by its
    number."""

    def __init__(
        self,
        ids: Callable[[Sequence[bytes]], Ids],
        texts: Callable[[Ids], list[bytes]],
        query_of: Callable[[int], GroupedQuery | None],
    ) -> None:
        self._ids, self._texts = ids, texts
        self._groups = CombinedGroups(query_of)

    def __call__(
        self, sums: RangeSums, queries: Ids, whose: Ids, columns: Sequence[Ids], created: Sequence[bytes]
    ) -> Summed:
        """`columns`: the rows of all ranges of these queries; `created`: the texts of their local ids."""
        vocabulary = Vocabulary(self._ids, self._texts)
        if sums.constants and (created or sums.partial_groups):
            vocabulary.encode(sums.constants)
        first = vocabulary.created
        columns = vocabulary.from_portable(columns, created)
        # Nothing of it reads the store.
        moment = Moment(0, cast(Snapshot, None), None, last=True, vocabulary=vocabulary)
        within = Control(_SECONDS_MAX, _BYTES_MAX, what="registered query") if sums.partial_groups else Control.FREE
        of_groups = msgspec.structs.replace(moment, control=within)
        earlier, present = self._before_and_now(sums, of_groups, queries, whose, columns)
        cut = _cut_of(sums, bool(len(whose)))
        answer = ResultState(cut, R2S(sums.r2s), returns=True)
        answer.compare_with(cut.of(moment, earlier))
        found = repeated(*answer.step(moment, present))
        if len(whose):
            order = np.argsort(found[0], kind="stable")
            whose, found = found[0][order], tuple(column[order] for column in found[1:])
        shown, texts = vocabulary.portable(list(found))
        return Summed(whose, shown, texts, not sums.by_text and _computed_decides(present.columns, first))

    def _before_and_now(
        self, sums: RangeSums, moment: Moment, queries: Ids, whose: Ids, columns: Sequence[Ids]
    ) -> tuple[ZSet, ZSet]:
        """The rows of the answer before, and of the answer now, that are to be ordered and cut."""
        rows = (*([whose] if len(whose) else []), *columns[: sums.sent])
        count = len(rows[0]) if rows else 0
        counts = [as_counts(column) for column in columns[sums.sent :]]
        before, now = counts or (np.zeros(count, np.int64), np.ones(count, np.int64))
        if not sums.partial_groups:
            return _rows_of(sums, rows, before), _rows_of(sums, rows, now)
        earlier, present = (
            self._of_groups(sums, moment, queries, whose, rows, np.flatnonzero(each)) for each in (before, now)
        )
        return earlier, present

    def _of_groups(
        self, sums: RangeSums, moment: Moment, queries: Ids, whose: Ids, rows: Columns, there: Places
    ) -> ZSet:
        """What is made of the groups at these places; each has one row in a range."""
        is_shared = bool(len(whose))
        if len(there):
            own = tuple(column[there] for column in rows)
            found = self._groups.rows(moment, queries, own[0] if is_shared else whose, own[is_shared:])
        if not len(there) or not found:
            found = tuple(np.empty(0, np.uint64) for _ in range(sums.ordered + is_shared))
        return _rows_of(sums, found, np.ones(len(found[0]), np.int64))


def _cut_of(sums: RangeSums, is_shared: bool) -> Cut:
    names = [str(place) for place in range(sums.ordered)]
    whose = (_WHOSE,) if is_shared else ()
    is_cut = bool(sums.offset) or sums.limit is not None
    order = tuple((str(place), descending) for place, descending in sums.order)
    return Cut(
        (*whose, *names), (*whose, *names[: sums.shown]), order, sums.distinct, sums.offset, sums.limit,
        whose if is_cut else (), sums.by_text,
    )  # fmt: skip


def _rows_of(sums: RangeSums, rows: Columns, counts: Weights) -> ZSet:
    """Each row once, with its weight."""
    columns, weights = sum_equal_rows(rows, counts)
    if sums.is_set:
        weights = np.minimum(weights, 1)
    return ZSet(columns, len(weights), weights)


def _computed_decides(columns: Columns, first: int) -> bool:
    """Whether rows, in order, that are the same in the columns before one differ in computed terms of it: those whose
    local numbers are not before `first`."""
    same = np.ones(max(0, len(columns[0]) - 1), np.bool_) if columns else np.ones(0, np.bool_)
    for column in columns:
        made = is_local(column) & (column & np.uint64(DATA_MASK) >= np.uint64(first))
        other = column[1:] != column[:-1]
        if (same & other & made[1:] & made[:-1]).any():
            return True
        same &= ~other
    return False
