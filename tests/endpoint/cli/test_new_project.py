"""`rillet new`: the folder that it makes works as it is."""

from __future__ import annotations

import os
import runpy
import shlex
import tomllib
from pathlib import Path

import pytest

from endpoint.cli.command_line import build_parser, main
from endpoint.cli.settings_file import find_settings


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    assert main(["new", "rooms"]) == 0
    return tmp_path / "rooms"


def test_its_test_passes_and_fails_where_the_query_is_another(project: Path) -> None:
    found = runpy.run_path(str(project / "tests" / "test_queries.py"))
    check = found["test_a_room_is_reported_while_a_reading_above_its_limit_is_in_the_window"]
    check()
    query = project / "queries" / "alert.rq"
    query.write_text(query.read_text().replace("RANGE 10s", "RANGE 5s"))
    with pytest.raises(AssertionError):
        check()


def test_its_settings_are_settings_also_those_in_comments(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project)
    text = Path("rillet.toml").read_text()
    commented = "\n".join(line.removeprefix("# ") for line in text.splitlines() if " = " in line)
    Path("rillet.toml").write_text(commented)
    settings = find_settings([], {})
    assert settings is not None
    settings.set_defaults(build_parser())
    assert {"store", "port", "server", "engine", "retain-emissions"} == tomllib.loads(commented).keys()


def test_it_says_what_to_do_next_as_its_readme_does(capsys: pytest.CaptureFixture[str], project: Path) -> None:
    printed = capsys.readouterr().out
    readme = (project / "README.md").read_text()
    assert readme.startswith("# rooms\n")
    commands = [line for line in readme.splitlines() if line.startswith(("rillet ", "pytest"))]
    assert len(commands) == 7
    assert all(command in printed for command in commands)
    for command in (line.split() for line in commands if line.startswith("rillet")):
        build_parser().parse_args(command[1:])


def test_a_folder_with_files_is_left_alone(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = {path: path.read_bytes() for path in project.rglob("*") if path.is_file()}
    assert main(["new", "../" + project.parent.name + "/rooms"]) == 2
    assert "exists and is not an empty folder" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in project.rglob("*") if path.is_file()} == before
    assert ".gitignore" in {path.name for path in before}


def test_its_settings_are_read_where_groups_may_write_new_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    before = os.umask(0o002)
    try:
        assert main(["new", "rooms & halls"]) == 0
    finally:
        os.umask(before)
    (line,) = (line for line in capsys.readouterr().out.splitlines() if line.startswith("  cd "))
    monkeypatch.chdir(shlex.split(line)[1])
    assert find_settings([], {}) is not None
