"""The merge: where the work of whichever runner becomes emissions, each exactly once.

A runner steps every snapshot and hands over its parts; the merge takes snapshots strictly in order, numbers what
is said, stores it together with the state of each query, and only then tells anyone. What a part says depends on
the store alone, so it does not matter who made it, or how often: it matters that each snapshot counts once.

While the store does not answer, what it is asked is asked again, and the lock is let go in between: who waits or looks
is answered, and whoever would change something here waits (`_alone`).

State, all under one lock:
    stored <= position      what the emission log has; what is merged. Between them nothing was said.
    owner                   whose parts are merged; of queries that stay inline beside Spark, always the inline runner's
    attempt                 the number of the spark runner's latest attempt; 0: there is none
    pending                 parts of the spark runner for snapshots above `position`, waiting for their turn; and then
                            what it made up for since, piece by piece
    beside                  the same of the inline runner, of the queries that stay there; None: it has not begun

Invariants:
    1. `position` grows by one snapshot at a time; that snapshot's emissions are in the log by then.
    2. A query's emissions are numbered 1, 2, 3, ... in the order of (snapshot, k). Its progress is the one after
       its last part at or before `position`.
    3. One commit stores emissions, states and position; it happens or it does not. After a crash the log's
       position, states and numbers belong together, and the snapshots above are stepped again.
    4. `pending` holds nothing at or below `position`, and nothing of an attempt before the latest.
    5. Of a query that has fallen behind the others what it made up for counts at `position`, in order; its progress
       says how far it has come. It may be in the middle of a snapshot.
    6. While spark is the owner, what can be merged has been: `position + 1` is not in `pending`, or needs the parts of
       `beside`, which has none of it yet.

    owner = inline --caught_up(attempt, sn >= position, pending complete up to sn)--> owner = spark
    owner = spark  --lost(attempt)--> owner = inline, which builds at `position`
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Literal, Protocol, TypeVar

import msgspec

from hbase_store import EmissionRow, Sn
from hbase_store.errors import StoreError
from stream_ext.catalog.catalog import Left, QueryDefinition
from stream_ext.clock import Clock
from stream_ext.emissions.emission import SharedBody, Silence, body_of, encode_body
from stream_ext.emissions.progress import EmissionGroup, GroupMembership, Standings, Stored
from stream_ext.emissions.runner_split import Homes
from stream_ext.errors import DeadlineExceeded
from stream_ext.retry import retry
from stream_ext.waits import Waits
from stream_ext.windows.part import AnyPart, Ids, Part, SharedPart
from stream_ext.windows.schedule import NOWHERE, QueryState

Result = TypeVar("Result")
Runner = Literal["inline", "spark"]
#: What the inline runner is to do: all queries, or those that stay inline while the others are on Spark.
Role = Literal["inline", "beside"]

#: Positions without emissions are stored with the next commit, or after this time.
_STORE_WITHIN_MS = 1_000


class EmissionCommits(Protocol):
    """What the merge asks of the store's `EmissionLog`."""

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
    ) -> None:
        """`new_number`: for a group, one that no query and no group has had. `on_emissions` is told what is stored now,
        `on_silence` which queries were evaluated by themselves and said nothing; `on_unstored` by when `flush` must be
        called; `waits` is shown what is waited for."""
        self._waits = waits
        self._log, self._clock, self._queries = log, clock, queries
        self._on_owner_change, self._on_emissions = on_owner_change, on_emissions
        self._on_silence, self._on_unstored, self._on_fault = on_silence, on_unstored, on_fault
        self._silent: dict[int, Silence] = {}
        self._changed = threading.Condition(threading.RLock())
        self._position = self._stored = int(log.position())
        self._busy = self._gives_up = False
        self._has_unstored = False  # besides the position: how far some have come that are behind
        self._fault: BaseException | None = None
        self._standings = Standings(log, queries(), lambda: self._retry(new_number))
        self._decode = lambda ids: self._retry(lambda: decode(ids))
        self._owner: Runner = "inline"
        self._attempt = 0
        self._attempts = 0
        self._pending: dict[int, list[list[AnyPart]]] = {}
        self._beside: dict[int, list[list[AnyPart]]] | None = None
        self.homes = Homes()

    # ---- what everyone may ask ---------------------------------------------------------------------------------

    @property
    def position(self) -> int:
        return self._position

    @property
    def owner(self) -> Runner:
        return self._owner

    @property
    def role(self) -> Role | None:
        """That of the inline runner; None: it has nothing to do."""
        with self._changed:
            if self._owner == "inline":
                return "inline"
            return "beside" if self.homes.any_after(self._position) else None

    def goes_on(self, role: Role) -> bool:
        """Whether the inline runner's parts still count, which it began to send in this role."""
        with self._changed:
            return self.role == role and (role == "inline" or self._beside is not None)

    @property
    def fault(self) -> BaseException | None:
        return self._fault

    def states(self) -> dict[int, QueryState]:
        """Of all queries that exist, at `position`."""
        with self._alone():
            return self._states_now()

    def state(self, query: int) -> QueryState | None:
        """Where the query had come to at its last evaluation; None if it has had none."""
        with self._changed:
            return self._standings.state(query)

    def left(self, query: QueryDefinition) -> Left:
        """Where a query is now."""
        with self._alone():
            return Left(self._position, query.standing(self._standings.state(query.number)))

    def stored(self) -> Stored:
        with self._alone():
            return self._standings.as_stored(self._stored)

    def last(self, query: int) -> int:
        """The number of the query's last emission; 0: none."""
        with self._changed:
            return self._standings.last(query)

    def memberships(self, query: int) -> list[GroupMembership]:
        """Which of its emissions are records of groups, the oldest first."""
        with self._changed:
            return self._standings.memberships(query)

    def evaluations(self, query: int) -> int:
        """Since this process started."""
        with self._changed:
            return self._standings.evaluations(query)

    def rows(self, query: int) -> int:
        """That it has said since this process started."""
        with self._changed:
            return self._standings.rows(query)

    def catching_up(self) -> dict[int, QueryState]:
        """The queries that have fallen behind the others, for so much fell due at once, and where each stands."""
        with self._changed:
            return self._catching_up()

    def stand_for(self, queries: Collection[int]) -> dict[int, QueryState]:
        """Of all that are behind here, and of these, which are behind with a runner that has begun to send what counts:
        where they go on. What that runner made of them before did not count."""
        with self._alone():
            found = self._catching_up()
            definitions = self._queries()
            for number in [number for number in queries if number not in found]:
                query, state = definitions.get(number), self._standings.state(number)
                if query is None or state is None or not query.is_evaluated or query.standing(state) is not state:
                    continue
                if state.behind_at is None:
                    state = state.behind(self._position)
                    self._standings.by_itself(number, state, 0)
                if state.is_catching_up:
                    found[number] = state
            return found

    def wait(self, sn: int, deadline_s: float, for_all: bool = False) -> None:
        """Until `position` >= sn; `for_all`: and those that have fallen behind have come there, too."""

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
                    f"snapshot {sn} is published, and its evaluation cannot be waited for here: the queries have come "
                    f"to {self._position}, and go on when this server is the writer again ({self._fault})"
                )
            if self._fault is not None:
                raise self._fault
            raise DeadlineExceeded(
                f"snapshot {sn} was not evaluated within {deadline_s:g} s; the queries are at {self._position}"
            )

    # ---- what runners say --------------------------------------------------------------------------------------

    def attempt(self, runner: str) -> tuple[int, int, dict[int, QueryState]]:
        """A runner begins anew: its number, and where it must build. It sends the parts of every snapshot above."""
        with self._alone():
            self._raise_fault()
            self._attempts += 1
            if runner == "spark":
                self._attempt = self._attempts
                self._pending.clear()
            elif runner == "beside" and self._owner == "spark":
                self._beside = {}
            return self._attempts, self._position, self._states_now()

    def take(self, runner: str, sn: int, parts: list[AnyPart]) -> None:
        """These are all parts of `sn`. They count now, or when their turn comes, or not (`position` says so)."""
        with self._alone():
            self._raise_fault()
            if sn <= self._position or not self._may_send(runner):
                return
            if runner == "inline":
                assert sn == self._position + 1, f"the inline runner sent snapshot {sn} after {self._position}"
                said = self._merge([(sn, parts), *self._following(sn)])
            else:
                (self._pending if runner == "spark" else self._sent_beside)[sn] = [parts]
                said = self._merge(self._following(self._position)) if self._owner == "spark" else []
        self._tell(said)

    def take_piece(self, runner: str, parts: list[AnyPart]) -> None:
        """What queries that are behind have made up for, after all that this runner has sent; or not (as `take`)."""
        with self._alone():
            self._raise_fault()
            if not parts or not self._may_send(runner) or (runner == "spark") > (self._owner == "spark"):
                return
            sent = self._pending if runner == "spark" else (self._beside or {}) if runner == "beside" else {}
            if sent:
                sent[max(sent)].append(parts)
                said = []
            else:
                with self._being_busy():
                    said = self._merge_piece(parts)
        self._tell(said)

    def caught_up(self, runner: str, attempt: int, sn: int, behind: Mapping[int, int]) -> None:
        """This attempt has sent all parts up to `sn`: its runner becomes the owner, if that is up to `position`.

        `behind`: its queries that wait for an answer from elsewhere, and where each stands."""
        with self._alone():
            self._raise_fault()
            if runner != "spark" or attempt != self._attempt or self._owner == "spark":
                return
            # All between must be pending, or something would be missing after the hand-over.
            if sn < self._position or any(n not in self._pending for n in range(self._position + 1, sn + 1)):
                return
            # What it has sent of those that are behind, beyond where they stand, is not what follows here.
            if (self._standings.catching_up() and sn > self._position) or not self._would_miss_nothing(behind):
                return
            self._owner, self._beside = "spark", None
            said = self._merge(self._following(self._position))
        self._tell(said)
        self._on_owner_change()

    def lost(self, runner: str, attempt: int) -> None:
        """That attempt's runner is gone for good: the inline runner goes on after `position`."""
        with self._alone():
            if runner != "spark" or attempt != self._attempt:
                return
            self._attempt = 0
            self._pending.clear()
            changed = self._owner == "spark"
            self._owner, self._beside = "inline", None
        if changed:
            self._on_owner_change()

    # ---- what the service says ---------------------------------------------------------------------------------

    def publish(self, sn: int, some: bool) -> None:
        """After this snapshot `some` query stays inline, whoever has the others."""
        with self._changed:
            self.homes.published(sn, some)
            self._changed.notify_all()  # one that was behind may be gone

    def dropped(self, query: int) -> None:
        """The query is gone: its state goes with the next commit, and its parts count no more."""
        with self._alone():
            self._standings.drop(query)

    def collected(self, oldest: Callable[[int], int]) -> None:
        """Emissions were let go; `oldest`: the number of the oldest that is kept, of a query or a group."""
        with self._alone():
            self._standings.collected(oldest)

    def fail(self, error: BaseException) -> None:
        """Nothing is merged any more; all who wait, now or later, get the error."""
        with self._changed:
            if self._fault is not None:
                return
            self._fault = error
            self._changed.notify_all()
        self._on_fault(error)

    def flush(self) -> None:
        """Stores the position, where it is ahead of what is stored."""
        with self._alone():
            if self._fault is None and (self._stored < self._position or self._has_unstored):
                with self._being_busy():
                    self._commit([], self._position)

    def give_up(self) -> None:
        """From now on no store is waited for."""
        with self._changed:
            self._gives_up = True
            self._changed.notify_all()

    # ---- under the lock ----------------------------------------------------------------------------------------

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """The lock, while nobody is in the middle of a merge that waits for the store."""
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
        found = self._standings.states()
        return {number: found.get(number, query.state) for number, query in self._queries().items()}

    def _catching_up(self) -> dict[int, QueryState]:
        found = self._standings.catching_up()
        queries = self._queries() if found else {}
        return {
            number: state
            for number, state in found.items()
            if (query := queries.get(number)) is not None and query.is_evaluated and query.standing(state) is state
        }

    def _may_send(self, runner: str) -> bool:
        if runner == "beside":
            return self._beside is not None
        return self._owner == "inline" if runner == "inline" else self._attempt != 0

    def _would_miss_nothing(self, behind: Mapping[int, int]) -> bool:
        """Whether queries for which others did not answer the owner stand with who is to be the next one where they
        stand here, or before; what that one makes up for must not have been said while it did not count.

        Those that stand there alone do so here, too, from now on: whoever goes on after it finds them so."""
        queries = self._queries()

        def goes(number: int, state: QueryState) -> bool:
            query = queries.get(number)
            return query is not None and query.home is None and query.is_evaluated and query.standing(state) is state

        for number, stands in self._standings.waiting():
            state = self._standings.state(number)
            if state is not None and goes(number, state) and behind.get(number, self._position) > stands:
                return False
        for number, stands in behind.items():
            state = self._standings.state(number)
            if state is not None and goes(number, state) and state.behind_at is None and stands < self._position:
                self._standings.by_itself(number, state.behind(self._position), 0)
        return True

    @property
    def _sent_beside(self) -> dict[int, list[list[AnyPart]]]:
        assert self._beside is not None
        return self._beside

    def _raise_fault(self) -> None:
        if self._fault is not None:
            raise self._fault

    def _following(self, sn: int) -> list[tuple[int, list[AnyPart]]]:
        """What is pending right after `sn`, without a gap."""
        found = []
        while (sn := sn + 1) in self._pending:
            beside: list[list[AnyPart]] = [[]]
            if self.homes.are_two(sn):
                if self._beside is None or sn not in self._beside:
                    break
                beside = self._beside.pop(sn)
            parts, *pieces = self._pending.pop(sn)
            found += [(sn, [*parts, *beside[0]]), *((sn, piece) for piece in (*pieces, *beside[1:]))]
        return found

    def _merge(self, steps: Sequence[tuple[int, list[AnyPart]]]) -> list[EmissionRow]:
        """Takes these snapshots in; what was said."""
        if not steps:
            return []
        with self._being_busy():
            return self._merge_alone(steps)

    def _merge_alone(self, steps: Sequence[tuple[int, list[AnyPart]]]) -> list[EmissionRow]:
        queries = self._queries()
        try:
            rows = [row for sn, parts in steps for row in self._merged(sn, parts, queries)]
        except BaseException as error:  # what was taken in so far does not count: no commit has it
            self.fail(error)
            raise
        position = steps[-1][0]
        if rows or self._standings.moved:
            self._commit(rows, position)
        elif self._stored == self._position:
            self._on_unstored(self._clock.now_ms() + _STORE_WITHIN_MS)
        self._position = position
        for waiting in (self._pending, self._beside or {}):
            for sn in [sn for sn in waiting if sn <= position]:
                del waiting[sn]
        self.homes.forget(position)
        return rows

    def _merge_piece(self, parts: list[AnyPart]) -> list[EmissionRow]:
        """Takes in what was made up for, beside the snapshots that count."""
        try:
            rows = list(self._merged(self._position, parts, self._queries()))
        except BaseException as error:  # as in `_merge_alone`
            self.fail(error)
            raise
        if rows or self._standings.moved:
            self._commit(rows, self._position)
        elif not self._has_unstored:
            self._has_unstored = True
            self._on_unstored(self._clock.now_ms() + _STORE_WITHIN_MS)
        return rows

    def _merged(
        self, sn: int, told: Sequence[AnyPart], queries: Mapping[int, QueryDefinition]
    ) -> Iterator[EmissionRow]:
        """The emissions of one snapshot; what was missed in those before it comes first."""
        parts = [part for part in told if isinstance(part, SharedPart) or not (part.after_move or part.given_up)]
        stale = {id(part) for part in parts if isinstance(part, Part) and self._is_stale(part)}
        for part in sorted(parts, key=lambda part: (part.sn, part.k, part.evaluated)):
            if isinstance(part, SharedPart):
                if (group := self._standings.together(part, queries)) is not None:
                    yield from self._said_together(part, group, queries)
            elif (query := queries.get(part.query)) is not None and not self._is_said(part):
                if id(part) in stale:
                    self._stands_further(part)
                else:
                    yield from self._said_by(part, query)
        yield from self._taken_over(sn, [part for part in told if isinstance(part, Part) and part.after_move], queries)
        for part in told:
            if isinstance(part, Part) and part.given_up and part.query in queries:
                self._give_up(part)

    def _is_said(self, part: Part) -> bool:
        """Whether it makes up for an evaluation that another runner has made in time."""
        state = self._standings.state(part.query)
        last = None if state is None else state.evaluated
        return part.evaluated and last is not None and (part.sn, part.k) <= (last.sn, last.k)

    def _is_stale(self, part: Part) -> bool:
        """Whether it keeps less of a query that is behind than is known already."""
        state, told = self._standings.state(part.query), part.state
        if part.evaluated or state is None or told.behind_at == NOWHERE:
            return False
        return (state.behind_at is not None or told.behind_at is not None) and state.progress > told.progress

    def _stands_further(self, part: Part) -> None:
        """Its runner stands where this part says, and waits for an answer there or not; what was said goes further."""
        state = self._standings.state(part.query)
        if state is None or state.behind_at is None or part.state.behind_at is None:
            return
        if state.unanswered != part.state.unanswered:
            kept = state.behind(state.behind_at, state.within, part.state.unanswered)
            self._standings.by_itself(part.query, kept, 0)

    def _taken_over(
        self, sn: int, parts: Sequence[Part], queries: Mapping[int, QueryDefinition]
    ) -> Iterator[EmissionRow]:
        """What runners say of the queries that were moved to them in this snapshot; what those had to say that had them
        before is known."""
        left = {part.query: self._standing(query) for part in parts if (query := queries.get(part.query)) is not None}
        for part in sorted(parts, key=lambda part: (part.sn, part.k)):
            if (known := left.get(part.query)) is None:
                continue
            if known.behind_at is None:  # all of this was said
                if part.state.behind_at is not None and not part.evaluated:
                    kept = known.behind(sn, None, part.state.unanswered)
                    self._standings.by_itself(part.query, kept, 0)
            elif part.evaluated:
                if not self._is_said(part):
                    yield from self._said_by(part, queries[part.query])
            elif part.state.behind_at is None or part.state.progress >= known.progress:
                self._standings.by_itself(part.query, part.state, 0)
            else:
                kept = known.behind(known.behind_at, known.within, part.state.unanswered)
                self._standings.by_itself(part.query, kept, 0)

    def _give_up(self, part: Part) -> None:
        state = self._standing(self._queries()[part.query])
        if state.behind_at is not None:
            kept = msgspec.structs.replace(state, behind_at=None, within=None, unanswered=False)
            self._standings.by_itself(part.query, kept, 0)

    def _standing(self, query: QueryDefinition) -> QueryState:
        """Where it stands since it runs."""
        state = query.standing(self._standings.state(query.number))
        return state if state.sn >= max(query.since, 1) else msgspec.structs.replace(state, sn=max(query.since, 1))

    def _said_by(self, part: Part, query: QueryDefinition) -> Iterator[EmissionRow]:
        self._standings.by_itself(part.query, part.state, max(1, part.repeated) * part.evaluated)
        if part.emits:
            number = self._standings.say(part.query, len(part.columns[0]) if part.columns else int(bool(part.boolean)))
            body = body_of(part, query.name, number, query.r2s, query.variables, self._decode, query.constructs)
            yield EmissionRow(part.query, number, encode_body(body))
        elif part.evaluated:
            self._silent[part.query] = Silence(part.time, self._standings.last(part.query))

    def _said_together(
        self, part: SharedPart, group: EmissionGroup, queries: Mapping[int, QueryDefinition]
    ) -> Iterator[EmissionRow]:
        """One record for all; where nothing is said of an empty answer, an emission of each that has another."""
        if not part.evaluated or not (part.reports or len(part.whose)):
            return
        body = SharedBody.of(part, self._decode)
        if part.reports:
            yield EmissionRow(group.number, group.records, encode_body(body))
            return
        for number in dict.fromkeys(part.queries[part.whose].tolist()):
            query = queries.get(number)
            if query is not None and self._standings.is_in(number, group):
                emission, gap = self._standings.say_in_silence(number)
                yield EmissionRow(number, emission, encode_body(body.own(query, emission, gap)))

    def _commit(self, rows: list[EmissionRow], position: int) -> None:
        """One publish. If it fails, memory and log may differ: nothing is merged any more."""
        states = self._standings.unstored()
        try:
            self._retry(lambda: self._log.commit(rows, states, Sn(position)))
        except BaseException as error:
            self.fail(error)
            raise
        self._stored, self._has_unstored = position, False
        self._standings.stored()

    def _tell(self, said: Sequence[EmissionRow]) -> None:
        if said:
            self._on_emissions(said)
        with self._changed:
            silent, self._silent = self._silent, {}
        if silent:
            self._on_silence(silent)
