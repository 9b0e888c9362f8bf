"""kill -9 at random instants, of a writer that publishes, folds, loads and collects.

Nothing that was acknowledged is lost, nothing else is to be seen, and the next writer goes on."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import hbase_store
from hbase_store import Store
from tests.hbase_store.crowd import KEPT, STREAM, P, content, deletes, passing
from tests.parts.processes import started

KILLS = 40
SEED = 20


def expected(sn: int) -> set[tuple[bytes, bytes]]:
    there: set[tuple[bytes, bytes]] = set()
    for n in range(1, sn + 1):
        there |= set(content(n))
        # A load only adds.
        if deletes(n) and n % 5 != 1:
            there -= set(content(n - 1)) - set(content(n))
    return there


def found(store: Store, sn: int) -> set[tuple[bytes, bytes]]:
    p = int(store.ids([P])[0])
    s, o = store.at(sn).pairs(p)
    assert store.at(sn).count(p) == len(s)
    values, subjects = store.at(sn).pairs(p, inverse=True)
    assert sorted(zip(subjects.tolist(), values.tolist(), strict=True)) == sorted(
        zip(s.tolist(), o.tolist(), strict=True)
    )
    return set(zip(store.terms(s), store.terms(o), strict=True))


def check(url: str, acknowledged: int) -> int:
    store = hbase_store.open(url, read_only=True)
    head = store.head()
    assert acknowledged <= head <= acknowledged + 1, "only the one whose acknowledgement was under way may be there"
    for sn in {head, max(store._edges.list.floor, head - 3)} - {0}:
        assert found(store, sn) == expected(sn)
    check_stream(store, int(head))
    store.close()
    return int(head)


def check_stream(store: Store, head: int) -> None:
    """What is retained of the stream says what it said; each of its terms has one id."""
    ids: dict[bytes, int] = {}
    for sn in range(max(1, store.horizon(STREAM), head - 2 * KEPT), head + 1):
        columns = store.stream(sn, STREAM)
        assert (columns is None) == (not passing(sn))
        if columns is not None:
            assert store.terms(columns.s) == passing(sn)
            for text, id in zip(passing(sn), columns.s.tolist(), strict=True):
                assert ids.setdefault(text, id) == id
    assert store.ids(list(ids)).tolist() == list(ids.values())


def line_of(parent: subprocess.Popen[str]) -> str:
    assert parent.stdout is not None
    line = parent.stdout.readline()
    assert line, "the process that forks the writers has ended"
    return line


def kill_often(url: str, kills: int, seed: int) -> None:
    rng = random.Random(seed)
    arguments = [sys.executable, "-m", "tests.hbase_store.crowd", url, str(seed)]
    with started(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdin is not None
        head = 0
        for _ in range(kills):
            parent.stdin.write("go\n")
            parent.stdin.flush()
            pid = int(line_of(parent).removeprefix("pid "))
            # After some acknowledgements, and then at any instant of the next ones.
            observed = [line_of(parent) for _ in range(rng.randrange(1, 12))]
            killer = threading.Timer(rng.random() * 0.03, os.kill, (pid, signal.SIGKILL))
            killer.start()
            while (line := line_of(parent)) != "dead\n":
                observed.append(line)
            killer.join()
            numbers = [int(line) for line in observed]
            assert numbers == list(range(head + 1, head + 1 + len(numbers)))
            head = check(url, numbers[-1])
        parent.stdin.close()
    store = hbase_store.open(url, read_only=True)
    assert store._edges.list.terms_from > 0, "terms have gone meanwhile"
    store.close()


def test_no_kill_loses_what_was_acknowledged(tmp_path: Path) -> None:
    kill_often(f"lmdb:{tmp_path}/store", KILLS, SEED)


@pytest.mark.soak
def test_a_thousand_kills_lose_nothing(tmp_path: Path) -> None:
    for seed in range(25):
        kill_often(f"lmdb:{tmp_path}/{seed}", KILLS, SEED + 1000 * seed)
