"""What the tasks of a divided load leave to each other: arrays in files of one folder, and packed rows of tables.

A file is written by one task, and read by others when that task has ended."""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from hbase_store.arrays import Ids, Offsets
from hbase_store.backends.keyvalue import Put
from hbase_store.writing.loading import Loading, Numbers32, Terms

_OF_TERMS = ("texts", "offsets", "hashes")
_SIZES = struct.Struct("<HI")


class FolderFailed(OSError):
    """Nothing more can be written into the folder."""


class LoadFolder:
    """Part n of the load has `texts`, `offsets` and `hashes` of its terms, `rows` and `predicates` in numbers of these
    terms, and, since all parts are read, the `ids` of the terms."""

    def __init__(self, path: str) -> None:
        self.path = Path(path)

    def write(self, name: str, array: npt.NDArray[Any]) -> None:
        path = self.path / f"{name}.npy"
        try:
            np.save(path, array, allow_pickle=False)
        except OSError as error:
            number = error.errno or errno.ENOSPC  # numpy only says that less was written: there is no more room
            raise FolderFailed(number, os.strerror(number), str(path)) from error

    def array(self, name: str) -> npt.NDArray[Any]:
        # Copied on write, as kernels are compiled for arrays that may be written.
        return np.asarray(np.load(self.path / f"{name}.npy", mmap_mode="c", allow_pickle=False))

    # ---- parts

    def write_part(self, part: int, loading: Loading) -> None:
        rows = np.stack(loading.columns(None))
        self.write_terms(part_name(part, ""), loading.terms)
        self.write(part_name(part, "rows"), rows if (rows[3] >= 0).any() else rows[:3])
        self.write(part_name(part, "predicates"), np.flatnonzero(np.bincount(rows[1], minlength=1)))

    def write_terms(self, prefix: str, terms: Terms) -> None:
        count = len(terms)
        self.write(f"{prefix}texts", terms.arena[: int(terms.offsets[count])])
        self.write(f"{prefix}offsets", terms.offsets[: count + 1])
        self.write(f"{prefix}hashes", terms.hashes[:count])

    def terms(self, prefix: str) -> tuple[npt.NDArray[np.uint8], Offsets, Ids]:
        texts, offsets, hashes = (self.array(f"{prefix}{what}") for what in _OF_TERMS)
        return texts, offsets, hashes

    def remove_terms(self, prefix: str) -> None:
        """They have common numbers now."""
        for what in _OF_TERMS:
            (self.path / f"{prefix}{what}.npy").unlink()

    def rows(self, part: int) -> Numbers32:
        """Subjects, predicates, objects and, if any is named, graphs (-1 for none)."""
        return self.array(part_name(part, "rows"))

    # ---- packed rows

    def write_puts(self, name: str, puts: Iterator[Put]) -> None:
        with (self.path / name).open("wb") as file:
            for put in puts:
                file.write(_SIZES.pack(len(put.key), len(put.value)))
                file.write(put.key)
                file.write(put.value)

    def puts(self, name: str, table: str, time: int) -> Iterator[Put]:
        with (self.path / name).open("rb") as file:
            while sizes := file.read(_SIZES.size):
                key_size, size = _SIZES.unpack(sizes)
                yield Put(table, _exactly(file, key_size), _exactly(file, size), time)


def part_name(part: int, what: str) -> str:
    return f"{part}-{what}"


def _exactly(file: IO[bytes], size: int) -> bytes:
    data = file.read(size)
    if len(data) < size:
        raise OSError(f"{file.name} is cut off")
    return data
