"""Placement: which shard evaluates a registered query.

    placement number of the query  --weighted rendezvous hashing-->  shard

Queries of one template have one placement number, so a template is evaluated by one shard as a whole. A plan has a
weight for each shard. When the weights change, only those templates move that must: a template leaves a shard whose
weight falls, or goes to one whose weight rises. A plan is computed alike by every process.

A template that is too much for one shard may be divided: then each shard has one range of its keys."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence

import msgspec
import numpy as np
import numpy.typing as npt

from stream_ext.catalog.catalog import QueryDefinition
from stream_ext.rows.key_range import Ranges

_MASK = (1 << 64) - 1
#: A plan is replaced only if the most loaded shard gets less than this share of what it has.
_GAIN_MIN = 0.85
_ROUNDS = 48


class ShardPlan(msgspec.Struct, frozen=True, array_like=True):
    """`number`: the later of two plans has the greater one. `weights`: one for each shard. `divided`: the placement
    numbers of the templates of which each shard has a range."""

    number: int = 1
    weights: tuple[float, ...] = (1.0,)
    divided: frozenset[int] = frozenset()

    @classmethod
    def of(cls, shards: int, number: int = 1) -> ShardPlan:
        """Shards of equal weight."""
        return cls(number, (1.0,) * shards)

    @property
    def shards(self) -> int:
        return len(self.weights)

    def shard_of(self, placement: int) -> int:
        if len(self.weights) == 1:
            return 0
        return max(range(len(self.weights)), key=lambda shard: self._score(placement, shard))

    def shard_of_query(self, query: QueryDefinition) -> int:
        return self.shard_of(query.placement or query.number)

    def divides(self, query: QueryDefinition) -> bool:
        """Whether the query is evaluated by all shards together."""
        return bool(self.divided) and query.home is None and (query.placement or query.number) in self.divided

    def assigns(self, shard: int, query: QueryDefinition) -> bool:
        """Whether this shard of Spark evaluates the query, or a range of it."""
        return query.home is None and (self.divides(query) or self.shard_of_query(query) == shard)

    def ranges_of(self, shards: frozenset[int], query: QueryDefinition) -> Ranges | None:
        """What these shards have of a query that they take; None: all of it."""
        return Ranges(self.shards, shards) if self.divides(query) else None

    def without(self, placements: Collection[int]) -> ShardPlan:
        """The next plan, in which these templates are whole."""
        return ShardPlan(self.number + 1, self.weights, self.divided.difference(placements))

    def _score(self, placement: int, shard: int) -> float:
        """-weight / ln(u), where u in (0, 1) depends on template and shard: the greatest score of a template belongs to
        a shard with a probability in proportion to the shard's weight."""
        u = ((_mixed(placement ^ _mixed(shard + 1)) >> 11) + 0.5) / (1 << 53)
        return -self.weights[shard] / math.log(u)

    def loads(self, measured: Mapping[int, float]) -> list[float]:
        """The load of each shard, from that of each placement number."""
        return _Loads(measured, self.shards, self.divided).of(self.weights)

    def balanced(
        self, measured: Mapping[int, float], is_free: bool = False, divided: frozenset[int] | None = None
    ) -> ShardPlan:
        """The next plan, with weights that spread this load better; the same plan if there is little to gain.
        `is_free`: no shard has a state that it would have to build anew, so any gain will do. `divided`: the templates
        that the next plan divides; None: as this one."""
        divided = self.divided if divided is None else divided
        found = _Loads(measured, self.shards, divided)
        weights, loads = self.weights, found.of(self.weights)
        best, best_most = self, max(self.loads(measured))
        enough = best_most * (1.0 if is_free else _GAIN_MIN)
        if max(loads) < best_most:
            best, best_most = ShardPlan(self.number + 1, weights, divided), max(loads)
        for step in range(_ROUNDS):
            mean = sum(loads) / len(loads)
            if not mean:
                return self
            gain = 0.5 / (1 + step / 8)
            changed = [
                weight * max(0.25, min(4.0, mean / max(load, mean / 16))) ** gain
                for weight, load in zip(weights, loads, strict=True)
            ]
            weights = tuple(weight * len(changed) / sum(changed) for weight in changed)
            loads = found.of(weights)
            if (most := max(loads)) < best_most:
                best, best_most = ShardPlan(self.number + 1, weights, divided), most
        return best if best_most < enough else self


class _Loads:
    """As `ShardPlan.shard_of`, of many templates at once, for one plan after the other: the end of an epoch waits for
    it. Where two scores differ in the last bit only, a load may be counted for the other shard."""

    def __init__(self, measured: Mapping[int, float], shards: int, divided: frozenset[int] = frozenset()) -> None:
        self._shards = shards
        self._of_each = sum(load for placement, load in measured.items() if placement in divided) / shards
        whole = {placement: load for placement, load in measured.items() if placement not in divided}
        self._loads = np.fromiter(whole.values(), np.float64, len(whole))
        placements = np.fromiter(whole, np.uint64, len(whole))
        of_shards = np.array([_mixed(shard + 1) for shard in range(shards)], np.uint64)
        mixed = _mixed_all(placements[:, None] ^ of_shards)
        u = ((mixed >> np.uint64(11)).astype(np.float64) + 0.5) / (1 << 53)
        self._scores = -1.0 / np.log(u)  # by placement and shard, at weight 1

    def of(self, weights: Sequence[float]) -> list[float]:
        """The load of each shard, with these weights."""
        shards = (self._scores * np.array(weights)).argmax(axis=1)
        found: list[float] = (np.bincount(shards, self._loads, self._shards) + self._of_each).tolist()
        return found


def _mixed(value: int) -> int:
    """The finalizer of splitmix64: each bit of the result depends on all bits of the value."""
    value = (value + 0x9E3779B97F4A7C15) & _MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
    return value ^ (value >> 31)


def _mixed_all(values: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """`_mixed` of each; numbers of 64 bits wrap around."""
    values = values + np.uint64(0x9E3779B97F4A7C15)
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))
