"""What all commits of the emission log up to one of them say together: positions, states and numbers that belong
together, while another process commits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hbase_store.layout.rows import Sn


@dataclass(frozen=True, slots=True)
class EmissionsSoFar:
    """What all commits up to `commit` say together."""

    commit: int
    at: Sn
    _states: Mapping[int, bytes]
    _lasts: Mapping[int, int]

    def position(self) -> Sn:
        return self.at

    def states(self) -> dict[int, bytes]:
        return dict(self._states)

    def last(self, query: int) -> int:
        return self._lasts.get(query, 0)

    def queries(self) -> list[int]:
        """The queries and groups that have emissions."""
        return sorted(self._lasts)
