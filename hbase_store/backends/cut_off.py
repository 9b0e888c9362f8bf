"""A data file of LMDB that was cut off: noticed by its length, before a page that is not there is touched.

LMDB maps its file, and who reads a page behind the end of the file is killed by the kernel (SIGBUS), which nobody can
catch. So the length is compared with the last page in use when the store is opened, and later on with what it was: LMDB
never shortens its file."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from hbase_store.errors import Corrupt

_FILE = "data.mdb"

# The last pages may never have been written, where they were taken and let go within one transaction. So all of a file
# that is too short is read once, in a process that may die of it.
#: What Python may need of our environment; there may be secrets in the rest.
_NEEDED = ("PATH", "PYTHONPATH", "LD_LIBRARY_PATH")
_READ_ALL = """
import sys, lmdb
with lmdb.open(sys.argv[1], readonly=True, lock=False, max_dbs=64) as environment, environment.begin() as main:
    for name, _ in main.cursor():
        for key, value in main.cursor(db=environment.open_db(name, txn=main, create=False)):
            len(value) and value[-1]
"""


class Length:
    """Of the data file of one environment."""

    def __init__(self, folder: str, read_only: bool) -> None:
        self._path, self._read_only = Path(folder) / _FILE, read_only
        self._descriptor = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        self._bytes = os.fstat(self._descriptor).st_size

    def check_all_is_there(self, environment: Any) -> None:
        """Raises Corrupt if pages that are in use are behind the end."""
        needed = (environment.info()["last_pgno"] + 1) * environment.stat()["psize"]
        self._bytes = os.fstat(self._descriptor).st_size
        if self._bytes < needed:
            argv = [sys.executable, "-c", _READ_ALL, str(self._path.parent)]
            environ = {name: os.environ[name] for name in _NEEDED if name in os.environ}
            if subprocess.run(argv, env=environ, stderr=subprocess.DEVNULL, check=False).returncode != 0:
                raise self._cut_off(self._bytes, needed)
            if not self._read_only:  # LMDB's own list of free pages may be there, which it tells from zeros
                with self._path.open("r+b") as file:
                    os.posix_fallocate(file.fileno(), needed - 1, 1)  # which never makes it shorter

    def check(self) -> None:
        """Raises Corrupt if the file has become shorter."""
        known = self._bytes  # before the look: other threads write, and look, meanwhile
        now = os.fstat(self._descriptor).st_size
        if now < known:
            raise self._cut_off(now, known)
        self._bytes = now

    def close(self) -> None:
        os.close(self._descriptor)

    def _cut_off(self, found: int, needed: int) -> Corrupt:
        return Corrupt(
            f"{self._path} has {found} bytes, but {needed} are in use: it was cut off by an incomplete copy or by "
            "another program; restore it from a backup, or load the data again"
        )


def check_not_emptied(folder: str) -> None:
    """LMDB takes an empty file for a new store; Corrupt if the store was written before."""
    path = Path(folder) / _FILE
    if (Path(folder) / "writer.lock").exists() and path.exists() and path.stat().st_size == 0:
        raise Corrupt(
            f"{path} is empty, but it was a store: restore it from a backup, or remove the folder to "
            "start with an empty store"
        )
