"""How long what failed at a store is repeated: five minutes, but ten seconds if it says that waiting does not help."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, repeat

import pytest

from hbase_store.errors import StoreRefused, StoreUnavailable
from stream_ext.clock import ManualClock
from stream_ext.retry import retry

AWAY, REFUSED = StoreUnavailable("it is away"), StoreRefused("a table is absent")


class Impatient(ManualClock):
    """Its time goes on by what is waited for."""

    def wait(self, condition: object, until_ms: int | None) -> None:
        assert until_ms is not None
        self.advance(until_ms - self.now_ms())


def given_up_after_ms(failures: Iterator[Exception]) -> int:
    clock = Impatient(1_000_000)

    def commit() -> None:
        raise next(failures)

    with pytest.raises(StoreUnavailable):
        retry(commit, clock)
    return clock.now_ms() - 1_000_000


def test_a_store_that_is_away_is_waited_for() -> None:
    assert given_up_after_ms(repeat(AWAY)) == 300_000


def test_a_store_that_refuses_is_not_waited_for_much_longer() -> None:
    assert given_up_after_ms(repeat(REFUSED)) == 10_000
    assert given_up_after_ms(chain(repeat(AWAY, 40), repeat(REFUSED))) == 20_000, "it may have refused while it started"
    assert given_up_after_ms(chain(repeat(REFUSED, 20), [AWAY], repeat(REFUSED))) == 15_250, "and began anew"
