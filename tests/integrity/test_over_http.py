"""Histories of concurrent clients of a real server, each checked: whatever the threads did, every promise was kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.end_to_end.process import Process
from tests.integrity.checker import violations
from tests.integrity.clients import recorded

FOLD_OFTEN = "import hbase_store.writing.upkeep; hbase_store.writing.upkeep.FOLD_SLABS = 3"


def check(folder: Path, seed: int, rounds: int, before: str = "") -> None:
    server = Process(f"lmdb:{folder / 'store'}", "inline", folder / "log", before=before)
    server.start()
    try:
        history = recorded(server.url, seed, rounds)
    finally:
        server.stop()
    assert violations(history) == [], f"seed {seed}"
    assert sum(map(len, history.received.values())) > rounds, "little was said"


@pytest.mark.parametrize("seed", range(3))
def test_every_answer_and_emission_is_a_state_that_was_there(tmp_path: Path, seed: int) -> None:
    check(tmp_path, seed, rounds=15)


def test_it_is_so_while_slabs_are_folded_all_the_time(tmp_path: Path) -> None:
    check(tmp_path, 3, rounds=15, before=FOLD_OFTEN)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(100, 200))
def test_it_is_so_for_hundreds_of_clients(tmp_path: Path, seed: int) -> None:
    check(tmp_path, seed, rounds=60, before=FOLD_OFTEN if seed % 2 else "")
