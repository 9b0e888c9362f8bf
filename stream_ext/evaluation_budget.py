"""Control: the budget of one query in time and bytes, and its cancellation.

The bytes are those of the solutions that are alive between operators, of the result that an operator is about to make,
of the terms that expressions create, and, of a registered query, of the state of its network. All of them share one
budget: an operator has what the others leave. It is checked before memory is allocated.

An evaluation checks between its operators, and within long loops, whether it should go on. If not, an exception ends
the query: it is no error of SPARQL, so COALESCE, OPTIONAL and SERVICE SILENT do not catch it."""

from __future__ import annotations

import time
from collections.abc import Callable

from stream_ext.errors import DeadlineExceeded, QueryCancelled, QueryTooLarge
from stream_ext.query_memory import QueryMemory

#: Raises if the work is not wanted any more.
Check = Callable[[], None]

#: Bytes of an id.
_CELL = 8
#: The most that a term which an expression makes may take: no row of the store is longer.
TERM_BYTES = 4 << 20
_EDGE = 3 * _CELL
#: As good as unlimited.
_UNBOUNDED = 1 << 62
#: What each query may have that asks nobody for it; and in what steps it takes more.
FREE_BYTES, _STEP_BYTES = 256 << 10, 1 << 20


class Control:
    """The budget of one evaluation, or of one registered network. Any thread may call `cancel`."""

    __slots__ = (
        "_alive", "_bytes_max", "_cancelled", "_clock", "_deadline", "_granted", "_memory", "_settings", "_timeout_s",
        "_used", "_what", "spent", "term_bytes",
    )  # fmt: skip

    FREE: Control

    def __init__(
        self,
        timeout_s: float | None = None,
        bytes_max: int | None = None,
        clock: Callable[[], float] = time.monotonic,
        what: str = "query",
        term_bytes: int = TERM_BYTES,
        settings: tuple[str, str] = ("timeout=", "--query-bytes"),
        memory: QueryMemory | None = None,
    ) -> None:
        """`bytes_max` bounds all that is alive at a time; `what` is evaluated, for messages; `settings`:
        the names of the settings for more time, and more bytes. A control with a `memory` has to be closed."""
        self._clock, self._what = clock, what
        self._timeout_s = timeout_s
        self._deadline = None if timeout_s is None else clock() + timeout_s
        self._bytes_max = _UNBOUNDED if bytes_max is None else bytes_max
        self._memory = memory
        self._granted = self._bytes_max if memory is None else min(self._bytes_max, FREE_BYTES)
        self._cancelled = False
        self._used = self._alive = 0
        self.spent = 0  # for terms; for `return_to`
        self.term_bytes, self._settings = term_bytes, settings

    def __deepcopy__(self, memo: object) -> Control:
        """Operators that are copied are charged to the same budget."""
        return self

    # ---- time ------------------------------------------------------------------------------------------------------

    def cancel(self) -> None:
        self._cancelled = True

    @property
    def is_cancelled(self) -> bool:
        return self._cancelled

    def check(self) -> None:
        """Raises QueryCancelled or DeadlineExceeded if the evaluation is to end."""
        if self._cancelled:
            raise QueryCancelled(f"the {self._what} was cancelled")
        if self._deadline is not None and self._clock() > self._deadline:
            raise DeadlineExceeded(
                f"the {self._what} took longer than its time limit of {self._timeout_s:g} s: ask for less (a "
                f"LIMIT, a narrower pattern), or give it more time ({self._settings[0]})"
            )

    def left_s(self, most_s: float) -> float:
        """The seconds that are left, `most_s` at most."""
        return most_s if self._deadline is None else max(0.0, min(most_s, self._deadline - self._clock()))

    def begin(self, retained: int) -> None:
        """Begins the next evaluation of a registered query: it has the whole time, and the memory without the
        `retained` bytes, which the query keeps from one evaluation to the next."""
        self._deadline = None if self._timeout_s is None else self._clock() + self._timeout_s
        self._alive = self.spent = 0
        self._used = retained
        if retained > self._granted:
            self.spend(0)

    # ---- bytes -----------------------------------------------------------------------------------------------------

    @property
    def bytes_max(self) -> int | None:
        """The limit of what is alive at a time; None: there is none."""
        return None if self._bytes_max == _UNBOUNDED else self._bytes_max

    @property
    def left(self) -> int:
        """How many bytes are left."""
        return self._bytes_max - self._used

    def most(self, columns: int) -> int:
        """The greatest number of rows of a table for which there is room."""
        left = self.left
        if self._memory is not None:
            left = min(left, self._granted - self._used + self._memory.left)
        return left // (columns * _CELL)

    def room(self, rows: int, columns: int) -> None:
        """Raises QueryTooLarge if a table of that size is more than the evaluation may still make, Overload if others
        have what it would take."""
        bytes = self._used + rows * (columns or 1) * _CELL
        if bytes > self._granted and not self._grant(bytes):
            raise QueryTooLarge(
                f"the {self._what} would make {rows} solutions at once, more than fit into its memory limit "
                f"of {_mib(self._bytes_max)}{self._already_used()}: join its parts by more variables, ask for "
                f"less, or raise the limit ({self._settings[1]})"
            )
        self.check()

    def gather(self, edges: int) -> None:
        """As `room`, for edges of the store: the place of a key, a neighbour, and a graph, each."""
        if edges * _EDGE > self._granted - self._used:
            self.room(edges, _EDGE // _CELL)

    def alive(self, bytes: int) -> None:
        """Sets the bytes of the solutions that are alive between operators."""
        self._used += bytes - self._alive
        self._alive = bytes
        if self._used > self._granted:
            self.spend(0)

    def spend(self, bytes: int) -> None:
        """Counts the bytes of terms that were created, or are about to be."""
        self.spent += bytes
        self._used += bytes
        if self._used > self._granted and not self._grant(self._used):
            raise QueryTooLarge(
                f"the {self._what} needs more than its memory limit of {_mib(self._bytes_max)}: ask for less, "
                f"or raise the limit ({self._settings[1]})"
            )

    def keep(self, bytes: int) -> None:
        """Ends the evaluation: only its answer of so many bytes, and its terms, are reserved until `close`."""
        if self._memory is not None:
            retained = min(self._granted, _in_steps(bytes + self.spent))
            self._memory.release(self._granted - retained)
            self._granted = retained

    def close(self) -> None:
        """Releases everything. A thread that still evaluates ends as soon as it needs more."""
        self._cancelled = True
        if self._memory is not None:
            self.keep(-self.spent)

    def _grant(self, bytes: int) -> bool:
        """Whether so many bytes may be used; Overload if other queries use them."""
        if bytes > self._bytes_max or self._memory is None:
            return False
        self.check()
        granted = min(self._bytes_max, _in_steps(bytes))
        self._memory.reserve(granted - self._granted)
        self._granted = granted
        return True

    def return_to(self, spent: int) -> None:
        """Releases the bytes that were spent since `spent` had this value."""
        self._used -= self.spent - spent
        self.spent = spent

    def term(self, size: int) -> None:
        """Raises QueryTooLarge for a term of that size, in bytes or (not more than these) characters."""
        if size > self.term_bytes:
            raise QueryTooLarge(
                f"the {self._what} would create a term of {size} bytes; expressions may create terms of at "
                f"most {self.term_bytes} (--term-bytes): build it from shorter parts"
            )

    def text(self, text: str) -> str:
        """The text of a new term, if it is not too long."""
        if 4 * len(text) > self.term_bytes:
            self.term(len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass")))
        return text

    def _already_used(self) -> str:
        return f", of which it already uses {_mib(self._used)}" if self._used >> 20 else ""


def _in_steps(bytes: int) -> int:
    """The bytes that are reserved, in steps, if so many are used; the first are free."""
    return FREE_BYTES + -(-max(0, bytes - FREE_BYTES) // _STEP_BYTES) * _STEP_BYTES


def _mib(bytes: int) -> str:
    return f"{bytes >> 20} MiB" if bytes >> 20 else f"{bytes} bytes"


Control.FREE = Control()
