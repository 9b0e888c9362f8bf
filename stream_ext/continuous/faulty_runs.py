"""Faulty runs: what happens if the step of a run fails.

a query alone                       it is reported, with the parts before the fault
a remote endpoint did not answer    the query waits, with the parts before the missing answer
queries that share a network        the faulty ones are found by halving; the others go on in networks of their own"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from hbase_store.errors import StoreUnavailable
from stream_ext.continuous.run import Run
from stream_ext.continuous.run_plan import PlannedQuery
from stream_ext.errors import DeadlineExceeded
from stream_ext.network.operators.remote.service import Unanswered
from stream_ext.windows.part import Part
from stream_ext.windows.pushes import PushesOfSnapshot
from stream_ext.windows.query_state import QueryState

if TYPE_CHECKING:
    from stream_ext.continuous.shard import Shard

#: Networks that are built again after a fault in one: to find one faulty query of a thousand takes twenty.
_TRIES_MAX = 200
#: So many of them may exceed the time limit of an evaluation, because all other queries wait meanwhile.
_LATE_MAX = 12


class FaultyRuns:
    def __init__(self, shard: Shard) -> None:
        self._shard = shard

    def stepped(self, run: Run, sn: int, pushes: PushesOfSnapshot) -> Sequence[Part]:
        """The parts of a run; if its step fails, the parts of those of its queries that did not cause the fault."""
        state_before = run.query_state(self._shard.sn) if run.plan.has_services else None
        self._shard.stepping(sn, run.numbers)
        turn, was_underway = self._shard.turn_of_run(run), run.is_underway
        try:
            return run.continue_step(turn) if was_underway else run.step(sn, pushes, turn)
        except StoreUnavailable:
            raise
        except Unanswered as error:
            return self.without_answer(run, error, self._shard.sn, state_before)
        except Exception as error:  # noqa: BLE001  as in `Shard.guarded`
            before = run.joining_before()
            if not before:
                return self.broken(run, error)
            self._shard.runs.drop(run.numbers)
            queries, catalog = self._shard.catalog.queries, self._shard.catalog
            found = (self._shard.read(queries[each.number], each.state, catalog) for each in before)
            alike = [planned for planned in found if planned is not None]
            again = PushesOfSnapshot(self._shard.store, sn, run.streams) if was_underway else pushes
            runs, turn_of = self._shard.runs.of, self._shard.turn_of_run

            def step_again(some: Sequence[PlannedQuery]) -> Sequence[Part]:
                other = runs[some[0].number]
                return other.step(sn, again, turn_of(other))

            return self.without_them(alike, error, step_again)

    def without_answer(self, run: Run, error: Unanswered, sn: int, state_before: QueryState | None) -> Sequence[Part]:
        """The parts before the missing answer. The query was at `sn` with the state `state_before`; None: it began
        after `sn`."""
        parts, state = run.state_without_answer()
        if state is None or (state_before is None and state.within is None):
            state = state_before
        (number,) = run.numbers  # a query with SERVICE shares no network
        self._shard.runs.drop(run.numbers)
        self._shard.report(number, error, sn if state is None or state.behind_at is None else state.behind_at, state)
        return parts

    def broken(self, run: Run, error: Exception) -> Sequence[Part]:
        """The parts before the fault."""
        parts, numbers = run.parts_before_fault(), run.numbers
        self._shard.runs.drop(numbers)
        for number in numbers:
            self._shard.report(number, error, self._shard.sn, None)
        return parts

    def without_them(
        self,
        alike: Sequence[PlannedQuery],
        error: Exception,
        step_again: Callable[[Sequence[PlannedQuery]], Sequence[Part]],
    ) -> list[Part]:
        """Finds the faulty queries by halving, and reports them; the others continue in networks of their own."""
        parts: list[Part] = []
        waiting, tries, late = _halves(alike), 0, 0
        while waiting:
            some = waiting.pop()
            tries += 1
            self._shard.stepping(self._shard.sn, [planned.number for planned in some])
            try:
                if tries > _TRIES_MAX or late > _LATE_MAX:
                    raise error
                self._shard.runs.start_apart(some, self._shard.sn)
                parts += step_again(some)
            except StoreUnavailable:
                raise
            except Exception as fault:  # noqa: BLE001  as in `Shard.guarded`
                run = self._shard.runs.of.get(some[0].number)
                if run is not None:
                    parts += run.parts_before_fault()
                self._shard.runs.drop([planned.number for planned in some])
                late += isinstance(fault, DeadlineExceeded)
                if len(some) > 1 and tries <= _TRIES_MAX and late <= _LATE_MAX:
                    waiting += _halves(some)
                    continue
                for planned in some:
                    self._shard.report(planned.number, fault, self._shard.sn, planned.state)
        return parts


def _halves(some: Sequence[PlannedQuery]) -> list[Sequence[PlannedQuery]]:
    middle = len(some) // 2
    return [half for half in (some[:middle], some[middle:]) if half]
