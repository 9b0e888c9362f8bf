"""A store is for its owner: other users of the machine read nothing of it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

import hbase_store


@pytest.fixture(autouse=True)
def generous() -> Iterator[None]:
    """As the files of others are made, whoever starts the tests."""
    before = os.umask(0)
    yield
    os.umask(before)


def modes(folder: Path) -> dict[str, int]:
    return {each.name: each.stat().st_mode & 0o777 for each in folder.iterdir()}


def test_a_store_that_is_made_is_closed_to_others(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = tmp_path / "there" / "store"
    for _ in range(2):
        with closing(hbase_store.open(f"lmdb:{folder}")) as store:
            store.take_lease("http://here/")
            assert folder.stat().st_mode & 0o777 == 0o700
            assert set(modes(folder)) == {"data.mdb", "lock.mdb", "writer.lock"}
            assert set(modes(folder).values()) == {0o600}
    assert not caplog.records


def test_a_folder_that_was_there_keeps_its_permissions_and_is_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tmp_path.chmod(0o750)
    with closing(hbase_store.open(f"lmdb:{tmp_path}")):
        assert set(modes(tmp_path).values()) == {0o600}
    assert tmp_path.stat().st_mode & 0o777 == 0o750
    [record] = caplog.records
    assert (record.name, record.levelname) == ("rillet.store", "WARNING")
    assert "chmod -R go=" in record.message
    assert vars(record)["fields"] == {"folder": str(tmp_path)}
    caplog.clear()
    with closing(hbase_store.open(f"lmdb:{tmp_path}", read_only=True)):
        assert not caplog.records
