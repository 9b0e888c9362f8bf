"""One process writes, and the others learn who it is: by a lock file on LMDB, by an expiring cell on HBase."""

from __future__ import annotations

import os
import pickle
import queue
import subprocess
import sys
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from endpoint.trial_hbase.server import HBase
from hbase_store.backends.hbase import HBaseKeyValue
from hbase_store.backends.keyvalue import CompareAndSet, KeyValue, Put
from hbase_store.backends.lease import LEASE_MS, CellHolder, CellLease, FileLease, born, this_machine
from hbase_store.backends.lmdb import LmdbKeyValue
from hbase_store.backends.meta_cells import LEASE_KEY
from hbase_store.errors import AnotherWriter, StoreUnavailable
from stream_ext.clock import ManualClock
from tests.hbase_store.check_backend import CountingKeyValue
from tests.parts.processes import started

ROOT = Path(__file__).parents[3]
WAIT_S = 30.0


# ---- the lock file

HOLD = """
import sys
from hbase_store.backends.lease import FileLease
lease = FileLease(sys.argv[1])
lease.take(sys.argv[2])
print("held", flush=True)
sys.stdin.read()
"""


@contextmanager
def another_holder(folder: Path, address: str) -> Iterator[subprocess.Popen[Any]]:
    command = [sys.executable, "-c", HOLD, str(folder), address]
    with started(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        yield holder


def test_a_second_process_learns_who_writes(tmp_path: Path) -> None:
    lease = FileLease(tmp_path)
    with another_holder(tmp_path, "http://localhost:3030") as holder:
        for _ in range(2):  # asking, which opens and closes the file, must not break the lock
            with pytest.raises(AnotherWriter, match="send writes to http://localhost:3030") as caught:
                lease.take("")
            assert (caught.value.address, caught.value.pid) == ("http://localhost:3030", holder.pid)
        assert not lease.owned


def test_a_holder_that_is_no_server_is_named_by_pid(tmp_path: Path) -> None:
    with (
        another_holder(tmp_path, "") as holder,
        pytest.raises(AnotherWriter, match=f"process {holder.pid} is the writer .*: wait until it ends"),
    ):
        FileLease(tmp_path).take("")


def test_the_lock_is_free_when_its_holder_was_killed(tmp_path: Path) -> None:
    with another_holder(tmp_path, "") as holder:
        holder.kill()
        holder.wait()
        lease = FileLease(tmp_path)
        lease.take("http://localhost:1")
        assert lease.owned
        lease.release()


def test_taking_again_changes_the_address(tmp_path: Path) -> None:
    lease = FileLease(tmp_path)
    lease.take("")
    lease.take("http://localhost:1")
    assert lease.owned
    with pytest.raises(AnotherWriter, match="http://localhost:1") as caught:
        FileLease(tmp_path).take("")
    assert caught.value.pid == os.getpid()
    lease.release()
    lease.release()
    assert not lease.owned


def test_a_released_lock_can_be_taken_by_another_process(tmp_path: Path) -> None:
    lease = FileLease(tmp_path)
    lease.take("")
    lease.release()
    with another_holder(tmp_path, ""):
        pass


def test_closing_the_store_releases_its_lease(tmp_path: Path) -> None:
    backend = LmdbKeyValue(tmp_path)
    backend.lease(ManualClock()).take("")
    assert backend.lease(ManualClock()).owned
    backend.close()
    with another_holder(tmp_path, ""):
        pass


def test_a_forked_child_is_not_the_writer_and_does_not_end_the_lease_of_its_parent(tmp_path: Path) -> None:
    program = """
import os, sys
from hbase_store.errors import AnotherWriter
from hbase_store.backends.lease import FileLease
lease = FileLease(sys.argv[1])
lease.take("here")
if os.fork() == 0:
    for _ in range(2):
        try:
            lease.take("child")
        except AnotherWriter as error:
            print(lease.owned, error.address, error.pid == os.getppid(), flush=True)
    lease.release()
    os._exit(0)
os.wait()
print(lease.owned)
lease.release()
"""
    child = subprocess.run([sys.executable, "-c", program, str(tmp_path)], cwd=ROOT, capture_output=True, text=True)
    assert child.stdout == "False here True\nFalse here True\nTrue\n", child.stderr


def test_the_error_survives_the_way_between_processes() -> None:
    error = pickle.loads(pickle.dumps(AnotherWriter("http://localhost:1", 7, "/data")))
    assert (error.address, error.pid, str(error)) == (
        "http://localhost:1",
        7,
        "process 7 is the writer of /data; send writes to http://localhost:1, or stop that process",
    )


# ---- the cell


class FlakyKeyValue(CountingKeyValue):
    """Publishes fail on demand, before or after they are done, or are done later; `published` says when one is over."""

    def __init__(self, inner: KeyValue) -> None:
        super().__init__(inner)
        self.fails_before = self.fails_after = self.delays = False
        self._delayed: list[CompareAndSet] = []
        self.published: queue.Queue[str] = queue.Queue()

    def publish(self, stages: Sequence[Sequence[Put]], compare_and_set: CompareAndSet) -> bool:
        if self.fails_before:
            self.published.put("failed")
            raise StoreUnavailable("not reachable")
        if self.delays:
            self._delayed.append(compare_and_set)
            self.published.put("delayed")
            raise StoreUnavailable("did not answer in time")
        while self._delayed:  # what was given up is done after all, just before this
            super().publish([], self._delayed.pop(0))
        done = super().publish(stages, compare_and_set)
        self.published.put("failed" if self.fails_after else str(done))
        if self.fails_after:
            raise StoreUnavailable("the reply was lost")
        return done


@pytest.fixture
def backend(tmp_path: Path) -> Iterator[FlakyKeyValue]:
    inner = LmdbKeyValue(tmp_path)
    yield FlakyKeyValue(inner)
    inner.close()


def take(backend: FlakyKeyValue, clock: ManualClock, address: str = "here") -> CellLease:
    lease = CellLease(backend, clock, "the store")
    lease.take(address)
    assert backend.published.get(timeout=WAIT_S) == "True"
    return lease


def test_a_held_cell_is_refused_to_others_until_it_is_released(backend: FlakyKeyValue) -> None:
    clock = ManualClock(1_000)
    first = take(backend, clock, "http://first")
    second = CellLease(backend, clock, "the store")
    with pytest.raises(AnotherWriter, match="send writes to http://first") as caught:
        second.take("http://second")
    assert (caught.value.pid, first.owned, second.owned) == (os.getpid(), True, False)
    first.release()
    second.take("http://second")
    assert (first.owned, second.owned) == (False, True)
    second.release()


def test_a_cell_is_renewed_three_times_before_it_would_expire(backend: FlakyKeyValue) -> None:
    clock = ManualClock(1_000)
    lease = take(backend, clock)
    for _ in range(9):
        clock.advance(LEASE_MS // 3)
        assert backend.published.get(timeout=WAIT_S) == "True"
    assert lease.owned
    lease.release()


def test_a_cell_whose_holder_is_gone_can_be_taken_when_it_expires(backend: FlakyKeyValue) -> None:
    stopped = ManualClock(1_000)  # the holder's thread never comes to renew
    first = take(backend, stopped)
    clock = ManualClock(1_000 + LEASE_MS - 1)
    second = CellLease(backend, clock, "the store")
    with pytest.raises(AnotherWriter):
        second.take("")
    clock.advance(1)
    second.take("")
    assert second.owned
    first.release()
    assert second.owned, "a release after a loss does not touch the lease of another"
    second.release()


def test_a_holder_that_lost_its_cell_knows_at_its_next_renewal(backend: FlakyKeyValue) -> None:
    clock = ManualClock(1_000)
    first = take(backend, clock)
    second = take(backend, ManualClock(1_000 + LEASE_MS))
    assert first.owned, "as far as it knows"
    clock.advance(LEASE_MS // 3)
    assert backend.published.get(timeout=WAIT_S) == "False"
    second.release()
    first.release()
    assert not first.owned


def test_a_holder_that_cannot_renew_stays_it_until_its_time_is_over(backend: FlakyKeyValue) -> None:
    clock = ManualClock(1_000)
    lease = take(backend, clock)
    backend.fails_before = True
    clock.advance(LEASE_MS // 3)
    assert backend.published.get(timeout=WAIT_S) == "failed"
    clock.advance(LEASE_MS // 3)
    assert backend.published.get(timeout=WAIT_S) == "failed"
    owned = [lease.owned]
    clock.advance(LEASE_MS // 3)
    owned.append(lease.owned)
    backend.fails_before = False
    lease.take("again")
    owned.append(lease.owned)
    assert owned == [True, False, True]
    lease.release()


def test_a_renewal_whose_reply_was_lost_is_recognised_as_our_own(backend: FlakyKeyValue) -> None:
    clock = ManualClock(1_000)
    lease = take(backend, clock)
    backend.fails_after = True
    clock.advance(LEASE_MS // 3)
    assert backend.published.get(timeout=WAIT_S) == "failed"
    backend.fails_after = False
    clock.advance(LEASE_MS // 3)
    assert backend.published.get(timeout=WAIT_S) == "False", "the cell is not as we left it"
    assert backend.published.get(timeout=WAIT_S) == "True", "but it is ours, and renewed from there"
    clock.advance(LEASE_MS // 2)
    assert lease.owned
    lease.release()


def with_a_renewal_under_way(backend: FlakyKeyValue, clock: ManualClock) -> CellLease:
    """A renewal was given up, and is done just before whatever is written next."""
    lease = take(backend, clock)
    backend.delays = True
    clock.advance(LEASE_MS // 3)
    assert backend.published.get(timeout=WAIT_S) == "delayed"
    backend.delays = False
    return lease


@pytest.mark.parametrize("over", [False, True])
def test_a_renewal_that_is_done_late_is_recognised_by_who_takes_the_lease_again(
    backend: FlakyKeyValue, over: bool
) -> None:
    clock = ManualClock(1_000)
    lease = with_a_renewal_under_way(backend, clock)
    if over:
        backend.fails_before = True
        clock.advance(LEASE_MS)
        backend.fails_before = False
        assert lease.regain()
    lease.take("again")
    assert lease.owned
    with pytest.raises(AnotherWriter, match="again"):
        CellLease(backend, clock, "the store").take("")
    lease.release()


def test_a_renewal_that_is_done_late_does_not_keep_what_was_given_back(backend: FlakyKeyValue) -> None:
    clock = ManualClock(1_000)
    with_a_renewal_under_way(backend, clock).release()
    second = CellLease(backend, clock, "the store")
    second.take("")
    assert second.owned
    second.release()


def test_a_lease_whose_time_was_over_is_ours_again_only_if_nobody_took_it(backend: FlakyKeyValue) -> None:
    stopped = [ManualClock(1_000), ManualClock(1_000)]
    first = take(backend, stopped[0])
    stopped[0].advance(LEASE_MS)
    assert backend.published.get(timeout=WAIT_S) == "True", "nobody did, and its thread has renewed it"
    second = take(backend, ManualClock(1_000 + 2 * LEASE_MS))
    second.release()
    stopped[0].advance(3 * LEASE_MS)
    assert not first.regain(), "another had it, and may have written"
    assert first.lost
    first.take("here")
    assert first.owned
    first.release()


def test_a_lease_that_took_longer_to_take_than_it_lasts_is_not_held(backend: FlakyKeyValue) -> None:
    clock = ManualClock(1_000)
    lease = CellLease(SlowKeyValue(backend, clock, LEASE_MS), clock, "the store")
    lease.take("here")
    assert not lease.owned
    lease.release()


class SlowKeyValue(CountingKeyValue):
    """Its publishes take so long, by the clock."""

    def __init__(self, inner: KeyValue, clock: ManualClock, takes_ms: int) -> None:
        super().__init__(inner)
        self._clock, self._takes_ms = clock, takes_ms

    def publish(self, stages: Sequence[Sequence[Put]], compare_and_set: CompareAndSet) -> bool:
        done = super().publish(stages, compare_and_set)
        self._clock.advance(self._takes_ms)
        return done


def test_a_child_of_the_holder_is_not_the_holder(backend: FlakyKeyValue, monkeypatch: pytest.MonkeyPatch) -> None:
    lease = take(backend, ManualClock(1_000))
    parent = os.getpid()
    with monkeypatch.context() as forked:
        forked.setattr(os, "getpid", lambda: parent + 1)
        held_in_child = lease.owned
    assert (held_in_child, lease.owned) == (False, True)
    lease.release()


def hold_as(backend: FlakyKeyValue, pid: int, machine: str, born_at: int) -> None:
    holder = CellHolder("another", "http://first", "somewhere", pid, 1_000 + LEASE_MS, 0, machine, born_at)
    assert backend.publish([], CompareAndSet(LEASE_KEY, None, msgspec.json.encode(holder)))


def test_a_holder_killed_on_this_machine_need_not_be_waited_for(backend: FlakyKeyValue) -> None:
    with started([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as killed:
        born_at = born(killed.pid)
        assert born_at is not None
        hold_as(backend, killed.pid, this_machine(), born_at)
        lease = CellLease(backend, ManualClock(1_000), "the store")
        with pytest.raises(AnotherWriter):
            lease.take("")
        killed.kill()
        killed.wait()
        lease.take("")
        assert lease.owned
        lease.release()


@pytest.mark.parametrize("machine", ["another machine", ""])
def test_a_holder_on_another_machine_is_waited_for_whatever_runs_under_its_pid_here(
    backend: FlakyKeyValue, machine: str
) -> None:
    hold_as(backend, 2**22 + 1, machine, 1)
    with pytest.raises(AnotherWriter):
        CellLease(backend, ManualClock(1_000), "the store").take("")


@pytest.mark.hbase
@pytest.mark.xdist_group("hbase")
def test_hbase_gives_its_lease_to_one_and_then_to_another(hbase_server: HBase) -> None:
    namespace = f"lease_{uuid.uuid4().hex[:8]}"
    clock = ManualClock(1_000)
    first, second = (HBaseKeyValue("127.0.0.1", hbase_server.thrift_port, namespace) for _ in range(2))
    first.lease(clock).take("http://first")
    with pytest.raises(AnotherWriter, match="http://first"):
        second.lease(clock).take("")
    first.close()
    second.lease(clock).take("")
    assert second.lease(clock).owned
    assert second.get_many("meta", [LEASE_KEY]) != [None]
    second.close()
