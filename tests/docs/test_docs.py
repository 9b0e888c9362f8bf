"""What the documentation shows happens: its code runs, and says what the page says that it says.

```python   a session (>>> ...), run as doctests do; the blocks of a page share names and a folder
```sparql   a text of the language
```sh       in tutorial/ and how_to/: run by bash, in order; a ```text block behind it is part of what it prints"""

from __future__ import annotations

import doctest
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from endpoint.app import create_app
from endpoint.serve import Server, listen
from stream_ext import parse
from stream_ext.clock import SystemClock
from stream_ext.service.service import Service
from tests.docs.pages import ROOT, Block, Page, pages
from tests.sources.scripted import Scripted, scripted

BASE = "http://ex/"
SHOWN = re.compile(r"(localhost|127\.0\.0\.1):8000")
#: Where the documentation has a triple store of others; the pages fill it.
SOURCE = re.compile(r"http://127\.0\.0\.1:3030/ds/(sparql|update)")


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """A server of its own for a page, in this process."""
    with listen("127.0.0.1", 0) as socket:
        port = socket.getsockname()[1]
        base = f"http://127.0.0.1:{port}/"
        store = f"lmdb:{tmp_path / 'served'}"
        with Service.open(store, base=base, clock=SystemClock(), engine="inline", address=base) as service:
            ready = threading.Event()
            server = Server(create_app(service), when_ready=ready.set)
            thread = threading.Thread(target=server.run_until_stopped, args=(socket,), name="docs-server")
            thread.start()
            try:
                assert ready.wait(30), "the server did not start"
                yield f"localhost:{port}"
            finally:
                server.should_exit = True
                thread.join(30)


@pytest.fixture
def source() -> Iterator[Scripted]:
    with scripted() as running:
        yield running


def of(language: str) -> list[Page]:
    return [page for page in pages() if any(block.language == language for block in page.blocks())]


def at(text: str, address: str) -> str:
    return SHOWN.sub(lambda m: address.replace("localhost", m[1]), text)


@pytest.mark.parametrize("page", of("python"), ids=lambda page: page.name)
def test_sessions_go_as_they_are_shown(
    page: Page, address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    monkeypatch.chdir(folder)
    names: dict[str, object] = {"__name__": "__main__"}
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS, verbose=False)
    answered: list[str] = []
    for block in page.blocks():
        if block.language == "python":
            session = doctest.DocTestParser().get_doctest(
                at(block.code, address), names, page.name, page.name, block.line
            )
            assert session.examples, f"{page.name}, line {block.line}: a python block is a session (>>> ...)"
            runner.run(session, out=answered.append, clear_globs=False)
            names = session.globs
    assert runner.summarize(verbose=False).failed == 0, "".join(answered)


@pytest.mark.parametrize("page", of("sparql"), ids=lambda page: page.name)
def test_texts_of_the_language_parse(page: Page) -> None:
    for block in page.blocks():
        if block.language == "sparql":
            parse(block.code, BASE)


TUTORIAL = [page for page in of("sh") if page.path.parent.name in ("tutorial", "how_to")]
PROGRAMS = {"rillet": f"{sys.executable} -m endpoint", "python": sys.executable}


@pytest.mark.parametrize("page", TUTORIAL, ids=lambda page: page.name)
def test_the_tutorial_goes_as_it_is_written(page: Page, address: str, source: Scripted, tmp_path: Path) -> None:
    for n in range(9):  # whoever comes back to a tutorial does not begin at snapshot 0
        change = {"update": f"INSERT DATA {{ <urn:x:a> <urn:x:p> {n} }}"}
        httpx.post(f"http://{address}/update", data=change).raise_for_status()
    blocks = [block for block in page.blocks() if block.language in ("sh", "text")]
    if any("rillet serve" in block.code for block in blocks):
        port = free_port()  # the page starts a server itself
        address, blocks = f"localhost:{port}", [on_port(block, port) for block in blocks]
    try:
        follow(page, blocks, address, source.url, tmp_path)
    finally:
        if (tmp_path / "pid.txt").exists():
            with suppress(ProcessLookupError):
                os.kill(int((tmp_path / "pid.txt").read_text()), signal.SIGTERM)


def free_port() -> int:
    with listen("127.0.0.1", 0) as socket:
        return int(socket.getsockname()[1])


def on_port(block: Block, port: int) -> Block:
    return replace(block, code=block.code.replace("--port 8000", f"--port {port}"))


def follow(page: Page, blocks: Sequence[Block], address: str, source: str, tmp_path: Path) -> None:
    printed = ""
    for block in blocks:
        if block.language == "sh":
            printed = run(page, block, SOURCE.sub(source, at(block.code, address)), tmp_path, address)
        elif block.language == "text":
            for line in SOURCE.sub(source, at(block.code, address)).splitlines():
                assert line in printed, f"{page.name}, line {block.line}: {line!r} is not in\n{printed}"


def run(page: Page, block: Block, code: str, folder: Path, address: str) -> str:
    code = re.sub(r"\.venv/bin/(rillet|python)\b", lambda found: PROGRAMS[found[1]], code)
    known = os.environ | {"RILLET_SERVER": f"http://{address}", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", code], cwd=folder, env=known, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, f"{page.name}, line {block.line}:\n{code}\n{done.stderr}"
    assert "not supported yet" not in done.stdout
    return done.stdout
