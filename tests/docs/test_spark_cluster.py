"""The page about clusters, typed as it is written: packed, on a standalone master with two workers."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from stream_ext.runners.spark.java import find_java
from tests.benchmarks.server import free_port
from tests.docs.pages import DOCS, ROOT, Page
from tests.parts.waiting import until
from tests.stream_ext.opened import registration

_STARTS_S = 240


@pytest.mark.soak
@pytest.mark.spark
@pytest.mark.xdist_group("spark")
def test_the_page_about_clusters_goes_as_it_is_written(tmp_path: Path) -> None:
    port = free_port()
    code = "\n".join(
        block.code for block in Page(DOCS / "how_to" / "spark_cluster.md").blocks() if block.language == "bash"
    )
    code = code.replace("7077", str(free_port())).replace("8000", str(port)).replace("/tmp/work", f"{tmp_path}/work")
    programs = f'rillet() {{ "{sys.executable}" -m endpoint "$@"; }}; python() {{ "{sys.executable}" "$@"; }}\n'
    environ = os.environ | {"PYTHONPATH": str(ROOT), "JAVA_HOME": str(find_java(os.environ).home)}
    with (tmp_path / "printed").open("wb") as out:
        shell = subprocess.Popen(
            ["bash", "-c", f"set -euo pipefail\n{programs}{code}\nwait"],
            stdout=out, stderr=out, env=environ, cwd=tmp_path, start_new_session=True,
        )  # fmt: skip
    try:
        server = httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60)
        until(lambda: answers(server), "the server is ready", _STARTS_S)
        server.put("/streams/s", json={}).raise_for_status()
        text = registration()
        server.post("/queries", content=text, headers={"content-type": "application/sparql-query"}).raise_for_status()
        shards = lambda: server.get("/$/stats").json()["spark"]["shards"]  # noqa: E731
        until(lambda: all(each["runner"] == "spark" for each in shards()), "Spark has the shards", _STARTS_S)
        for time in (100, 1_100):
            body = f"<http://ex/a> <http://ex/p> <http://ex/{time}> ."
            asked = {"timestamp": time, "wait": "evaluated"}
            kind = {"content-type": "application/n-triples"}
            server.post("/streams/s", params=asked, content=body, headers=kind).raise_for_status()
        (emission,) = server.get("/queries/q/results", params={"since": 0}).json()
        assert json.dumps(emission).count("http://ex/a") == 1
        (shard,) = [each for each in shards() if each["steps"]][:1]
        python = Path(f"/proc/{shard['pid']}/cmdline").read_bytes()
        assert b"rillet_package/bin/python" in python, python
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(shell.pid, signal.SIGKILL)
        shell.wait()


def answers(server: httpx.Client) -> bool:
    with contextlib.suppress(httpx.HTTPError):
        return server.get("/$/ready").is_success
    return False
