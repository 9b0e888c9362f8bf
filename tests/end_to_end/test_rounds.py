"""Round after round: a server under mixed load is killed (SIGKILL) at any moment, and started again on its store.

Whatever it answers is what the documentation says that it may answer; no answer is a fault of the server (500). What it
acknowledged is there after all rounds."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from tests.benchmarks.server import free_port
from tests.parts.waiting import until

#: Not found yet, or dropped; registered already, or still read; too much waits; the server starts or ends.
MAY_BE = {200, 201, 202, 204, 404, 409, 410, 429, 503}
REGISTER = """REGISTER {r2s} {name} AS SELECT ?zone (COUNT(?taxi) AS ?taxis)
FROM NAMED WINDOW <urn:w> ON STREAM s [RANGE {range_ms}ms STEP 100ms]
WHERE {{ WINDOW <urn:w> {{ ?taxi <urn:in> ?zone }} }} GROUP BY ?zone"""
READS = [
    "/sparql?query=SELECT (COUNT(*) AS ?n) { ?s ?p ?o }",
    "/sparql?query=SELECT * { ?s <urn:p> ?o } ORDER BY DESC(?o) LIMIT 5",
    "/queries", "/streams", "/streams/s", "/queries/q0", "/queries/q1/results", "/queries/q2/results?since=0&limit=5",
    "/$/stats", "/$/metrics", "/$/queries", "/data?default",
]  # fmt: skip
Request = Callable[[httpx.Client, random.Random, str], httpx.Response]


def updates(client: httpx.Client, chance: random.Random, key: str) -> httpx.Response:
    return client.post("/update", data={"update": f"INSERT DATA {{ <urn:k:{key}> <urn:p> {chance.randrange(100)} }}"})


def pushes(client: httpx.Client, chance: random.Random, key: str) -> httpx.Response:
    body = f"<urn:t{chance.randrange(9)}> <urn:in> <urn:z{chance.randrange(3)}> ."
    wait = chance.choice(["published", "evaluated"])
    return client.post(f"/streams/s?wait={wait}", content=body, headers={"content-type": "text/turtle"})


def changes(client: httpx.Client, chance: random.Random, key: str) -> httpx.Response:
    query, stream = f"/queries/q{chance.randrange(4)}", f"/streams/t{chance.randrange(3)}"
    name, turtle = query.rpartition("/")[2], {"content-type": "text/turtle"}
    text = REGISTER.format(name=name, r2s=chance.choice(["RSTREAM", "ISTREAM"]), range_ms=chance.choice([200, 1000]))
    return chance.choice([
        lambda: client.put(query, content=text, headers={"content-type": "application/sparql-query"}),
        lambda: client.delete(query),
        lambda: client.post(f"{query}?action=pause"),
        lambda: client.post(f"{query}?action=resume"),
        lambda: client.put(stream, json={"idle": "1s"}),
        lambda: client.delete(stream),
        lambda: client.put("/data?graph=urn:g", content=f"<urn:a> <urn:b> '{key}' .", headers=turtle),
    ])()  # fmt: skip


def reads(client: httpx.Client, chance: random.Random, key: str) -> httpx.Response:
    return client.get(chance.choice(READS), headers={"accept": "*/*"})


def is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


class Rounds:
    def __init__(self, folder: Path, seed: int) -> None:
        self._chance, self._seed = random.Random(seed), seed
        self.answers: Counter[int] = Counter()
        self.wrong: list[str] = []
        self.acknowledged: set[str] = set()
        self.url = f"http://127.0.0.1:{(port := free_port())}"
        self._log = (folder / "log").open("ab")
        self._forks = subprocess.Popen(
            [sys.executable, "-m", "tests.end_to_end.forks", "serve", "--store", f"lmdb:{folder / 'store'}",
             "--port", str(port), "--engine", "inline", "--query-workers", "0"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, bufsize=0,
        )  # fmt: skip

    def close(self) -> None:
        assert self._forks.stdin is not None and self._forks.stdout is not None
        self._forks.stdin.close()
        self._forks.stdout.close()
        self._forks.wait(30)
        self._log.close()

    @contextmanager
    def server(self) -> Iterator[None]:
        """Ready; and killed at the end."""
        assert self._forks.stdin is not None and self._forks.stdout is not None
        self._forks.stdin.write(b"start\n")
        pid = int(self._forks.stdout.readline())
        try:
            until(self._is_ready, "the server is ready")
            yield
        finally:
            os.killpg(pid, signal.SIGKILL)
            until(lambda: not is_there(pid), "the server is dead, and its port free")

    def _is_ready(self) -> bool:
        try:
            return httpx.get(self.url + "/$/ready", timeout=5).status_code == 200
        except httpx.TransportError:
            return False

    def round(self, number: int) -> None:
        enough, ended = threading.Event(), threading.Event()
        upto = sum(self.answers.values()) + self._chance.randrange(5, 150)  # it is killed after so many answers
        clients = [
            threading.Thread(target=self._ask, args=(request, f"{number}-{place}", upto, enough, ended))
            for place, request in enumerate([updates, pushes, pushes, changes, reads, reads])
        ]
        with self.server():
            for client in clients:
                client.start()
            assert enough.wait(60), f"round {number}: it answers no more"
        ended.set()
        for client in clients:
            client.join(60)
            assert not client.is_alive()

    def _ask(self, request: Request, place: str, upto: int, enough: threading.Event, ended: threading.Event) -> None:
        chance, count = random.Random(f"{self._seed}-{place}"), 0
        with httpx.Client(base_url=self.url, timeout=30) as client:
            while not ended.is_set():
                count += 1
                key = f"{self._seed}-{place}-{count}"
                try:
                    answer = request(client, chance, key)
                except httpx.TransportError:
                    if enough.is_set():
                        return
                    continue
                self.answers[answer.status_code] += 1
                if answer.status_code not in MAY_BE:
                    self.wrong.append(
                        f"{answer.request.method} {answer.request.url}: {answer.status_code} {answer.text}"
                    )
                if request is updates and answer.status_code == 204:
                    self.acknowledged.add(f"urn:k:{key}")
                if sum(self.answers.values()) >= upto:
                    enough.set()

    def stored(self) -> set[str]:
        query = {"query": "SELECT ?s { ?s <urn:p> ?o }"}
        answer = httpx.get(f"{self.url}/sparql", params=query, headers={"accept": "text/csv"}, timeout=60)
        return set(answer.raise_for_status().text.split())


def play(folder: Path, seed: int, rounds: int) -> None:
    playing = Rounds(folder, seed)
    try:
        with playing.server():
            httpx.put(f"{playing.url}/streams/s", json={}).raise_for_status()
        for number in range(rounds):
            playing.round(number)
            assert playing.wrong == [], f"seed {seed}, round {number}"
        with playing.server():
            assert playing.acknowledged <= playing.stored(), f"seed {seed}"
        assert len(playing.acknowledged) >= rounds, "hardly anything was acknowledged"
    finally:
        playing.close()


def test_killed_at_any_moment_a_server_answers_as_it_may_and_loses_nothing(tmp_path: Path) -> None:
    play(tmp_path, 1, rounds=8)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(10))
def test_so_it_is_for_a_thousand_rounds(tmp_path: Path, seed: int) -> None:
    play(tmp_path, 100 + seed, rounds=100)
