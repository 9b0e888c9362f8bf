"""What a worker on another machine is stepping: it says so by its line, because nobody here can look into its memory.

Nobody here can kill it, either, when it hangs. So it sets an alarm before each step, which the kernel rings even if no
line of Python is executed any more; nothing catches it, and the process ends."""

from __future__ import annotations

import contextlib
import signal
import socket
from collections.abc import Sequence

from stream_ext.runners.spark import wire

#: With more queries in one step it is found out by trials which of them hangs.
_NAMED_MAX = 256


class RemoteSteps:
    def __init__(self, line: socket.socket, step_limit_s: float, build_limit_s: float) -> None:
        """Until it rests for the first time it builds its state, which may take longer."""
        self._line, self._step_limit_s, self._limit_s = line, step_limit_s, build_limit_s

    def steps(self, sn: int, numbers: Sequence[int] = (), /) -> None:
        signal.setitimer(signal.ITIMER_REAL, self._limit_s)
        self._send(wire.IsStepping(sn, list(numbers) if len(numbers) <= _NAMED_MAX else []))

    def rests(self) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        self._limit_s = self._step_limit_s
        self._send(wire.Rests())

    def ends(self) -> None:
        """Its task has ended, however; the process waits for another one."""
        signal.setitimer(signal.ITIMER_REAL, 0)

    def _send(self, message: wire.IsStepping | wire.Rests) -> None:
        with contextlib.suppress(ConnectionError):  # where the line is read, its end is noticed; this is amid a step
            self._line.sendall(wire.frame(message))
