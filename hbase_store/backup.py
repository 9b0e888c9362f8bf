"""Backup: a copy of a store in a folder, made while others write to it, and verified by reading all of it.

A backup is a store itself, on LMDB, whatever the store is on: `rillet serve --store lmdb:FOLDER/store` could serve it.

    1. all rows are copied                            rows are immutable: those of a snapshot never change
    2. the heads are read, then all rows copied again   what was written meanwhile, and belongs to these heads
    3. the copy gets these heads, and is read as a whole

A row that the heads need is there when they are read, so it is copied in step 2, unless it is deleted before that. Then
it was there in step 1 already, because deleted data was retained for some minutes. If it was not, as copying takes so
long, step 3 fails, and step 2 begins again."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from hbase_store.backends.keyvalue import TABLES, CompareAndSet, Key, KeyValue, Put, Value
from hbase_store.backends.lease import Leasing
from hbase_store.backends.meta_cells import LAYOUT_KEY, LAYOUT_VERSION, LEASE_KEY
from hbase_store.backends.shared_cells import SHARED_PREFIX
from hbase_store.clock import WallClock
from hbase_store.edges.snapshot import NAMED
from hbase_store.errors import Corrupt, LayoutError, SnapshotGone, StoreError, StoreUnavailable
from hbase_store.layout.terms import NO_TERM
from hbase_store.opening import connect
from hbase_store.store import Store
from hbase_store.verification import check_rows

log = logging.getLogger("rillet.store")

_HEAD, _EMITTED = b"head", b"emitted"
#: Of rows that were copied: earlier than any that a delete names later.
_CELL_TIME = 1
_ROWS_AT_ONCE, _BYTES_AT_ONCE = 1_000, 1 << 20
_TRIES = 5
_MANIFEST, _STORE = "backup.json", "store"
_TERMS_AT_ONCE = 50_000

Progress = Callable[[str], None]


class Manifest(msgspec.Struct):
    """What a complete backup says of itself."""

    snapshot: int
    commit: int  # of emissions
    rows: int
    source: str
    made: str
    layout: str = LAYOUT_VERSION.decode()


@dataclass(frozen=True, slots=True)
class _Heads:
    """`emitted` is read first: the emissions then follow from snapshots up to `head`."""

    emitted: Value | None
    head: Value | None

    @classmethod
    def read(cls, kv: KeyValue) -> _Heads:
        (emitted,) = kv.get_many("meta", [_EMITTED])
        (head,) = kv.get_many("meta", [_HEAD])
        return cls(emitted, head)


def backup(url: str, folder: str | Path, progress: Progress = lambda line: None) -> Manifest:
    """Copies the store at `url` into a folder, which must be new or empty."""
    folder = Path(folder)
    if folder.exists() and any(folder.iterdir()):
        raise StoreUnavailable(f"{folder} is not empty; name a new folder for the backup")
    source = connect(url, True, "process")
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        target = connect(f"lmdb:{folder / _STORE}", False, "process")
        try:
            snapshot, commit, rows = copy_store(source, target, progress)
            target.sync()
        finally:
            target.close()
    finally:
        source.close()
    manifest = Manifest(snapshot, commit, rows, url, datetime.now(UTC).isoformat(timespec="seconds"))
    (folder / _MANIFEST).write_bytes(msgspec.json.format(msgspec.json.encode(manifest)) + b"\n")
    return manifest


def restore(folder: str | Path, url: str, progress: Progress = lambda line: None) -> Manifest:
    """Copies a backup into the store at `url`, which must be new or empty, and reads all of it there."""
    manifest = manifest_of(Path(folder))
    source = connect(f"lmdb:{Path(folder) / _STORE}", True, "process")
    try:
        target = connect(url, False, "process")
        try:
            _check_empty(target, url)
            lease = target.lease(WallClock())
            lease.take("")
            copy_store(source, target, progress)
            target.sync()
            lease.release()
        finally:
            target.close()
    finally:
        source.close()
    return manifest


def manifest_of(folder: Path) -> Manifest:
    try:
        manifest = msgspec.json.decode((folder / _MANIFEST).read_bytes(), type=Manifest)
    except FileNotFoundError:
        raise StoreUnavailable(
            f"{folder} has no {_MANIFEST}: it is not a backup, or the backup was not completed; make another one"
        ) from None
    except msgspec.DecodeError as error:
        raise StoreUnavailable(f"{folder / _MANIFEST} cannot be read: {error}") from error
    if manifest.layout != LAYOUT_VERSION.decode():
        raise LayoutError(
            f"{folder} has layout version {manifest.layout}, this Rillet reads version {LAYOUT_VERSION.decode()}; "
            "restore it with the Rillet that made it"
        )
    return manifest


def _check_empty(target: KeyValue, url: str) -> None:
    if _Heads.read(target).head is not None:
        raise StoreUnavailable(f"{url} has data; restore into a new store")


def copy_store(source: KeyValue, target: Leasing, progress: Progress = lambda line: None) -> tuple[int, int, int]:
    """Copies a store that others may write to meanwhile; the snapshot, the commit and the rows of the copy."""
    _copy_rows(source, target, progress)
    failure: StoreError | None = None
    for _ in range(_TRIES):
        heads = _Heads.read(source)
        _copy_rows(source, target, progress)
        _copy_cells(source, target)
        for key, value in ((_HEAD, heads.head), (_EMITTED, heads.emitted)):
            _set(target, key, value)
        try:
            progress("reading all of the copy")
            return check_all(target)
        except (Corrupt, SnapshotGone) as error:
            failure = error
            log.warning("a copy is not complete yet; it is made again", extra={"fields": {"why": str(error)}})
    raise StoreUnavailable(
        f"rows were deleted before they could be copied, {_TRIES} times: start the server with a longer "
        f"--retain-snapshots, or copy when less is written ({failure})"
    ) from failure


def _copy_rows(source: KeyValue, target: KeyValue, progress: Progress) -> None:
    for table in TABLES:
        if table == "meta":
            continue
        copied = 0
        for rows in _chunks(source.scan(table, b"", None)):
            there = target.get_many(table, [key for key, _ in rows])
            new = [row for row, known in zip(rows, there, strict=True) if row[1] != known]
            target.put_many(Put(table, key, value, _CELL_TIME) for key, value in new)
            copied += len(new)
        if copied:
            progress(f"{table}: {copied} rows")


def _copy_cells(source: KeyValue, target: KeyValue) -> None:
    """The cells of `meta` besides the heads: counters, late elements. Counters may be ahead of the heads."""
    own = (_HEAD, _EMITTED, LEASE_KEY, LAYOUT_KEY)
    cells = [(key, value) for key, value in source.scan("meta", b"", None) if key not in own]
    target.put_many(Put("meta", key, value, _CELL_TIME) for key, value in cells if not key.startswith(SHARED_PREFIX))


def _set(target: KeyValue, key: Key, value: Value | None) -> None:
    (found,) = target.get_many("meta", [key])
    if value is not None and found != value and not target.publish([], CompareAndSet(key, found, value)):
        raise StoreUnavailable("another process writes to the copy; make sure that only one does")


def _chunks(rows: Iterable[tuple[Key, Value]]) -> Iterator[list[tuple[Key, Value]]]:
    chunk: list[tuple[Key, Value]] = []
    size = 0
    for row in rows:
        chunk.append(row)
        size += len(row[0]) + len(row[1])
        if len(chunk) >= _ROWS_AT_ONCE or size >= _BYTES_AT_ONCE:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


# ---- reading all ---------------------------------------------------------------------------------------------------


def check_all(kv: Leasing) -> tuple[int, int, int]:
    """Reads all that a store has: its snapshot, commit and rows; raises Corrupt or SnapshotGone if a part is
    missing."""
    rows = check_rows(kv)
    store = Store(kv, "the copy", WallClock(), folding=False)
    head = int(store.head())
    if head:
        _read_edges(store, head)
        _read_streams(store, head)
    _read_emissions(store)
    return head, store.emissions.commits, rows


def _read_edges(store: Store, head: int) -> None:
    snapshot = store.at(head)
    for place in (NO_TERM, NAMED):
        for predicate in snapshot.predicates(place).tolist():
            for column in (
                *snapshot.pairs(predicate, graph=place),
                *snapshot.pairs(predicate, inverse=True, graph=place),
            ):
                for start in range(0, len(column), _TERMS_AT_ONCE):
                    store.terms(column[start : start + _TERMS_AT_ONCE])


def _read_streams(store: Store, head: int) -> None:
    for stream in store.vts(head):
        for row, number, _ in store.snapshots_with_elements(stream, head):
            if row is not None and number >= store.horizon(stream):
                store.stream(row.sn, stream)


def _read_emissions(store: Store) -> None:
    so_far = store.emissions.so_far()
    for query in so_far.queries():
        last = so_far.last(query)
        numbers = [row.number for row in store.emissions.read(query)]
        if numbers and numbers != list(range(numbers[0], last + 1)):
            raise Corrupt(f"of the emissions of query {query} up to {last}, some are missing")
