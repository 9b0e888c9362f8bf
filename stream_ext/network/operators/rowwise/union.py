"""Union: the solutions of all parts; a variable that a part does not have is unbound in it. Linear."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from stream_ext.network.operators.core.moment import Moment
from stream_ext.network.operators.core.shareable import Likeness, Shareable
from stream_ext.network.operators.rowwise.project import Project
from stream_ext.rows.zset import ZSet, concat


class UnionOperator(Shareable):
    is_stateless = is_monotone = rests_without_rows = True

    def __init__(self, parts: Sequence[tuple[str, ...]]) -> None:
        self.variables = tuple(dict.fromkeys(v for part in parts for v in part))
        self._aligned = [Project(part, self.variables) for part in parts]

    @property
    def likeness(self) -> Likeness:
        return UnionOperator, len(self.variables), *(part.likeness for part in self._aligned)

    def step(self, moment: Moment, *changes: ZSet) -> ZSet:
        aligned = [part.step(moment, change) for part, change in zip(self._aligned, changes, strict=True)]
        # What is new in the one part may have been there before, or have gone just now, in another.
        return replace(concat(aligned, len(self.variables)), fresh=None)
