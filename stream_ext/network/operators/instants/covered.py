"""Covered: of left rows with partners and without, at each instant of numbered evaluations (OPTIONAL, MINUS, EXISTS).

A left row that gets its first partner is taken back from that instant on, and comes again when the last one is gone.
What is taken back is valid as long as the row itself, so that whoever keeps rows forgets both at the same time.

    left      a from 2 to 9                    without a partner:  + a from 2, until its end
    partners  of a from 4 to 5, from 5 to 7                        - a from 4, until its end
                                                                   + a from 8, until its end"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from stream_ext.network.operators.core.moment import Moment
from stream_ext.network.operators.instants.counts import CountsByInstant
from stream_ext.network.operators.instants.lives import HiddenColumns, Lives, shown
from stream_ext.network.operators.scans.numbered_scan import evaluations_of
from stream_ext.rows.key_table import Slots
from stream_ext.rows.zset import ZSet, concat, consolidate
from stream_ext.windows.numbered_evaluations import NEVER_GONE, NumberedEvaluations
from stream_ext.windows.scheduled_window import Times

_CLEAN_LEAST = 4096
#: The instants of one step, counted from its first, are smaller than two to this.
_INSTANT_BITS = 20


class _Flips:
    """When groups get their first partner, and lose their last one; by group, then by instant."""

    def __init__(self, partners: CountsByInstant, lives: Lives, slots: Slots, evaluations: NumberedEvaluations) -> None:
        changed = partners.changed(lives, slots, lives.rows.weight_array()[None], evaluations)
        found = changed.take((changed.before[0] > 0) != (changed.after[0] > 0))
        self.slots, self.instants, self.covers = found.slots, found.instants, found.after[0] > 0
        self._first, self._partners = 2 * evaluations.first - 1, partners
        self._places = self._placed(self.slots, self.instants)

    def _placed(self, slots: Slots, instants: Times) -> Times:
        since = np.minimum(instants - self._first, (1 << _INSTANT_BITS) - 1)
        placed: Times = (slots.astype(np.int64) << _INSTANT_BITS) + since
        return placed

    def covered_at(self, slots: Slots, instants: Times) -> npt.NDArray[np.bool_]:
        found: npt.NDArray[np.bool_] = self._partners.now(slots)[0] > 0
        if not len(self.slots):
            return found
        after = np.searchsorted(self._places, self._placed(slots, instants), "right")
        last = np.maximum(after - 1, 0)
        has_last = (after > 0) & (self.slots[last] == slots)
        found[has_last] = self.covers[last[has_last]]
        following = np.minimum(after, len(self.slots) - 1)
        has_next = ~has_last & (after < len(self.slots)) & (self.slots[following] == slots)
        found[has_next] = ~self.covers[following[has_next]]
        return found

    def crossed(self, lives: Lives, slots: Slots, from_start: bool) -> ZSet:
        """The rows at each flip of their groups while they count: weighted 1 if they are covered from it on, else -1;
        the last column has the instant. `from_start`: also at the first instant."""
        starts = np.searchsorted(self._places, self._placed(slots, lives.starts), "left" if from_start else "right")
        stops = np.searchsorted(self._places, self._placed(slots, lives.ends), "left")
        counts = np.maximum(stops - starts, 0)
        rows = np.repeat(np.arange(len(slots)), counts)
        places = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts) + starts[rows]
        signs = np.where(self.covers[places], 1, -1)
        return _since(lives.rows.take(rows), self.instants[places], signs)


class CoveredByInstant:
    """`emits_covered`: the rows with partners are put out, else those without."""

    def __init__(
        self, left: tuple[str, ...], partners: tuple[str, ...], marks: tuple[str, ...], since: str, emits_covered: bool
    ) -> None:
        """The partners have the columns of their left rows, under the names `marks`. `since`: the name of a hidden
        column with the instant from which on a row is taken back, or is there again."""
        self.variables = (*left, since)
        self._emits_covered = emits_covered
        self._left, self._right = HiddenColumns(left), HiddenColumns(partners)
        named = dict(zip(left, marks, strict=True))
        self._keys = [left.index(v) for v in shown(left)]
        self._partner_keys = [partners.index(named[v]) for v in shown(left)]
        self._partners = CountsByInstant(len(self._keys))
        self._rows: list[tuple[ZSet, Slots]] = []  # the left rows of steps before, and their groups
        self._clean_at = _CLEAN_LEAST

    def step(self, moment: Moment, left: ZSet, partners: ZSet) -> ZSet:
        evaluations = evaluations_of(moment)
        self._clean(int(evaluations.times[0]))
        matched = self._right.lives(partners, evaluations)
        slots = self._slots(matched.rows, self._partner_keys)
        came = self._left.lives(left, evaluations)
        own = self._slots(came.rows, self._keys)
        flips = _Flips(self._partners, matched, slots, evaluations)
        at_once = flips.covered_at(own, came.starts)
        covered = [_since(came.rows.take(at_once), came.starts[at_once]), flips.crossed(came, own, False)]
        for rows, groups in self._rows:
            again = np.isin(groups, flips.slots)
            if again.any():
                known = self._left.lives(rows.take(again), evaluations)  # without those that have run out
                covered.append(flips.crossed(known, self._slots(known.rows, self._keys), True))
        stays = came.ends == NEVER_GONE
        if stays.any():
            self._rows.append((came.rows.take(stays), own[stays]))
        found = concat(covered, len(self.variables))
        if self._emits_covered:
            return found
        return concat([_since(came.rows, np.zeros(came.rows.count, np.int64)), found.negated()], len(self.variables))

    def _slots(self, rows: ZSet, places: list[int]) -> Slots:
        return self._partners.slots_of(tuple(rows.column(place) for place in places), rows.count)

    def _clean(self, time: int) -> None:
        """Forgets rows that have run out or were taken back, when the number of rows has doubled."""
        if sum(len(slots) for _, slots in self._rows) <= self._clean_at:
            return
        rows = concat([rows for rows, _ in self._rows], len(self.variables) - 1)
        rows = consolidate(rows.take(rows.until_array() >= time))
        self._partners.clean()
        self._rows = [(rows, self._slots(rows, self._keys))]
        self._clean_at = max(_CLEAN_LEAST, 2 * rows.count)


def _since(rows: ZSet, instants: Times, signs: npt.NDArray[np.int64] | None = None) -> ZSet:
    weights = rows.weights if signs is None else rows.weight_array() * signs
    return ZSet((*rows.stored, instants.view(np.uint64)), rows.count, weights, rows.untils)
