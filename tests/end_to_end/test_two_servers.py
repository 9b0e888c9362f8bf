"""Two servers of one store, of which any is asked anything while the writer is killed and stopped, again and again.

What was acknowledged is there, once, and can be read at once where it was acknowledged; stream time never goes back; no
server is restarted by hand but the one that was killed. Which fault comes when is drawn from the seed."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple

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
#: The one that is not the writer, while something happens: it stays, or has ended and comes back, or has ended and
#: there are commands only, which write for themselves when there is no writer.
Other = Literal["stays", "ends", "commands"]
OTHERS: Sequence[Other] = ("stays", "ends", "commands")
_COMMAND_S_MAX = 180
_COMMANDS_MAX = 20
_INTEGER = "http://www.w3.org/2001/XMLSchema#integer"


class Round(NamedTuple):
    fault: str
    other: Other = "stays"


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


@dataclass
class Commands:
    """`rillet load` of one triple after the other, by a process each. One that fails says why, and is run again."""

    store: str
    folder: Path
    loaded: int = 0
    faults: list[str] = field(default_factory=list)

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """One after the other, until this ends."""
        stopping = threading.Event()
        thread = threading.Thread(target=self._until, args=(stopping,), daemon=True)
        thread.start()
        try:
            yield
        finally:
            stopping.set()
            thread.join(_COMMAND_S_MAX)
            assert not thread.is_alive(), "a command does not end"

    def _until(self, stopping: threading.Event) -> None:
        while not stopping.is_set():
            self.load()
            stopping.wait(0.5)

    def load_one(self) -> None:
        loaded = self.loaded
        for _ in range(_COMMANDS_MAX):
            self.load()
            if self.loaded > loaded:
                return
        raise AssertionError("no command loads any more")

    def load(self) -> None:
        number = self.loaded + 1
        file = self.folder / f"loaded{number}.nt"
        file.write_text(f'<http://ex/commander> <http://ex/loaded> "{number}"^^<{_INTEGER}> .\n')
        command = [sys.executable, "-m", "endpoint", "load", str(file), "--store", self.store]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=_COMMAND_S_MAX, check=False)
        except subprocess.TimeoutExpired as error:
            self.faults.append(f"{' '.join(command)} does not end: {error.stderr!r}")
            return
        if done.returncode == 0:
            self.loaded = number
        elif "Traceback" in done.stderr or not done.stderr.strip():
            self.faults.append(f"{' '.join(command)} ended with {done.returncode}: {done.stderr}")
        else:
            print(f"a command refused: {done.stderr.strip()[-300:]}", flush=True)


def faults_of(
    servers: list[Process],
    clients: AnyServer,
    commands: Commands,
    round: Round,
    pause_s: float,
    others: OtherFaults,
) -> None:
    """The writer is killed, or stops for a while, or something else happens; then both must go on."""
    fault, meanwhile = round
    writer = next(server for server in servers if role_of(server) == "writer")
    other = next(server for server in servers if server is not writer)
    if meanwhile != "stays":
        other.stop()
    before, loaded = clients.pushed, commands.loaded
    with commands.at_work() if meanwhile == "commands" else nullcontext():
        if fault == "kill":
            writer.kill()
            if meanwhile == "ends":
                other.start()
            if meanwhile == "commands":
                until(lambda: commands.loaded > loaded, "no command becomes the writer", _COMMAND_S_MAX)
            else:
                until(lambda: clients.pushed > before + 5, "the other server does not become the writer")
                assert role_of(other) == "writer"
            writer.start()
        elif fault in others:
            others[fault](servers if meanwhile == "stays" else [writer])
        else:
            stop_for(writer, pause_s, lambda: meanwhile != "commands" or commands.loaded > loaded)
    if meanwhile == "commands":
        commands.load_one()
    if other.has_ended:
        other.start()
    before = clients.pushed
    until(lambda: clients.pushed > before + 10, f"after {fault} nothing is pushed any more")
    until(lambda: sorted(map(role_of, servers)) == ["reader", "writer"], f"after {fault} there is not one writer")


def stop_for(writer: Process, pause_s: float, taken_over: Callable[[], bool]) -> None:
    """The process stands still for so long; then for a while more, if nobody has written in its place yet."""
    assert writer._process is not None
    writer._process.send_signal(signal.SIGSTOP)
    try:
        pause = threading.Event()
        pause.wait(pause_s)
        for _ in range(int(pause_s * 10)):
            if taken_over():
                return
            pause.wait(0.1)
    finally:
        writer._process.send_signal(signal.SIGCONT)


def check_under_faults(
    store: str,
    folder: Path,
    seed: int,
    rounds: Sequence[Round],
    pause_s: float,
    others: OtherFaults = {},  # noqa: B006  it is only read
) -> None:
    chance, commands = random.Random(seed), Commands(store, folder)
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
            for round in rounds:
                before = clients.pushed
                until(lambda before=before: clients.pushed > before + chance.randrange(5, 25), "nothing is pushed")
                faults_of(servers, clients, commands, round, pause_s, others)
                done = f"{clients.pushed} pushes, {commands.loaded} loads, {dict(clients.answers)}"
                print(f"seed {seed}: after {round.fault}, the other one {round.other}: {done}", flush=True)
        assert not clients.faults, clients.faults[:20]
        assert not commands.faults, commands.faults[:20]
        assert clients.has_looked()
        assert clients.batches == sorted(clients.batches), "batches of the stream went back"
        for server, listener in zip(servers, listeners, strict=True):
            check(server, clients, listener)
            check_loaded(server, commands)
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


def check_loaded(server: Process, commands: Commands) -> None:
    """What commands loaded is there; and nothing else than the one load whose end is not known."""
    with server.client() as client:
        answer = client.get("/sparql", params={"query": "SELECT ?o { ?s <http://ex/loaded> ?o }"})
    rows = answer.json()["results"]["bindings"]
    there = sorted(int(row["o"]["value"]) for row in rows)
    assert there in (list(range(1, commands.loaded + more + 1)) for more in (0, 1)), there


@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", SEEDS)
def test_two_servers_of_one_folder_lose_and_double_nothing(tmp_path: Path, seed: int) -> None:
    rounds = [Round("kill"), *(Round(fault) for fault in random.Random(seed).choices(["kill", "stop"], k=ROUNDS))]
    check_under_faults(f"lmdb:{tmp_path / 'store'}", tmp_path, seed, rounds, pause_s=3)


@pytest.mark.hbase
@pytest.mark.xdist_group("hbase")
@pytest.mark.timeout(600)
def test_two_servers_of_one_namespace_lose_and_double_nothing(tmp_path: Path, hbase_server: HBase) -> None:
    store = f"hbase://127.0.0.1:{hbase_server.thrift_port}/{tmp_path.name.replace('-', '_')}"
    check_under_faults(store, tmp_path, 0, [Round("kill"), Round("stop")], pause_s=LEASE_MS / 1000 + 2)
