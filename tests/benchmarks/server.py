"""A `rillet serve` of its own for a benchmark: started, waited for, stopped."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any


def free_port() -> int:
    """Below the ports that Linux gives to connections (from 32768 on): a server that is started again on its port finds
    it free."""
    while True:
        port = random.randrange(20_000, 32_000)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


class Server:
    def __init__(
        self, folder: Path, engine: str, *flags: str, store: str | None = None, checkout: Path | None = None
    ) -> None:
        """`store`: the address of another store than one in `folder`. `checkout`: of another version of Rillet."""
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        command = [sys.executable, "-m", "endpoint", "serve", "--store", store or f"lmdb:{folder}"]
        self._log = Path(f"{folder}.log").open("wb")  # noqa: SIM115  closed with the server
        command += ["--port", str(self.port), "--engine", engine, *flags]
        environment = os.environ if checkout is None else {**os.environ, "PYTHONPATH": str(checkout)}
        self._process = subprocess.Popen(
            command, stdout=self._log, stderr=self._log, start_new_session=True, cwd=checkout, env=environment
        )
        self.pid = self._process.pid

    def __enter__(self) -> Server:
        with self.client() as client:
            self.wait_for(lambda: _answers(client), 60)
        return self

    def __exit__(self, *exception: object) -> None:
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._log.close()

    def client(self) -> Any:
        import httpx

        return httpx.Client(base_url=self.url, timeout=120)

    def wait_for(self, holds: Callable[[], bool], seconds: float) -> None:
        end = time.monotonic() + seconds
        while not holds():
            if self._process.poll() is not None:
                raise RuntimeError(f"the server ended: {Path(self._log.name).read_text()[-2000:]}")
            if time.monotonic() > end:
                raise TimeoutError(f"not within {seconds} s: {Path(self._log.name).read_text()[-2000:]}")
            time.sleep(0.02)


def _answers(client: Any) -> bool:
    import httpx

    try:
        return bool(client.get("/$/ready").status_code == 200)
    except httpx.TransportError:
        return False  # it does not listen yet


def tree_rss_mb(pid: int) -> dict[str, int]:
    """Resident memory of a process and all below it, by program name."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            parent = _status(int(entry.name)).get("PPid")
            if parent is not None:
                children.setdefault(int(parent), []).append(int(entry.name))
    found: dict[str, int] = {}
    waiting = [pid]
    while waiting:
        at = waiting.pop()
        waiting += children.get(at, [])
        status = _status(at)
        name = "server" if at == pid else status.get("Name", "?")
        found[name] = found.get(name, 0) + int(status.get("VmRSS", "0 kB").split()[0]) // 1024
    return found


def _status(pid: int) -> dict[str, str]:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return {}  # it ended meanwhile
    return {key: value.strip() for key, _, value in (line.partition(":") for line in lines)}
