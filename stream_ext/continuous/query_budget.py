"""The budget of registered queries: what one of them, or the network that several share, may take."""

from __future__ import annotations

from dataclasses import dataclass

from stream_ext.evaluation_budget import TERM_BYTES, Control


@dataclass(frozen=True, slots=True)
class Budget:
    """A query that exceeds its budget is not evaluated again until it is resumed or replaced."""

    seconds: float = 60.0  #: of one evaluation
    bytes: int = 2 << 30  #: of the state between two evaluations, and of what one evaluation makes
    term_bytes: int = TERM_BYTES  #: of a term that an expression makes

    def control(self) -> Control:
        return Control(
            self.seconds, self.bytes, what="registered query", term_bytes=self.term_bytes,
            settings=("--evaluation-timeout", "--state-bytes"),
        )  # fmt: skip


#: The default.
USUAL = Budget()
