"""The head of a log: the one cell that says which rows count.

Rows are written first, under a writer epoch and a number; then one compare-and-set of the head makes them
count. A writer that was replaced may still write rows, but they lie outside the range of numbers that the head
grants its epoch, so no reader looks at them. The store has a head (numbers are SNs), and so has the emission log.

A compare-and-set that fails may have been applied with its reply lost, so the cell is read again: our own
token there means won, the old value means undecided (then the identical bytes are written again), anything else
means that another writer took over."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import msgspec

from hbase_store.backends.keyvalue import CompareAndSet, Key, KeyValue, Put, Value
from hbase_store.errors import Fenced, StoreUnavailable, Undecided
from hbase_store.layout.sealed import seal_struct, unseal_struct

_MAGIC = b"RH"
_TRIES = 4


class Range(msgspec.Struct, array_like=True, frozen=True):
    """The numbers first..last were written under this epoch."""

    epoch: int
    first: int
    last: int


class Head(msgspec.Struct, array_like=True, frozen=True):
    """`token` is drawn anew for each compare-and-set, so that every value of the cell is its writer's own.

    `run_list` is the number of the list of runs that counts; the emission log has none."""

    epoch: int
    token: bytes
    last: int
    ranges: tuple[Range, ...]
    run_list: int = 0

    def epoch_of(self, number: int) -> int:
        """The writer epoch whose row of this number counts; 0 if there is none."""
        for granted in reversed(self.ranges):
            if granted.first <= number:
                return granted.epoch if number <= granted.last else 0
        return 0

    def advanced(self, run_list: int | None = None, needed_from: int = 0, count: int = 1) -> Head:
        """The head after `count` more numbers of the same epoch, with another run list if one is given; and without
        the ranges that have no row from `needed_from` on."""
        last = self.last + count
        ranges = self._needed(needed_from)
        if ranges and ranges[-1].epoch == self.epoch:
            ranges = (*ranges[:-1], Range(self.epoch, ranges[-1].first, last))
        else:
            ranges = (*ranges, Range(self.epoch, self.last + 1, last))
        return Head(self.epoch, secrets.token_bytes(8), last, ranges, self.run_list if run_list is None else run_list)

    def next_epoch(self) -> Head:
        """The head of a writer that takes over: the next epoch, with no number of its own yet."""
        return Head(self.epoch + 1, secrets.token_bytes(8), self.last, self.ranges, self.run_list)

    def with_runs(self, run_list: int, needed_from: int = 0) -> Head:
        """The same head with another run list; and without the ranges that have no row from `needed_from` on."""
        return Head(self.epoch, secrets.token_bytes(8), self.last, self._needed(needed_from), run_list)

    def _needed(self, needed_from: int) -> tuple[Range, ...]:
        return tuple(granted for granted in self.ranges if granted.last >= needed_from)


NO_HEAD = Head(0, b"", 0, ())


def _same(mine: Head, found: Head) -> bool:
    return found.token == mine.token


def pack_head(head: Head) -> Value:
    return seal_struct(_MAGIC, head)


@dataclass(frozen=True, slots=True)
class _Installation:
    """A run list on its way into the head: the same bytes at each try."""

    stages: Sequence[Sequence[Put]]
    old: Value | None
    new: Head


class HeadCell:
    """One head as this process knows it. `value` and `head` belong together and are replaced together."""

    def __init__(self, kv: KeyValue, key: Key) -> None:
        self._kv, self.key = kv, key
        self._known: tuple[Value | None, Head] = (None, NO_HEAD)
        self._epoch = 0  # the epoch that is ours to write under; 0: none
        self._was = 0  # the one that was
        self._is_lost = False
        self._installing: _Installation | None = None  # it was not answered, and may still be done
        self._lock = threading.Lock()

    @property
    def head(self) -> Head:
        return self._known[1]

    @property
    def epoch(self) -> int:
        return self._epoch

    @property
    def is_lost(self) -> bool:
        """Whether this process was the writer, and may not write before it takes another epoch."""
        return self._is_lost

    def resign(self) -> None:
        """From now on nothing is written under our epoch."""
        self._is_lost, self._was, self._epoch = True, self._epoch or self._was, 0
        self._installing = None

    def read(self) -> Value | None:
        return self._kv.get_many("meta", [self.key])[0]

    def take_in(self, value: Value | None) -> Head:
        """Takes a `value` that was just read from the cell. A head never goes back: an older value is ignored."""
        with self._lock:
            known, head = self._known
            if value is None or value == known:
                return head
            read = unseal_struct(_MAGIC, value, "meta", self.key, Head)
            if (read.epoch, read.last, read.run_list) >= (head.epoch, head.last, head.run_list):
                self._known = (value, read)
            return self._known[1]

    def refresh(self) -> Head:
        return self.take_in(self.read())

    def repeat_installation(self) -> None:
        """Repeats an installation that was not answered, the very same, before the next head is written. It may still
        be under way, and would look like another writer's if it arrived later."""
        if self._installing is not None:
            self._install(self._installing)

    def take_epoch(self) -> None:
        """From now on this process writes, and the writer before it cannot. After an error it writes under no epoch."""
        if self._epoch:
            self.resign()
        for _ in range(_TRIES):
            self.refresh()
            old, head = self._known
            mine = head.next_epoch()
            if self._set((), old, mine, partial(_same, mine)):
                self._epoch, self._is_lost = mine.epoch, False
                return
        raise Fenced(
            f"other writers take over {self.key.decode()} again and again; make sure that only one process writes"
        )

    def publish(self, stages: Sequence[Sequence[Put]], new: Head, first: int | None = None) -> None:
        """Writes the rows of the numbers `first` (None: the same as the last) to `new.last`, and makes them count, all
        or none.

        After StoreUnavailable the outcome is not known: publish the identical rows and `new` again."""

        def won(found: Head) -> bool:
            # A later writer begins from our head: then its ranges grant us the last number.
            return found.token == new.token or (found.epoch > new.epoch and found.epoch_of(new.last) == new.epoch)

        old, head = self._known if self._epoch else (None, self.refresh())
        if won(head):
            return
        if self._epoch == 0 or (head.epoch, head.last + 1) != (self._epoch, new.last if first is None else first):
            raise self._fenced(head, new.last)
        if not self._set(stages, old, new, won):
            raise self._fenced(self.refresh(), new.last)

    def install(self, stages: Sequence[Sequence[Put]], run_list: int, needed_from: int = 0) -> None:
        """Writes a run list, and makes it count; the numbers stay. For the one thread that publishes. The head forgets
        which epochs wrote the numbers below `needed_from`, of which there are no rows.

        After StoreUnavailable it may count or not; `settle` decides."""
        self.repeat_installation()
        old, head = self._known
        if self._epoch == 0 or head.epoch != self._epoch:
            raise self._fenced(head)
        self._install(_Installation(stages, old, head.with_runs(run_list, needed_from)))

    def _install(self, installation: _Installation) -> None:
        self._installing = installation
        won = self._set(
            installation.stages, installation.old, installation.new, lambda found: found.token == installation.new.token
        )
        self._installing = None
        if not won:
            raise self._fenced(self.refresh())

    def _set(self, stages: Sequence[Sequence[Put]], old: Value | None, new: Head, won: Callable[[Head], bool]) -> bool:
        """Whether `new` got into the cell; False: another value did."""
        value = pack_head(new)
        failure: StoreUnavailable | None = None
        for _ in range(_TRIES):
            try:
                if self._kv.publish(stages, CompareAndSet(self.key, old, value)):
                    self.take_in(value)
                    return True
            except StoreUnavailable as error:
                failure = error
            found = self.read()
            if found != old:
                return won(self.take_in(found))
        why = f": {failure}" if failure else ""
        raise StoreUnavailable(f"{self.key.decode()} could not be set in {_TRIES} tries{why}") from failure

    def _fenced(self, head: Head, number: int | None = None) -> Fenced:
        """`number`: that of the last batch, of which it is said whether it counts."""
        self.resign()
        where = (
            f"this process was the writer of epoch {self._was}; the writer of epoch {head.epoch} has "
            f"taken over, and continues at snapshot {head.last + 1}."
        )
        if number is not None and head.ranges and number < head.ranges[0].first:
            return Undecided(
                f"{where} It is not known whether the last batch was written: check the store before you send it again"
            )
        return Fenced(f"{where} Nothing of the last batch was written: send it to the new writer")
