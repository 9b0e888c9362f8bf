"""`rillet new`: a folder to start from, with settings, facts, a query, elements to try it with, and a test."""

from __future__ import annotations

import argparse
import shlex
import stat
from collections.abc import Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from endpoint.cli.flags import Commands, UsageError, add_command

#: Files that would be hidden in this package, or a module of it.
_NAMED_OTHERWISE = {"gitignore": ".gitignore", "test_queries.txt": "test_queries.py"}
#: With such a settings file no command runs; many systems let the group write new files.
_OTHERS_MAY_WRITE = stat.S_IWGRP | stat.S_IWOTH
_NEXT = """
Next:
  cd {folder}
  rillet serve                            in one terminal
  rillet load facts.ttl                   in another one, as the rest
  rillet register -f queries/alert.rq
  rillet push readings readings.ndjson
  rillet heartbeat readings 20000
  rillet watch alert
  pytest                                  tests the query; this needs no server

If a command is not found, first `source .venv/bin/activate` where Rillet is installed.
If port 8000 is taken, change both `port` and `server` in rillet.toml."""


def add(commands: Commands) -> None:
    what = "make a folder to start from: settings, facts, a query, elements to try it with, and a test"
    parser = add_command(commands, "new", new, what, "  rillet new rooms")
    parser.add_argument("folder", help="the folder; it is made, or empty")


def new(arguments: argparse.Namespace) -> None:
    folder = Path(arguments.folder)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"{folder} exists and is not an empty folder: give another name")
    for path, content in _files(files("endpoint.cli") / "project", Path()):
        target = folder / path.parent / _NAMED_OTHERWISE.get(path.name, path.name)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(content.replace("{name}", folder.resolve().name) if path.name == "README.md" else content)
        target.chmod(target.stat().st_mode & ~_OTHERS_MAY_WRITE)
        print(target)
    print(_NEXT.format(folder=shlex.quote(str(folder))))


def _files(folder: Traversable, path: Path) -> Iterator[tuple[Path, str]]:
    for each in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if each.is_dir():
            if each.name != "__pycache__":
                yield from _files(each, path / each.name)
        else:
            yield path / each.name, each.read_text()
