"""Opening an LMDB environment as a store, and what its errors mean."""

from __future__ import annotations

import errno
import logging
import os
import shutil
import stat
import struct
from pathlib import Path
from typing import Any, Literal

import lmdb

from hbase_store.backends.keyvalue import TABLES
from hbase_store.backends.meta_cells import LAYOUT_KEY, LAYOUT_VERSION, check_layout
from hbase_store.errors import Corrupt, DiskFull, LayoutError, StoreError, StoreUnavailable

log = logging.getLogger("rillet.store")

Durability = Literal["process", "power"]

READERS_MAX = 1024

#: A store is for its owner.
_OWNER_FILE, _OWNER_FOLDER = 0o600, 0o700

#: Before each value: the time of its cell.
CELL_TIME = struct.Struct(">q")
# The time of what compare-and-set wrote: later than any that a delete names, as on HBase, which writes the hour.
COMPARED_AND_SET = (1 << 63) - 1


def open_environment(path: str, read_only: bool, durability: Durability, map_bytes: int) -> Any:
    folder = Path(path)
    if folder.exists() and not folder.is_dir():
        raise StoreUnavailable(f"{path} is a file; a store is a folder: choose another path")
    if read_only and not (folder / "data.mdb").exists():
        raise StoreUnavailable(f"there is no store in {path}: check the path, or open it for writing, which creates it")
    try:
        if not read_only:
            folder.mkdir(mode=_OWNER_FOLDER, parents=True, exist_ok=True)
            _warn_if_others_may_read(folder)
        return lmdb.open(
            path,
            map_size=map_bytes,
            max_dbs=len(TABLES),
            max_readers=READERS_MAX,
            readonly=read_only,
            sync=durability == "power",
            metasync=durability == "power",
            mode=_OWNER_FILE,
        )
    except (OSError, lmdb.ReadonlyError) as error:
        raise StoreUnavailable(f"{path} cannot be opened{_purpose(read_only)}: {error}") from error


def _warn_if_others_may_read(folder: Path) -> None:
    """A folder that was there before keeps its permissions: it may not be there for us alone."""
    if folder.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        log.warning(
            "the folder of the store is open to other users of this machine: close it with chmod -R go= FOLDER",
            extra={"fields": {"folder": str(folder)}},
        )


def _purpose(read_only: bool) -> str:
    # Readers too register in lock.mdb.
    return " (reading needs write access to lock.mdb in it)" if read_only else " for writing; check its permissions"


def open_tables(environment: Any, path: str, read_only: bool) -> dict[str, Any]:
    if not read_only:
        _make_tables(environment)
    try:
        tables = {table: environment.open_db(table.encode(), create=False) for table in TABLES}
    except (lmdb.NotFoundError, lmdb.IncompatibleError) as error:
        raise LayoutError(
            f"{path} contains an LMDB environment that is not a Rillet store; choose another path"
        ) from error
    with environment.begin(buffers=True) as transaction:
        cell = transaction.get(LAYOUT_KEY, db=tables["meta"])
        check_layout(None if cell is None else bytes(cell[8:]), path)
    return tables


def _make_tables(environment: Any) -> None:
    """Makes the tables in an empty environment, in one transaction with the layout version."""
    with environment.begin(write=True) as transaction:
        if transaction.stat()["entries"] == 0:
            tables = {table: environment.open_db(table.encode(), txn=transaction) for table in TABLES}
            transaction.put(LAYOUT_KEY, CELL_TIME.pack(COMPARED_AND_SET) + LAYOUT_VERSION, db=tables["meta"])


# ---- errors

# LMDB takes a write that was cut short, as the last one on a full disk is, for an I/O error.
_NO_ROOM = (errno.EIO, errno.EFBIG, errno.EDQUOT, errno.ENOSPC)


class named_errors:
    """Raises errors of LMDB as errors of the store. A class, for each call of the store enters one."""

    __slots__ = ("_path",)

    def __init__(self, path: str) -> None:
        self._path = path

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, lmdb.Error):
            raise _named(self._path, error) from error


def _named(path: str, error: Exception) -> StoreError:
    match error:
        case lmdb.DiskError():
            return DiskFull(_disk_full(path, error))
        case lmdb.MapFullError():
            return StoreUnavailable(f"{path} has filled its address space and cannot grow further")
        case lmdb.ReadersFullError():
            return StoreUnavailable(f"{path} already has {READERS_MAX} readers; stop some of them")
        case lmdb.CorruptedError() | lmdb.InvalidError() | lmdb.PageNotFoundError() | lmdb.PanicError():
            return Corrupt(f"{path} cannot be read: {error}; restore it from a backup, or load the data again")
        case lmdb.VersionMismatchError():
            return LayoutError(f"{path} was written by another version of LMDB: {error}")
    if any(os.strerror(number) in str(error) for number in _NO_ROOM):
        return DiskFull(_disk_full(path, error))
    return StoreUnavailable(f"{path}: {error}; check the disk and its free space")


def _disk_full(path: str, error: Exception) -> str:
    free = shutil.disk_usage(path).free
    return (
        f"no space is left for {path}, or its disk fails ({error}; {free >> 20} MB are free): nothing was "
        "written; free some space, and try again"
    )
