"""The merge: where the work of whichever runner becomes emissions, each exactly once.

A runner steps every snapshot and hands over its parts; the merge takes snapshots strictly in order, numbers what
is said, stores it together with the state of each query, and only then tells anyone. What a part says depends on
the store alone, so it does not matter who made it, or how often: it matters that each snapshot counts once.

State, all under one lock:
    stored <= position      what the emission log has; what is merged. Between them nothing was said.
    owner                   whose parts are merged
    attempt                 the number of the spark runner's latest attempt; 0: there is none
    pending                 parts of the spark runner for snapshots above `position`, waiting for their turn

Invariants:
    1. `position` grows by one snapshot at a time; that snapshot's emissions are in the log by then.
    2. A query's emissions are numbered 1, 2, 3, ... in the order of (snapshot, k). Its progress is the one after
       its last part at or before `position`.
    3. One commit stores emissions, states and position; it happens or it does not. After a crash the log's
       position, states and numbers belong together, and the snapshots above are stepped again.
    4. `pending` holds nothing at or below `position`, and nothing of an attempt before the latest.
    5. While spark is the owner, `position + 1` is not in `pending` (what can be merged has been).

    owner = inline --caught_up(attempt, sn >= position, pending complete up to sn)--> owner = spark
    owner = spark  --lost(attempt)--> owner = inline, which builds at `position`
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, Protocol

import msgspec

from hbase_store import EmissionRow, Sn
from stream_ext.catalog import QueryDefinition
from stream_ext.clock import Clock
from stream_ext.emission import body_of, encode_body
from stream_ext.errors import DeadlineExceeded
from stream_ext.insistence import insist
from stream_ext.part import Ids, Part
from stream_ext.schedule import QueryState

Runner = Literal["inline", "spark"]

#: Positions without emissions are stored with the next commit, or after this time.
_STORE_WITHIN_MS = 1_000


class Log(Protocol):
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
        log: Log,
        clock: Clock,
        queries: Queries,
        decode: Callable[[Ids], list[bytes]],
        *,
        on_owner_change: Callable[[], None] = lambda: None,
        on_emissions: Callable[[Sequence[EmissionRow]], None] = lambda _: None,
        on_silence: Callable[[Mapping[int, int]], None] = lambda _: None,
        on_unstored: Callable[[int], None] = lambda _: None,
        on_fault: Callable[[BaseException], None] = lambda _: None,
    ) -> None:
        """`on_emissions` is told what is stored now, `on_silence` which queries were evaluated and said nothing,
        and for what time; `on_unstored` by when `flush` must be called."""
        self._log, self._clock, self._queries, self._decode = log, clock, queries, decode
        self._on_owner_change, self._on_emissions = on_owner_change, on_emissions
        self._on_silence, self._on_unstored, self._on_fault = on_silence, on_unstored, on_fault
        self._silent: dict[int, int] = {}
        self._changed = threading.Condition(threading.RLock())
        self._position = self._stored = int(log.position())
        self._kept: dict[int, QueryState] = {}
        self._states = {query: msgspec.msgpack.decode(body, type=QueryState) for query, body in log.states().items()}
        self._kept.update(self._states)
        self._numbers = {query: log.last(query) for query in queries()}
        #: Of each query, since this process started.
        self.evaluations: Counter[int] = Counter()
        self.rows: Counter[int] = Counter()
        self._dirty: set[int] = set()
        self._gone: set[int] = {query for query in self._states if query not in queries()}
        self._owner: Runner = "inline"
        self._attempt = 0
        self._attempts = 0
        self._pending: dict[int, list[Part]] = {}
        self._fault: BaseException | None = None

    # ---- what everyone may ask ---------------------------------------------------------------------------------

    @property
    def position(self) -> int:
        return self._position

    @property
    def owner(self) -> Runner:
        return self._owner

    @property
    def fault(self) -> BaseException | None:
        return self._fault

    def states(self) -> dict[int, QueryState]:
        """Of all queries that exist, at `position`."""
        with self._changed:
            return self._states_now()

    def state(self, query: int) -> QueryState | None:
        """Where the query had come to at its last evaluation; None if it has had none."""
        with self._changed:
            return self._states.get(query)

    def stored(self) -> tuple[int, dict[int, QueryState]]:
        """From where the queries go on after a restart: the stored position, and the stored states."""
        with self._changed:
            return self._stored, dict(self._kept)

    def last(self, query: int) -> int:
        """The number of the query's last emission; 0: none."""
        with self._changed:
            return self._numbers.get(query, 0)

    def wait(self, sn: int, deadline_s: float) -> None:
        """Until `position` >= sn."""
        with self._changed:
            self._changed.wait_for(lambda: self._position >= sn or self._fault is not None, deadline_s)
            if self._position >= sn:
                return
            if self._fault is not None:
                raise self._fault
            raise DeadlineExceeded(
                f"snapshot {sn} was not evaluated within {deadline_s:g} s; the queries are at {self._position}"
            )

    # ---- what runners say --------------------------------------------------------------------------------------

    def attempt(self, runner: str) -> tuple[int, int, dict[int, QueryState]]:
        """A runner begins anew: its number, and where it must build. It sends the parts of every snapshot above."""
        with self._changed:
            self._raise_fault()
            self._attempts += 1
            if runner == "spark":
                self._attempt = self._attempts
                self._pending.clear()
            return self._attempts, self._position, self._states_now()

    def take(self, runner: str, sn: int, parts: list[Part]) -> None:
        """These are all parts of `sn`. They count now, or when their turn comes, or not (`position` says so)."""
        with self._changed:
            self._raise_fault()
            if sn <= self._position or not self._may_send(runner):
                return
            if runner == self._owner and sn == self._position + 1:
                said = self._merge([(sn, parts), *self._following(sn)])
            elif runner == "spark":
                self._pending[sn] = parts
                said = []
            else:
                raise AssertionError(f"the inline runner sent snapshot {sn} after {self._position}")
        self._tell(said)

    def caught_up(self, runner: str, attempt: int, sn: int) -> None:
        """This attempt has sent all parts up to `sn`: its runner becomes the owner, if that is up to `position`."""
        with self._changed:
            self._raise_fault()
            if runner != "spark" or attempt != self._attempt or self._owner == "spark":
                return
            # All between must be pending, or something would be missing after the hand-over.
            if sn < self._position or any(n not in self._pending for n in range(self._position + 1, sn + 1)):
                return
            self._owner = "spark"
            said = self._merge(self._following(self._position))
        self._tell(said)
        self._on_owner_change()

    def lost(self, runner: str, attempt: int) -> None:
        """That attempt's runner is gone for good: the inline runner goes on after `position`."""
        with self._changed:
            if runner != "spark" or attempt != self._attempt:
                return
            self._attempt = 0
            self._pending.clear()
            changed = self._owner == "spark"
            self._owner = "inline"
        if changed:
            self._on_owner_change()

    # ---- what the service says ---------------------------------------------------------------------------------

    def dropped(self, query: int) -> None:
        """The query is gone: its state goes with the next commit, and its parts count no more."""
        with self._changed:
            self._numbers.pop(query, None)
            del self.evaluations[query], self.rows[query]
            if self._states.pop(query, None) is not None:
                self._gone.add(query)

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
        with self._changed:
            if self._fault is None and self._stored < self._position:
                self._commit([], self._position)

    # ---- under the lock ----------------------------------------------------------------------------------------

    def _states_now(self) -> dict[int, QueryState]:
        return {number: self._states.get(number, query.state) for number, query in self._queries().items()}

    def _may_send(self, runner: str) -> bool:
        return self._owner == "inline" if runner == "inline" else self._attempt != 0

    def _raise_fault(self) -> None:
        if self._fault is not None:
            raise self._fault

    def _following(self, sn: int) -> list[tuple[int, list[Part]]]:
        """What is pending right after `sn`, without a gap."""
        found = []
        while (sn := sn + 1) in self._pending:
            found.append((sn, self._pending.pop(sn)))
        return found

    def _merge(self, steps: Sequence[tuple[int, list[Part]]]) -> list[EmissionRow]:
        """Takes these snapshots in; what was said."""
        if not steps:
            return []
        queries = self._queries()
        rows: list[EmissionRow] = []
        for _, parts in steps:
            for part in sorted(parts, key=lambda part: (part.query, part.k)):
                if (query := queries.get(part.query)) is not None:
                    rows += self._merge_part(part, query)
        position = steps[-1][0]
        if rows:
            self._commit(rows, position)
        elif self._stored == self._position:
            self._on_unstored(self._clock.now_ms() + _STORE_WITHIN_MS)
        self._position = position
        for sn in [sn for sn in self._pending if sn <= position]:
            del self._pending[sn]
        self._changed.notify_all()
        return rows

    def _merge_part(self, part: Part, query: QueryDefinition) -> list[EmissionRow]:
        self._states[part.query] = part.state
        self._dirty.add(part.query)
        self.evaluations[part.query] += max(1, part.repeated) * part.evaluated
        if not part.emits:
            if part.evaluated:
                self._silent[part.query] = part.time
            return []
        self.rows[part.query] += len(part.columns[0]) if part.columns else int(bool(part.boolean))
        number = self._numbers[part.query] = self._numbers.get(part.query, 0) + 1
        body = body_of(part, query.name, number, query.r2s, query.variables, self._decode, query.constructs)
        return [EmissionRow(part.query, number, encode_body(body))]

    def _commit(self, rows: list[EmissionRow], position: int) -> None:
        """One publish. If it fails, memory and log may differ: nothing is merged any more."""
        states: dict[int, bytes | None] = {
            query: msgspec.msgpack.encode(self._states[query]) for query in self._dirty if query in self._states
        }
        states.update(dict.fromkeys(self._gone))
        try:
            insist(lambda: self._log.commit(rows, states, Sn(position)), self._clock)
        except BaseException as error:
            self.fail(error)
            raise
        self._stored = position
        self._kept |= {query: self._states[query] for query in self._dirty if query in self._states}
        for query in self._gone:
            self._kept.pop(query, None)
        self._dirty.clear()
        self._gone.clear()

    def _tell(self, said: Sequence[EmissionRow]) -> None:
        if said:
            self._on_emissions(said)
        with self._changed:
            silent, self._silent = self._silent, {}
        if silent:
            self._on_silence(silent)
