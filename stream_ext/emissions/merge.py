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

import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import StrEnum
from typing import Protocol, TypeVar

from hbase_store import EmissionRow, Sn
from hbase_store.errors import StoreError
from stream_ext.catalog.catalog import Left, QueryDefinition
from stream_ext.clock import Clock
from stream_ext.emissions.emission import Silence, Sources
from stream_ext.emissions.groups import GroupMembership
from stream_ext.emissions.part_merger import PartMerger
from stream_ext.emissions.placement import Plan, by_placement
from stream_ext.emissions.progress import Progress, Stored
from stream_ext.emissions.runner_split import Homes
from stream_ext.emissions.sent_parts import SentParts, ShardParts
from stream_ext.errors import DeadlineExceeded
from stream_ext.retry import retry
from stream_ext.waits import Waits
from stream_ext.windows.part import Ids, Part
from stream_ext.windows.schedule import QueryState

Result = TypeVar("Result")


class Runner(StrEnum):
    """Who evaluates registered queries. `BESIDE`: the inline runner while Spark has other queries. `TRIAL`: a process
    that tries queries in quarantine; it sends no parts."""

    INLINE = "inline"
    SPARK = "spark"
    BESIDE = "beside"
    TRIAL = "trial"


#: Positions without emissions are stored with the next commit, or after this time.
_STORE_WITHIN_MS = 1_000


class EmissionCommits(Protocol):
    """What the merge needs of the store's `EmissionLog`."""

    def commit(self, emissions: Sequence[EmissionRow], states: dict[int, bytes | None], position: Sn) -> int: ...
    def last(self, query: int) -> int: ...
    def states(self) -> dict[int, bytes]: ...
    def position(self) -> int: ...


class Queries(Protocol):
    """The registered queries that exist now, by number."""

    def __call__(self) -> Mapping[int, QueryDefinition]: ...


class Merge:
    def __init__(
        self,
        log: EmissionCommits,
        clock: Clock,
        queries: Queries,
        decode: Callable[[Ids], list[bytes]],
        new_number: Callable[[], int],
        *,
        on_owner_change: Callable[[], None] = lambda: None,
        on_emissions: Callable[[Sequence[EmissionRow]], None] = lambda _: None,
        on_silence: Callable[[Mapping[int, Silence]], None] = lambda _: None,
        on_unstored: Callable[[int], None] = lambda _: None,
        on_fault: Callable[[BaseException], None] = lambda _: None,
        waits: Waits | None = None,
        sources: Callable[[int], Sources | None] = lambda _: None,
        plan: Plan = Plan(),  # noqa: B008  it never changes
    ) -> None:
        """`new_number`: a number for a group, which no query and no group has had. `on_emissions` gets the emissions
        that are stored now, `on_silence` the queries that were evaluated without an emission, except in groups;
        `on_unstored` the time by which `flush` must be called; `waits` shows what the merge waits for. `sources`: of
        which time the data of sources are that a snapshot holds."""
        self._waits = waits
        self._log, self._clock, self._queries = log, clock, queries
        self._on_owner_change, self._on_emissions = on_owner_change, on_emissions
        self._on_silence, self._on_unstored, self._on_fault = on_silence, on_unstored, on_fault
        self._changed = threading.Condition(threading.RLock())
        self._position = self._stored = int(log.position())
        self._busy = self._gives_up = False
        self._has_unstored = False  # besides the position: progress of queries that are behind
        self._fault: BaseException | None = None
        self._progress = Progress(log, queries(), lambda: self._retry(new_number))
        self._parts = PartMerger(self._progress, lambda ids: self._retry(lambda: decode(ids)), sources)
        self._attempts = 0
        self._plan, self._sent = plan, SentParts(plan.shards)
        self.homes = Homes()

    # ---- any thread may read -----------------------------------------------------------------------------------

    @property
    def position(self) -> int:
        return self._position

    @property
    def plan(self) -> Plan:
        return self._plan

    @property
    def owner(self) -> Runner:
        """SPARK if it has a shard at least."""
        return Runner.SPARK if self._sent.any_on_spark else Runner.INLINE

    def is_on_spark(self, shard: int) -> bool:
        return shard < len(self._sent.shards) and self._sent.shards[shard].on_spark

    def runner_of(self, query: QueryDefinition) -> Runner:
        """Who evaluates the query now."""
        on_spark = query.home is None and self.is_on_spark(self._plan.shard_of_query(query))
        return Runner.SPARK if on_spark else Runner.INLINE

    @property
    def role(self) -> Runner | None:
        """As what the inline runner sends parts; None: it has nothing to do."""
        with self._changed:
            if not self._sent.any_on_spark:
                return Runner.INLINE
            some = not self._sent.all_on_spark or self.homes.any_after(self._position)
            return Runner.BESIDE if some else None

    def taken_beside(self) -> Callable[[QueryDefinition], bool]:
        """Which queries the inline runner has while Spark has others: those that stay inline, and those of the shards
        that Spark does not have."""
        with self._changed:
            plan, inline = self._plan, self._sent.inline_shards
        return lambda query: query.home is not None or (bool(inline) and plan.shard_of_query(query) in inline)

    def goes_on(self, role: Runner) -> bool:
        """Whether the parts that the inline runner sends in this role still count."""
        with self._changed:
            return self.role == role and (role == Runner.INLINE or self._sent.inline is not None)

    @property
    def fault(self) -> BaseException | None:
        return self._fault

    def states(self) -> dict[int, QueryState]:
        """The states of all queries that exist, at `position`."""
        with self._idle():
            return self._states_now()

    def state(self, query: int) -> QueryState | None:
        """The state of the query after its last evaluation; None: it was not evaluated yet."""
        with self._changed:
            return self._progress.state(query)

    def left(self, query: QueryDefinition) -> Left:
        """The position and the state of a query now."""
        with self._idle():
            return Left(self._position, query.current_state(self._progress.state(query.number)))

    def stored(self) -> Stored:
        with self._idle():
            return self._progress.as_stored(self._stored)

    def last(self, query: int) -> int:
        """The number of the query's last emission; 0: none."""
        with self._changed:
            return self._progress.last(query)

    def memberships(self, query: int) -> list[GroupMembership]:
        """Which of its emissions are records of groups, the oldest first."""
        with self._changed:
            return self._progress.memberships(query)

    def evaluations(self, query: int) -> int:
        """Since this process started."""
        with self._changed:
            return self._progress.evaluations(query)

    def rows(self, query: int) -> int:
        """The rows of its emissions since this process started."""
        with self._changed:
            return self._progress.rows(query)

    def catching_up(self) -> dict[int, QueryState]:
        """The queries that are behind the others because too many evaluations fell due at once, with their states."""
        with self._changed:
            return self._catching_up()

    def states_behind(self, queries: Collection[int]) -> dict[int, QueryState]:
        """The states from which queries continue that are behind: all that are behind here, and `queries`, which are
        behind at a runner whose parts begin to count. The earlier parts of that runner did not count."""
        with self._idle():
            found = self._catching_up()
            definitions = self._queries()
            for number in [number for number in queries if number not in found]:
                query, state = definitions.get(number), self._progress.state(number)
                if query is None or state is None or not query.is_evaluated or query.current_state(state) is not state:
                    continue
                if state.behind_at is None:
                    state = state.behind(self._position)
                    self._progress.by_itself(number, state, 0)
                if state.is_catching_up:
                    found[number] = state
            return found

    def wait(self, sn: int, deadline_s: float, for_all: bool = False) -> None:
        """Waits until `position` >= sn; `for_all`: and until queries that are behind have reached `sn`, too."""

        def is_there() -> bool:
            if self._position < sn:
                return False
            behind = self._catching_up().values() if for_all else ()
            return not any(state.behind_at is not None and state.behind_at < sn for state in behind)

        with self._changed:
            self._changed.wait_for(lambda: is_there() or self._fault is not None, deadline_s)
            if is_there():
                return
            if isinstance(self._fault, StoreError):
                raise DeadlineExceeded(
                    f"snapshot {sn} is published, but this server cannot wait for its evaluation: the queries "
                    f"have reached snapshot {self._position}, and continue when this server is the writer again "
                    f"({self._fault})"
                )
            if self._fault is not None:
                raise self._fault
            raise DeadlineExceeded(
                f"snapshot {sn} was not evaluated within {deadline_s:g} s; the queries have reached snapshot "
                f"{self._position}"
            )

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
                is_sent = done is not None and sent.on_spark and sent.has_all(position, done)
                if is_sent and done is not None and not self._any_behind():
                    position = done
                sent.begin(self._attempts, position)
            elif runner == Runner.BESIDE and self._sent.any_on_spark:
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
                emitted = self._merge([(sn, parts), *self._following(sn)])
            else:
                self._sent.of(runner == Runner.SPARK, shard)[sn] = [parts]
                emitted = self._merge(self._following(self._position)) if self._sent.any_on_spark else []
        self._announce(emitted)

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
            if sent:
                sent[max(sent)].append(parts)
                emitted = []
            else:
                with self._being_busy():
                    emitted = self._merge_piece(parts)
        self._announce(emitted)

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
            ready = {
                number: each for number, each in enumerate(self._sent.shards) if each.attempt and not each.on_spark
            }
            if not all(self._may_go_over(number, each) for number, each in ready.items()):
                return
            self._sent.go_to_spark(ready.values())
            emitted = self._merge(self._following(self._position))
        self._announce(emitted)
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

    def follow(self, plan: Plan) -> None:
        """From now on this is the plan: every shard begins anew at `position`. Spark has all of them if it had all
        before, else none."""
        with self._idle():
            had_some, had_all = self._sent.any_on_spark, self._sent.all_on_spark
            inline = self._sent.inline if had_all else None
            self._plan, self._sent = plan, SentParts(plan.shards, had_all)
            self._sent.inline = inline
        if had_some and not had_all:
            self._on_owner_change()

    def balanced(self, loads: Mapping[int, float]) -> Plan:
        """The plan that spreads these loads of queries better; the present one if there is little to gain."""
        return self._plan.balanced(by_placement(self._queries().values(), loads))

    def queries_of(self, shard: int) -> list[int]:
        """The queries that this shard evaluates."""
        plan = self._plan
        return [each.number for each in self._queries().values() if each.is_evaluated and plan.takes(shard, each)]

    # ---- called by the service ---------------------------------------------------------------------------------

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

    # ---- under the lock ----------------------------------------------------------------------------------------

    @contextmanager
    def _idle(self) -> Iterator[None]:
        """Takes the lock, when no merge is under way: one that waits for the store has released the lock."""
        with self._changed:
            self._changed.wait_for(lambda: not self._busy)
            yield

    @contextmanager
    def _being_busy(self) -> Iterator[None]:
        self._busy = True
        try:
            yield
        finally:
            self._busy = False
            self._changed.notify_all()

    def _retry(self, act: Callable[[], Result]) -> Result:
        over = lambda: self._gives_up or self._fault is not None  # noqa: E731
        return retry(act, self._clock, over, self._changed, self._waits)

    def _states_now(self) -> dict[int, QueryState]:
        found = self._progress.states()
        return {number: found.get(number, query.state) for number, query in self._queries().items()}

    def _catching_up(self) -> dict[int, QueryState]:
        found = self._progress.catching_up()
        queries = self._queries() if found else {}
        return {
            number: state
            for number, state in found.items()
            if (query := queries.get(number)) is not None and query.is_evaluated and query.current_state(state) is state
        }

    def _any_behind(self) -> bool:
        return bool(self._progress.catching_up()) or any(self._progress.waiting())

    def _may_send(self, runner: Runner, shard: int) -> bool:
        if runner == Runner.BESIDE:
            return self._sent.inline is not None
        if runner == Runner.INLINE:
            return not self._sent.any_on_spark
        return shard < len(self._sent.shards) and self._sent.shards[shard].attempt != 0

    def _may_go_over(self, shard: int, sent: ShardParts) -> bool:
        """Whether Spark may have this shard from now on."""
        # All snapshots between must have been sent, or some would be missing after the hand-over.
        if sent.reached is None or sent.reached < self._position or not sent.has_all(self._position, sent.reached):
            return False
        # Its parts of queries that are behind may begin after the states that these have here.
        if self._progress.catching_up() and sent.reached > self._position:
            return False
        return self._would_miss_nothing(shard, sent.behind)

    def _would_miss_nothing(self, shard: int, behind: Mapping[int, int]) -> bool:
        """Whether the next owner will send all parts of queries that wait for a remote endpoint.

        `behind`: the snapshots up to which the next owner has stepped them. For a query that waits here, this must not
        be later than its snapshot here, or the parts between would have been sent when they did not count. A query
        that waits only at the next owner is marked as behind here, too, for the owner after it."""
        queries = self._queries()

        def goes(number: int, state: QueryState) -> bool:
            query = queries.get(number)
            return (
                query is not None
                and query.is_evaluated
                and query.current_state(state) is state
                and self._plan.takes(shard, query)
            )

        for number, behind_at in self._progress.waiting():
            state = self._progress.state(number)
            if state is not None and goes(number, state) and behind.get(number, self._position) > behind_at:
                return False
        for number, behind_at in behind.items():
            state = self._progress.state(number)
            if state is not None and goes(number, state) and state.behind_at is None and behind_at < self._position:
                self._progress.by_itself(number, state.behind(self._position), 0)
        return True

    def _raise_fault(self) -> None:
        if self._fault is not None:
            raise self._fault

    def _following(self, sn: int) -> list[tuple[int, list[Part]]]:
        """The parts that wait of the snapshots right after `sn`, up to the first that is incomplete."""
        return self._sent.following(sn, self.homes)

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
        return rows

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

    def _announce(self, emitted: Sequence[EmissionRow]) -> None:
        if emitted:
            self._on_emissions(emitted)
        with self._changed:
            silent, self._parts.silent = self._parts.silent, {}
        if silent:
            self._on_silence(silent)
