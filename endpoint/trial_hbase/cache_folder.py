"""Where programs that were fetched once are kept, for all processes and all runs of this machine."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def folder(name: str, setting: str) -> Path:
    """The folder of that name in the cache, or what the environment variable `setting` names instead."""
    path = Path(os.environ.get(setting) or Path.home() / ".cache" / "rillet" / name)
    path.mkdir(parents=True, exist_ok=True)
    return path


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Processes that start together wait for one another."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
