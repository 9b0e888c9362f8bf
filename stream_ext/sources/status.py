"""The status of a source: how the last refresh went."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from stream_ext.catalog.sources import AsOf

#: Not read yet; read; it does not answer; it answers what cannot be used.
State = Literal["new", "ready", "away", "failing"]


@dataclass(slots=True)
class Status:
    """`as_of`: of which time its data are known, also if they were as before and made no snapshot."""

    state: State = "new"
    as_of: AsOf | None = None
    error: str | None = None
    round_trips: int = 0

    def failed(self, state: State, why: str) -> None:
        self.state, self.error = state, why

    def succeeded(self, as_of: AsOf) -> None:
        self.state, self.error, self.as_of = "ready", None, as_of
