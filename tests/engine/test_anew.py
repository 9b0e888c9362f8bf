"""Rows that are answered anew at each evaluation: what NOW and RAND make of standing rows."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from stream_ext.operators import testing
from stream_ext.operators.anew import Anew
from stream_ext.operators.extend import Extend
from stream_ext.operators.filter import Filter
from stream_ext.operators.moment import Moment
from stream_ext.vocabulary import Vocabulary
from tests.engine import model
from tests.engine.model import Entry
from tests.engine.test_law import Source, entries_of, moment, zset
from tests.language.computing import XSD, expression

NAMES = ("a", "b")


def words() -> Vocabulary:
    """The id 3 is the integer 3."""
    return Vocabulary(
        lambda texts: np.zeros(len(texts), np.uint64),
        lambda ids: [b'"%d"^^<%sinteger>' % (id, XSD.encode()) for id in ids.tolist()],
    )


def at(time: int, vocabulary: Vocabulary, last: bool = False) -> Moment:
    """One second a tick."""
    return replace(moment(time), now_ms=time * 1000, seed=b"%d" % time, vocabulary=vocabulary, last=last)


@pytest.mark.parametrize("seed", range(20))
def test_a_filter_by_now_holds_at_each_evaluation_for_all_that_is_there(seed: int) -> None:
    source, vocabulary = Source(seed, 2), words()
    tester = testing.Tester(NAMES, expression("?a < SECONDS(NOW()) / 4"), frozenset(NAMES))
    assert tester.is_volatile
    operator = Anew(NAMES, Filter(NAMES, tester))
    out: list[Entry] = []
    for time in range(25):
        out += entries_of(operator.step(at(time, vocabulary), zset(source.change(time, 6), 2)))
        expected = Counter({row: n for row, n in model.alive(source.all, time).items() if row[0] < time / 4})
        assert model.alive(out, time) == expected, f"seed {seed}, time {time}"


@pytest.mark.parametrize("seed", range(10))
def test_each_row_has_a_chance_of_its_own_at_each_evaluation(seed: int) -> None:
    source, vocabulary = Source(seed, 2), words()
    calculator = testing.Calculator(NAMES, expression("RAND()"), frozenset(NAMES))
    operator = Anew(NAMES, Extend(NAMES, "chance", calculator))
    out: list[Entry] = []
    drawn: set[int] = set()
    for time in range(20):
        out += entries_of(operator.step(at(time, vocabulary), zset(source.change(time, 6), 2)))
        alive = model.alive(out, time)
        rows: Counter[tuple[int, ...]] = Counter()
        for row, n in alive.items():
            rows[row[:2]] += n
        assert rows == model.alive(source.all, time), f"seed {seed}, time {time}"
        chances = {row[2] for row in alive}
        assert len(chances) == alive.total() and not chances & drawn
        drawn |= chances


def test_what_is_asked_once_is_answered_as_it_comes() -> None:
    vocabulary = words()
    tester = testing.Tester(NAMES, expression("?a < SECONDS(NOW())"), frozenset(NAMES))
    rows: list[Entry] = [((1, 1), 1, 9), ((5, 1), 2, 9)]
    said = Anew(NAMES, Filter(NAMES, tester)).step(at(3, vocabulary, last=True), zset(rows, 2))
    assert entries_of(said) == rows[:1]
