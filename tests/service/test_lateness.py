"""Lateness: made when somebody asks, it is what schedules say that were followed push by push."""

from __future__ import annotations

import random

import numpy as np
import pytest

from hbase_store import StreamPosition
from stream_ext.batching import Taken
from stream_ext.catalog import Catalog, QueryDefinition, StreamDefinition
from stream_ext.lateness import Lateness
from stream_ext.options import StreamOptions
from stream_ext.schedule import QueryState, Schedule, initial_state
from stream_ext.shard import query_of, windows_of

STREAMS = {n: StreamDefinition(n, f"s{n}", f"http://ex/s{n}", StreamOptions()) for n in (1, 2)}


def text(chance: random.Random) -> str:
    streams = chance.choice([["s1"], ["s2"], ["s1", "s2"]])
    clauses = [
        f"FROM NAMED WINDOW <urn:w{i}> ON {stream} [RANGE {chance.randint(1, 9)} STEP {chance.randint(1, 6)}]"
        for i, stream in enumerate(streams)
    ]
    inside = " ".join(f"WINDOW <urn:w{i}> {{ ?x <urn:p> ?y }}" for i in range(len(streams)))
    return f"SELECT ?x {' '.join(clauses)} WHERE {{ {inside} }}"


@pytest.mark.parametrize("seed", range(60))
def test_late_elements_are_those_of_schedules_that_follow_every_push(seed: int) -> None:
    chance = random.Random(seed)
    lateness = Lateness({})
    catalog = Catalog(STREAMS)
    schedules: dict[int, Schedule] = {}
    positions: dict[int, StreamPosition] = {}
    for turn in range(80):
        if chance.random() < 0.1:
            query = text(chance)
            windows = windows_of(query_of(query, "urn:"), catalog)
            state = initial_state(windows, positions)
            definition = QueryDefinition(
                turn, f"q{turn}", f"urn:q{turn}", query, "urn:", "RSTREAM", ["x"], [w.stream for w in windows], 1, state
            )
            lateness.follow(definition, state, catalog)
            schedules[turn] = Schedule(windows, state, positions)
            schedules[turn].skip_to_bound()
        elif schedules and chance.random() < 0.03:
            gone = chance.choice(list(schedules))
            lateness.forget(gone)
            del schedules[gone]
        stream = chance.choice([1, 2])
        times = np.array([max(0, turn // 2 + chance.randint(-8, 3)) for _ in range(chance.randint(0, 3))], np.int64)
        before = positions.get(stream, StreamPosition(stream, 0))
        reached = [time for time in (before.time, *times.tolist(), turn // 3) if time is not None]
        firsts = [time for time in (before.first, *times.tolist()) if time is not None]
        time_after = max(reached)
        late = np.zeros(len(times), np.bool_)
        for schedule in schedules.values():
            if stream in schedule.streams():
                late |= schedule.push(stream, times, time_after)
                schedule.skip_to_bound()
        assert lateness.take(Taken(stream, times, time_after), turn + 1) == int(late.sum()), f"seed {seed}, turn {turn}"
        positions[stream] = StreamPosition(stream, 0, time_after, None, min(firsts, default=None))
        for number, schedule in schedules.items():
            assert lateness.waits_for(number) == schedule.waits_for()


def test_a_query_that_goes_on_from_its_last_evaluation_finds_the_same_late() -> None:
    catalog = Catalog(STREAMS)
    positions = {1: StreamPosition(1, 1, time=2500, first=100)}
    query = "SELECT ?x FROM NAMED WINDOW <urn:w> ON s1 [RANGE 1s] WHERE { WINDOW <urn:w> { ?x <urn:p> ?y } }"
    definition = QueryDefinition(7, "q", "urn:q", query, "urn:", "RSTREAM", ["x"], [1], 1, QueryState())
    lateness = Lateness(positions)
    lateness.follow(definition, QueryState(), catalog)
    assert lateness.take(Taken(1, np.array([1900, 2100, 2600]), 2600), 9) == 1
    assert lateness.counted[1, 7] == 1
