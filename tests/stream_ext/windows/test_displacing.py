"""Which evaluation displaces what of a counted window: by sorting all that has come, for each evaluation anew."""

from __future__ import annotations

import random

import numpy as np
import pytest

from stream_ext.windows.displacing import Displacing
from stream_ext.windows.numbered_evaluations import NEVER_GONE, NumberedEvaluations
from stream_ext.windows.scheduled_window import Count


def test_what_comes_displaces_what_came_so_many_before_it() -> None:
    """The last 2 triples of (5, #0) (9, #1) (7, #2), each with an evaluation of its own."""
    displacing, times = Displacing(1, Count(2, False), 0), np.array([5, 9, 7])
    displacing.arrive(times, times, np.arange(3, dtype=np.int32), np.array([2, 4, 6]))
    displacing.displace(NumberedEvaluations(1, np.array([5, 9, 9])))
    assert displacing.displaced is not None
    assert displacing.displaced.came_gone.tolist() == [6, NEVER_GONE, NEVER_GONE]
    assert displacing.oldest_at(np.array([1, 2, 3]), np.zeros(3, np.int64)).tolist() == [5, 5, 7]


@pytest.mark.parametrize("seed", range(60))
def test_a_window_has_at_each_evaluation_the_last_of_all_that_came_by_then(seed: int) -> None:
    chance = random.Random(seed)
    count, is_tidy = Count(chance.choice([1, 2, 5, 20]), chance.random() < 0.5), seed % 3 > 0
    displacing = Displacing(1, count, 0)
    known: list[tuple[int, int, int]] = []  # time, number, the evaluation it came with
    lives: dict[int, tuple[int, int]] = {}
    now, number, at = 0, 0, 0
    for _ in range(chance.randrange(2, 7)):
        first, times, elements, came, sizes = at + 1, [], [], [], []
        for _ in range(chance.randrange(1, 6)):
            at += 1
            for _ in range(chance.randrange(1, 3)):
                now += chance.choice([0, 1, 2])
                elements.append(now if is_tidy else max(0, now - chance.choice([0, 0, 2, 5])))
                came.append(2 * at)
                sizes.append(1 if count.of_elements else chance.choice([1, 1, 3]))
            times.append(now)
        element = np.repeat(np.arange(len(elements), dtype=np.int32), sizes)
        given = displacing.arrive(np.array(elements), np.array(elements)[element], element, np.array(came))
        for place, each in zip(element.tolist(), given.tolist(), strict=True):
            if each >= number:
                known.append((elements[place], each, came[place]))
                number = each + 1
        displacing.displace(NumberedEvaluations(first, np.array(times)))
        displaced = displacing.displaced
        assert displaced is not None
        for each, begin, end in zip(
            displaced.came.tolist(), displaced.came_with.tolist(), displaced.came_gone.tolist(), strict=True
        ):
            lives[each] = begin, end
        for each, end in zip(displaced.left.tolist(), displaced.left_gone.tolist(), strict=True):
            assert lives[each][1] == NEVER_GONE
            lives[each] = lives[each][0], end
        for evaluation in range(first, at + 1):
            held = sorted((time, each) for time, each, begin in known if begin <= 2 * evaluation)[-count.most :]
            found = {each for each, (begin, end) in lives.items() if begin <= 2 * evaluation < end}
            assert found == {each for _, each in held}, f"evaluation {evaluation}"
            assert displacing.oldest_at(np.array([evaluation]), np.array([-1])).tolist() == [held[0][0]]
