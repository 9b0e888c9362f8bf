"""The merge: the parts of the runners become emissions, each exactly once.

A runner steps every snapshot and hands over its parts. The merge takes snapshots strictly in order, numbers the
results, stores them together with the state of each query, and only then announces them. A part is a function of the
store alone, so it does not matter which runner computed it, or how often. It matters that each snapshot counts once.

While the store does not answer, a request to it is repeated, and the lock is released in between: methods that only
read are answered meanwhile, and methods that change something wait (`_idle`).

State, all under one lock:
    stored <= position      what the emission log has; what is merged. Between them there is no emission.
    sent                    the parts that wait for their turn, of each shard of Spark and of the inline runner; and
                            which shards are Spark's: their parts count, and those of the other shards come from the
                            inline runner, as do those of queries that stay inline
    plan                    which shard has which queries

Invariants:
    1. `position` grows by one snapshot at a time; that snapshot's emissions are in the log by then.
    2. A query's emissions are numbered 1, 2, 3, ... in the order of (snapshot, k). Its progress is the one after
       its last part at or before `position`.
    3. One commit stores emissions, states and position; it happens or it does not. After a crash the log's
       position, states and numbers belong together, and the snapshots above are stepped again.
    4. No part waits that is at or below `position`, or of an attempt of a shard before its latest, or of an earlier
       plan.
    5. The parts of a query that is behind the others are merged at `position`, in order; its progress says how far the
       query has come. It may be in the middle of a snapshot.
    6. While Spark has a shard, all that can be merged is merged: some sender has not sent `position + 1` yet.

For each shard:
    inline --caught_up(attempt, sn >= position, all up to sn has been sent)--> Spark's
    Spark's --lost(attempt)--> inline, which builds at `position`
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeVar

from hbase_store import EmissionRow, Sn
from hbase_store.log.emission_rows import EmissionsSoFar
from stream_ext.catalog.catalog import QueryDefinition
from stream_ext.clock import Clock
from stream_ext.emissions.emission import Silence, Sources
from stream_ext.emissions.merged_progress import Queries, Runner
from stream_ext.emissions.part_merger import InJson, PartMerger
from stream_ext.emissions.placement import ShardPlan
from stream_ext.emissions.plans import Plans
from stream_ext.emissions.progress import Progress
from stream_ext.emissions.saved_windows import SavedWindows
from stream_ext.emissions.uniting import SumsRanges, sums_none
from stream_ext.retry import retry
from stream_ext.waits import Waits
from stream_ext.windows.part import Ids, Part
from stream_ext.windows.query_state import QueryState

Result = TypeVar("Result")


#: Positions without emissions are stored with the next commit, or after this time.
_STORE_WITHIN_MS = 1_000


class EmissionCommits(Protocol):
    """What the merge needs of the store's `EmissionLog`."""

    def commit(self, emissions: Sequence[EmissionRow], states: dict[int, bytes | None], position: Sn) -> int: ...
    def last(self, query: int) -> int: ...
    def states(self) -> dict[int, bytes]: ...
    def position(self) -> int: ...
    def so_far(self) -> EmissionsSoFar: ...


def _no_number() -> int:
    raise AssertionError("a server that only reads makes no groups")


class Merge(Plans):
    def __init__(
        self,
        log: EmissionCommits,
        clock: Clock,
        queries: Queries,
        decode: Callable[[Ids], list[bytes]],
        new_number: Callable[[], int],
        *,
        on_owner_change: Callable[[], None] = lambda: None,
        on_emissions: Callable[[Sequence[EmissionRow], InJson], None] = lambda rows, in_json: None,
        on_silence: Callable[[Mapping[int, Silence]], None] = lambda _: None,
        on_unstored: Callable[[int], None] = lambda _: None,
        on_fault: Callable[[BaseException], None] = lambda _: None,
        waits: Waits | None = None,
        sources: Callable[[int], Sources | None] = lambda _: None,
        plan: ShardPlan = ShardPlan(),  # noqa: B008  it never changes
        may_divide: Callable[[QueryDefinition], bool] = lambda query: False,
        sum_ranges: SumsRanges = sums_none,
    ) -> None:
        """`new_number`: a number for a group, which no query and no group has had. `may_divide`: whether a query can be
        divided among shards; `sum_ranges`: what becomes of the rows of its ranges. `on_emissions` gets the emissions
        that are stored now, and as JSON those whose rows came as JSON; `on_silence` the queries with a stream that were
        evaluated without an emission; `on_unstored` the time by which `flush` must be called; `waits` shows what the
        merge waits for. `sources`: of which time the data of sources are that a snapshot holds."""
        self._log, self._waits, self._gives_up = log, waits, False
        progress = Progress(log, queries(), lambda: self._retry(new_number))
        super().__init__(int(log.position()), progress, queries, plan, clock, may_divide, sum_ranges)
        self._on_owner_change, self._on_emissions = on_owner_change, on_emissions
        self._on_silence, self._on_unstored, self._on_fault = on_silence, on_unstored, on_fault
        self._has_unstored = False  # besides the position: progress of queries that are behind
        self._parts = PartMerger(self._progress, lambda ids: self._retry(lambda: decode(ids)), sources)
        self._in_json: InJson = {}  # of stored emissions
        self._attempts = 0
        self._followed = -1  # the last commit of another process that was taken in, with these queries
        self._followed_queries: Mapping[int, QueryDefinition] = {}

    # ---- called by runners -------------------------------------------------------------------------------------

    def attempt(
        self, runner: Runner, shard: int = 0, done: int | None = None
    ) -> tuple[int, int, dict[int, QueryState]]:
        """A runner begins anew, of Spark the task of a shard. Returns its number, the position and the states from
        which it must build; it then sends the parts of every later snapshot.

        `done`: a state of the shard after this snapshot exists. If everything up to there has been sent, and no query
        is behind, that is the position that is returned: what waits for other shards is not sent again."""
        with self._idle():
            self._raise_fault()
            self._attempts += 1
            position = self._position
            if runner == Runner.SPARK:
                sent = self._sent.shards[shard]
                is_sent = done is not None and done > position and sent.on_spark and sent.has_all(position, done)
                if is_sent and done is not None and not self._any_behind():
                    position = done
                sent.begin(self._attempts, position)
            elif runner == Runner.PARTLY_INLINE and self._sent.any_on_spark:
                self._sent.inline = {}
            return self._attempts, position, self._states_now()

    def take(self, runner: Runner, sn: int, parts: list[Part], shard: int = 0) -> None:
        """Takes all parts of `sn`. They are merged now, or when it is their turn, or never (`position` shows it)."""
        with self._idle():
            self._raise_fault()
            if sn <= self._position or not self._may_send(runner, shard):
                return
            if runner == Runner.INLINE:
                assert sn == self._position + 1, f"the inline runner sent snapshot {sn} after {self._position}"
                emitted = self._merge([(sn, parts)])
            else:
                self._sent.of(runner == Runner.SPARK, shard)[sn] = [parts]
                emitted = self._merge_sent()
            whole = self._be_whole()
        self._announce(emitted, whole)

    def take_piece(self, runner: Runner, parts: list[Part], shard: int = 0) -> None:
        """Takes parts of queries that are behind. They come after all that this sender has sent; they count as in
        `take`."""
        with self._idle():
            self._raise_fault()
            if (
                not parts
                or not self._may_send(runner, shard)
                or (runner == Runner.SPARK and not self.is_on_spark(shard))
            ):
                return
            sent = {} if runner == Runner.INLINE else self._sent.of(runner == Runner.SPARK, shard)
            emitted: list[EmissionRow] = []
            if sent:
                sent[max(sent)].append(parts)
            elif not self._sent.has_ranges(parts):
                with self._being_busy():
                    emitted = self._merge_piece(parts)
            whole = self._be_whole()
        self._announce(emitted, whole)

    def caught_up(self, runner: Runner, attempt: int, sn: int, behind: Mapping[int, int], shard: int = 0) -> None:
        """This attempt has sent all parts of its shard up to `sn`: Spark gets the shard, if `sn` is at least
        `position`, and with it all other shards that are being built; it waits for those.

        `behind`: its queries that wait for a remote endpoint, and the snapshot up to which each was stepped."""
        with self._idle():
            self._raise_fault()
            own = self._sent.shards[shard] if shard < len(self._sent.shards) else None
            if runner != Runner.SPARK or own is None or attempt != own.attempt or own.on_spark:
                return
            own.reached, own.behind = sn, behind
            emitted: list[EmissionRow] = []
            if not (whole := self._be_whole_if_behind()):
                ready = {
                    number: each for number, each in enumerate(self._sent.shards) if each.attempt and not each.on_spark
                }
                if not all(self._may_go_over(number, each) for number, each in ready.items()):
                    return
                self._sent.go_to_spark(ready.values())
                emitted, whole = self._merge_sent(), self._be_whole()
        self._announce(emitted, whole)
        self._on_owner_change()

    def lost(self, runner: Runner, attempt: int, shard: int = 0) -> None:
        """The runner of that attempt has ended: the inline runner continues the shard after `position`."""
        with self._idle():
            if runner != Runner.SPARK or shard >= len(self._sent.shards):
                return
            if attempt != self._sent.shards[shard].attempt:
                return
            changed = self._sent.lose(shard)
        if changed:
            self._on_owner_change()

    # ---- called by the service ---------------------------------------------------------------------------------

    def follow_plan(self, plan: ShardPlan) -> None:
        """From now on this is the plan: every shard begins anew at `position`. Spark has all of them if it had all
        before, else none."""
        with self._idle():
            changed = self._take_plan(plan)
        if changed:
            self._on_owner_change()

    def follow(self) -> bool:
        """For a server that only reads: takes in what the writer has committed; whether there was anything."""
        so_far, queries = self._log.so_far(), self._queries()
        with self._changed:
            if so_far.commit == self._followed and queries is self._followed_queries:
                return False
            self._progress = Progress(so_far, queries, _no_number)
            self._position = self._stored = int(so_far.position())
            self._followed, self._followed_queries = so_far.commit, queries
            self._changed.notify_all()
            return True

    def publish(self, sn: int, some: bool) -> None:
        """A snapshot was published. `some`: after it at least one query stays inline, whatever runner has the
        others."""
        with self._changed:
            self.homes.published(sn, some)
            self._changed.notify_all()  # one that was behind may be gone

    def dropped(self, query: int) -> None:
        """The query was dropped: the next commit deletes its state, and its parts do not count any more."""
        with self._idle():
            self._progress.drop(query)
            self._parts.forget(query)

    def silence(self, query: int) -> Silence | None:
        """The last evaluation of a query with a stream, if that was merged without an emission since the start."""
        with self._changed:
            return self._parts.silences.get(query)

    def collected(self, oldest: Callable[[int], int]) -> None:
        """Emissions were deleted; `oldest` returns the number of the oldest retained one, of a query or a group."""
        with self._idle():
            self._progress.collected(oldest)

    def fail(self, error: BaseException) -> None:
        """Stops the merge; all that wait, now or later, get the error."""
        with self._changed:
            if self._fault is not None:
                return
            self._fault = error
            self._changed.notify_all()
        self._on_fault(error)

    def flush(self) -> None:
        """Stores the position, if it is greater than the stored one."""
        with self._idle():
            if self._fault is None and (self._stored < self._position or self._has_unstored):
                with self._being_busy():
                    self._commit([], self._position)

    def give_up(self) -> None:
        """From now on the merge does not wait for a store that does not answer."""
        with self._changed:
            self._gives_up = True
            self._changed.notify_all()

    def save(self, query: int, saved: SavedWindows | None, rows: Sequence[EmissionRow] = ()) -> None:
        """Stores what is saved of the query's windows, and the rows of it that are new. Nothing is stored if the query
        was dropped meanwhile."""
        for row in rows:  # one commit each: emissions go in between
            with self._idle():
                self._raise_fault()
                if query in self._queries():
                    with self._being_busy():
                        self._commit([row], self._position)
        with self._idle():
            self._raise_fault()
            if query in self._queries():
                self._progress.saves.put(query, saved)
                with self._being_busy():
                    self._commit([], self._position)

    # ---- under the lock ----------------------------------------------------------------------------------------

    def _retry(self, act: Callable[[], Result]) -> Result:
        over = lambda: self._gives_up or self._fault is not None  # noqa: E731
        return retry(act, self._clock, over, self._changed, self._waits)

    def _may_send(self, runner: Runner, shard: int) -> bool:
        if runner == Runner.PARTLY_INLINE:
            return self._sent.inline is not None
        if runner == Runner.INLINE:
            return not self._sent.any_on_spark
        return shard < len(self._sent.shards) and self._sent.shards[shard].attempt != 0

    def _raise_fault(self) -> None:
        if self._fault is not None:
            raise self._fault

    def _merge_sent(self) -> list[EmissionRow]:
        """Merges what waits, up to the first snapshot that is incomplete."""
        return self._merge(self._sent.following(self._position, self.homes, self._queries()))

    def _merge(self, steps: Sequence[tuple[int, list[Part]]]) -> list[EmissionRow]:
        """Merges these snapshots; returns the emissions."""
        if not steps:
            return []
        with self._being_busy():
            return self._merge_now(steps)

    def _merge_now(self, steps: Sequence[tuple[int, list[Part]]]) -> list[EmissionRow]:
        queries = self._queries()
        try:
            rows = [row for sn, parts in steps for row in self._parts.of_snapshot(sn, parts, queries)]
        except BaseException as error:  # what was merged so far does not count: no commit has it
            self.fail(error)
            raise
        position = steps[-1][0]
        if rows or self._progress.moved:
            self._commit(rows, position)
        elif self._stored == self._position:
            self._on_unstored(self._clock.now_ms() + _STORE_WITHIN_MS)
        self._position = position
        self._sent.forget(position)
        self.homes.forget(position)
        self._take_json()
        return rows

    def _merge_piece(self, parts: list[Part]) -> list[EmissionRow]:
        """Merges parts of queries that are behind, at the same position."""
        try:
            rows = list(self._parts.of_snapshot(self._position, parts, self._queries()))
        except BaseException as error:  # as in `_merge_now`
            self.fail(error)
            raise
        if rows or self._progress.moved:
            self._commit(rows, self._position)
        elif not self._has_unstored:
            self._has_unstored = True
            self._on_unstored(self._clock.now_ms() + _STORE_WITHIN_MS)
        self._take_json()
        return rows

    def _take_json(self) -> None:
        """These are stored now: whoever announces next may tell them."""
        self._in_json |= self._parts.in_json
        self._parts.in_json = {}

    def _commit(self, rows: list[EmissionRow], position: int) -> None:
        """One commit of the log. If it fails, memory and log may differ: nothing is merged any more."""
        states = self._progress.unstored()
        try:
            self._retry(lambda: self._log.commit(rows, states, Sn(position)))
        except BaseException as error:
            self.fail(error)
            raise
        self._stored, self._has_unstored = position, False
        self._progress.stored()

    def _announce(self, emitted: Sequence[EmissionRow], whole: bool = False) -> None:
        with self._changed:
            in_json, self._in_json = self._in_json, {}
            silent, self._parts.silent = self._parts.silent, {}
        if emitted:
            self._on_emissions(emitted, in_json)
        if silent:
            self._on_silence(silent)
        if whole:
            self._on_owner_change()
            self.on_plan()
