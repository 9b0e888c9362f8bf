"""Cut: what ORDER BY, DISTINCT, OFFSET and LIMIT make of a bag of solutions, once it is complete.

Without ORDER BY, rows are cut in the order in which they come; the caller passes them in order of appearance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hbase_store.arrays import Ids
from stream_ext.evaluation_budget import Control
from stream_ext.network.operators.answers.distinct import first_of_each
from stream_ext.network.operators.core.moment import Moment
from stream_ext.network.operators.core.testing import scope_of
from stream_ext.rows.zset import Columns, Weights, ZSet
from stream_ext.values.decoding import decoded_within
from stream_ext.values.term_order import Ranks, leading, order_ranks
from stream_ext.values.vocabulary import Vocabulary

#: So many times the rows that are wanted are worth a look at which may be among them.
_MANY = 8


@dataclass(frozen=True, slots=True)
class Cut:
    """`variables`: the columns of the input; `names`: those of the output."""

    variables: tuple[str, ...]
    names: tuple[str, ...]
    order: tuple[tuple[str, bool], ...] = ()  # variable, descending
    distinct: bool = False
    offset: int = 0
    limit: int | None = None
    per: tuple[str, ...] = ()  # cut for each of their values alone
    by_text: bool = False  # rows that nothing else orders stand by their texts, not by ids

    @property
    def is_limited(self) -> bool:
        return bool(self.offset) or self.limit is not None

    @property
    def is_by_appearance(self) -> bool:
        """Whether the order of first appearance is what is cut."""
        return self.is_limited and not self.order

    @property
    def orders_by_hidden(self) -> bool:
        """Whether ORDER BY reads a column that is not shown."""
        return any(name in self.variables and name not in self.names for name, _ in self.order)

    @property
    def enough(self) -> int | None:
        """The number of input rows that is enough; None: all are needed."""
        if self.order or self.limit is None or self.distinct or self.per:
            return None
        return self.offset + self.limit

    def of(self, moment: Moment, rows: ZSet) -> ZSet:
        """The rows that stay, in order. Weights are gone: a row that counts twice is there twice."""
        if rows.weights is not None:
            rows = rows.take(np.repeat(np.arange(rows.count), self._copies(moment, rows.weights, rows.width)))
            rows = ZSet(rows.stored, rows.count, None, rows.untils)
        rows = self.ordered(moment, self._leading(moment, rows))
        if self.names != self.variables:
            rows = rows.with_columns(tuple(rows.stored[self.variables.index(name)] for name in self.names))
        if self.distinct:
            rows = first_of_each(rows)
        return self._sliced(rows)

    def _copies(self, moment: Moment, weights: Weights, width: int) -> Weights:
        """How often each row is needed: DISTINCT wants one of each, LIMIT no more than it lets through."""
        copies = np.maximum(weights, 0)
        if self.distinct:
            copies = np.minimum(copies, 1)
        elif self.limit is not None and not self.per:
            copies = np.minimum(copies, self.offset + self.limit)
        moment.control.room(int(copies.sum()), width)
        return copies

    def ordered(self, moment: Moment, rows: ZSet) -> ZSet:
        if not self.order or rows.count < 2:
            return rows
        keys = self._ranks(moment, rows)
        if self.by_text:
            keys = [*self._ranks_of_texts(moment, rows, keys), *keys]
        return rows.take(np.lexsort(keys)) if keys else rows

    def as_they_appear(self, vocabulary: Vocabulary, columns: Columns, count: int) -> npt.NDArray[np.intp]:
        """The places of rows that come in one evaluation, in order: the same in any process, and for any plan. Equal
        rows stay as they are."""
        per = sorted(name for name in self.variables if name in self.per)
        names = [name for name in self.variables if name not in self.per] + per
        places = [self.variables.index(name) for name in names]
        if not places or count < 2:
            return np.arange(count)
        if not self.by_text:
            return np.lexsort([columns[i] for i in reversed(places)])
        return np.lexsort(_ranks_of_texts(vocabulary, [columns[i] for i in places]))

    def _ranks(self, moment: Moment, rows: ZSet) -> list[Ranks]:
        """The keys of ORDER BY, as np.lexsort takes them: the most important one last."""
        scope, keys = scope_of(moment), []
        for name, descending in reversed(self.order):
            if name not in self.variables:
                continue  # it is unbound in all of them
            ranks = order_ranks(rows.column(self.variables.index(name)), scope)
            keys.append(-ranks if descending else ranks)
        return keys

    def _ranks_of_texts(self, moment: Moment, rows: ZSet, keys: list[Ranks]) -> list[Ranks]:
        """Between rows that are equal in all `keys`; the others need none."""
        tied = _tied(keys, rows.count)
        columns = [rows.column(i)[tied] for i, name in enumerate(self.variables) if name not in self.per]
        if not columns or not tied.any():
            return []
        found = []
        for each in _ranks_of_texts(moment.vocabulary, columns, moment.control):
            ranks = np.zeros(rows.count, np.int64)
            ranks[tied] = each
            found.append(ranks)
        return found

    def _leading(self, moment: Moment, rows: ZSet) -> ZSet:
        """The rows without those that LIMIT will cut off, as far as the first key decides it."""
        if self.limit is None or self.distinct or self.per or not self.order:
            return rows
        name, descending = self.order[0]
        count = self.offset + self.limit
        if name not in self.variables or not count or rows.count < _MANY * count:
            return rows
        return rows.take(leading(rows.column(self.variables.index(name)), scope_of(moment), count, descending))

    def _sliced(self, rows: ZSet) -> ZSet:
        if not self.is_limited:
            return rows
        stop = rows.count if self.limit is None else self.offset + self.limit
        if not self.per:
            return rows.take(np.arange(min(self.offset, rows.count), min(stop, rows.count)))
        columns = [rows.columns[self.names.index(name)] for name in self.per]
        _, group = np.unique(np.stack(columns, axis=1), axis=0, return_inverse=True)
        group = group.reshape(-1)
        order = np.argsort(group, kind="stable")
        starts = np.searchsorted(group[order], group[order])
        place = np.empty(rows.count, np.int64)
        place[order] = np.arange(rows.count) - starts
        return rows.take((place >= self.offset) & (place < stop))


def _ranks_of_texts(vocabulary: Vocabulary, columns: Sequence[Ids], control: Control = Control.FREE) -> list[Ranks]:
    """As np.lexsort takes them; what is unbound comes first."""
    ids = np.unique(np.concatenate(columns))
    ids = ids[ids != 0]
    texts = decoded_within(vocabulary.decode, ids, control)
    rank_of = np.zeros(len(ids) + 1, np.int64)  # at last that of what is unbound
    rank_of[sorted(range(len(ids)), key=texts.__getitem__)] = np.arange(1, len(ids) + 1)
    return [rank_of[np.where(column == 0, len(ids), np.searchsorted(ids, column))] for column in reversed(columns)]


def _tied(keys: list[Ranks], count: int) -> npt.NDArray[np.bool_]:
    """Which rows have another that is equal to them in all keys."""
    order = np.lexsort(keys) if keys else np.arange(count)
    same = np.ones(count - 1, np.bool_)
    for key in keys:
        same &= key[order[1:]] == key[order[:-1]]
    tied = np.zeros(count, np.bool_)
    tied[order[1:]] = same
    tied[order[:-1]] |= same
    return tied
