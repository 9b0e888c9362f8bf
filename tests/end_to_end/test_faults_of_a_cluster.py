"""Two servers on a real HBase of several processes, to which all happens that happens to a cluster: a region server is
killed, regions split and move, the Thrift server stands still for longer than a lease, and so do the servers.

What was acknowledged is there, once; stream time and batches never go back; nobody restarts a server by hand but the
one that was killed. The seed draws what happens in which order."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from endpoint.trial_hbase.server import HBase
from hbase_store.backends.lease import LEASE_MS
from tests.end_to_end.process import Process
from tests.end_to_end.test_two_servers import OTHERS, OtherFaults, Round, check_under_faults
from tests.parts.hbase.cluster import Cluster
from tests.parts.waiting import until

pytestmark = [pytest.mark.hbase, pytest.mark.xdist_group("hbase")]

SEED = int(os.environ.get("RILLET_CLUSTER_SEED", "0"))
ROUNDS = int(os.environ.get("RILLET_CLUSTER_ROUNDS", "20"))
FAULTS = ("region server", "split", "move", "balance", "thrift", "kill", "stop")
TABLES = ("meta", "sn", "slab", "slice", "emission", "commit", "i2t")
THRIFT_S = 70
#: A server whose store does not answer is asked this quickly; most of it is the load of the machine.
READY_S_MAX = 0.1
COLD = 24


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path / "hbase") as running:
        assert isinstance(running, Cluster)
        yield running


def others(cluster: Cluster, namespace: str, chance: random.Random) -> OtherFaults:
    def kill_region_server(_: list[Process]) -> None:
        number = chance.randrange(2)
        cluster.kill_region_server(number)
        until(lambda: cluster.admin("servers") == 1, "the master does not notice that a region server is gone")
        cluster.start_region_server(number)
        until(lambda: cluster.admin("servers") == 2, "the region server does not come back")

    def split(_: list[Process]) -> None:
        cluster.admin("split", f"{namespace}_{chance.choice(TABLES[1:])}", str(chance.randrange(1, 8)))

    def move(_: list[Process]) -> None:
        for table in chance.sample(TABLES, 3):
            cluster.admin("move", f"{namespace}_{table}")

    def suspend_thrift(servers: list[Process]) -> None:
        cluster.suspend("thrift")
        try:
            began = time.monotonic()
            check_ready(servers)
            threading.Event().wait(THRIFT_S - (time.monotonic() - began))
        finally:
            cluster.resume("thrift")

    return {
        "region server": kill_region_server,
        "split": split,
        "move": move,
        "balance": lambda _: print(cluster.admin("balance")),
        "thrift": suspend_thrift,
    }


def check_ready(servers: list[Process]) -> None:
    """While each is asked what it has to read from HBase, and cannot, it says at once that it waits for the store."""
    with ThreadPoolExecutor(COLD) as pool:
        for number in range(COLD):
            pool.submit(ask, servers[number % len(servers)], number)
        for server in servers:
            with server.client() as client:
                until(lambda client=client: "waits for the store" in ready(client)[0], "it does not say that it waits")
                took = sorted(ready(client)[1] for _ in range(20))
            assert took[len(took) // 2] < READY_S_MAX, took


def ask(server: Process, number: int) -> None:
    try:
        httpx.get(f"{server.url}/sparql", params={"query": f"SELECT * {{ ?s ?p {number} . ?s ?q ?o }}"}, timeout=90)
    except httpx.TransportError as error:
        print(f"cold query {number}: {error}")


def ready(client: httpx.Client) -> tuple[str, float]:
    """What the server says of itself, and how long that took."""
    began = time.monotonic()
    text = client.get("/$/ready").text
    return text, time.monotonic() - began


def rounds_of(seed: int, count: int) -> list[Round]:
    """All faults once in each seven rounds, in an order that the seed draws. What the other server does changes with
    each seven and each seed, so that three of them meet each fault with each."""
    chance, rounds = random.Random(seed), list[Round]()
    while len(rounds) < count:
        turn = seed + len(rounds) // len(FAULTS)
        for fault in chance.sample(FAULTS, len(FAULTS)):
            rounds.append(Round(fault, OTHERS[(turn + FAULTS.index(fault)) % len(OTHERS)]))
    return rounds[:count]


@pytest.mark.soak
def test_two_servers_of_a_cluster_lose_and_double_nothing(tmp_path: Path, cluster: Cluster) -> None:
    chance = random.Random(SEED)
    store = f"hbase://127.0.0.1:{cluster.thrift_port}/faults"
    check_under_faults(
        store, tmp_path, SEED, rounds_of(SEED, ROUNDS), LEASE_MS / 1000 + 2, others(cluster, "faults", chance)
    )


def test_while_hbase_stands_still_a_server_says_at_once_that_it_waits(tmp_path: Path, hbase_server: HBase) -> None:
    server = Process(f"hbase://127.0.0.1:{hbase_server.thrift_port}/ready", "inline", tmp_path / "server.log")
    server.start()
    try:
        assert hbase_server._process is not None
        hbase_server._process.send_signal(signal.SIGSTOP)
        try:
            check_ready([server])
        finally:
            hbase_server._process.send_signal(signal.SIGCONT)
        with server.client() as client:
            until(lambda: ready(client)[0] == "ready\n", "the server does not go on")
    finally:
        server.stop()
