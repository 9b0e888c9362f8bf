"""Clients of a server whose HBase is killed, and hangs; and whose process is stopped until another one writes.

Each request is answered by what it asked for, or by a refusal that says why (503, 429); never by a fault of the server.
What was acknowledged is there, once."""

from __future__ import annotations

import os
import random
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from endpoint.trial_hbase.server import HBase
from hbase_store.backends.lease import LEASE_MS
from tests.end_to_end.process import Listener, Process

pytestmark = [pytest.mark.soak, pytest.mark.hbase, pytest.mark.xdist_group("hbase")]

ROUNDS = int(os.environ.get("RILLET_FAULT_ROUNDS", "6"))
FINE = {404, 410, 429, 503}
QUERY = (
    "PREFIX : <http://ex/> REGISTER RSTREAM q AS SELECT ?o FROM NAMED WINDOW :w ON s [RANGE PT2S STEP PT1S] "
    "WHERE { WINDOW :w { ?x :seq ?o } }"
)
BUILT = (
    "PREFIX : <http://ex/> REGISTER RSTREAM passing_built AS CONSTRUCT { ?x :built ?o } "
    "FROM NAMED WINDOW :w ON s [RANGE PT2S STEP PT1S] WHERE { WINDOW :w { ?x :seq ?o } }"
)


class Clients:
    """Each sends the same request again until it is acknowledged."""

    def __init__(self, servers: list[Process]) -> None:
        self.servers, self.first = servers, servers[0]  # who is asked first
        self.answers: Counter[tuple[str, int]] = Counter()
        self.faults: list[str] = []
        self.batches: list[int] = []
        self.pushed = self.inserted = 0
        self._stopping = threading.Event()
        self._threads = [
            threading.Thread(target=self._until_stopped, args=(act,), daemon=True)
            for act in (self._push, self._insert, self._ask, self._look, self._churn)
        ]

    @contextmanager
    def at_work(self) -> Iterator[Clients]:
        for thread in self._threads:
            thread.start()
        try:
            yield self
        finally:
            self._stopping.set()
            for thread in self._threads:
                thread.join(90)

    def _until_stopped(self, act: Callable[[httpx.Client], None]) -> None:
        with httpx.Client(timeout=8) as client:
            while not self._stopping.is_set():
                act(client)
                self._stopping.wait(0.05)

    def _send(self, client: httpx.Client, method: str, path: str, **named: object) -> httpx.Response | None:
        for server in sorted(self.servers, key=lambda server: server is not self.first):
            try:
                answer = client.request(method, server.url + path, **named)  # type: ignore[arg-type]
            except httpx.TransportError:
                continue
            self.answers[f"{method} {path.partition('?')[0]}", answer.status_code] += 1
            if answer.status_code >= 300 and answer.status_code not in FINE:
                self.faults.append(f"{method} {path}: {answer.status_code} {answer.text}")
            if answer.status_code < 300:
                return answer
        return None

    def _push(self, client: httpx.Client) -> None:
        seq = self.pushed + 1
        body = f"<http://ex/pusher> <http://ex/seq> {seq} ."
        path = f"/streams/s?timestamp={seq * 250}&source=pusher&seq={seq}"
        answer = self._send(client, "POST", path, content=body, headers={"content-type": "text/turtle"})
        if answer is not None:
            self.pushed = seq
            self.batches.append(answer.json()["batch"])

    def _insert(self, client: httpx.Client) -> None:
        number = self.inserted + 1
        update = f"INSERT DATA {{ <http://ex/inserter> <http://ex/number> {number} }}"
        headers = {"content-type": "application/sparql-update"}
        if self._send(client, "POST", "/sparql", content=update, headers=headers) is not None:
            self.inserted = number

    def _ask(self, client: httpx.Client) -> None:
        self._send(client, "GET", "/sparql", params={"query": "SELECT (COUNT(*) AS ?n) { ?s ?p ?o }"})
        self._send(client, "GET", "/queries/q/results?since=0", headers={"accept": "application/x-ndjson"})

    def _churn(self, client: httpx.Client) -> None:
        self._send(client, "PUT", "/streams/passing")
        for name, text in (("passing_built", BUILT), ("passing_too", QUERY.replace(" q AS", " passing_too AS"))):
            headers = {"content-type": "application/sparql-query"}
            self._send(client, "POST", "/queries", content=text, headers=headers)
            self._send(client, "GET", f"/queries/{name}")
            self._send(client, "DELETE", f"/queries/{name}")
        self._send(client, "DELETE", "/streams/passing")

    def _look(self, client: httpx.Client) -> None:
        for path in ("/$/stats", "/$/ready", "/queries/q", "/streams/s", "/$/metrics", "/queries", "/streams"):
            self._send(client, "GET", path)


def test_no_fault_of_hbase_is_a_fault_of_the_server(tmp_path: Path) -> None:
    chance, pause = random.Random(7), threading.Event()
    with HBase(tmp_path / "hbase") as hbase:
        url = f"hbase://127.0.0.1:{hbase.thrift_port}/faults"
        first, second = (Process(url, "inline", tmp_path / f"{name}.log") for name in ("first", "second"))
        first.start()
        try:
            with first.client() as client:
                client.put("/streams/s", json={"timeless": True}).raise_for_status()
                headers = {"content-type": "application/sparql-query"}
                client.post("/queries", content=QUERY, headers=headers).raise_for_status()
            listener = Listener(first.url, "q")
            with Clients([first, second]).at_work() as clients:
                for round in range(ROUNDS):
                    before = clients.pushed
                    fault = ("sleep", "kill", "hang", "hang for long")[round % 4]
                    if fault == "kill":
                        hbase.kill()
                        pause.wait(chance.random() * 3)
                        hbase.start()
                    elif fault == "sleep":
                        sleep(first, second, clients, pause)
                    else:
                        assert hbase._process is not None
                        hbase._process.send_signal(signal.SIGSTOP)
                        pause.wait(3 if fault == "hang" else 25)
                        hbase._process.send_signal(signal.SIGCONT)
                    for _ in range(1200):
                        if clients.pushed > before + 10:
                            break
                        pause.wait(0.1)
                    pause.wait(5)
                    print(round, fault, clients.pushed, dict(clients.answers), flush=True)
                    assert clients.pushed > before + 10, f"after {fault} nothing is pushed any more"
            assert not clients.faults, clients.faults[:20]
            assert clients.batches == sorted(clients.batches)
            check(first, clients, listener)
        finally:
            second.stop()
            first.stop()


def sleep(first: Process, second: Process, clients: Clients, pause: threading.Event) -> None:
    """The first is stopped until its lease is over; the second takes it, writes and ends; the first goes on."""
    assert first._process is not None
    first._process.send_signal(signal.SIGSTOP)
    try:
        pause.wait(LEASE_MS / 1000 + 1)
        second.start()
        clients.first, before = second, clients.pushed
        for _ in range(600):
            if clients.pushed > before + 10:
                break
            pause.wait(0.1)
        assert clients.pushed > before + 10, "the second one does not write"
        second.stop()
    finally:
        clients.first = first
        first._process.send_signal(signal.SIGCONT)


def check(server: Process, clients: Clients, listener: Listener) -> None:
    with server.client() as client:
        answer = client.get(
            "/sparql",
            params={"query": "SELECT ?p (COUNT(?o) AS ?n) (MAX(?o) AS ?most) { ?s ?p ?o } GROUP BY ?p"},
            headers={"accept": "application/sparql-results+json"},
        )
        rows = answer.json()["results"]["bindings"]
        most = {row["p"]["value"]: (int(row["n"]["value"]), int(row["most"]["value"])) for row in rows}
        for predicate, acknowledged in (("seq", clients.pushed), ("number", clients.inserted)):
            count, last = most[f"http://ex/{predicate}"]
            assert count == last, "one was left out"
            assert acknowledged <= last <= acknowledged + 1
        observed = client.get(
            "/queries/q/results?since=0", headers={"accept": "application/x-ndjson"}
        ).text.splitlines()
    assert client
    listener.wait_for(len(observed))
    assert [emission["emission"] for emission in listener.emissions] == list(range(1, len(listener.emissions) + 1))
