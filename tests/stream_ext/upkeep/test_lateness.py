"""Lateness: made when somebody asks, it is what schedules say that were followed push by push."""

from __future__ import annotations

import random

import numpy as np
import pytest

from hbase_store import StreamPosition
from stream_ext.catalog.catalog import Catalog, QueryDefinition, StreamDefinition
from stream_ext.catalog.options import StreamOptions
from stream_ext.catalog.registered import Registered
from stream_ext.catalog.registered_text import query_of
from stream_ext.catalog.timing import timing_of
from stream_ext.upkeep.lateness import Lateness
from stream_ext.windows.openings import opened
from stream_ext.windows.query_state import QueryState
from stream_ext.windows.schedule import Schedule, initial_state
from stream_ext.writer.gathering import Accepted

STREAMS = {n: StreamDefinition(n, f"s{n}", f"http://ex/s{n}", StreamOptions()) for n in (1, 2)}


EXTENTS = [
    "",
    "",
    " T0 3",
    " BOUNDS (]",
    " BOUNDS []",
    " LATENESS 2",
    " REPORT PERIODIC 4",
    " REPORT CONTENT_CHANGE",
    " REPORT WINDOW_CLOSE, CONTENT_CHANGE",
]


def text(chance: random.Random) -> str:
    streams = chance.choice([["s1"], ["s2"], ["s1", "s2"]])
    more = chance.choice(EXTENTS)
    dialect = "FROM STREAM" if chance.random() < 0.2 else "FROM NAMED WINDOW"
    clauses = [
        f"{dialect} {f'<urn:w{i}> ON ' if dialect == 'FROM NAMED WINDOW' else ''}{stream} "
        f"[RANGE {chance.randint(1, 9)} STEP {chance.randint(1, 6)}{more}]"
        for i, stream in enumerate(streams)
    ]
    return f"SELECT ?x {' '.join(clauses)} WHERE {{ ?x <urn:p> ?y }}"


def follow(schedule: Schedule, taken: Accepted) -> np.ndarray:
    late = schedule.take(taken)
    for due in schedule.due(taken):
        if due.arrived is None:
            schedule.done(due.time)
        else:
            schedule.seen(due.time)
    return late


@pytest.mark.parametrize("seed", range(60))
def test_late_elements_are_those_of_schedules_that_follow_every_push(seed: int) -> None:
    chance = random.Random(seed)
    lateness = Lateness({})
    streams = {
        n: StreamDefinition(n, f"s{n}", f"http://ex/s{n}", StreamOptions(idle_ms=chance.choice([None, 5])))
        for n in (1, 2)
    }
    catalog = Catalog(streams)
    schedules: dict[int, Schedule] = {}
    positions: dict[int, StreamPosition] = {}
    for turn in range(80):
        if chance.random() < 0.1:
            query = text(chance)
            timing = timing_of(query_of(query, "urn:"), catalog)
            state = initial_state(timing, positions)
            numbers = [window.stream for window in timing.windows]
            definition = QueryDefinition(
                turn, f"q{turn}", f"urn:q{turn}", query, "urn:", "RSTREAM", ["x"], numbers, 1, state
            )
            lateness.follow(turn, Registered.of(definition, catalog), state, catalog)
            schedules[turn] = Schedule(timing, state, positions)
            schedules[turn].skip_to_bound()
        elif schedules and chance.random() < 0.03:
            gone = chance.choice(list(schedules))
            lateness.forget(gone)
            del schedules[gone]
        stream = chance.choice([1, 2])
        before = positions.get(stream, StreamPosition(stream, 0))
        times = np.array([turn // 2 + chance.randint(-8, 3) for _ in range(chance.randint(0, 3))], np.int64)
        latest = max([*times.tolist(), *([] if before.latest is None else [before.latest])], default=None)
        beat = turn // 3 if not len(times) and chance.random() < 0.5 else before.heartbeat
        idle = not len(times) and streams[stream].options.idle_ms is not None and chance.random() < 0.5
        taken = Accepted(stream, times, latest, beat, idle)
        late = np.zeros(len(times), np.bool_)
        for schedule in schedules.values():
            if stream in schedule.streams():
                late |= follow(schedule, taken)
        assert lateness.take(taken, turn + 1) == int(late.sum()), f"seed {seed}, turn {turn}"
        openings = opened(before.openings, times, before.latest, before.heartbeat) if len(times) else before.openings
        positions[stream] = StreamPosition(stream, 0, None, beat, None, latest=latest, idle=idle, openings=openings)
        for number, schedule in schedules.items():
            assert lateness.waits_for(number) == schedule.waits_for()


def test_a_query_that_continues_from_its_last_evaluation_finds_the_same_late() -> None:
    catalog = Catalog(STREAMS)
    positions = {1: StreamPosition(1, 1, time=2500, first=100, latest=2500)}
    query = "SELECT ?x FROM NAMED WINDOW <urn:w> ON s1 [RANGE 1s] WHERE { WINDOW <urn:w> { ?x <urn:p> ?y } }"
    definition = QueryDefinition(7, "q", "urn:q", query, "urn:", "RSTREAM", ["x"], [1], 1, QueryState())
    lateness = Lateness(positions)
    lateness.follow(definition.number, Registered.of(definition, catalog), QueryState(), catalog)
    assert lateness.take(Accepted(1, np.array([1900, 2100, 2600]), 2600, None), 9) == 1
    assert lateness.counted[1, 7] == 1
