"""Two servers of one store, of which any is asked anything while the writer is killed and stopped, again and again.

What was acknowledged is there, once, and can be read at once where it was acknowledged; stream time never goes back; no
server is restarted by hand but the one that was killed. Which fault comes when is drawn from the seed."""

from __future__ import annotations

import os
import random
import signal
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

import httpx
import pytest

from endpoint.trial_hbase.server import HBase
from hbase_store.backends.lease import LEASE_MS
from tests.end_to_end.process import Listener, Process
from tests.end_to_end.test_faults_of_hbase import QUERY, Clients, check
from tests.parts.waiting import until

SEEDS = range(int(os.environ.get("RILLET_SHARED_SEEDS", "1")))
ROUNDS = int(os.environ.get("RILLET_SHARED_ROUNDS", "2"))
SPARQL = {"content-type": "application/sparql-query"}
#: What else may happen: by name, what does it, to whom the servers are given.
OtherFaults = Mapping[str, Callable[[list[Process]], None]]


class AnyServer(Clients):
    """Clients who ask now one server, now the other; where a write was acknowledged they look whether it is there."""

    def __init__(self, servers: list[Process], chance: random.Random) -> None:
        super().__init__(servers)
        self._chance = chance
        self._looked = self._looks = 0
        self._threads.append(threading.Thread(target=self._until_stopped, args=(self._write_and_look,), daemon=True))

    def _send(self, client: httpx.Client, method: str, path: str, **named: object) -> httpx.Response | None:
        self.first = self._chance.choice(self.servers)
        return super()._send(client, method, path, **named)

    def _write_and_look(self, client: httpx.Client) -> None:
        server, mark = self._chance.choice(self.servers), f"<http://ex/mark{self._looks}>"
        self._looks += 1
        try:
            update = f"INSERT DATA {{ GRAPH {mark} {{ {mark} <http://ex/is> {mark} }} }}"
            written = client.post(server.url + "/update", data={"update": update})
            if written.status_code >= 300:
                return
            ask = f"ASK {{ GRAPH {mark} {{ {mark} ?p ?o }} }}"
            seen = client.get(server.url + "/sparql", params={"query": ask})
        except httpx.TransportError:
            return  # killed in between
        if seen.status_code == 200 and not seen.json()["boolean"]:
            self.faults.append(f"{mark} is not where it was acknowledged: {written.headers} {seen.headers}")
        self._looked += 1

    def has_looked(self) -> bool:
        return self._looked > 0


def role_of(server: Process) -> str:
    try:
        return str(httpx.get(server.url + "/$/stats", timeout=5).json()["role"])
    except httpx.TransportError:
        return "none"


def faults_of(servers: list[Process], clients: AnyServer, fault: str, pause_s: float, others: OtherFaults) -> None:
    """The writer is killed, or stops for a while, or something else happens; then both must go on."""
    before, pause = clients.pushed, threading.Event()
    writer = next(server for server in servers if role_of(server) == "writer")
    other = next(server for server in servers if server is not writer)
    if fault == "kill":
        writer.kill()
        until(lambda: clients.pushed > before + 5, "the other server does not become the writer")
        assert role_of(other) == "writer"
        writer.start()
    elif fault in others:
        others[fault](servers)
    else:
        assert writer._process is not None
        writer._process.send_signal(signal.SIGSTOP)
        pause.wait(pause_s)
        writer._process.send_signal(signal.SIGCONT)
    before = clients.pushed
    until(lambda: clients.pushed > before + 10, f"after {fault} nothing is pushed any more")
    until(lambda: sorted(map(role_of, servers)) == ["reader", "writer"], f"after {fault} there is not one writer")


def check_under_faults(
    store: str,
    folder: Path,
    seed: int,
    faults: list[str],
    pause_s: float,
    others: OtherFaults = {},  # noqa: B006  it is only read
) -> None:
    chance = random.Random(seed)
    servers = [Process(store, "inline", folder / f"{name}.log") for name in ("first", "second")]
    listeners: list[Listener] = []
    try:
        for server in servers:
            server.start()
        with servers[1].client() as client:  # a reader: all of this is forwarded
            client.put("/streams/s", json={"timeless": True}).raise_for_status()
            client.post("/queries", content=QUERY, headers=SPARQL).raise_for_status()
        listeners = [Listener(server.url, "q") for server in servers]
        with AnyServer(servers, chance).at_work() as clients:
            assert isinstance(clients, AnyServer)
            for fault in faults:
                before = clients.pushed
                until(lambda before=before: clients.pushed > before + chance.randrange(5, 25), "nothing is pushed")
                faults_of(servers, clients, fault, pause_s, others)
                print(f"seed {seed}: after {fault}: {clients.pushed} pushes, {dict(clients.answers)}", flush=True)
        assert not clients.faults, clients.faults[:20]
        assert clients.has_looked()
        assert clients.batches == sorted(clients.batches), "batches of the stream went back"
        for server, listener in zip(servers, listeners, strict=True):
            check(server, clients, listener)
        told = [[emission["time"] for emission in listener.emissions] for listener in listeners]
        assert told[0] == told[1] == sorted(set(told[0])), "both tell the same, and time never goes back"
    except AssertionError:
        print(f"seed {seed}: RILLET_SHARED_SEEDS={seed + 1}", *(server.log() for server in servers), sep="\n")
        raise
    finally:
        for listener in listeners:
            listener.close()
        for server in servers:
            server.stop()


@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", SEEDS)
def test_two_servers_of_one_folder_lose_and_double_nothing(tmp_path: Path, seed: int) -> None:
    faults = ["kill", *random.Random(seed).choices(["kill", "stop"], k=ROUNDS)]
    check_under_faults(f"lmdb:{tmp_path / 'store'}", tmp_path, seed, faults, pause_s=3)


@pytest.mark.hbase
@pytest.mark.xdist_group("hbase")
@pytest.mark.timeout(600)
def test_two_servers_of_one_namespace_lose_and_double_nothing(tmp_path: Path, hbase_server: HBase) -> None:
    store = f"hbase://127.0.0.1:{hbase_server.thrift_port}/{tmp_path.name.replace('-', '_')}"
    check_under_faults(store, tmp_path, 0, ["kill", "stop"], pause_s=LEASE_MS / 1000 + 2)
