"""Processes that the server starts get no token of its own."""

from __future__ import annotations

import ast
import time
from pathlib import Path

import pytest

import endpoint
import hbase_store
import plugin
import stream_ext
from stream_ext.child_environment import SECRETS
from stream_ext.runners.spark import java
from tests.endpoint.live import live


def test_a_query_worker_gets_no_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in SECRETS:
        monkeypatch.setenv(name, f"secret of {name}")
    with live(tmp_path, token="t", query_workers=1) as server:
        deadline = time.monotonic() + 60
        while (worker := server.http.get("/$/stats").json()["query_workers"][0])["state"] != "ready":
            assert time.monotonic() < deadline, worker
            time.sleep(0.05)
        given = Path(f"/proc/{worker['pid']}/environ").read_bytes()
    assert b"PYTHONPATH=" in given
    assert b"secret of" not in given


def test_a_java_that_is_asked_for_its_version_gets_no_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in SECRETS:
        monkeypatch.setenv(name, f"secret of {name}")
    program = tmp_path / "bin" / "java"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\nenv >> {tmp_path}/given\necho 'version \"17.0.1\"'\n")
    program.chmod(0o755)
    assert java.find_java({"JAVA_HOME": str(tmp_path)}, tmp_path / "cache").version == "17.0.1"
    given = (tmp_path / "given").read_text()
    assert "PATH=" in given and "secret of" not in given


def test_whatever_starts_a_process_says_what_it_gets() -> None:
    """Without `env` a process gets all that we have."""
    started = 0
    for package in (endpoint, plugin, stream_ext, hbase_store):
        folder = Path(package.__path__[0])
        for file in folder.rglob("*.py"):
            if file.is_relative_to(folder / "bench"):
                continue
            for call in ast.walk(ast.parse(file.read_text())):
                if isinstance(call, ast.Call) and ast.unparse(call.func) in ("subprocess.Popen", "subprocess.run"):
                    started += 1
                    assert "env" in {each.arg for each in call.keywords}, f"{file}:{call.lineno}"
    assert started >= 3
