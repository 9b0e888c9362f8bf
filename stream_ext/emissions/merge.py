"""The merge: the parts of the runners become emissions, each exactly once.

A runner steps every snapshot and hands over its parts. The merge takes snapshots strictly in order, numbers the
results, stores them together with the state of each query, and only then announces them. A part is a function of the
store alone, so it does not matter which runner computed it, or how often. It matters that each snapshot counts once.

While the store does not answer, a request to it is repeated, and the lock is released in between: methods that only
read are answered meanwhile, and methods that change something wait (`_idle`).

State, all under one lock: stored <= position      what the emission log has; what is merged. Between them there is no
emission. owner                   the runner whose parts are merged; those of queries that stay inline come from the
inline one attempt                 the number of the spark runner's latest attempt; 0: there is none pending
parts of the spark runner for snapshots above `position`, waiting for their turn; after the parts of a snapshot, those
of queries that caught up since, piece by piece inline_pending          the same of the inline runner, for the queries
that stay there; None: it has not begun

Invariants:
    1. `position` grows by one snapshot at a time; that snapshot's emissions are in the log by then.
    2. A query's emissions are numbered 1, 2, 3, ... in the order of (snapshot, k). Its progress is the one after
       its last part at or before `position`.
    3. One commit stores emissions, states and position; it happens or it does not. After a crash the log's
       position, states and numbers belong together, and the snapshots above are stepped again.
    4. `pending` holds nothing at or below `position`, and nothing of an attempt before the latest.
    5. The parts of a query that is behind the others are merged at `position`, in order; its progress says how far the
       query has come. It may be in the middle of a snapshot.
    6. While spark is the owner, all that can be merged is merged: `position + 1` is not in `pending`, or needs parts of
       the inline runner that are not in `inline_pending` yet.

    owner = inline --caught_up(attempt, sn >= position, pending complete up to sn)--> owner = spark
    owner = spark  --lost(attempt)--> owner = inline, which builds at `position`
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import StrEnum
from typing import Protocol, TypeVar

import msgspec

from hbase_store import EmissionRow, Sn
from hbase_store.errors import StoreError
from hbase_store.log.emission_rows import EmissionsSoFar
from stream_ext.catalog.catalog import Left, QueryDefinition
from stream_ext.clock import Clock
from stream_ext.emissions.emission import SharedBody, Silence, Sources, body_of, encode_body, with_asked
from stream_ext.emissions.progress import EmissionGroup, GroupMembership, Progress, Stored
from stream_ext.emissions.runner_split import Homes
from stream_ext.errors import DeadlineExceeded
from stream_ext.retry import retry
from stream_ext.waits import Waits
from stream_ext.windows.part import Ids, Part
from stream_ext.windows.query_state import NOWHERE, QueryState

Result = TypeVar("Result")


class Runner(StrEnum):
    """Who evaluates registered queries. `BESIDE`: the inline runner while Spark has the other queries. `TRIAL`: a
    process that tries queries in quarantine; it sends no parts."""

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
    def so_far(self) -> EmissionsSoFar: ...


class Queries(Protocol):
    """The registered queries that exist now, by number."""

    def __call__(self) -> Mapping[int, QueryDefinition]: ...


def _no_number() -> int:
    raise AssertionError("a server that only reads makes no groups")


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
    ) -> None:
        """`new_number`: a number for a group, which no query and no group has had. `on_emissions` gets the emissions
        that are stored now, `on_silence` the queries that were evaluated without an emission, except in groups;
        `on_unstored` the time by which `flush` must be called; `waits` shows what the merge waits for. `sources`: of
        which time the data of sources are that a snapshot holds."""
        self._waits, self._sources = waits, sources
        self._log, self._clock, self._queries = log, clock, queries
        self._on_owner_change, self._on_emissions = on_owner_change, on_emissions
        self._on_silence, self._on_unstored, self._on_fault = on_silence, on_unstored, on_fault
        self._silent: dict[int, Silence] = {}
        self._changed = threading.Condition(threading.RLock())
        self._position = self._stored = int(log.position())
        self._busy = self._gives_up = False
        self._has_unstored = False  # besides the position: progress of queries that are behind
        self._fault: BaseException | None = None
        self._progress = Progress(log, queries(), lambda: self._retry(new_number))
        self._decode = lambda ids: self._retry(lambda: decode(ids))
        self._owner = Runner.INLINE
        self._attempt = 0
        self._attempts = 0
        self._followed = -1  # the last commit of another process that was taken in, with these queries
        self._followed_queries: Mapping[int, QueryDefinition] = {}
        self._pending: dict[int, list[list[Part]]] = {}
        self._inline_pending: dict[int, list[list[Part]]] | None = None
        self.homes = Homes()

    # ---- any thread may read -----------------------------------------------------------------------------------

    @property
    def position(self) -> int:
        return self._position

    @property
    def owner(self) -> Runner:
        return self._owner

    @property
    def role(self) -> Runner | None:
        """As what the inline runner sends parts; None: it has nothing to do."""
        with self._changed:
            if self._owner == Runner.INLINE:
                return Runner.INLINE
            return Runner.BESIDE if self.homes.any_after(self._position) else None

    def goes_on(self, role: Runner) -> bool:
        """Whether the parts that the inline runner sends in this role still count."""
        with self._changed:
            return self.role == role and (role == Runner.INLINE or self._inline_pending is not None)

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

    def attempt(self, runner: Runner) -> tuple[int, int, dict[int, QueryState]]:
        """A runner begins anew. Returns its number, the position and the states from which it must build; it then sends
        the parts of every later snapshot."""
        with self._idle():
            self._raise_fault()
            self._attempts += 1
            if runner == Runner.SPARK:
                self._attempt = self._attempts
                self._pending.clear()
            elif runner == Runner.BESIDE and self._owner == Runner.SPARK:
                self._inline_pending = {}
            return self._attempts, self._position, self._states_now()

    def take(self, runner: Runner, sn: int, parts: list[Part]) -> None:
        """Takes all parts of `sn`. They are merged now, or when it is their turn, or never (`position` shows it)."""
        with self._idle():
            self._raise_fault()
            if sn <= self._position or not self._may_send(runner):
                return
            if runner == Runner.INLINE:
                assert sn == self._position + 1, f"the inline runner sent snapshot {sn} after {self._position}"
                emitted = self._merge([(sn, parts), *self._following(sn)])
            else:
                (self._pending if runner == Runner.SPARK else self._inline_sent)[sn] = [parts]
                emitted = self._merge(self._following(self._position)) if self._owner == Runner.SPARK else []
        self._announce(emitted)

    def take_piece(self, runner: Runner, parts: list[Part]) -> None:
        """Takes parts of queries that are behind. They come after all that this runner has sent; they count as in
        `take`."""
        with self._idle():
            self._raise_fault()
            if not parts or not self._may_send(runner) or (runner == Runner.SPARK) > (self._owner == Runner.SPARK):
                return
            sent = (
                self._pending
                if runner == Runner.SPARK
                else (self._inline_pending or {})
                if runner == Runner.BESIDE
                else {}
            )
            if sent:
                sent[max(sent)].append(parts)
                emitted = []
            else:
                with self._being_busy():
                    emitted = self._merge_piece(parts)
        self._announce(emitted)

    def caught_up(self, runner: Runner, attempt: int, sn: int, behind: Mapping[int, int]) -> None:
        """This attempt has sent all parts up to `sn`: its runner becomes the owner, if `sn` is at least `position`.

        `behind`: its queries that wait for a remote endpoint, and the snapshot up to which each was stepped."""
        with self._idle():
            self._raise_fault()
            if runner != Runner.SPARK or attempt != self._attempt or self._owner == Runner.SPARK:
                return
            # All snapshots between must be pending, or some would be missing after the hand-over.
            if sn < self._position or any(n not in self._pending for n in range(self._position + 1, sn + 1)):
                return
            # Its parts of queries that are behind may begin after the states that these have here.
            if (self._progress.catching_up() and sn > self._position) or not self._would_miss_nothing(behind):
                return
            self._owner, self._inline_pending = Runner.SPARK, None
            emitted = self._merge(self._following(self._position))
        self._announce(emitted)
        self._on_owner_change()

    def lost(self, runner: Runner, attempt: int) -> None:
        """The runner of that attempt has ended: the inline runner continues after `position`."""
        with self._idle():
            if runner != Runner.SPARK or attempt != self._attempt:
                return
            self._attempt = 0
            self._pending.clear()
            changed = self._owner == Runner.SPARK
            self._owner, self._inline_pending = Runner.INLINE, None
        if changed:
            self._on_owner_change()

    # ---- called by the service ---------------------------------------------------------------------------------

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

    def _may_send(self, runner: Runner) -> bool:
        if runner == Runner.BESIDE:
            return self._inline_pending is not None
        return self._owner == Runner.INLINE if runner == Runner.INLINE else self._attempt != 0

    def _would_miss_nothing(self, behind: Mapping[int, int]) -> bool:
        """Whether the next owner will send all parts of queries that wait for a remote endpoint.

        `behind`: the snapshots up to which the next owner has stepped them. For a query that waits here, this must not
        be later than its snapshot here, or the parts between would have been sent when they did not count. A query
        that waits only at the next owner is marked as behind here, too, for the owner after it."""
        queries = self._queries()

        def goes(number: int, state: QueryState) -> bool:
            query = queries.get(number)
            return (
                query is not None and query.home is None and query.is_evaluated and query.current_state(state) is state
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

    @property
    def _inline_sent(self) -> dict[int, list[list[Part]]]:
        assert self._inline_pending is not None
        return self._inline_pending

    def _raise_fault(self) -> None:
        if self._fault is not None:
            raise self._fault

    def _following(self, sn: int) -> list[tuple[int, list[Part]]]:
        """The pending parts of the snapshots right after `sn`, up to the first that is incomplete."""
        found = []
        while (sn := sn + 1) in self._pending:
            inline: list[list[Part]] = [[]]
            if self.homes.are_two(sn):
                if self._inline_pending is None or sn not in self._inline_pending:
                    break
                inline = self._inline_pending.pop(sn)
            parts, *pieces = self._pending.pop(sn)
            found += [(sn, [*parts, *inline[0]]), *((sn, piece) for piece in (*pieces, *inline[1:]))]
        return found

    def _merge(self, steps: Sequence[tuple[int, list[Part]]]) -> list[EmissionRow]:
        """Merges these snapshots; returns the emissions."""
        if not steps:
            return []
        with self._being_busy():
            return self._merge_now(steps)

    def _merge_now(self, steps: Sequence[tuple[int, list[Part]]]) -> list[EmissionRow]:
        queries = self._queries()
        try:
            rows = [row for sn, parts in steps for row in self._merged(sn, parts, queries)]
        except BaseException as error:  # what was merged so far does not count: no commit has it
            self.fail(error)
            raise
        position = steps[-1][0]
        if rows or self._progress.moved:
            self._commit(rows, position)
        elif self._stored == self._position:
            self._on_unstored(self._clock.now_ms() + _STORE_WITHIN_MS)
        self._position = position
        for waiting in (self._pending, self._inline_pending or {}):
            for sn in [sn for sn in waiting if sn <= position]:
                del waiting[sn]
        self.homes.forget(position)
        return rows

    def _merge_piece(self, parts: list[Part]) -> list[EmissionRow]:
        """Merges parts of queries that are behind, at the same position."""
        try:
            rows = list(self._merged(self._position, parts, self._queries()))
        except BaseException as error:  # as in `_merge_now`
            self.fail(error)
            raise
        if rows or self._progress.moved:
            self._commit(rows, self._position)
        elif not self._has_unstored:
            self._has_unstored = True
            self._on_unstored(self._clock.now_ms() + _STORE_WITHIN_MS)
        return rows

    def _merged(self, sn: int, sent: Sequence[Part], queries: Mapping[int, QueryDefinition]) -> Iterator[EmissionRow]:
        """The emissions of one snapshot; those of earlier snapshots, which were missed, come first."""
        parts = [part for part in sent if not (part.after_move or part.given_up)]
        # Which are is decided before the first is merged.
        stale = [not part.is_shared and self._is_stale(part) for part in parts]
        in_order = sorted(zip(parts, stale, strict=True), key=lambda each: (each[0].sn, each[0].k, each[0].evaluated))
        for part, is_stale in in_order:
            if part.is_shared:
                if (group := self._progress.together(part, queries)) is not None:
                    yield from self._emissions_of_group(part, group, queries)
            elif (query := queries.get(part.query)) is not None and not self._is_emitted(part):
                if is_stale:
                    self._update_waiting(part)
                else:
                    yield from self._emissions_of(part, query)
        yield from self._emissions_after_move(sn, [part for part in sent if part.after_move], queries)
        for part in sent:
            if part.given_up and part.query in queries:
                self._give_up(part)

    def _is_emitted(self, part: Part) -> bool:
        """Whether it is the part of an evaluation that is merged already, from another runner."""
        state = self._progress.state(part.query)
        last = None if state is None else state.evaluated
        return part.evaluated and last is not None and (part.sn, part.k) <= (last.sn, last.k)

    def _is_stale(self, part: Part) -> bool:
        """Whether the state of this part is older than the known state, of a query that is behind."""
        state, new = self._progress.state(part.query), part.state
        if part.evaluated or state is None or new.behind_at == NOWHERE:
            return False
        return (state.behind_at is not None or new.behind_at is not None) and state.progress > new.progress

    def _update_waiting(self, part: Part) -> None:
        """The runner repeats older evaluations than are merged; only whether it waits for an answer is taken from the
        part."""
        state = self._progress.state(part.query)
        if state is None or state.behind_at is None or part.state.behind_at is None:
            return
        if state.unanswered != part.state.unanswered:
            changed = state.behind(state.behind_at, state.within, part.state.unanswered)
            self._progress.by_itself(part.query, changed, 0)

    def _emissions_after_move(
        self, sn: int, parts: Sequence[Part], queries: Mapping[int, QueryDefinition]
    ) -> Iterator[EmissionRow]:
        """The emissions of queries that were moved to another runner in this snapshot, from the parts of the new
        runner. All parts of the runner before are merged already."""
        left = {
            part.query: self._current_state(query) for part in parts if (query := queries.get(part.query)) is not None
        }
        for part in sorted(parts, key=lambda part: (part.sn, part.k)):
            if (known := left.get(part.query)) is None:
                continue
            if known.behind_at is None:  # all of its parts are merged
                if part.state.behind_at is not None and not part.evaluated:
                    changed = known.behind(sn, None, part.state.unanswered)
                    self._progress.by_itself(part.query, changed, 0)
            elif part.evaluated:
                if not self._is_emitted(part):
                    yield from self._emissions_of(part, queries[part.query])
            elif part.state.behind_at is None or part.state.progress >= known.progress:
                self._progress.by_itself(part.query, part.state, 0)
            else:
                changed = known.behind(known.behind_at, known.within, part.state.unanswered)
                self._progress.by_itself(part.query, changed, 0)

    def _give_up(self, part: Part) -> None:
        state = self._current_state(self._queries()[part.query])
        if state.behind_at is not None:
            changed = msgspec.structs.replace(state, behind_at=None, within=None, unanswered=False)
            self._progress.by_itself(part.query, changed, 0)

    def _current_state(self, query: QueryDefinition) -> QueryState:
        """The state of a query; not older than the snapshot since which it runs."""
        state = query.current_state(self._progress.state(query.number))
        return state if state.sn >= max(query.since, 1) else msgspec.structs.replace(state, sn=max(query.since, 1))

    def _emissions_of(self, part: Part, query: QueryDefinition) -> Iterator[EmissionRow]:
        self._progress.by_itself(part.query, part.state, max(1, part.repeated) * part.evaluated)
        if part.emits:
            number = self._progress.count_emission(
                part.query, len(part.columns[0]) if part.columns else int(bool(part.boolean))
            )
            body = body_of(
                part, query.name, number, query.r2s, query.variables, self._decode, query.constructs,
                with_asked(part, self._sources(part.sn)),
            )  # fmt: skip
            yield EmissionRow(part.query, number, encode_body(body))
        elif part.evaluated:
            self._silent[part.query] = Silence(part.time, self._progress.last(part.query))

    def _emissions_of_group(
        self, part: Part, group: EmissionGroup, queries: Mapping[int, QueryDefinition]
    ) -> Iterator[EmissionRow]:
        """One record for all queries; if empty results are not emitted, an emission for each query with a result."""
        if not part.evaluated or not (part.emits or len(part.whose)):
            return
        body = SharedBody.of(part, self._decode, with_asked(part, self._sources(part.sn)))
        if part.emits:
            yield EmissionRow(group.number, group.records, encode_body(body))
            return
        for number in dict.fromkeys(part.queries[part.whose].tolist()):
            query = queries.get(number)
            if query is not None and self._progress.is_in(number, group):
                emission, gap = self._progress.count_silent_emission(number)
                yield EmissionRow(number, emission, encode_body(body.own(query, emission, gap)))

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
            silent, self._silent = self._silent, {}
        if silent:
            self._on_silence(silent)
