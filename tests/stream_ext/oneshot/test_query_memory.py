"""What all queries have together: no more than is allowed, wherever they are; and all of it, for one that is alone."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from stream_ext.errors import Overload, QueryCancelled, QueryTooLarge
from stream_ext.evaluation_budget import FREE_BYTES, Control
from stream_ext.query_memory import QueryMemory, usual_bytes

MIB = 1 << 20
_HERE = Path(__file__).resolve().parents[3]


def test_one_that_is_by_itself_has_all_of_its_budget_and_no_more() -> None:
    memory = QueryMemory(16 * MIB)
    control = Control(bytes_max=16 * MIB, memory=memory)
    control.room(MIB, 2)
    assert control.most(1) == 2 * MIB
    with pytest.raises(QueryTooLarge):
        control.room(MIB + 1, 2)
    control.close()
    assert memory.used == 0


def test_what_others_have_is_not_there() -> None:
    memory = QueryMemory(16 * MIB)
    controls = [Control(bytes_max=16 * MIB, memory=memory) for _ in range(100)]
    for control in controls:
        control.spend(FREE_BYTES)  # of which nobody is asked
    assert memory.used == 0
    controls[0].alive(10 * MIB)
    assert controls[1].most(1) * 8 < 7 * MIB
    with pytest.raises(Overload, match=r"all queries together may use 16 MiB \(--queries-bytes\); send it again"):
        controls[1].room(MIB, 1)
    with pytest.raises(Overload):
        controls[1].spend(7 * MIB)
    controls[0].close()
    controls[2].room(MIB, 1)
    for control in controls:
        control.close()
    assert memory.used == 0


def test_an_answer_that_is_sent_keeps_what_it_takes() -> None:
    memory = QueryMemory(64 * MIB)
    control = Control(bytes_max=64 * MIB, memory=memory)
    control.alive(50 * MIB)
    control.spend(2 * MIB)
    control.keep(3 * MIB)
    assert 5 * MIB - FREE_BYTES <= memory.used <= 6 * MIB
    control.close()
    control.close()
    assert memory.used == 0
    with pytest.raises(QueryCancelled):
        control.room(MIB, 1)
    assert memory.used == 0


def test_many_at_once_never_have_more_and_one_of_them_comes_to_its_end() -> None:
    memory = QueryMemory(16 * MIB)

    def query(_: int) -> bool:
        control = Control(bytes_max=16 * MIB, memory=memory)
        try:
            for _ in range(16):
                control.spend(MIB)
                assert memory.used <= 16 * MIB + 8 * 2 * MIB  # what is being refused is counted for a moment
        except Overload:
            return False
        finally:
            control.close()
        return True

    with ThreadPoolExecutor(8) as threads:
        assert any(threads.map(query, range(64)))
    assert memory.used == 0


def test_processes_share_it_and_what_a_dead_one_had_is_free() -> None:
    memory = QueryMemory(16 * MIB)
    place = memory.place()
    code = (
        "import os, sys\n"
        "from stream_ext.query_memory import QueryMemory\n"
        f"QueryMemory(16 << 20, ({memory.file}, {place})).reserve(10 << 20)\n"
        "os._exit(0)"
    )
    subprocess.run([sys.executable, "-c", code], cwd=_HERE, pass_fds=[memory.file], check=True, timeout=60)
    assert memory.used == 10 * MIB
    with pytest.raises(Overload):
        memory.reserve(7 * MIB)
    memory.vacate(place)
    memory.reserve(16 * MIB)
    assert memory.place() == place


def test_by_default_it_is_half_of_the_memory_and_a_whole_budget_at_least() -> None:
    assert usual_bytes(1 << 60) == 1 << 60
    assert 0 < usual_bytes(1) < 1 << 50
