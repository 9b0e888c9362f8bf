"""A store is copied while clients write to its server, is restored to both backends, and read as a whole there."""

from __future__ import annotations

import subprocess
import sys
import uuid
from pathlib import Path

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from endpoint.trial_hbase.server import HBase
from tests.end_to_end.process import PATIENCE_S, Process
from tests.end_to_end.test_faults_of_hbase import Clients
from tests.parts.waiting import until

CHECKED = "SELECT ?p (COUNT(?o) AS ?n) (MAX(?o) AS ?most) { ?s ?p ?o } GROUP BY ?p"
#: Expensive calls: a query worker evaluates it, which reads the store itself.
LONG = 'SELECT (COUNT(?o) AS ?n) { ?s ?p ?o FILTER(REPLACE(STR(?o), "1", "2") != "") }'


def rillet(*words: object) -> None:
    command = [sys.executable, "-m", "endpoint", *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 0, done.stderr


def counts(server: Process) -> dict[str, tuple[int, int]]:
    """Of each predicate, how many numbers there are and the largest."""
    with server.client() as client:
        rows = client.get("/sparql", params={"query": CHECKED}).raise_for_status().json()["results"]["bindings"]
    return {row["p"]["value"]: (int(row["n"]["value"]), int(row["most"]["value"])) for row in rows}


def check_backup_under_load(store: str, restored: list[str], folder: Path) -> None:
    server = Process(store, "inline", folder / "server.log", "--query-workers", "1")
    server.start()
    try:
        httpx.put(f"{server.url}/streams/s", json={"timeless": True}).raise_for_status()
        with Clients([server]).at_work() as clients:
            until(lambda: clients.pushed > 20 and clients.inserted > 20, "nothing is written")
            acknowledged = {"seq": clients.pushed, "number": clients.inserted}
            rillet("backup", folder / "backup", "--store", store)
            until(lambda: clients.pushed > acknowledged["seq"] + 5, "nothing is written any more")
        assert not clients.faults, clients.faults[:20]
        check_query_worker(server)
        check_query_worker(server)  # it has read other snapshots, and refreshes
    finally:
        server.stop()
    found = []
    for address in restored:
        rillet("restore", folder / "backup", "--store", address)
        copy = Process(address, "inline", folder / "copy.log")
        copy.start()
        try:
            found.append(counts(copy))
        finally:
            copy.stop()
    assert all(each == found[0] for each in found)
    for name, before in acknowledged.items():
        count, most = found[0][f"http://ex/{name}"]
        assert count == most, "one was left out"
        assert before <= most


def check_query_worker(server: Process) -> None:
    with server.client() as client:
        answer = client.get("/sparql", params={"query": LONG}).raise_for_status().json()
        assert int(answer["results"]["bindings"][0]["n"]["value"]) == sum(count for count, _ in counts(server).values())
        families = text_string_to_metric_families(client.get("/$/metrics").text)
        samples = [sample for family in families for sample in family.samples]
    sent = [sample.value for sample in samples if sample.name == "rillet_query_worker_queries_total"]
    assert sum(sent) > 0, "no query worker was asked"


def test_a_store_on_lmdb_is_copied_under_load(tmp_path: Path) -> None:
    check_backup_under_load(f"lmdb:{tmp_path / 'store'}", [f"lmdb:{tmp_path / 'restored'}"], tmp_path)


@pytest.mark.hbase
@pytest.mark.xdist_group("hbase")
def test_a_store_on_hbase_is_copied_under_load(tmp_path: Path, hbase_server: HBase) -> None:
    url = f"hbase://127.0.0.1:{hbase_server.thrift_port}/copied_{uuid.uuid4().hex[:8]}"
    check_backup_under_load(url, [f"lmdb:{tmp_path / 'restored'}", f"{url}_again"], tmp_path)
