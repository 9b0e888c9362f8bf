"""A folder that a killed process left behind is removed by the next one."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from stream_ext.temporary_folder import TemporaryFolder


def test_a_folder_in_use_is_not_disturbed_and_one_left_behind_is_removed(tmp_path: Path) -> None:
    used, left = TemporaryFolder(tmp_path, "a-"), TemporaryFolder(tmp_path, "a-")
    left._lock.close()  # as when its process was killed
    new = TemporaryFolder(tmp_path, "a-")
    assert used.path.is_dir() and new.path.is_dir() and not left.path.exists()
    for folder in (used, new):
        folder.remove()
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_removed_at_once_is_found_by_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = TemporaryFolder(tmp_path, "a-")
    (folder.path / "inside").mkdir()
    with monkeypatch.context() as patched:
        patched.setattr(shutil, "rmtree", lambda *_, **__: None)  # as when something is written there meanwhile
        folder.remove()
    assert not folder.path.exists()  # who knows its name cannot write there any more
    assert len([*tmp_path.iterdir()]) == 1
    TemporaryFolder(tmp_path, "a-").remove()
    assert not [*tmp_path.iterdir()]
