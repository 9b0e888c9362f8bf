"""The checker itself: it accepts what a calm server did, and finds each kind of broken promise wherever it shows."""

from __future__ import annotations

from functools import cache

import pytest

from tests.integrity.checker import Reckoning, Reckonings, violations
from tests.integrity.history import History
from tests.integrity.pretended import FAULTY, Calm
from tests.stream_ext.scene import EX, Push, Scene, Window

SEEDS = range(8)


@cache
def calm(seed: int) -> History:
    return Calm(seed).run()


@pytest.mark.parametrize("seed", SEEDS)
def test_the_history_of_a_calm_server_breaks_no_promise(seed: int) -> None:
    history = Calm(seed).run()
    assert violations(history) == []
    assert sum(map(len, history.received.values())) > 20, "little was said"


@pytest.mark.parametrize("faulty", FAULTY)
def test_a_server_that_breaks_one_promise_is_found_out(faulty: type[Calm]) -> None:
    shown = 0
    for seed in SEEDS:
        history = faulty(seed).run()
        if differs := history != calm(seed):  # else nobody could have noticed
            assert violations(history), f"{faulty.__name__}, seed {seed}"
        shown += differs
    assert shown >= 3, f"{faulty.__name__} hardly ever showed"


def test_what_was_evaluated_before_the_query_was_registered_makes_nothing_late() -> None:
    """The history of a server that was in the right, and was complained of."""
    pattern, triple = "WINDOW :w1 { ?a :p ?b }", (f"<{EX}n1>", f"<{EX}p>", f"<{EX}n2>")
    late_for = Reckoning(Scene([Window("w1", 1, 10, 7, 3)], pattern, "SELECT ?a ?b", "RSTREAM", {1: 0}))

    def late(sn: int, *times: int) -> list[bool]:
        late_for.take(sn, Push(1, tuple((time, (triple,)) for time in times)))
        return late_for.late

    assert late(1, 10, 13, 14, 18) == [False] * 4
    late_for.register()
    assert late(2, 15) == [False]  # [7, 17) closed before, and [14, 24) is still to be reported
    assert late(3, 27) == [False]
    assert late(4, 12, 15) == [True, True]  # nothing that 12 is in is still to be reported


def test_where_windows_begin_depends_on_which_push_came_first() -> None:
    """Another history of a server that was in the right: two pushes share a snapshot, both of them with the first
    elements of a stream. The close at 45 counts only if that of 39 came first."""
    triple = (f"<{EX}n1>", f"<{EX}p>", f"<{EX}n2>")
    windows = [Window("w1", 1, 45, 10, 3), Window("w2", 2, 20, 7, 3)]
    scene = Scene(
        windows, "WINDOW :w1 { ?a :p ?b } OPTIONAL { WINDOW :w2 { ?b :p ?c } }", "SELECT ?a", "ISTREAM", {1: 0, 2: 0}
    )
    first, second = (Push(2, tuple((time, (triple,)) for time in times)) for times in ((47, 51), (39, 51)))

    def after(*pushes: Push) -> Reckonings:
        found = Reckonings(History(queries={"q": scene}))
        found.of["q"].register()
        for push in (Push(1, ((10, (triple,)),)), *pushes):
            found.of["q"].take(1, push)
        return found

    one, other = after(first, second), after(second, first)
    last = Push(1, ((59, (triple,)),))
    assert [45 in [time for _, time, _ in each.of["q"].take(2, last)] for each in (one, other)] == [False, True]
    assert after(first, second).key != after(second, first).key, "so both orders are followed"
