"""The checker itself: it accepts what a calm server did, and finds each kind of broken promise wherever it shows."""

from __future__ import annotations

from functools import cache

import pytest

from tests.integrity.checker import violations
from tests.integrity.history import History
from tests.integrity.pretended import FAULTY, Calm

SEEDS = range(8)


@cache
def calm(seed: int) -> History:
    return Calm(seed).run()


@pytest.mark.parametrize("seed", SEEDS)
def test_the_history_of_a_calm_server_breaks_no_promise(seed: int) -> None:
    history = Calm(seed).run()
    assert violations(history) == []
    assert sum(map(len, history.heard.values())) > 20, "little was said"


@pytest.mark.parametrize("faulty", FAULTY)
def test_a_server_that_breaks_one_promise_is_found_out(faulty: type[Calm]) -> None:
    shown = 0
    for seed in SEEDS:
        history = faulty(seed).run()
        if differs := history != calm(seed):  # else nobody could have noticed
            assert violations(history), f"{faulty.__name__}, seed {seed}"
        shown += differs
    assert shown >= 3, f"{faulty.__name__} hardly ever showed"
