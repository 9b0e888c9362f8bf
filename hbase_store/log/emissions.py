"""The emission log: the emissions of the registered queries, their states, and their position.

One commit stores some emissions, the states of the queries that differ, and the snapshot that all of it follows
from; it counts as a whole or not at all (see `hbase_store.log.head`). After a crash, the engine goes on from the states
and the position of the last commit, so nothing is emitted twice."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from hbase_store.backends.calls import purpose
from hbase_store.backends.keyvalue import Key, KeyValue, Put, Value
from hbase_store.clock import Clock
from hbase_store.errors import Corrupt, StoreError, StoreUnavailable
from hbase_store.layout.rows import Sn
from hbase_store.layout.sealed import corrupt, of_pieces, unseal
from hbase_store.log.emission_rows import (
    COMMIT_HEADER,
    COMMIT_KEY,
    COMMIT_MAGIC,
    EMISSION_KEY,
    CommitSum,
    EmissionCommit,
    EmissionRow,
    EmissionsSoFar,
    body_of,
    commit_puts,
    emission_puts,
)
from hbase_store.log.head import Head, HeadCell

#: Each of these commits holds the states of all queries, so that no more than so many are read.
WHOLE_EVERY = 256
_ALL = (1 << 62) - 1


@dataclass(frozen=True, slots=True)
class _Publication:
    """A commit as it is written: the same bytes each time, however often it takes."""

    emissions: Sequence[EmissionRow]
    states: dict[int, bytes | None]
    commit: EmissionCommit
    stages: list[list[Put]]
    head: Head


class EmissionLog:
    """The log: one writer, the process with the lease of the store; any number of readers, in any process."""

    def __init__(self, kv: KeyValue, clock: Clock) -> None:
        self._kv, self._clock = kv, clock
        self.cell = HeadCell(kv, b"emitted")
        self._sum = CommitSum()
        self._undecided: _Publication | None = None
        self._lock = threading.RLock()
        # Of each query the last emission that was let go, and the last that was deleted: after an outage some are let
        # go and not deleted. And whether the next number is known to be kept: some may be used elsewhere.
        self._gone: dict[int, int] = {}
        self._deleted: dict[int, int] = {}
        self._found: set[int] = set()
        # The first commit that may still be there; and the first of which, or of whose emissions, rows may be.
        self._first_commit: int | None = None
        self._needed_from = 0
        self._collecting = threading.Lock()
        self._collecting_epoch = 0
        self._swept = self._orphans_removed = False

    def refresh(self) -> int:
        """Takes in what other processes have committed; the number of the last commit."""
        return self.cell.refresh().last

    # ---- writing

    def take_over(self) -> None:
        """From now on this process commits, and the writer before it cannot. Take the lease of the store first."""
        with self._lock:
            self.cell.take_epoch()
            self._undecided = None  # it counts, and is added now; or it never will
            self._add_commits()

    def resign(self) -> None:
        """Commits nothing more until `take_over`."""
        self.cell.resign()

    def commit(self, emissions: Sequence[EmissionRow], states: dict[int, bytes | None], position: Sn) -> int:
        """Stores all of it or nothing; the number of the commit. The emissions of a query come in ascending order.

        After StoreUnavailable the outcome is not known: call it again with the same arguments."""
        with self._lock, purpose("emissions"):
            if self.cell.epoch == 0 and not self.cell.is_lost:
                self.take_over()
            undecided = self._undecided
            if undecided is not None:
                self._publish(undecided)
                if (undecided.emissions, undecided.states, undecided.commit.position) == (emissions, states, position):
                    return undecided.head.last
            self._add_commits()
            lasts = self._lasts(emissions)
            # With the commit and not by a change of its own: it counts with it, or neither does.
            head = self.cell.head.advanced(needed_from=self._needed_from)
            commit = self._commit_of(head.last, position, states, lasts)
            puts = [put for row in emissions for put in emission_puts(row, head)]
            stages = [puts, commit_puts(commit, head)]
            self._undecided = _Publication(emissions, states, commit, stages, head)
            self._publish(self._undecided)
            return head.last

    def _publish(self, publication: _Publication) -> None:
        try:
            self.cell.publish(publication.stages, publication.head)
        except StoreUnavailable:
            raise  # undecided: the identical rows go out again before anything else does
        except StoreError:
            self._undecided = None
            raise
        self._undecided = None
        if self._sum.number < publication.commit.number:
            self._sum.add(publication.commit)

    def _lasts(self, emissions: Sequence[EmissionRow]) -> dict[int, int]:
        lasts: dict[int, int] = {}
        for row in emissions:
            before = lasts.get(row.query) or self._sum.lasts.get(row.query, 0)
            if row.number <= before:
                raise ValueError(f"emission {row.number} of query {row.query} after its emission {before}")
            lasts[row.query] = row.number
        return lasts

    def _commit_of(
        self, number: int, position: Sn, states: dict[int, bytes | None], lasts: dict[int, int]
    ) -> EmissionCommit:
        commit = EmissionCommit(number, position, False, states, lasts, self._clock.now_ms())
        if number % WHOLE_EVERY:
            return commit
        whole = CommitSum()
        whole.states, whole.lasts = dict(self._sum.states), dict(self._sum.lasts)
        whole.add(commit)
        return EmissionCommit(number, position, True, dict(whole.states), whole.lasts, commit.time_ms)

    # ---- collecting

    def collect(self, before_ms: int, retained_after: Mapping[int, int] | None = None) -> None:
        """Deletes the emissions of commits made before, and all those of queries that are gone.

        `retained_after`: for some queries, a number; their emissions above it stay."""
        with self._collecting:
            if self._collecting_epoch != self.cell.epoch:
                # Writers before this epoch may have collected, and may have dropped queries unnoticed here.
                self._collecting_epoch, self._first_commit = self.cell.epoch, None
                self._orphans_removed = self._swept = False
            self._collect(before_ms, retained_after or {})

    def let_go(self, query: int, last: int) -> None:
        """Deletes the emissions of a query up to this number, whenever they were committed."""
        with self._collecting:
            self._delete_emissions(query, last)

    def _collect(self, before_ms: int, retained_after: Mapping[int, int]) -> None:
        number = self._last_before(before_ms)
        lasts = self._summed_at(number).lasts if number else {}
        with self._lock:
            self._add_commits()
            ends = {
                query: min(last, retained_after.get(query, last))
                for query, last in lasts.items()
                if query in self._sum.lasts
            }
            dropped = self._dropped()
        for query, last in ends.items():
            self._delete_emissions(query, last)
        for query in dropped:
            self._delete_emissions(query, _ALL)
            with self._lock:
                self._sum.dropped.discard(query)
                del self._gone[query], self._deleted[query]
        before = number - number % WHOLE_EVERY
        self._delete_commits(before)
        self._delete_orphans()
        self._forget_epochs(before, {query: last for query, last in ends.items() if last < lasts[query]})

    def _delete_emissions(self, query: int, last: int) -> None:
        done = self._deleted.get(query, 0)
        if last > done:
            with self._lock:  # before anything is deleted: reads meanwhile look here
                self._gone[query] = max(last, self._gone.get(query, 0))
                self._found.discard(query)
            start, stop = EMISSION_KEY.pack(query, done + 1, 0, 0), EMISSION_KEY.pack(query, last + 1, 0, 0)
            self._kv.delete_range("emission", start, stop, self.cell.head.last)
            self._deleted[query] = last

    def _forget_epochs(self, before: int, retained_from: Mapping[int, int]) -> None:
        """The next head names no epoch of which nothing is left: its commits are below `before`, and deleted.

        `retained_from`: the queries whose emissions are retained for longer, and the number above which they are."""
        if not (ranges := self.cell.head.ranges) or ranges[0].last >= before:
            return
        # Who takes over goes on above what was emitted, so that the first row of a query has its oldest epoch.
        oldest = min(self._epochs_from(retained_from), default=ranges[-1].epoch)
        needed = next((granted.first for granted in ranges if granted.epoch >= oldest), before)
        self._needed_from = max(self._needed_from, min(before, needed))

    def _epochs_from(self, retained_from: Mapping[int, int]) -> Iterator[int]:
        """Of each of these queries the epoch of the first row above its number."""
        for query, last in retained_from.items():
            start, stop = EMISSION_KEY.pack(query, last + 1, 0, 0), EMISSION_KEY.pack(query + 1, 0, 0, 0)
            for key, _ in self._kv.scan("emission", start, stop):
                yield EMISSION_KEY.unpack(key)[-1]
                break

    def _delete_orphans(self) -> None:
        """What writers before this one wrote under numbers that were not theirs to give, once."""
        head = self.cell.head
        if self._orphans_removed or self.cell.epoch != head.epoch:
            return
        lasts = {granted.epoch: granted.last for granted in head.ranges}
        epoch = self._next_epoch(0)
        while epoch is not None and epoch < head.epoch:
            start, stop = COMMIT_KEY.pack(epoch, lasts.get(epoch, 0) + 1, 0), COMMIT_KEY.pack(epoch + 1, 0, 0)
            self._kv.delete_range("commit", start, stop, _ALL)
            epoch = self._next_epoch(epoch + 1)
        self._orphans_removed = True

    def _next_epoch(self, epoch: int) -> int | None:
        """The first from this one on under which there are commits."""
        for key, _ in self._kv.scan("commit", COMMIT_KEY.pack(epoch, 0, 0), None):
            found: int = COMMIT_KEY.unpack(key)[0]
            return found
        return None

    def _last_before(self, before_ms: int) -> int:
        """The last commit made before; 0 if none is there. Times ascend as numbers do, but for a clock set back."""
        head = self.cell.head
        if self._first_commit is None:
            self._first_commit = self._find_first_commit(head)
        low, high = self._first_commit - 1, head.last
        while low < high:
            middle = (low + high + 1) // 2
            if self._read_commits(head, [middle])[0].time_ms < before_ms:
                low = middle
            else:
                high = middle - 1
        return 0 if low < self._first_commit else low

    def _find_first_commit(self, head: Head) -> int:
        for granted in head.ranges:
            start = COMMIT_KEY.pack(granted.epoch, granted.first, 0)
            for key, _ in self._kv.scan("commit", start, COMMIT_KEY.pack(granted.epoch, granted.last + 1, 0)):
                number: int = COMMIT_KEY.unpack(key)[1]
                return number
        return head.last + 1

    def _summed_at(self, number: int) -> CommitSum:
        head, found = self.cell.head, CommitSum()
        for commit in self._read_commits(head, range(max(1, number - number % WHOLE_EVERY), number + 1)):
            found.add(commit)
        return found

    def _dropped(self) -> list[int]:
        """The queries of which there are emissions, and which are gone: asked once, then noticed as they go."""
        if not self._swept:
            self._sum.dropped.update(query for query in self._queries() if query not in self._sum.lasts)
            self._swept = True
        return sorted(self._sum.dropped)

    def _queries(self) -> Iterator[int]:
        """Those of which there are emissions."""
        query = self._next_query(0)
        while query is not None:
            yield query
            query = self._next_query(query + 1)

    def _next_query(self, query: int) -> int | None:
        for key, _ in self._kv.scan("emission", EMISSION_KEY.pack(query, 0, 0, 0), None):
            found: int = EMISSION_KEY.unpack(key)[0]
            return found
        return None

    def _delete_commits(self, before: int) -> None:
        """The last whole one at or below what was let go stays, and so do those after it."""
        assert self._first_commit is not None
        if before <= self._first_commit:
            return
        for granted in self.cell.head.ranges:
            first, last = max(granted.first, self._first_commit), min(granted.last, before - 1)
            if first <= last:
                start, stop = COMMIT_KEY.pack(granted.epoch, first, 0), COMMIT_KEY.pack(granted.epoch, last + 1, 0)
                self._kv.delete_range("commit", start, stop, last)
        self._first_commit = before

    def oldest(self, query: int) -> int:
        """The number of the oldest emission that is kept; one more than the last if none is."""
        gone, last = self._gone.get(query, 0), self.last(query)
        if query in self._found or gone >= last:
            return min(gone, last) + 1
        number = next((number for number, _ in self._numbers(query, gone)), last + 1)
        with self._lock:
            if self._gone.get(query, 0) == gone:
                self._gone[query] = number - 1
                self._found.add(query)
        return number

    # ---- reading

    def read(self, query: int, after: int = 0, limit: int | None = None) -> Iterator[EmissionRow]:
        """The committed emissions of a query with numbers above `after`, in order."""
        if limit is not None and limit <= 0:
            return
        head = self.cell.head
        given = 0
        for number, pieces in self._numbers(query, after):
            try:
                body = body_of(pieces, head)
            except Corrupt:
                if number > self._gone.get(query, 0):
                    raise
                continue  # some of its pieces were collected while others were read
            if body is not None:
                yield EmissionRow(query, number, body)
                given += 1
                if given == limit:
                    return

    def _numbers(self, query: int, after: int) -> Iterator[tuple[int, list[tuple[Key, Value]]]]:
        """All rows of each number, whether or not they count."""
        rows: list[tuple[Key, Value]] = []
        number = 0
        start = EMISSION_KEY.pack(query, after + 1, 0, 0)
        for key, value in self._kv.scan("emission", start, EMISSION_KEY.pack(query + 1, 0, 0, 0)):
            _, row_number, _, _ = EMISSION_KEY.unpack(key)
            if row_number != number and rows:
                yield number, rows
                rows = []
            number = row_number
            rows.append((key, value))
        if rows:
            yield number, rows

    def last(self, query: int) -> int:
        """The number of the last committed emission of a query; 0: none, or the query is gone."""
        return self._summed().lasts.get(query, 0)

    def states(self) -> dict[int, bytes]:
        return dict(self._summed().states)

    def position(self) -> Sn:
        """The last snapshot whose emissions are all in this log."""
        return self._summed().position

    def so_far(self) -> EmissionsSoFar:
        """Positions, states and last numbers that belong together, while another process commits."""
        with self._lock:
            summed = self._summed()
            return EmissionsSoFar(summed.number, summed.position, dict(summed.states), dict(summed.lasts))

    @property
    def commits(self) -> int:
        """The number of the last commit that this process knows."""
        return self.cell.head.last

    def look_at_oldest_again(self) -> None:
        """For a process that does not write: another one deletes emissions, so the oldest of each is read again."""
        with self._lock:
            self._found.clear()

    def _summed(self) -> CommitSum:
        with self._lock:
            self._add_commits()
            return self._sum

    def _add_commits(self) -> None:
        head = self.cell.head
        if head.last == self._sum.number:
            return
        first = max(self._sum.number + 1, head.last - head.last % WHOLE_EVERY)
        for commit in self._read_commits(head, range(first, head.last + 1)):
            self._sum.add(commit)

    def _read_commits(self, head: Head, numbers: Sequence[int]) -> list[EmissionCommit]:
        keys = [COMMIT_KEY.pack(head.epoch_of(number), number, 0) for number in numbers]
        return [self._commit(key, value) for key, value in zip(keys, self._kv.get_many("commit", keys), strict=True)]

    def _commit(self, key: Key, value: Value | None) -> EmissionCommit:
        payload = unseal(COMMIT_MAGIC, value, "commit", key)
        epoch, number, _ = COMMIT_KEY.unpack(key)
        (pieces,) = COMMIT_HEADER.unpack_from(payload)
        parts = [bytes(payload[COMMIT_HEADER.size :])]
        if pieces > 1:
            keys = [COMMIT_KEY.pack(epoch, number, piece) for piece in range(1, pieces)]
            values = self._kv.get_many("commit", keys, of_pieces(len(keys)))
            for more, value in zip(keys, values, strict=True):
                parts.append(bytes(unseal(COMMIT_MAGIC, value, "commit", more)[COMMIT_HEADER.size :]))
        try:
            return msgspec.msgpack.decode(b"".join(parts), type=EmissionCommit)
        except msgspec.DecodeError as error:
            raise corrupt("commit", key, str(error)) from error
