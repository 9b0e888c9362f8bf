"""A server for a demonstration: a process of its own, over a store in a temporary folder, on a free port."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from stream_ext.errors import RilletError

_STOP_S = 20.0


@contextmanager
def own_server() -> Iterator[str]:
    """The URL of the server; at the end it is stopped, and its store is removed."""
    with tempfile.TemporaryDirectory(prefix="rillet-demo-") as folder, Path(folder, "log").open("wb") as log:
        # Settings of the user, such as a store or a token, are for other servers.
        environment = {name: value for name, value in os.environ.items() if not name.startswith("RILLET_")}
        # So are those in a rillet.toml of the current folder.
        Path(folder, "rillet.toml").touch(mode=0o600)
        command = [sys.executable, "-m", "endpoint", "serve", "--config", f"{folder}/rillet.toml"]
        server = subprocess.Popen(
            [*command, "--store", f"lmdb:{folder}/store", "--port", "0", "--engine", "inline", "--batch-ms", "20"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            env=environment,
            start_new_session=True,  # an interrupt is for the demonstration, which stops the server
            preexec_fn=_end_with_parent,
        )
        try:
            yield _address(server, Path(folder, "log"))
        finally:
            server.terminate()
            try:
                server.wait(_STOP_S)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()
            if server.stdout is not None:
                server.stdout.close()


def _end_with_parent() -> None:
    """Asks the kernel to stop this process when its parent ends, however that goes."""
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG


def _address(server: subprocess.Popen[bytes], log: Path) -> str:
    """From the lines that a server prints when it is ready."""
    assert server.stdout is not None
    for line in server.stdout:
        name, _, address = line.decode().strip().partition(" ")
        if name == "console":
            return address.strip().removesuffix("console/").rstrip("/")
    raise RilletError(f"the server of the demonstration did not start: {log.read_text()[-2000:].strip()}")
