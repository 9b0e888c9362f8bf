"""Units behind that other processes evaluate: when these begin, and what becomes of what they find.

a query begins over a long past              before its first evaluation
it was replayed when the server ended        when it is there again
it came for that from another runner         at once
it is behind, and has much to evaluate       after it has taken some seconds here"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec

from stream_ext.continuous.run_plan import PlannedQuery
from stream_ext.continuous.steps import AFTER_ALL
from stream_ext.continuous.unit_behind import Replay, UnitBehind
from stream_ext.windows.part import Part
from stream_ext.windows.query_state import QueryState

if TYPE_CHECKING:
    from stream_ext.continuous.shard import Shard


def replay_of_past(shard: Shard, planned: PlannedQuery, sn: int) -> Replay | None:
    """The replay of the past of a query that begins in snapshot `sn`; None: the shard replays it itself, if it has a
    past at all."""
    if planned.timing.ends_at is None:
        return None
    state = planned.state.behind(sn - 1, planned.state.within)
    return shard.replays.begin(replace(planned, state=state), sn, sn)


def begin_again(shard: Shard, unit: UnitBehind) -> None:
    """Of a unit that is where it was before a restart, perhaps in the middle of its past, or at another runner."""
    if len(unit.numbers) == 1 and not unit.unanswered:
        ((number, state),) = unit.states.items()
        query = shard.catalog.queries[number]
        if unit.sn < query.since or query.home == "replay":
            _begin(shard, unit, state)


def begin_if_much(shard: Shard, unit: UnitBehind) -> None:
    """After a turn of a unit. The windows that it has in memory are not needed then."""
    own_shard = unit.own_shard
    if own_shard is None or unit.slowed or len(unit.numbers) > 1 or not unit.spent.is_much(shard.replays.least_s):
        return
    (number,) = unit.numbers
    if (run := own_shard.runs.of.get(number)) is None:
        return
    state = run.query_state(own_shard.sn)
    if state.behind_at is None:
        state = state.behind(own_shard.position)
    _begin(shard, unit, state)
    if unit.replay is not None:
        unit.own_shard, unit.states = None, {number: state}


def _begin(shard: Shard, unit: UnitBehind, state: QueryState | None) -> None:
    (number,) = unit.numbers
    definition = shard.catalog.queries[number]
    known = None if state is None else msgspec.structs.replace(state, behind_at=None, unanswered=False)
    planned = shard.read(definition, known, shard.catalog)
    if planned is None:
        return
    is_over_past = planned.timing.ends_at is not None
    if unit.sn < definition.since and not is_over_past:
        return
    planned = replace(planned, state=planned.state.behind(unit.sn, planned.state.within))
    defined_at, head = (unit.sn + 1, unit.sn + 1) if is_over_past else (unit.sn, shard.sn)
    unit.replay = shard.replays.begin(planned, defined_at, head, unit.spent.each_s)


def take_replayed(shard: Shard, unit: UnitBehind, replay: Replay) -> Sequence[Part] | None:
    """The next parts; None: there are no more, and the shard goes on itself."""
    (number,) = unit.numbers
    if (piece := replay.take()) is None:
        unit.end_replay()
        return None
    state = unit.states[number] = piece.state
    if state.behind_at is None:  # it has ended
        return [*piece.parts, Part.silent(number, unit.sn + 1, AFTER_ALL, state)]
    unit.sn = state.behind_at
    at, k = (unit.sn, AFTER_ALL) if state.within is None else (unit.sn + 1, state.within.k)
    return [*piece.parts, Part.silent(number, at, k, state)]
