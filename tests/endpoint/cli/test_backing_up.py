"""`rillet backup` of a store that a server writes to, and `rillet restore`."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

from tests.endpoint.live import NEAR, live
from tests.parts.waiting import until


def rillet(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "endpoint", *arguments], capture_output=True, text=True, timeout=60, check=False
    )


def test_a_store_is_copied_while_a_server_writes_to_it_and_the_copy_is_served(tmp_path: Path) -> None:
    source, folder = tmp_path / "store", tmp_path / "backup"
    with live(source) as server:
        server.http.put("/streams/taxis", json={"timeless": ["http://ex/in"]}).raise_for_status()
        server.register(NEAR).raise_for_status()
        stopping, pushed = threading.Event(), 0

        def pushes() -> None:
            nonlocal pushed
            while not stopping.is_set():
                server.push(1_000 + pushed * 50, f"<http://ex/t{pushed}> <http://ex/in> <http://ex/z1> .")
                pushed += 1

        pusher = threading.Thread(target=pushes)
        pusher.start()
        until(lambda: pushed > 10, "nothing is pushed")
        made = rillet("backup", str(folder), "--store", f"lmdb:{source}")
        stopping.set()
        pusher.join()
        assert made.returncode == 0, made.stderr
        assert "all of them read" in made.stdout
    again = rillet("restore", str(folder), "--store", f"lmdb:{tmp_path / 'restored'}")
    assert again.returncode == 0, again.stderr
    with live(tmp_path / "restored") as server:
        found = server.http.get("/sparql", params={"query": "SELECT * { ?t <http://ex/in> ?z }"}).json()
        taxis = {int(row["t"]["value"].removeprefix("http://ex/t")) for row in found["results"]["bindings"]}
        assert len(taxis) > 10 and taxis == set(range(len(taxis))), "a prefix of what was pushed"
        position = server.http.get("/streams/taxis").json()
        assert position["time"] == 1_000 + (len(taxis) - 1) * 50
        before = server.http.get("/queries/near").json()["emissions"]
        server.push(1_000 + len(taxis) * 50 + 1_000)
        assert server.http.get("/queries/near").json()["emissions"] > before, "its queries go on"
    refused = rillet("restore", str(folder), "--store", f"lmdb:{tmp_path / 'restored'}")
    assert (refused.returncode, "has data; restore into a new store" in refused.stderr) == (1, True)


def test_dropping_needs_a_yes_and_hbase() -> None:
    assert rillet("hbase", "drop", "--store", "hbase://127.0.0.1:9/ns").returncode == 2
    refused = rillet("hbase", "check", "--store", "lmdb:here")
    assert "give --store hbase://HOST:9090/NAMESPACE" in refused.stderr
    printed = rillet("hbase", "create", "--script", "--store", "hbase://127.0.0.1:9/ns")
    assert (printed.returncode, printed.stdout.count("create 'ns_")) == (0, 11)
