"""The budget of parsing: how much a document may expand, and when parsing ends early.

    @prefix e: <http://example.org/ ... 500 kB> .   e:1 e:1 e:1 .   e:2 ...       100,000 times: 150 GB

The bytes of the N-Quads that come out are counted on the way, and refused before they fill the memory."""

from __future__ import annotations

import time
from collections.abc import Callable

from hbase_store.writing.loading import LINE_BYTES_MAX
from stream_ext.errors import DeadlineExceeded, TooLarge

#: What is sent may expand to so many times the bytes that may be sent.
EXPANSION = 8
#: Where those are not bounded: to so many bytes, and so many more for each that was read.
_EXPANDED_BYTES, _EXPANDED_A_BYTE = 512 << 20, 64


def _never_ends() -> None:
    """The check of a reading without a deadline: it never ends it."""


def deadline(seconds: float, what: str, clock: Callable[[], float] = time.monotonic) -> Callable[[], None]:
    """A function that raises DeadlineExceeded once `what` has taken so long."""
    end = clock() + seconds

    def check() -> None:
        if clock() > end:
            raise DeadlineExceeded(f"{what} took longer than {seconds:g} s (--query-timeout): send it in parts")

    return check


class ReadingBudget:
    """Of one request, or of one file: all documents in it together. `check` is called often, and raises when nobody
    wants it any more."""

    __slots__ = ("_expanded", "_expanded_max", "_read", "bytes_max", "check")

    def __init__(self, check: Callable[[], None] = _never_ends, bytes_max: int | None = None) -> None:
        """`bytes_max`: of a document as it is sent; None where it may have any length."""
        self.check, self.bytes_max = check, bytes_max
        self._expanded_max = None if bytes_max is None else EXPANSION * bytes_max
        self._read = self._expanded = 0

    def took(self, size: int) -> None:
        """Counts bytes that were read."""
        self._read += size

    def expanded(self, size: int) -> None:
        """Counts bytes that came out; TooLarge if these are too many."""
        self.check()
        self._expanded += size
        most = self._expanded_max
        if most is None:
            most = _EXPANDED_BYTES + _EXPANDED_A_BYTE * self._read
        if self._expanded > most:
            raise TooLarge(
                f"after {self._read} bytes the document has expanded to more than {most}: its prefixes, "
                "entities or contexts are long and used often; make them shorter, or send the document in "
                "parts"
            )


def too_long_a_line() -> TooLarge:
    return TooLarge(f"a statement has more than {LINE_BYTES_MAX} bytes, the limit for its terms together: shorten them")
