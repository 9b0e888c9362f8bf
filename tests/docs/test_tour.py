"""README.md's tour, typed as a stranger would type it: block after block, with `kill -9` where it says so."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.docs.pages import ROOT, Page
from tests.end_to_end.process import PATIENCE_S, Process

TOUR = [block.code for block in Page(ROOT / "README.md").blocks() if block.language == "sh"]
#: The two commands come before the tour; how to use HBase, which is no block, behind it.
COMMANDS, *TOUR = TOUR


class Terminal:
    """Each block is given to a bash of its own, in one folder; what it leaves running ends with the terminal."""

    def __init__(self, server: Process, folder: Path) -> None:
        self._address = f"localhost:{server.port}"
        self._folder = folder
        self._groups: list[int] = []
        folder.mkdir()

    def type(self, block: str) -> str:
        """What it prints. Output goes to files: a pipe would stay open for as long as a job in the background runs."""
        typed = block.replace("localhost:8000", self._address).replace(".venv/bin/python", sys.executable)
        printed = self._folder / "printed"
        with printed.open("wb") as out, (self._folder / "errors").open("wb") as errors:
            shell = subprocess.Popen(
                ["bash", "-c", "set -euo pipefail\n" + typed],
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=errors,
                start_new_session=True,
            )
            self._groups.append(shell.pid)
            assert shell.wait(PATIENCE_S) == 0, f"{typed}\n{(self._folder / 'errors').read_text()}"
        return printed.read_text()

    def read(self, name: str) -> str:
        return (self._folder / name).read_text()

    def close(self) -> None:
        for group in self._groups:
            with contextlib.suppress(ProcessLookupError):  # most blocks leave nothing
                os.killpg(group, signal.SIGTERM)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Process]:
    process = Process(f"lmdb:{tmp_path / 'store'}", "spark", tmp_path / "log")
    process.start()
    yield process
    process.stop()


@pytest.fixture
def terminal(server: Process, tmp_path: Path) -> Iterator[Terminal]:
    opened = Terminal(server, tmp_path / "folder")
    yield opened
    opened.close()


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
def test_the_tour_of_the_readme_goes_as_it_is_written(server: Process, terminal: Terminal) -> None:
    assert "make run" in COMMANDS and "make test" in COMMANDS
    stream, fact, register, listen, report, ask, come_back = TOUR
    for block in (stream, fact, register, listen):
        terminal.type(block)
    server.until(lambda: subscriptions(server) == 1)

    accepted, received = json.loads(terminal.type(report).splitlines()[0]), terminal.read("events.txt")
    assert (accepted["accepted"], accepted["late"]) == (1, 0)
    server.until(lambda: "data:" in terminal.read("events.txt"))
    (number, emission), *_ = events(terminal.read("events.txt"))
    assert (number, emission["emission"], emission["time"]) == (1, 1, 2000), received
    assert answers(emission) == [{"taxi": "http://ex/taxi7", "zone": "http://ex/z1", "city": "http://ex/city"}]

    assert terminal.type(ask).splitlines() == [
        "{'taxi': 'http://ex/taxi7', 'zone': 'http://ex/z9'}",
        "{'taxi': 'http://ex/taxi7', 'zone': 'http://ex/z1', 'city': 'http://ex/city'}",
    ]

    server.kill()
    server.start()
    pushed, *lines = terminal.type(come_back).splitlines()
    assert json.loads(pushed)["stream"] == "taxis"
    observed = [json.loads(line) for line in lines]
    assert [(each["emission"], each["time"]) for each in observed] == [(1, 2000), (2, 3000)]
    assert observed[0] == emission, "what was said stays said"
    assert answers(observed[1]) == answers(emission)


def subscriptions(server: Process) -> int:
    with server.client() as client:
        return int(client.get("/$/stats").json()["subscriptions"])


def events(text: str) -> list[tuple[int, dict[str, Any]]]:
    return [(int(m[1]), json.loads(m[2])) for m in re.finditer(r"^id: (\d+)\ndata: (.*)$", text, re.MULTILINE)]


def answers(emission: dict[str, Any]) -> list[dict[str, str]]:
    return [{name: term["value"] for name, term in row.items()} for row in emission["results"]["bindings"]]
