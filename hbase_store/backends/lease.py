"""The writer lease: at most one process writes to a store, and the others learn who it is.

On LMDB it is a lock on a file, which the kernel gives back when the process dies. On HBase it is a cell that
says until when it holds, renewed in time by compare-and-set. Clocks of two machines may differ, so such a lease
only keeps writers from wasting work: what keeps the store whole is that every publish compares the head."""

from __future__ import annotations

import fcntl
import logging
import os
import secrets
import socket
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import msgspec

from hbase_store.backends.keyvalue import CompareAndSet, KeyValue
from hbase_store.backends.meta_cells import LEASE_KEY
from hbase_store.clock import Clock
from hbase_store.errors import AnotherWriter, StoreError, StoreUnavailable

LEASE_MS = 30_000
#: So often the cell is read again when it was not as expected.
_TRIES = 4

log = logging.getLogger("rillet.lease")


class Lease(Protocol):
    def take(self, address: str) -> None:
        """Become the writer, or stay it; `address` is where others send their writes ('' for no server).

        Raises AnotherWriter."""
        ...

    @property
    def owned(self) -> bool:
        """Whether this process is the writer now."""
        ...

    @property
    def lost(self) -> bool:
        """Whether the lease is certainly not ours: it was never taken, or released, or another process took it."""
        ...

    def regain(self) -> bool:
        """Renews a lease whose time was over; returns whether this process is the writer again, as nobody else took the
        lease meanwhile. If somebody did, only `take` gets it back: then the store has to be read first."""
        ...

    def release(self) -> None:
        """Let others write. Does nothing if the lease is not held."""
        ...


class Leasing(KeyValue, Protocol):
    """A key-value backend with a writer lease; `lease` returns the same one each time."""

    def lease(self, clock: Clock) -> Lease: ...


# ---- LMDB: a lock on a file


class FileHolder(msgspec.Struct):
    """The content of the lock file while the lease is held; `release` empties the file. `boot`: that of the machine, or
    empty if written data survives a crash of the machine."""

    address: str = ""
    pid: int = 0
    boot: str = ""


@dataclass(frozen=True, slots=True)
class _Lock:
    descriptor: int
    pid: int
    lease: FileLease


# POSIX drops a process's lock when the process closes any descriptor of that file, so there is just one, here.
_locks: dict[Path, _Lock] = {}
_locks_lock = threading.Lock()


class FileLease:
    """A POSIX lock on `writer.lock` in the folder of a store. A forked child does not inherit it."""

    def __init__(self, folder: str | os.PathLike[str], survives: bool = False) -> None:
        """`survives`: what is acknowledged is on disk, so that a crash of the machine loses nothing."""
        self._file = Path(os.path.realpath(folder)) / "writer.lock"
        self._boot = "" if survives else this_boot()

    def take(self, address: str) -> None:
        with _locks_lock:
            lock = self._here()
            if lock is None:
                lock = _locks[self._file] = self._lock()
            if lock.lease is not self:
                raise AnotherWriter(_read_holder(lock.descriptor).address, os.getpid(), str(self._file.parent))
            _write_holder(lock.descriptor, FileHolder(address, os.getpid(), self._boot))

    def machine_crashed(self) -> bool:
        """Whether the machine crashed or was restarted while a process was writing."""
        try:
            holder = _holder_in(self._file.read_bytes())
        except FileNotFoundError:
            return False
        except OSError as error:
            raise StoreUnavailable(f"{self._file} cannot be read; check its permissions: {error}") from error
        return holder.boot not in ("", this_boot())

    @property
    def owned(self) -> bool:
        with _locks_lock:
            lock = self._here()
            return lock is not None and lock.lease is self

    @property
    def lost(self) -> bool:
        return not self.owned

    def regain(self) -> bool:
        return self.owned  # the kernel takes a lock from nobody

    def release(self) -> None:
        with _locks_lock:
            lock = self._here()
            if lock is None or lock.lease is not self:
                return
            os.ftruncate(lock.descriptor, 0)
            os.close(lock.descriptor)
            del _locks[self._file]

    def _here(self) -> _Lock | None:
        """The lock of this process; a descriptor inherited through fork carries none and is closed."""
        lock = _locks.get(self._file)
        if lock is not None and lock.pid != os.getpid():
            os.close(lock.descriptor)
            del _locks[self._file]
            return None
        return lock

    def _lock(self) -> _Lock:
        try:
            descriptor = os.open(self._file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)  # its owner's, as the store
        except OSError as error:
            raise StoreUnavailable(
                f"{self._file} cannot be opened, so no process can write to this store: {error}"
            ) from error
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):
            holder = _read_holder(descriptor)
            os.close(descriptor)
            raise AnotherWriter(holder.address, holder.pid, str(self._file.parent)) from None
        return _Lock(descriptor, os.getpid(), self)


def _read_holder(descriptor: int) -> FileHolder:
    return _holder_in(os.pread(descriptor, 1 << 16, 0))


def _holder_in(content: bytes) -> FileHolder:
    try:
        return msgspec.json.decode(content, type=FileHolder)
    except msgspec.DecodeError:
        return FileHolder()  # taken this instant: the holder has yet to write its name


def _write_holder(descriptor: int, holder: FileHolder) -> None:
    content = msgspec.json.encode(holder)
    os.pwrite(descriptor, content, 0)
    os.ftruncate(descriptor, len(content))
    os.fsync(descriptor)  # after a crash of the machine it must say that there was one


# ---- HBase: a cell that expires


class CellHolder(msgspec.Struct, frozen=True):
    """What the lease cell says. A released lease holds until 0."""

    token: str
    address: str
    host: str
    pid: int
    until_ms: int
    renewal: int  # makes each value unlike all before, as compare-and-set needs
    machine: str = ""  # this boot of a machine and its process namespace: where `pid` means something
    born: int = 0  # when the process began: a pid may be given to another one later


def this_boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def this_machine() -> str:
    return f"{this_boot()}/{os.readlink('/proc/self/ns/pid')}"


def born(pid: int) -> int | None:
    """When a process of this machine began, in clock ticks since boot; None if there is no such process."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = status[status.rindex(")") + 2 :].split()
    return None if fields[0] == "Z" else int(fields[19])


def is_dead(holder: CellHolder) -> bool:
    """The holder ran on this machine and is no more: one who was killed need not be waited for."""
    return holder.machine == this_machine() and born(holder.pid) != holder.born


def holder_of(backend: KeyValue) -> CellHolder | None:
    """What the cell says: who has the lease, or had it last; None: nobody ever had it."""
    (cell,) = backend.get_many("meta", [LEASE_KEY])
    return None if cell is None else msgspec.json.decode(cell, type=CellHolder)


class CellLease:
    """A cell of `meta`, which a thread renews three times per `lease_ms`.

    It is owned until its time is over. It is lost when the cell says that another process took it. In between, when its
    time is over and nobody took it, it is neither: the cell is as we left it, so no other process can have written, and
    it is ours again as soon as a renewal succeeds. A call that was given up may still succeed, and is ours, too."""

    def __init__(self, backend: KeyValue, clock: Clock, where: str, lease_ms: int = LEASE_MS) -> None:
        self._backend = backend
        self._clock = clock
        self._where = where
        self._lease_ms = lease_ms
        self._token = secrets.token_hex(16)
        self._changed = threading.Condition()
        self._mine: CellHolder | None = None
        self._address = ""
        self._renew_at_ms = 0
        self._renewer: threading.Thread | None = None
        self._is_released = False

    def take(self, address: str) -> None:
        with self._changed:
            self._address, self._is_released = address, False
            holder = self._set_ours(free=True)
            if holder is not None:
                self._lose(holder)
                raise self._another_writer(holder)
            if self._renewer is None or not self._renewer.is_alive():
                self._renewer = threading.Thread(target=self._renew_while_ours, name="lease", daemon=True)
                self._renewer.start()

    @property
    def owned(self) -> bool:
        mine = self._mine  # without the lock, which a renewal keeps while HBase is slow
        return mine is not None and self._is_ours(mine) and self._clock.now_ms() < mine.until_ms

    @property
    def lost(self) -> bool:
        return self._mine is None

    def regain(self) -> bool:
        with self._changed:
            if self._mine is None or not self._is_ours(self._mine):
                return False
            holder = self._set_ours()
            if holder is not None:
                self._lose(holder)
            return self.owned

    def release(self) -> None:
        # Before the lock is taken: a thread whose renewals take longer than they last renews without a pause.
        self._is_released = True
        with self._changed:
            mine, self._mine = self._mine, None
            self._changed.notify_all()
            if mine is not None and self._is_ours(mine):
                self._set_ours(over=True)

    def _is_over(self, holder: CellHolder) -> bool:
        return holder.until_ms <= self._clock.now_ms() or is_dead(holder)

    def _is_ours(self, holder: CellHolder) -> bool:
        return holder.token == self._token and holder.pid == os.getpid()  # a forked child has the token too

    def _renew_while_ours(self) -> None:
        with self._changed:
            try:
                while self._mine is not None and not self._is_released:
                    if self._clock.now_ms() >= self._renew_at_ms:
                        self._renew()
                    else:
                        self._clock.wait(self._changed, self._renew_at_ms)
            finally:
                self._renewer = None  # the next `take` starts another

    def _renew(self) -> None:
        try:
            holder = self._set_ours()
        except StoreError:
            # Not the end: an HBase that moves a region answers again after some seconds, and nobody else can have
            # taken what nobody can write.
            self._renew_at_ms = self._clock.now_ms() + self._lease_ms // 10
            return
        if holder is not None:
            self._lose(holder)

    def _set_ours(self, free: bool = False, over: bool = False) -> CellHolder | None:
        """Renews it, or takes it if it is free and that is wanted, or gives it back (`over`); None, or who has it.

        Each try begins from what is there: an earlier call of ours that was given up may have been done since."""
        found = self._mine
        for _ in range(_TRIES):
            if found is None:
                found = self._read()
            if found is not None and not self._is_ours(found) and not (free and self._is_over(found)):
                return found
            new = self._next(found, over)
            if self._replace(found, new):
                self._hold(new) if not over else None
                return None
            found = None
        raise StoreUnavailable(
            f"the writer's lease of {self._where} changes again and again; make sure that only one process writes"
        )

    def _hold(self, mine: CellHolder) -> None:
        self._mine = mine
        self._renew_at_ms = mine.until_ms - self._lease_ms * 2 // 3
        self._changed.notify_all()

    def _lose(self, holder: CellHolder) -> None:
        if self._mine is not None:
            fields = {"store": self._where, "writer": holder.address, "host": holder.host, "pid": holder.pid}
            log.warning("another process has taken the writer's lease", extra={"fields": fields})
        self._mine = None
        self._changed.notify_all()

    def _next(self, found: CellHolder | None, over: bool) -> CellHolder:
        until_ms = 0 if over else self._clock.now_ms() + self._lease_ms
        renewal = 0 if found is None else found.renewal + 1
        pid = os.getpid()
        return CellHolder(
            self._token, self._address, socket.gethostname(), pid, until_ms, renewal, this_machine(), born(pid) or 0
        )

    def _read(self) -> CellHolder | None:
        return holder_of(self._backend)

    def _replace(self, expected: CellHolder | None, new: CellHolder) -> bool:
        old = None if expected is None else msgspec.json.encode(expected)
        return self._backend.publish([], CompareAndSet(LEASE_KEY, old, msgspec.json.encode(new)))

    def _another_writer(self, holder: CellHolder) -> AnotherWriter:
        return AnotherWriter(holder.address, holder.pid, f"{self._where} (on {holder.host})")
