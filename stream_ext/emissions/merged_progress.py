"""What is merged: the position, the plan, who has which shard, and the progress of each query.

Any thread may read it; the merge changes it, under the lock."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum
from functools import partial
from typing import Protocol

from hbase_store.errors import StoreError
from stream_ext.catalog.catalog import MovePosition, QueryDefinition
from stream_ext.emissions.groups import GroupMembership, Stored
from stream_ext.emissions.placement import ShardPlan
from stream_ext.emissions.progress import Progress
from stream_ext.emissions.runner_split import Homes
from stream_ext.emissions.saved_windows import SavedWindows
from stream_ext.emissions.sent_parts import SentParts
from stream_ext.emissions.uniting import SumsRanges, sums_none
from stream_ext.errors import DeadlineExceeded
from stream_ext.rows.key_range import Ranges
from stream_ext.windows.query_state import QueryState


class Runner(StrEnum):
    """Who evaluates registered queries. `PARTLY_INLINE`: the inline runner while Spark has other queries. `TRIAL`: a
    process that tries queries in quarantine; it sends no parts."""

    INLINE = "inline"
    SPARK = "spark"
    PARTLY_INLINE = "partly_inline"
    TRIAL = "trial"


class Queries(Protocol):
    """The registered queries that exist now, by number."""

    def __call__(self) -> Mapping[int, QueryDefinition]: ...


class MergedProgress:
    def __init__(
        self,
        position: int,
        progress: Progress,
        queries: Queries,
        plan: ShardPlan,
        sum_ranges: SumsRanges = sums_none,
    ) -> None:
        self._changed = threading.Condition(threading.RLock())
        self._position = self._stored = position
        self._busy = False
        self._fault: BaseException | None = None
        self._progress, self._queries = progress, queries
        self._sum_ranges = sum_ranges
        self._plan, self._sent = plan, SentParts(plan.shards, sum_ranges=sum_ranges)
        self.homes = Homes()

    @property
    def position(self) -> int:
        return self._position

    @property
    def plan(self) -> ShardPlan:
        return self._plan

    @property
    def owner(self) -> Runner:
        """SPARK if it has a shard at least."""
        return Runner.SPARK if self._sent.any_on_spark else Runner.INLINE

    def is_on_spark(self, shard: int) -> bool:
        return shard < len(self._sent.shards) and self._sent.shards[shard].on_spark

    def runner_of(self, query: QueryDefinition) -> Runner:
        """Who evaluates the query now; of a divided one, whether Spark has all of it."""
        if self._plan.divides(query):
            return Runner.SPARK if self._sent.all_on_spark else Runner.INLINE
        on_spark = query.home is None and self.is_on_spark(self._plan.shard_of_query(query))
        return Runner.SPARK if on_spark else Runner.INLINE

    @property
    def role(self) -> Runner | None:
        """As what the inline runner sends parts; None: it has nothing to do."""
        with self._changed:
            if not self._sent.any_on_spark:
                return Runner.INLINE
            some = not self._sent.all_on_spark or self.homes.any_after(self._position)
            return Runner.PARTLY_INLINE if some else None

    def inline_queries(self) -> tuple[Callable[[QueryDefinition], bool], Callable[[QueryDefinition], Ranges | None]]:
        """Which queries the inline runner has while Spark has others: those that stay inline, and those of the shards
        that Spark does not have. And which ranges of those that are divided."""
        with self._changed:
            plan, inline = self._plan, self._sent.inline_shards

        def is_assigned(query: QueryDefinition) -> bool:
            return query.home is not None or any(plan.assigns(shard, query) for shard in inline)

        return is_assigned, partial(plan.ranges_of, inline)

    def is_current(self, role: Runner) -> bool:
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

    def left(self, query: QueryDefinition) -> MovePosition:
        """The position and the state of a query now."""
        with self._idle():
            return MovePosition(self._position, query.current_state(self._progress.state(query.number)))

    def stored(self) -> Stored:
        with self._idle():
            return self._progress.as_stored(self._stored)

    def saved(self, query: int) -> SavedWindows | None:
        """What is saved of the query's windows that hold all."""
        with self._idle():
            return self._progress.saves.of.get(query)

    def saves_retained_after(self) -> dict[int, int]:
        """Of each save the last row that is not needed."""
        with self._idle():
            firsts = {saved.number: saved.first_number for saved in self._progress.saves.of.values()}
        return {number: first - 1 for number, first in firsts.items() if first is not None}

    def last(self, query: int) -> int:
        """The number of the query's last emission; 0: none."""
        with self._changed:
            return self._progress.last(query)

    def memberships(self, query: int) -> list[GroupMembership]:
        """Which of its emissions are records of groups, the oldest first."""
        with self._changed:
            return self._progress.memberships(query)

    def stored_with(self, query: int) -> int:
        """With how many other queries its emissions are stored."""
        with self._changed:
            return self._progress.stored_with(query)

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

    def wait(self, sn: int, deadline_s: float, for_all: bool = False) -> None:
        """Waits until `position` >= sn; `for_all`: and until queries that are behind have reached `sn`, too."""

        def is_there() -> bool:
            if self._position < sn:
                return False
            behind = self._catching_up().values() if for_all else ()
            return not any(state.behind_at is not None and state.behind_at < sn for state in behind)

        with self._changed:
            if is_there():
                return
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

    def _states_now(self) -> dict[int, QueryState]:
        found = self._progress.states()
        return {number: found.get(number, query.state) for number, query in self._queries().items()}

    def _catching_up(self) -> dict[int, QueryState]:
        found = self._progress.catching_up()
        if not found:
            return found
        queries = self._queries()
        return {
            number: state
            for number, state in found.items()
            if (query := queries.get(number)) is not None and query.is_evaluated and query.current_state(state) is state
        }
