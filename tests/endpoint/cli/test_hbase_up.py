"""`rillet hbase up` and `down`: an HBase for trying out, and what they say where there is none to start or to end."""

from __future__ import annotations

import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

import hbase_store
from hbase_store.layout.terms import iri
from tests.benchmarks.server import free_port
from tests.parts.hbase.fixture import need_hbase

RILLET = [sys.executable, "-m", "endpoint", "hbase"]
PATIENCE_S = 300


def rillet_hbase(*words: object, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [*RILLET, *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, env=environment or None)


def test_without_java_it_says_what_to_install_and_what_needs_none(tmp_path: Path) -> None:
    run = rillet_hbase("up", "--data", tmp_path / "hbase", PATH=str(tmp_path))
    assert run.returncode == 1
    assert "HBase needs JDK 17" in run.stderr and "--store lmdb:PATH" in run.stderr
    assert not (tmp_path / "hbase").exists()


def test_an_option_of_another_action_is_refused(tmp_path: Path) -> None:
    run = rillet_hbase("down", "--port", 9090)
    assert (run.returncode, run.stdout) == (2, "")
    assert "--port is for rillet hbase up" in run.stderr


def test_nothing_is_ended_that_was_not_started(tmp_path: Path) -> None:
    run = rillet_hbase("down", "--data", tmp_path)
    assert run.returncode == 1
    assert f"no HBase that `rillet hbase up` has started runs over {tmp_path}" in run.stderr
    (tmp_path / "up.lock").write_text("1")  # of a process that was killed; the number may be another one's by now
    assert rillet_hbase("down", "--data", tmp_path).returncode == 1


@pytest.mark.hbase
@pytest.mark.xdist_group("hbase")
def test_an_hbase_is_started_used_and_ended(tmp_path: Path) -> None:
    need_hbase()
    port, data = free_port(), tmp_path / "hbase"
    command = [*RILLET, "up", "--data", str(data), "--port", str(port), "--namespace", "tried", "--heap", "256m"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        try:
            assert running.stdout is not None and running.stderr is not None
            url = f"hbase://127.0.0.1:{port}/tried"
            assert running.stdout.readline() == f"READY {url}\n"
            with closing(hbase_store.open(url)) as store:
                batch = store.begin()
                s, p, o = batch.encode([iri(f"http://ex/{name}") for name in "spo"]).tolist()
                batch.insert([s], p, [o], 0)
                assert store.commit(batch) == 1
            again = rillet_hbase("up", "--data", data, "--port", free_port())
            assert again.returncode == 1 and f"runs over {data} already (process {running.pid})" in again.stderr
            beside = rillet_hbase("up", "--data", tmp_path / "other", "--port", port)
            assert beside.returncode == 1 and f"port {port} is taken" in beside.stderr
            assert rillet_hbase("down", "--data", data).returncode == 0
            assert running.wait(PATIENCE_S) == 0
            warning = running.stderr.read()
            assert "FOR TRYING OUT" in warning and str(data) in warning
        finally:
            running.terminate()
    assert rillet_hbase("down", "--data", data).returncode == 1
