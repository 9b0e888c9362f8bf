"""Processes, seen from outside: who belongs to whom, and whether they have ended."""

from __future__ import annotations

import contextlib
import os
import select
from pathlib import Path


def family(pid: int | None) -> list[int]:
    """A process and all below it."""
    if pid is None:
        return []
    children = Path(f"/proc/{pid}/task").glob("*/children")
    return [pid, *(below for file in children for child in file.read_text().split() for below in family(int(child)))]


def all_gone(pidfds: list[int], deadline_s: float = 10) -> bool:
    ended = [bool(select.select([pidfd], [], [], deadline_s)[0]) for pidfd in pidfds]
    for pidfd in pidfds:
        os.close(pidfd)
    return all(ended)


def worker(driver_pid: int) -> int:
    """The Python worker that serves the seat: the last child of the daemon that forks it."""
    seats = [pid for pid in family(driver_pid) if b"worker_module" in Path(f"/proc/{pid}/cmdline").read_bytes()]
    return seats[-1]


def listens_on(pids: list[int]) -> set[str]:
    """The addresses of the TCP ports on which these processes listen, in the kernel's hexadecimal."""
    sockets = set()
    for descriptor in (each for pid in pids for each in Path(f"/proc/{pid}/fd").glob("*")):
        with contextlib.suppress(OSError):  # closed meanwhile
            sockets.add(os.readlink(descriptor).removeprefix("socket:[").removesuffix("]"))
    lines = [line.split() for name in ("tcp", "tcp6") for line in Path(f"/proc/net/{name}").read_text().splitlines()]
    return {local.partition(":")[0] for _, local, _, state, *rest in lines if state == "0A" and rest[5] in sockets}
