"""Control: what may end a running evaluation before it is done.

An evaluation asks between its operators, and inside of long loops, whether it should go on: its deadline may have
passed, whoever asked may have gone, or what it is about to make may need more memory than it is allowed."""

from __future__ import annotations

import time
from collections.abc import Callable

from stream_ext.errors import DeadlineExceeded, QueryCancelled, QueryTooLarge

#: Bytes of an id.
_CELL = 8


class Control:
    """One for each evaluation. `cancel` may be called from any thread."""

    __slots__ = ("_bytes_max", "_cancelled", "_clock", "_deadline", "_timeout_s", "_what")

    FREE: Control

    def __init__(
        self,
        timeout_s: float | None = None,
        bytes_max: int | None = None,
        clock: Callable[[], float] = time.monotonic,
        what: str = "query",
    ) -> None:
        """`bytes_max` bounds what one step of one operator may make; `what` it is that is evaluated."""
        self._clock, self._what = clock, what
        self._timeout_s = timeout_s
        self._deadline = None if timeout_s is None else clock() + timeout_s
        self._bytes_max = bytes_max
        self._cancelled = False

    def cancel(self) -> None:
        self._cancelled = True

    def check(self) -> None:
        """Raises QueryCancelled or DeadlineExceeded if the evaluation is to end."""
        if self._cancelled:
            raise QueryCancelled(f"the {self._what} was cancelled")
        if self._deadline is not None and self._clock() > self._deadline:
            raise DeadlineExceeded(
                f"the {self._what} took longer than the {self._timeout_s:g} s that it was given: "
                f"ask for less (a LIMIT, a narrower pattern), or give it more time (timeout=)"
            )

    def room(self, rows: int, columns: int) -> None:
        """Raises QueryTooLarge if a table of that size is more than the evaluation may make."""
        if self._bytes_max is not None and rows * max(columns, 1) * _CELL > self._bytes_max:
            raise QueryTooLarge(
                f"the {self._what} would make {rows} solutions at once, more than fit into the "
                f"{self._bytes_max >> 20} MiB that it was given: join its parts by more variables, or ask for less"
            )
        self.check()


Control.FREE = Control()
