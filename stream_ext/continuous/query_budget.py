"""The budget of registered queries: what one of them, or the network that several share, may take."""

from __future__ import annotations

from dataclasses import dataclass, replace

from stream_ext.evaluation_budget import TERM_BYTES, Control
from stream_ext.rows.key_range import KeyRange


@dataclass(frozen=True, slots=True)
class Budget:
    """A query that exceeds its budget is not evaluated again until it is resumed or replaced."""

    seconds: float = 60.0  #: of one evaluation
    bytes: int = 2 << 30  #: of the state between two evaluations, and of what one evaluation makes
    term_bytes: int = TERM_BYTES  #: of a term that an expression makes

    def of_range(self, keys: KeyRange | None) -> Budget:
        """The part of it for a range of the keys of a divided query; what is too large for this may be too large as a
        whole, and is evaluated so."""
        if keys is None:
            return self
        return replace(self, bytes=self.bytes * len(keys.ranges.mine) // keys.ranges.count)

    def control(self) -> Control:
        return Control(
            self.seconds, self.bytes, what="registered query", term_bytes=self.term_bytes,
            settings=("--evaluation-timeout", "--state-bytes"),
        )  # fmt: skip


#: The default.
USUAL = Budget()
