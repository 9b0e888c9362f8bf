"""What takes too much of the time is slowed by name, while pushes wait; nothing else is."""

from __future__ import annotations

import pytest

from stream_ext.continuous.catching_up.fair_share import FairShare, ShareLimit

LIMIT = ShareLimit(share=0.25, wait_ms=1_000)
ALL = dict.fromkeys(range(1, 11), 1)


def shares(**spent: float) -> FairShare:
    fair = FairShare(LIMIT)
    fair.spent({int(name[1:]): ms for name, ms in spent.items()}, 0)
    return fair


def test_the_greediest_run_is_slowed_while_pushes_wait() -> None:
    fair = shares(q1=20.0, q2=300.0, q3=80.0)
    assert fair.exceeding(1_000, ALL, 0) is None, "nobody waits"
    assert fair.exceeding(1_001, ALL, 0) == (2, 0.75)
    assert fair.exceeding(1_001, ALL, 0) is None, "first it is seen what the others take without it"


@pytest.mark.parametrize(
    ("spent", "queries"),
    [
        ({1: 100.0, 2: 100.0, 3: 100.0, 4: 100.0}, ALL),  # each has its part
        ({1: 900.0, 2: 100.0}, {1: 90, 2: 10}),  # most of the queries take most of the time
        ({1: 900.0}, {1: 1}),  # there is nobody else
        ({1: 9.0, 2: 1.0}, ALL),  # too little to tell
    ],
)
def test_nobody_is_slowed_who_takes_a_fair_part(spent: dict[int, float], queries: dict[int, int]) -> None:
    fair = FairShare(LIMIT)
    fair.spent(spent, 0)
    assert fair.exceeding(60_000, queries, 0) is None


def test_without_a_limit_nobody_is_slowed() -> None:
    fair = FairShare(ShareLimit(share=1.0, wait_ms=0))
    fair.spent({1: 900.0, 2: 1.0}, 0)
    assert fair.exceeding(60_000, ALL, 0) is None


def test_what_is_long_over_does_not_count() -> None:
    fair = shares(q1=1_000.0)
    for second in range(5, 65, 5):
        fair.spent({2: 60.0}, second * 1_000)
    found = fair.exceeding(2_000, ALL, 65_000)
    assert found is not None
    assert found[0] == 2


def test_a_run_returns_when_pushes_wait_no_more_and_later_each_time() -> None:
    fair = shares(q1=900.0, q2=10.0)
    assert fair.exceeding(5_000, ALL, 0) is not None
    assert not fair.may_return([1], 0, 29_999)
    assert not fair.may_return([1], 5_000, 30_000)
    assert fair.may_return([1], 0, 30_000)
    fair.spent({1: 900.0, 2: 10.0}, 31_000)
    assert fair.exceeding(5_000, ALL, 31_000) is not None
    assert not fair.may_return([1], 0, 90_000)
    assert fair.may_return([1], 0, 91_000)


def test_a_run_whose_first_query_is_not_the_least_stays_slowed() -> None:
    """One that was resumed comes behind the others of its network; and runs that are gone are forgotten."""
    fair = shares(q7=900.0, q2=10.0)
    assert fair.exceeding(5_000, {7: 2, 2: 1, 3: 1, 4: 1}, 0) is not None
    assert not fair.may_return([1, 7], 0, 29_999)
    fair.forget_all_but({1: None})
    assert fair.may_return([1, 7], 0, 29_999)
