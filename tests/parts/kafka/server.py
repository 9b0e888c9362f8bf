"""A real Kafka on this machine, for the tests and for trying things out: one broker, which is its own controller.

    python -m tests.parts.kafka.server run --data DIR --port 9092

prints READY and runs until Ctrl-C; the data stays in DIR."""

from __future__ import annotations

import argparse
import contextlib
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from base64 import urlsafe_b64encode
from pathlib import Path
from types import FrameType, TracebackType

from endpoint.trial_hbase import jdk
from tests.parts.kafka import kit

START_S_MAX = 120
_STOP_S_MAX = 30
_LOOK_S = 0.05
_LOG = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
_SETTINGS = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
controller.listener.names=CONTROLLER
log.dirs={data}/log
num.partitions=1
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
"""


class Kafka:
    """One broker over one data folder. Topics are made when they are first used."""

    def __init__(
        self, data: str | os.PathLike[str], port: int | None = None, heap: str = "256m", short_lived: bool = False
    ) -> None:
        self.data, self._heap = Path(data).resolve(), heap
        self._flags = jdk.SHORT_LIVED if short_lived else ()
        self._port, self._controller = _ports(self.data, port)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._port}"

    def start(self) -> Kafka:
        """Returns when it accepts connections of clients."""
        settings = self.data / "server.properties"
        settings.write_text(_SETTINGS.format(port=self._port, controller=self._controller, data=self.data))
        if not (self.data / "log").exists():
            self._format(settings)
        with (self.data / "broker.log").open("ab") as log:
            command = [*self._java(), "kafka.Kafka", str(settings)]
            self._process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        try:
            self._wait_ready(self._process)
        except BaseException:
            self.kill()
            raise
        return self

    def stop(self) -> None:
        """Lets it write what it has in memory, and end."""
        if self._process is not None:
            self._process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_STOP_S_MAX)
            self.kill()

    def kill(self) -> None:
        """As a crash does: no warning (SIGKILL)."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def wait(self) -> int:
        """Until it ends by itself."""
        assert self._process is not None, "it was not started"
        return self._process.wait()

    def __enter__(self) -> Kafka:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _java(self) -> list[str]:
        return [jdk.java(kit.WHAT), f"-Xmx{self._heap}", *self._flags, _LOG, "-cp", f"{kit.jars()}/*"]

    def _format(self, settings: Path) -> None:
        """A broker takes only a folder that was made for its cluster."""
        cluster = urlsafe_b64encode(secrets.token_bytes(16)).decode().rstrip("=")
        command = [*self._java(), "kafka.tools.StorageTool", "format", "-t", cluster, "-c", str(settings)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=START_S_MAX, check=False)
        if done.returncode:
            raise RuntimeError(f"Kafka cannot make its folder: {done.stdout[-2_000:]}{done.stderr[-2_000:]}")

    def _wait_ready(self, process: subprocess.Popen[bytes]) -> None:
        until = time.monotonic() + START_S_MAX
        while time.monotonic() < until and process.poll() is None:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self._port), 1):
                return
            time.sleep(_LOOK_S)
        log = (self.data / "broker.log").read_text("utf-8", "replace")
        raise RuntimeError(f"Kafka did not come up; its log ends so:\n{log[-2_000:]}")


def _ports(data: Path, port: int | None) -> tuple[int, int]:
    """Of clients and of the controller. A data folder keeps them, so that clients can reconnect."""
    data.mkdir(parents=True, exist_ok=True)
    remembered = data / "ports"
    if not remembered.exists():
        remembered.write_text(f"{port or _free_port()} {_free_port()}")
    clients, controller = map(int, remembered.read_text().split())
    return port or clients, controller


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.parts.kafka.server")
    parser.add_argument("command", choices=["run"])
    parser.add_argument("--data", required=True)
    parser.add_argument("--port", type=int, default=9092)
    options = parser.parse_args()

    def stop(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, stop)
    with Kafka(options.data, options.port) as broker:
        print(f"READY {broker.address}", flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            return broker.wait()
    return 0


if __name__ == "__main__":
    sys.exit(main())
