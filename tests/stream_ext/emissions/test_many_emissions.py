"""A part with many emissions is stored as parts with one emission each would be: the same rows, numbers and bytes."""

from __future__ import annotations

import random
from itertools import count

import numpy as np
import pytest

from hbase_store import EmissionRow
from stream_ext.catalog.catalog import QueryDefinition
from stream_ext.clock import ManualClock
from stream_ext.emissions.emission import decode_body, with_texts
from stream_ext.emissions.merge import Merge
from stream_ext.emissions.merged_progress import Runner
from stream_ext.windows.part import Ids, ManyEmissions, Part, WindowBounds
from stream_ext.windows.query_state import LastEvaluation, QueryState
from tests.stream_ext.emissions.test_merge import Log
from tests.stream_ext.scene import each_of


def definition(number: int, width: int) -> QueryDefinition:
    names = [f"v{i}" for i in range(width)]
    return QueryDefinition(number, f"q{number}", f"http://ex/q{number}", "", "", "ISTREAM", names, [1], 1, QueryState())


def decode(ids: Ids) -> list[bytes]:
    assert sorted(set(ids.tolist())) == ids.tolist()
    return [b'"%d"' % id for id in ids.tolist()]


def part_of(chance: random.Random, query: int, width: int, first: int, before: LastEvaluation | None) -> Part:
    """Evaluations of snapshot 1 from number `first` on; some emit nothing."""
    made = range(chance.randrange(1, 9))
    evaluations = [LastEvaluation(1, n // 3, first + n, 10 + (first + n) // 2, True, n) for n in made]
    chosen = sorted(chance.sample(range(len(evaluations)), chance.randrange(1, len(evaluations) + 1)))
    at, previous = [evaluations[n] for n in chosen], [evaluations[n - 1] for n in chosen]
    stops = np.cumsum([chance.randrange(1, 4) for _ in chosen]).tolist()
    columns = [
        np.array([chance.choice([0, chance.randrange(1, 9), 1 << 50]) for _ in range(stops[-1])], np.uint64)
        for _ in range(width)
    ]
    spans = [[each.time - 5 for each in at]], [[each.time for each in at]]
    many = ManyEmissions(
        [each.k for each in at], [each.time for each in at], [each.push for each in at],
        [each.arrived_at or 0 for each in at], [each.time for each in previous], [each.push for each in previous],
        [each.arrived_at or 0 for each in previous], stops, *spans,
    )  # fmt: skip
    state = QueryState(evaluated=at[-1], last=at[-1].time, sn=1)
    before = evaluations[chosen[0] - 1] if chosen[0] else before
    bounds = [WindowBounds("s", at[-1].time - 5, at[-1].time, "(]")]
    boolean = None if width else True
    part = Part.of_one(
        query, 1, at[-1].k, at[-1].time, bounds, columns, boolean, 0, None, state, True, [], not first, before
    )
    part.silent_before, part.many = chosen[-1] + 1 - len(chosen), many
    return part


def merged(parts: list[Part], queries: dict[int, QueryDefinition]) -> tuple[list[EmissionRow], dict[int, bytes]]:
    log, found = Log(), list[EmissionRow]()
    numbers = count(1000)
    merge = Merge(
        log,
        ManualClock(),
        lambda: queries,
        decode,
        lambda: next(numbers),
        on_emissions=lambda rows, _: found.extend(rows),
    )
    merge.attempt(Runner.INLINE)
    merge.take(Runner.INLINE, 1, parts)
    return found, log.retained


@pytest.mark.parametrize("width", [0, 1, 3])
@pytest.mark.parametrize("seed", range(20))
def test_many_emissions_are_stored_as_if_each_had_a_part(seed: int, width: int) -> None:
    chance, queries = random.Random(seed), {number: definition(number, width) for number in (1, 2)}
    parts = []
    for query in queries:
        first, before = 0, None
        for _ in range(chance.randrange(1, 4)):
            part = part_of(chance, query, width, first, before)
            parts.append(part)
            first, before = part.k + 1, part.state.evaluated
    rows, states = merged(parts, queries)
    singly, states_singly = merged([each for part in parts for each in each_of(part)], queries)
    assert rows == singly
    assert len(rows) == sum(len(part.many.ks) for part in parts if part.many is not None)
    assert states == states_singly
    with_their_texts, _ = merged([with_texts(part, decode) for part in parts], queries)
    assert with_their_texts == rows
    places = [(decode_body(row.body).at, row.query) for row in rows]
    assert places == sorted(places, key=lambda each: (each[0].k, each[1]) if each[0] else (0, 0))


@pytest.mark.parametrize("seed", range(20))
def test_what_another_runner_has_sent_up_to_some_evaluation_is_left_out(seed: int) -> None:
    chance, queries = random.Random(seed), {1: definition(1, 2)}
    part = part_of(chance, 1, 2, 0, None)
    known = chance.choice(each_of(part))
    rows, _ = merged([*(each for each in each_of(part) if each.k <= known.k), part], queries)
    expected, _ = merged(each_of(part), queries)
    assert [decode_body(row.body).at for row in rows] == [decode_body(row.body).at for row in expected]
    assert [row.number for row in rows] == [row.number for row in expected]
    for k in range(part.k):
        rest = part.after(k)
        assert rest.evaluations == min(part.k - k, part.evaluations)
        assert [each.at for each in rest.each()] == [each.at for each in part.each() if each.at and each.at.k > k]
        assert [rows.tolist() for rows in rest.columns] == [
            [id for each in part.each() if each.at and each.at.k > k for id in column[each.rows].tolist()]
            for column in part.columns
        ]
