"""R2S: from the changing answer to the emitted rows of each evaluation.

RSTREAM emits the whole answer, ISTREAM the rows that it has more than the answer before (as bags), DSTREAM the rows
that the answer before had more. If the whole answer is needed, because it is emitted, or ordered and cut, it is stored
in order (`OrderedRows`). Otherwise `Gains` stores what it needs.

Example: answers {1, 2}, then {2, 3}: ISTREAM emits 3, DSTREAM emits 1, RSTREAM emits 2 and 3."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from stream_ext.language.algebra.algebra import R2S
from stream_ext.network.operators.answers.construct import Construct
from stream_ext.network.operators.answers.cut import Cut
from stream_ext.network.operators.answers.gains import Gains
from stream_ext.network.operators.answers.ordered_rows import OrderedRows
from stream_ext.network.operators.answers.ranking import Ranking
from stream_ext.network.operators.answers.slice import net_change
from stream_ext.network.operators.core.moment import Moment
from stream_ext.network.operators.scans.ends import NO_TIME
from stream_ext.rows.zset import Columns, Weights, ZSet, consolidate, empty, repeated, sum_equal_rows

if TYPE_CHECKING:
    from stream_ext.network.operators.core.shared_stage import SharedStage
    from stream_ext.network.shared_rows import SharedRows


class ResultState:
    """The answer of the last evaluation; `step` moves it to the next."""

    def __init__(
        self,
        cut: Cut,
        r2s: R2S,
        construct: Construct | None = None,
        returns: bool = False,
        ranking: Ranking | None = None,
    ) -> None:
        """`construct` makes triples of the rows that are left; `returns`: it may be set back to an earlier answer.
        `ranking`: the order of first appearance, if LIMIT cuts by it; a row that comes again has the rank of its first
        appearance."""
        self.variables = cut.names if construct is None else construct.variables
        self._construct = construct
        self._cut, self._r2s = cut, r2s
        self._ranking, self._returns = ranking, returns
        self.is_plain = cut == Cut(cut.variables, cut.variables) and not (returns and r2s is not R2S.RSTREAM)
        self._rows = OrderedRows(len(cut.variables))
        self._shared: SharedRows | None = None  # the rows that it has with other queries
        self._whole = empty(len(self.variables))
        self._gains = Gains(len(cut.variables), r2s) if self.is_plain and r2s is not R2S.RSTREAM else None
        #: Whether the result of `step` is in the order in which it is emitted.
        self.is_in_order = self._gains is None

    @property
    def is_unranked(self) -> bool:
        """Whether no order of first appearance matters."""
        return self._ranking is None

    @property
    def reads_removals(self) -> bool:
        """Whether removed rows matter for the result, beyond the size of the answer."""
        return self._gains is None or self._r2s is not R2S.ISTREAM

    def once(self, moment: Moment, change: ZSet) -> ZSet:
        """The rows of a one-shot query, in order, each as often as it counts."""
        if change.weights is not None and bool((change.weights < 0).any()):
            change = consolidate(change)
        if self._ranking is not None and self._ranking.is_resumed:
            self._ranking.step(moment.vocabulary, *sum_equal_rows(change.columns, change.weight_array()))
            columns, weights = self._ranking.shown()
            change = ZSet(columns, len(weights))
        elif moment.ranks_ties and self._cut.order:
            columns, weights = sum_equal_rows(change.columns, change.weight_array())
            change = ZSet(columns, len(weights), weights)
        return self._cut.of(moment, change)

    def step(self, moment: Moment, change: ZSet) -> tuple[Columns, Weights]:
        """The emitted rows with their weights; if `is_plain`, equal rows may occur several times."""
        if self._gains is not None:
            return self._gains.step(moment.time, change)
        if self._ranking is not None and not self._returns:
            self._ranking.step(moment.vocabulary, *net_change(self._rows.ended(moment.time), change))
        self._step_rows(moment, change)
        if (
            self._ranking is not None and self._returns
        ):  # then its order may be of other rows than those of the last step
            columns, weights = self._rows.summed()
            self._ranking.become(moment.vocabulary, ZSet(columns, len(weights), weights))
        return self._rows.bag() if self.is_plain else self._emitted(moment)

    def next_change(self) -> int | None:
        """Where rows only expire: before this time nothing else is emitted than at the last step; None: it is not
        known."""
        if self._gains is not None:
            return self._gains.next_change()
        return min(self._rows.first_end + 1, NO_TIME)

    def stays_at(self, sn: int, time: int) -> bool:
        """Whether nothing else is emitted at this evaluation than at the last one (of changes nothing), as no row comes
        at it: then it is passed by. It is known of most answers."""
        if self._gains is not None:
            return self._gains.stays
        if self._ranking is not None or self._returns or self._construct is not None:
            return False
        if self._shared is not None:
            return self._shared.stay_at(sn, time, self._rows)
        return self._rows.first_end >= time

    def pass_by(self, time: int) -> None:
        """At this time the answer was evaluated without a step, since nothing else was to be emitted."""
        if self._gains is not None:
            self._gains.pass_by(time)

    # ---- rows that queries share

    def share_rows(self, stage: SharedStage) -> None:
        """From now on it has the same rows as others that read nothing but this stage; the first of them gives its
        own. Not if it needs other rows."""
        if self._gains is not None or self._ranking is not None or self._returns or self._construct is not None:
            return
        if self._shared is None:
            self._shared = stage.rows_for(self._rows)
            self._shared.readers += 1

    def own_rows(self) -> None:
        """From now on it steps its rows itself."""
        if self._shared is not None:
            self._shared.readers -= 1
            self._rows, self._shared = self._rows.copy(), None

    def _step_rows(self, moment: Moment, change: ZSet) -> None:
        if self._shared is not None and moment.vocabulary.translates:
            self.own_rows()  # with other ids than those of others
        if self._shared is None:
            self._rows.step(change, moment.time)
        else:
            self._rows = self._shared.at(int(moment.snapshot.sn), moment.time, change)

    def whole(self) -> tuple[Columns, Weights]:
        """The whole answer of the last evaluation, in order; not if only changes are emitted."""
        assert self._gains is None, "only changes are emitted, so the whole answer is not stored"
        if self.is_plain:
            return self._rows.summed()
        return self._whole.columns, self._whole.weight_array()

    def current(self) -> tuple[Columns, Weights] | None:
        """The present answer, for `is_unchanged_since`."""
        return self.whole() if self._gains is None else None

    def is_unchanged_since(self, before: tuple[Columns, Weights] | None) -> bool:
        """Whether the last step left the answer as it was."""
        if before is None:
            return self._gains is not None and not self._gains.moved
        columns, weights = self.whole()
        same = (np.array_equal(a, b) for a, b in zip(before[0], columns, strict=True))
        return np.array_equal(before[1], weights) and all(same)

    def evaluated(self) -> ZSet:
        """The answer of the last evaluation, for `compare_with`."""
        return self._whole

    def compare_with(self, evaluated: ZSet) -> None:
        """The next result is the difference from this answer; the steps in between were no evaluations."""
        self._whole = evaluated

    def is_empty(self) -> bool:
        if self._gains is not None:
            return self._gains.is_empty()
        if self.is_plain:
            return self._rows.is_empty()
        return not len(self._rows) or not len(self.whole()[1])

    # ---- the answer ordered and cut -----------------------------------------------------------------------------

    def _emitted(self, moment: Moment) -> tuple[Columns, Weights]:
        before, self._whole = self._whole, self._present(moment)
        if self._r2s is R2S.RSTREAM:
            return self.whole()
        more, less = (self._whole, before) if self._r2s is R2S.ISTREAM else (before, self._whole)
        if self._construct is None and self._cut.orders_by_hidden:
            rest = _rest_of(more, less)
            return rest.columns, rest.weight_array()
        columns, net = net_change(less, more)
        rows = ZSet(repeated(tuple(c[net > 0] for c in columns), net[net > 0]), int(net[net > 0].sum()))
        order = () if self._construct else self._cut.order
        ordered = replace(self._cut, variables=self.variables, order=order).ordered(moment, rows)
        return ordered.columns, ordered.weight_array()

    def _present(self, moment: Moment) -> ZSet:
        if self._ranking is not None:
            columns, weights = self._ranking.shown()
        else:
            columns, weights = self._rows.summed()
        rows = self._cut.of(moment, ZSet(columns, len(weights), weights))
        return rows if self._construct is None else self._construct.graph_of(moment, rows)


def _rest_of(more: ZSet, less: ZSet) -> ZSet:
    """The rows that `more` has in addition to `less`, as they follow one another there; of equal rows the last ones."""
    columns = tuple(np.concatenate(pair) for pair in zip(less.columns, more.columns, strict=True))
    order = np.lexsort(columns[::-1])  # those of `less` come before equal ones of `more`
    new = np.ones(len(order), np.bool_)
    new[1:] = np.logical_or.reduce([column[order[1:]] != column[order[:-1]] for column in columns])
    group = np.empty(len(order), np.int64)
    group[order] = np.cumsum(new) - 1
    both = np.bincount(group[: less.count], minlength=len(order))  # by group: how many of `less`
    own = group[less.count :]
    place = np.empty(more.count, np.int64)
    in_groups = np.argsort(own, kind="stable")
    place[in_groups] = np.arange(more.count) - np.searchsorted(own[in_groups], own[in_groups])
    return more.take(np.flatnonzero(place >= both[own]))
