"""The process that forks trials: how it begins, what it says of them, and that nothing outlives the server."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from stream_ext.continuous.query_budget import USUAL
from stream_ext.remote.allowed_urls import NOTHING
from stream_ext.runners.spark.settings import SparkSettings
from stream_ext.runners.trial import Process
from stream_ext.runners.trial_parent import TrialParent
from tests.parts.processes import started
from tests.parts.waiting import until
from tests.stream_ext.runners.spark.processes import all_gone

FACTORY = "stream_ext.continuous.shard:open_shard"
PATIENCE_S = 60.0


@pytest.fixture(scope="module")
def parent() -> Iterator[TrialParent]:
    found = TrialParent(FACTORY)
    yield found
    found.close()


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def test_each_trial_is_a_process_of_its_own_with_one_parent(parent: TrialParent) -> None:
    pids = set()
    for _ in range(2):
        with parent.fork(PATIENCE_S) as trial:
            assert parent_of(trial.pid) == parent.pid
            trial.begin(b"this is no job")
            assert os.read(trial.report, 100) == b""
            assert trial.wait() == 1, "as any program that raises"
            pids.add(trial.pid)
    assert len(pids) == 2 and parent.is_alive


def test_a_trial_that_is_killed_says_so(parent: TrialParent) -> None:
    with parent.fork(PATIENCE_S) as trial:
        trial.kill()
        assert trial.wait() == trial.wait() == -signal.SIGKILL


def test_a_trial_ends_with_its_parent() -> None:
    parent = TrialParent(FACTORY)
    with parent.fork(PATIENCE_S) as trial:
        gone = [os.pidfd_open(each) for each in (trial.pid, parent.pid)]
        os.kill(parent.pid, signal.SIGKILL)
        assert all_gone(gone, PATIENCE_S) and trial.wait() == -signal.SIGKILL
    assert not parent.is_alive
    with pytest.raises(OSError, match=r"has ended|Broken pipe"):
        parent.fork(PATIENCE_S)


def test_a_process_of_trials_is_there_before_the_first_and_again_after_its_death(tmp_path: Path) -> None:
    store = f"lmdb:{tmp_path / 'no store'}"
    process = Process(store, "http://base/", NOTHING, USUAL, SparkSettings())
    process.prepare()
    assert process._parent is not None
    first = process._parent.pid
    assert process.run({}, 1, 1).end == "away", "there is no store, which the trial says"
    assert process._parent.pid == first
    os.kill(first, signal.SIGKILL)
    until(lambda: not process._parent.is_alive, "it has ended")
    assert "no store" in process.run({}, 1, 1).why
    assert process._parent.pid != first
    process.close()
    assert process.run({}, 1, 1).end == "failed" and not process._parent.is_alive


def test_a_server_that_is_killed_leaves_neither_the_parent_nor_a_trial() -> None:
    program = f"""
        import threading
        from stream_ext.runners.trial_parent import TrialParent
        parent = TrialParent({FACTORY!r})
        trial = parent.fork({PATIENCE_S})
        print(parent.pid, trial.pid, flush=True)
        threading.Event().wait()
    """
    with started([sys.executable, "-c", textwrap.dedent(program)], stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        gone = [os.pidfd_open(int(each)) for each in server.stdout.readline().split()]
        server.kill()
        assert len(gone) == 2 and all_gone(gone, PATIENCE_S)
