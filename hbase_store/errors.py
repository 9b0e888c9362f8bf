"""What can go wrong in the store that is not our bug. A message says what, where, and what to do next.

StoreError
├── BadStoreUrl        the address of a store is not one
├── BadRow             a key or value that the backends cannot hold
├── Unwritable         a batch that cannot be packed into rows; nothing of it was written, and the next one may be
├── StoreUnavailable   the store does not exist, cannot be reached, or is open in a process that excludes others
│   ├── DiskFull           its disk has no room left, or fails
│   └── StoreRefused       a table is absent there, or a right: waiting does not help
├── LayoutError        what is there was written by another version, or by something else
├── Corrupt            what was written cannot be read back
├── IdsExhausted       all numbers that terms or blank nodes could have are given away
├── SnapshotGone       the snapshot was there, and is not retained any more
├── AnotherWriter    another process is the one writer (`address`, `pid`)
└── Fenced             we were the writer, and are not any more; nothing of the last batch counts
    └── Undecided          the same, but whether the last batch counts cannot be found out
"""

from __future__ import annotations


class StoreError(Exception):
    """The root: every error of the store that a user can cause or must know."""


class BadStoreUrl(StoreError):
    pass


class BadRow(StoreError):
    pass


class Unwritable(StoreError):
    pass


class StoreUnavailable(StoreError):
    pass


class DiskFull(StoreUnavailable):
    pass


class StoreRefused(StoreUnavailable):
    pass


class LayoutError(StoreError):
    pass


class Corrupt(StoreError):
    pass


class IdsExhausted(StoreError):
    pass


class NotInMemory(Exception):
    """A thread that must not wait would have to (`memory_only`): no error, for another thread reads it then."""


class SnapshotGone(StoreError):
    pass


class AnotherWriter(StoreError):
    """`address` is empty if the writer is no server; `pid` is 0 if it is not known yet."""

    def __init__(self, address: str, pid: int, where: str) -> None:
        self.address, self.pid, self.where = address, pid, where
        who = f"process {pid}" if pid else "another process"
        if address:
            advice = f"send writes to {address}, or stop that process"
        else:
            advice = "that process is not a server: wait until it ends, or stop it"
        super().__init__(f"{who} is the writer of {where}; {advice}")

    def __reduce__(self) -> tuple[type[AnotherWriter], tuple[str, int, str]]:
        # By default an exception is pickled as its message alone, which is not what __init__ takes.
        return type(self), (self.address, self.pid, self.where)


class Fenced(StoreError):
    pass


class Undecided(Fenced):
    pass
