"""The rows of a few keys are those of the whole view, at any snapshot, in any order of asking."""

from __future__ import annotations

import random

import numpy as np
import pytest

from hbase_store.arrays import as_ids
from hbase_store.edges.overlay import Overlay
from hbase_store.layout.rows import Sn
from hbase_store.sorted.view import View, in_order, rows_of


def written(seed: int, keep: bool) -> tuple[Overlay, int]:
    chance, overlay = random.Random(seed), Overlay(Sn(0), lambda named, predicate: keep)
    last = chance.choice((3, 40, 400))
    for sn in range(1, last + 1):
        count = chance.choice((1, 1, 1, 30))
        s, o, g = (as_ids([chance.randrange(1, most) for _ in range(count)]) for most in (12, 5, 4))
        inserted = np.array([chance.random() < 0.7 for _ in range(count)])
        overlay.append(Sn(sn), False, 7, (s, o), inserted)
        overlay.append(Sn(sn), True, 7, (s, o, g), inserted)
    return overlay, last


def rows(view: View, keys: list[int]) -> list[tuple[int, ...]]:
    found = rows_of(view, as_ids(keys))
    flags = [True] * len(found) if found.inserted is None else found.inserted.tolist()
    return [*zip(*(column.tolist() for column in found.columns), flags, strict=True)]


@pytest.mark.parametrize("seed", range(30))
def test_the_rows_of_few_keys_are_those_of_the_view(seed: int) -> None:
    keep, chance = bool(seed % 2), random.Random(-seed)
    overlay, last = written(seed, keep)
    asked, _ = written(seed, keep)
    for _ in range(60):
        sn, named = Sn(chance.randrange(last + 1)), chance.random() < 0.5
        order = chance.randrange(2 + named)
        keys = sorted({chance.randrange(1, 14) for _ in range(chance.randrange(1, 7))})
        model, _ = written(seed, keep) if chance.random() < 0.1 else (overlay, last)
        expected = rows(model.view(named, 7, order, sn), keys)
        assert rows(asked.reach(named, 7, order, sn, as_ids(keys)), keys) == expected
        if chance.random() < 0.2:  # so that there is a view to begin with
            asked.view(named, 7, order, Sn(chance.randrange(last + 1)))


def test_what_was_deleted_is_not_among_the_rows_of_the_lowest_layer() -> None:
    overlay = Overlay(Sn(0), lambda named, predicate: False)
    one = as_ids([1])
    overlay.append(Sn(1), False, 7, in_order((one, one), 0), np.array([True]))
    overlay.append(Sn(2), False, 7, (one, one), np.array([False]))
    assert len(overlay.reach(False, 7, 0, Sn(1), one)) == 1
    assert len(overlay.reach(False, 7, 0, Sn(2), one)) == 0
