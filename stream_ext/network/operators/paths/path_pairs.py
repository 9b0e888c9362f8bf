"""Path pairs: the nodes that a path reaches from given starts, updated as edges come and go.

For a path that repeats one step, all pairs (start, node) are stored. So the effect of an edge is known: a new edge
extends the pairs that end where it begins; a removed edge affects the starts that reach it, which are computed anew.
For any other path, the pairs are computed again when one of its edges has changed. The output is the difference."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hbase_store.arrays import NO_IDS, Ids, Mask
from stream_ext.evaluation_budget import Control
from stream_ext.network.operators.paths.id_path import IdPath, Link, Repeated, is_one_step, links
from stream_ext.network.operators.paths.walking import Edges, ReachedPairs, connected, walk
from stream_ext.rows.zset import ZSet, concat, consolidate, empty, of_columns
from stream_ext.values.vocabulary import is_local

#: Edges as links of a path, in its direction: (from, to, sign).
Steps = tuple[Ids, Ids, np.typing.NDArray[np.int64]]

#: The number of unused starts from which on they are forgotten.
_UNUSED_STARTS_MIN = 1024


@dataclass(frozen=True, slots=True)
class EdgeChange:
    """Edges that were added (sign 1) or removed (-1)."""

    s: Ids
    p: Ids
    o: Ids
    sign: np.typing.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.s)

    def steps(self, path: IdPath) -> Steps:
        """The edges that are links of the path."""
        sources, targets, signs = [NO_IDS], [NO_IDS], [np.empty(0, np.int64)]
        for link in links(path):
            if isinstance(link, Link):
                fits: Mask = self.p == np.uint64(link.predicate)
            else:
                fits = ~np.isin(self.p, np.array(sorted(link.predicates), np.uint64))
            ends = (self.o, self.s) if link.inverse else (self.s, self.o)
            sources.append(ends[0][fits])
            targets.append(ends[1][fits])
            signs.append(self.sign[fits])
        return np.concatenate(sources), np.concatenate(targets), np.concatenate(signs)


NO_CHANGE = EdgeChange(NO_IDS, NO_IDS, NO_IDS, np.empty(0, np.int64))


class PathPairs:
    """`step` puts out how the pairs (start, end) have changed."""

    def __init__(self, path: IdPath) -> None:
        self._path = path
        self._starts = NO_IDS  # ascending; those asked for, and some that are so no more
        self._pairs = empty(2)
        self._reached = None
        if isinstance(path, Repeated) and is_one_step(path.inner):
            self._reached = ReachedPairs(path, NO_IDS)

    @property
    def starts(self) -> Ids:
        return self._starts

    def step(self, edges: Edges, change: EdgeChange, starts: Ids, control: Control, allowed: Ids | None = None) -> ZSet:
        """`starts`: the starts that are needed now, ascending; only those in `allowed` may have pairs. `change`: the
        edges in which `edges` differ from those of the step before, and perhaps more."""
        if not len(self._starts):
            return self._first(edges, starts, control)
        steps = change.steps(self._path)
        gone = self._needless(starts, allowed)
        new = starts[~np.isin(starts, self._starts)]
        if not len(steps[0]) and not len(gone) and not len(new):
            return empty(2)
        self._starts = np.union1d(self._starts[~np.isin(self._starts, gone)], new)
        if self._reached is not None:
            return self._step_plain(self._reached, edges, steps, gone, new, control)
        return self._anew(edges, control) if len(steps[0]) else self._more(edges, gone, new, control)

    def _first(self, edges: Edges, starts: Ids, control: Control) -> ZSet:
        """The pairs of the first starts."""
        self._starts = starts
        if not len(starts):
            return empty(2)
        if self._reached is None:
            self._pairs = self._walked(edges, starts, control)
            return self._pairs
        known = self._reached.count
        self._reached.begin(starts)
        self._reached.grow(edges, control)
        return self._reached.pairs(slice(known, None))

    def between(self, edges: Edges, starts: Ids, target: Ids, control: Control) -> ZSet:
        """The pairs that end in `target`, and maybe others, for a one-shot query."""
        if len(starts) == 1 and self._reached is not None and self._reached.path.many:
            leads = connected(self._reached.path, edges, starts, target, control)
            if leads is not None:
                return of_columns((starts, target)) if leads else empty(2)
        return self._first(edges, starts, control)

    def _needless(self, starts: Ids, allowed: Ids | None) -> Ids:
        """The unused starts, when they are more than the others.

        Those that the store does not know go at once: they may come back under the id that it has given them."""
        gone = self._starts[~np.isin(self._starts, starts)]
        if len(gone) > len(starts) + _UNUSED_STARTS_MIN:
            return gone
        now = is_local(gone)
        if allowed is not None:
            now |= ~np.isin(gone, allowed)
        return gone[now]

    # ---- any path

    def _anew(self, edges: Edges, control: Control) -> ZSet:
        before, self._pairs = self._pairs, self._walked(edges, self._starts, control)
        return consolidate(concat([self._pairs, before.negated()], 2))

    def _more(self, edges: Edges, gone: Ids, new: Ids, control: Control) -> ZSet:
        """Adds and removes starts; the edges are unchanged."""
        added = self._walked(edges, new, control)
        leave = np.isin(self._pairs.columns[0], gone)
        left = self._pairs.take(leave)
        self._pairs = concat([self._pairs.take(~leave) if len(gone) else self._pairs, added], 2)
        return concat([added, left.negated()], 2)

    def _walked(self, edges: Edges, starts: Ids, control: Control) -> ZSet:
        tags, nodes = walk(self._path, edges, np.arange(len(starts), dtype=np.int64), starts, control)
        return of_columns((starts[tags], nodes))

    # ---- a path that repeats one step

    @staticmethod
    def _step_plain(reached: ReachedPairs, edges: Edges, steps: Steps, gone: Ids, new: Ids, control: Control) -> ZSet:
        sources, targets, signs = steps
        left = reached.drop(gone)
        anew = reached.tags_at(sources[signs < 0])
        left = concat([left, reached.forget(anew)], 2)
        known = reached.count
        reached.lead_on(sources[signs > 0], targets[signs > 0], edges, control)
        reached.begin(new)
        reached.grow(edges, control)
        added = reached.pairs(slice(known, None))
        return consolidate(concat([added, left.negated()], 2)) if left.count else added
