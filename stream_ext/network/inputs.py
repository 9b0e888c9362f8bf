"""Inputs: what a network is built over: a snapshot, the ids of its terms, windows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from hbase_store import Snapshot
from stream_ext.evaluation_budget import Check, Control
from stream_ext.network.ahead import fetch_for_planning
from stream_ext.network.building.builder import Builder
from stream_ext.network.estimate import Estimates
from stream_ext.network.operators.answers.ranking import Orders
from stream_ext.network.operators.core.pattern import IdPattern
from stream_ext.plan.logic import PatternScan, Select
from stream_ext.plan.properties.named_terms import constants_of
from stream_ext.rows.key_range import KeyRange
from stream_ext.windows.scheduled_window import ScheduledWindow

Encode = Callable[[Sequence[bytes]], npt.NDArray[np.uint64]]
PatternOf = Callable[[PatternScan], IdPattern]
#: The terms of longer tables are not looked up with the others.
_TABLE_ROWS_MAX = 1_000


@dataclass(frozen=True, slots=True)
class NetworkInputs:
    """What a network is built over. `windows`: by their names; `snapshot`: its counts order the joins. `check` is
    called again and again during the planning, and may raise. `counted_as`: ids that stand for any other, and those
    whose counts order the joins. `keys`: see `Builder`."""

    snapshot: Snapshot
    encode: Encode
    windows: Mapping[str, ScheduledWindow] = field(default_factory=dict)
    check: Check = Control.FREE.check
    counted_as: Mapping[int, int] = field(default_factory=dict)
    keys: KeyRange | None = None

    @property
    def is_summed(self) -> bool:
        """Whether its rows are summed with those of other ranges, before they become the result."""
        return self.keys is not None and self.keys.is_summed

    @property
    def has_partial_groups(self) -> bool:
        """Whether its rows are what its groups have in a range."""
        return self.keys is not None and self.keys.partial_groups

    def builder(
        self, select: Select, orders: Orders, held: bool, numbered: bool = False
    ) -> tuple[Builder, list[bytes]]:
        """The builder for this logic, which has looked up the ids of its constants in one call; and the constants that
        the store does not know. `held`: patterns over the store read held
        edges, too, as those of registered queries do. `numbered`: see `Builder`."""
        # One look-up for all constants: on HBase each is a round trip. Long tables are looked up by their operators.
        constants = constants_of(select, _TABLE_ROWS_MAX)
        ids = dict(zip(constants, self.encode(constants).tolist(), strict=True))
        fetch_for_planning(self.snapshot, select, lambda text: self._counted_id(ids.get(text, 0)))
        found = Builder(
            self.windows,
            ids.__getitem__,
            lambda pattern_of: Estimates(self.snapshot, self._counted(pattern_of)),
            orders,
            self.check,
            held,
            numbered,
            self.keys,
        )
        return found, [text for text, id in ids.items() if not id]

    def _counted_id(self, id: int) -> int:
        return self.counted_as.get(id, id)

    def _counted(self, pattern_of: PatternOf) -> PatternOf:
        if not self.counted_as:
            return pattern_of

        def counted(source: PatternScan) -> IdPattern:
            pattern = pattern_of(source)
            ids = {position: self.counted_as[id] for position, id in pattern.fixed.items() if id in self.counted_as}
            return pattern.with_fixed(ids) if ids else pattern

        return counted
