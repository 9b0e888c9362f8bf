"""A process that runs tasks: `python -P -m stream_ext.task_process FD NICENESS MODULE:FUNCTION`. It runs them one by
one: the function gets the bytes of a task, and returns those of its result.

It is started as a new program and not forked, so it has no lock, thread or open store of whoever started it. It ends
when that one closes its end of the socket or ends, also in the middle of a task. Beside a server its priority is the
lowest: whoever is served goes first."""

from __future__ import annotations

import importlib
import os
import select
import signal
import socket
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from stream_ext.frames import Closed, framed, receive

#: If the machine has no memory left, the kernel ends this process rather than the server.
_EXPENDABLE = "500"


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for whoever started it, who closes our connection
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(_EXPENDABLE)
    os.nice(int(sys.argv[2]))
    with socket.socket(fileno=int(sys.argv[1])) as connection, suppress(Closed, ConnectionError):
        threading.Thread(target=_end_with, args=(connection.fileno(),), name="end of tasks", daemon=True).start()
        run = _function(sys.argv[3])
        while True:
            connection.sendall(framed(run(receive(connection))))
    os._exit(0)


def _function(name: str) -> Callable[[bytearray], bytes]:
    module, _, function = name.partition(":")
    found: Callable[[bytearray], bytes] = getattr(importlib.import_module(module), function)
    return found


def _end_with(connection: int) -> None:
    """Ends this process when the other end of the socket is closed."""
    poll = select.poll()
    poll.register(connection, select.POLLRDHUP)
    poll.poll()
    os._exit(0)


if __name__ == "__main__":
    main()
