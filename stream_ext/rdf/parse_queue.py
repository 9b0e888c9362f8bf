"""The queue before the parsers: some documents are parsed at once, the others wait in the order in which they came.

A waiting request has a thread, which short requests need: so only a few may wait, and none for long. A document that is
parsed for long gives up its parser if others wait: otherwise four endless documents would have all parsers."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from stream_ext.errors import DeadlineExceeded, Overload

_RETRY_AFTER_S = 5
#: How often who waits looks whether it should go on.
_LOOK_S = 0.05


@dataclass(frozen=True, slots=True)
class Rules:
    at_once: int = 4  #: documents that are parsed at a time
    waiting: int = 16  #: that wait; one more is told to come back
    wait_s: float = 30.0  #: for which one waits at most
    share_s: float = 10.0  #: for which one may be parsed while another waits, and so much more for each MiB of it
    share_a_mib_s: float = 1.0


class ParserTurn:
    def __init__(self, queue: ParseQueue) -> None:
        self._queue, self._began_s = queue, queue.clock()

    def check(self, size: int) -> None:
        """DeadlineExceeded if a document has had its share of time, for the bytes that were read, and others wait."""
        rules = self._queue.rules
        share_s = rules.share_s + rules.share_a_mib_s * size / (1 << 20)
        if self._queue.waiting and self._queue.clock() - self._began_s > share_s:
            raise DeadlineExceeded(
                f"parsing this document took longer than {share_s:.0f} s while others waited for their turn: send it "
                "in parts, or as N-Triples or N-Quads, which need not wait"
            )


class ParseQueue:
    def __init__(self, rules: Rules, clock: Callable[[], float] = time.monotonic) -> None:
        self.rules, self.clock = rules, clock
        self._changed = threading.Condition()
        self.free = rules.at_once
        self._waiting: deque[object] = deque()

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    @contextmanager
    def turn(self, check: Callable[[], None]) -> Iterator[ParserTurn]:
        """`check` is called while it waits, and raises when nobody wants it any more. Overload where too many wait, or
        it would wait for too long."""
        with self._changed:
            if not self.free or self._waiting:
                self._wait(check)
            self.free -= 1
        try:
            yield ParserTurn(self)
        finally:
            with self._changed:
                self.free += 1
                self._changed.notify_all()

    def _wait(self, check: Callable[[], None]) -> None:
        if len(self._waiting) >= self.rules.waiting:
            raise self._overload(f"{len(self._waiting)} others are already waiting")
        mine, until_s = object(), self.clock() + self.rules.wait_s
        self._waiting.append(mine)
        try:
            while not self.free or self._waiting[0] is not mine:
                self._changed.wait(_LOOK_S)
                check()
                if self.clock() > until_s:
                    raise self._overload(f"no place became free within {self.rules.wait_s:g} s")
        finally:
            self._waiting.remove(mine)
            self._changed.notify_all()

    def _overload(self, why: str) -> Overload:
        return Overload(
            f"{self.rules.at_once} long documents are parsed at once, and {why}: send this one later, in parts of up "
            "to 4 KiB, or as N-Triples or N-Quads, which need not wait",
            _RETRY_AFTER_S,
        )
