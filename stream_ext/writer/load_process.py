"""The process of a loader: `python -P -m stream_ext.writer.load_process FD NICENESS`. It runs tasks one by one.

It is started as a new program and not forked, so it has no lock, thread or open store of whoever loads. It ends when
that one closes its end of the socket. Beside a server its priority is the lowest: whoever is served goes first."""

from __future__ import annotations

import os
import signal
import socket
import sys
from contextlib import suppress
from pathlib import Path

from stream_ext.frames import Closed, framed, receive
from stream_ext.writer.load_parts import run_encoded

#: If the machine has no memory left, the kernel ends this process rather than the server.
_EXPENDABLE = "500"


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for whoever loads, who closes our connection
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(_EXPENDABLE)
    os.nice(int(sys.argv[2]))
    with socket.socket(fileno=int(sys.argv[1])) as connection, suppress(Closed, ConnectionError):
        while True:
            connection.sendall(framed(run_encoded(receive(connection))))
    os._exit(0)


if __name__ == "__main__":
    main()
