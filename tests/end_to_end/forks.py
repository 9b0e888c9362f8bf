"""Starts servers by forking a process that has imported everything: a tenth of the time of `rillet serve`.

    python -m tests.end_to_end.forks serve --store lmdb:... --port ...

Each line that it reads starts a server, whose pid it prints; the end of its input ends it. It has no thread of its own,
so that a fork has all locks free."""

from __future__ import annotations

import os
import signal
import sys


def run(arguments: list[str]) -> None:
    # What a server imports when it starts is here before the first fork.
    import endpoint.app
    import endpoint.cli.command_line
    import endpoint.serve
    import stream_ext.continuous.shard
    import stream_ext.service.service  # noqa: F401

    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those that are killed
    for _ in sys.stdin:
        pid = os.fork()
        if pid == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            os.setsid()
            os.dup2(2, 1)  # what it prints goes to the log
            sys.stdin.close()
            raise SystemExit(endpoint.cli.command_line.main(arguments))
        print(pid, flush=True)


if __name__ == "__main__":
    run(sys.argv[1:])
