"""Processes, seen from outside: who belongs to whom, and whether they have ended."""

from __future__ import annotations

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
