"""Placement: which shard evaluates a registered query.

    placement number of the query  --weighted rendezvous hashing-->  shard

Queries of one template have one placement number, so a template is evaluated by one shard as a whole. A plan has a
weight for each shard. When the weights change, only those templates move that must: a template leaves a shard whose
weight falls, or goes to one whose weight rises. A plan is computed alike by every process."""

from __future__ import annotations

import math
from collections.abc import Mapping

import msgspec

from stream_ext.catalog.catalog import QueryDefinition

_MASK = (1 << 64) - 1
#: A plan is replaced only if the most loaded shard gets less than this share of what it has.
_GAIN_MIN = 0.85
_ROUNDS = 48


class ShardPlan(msgspec.Struct, frozen=True, array_like=True):
    """`number`: the later of two plans has the greater one. `weights`: one for each shard."""

    number: int = 1
    weights: tuple[float, ...] = (1.0,)

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

    def takes(self, shard: int, query: QueryDefinition) -> bool:
        """Whether this shard of Spark evaluates the query."""
        return query.home is None and self.shard_of_query(query) == shard

    def _score(self, placement: int, shard: int) -> float:
        """-weight / ln(u), where u in (0, 1) depends on template and shard: the greatest score of a template belongs to
        a shard with a probability in proportion to the shard's weight."""
        u = ((_mixed(placement ^ _mixed(shard + 1)) >> 11) + 0.5) / (1 << 53)
        return -self.weights[shard] / math.log(u)

    def loads(self, measured: Mapping[int, float]) -> list[float]:
        """The load of each shard, from that of each placement number."""
        found = [0.0] * self.shards
        for placement, load in measured.items():
            found[self.shard_of(placement)] += load
        return found

    def balanced(self, measured: Mapping[int, float], is_free: bool = False) -> ShardPlan:
        """The next plan, with weights that spread this load better; the same plan if there is little to gain.
        `is_free`: no shard has a state that it would have to build anew, so any gain will do."""
        best, best_most = self, max(self.loads(measured))
        enough, plan = best_most * (1.0 if is_free else _GAIN_MIN), self
        for step in range(_ROUNDS):
            loads = plan.loads(measured)
            mean = sum(loads) / len(loads)
            if not mean:
                return self
            gain = 0.5 / (1 + step / 8)
            weights = [
                weight * max(0.25, min(4.0, mean / max(load, mean / 16))) ** gain
                for weight, load in zip(plan.weights, loads, strict=True)
            ]
            plan = ShardPlan(self.number + 1, tuple(weight * len(weights) / sum(weights) for weight in weights))
            if (most := max(plan.loads(measured))) < best_most:
                best, best_most = plan, most
        return best if best_most < enough else self


def _mixed(value: int) -> int:
    """The finalizer of splitmix64: each bit of the result depends on all bits of the value."""
    value = (value + 0x9E3779B97F4A7C15) & _MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
    return value ^ (value >> 31)
