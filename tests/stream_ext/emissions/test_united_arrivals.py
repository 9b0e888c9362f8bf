"""Evaluations at arrivals are united by their numbers, whatever each shard has of them."""

from __future__ import annotations

import random

import msgspec
import numpy as np
import pytest

from stream_ext.emissions.range_rows import CannotUnite
from stream_ext.emissions.uniting import united
from stream_ext.windows.part import ManyEmissions, Part, WindowBounds
from stream_ext.windows.query_state import LastEvaluation, QueryState

_SN = 12
_BEFORE = LastEvaluation(_SN - 1, 3, 4, 90, True, 2)


def at(k: int) -> LastEvaluation:
    return _BEFORE if k < 0 else LastEvaluation(_SN, k // 3, k, 100 + 2 * k, True, k % 3 + 1)


def state(k: int, gap: bool) -> QueryState:
    return QueryState(1, at(k), last=100 + 2 * k, sn=_SN, gap=gap)


def parts_of(rows: dict[int, list[int]], count: int, cuts: list[int], gap: bool) -> list[Part]:
    """As one shard sends them: a part for each of its steps that emits something, then one without."""
    parts, done = list[Part](), 0
    for low, high in zip([0, *cuts], [*cuts, count], strict=True):
        if ks := [k for k in range(low, high) if rows.get(k)]:
            parts.append(_emitting(ks, rows, done, gap))
            done, gap = ks[-1] + 1, False
    if done < count:
        silent = Part.of_one(
            7, _SN, count - 1, 100 + 2 * (count - 1), [], [np.empty(0, np.uint64)], None, count - done if
            count - done > 1 else 0, 100 + 2 * done if count - done > 1 else None, state(count - 1, gap), False,
            before=at(done - 1),
        )  # fmt: skip
        parts.append(silent)
    for part in parts:
        part.is_range = True
    return parts


def _emitting(ks: list[int], rows: dict[int, list[int]], done: int, gap: bool) -> Part:
    last = at(ks[-1])
    garbage = 999  # of the first emission the lists do not say what was before it
    many = ManyEmissions(
        ks, [at(k).time for k in ks], [at(k).push for k in ks], [at(k).arrived_at or 0 for k in ks],
        [garbage, *(at(k - 1).time for k in ks[1:])], [garbage, *(at(k - 1).push for k in ks[1:])],
        [garbage, *((at(k - 1).arrived_at or 0) for k in ks[1:])], np.cumsum([len(rows[k]) for k in ks]).tolist(),
        [[at(k).time - 10 for k in ks]], [[at(k).time for k in ks]],
    )  # fmt: skip
    bounds = [WindowBounds("s", last.time - 10, last.time, "(]")]
    columns = [np.array([row for k in ks for row in sorted(rows[k])], np.uint64)]
    part = Part.of_one(
        7, _SN, ks[-1], last.time, bounds, columns, None, 0, None, state(ks[-1], False), True, gap=gap,
        before=at(ks[0] - 1),
    )  # fmt: skip
    part.many, part.silent_before = many, ks[-1] + 1 - done - len(ks)
    return part


@pytest.mark.parametrize("seed", range(40))
def test_what_is_united_is_what_one_shard_sends(seed: int) -> None:
    chance = random.Random(seed)
    count, shards, gap = chance.randrange(1, 14), chance.randrange(1, 4), chance.random() < 0.4
    ranges = [
        {
            k: [chance.randrange(1, 9) for _ in range(chance.randrange(1, 3))]
            for k in range(count)
            if chance.random() < 0.4
        }
        for _ in range(shards)
    ]
    whole = {k: sorted(row for each in ranges for row in each.get(k, [])) for k in range(count)}
    cuts = [sorted(chance.sample(range(1, count), min(count - 1, chance.randrange(3)))) for _ in range(shards)]
    senders = [parts_of(rows, count, some, gap) for rows, some in zip(ranges, cuts, strict=True)]
    found, expected = united(senders, {7}), parts_of(whole, count, [], gap)
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        assert not one.is_range
        assert (one.k, one.time, one.state, one.gap, one.emits) == (
            other.k, other.time, other.state, other.gap, other.emits,
        )  # fmt: skip
        assert (one.evaluations, one.silent_before, one.repeated) == (
            other.evaluations, other.silent_before, other.repeated,
        )  # fmt: skip
        if other.emits:
            assert [column.tolist() for column in one.columns] == [column.tolist() for column in other.columns]
            assert list(one.each()) == list(other.each())


def test_a_query_that_has_emitted_in_one_shard_has_no_gap_in_another() -> None:
    """Its pause is over since then, though this shard has had no row of it."""
    emitted = parts_of({}, 3, [], gap=False)
    first_here = parts_of({1: [5]}, 3, [], gap=True)
    found = united([emitted, first_here], {7})
    assert not found[0].gap and not found[-1].state.gap


def test_shards_that_have_made_other_evaluations_are_not_united() -> None:
    with pytest.raises(CannotUnite, match="same times"):
        united([parts_of({0: [1]}, 3, [], False), parts_of({0: [2]}, 4, [], False)], {7})


def test_a_shard_that_is_behind_is_late() -> None:
    behind = parts_of({0: [1]}, 3, [], False)
    behind[-1].state = msgspec.structs.replace(behind[-1].state, behind_at=_SN)
    with pytest.raises(CannotUnite) as error:
        united([behind, parts_of({0: [2]}, 3, [], False)], {7})
    assert error.value.is_late
