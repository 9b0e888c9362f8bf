"""The emission log: all of a commit or nothing, and nothing twice."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hbase_store
import hbase_store.log.emissions
from hbase_store import EmissionLog, EmissionRow, Sn
from hbase_store.backends.lmdb import LmdbKeyValue
from hbase_store.clock import WallClock
from hbase_store.errors import Corrupt, Fenced, StoreUnavailable, Undecided
from stream_ext.clock import ManualClock
from tests.hbase_store import faulty
from tests.hbase_store.faulty import Shared


@pytest.fixture
def shared(tmp_path: Path) -> Iterator[Shared]:
    inner = LmdbKeyValue(tmp_path / "store")
    yield Shared(inner)
    inner.close()


def opened(kv: Shared) -> EmissionLog:
    log = EmissionLog(kv, WallClock())
    log.refresh()
    return log


def numbers(log: EmissionLog, query: int, after: int = 0, limit: int | None = None) -> list[int]:
    return [row.number for row in log.read(query, after, limit)]


def say(log: EmissionLog, query: int, number: int, position: int = 1) -> int:
    return log.commit([EmissionRow(query, number, b"%d" % number)], {query: b"state %d" % number}, Sn(position))


def test_emissions_come_back_in_order_from_where_one_asks(shared: Shared) -> None:
    log = opened(shared)
    rows = [EmissionRow(query, number, b"x" * number) for number in range(1, 300) for query in (1, 2)]
    assert log.commit(rows, {}, Sn(5)) == 1
    for reader in (log, opened(shared)):
        assert list(reader.read(2)) == [row for row in rows if row.query == 2]
        assert numbers(reader, 1, after=297) == [298, 299]
        assert numbers(reader, 1, after=100, limit=3) == [101, 102, 103]
        assert (numbers(reader, 1, limit=0), numbers(reader, 3), numbers(reader, 1, after=299)) == ([], [], [])
        assert (reader.last(1), reader.last(3), reader.position()) == (299, 0, 5)


def test_an_empty_log_says_so(shared: Shared) -> None:
    log = opened(shared)
    assert (log.states(), log.position(), log.last(1), list(log.read(1))) == ({}, 0, 0, [])


def test_a_body_larger_than_a_value_comes_back_whole(shared: Shared) -> None:
    log = opened(shared)
    body = random.Random(1).randbytes(9 << 20)
    log.commit([EmissionRow(1, 1, body), EmissionRow(1, 2, b"")], {1: body}, Sn(1))
    reader = opened(shared)
    assert list(reader.read(1)) == [EmissionRow(1, 1, body), EmissionRow(1, 2, b"")]
    assert reader.states() == {1: body}


def test_a_number_is_emitted_once(shared: Shared) -> None:
    log = opened(shared)
    say(log, 1, 2)
    for wrong in (1, 2):
        with pytest.raises(ValueError, match=f"emission {wrong} of query 1 after its emission 2"):
            say(log, 1, wrong)
    with pytest.raises(ValueError, match="emission 3 of query 2"):
        log.commit([EmissionRow(2, 3, b""), EmissionRow(2, 3, b"")], {}, Sn(1))
    assert say(log, 1, 5) == 2


COMMITS = st.lists(
    st.tuples(st.dictionaries(st.integers(1, 4), st.none() | st.binary(max_size=3), max_size=3), st.booleans()),
    max_size=30,
)


@settings(max_examples=25, deadline=None)
@given(COMMITS, st.sampled_from([1, 2, 5, 256]))
def test_states_and_last_numbers_are_the_sum_of_all_commits(
    tmp_path_factory: pytest.TempPathFactory, commits: list[tuple[dict[int, bytes | None], bool]], whole_every: int
) -> None:
    inner = LmdbKeyValue(tmp_path_factory.mktemp("log"))
    log = opened(Shared(inner))
    states: dict[int, bytes] = {}
    lasts: dict[int, int] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hbase_store.log.emissions.WHOLE_EVERY", whole_every)
        for n, (differing, reopen) in enumerate(commits, 1):
            if reopen:
                log = opened(Shared(inner))
            alive = [query for query, state in differing.items() if state is not None]
            log.commit([EmissionRow(query, n, b"") for query in alive], differing, Sn(n))
            lasts.update(dict.fromkeys(alive, n))
            for query, state in differing.items():
                if state is None:
                    states.pop(query, None)
                    lasts.pop(query, None)
                else:
                    states[query] = state
            for reader in (log, opened(Shared(inner))):
                assert (reader.states(), reader.position()) == (states, n)
                assert [reader.last(query) for query in range(1, 5)] == [lasts.get(query, 0) for query in range(1, 5)]
    inner.close()


def test_another_process_sees_commits_after_a_refresh(shared: Shared) -> None:
    writer, reader = opened(shared), opened(shared)
    say(writer, 1, 1, position=7)
    assert numbers(reader, 1) == []
    reader.refresh()
    assert (numbers(reader, 1), reader.position(), reader.states()) == ([1], 7, {1: b"state 1"})


def test_refreshing_the_store_refreshes_its_emissions(tmp_path: Path) -> None:
    store = hbase_store.open(f"lmdb:{tmp_path}/store")
    other = EmissionLog(store.kv, WallClock())
    say(other, 1, 1)
    store.refresh()
    assert numbers(store.emissions, 1) == [1]
    store.close()


@pytest.mark.parametrize("fault", [faulty.applied_but_lost, faulty.applied_and_denied, faulty.half_written])
def test_a_commit_whose_reply_is_lost_counts_once(shared: Shared, fault: Callable[..., bool]) -> None:
    log = opened(shared)
    say(log, 1, 1)
    shared.fault = fault
    assert (say(log, 1, 2), say(log, 1, 3)) == (2, 3)
    for reader in (log, opened(shared)):
        assert (numbers(reader, 1), reader.states()) == ([1, 2, 3], {1: b"state 3"})


@pytest.mark.parametrize(
    "fault", [faulty.unreachable, faulty.written_then_unreachable, faulty.applied_then_unreachable]
)
@pytest.mark.parametrize("same", [True, False])
def test_a_commit_whose_outcome_is_unknown_is_decided_first(
    shared: Shared, fault: Callable[..., bool], same: bool
) -> None:
    log = opened(shared)
    log.take_over()
    shared.fault = fault
    with pytest.raises(StoreUnavailable):
        say(log, 1, 1)
    shared.repair()
    assert say(log, 1, 1 if same else 2) == (1 if same else 2)
    for reader in (log, opened(shared)):
        assert numbers(reader, 1) == ([1] if same else [1, 2])


def test_a_stale_writer_can_spoil_nothing(shared: Shared) -> None:
    stale, new = opened(shared), opened(shared)
    say(stale, 1, 1)
    shared.fault = faulty.written_then_unreachable
    with pytest.raises(StoreUnavailable):
        stale.commit([EmissionRow(1, n, b"stale" * 10**6) for n in (2, 3)], {1: b"stale"}, Sn(9))
    shared.repair()
    new.take_over()
    assert say(new, 1, 2, position=2) == 2
    with pytest.raises(Fenced):
        stale.commit([EmissionRow(1, n, b"stale" * 10**6) for n in (2, 3)], {1: b"stale"}, Sn(9))
    for reader in (stale, new, opened(shared)):
        assert list(reader.read(1)) == [EmissionRow(1, 1, b"1"), EmissionRow(1, 2, b"2")]
        assert (reader.states(), reader.position(), reader.last(1)) == ({1: b"state 2"}, 2, 2)


def test_a_missing_piece_is_named(shared: Shared) -> None:
    log = opened(shared)
    log.commit([EmissionRow(1, 1, b"x" * (5 << 20))], {}, Sn(1))
    (first, _), _ = shared.scan("emission", b"", None)
    shared.delete("emission", [first], time=1)
    with pytest.raises(Corrupt, match="1 of its 2 pieces"):
        list(log.read(1))


def test_the_oldest_that_is_retained_is_found_where_numbers_are_left_out(shared: Shared) -> None:
    clock = ManualClock(1_000)
    log = EmissionLog(shared, clock)
    log.refresh()
    say(log, 1, 1)
    clock.advance(1_000)
    say(log, 1, 5)
    assert log.oldest(1) == 1
    log.collect(clock.now_ms())
    assert (log.oldest(1), numbers(log, 1)) == (5, [5])
    assert opened(shared).oldest(1) == 5
    say(log, 1, 9)
    clock.advance(1_000)
    log.collect(clock.now_ms())
    assert (log.oldest(1), numbers(log, 1)) == (10, [])
    say(log, 1, 20)
    assert log.oldest(1) == 20


# ---- epochs of which nothing is left


class Era:
    """Writers in turn, each with an epoch of its own, and collections by a clock that the test moves."""

    def __init__(self, shared: Shared) -> None:
        self.shared, self.clock = shared, ManualClock(1_000)
        self.log = self.opened()
        self.number = 0

    def opened(self) -> EmissionLog:
        log = EmissionLog(self.shared, self.clock)
        log.refresh()
        return log

    def restart(self) -> None:
        self.log = self.opened()
        self.log.take_over()

    def say(self, *queries: int) -> None:
        """One commit."""
        self.number += 1
        self.clock.advance(1_000)
        rows = [EmissionRow(query, self.number, b"%d" % self.number) for query in queries]
        self.log.commit(rows, dict.fromkeys(queries, b""), Sn(self.number))

    def collect(self, kept_after: dict[int, int] | None = None) -> None:
        self.clock.advance(1)
        self.log.collect(self.clock.now_ms(), kept_after)

    def epochs(self) -> list[int]:
        return [granted.epoch for granted in self.opened().cell.head.ranges]


@pytest.fixture
def era(shared: Shared, monkeypatch: pytest.MonkeyPatch) -> Era:
    monkeypatch.setattr(hbase_store.log.emissions, "WHOLE_EVERY", 2)
    return Era(shared)


def test_epochs_of_which_nothing_is_left_are_forgotten(era: Era) -> None:
    """Each reader carried, and each collection walked through, all writers that there had ever been."""
    for _ in range(8):
        era.restart()
        era.say(1)
    assert era.epochs() == [1, 2, 3, 4, 5, 6, 7, 8]
    era.collect()
    era.say(1)
    assert era.epochs() == [8]
    assert (numbers(era.opened(), 1), era.opened().last(1), era.opened().position()) == ([9], 9, 9)
    for _ in range(3):  # and so it goes on, for who starts anew and for who does not
        era.restart()
        era.collect()
        era.say(1)
        era.say(1)
        assert len(era.epochs()) <= 2


def test_an_epoch_stays_while_somebody_waits_for_an_emission_of_it(era: Era) -> None:
    for _ in range(3):
        era.restart()
        era.say(1, 2)
        era.say(1, 2)
    era.collect({2: 3})
    era.say(1)
    assert era.epochs() == [2, 3]
    assert (numbers(era.opened(), 1), numbers(era.opened(), 2)) == ([7], [4, 5, 6])
    era.collect({2: 4})
    era.say(1)
    assert era.epochs() == [3]
    assert numbers(era.opened(), 2) == [5, 6]


def test_an_epoch_stays_while_its_emissions_could_not_be_deleted(era: Era, monkeypatch: pytest.MonkeyPatch) -> None:
    """What an outage left behind was never deleted by the same process; nor was a query whose end is in a commit that
    says all states."""
    for _ in range(3):
        era.restart()
        era.say(1, 2)
    delete_range = era.shared.delete_range

    def unreachable(table: str, *arguments: Any) -> None:
        if table == "emission":
            raise StoreUnavailable("nobody answers")
        delete_range(table, *arguments)

    monkeypatch.setattr(era.shared, "delete_range", unreachable)
    with pytest.raises(StoreUnavailable):
        era.collect()
    era.log.commit([], {2: None}, Sn(9))
    with pytest.raises(StoreUnavailable):
        era.collect()
    assert era.epochs() == [1, 2, 3]
    monkeypatch.setattr(era.shared, "delete_range", delete_range)
    era.collect()
    era.say(1)
    assert (era.epochs(), numbers(era.opened(), 1), numbers(era.opened(), 2)) == ([3], [4], [])
    assert len(list(era.shared.scan("emission", b"", None))) == 1


@pytest.mark.parametrize("fault", [faulty.written_then_unreachable, faulty.applied_then_unreachable])
def test_a_writer_that_was_replaced_while_it_forgot_epochs_spoils_nothing(era: Era, fault: Callable[..., bool]) -> None:
    for _ in range(4):
        era.restart()
        era.say(1)
    era.collect()
    stale = era.log
    era.shared.fault = fault
    with pytest.raises(StoreUnavailable):
        era.say(1)
    era.shared.repair()
    counts = fault is faulty.applied_then_unreachable
    era.restart()
    if not counts:
        era.number -= 1
    for _ in range(4):
        era.say(1)
    if counts:
        assert stale.commit([EmissionRow(1, 5, b"5")], {1: b""}, Sn(5)) == 5  # it was said already, and is found
    else:
        with pytest.raises(Fenced):
            stale.commit([EmissionRow(1, 5, b"stale")], {1: b""}, Sn(5))
    assert [(row.number, row.body) for row in era.opened().read(1)] == [
        (n, b"%d" % n) for n in range(5, era.number + 1)
    ]
    era.collect()
    era.say(1)
    assert era.epochs() == [era.log.cell.epoch]
    # And who was the writer before goes on where the other one had collected.
    stale.refresh()
    stale.take_over()
    era.log = stale
    for _ in range(2):
        era.say(1)
        era.collect()
    assert era.epochs()[-1] == stale.cell.epoch
    assert len(era.epochs()) <= 2


def test_who_cannot_know_any_more_whether_a_commit_counts_says_so(era: Era) -> None:
    era.restart()
    era.say(1)
    stale = era.log
    era.shared.fault = faulty.written_then_unreachable
    with pytest.raises(StoreUnavailable):
        era.say(1)
    era.shared.repair()
    for _ in range(2):
        era.restart()
        era.say(1)
        era.say(1)
    era.collect()
    era.say(1)
    assert era.epochs() == [3]
    with pytest.raises(Undecided):
        stale.commit([EmissionRow(1, 2, b"stale")], {1: b""}, Sn(2))
