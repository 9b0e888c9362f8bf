"""A real server in a process of its own, that can be killed and started again; and a client that comes back."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx

from tests.benchmarks.server import free_port

PATIENCE_S = 120


class Process:
    """`rillet serve` on a store; the port stays the same over restarts."""

    def __init__(self, store: str, engine: str, log: Path, *flags: str, before: str = "") -> None:
        """`before` is Python that the server's process runs first."""
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        main = f"{before}\nfrom endpoint.cli.command_line import main\nraise SystemExit(main())"
        self._command = [sys.executable, *(["-c", main] if before else ["-m", "endpoint"])]
        self._command += ["serve", "--store", store, "--port", str(self.port), "--engine", engine, *flags]
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log, start_new_session=True)
        self.until(lambda: self._ready())

    def kill(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def stop(self) -> None:
        if self._process is None or self.has_ended:
            return
        self._process.terminate()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            raise AssertionError(f"the server did not stop on SIGTERM:\n{self.log()}") from None

    @property
    def has_ended(self) -> bool:
        return self._process is None or self._process.poll() is not None

    def log(self) -> str:
        return self._log.read_text(errors="replace")[-4000:]

    def until(self, holds: Callable[[], bool]) -> None:
        """Asks again and again; each question is answered by the server, so no one sleeps for nothing."""
        waited = threading.Event()
        for _ in range(PATIENCE_S * 20):
            if holds():
                return
            assert self._process is not None and self._process.poll() is None, f"the server ended:\n{self.log()}"
            waited.wait(0.05)
        raise AssertionError(f"not within {PATIENCE_S} s:\n{self.log()}")

    def _ready(self) -> bool:
        try:
            return httpx.get(self.url + "/$/ready", timeout=5).status_code == 200
        except httpx.TransportError:
            return False

    def client(self) -> httpx.Client:
        return httpx.Client(base_url=self.url, timeout=PATIENCE_S)

    def runner_of(self, query: str) -> str:
        runner: str = httpx.get(f"{self.url}/queries/{query}", timeout=PATIENCE_S).json()["runner"]
        return runner


class Listener:
    """An SSE client as a browser is one: when the connection ends it comes back with the last id that it saw."""

    def __init__(self, url: str, query: str) -> None:
        self._url = f"{url}/queries/{query}/results"
        self.emissions: list[dict[str, Any]] = []
        self.connections = 0
        self._changed = threading.Condition()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"listener-{query}", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._listen()
            except httpx.TransportError:
                self._stopping.wait(0.05)  # the server is being started again

    def _listen(self) -> None:
        last = self.emissions[-1]["emission"] if self.emissions else 0
        headers = {"accept": "text/event-stream", "last-event-id": str(last)}
        with httpx.stream("GET", self._url, headers=headers, timeout=httpx.Timeout(30, read=PATIENCE_S)) as answer:
            answer.raise_for_status()
            self.connections += 1
            identity = ""
            for line in answer.iter_lines():
                if line.startswith("id:"):
                    identity = line[3:].strip()
                elif line.startswith("data:"):
                    self._take(identity, json.loads(line[5:]))

    def _take(self, identity: str, emission: dict[str, Any]) -> None:
        assert identity == str(emission["emission"])
        with self._changed:
            self.emissions.append(emission)
            self._changed.notify_all()

    def wait_for(self, number: int) -> None:
        with self._changed:
            seen = lambda: bool(self.emissions) and self.emissions[-1]["emission"] >= number  # noqa: E731
            assert self._changed.wait_for(seen, PATIENCE_S), f"no emission {number} within {PATIENCE_S} s"

    def close(self) -> None:
        self._stopping.set()
