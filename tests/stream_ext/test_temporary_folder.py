"""A folder that a killed process left behind is removed by the next one."""

from __future__ import annotations

from pathlib import Path

from stream_ext.temporary_folder import TemporaryFolder


def test_a_folder_in_use_is_not_disturbed_and_one_left_behind_is_removed(tmp_path: Path) -> None:
    used, left = TemporaryFolder(tmp_path, "a-"), TemporaryFolder(tmp_path, "a-")
    left._lock.close()  # as when its process was killed
    new = TemporaryFolder(tmp_path, "a-")
    assert used.path.is_dir() and new.path.is_dir() and not left.path.exists()
    for folder in (used, new):
        folder.remove()
    assert list(tmp_path.iterdir()) == []
