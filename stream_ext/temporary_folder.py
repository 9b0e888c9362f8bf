"""Temporary folders that are removed even if their process is killed: by the next one that makes such a folder."""

from __future__ import annotations

import contextlib
import fcntl
import shutil
import tempfile
from pathlib import Path

_REMOVED = ".removed"


class TemporaryFolder:
    """Its lock is held while it is in use, so that one which a process left behind when it was killed is known as such,
    and removed by the next."""

    def __init__(self, parent: Path, prefix: str) -> None:
        for left in parent.glob(f"{prefix}*/lock"):
            _remove_unless_locked(left)
        self.path = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
        # Locked before it gets its name: an unlocked one would be anybody's to remove.
        unnamed = self.path / "lock.new"
        self._lock = unnamed.open("w")
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        unnamed.rename(self.path / "lock")

    def remove(self) -> None:
        with contextlib.suppress(OSError):  # the next process finds what is left
            _remove(self.path)
        self._lock.close()


def _remove_unless_locked(lock: Path) -> None:
    with contextlib.suppress(OSError), lock.open("r+") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        _remove(lock.parent)


def _remove(folder: Path) -> None:
    """The lock goes last: as long as anything is left, the next process finds it."""
    if folder.suffix != _REMOVED:
        with contextlib.suppress(OSError):  # who still writes files by their old names makes no more of them
            folder = folder.rename(folder.with_name(folder.name + _REMOVED))
    for entry in folder.iterdir():
        if entry.name == "lock":
            continue
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry, ignore_errors=True)
        else:
            entry.unlink(missing_ok=True)
    if [entry.name for entry in folder.iterdir()] == ["lock"]:
        shutil.rmtree(folder, ignore_errors=True)
