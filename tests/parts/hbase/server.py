"""A real HBase on this machine, in one Java process, for the tests and for trying things out.

    python -m tests.parts.hbase.server run --data DIR --port 9090

prints READY and runs until Ctrl-C; the data stays in DIR. As a module it is a context manager with `kill` and
`start`, for tests that let it die. A data folder keeps its ports over restarts, so that clients can reconnect."""

from __future__ import annotations

import argparse
import json
import os
import queue
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from types import FrameType, TracebackType

from hbase_store.backends.hbase import table_name
from hbase_store.backends.keyvalue import TABLES
from hbase_store.backends.thrift_verbs import BUCKETS
from tests.parts import jdk
from tests.parts.hbase import kit

START_S_MAX = 300
STOP_S_MAX = 90

# What HBase's own start script opens on JDK 11 and later.
_OPENED = ("java.io", "java.nio", "sun.nio.ch", "java.lang", "jdk.internal.ref", "java.lang.reflect")
_OPENED_TOO = ("java.util", "java.util.concurrent")
_EXPORTED = ("java.base/jdk.internal.misc", "java.base/sun.net.dns", "java.base/sun.net.util")


class HBase:
    """One server over one data folder. Tables of `namespaces` are there, pre-split, when it is ready."""

    def __init__(
        self,
        data: str | os.PathLike[str],
        thrift_port: int | None = None,
        namespaces: Sequence[str] = (),
        heap: str = "512m",
        short_lived: bool = False,
    ) -> None:
        self.data = Path(data).resolve()
        self.namespaces = namespaces
        self.heap = heap
        self._flags = jdk.SHORT_LIVED if short_lived else ()
        self._ports = _remembered_ports(self.data, thrift_port)
        self._process: subprocess.Popen[str] | None = None

    @property
    def thrift_port(self) -> int:
        return self._ports["THRIFT_PORT"]

    def start(self) -> HBase:
        """Returns when Thrift accepts connections."""
        command = self._command()
        with (self.data / "logs" / "stderr.log").open("ab") as errors:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True, start_new_session=True
            )
        try:
            self._wait_ready(self._process)
        except BaseException:
            self.kill()
            raise
        return self

    def stop(self) -> None:
        """Lets it write what it has in memory, and end."""
        if self._process is None:
            return
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(STOP_S_MAX)
        except subprocess.TimeoutExpired:
            self.kill()
        self._end()

    def kill(self) -> None:
        """As a crash does: no warning (SIGKILL)."""
        if self._process is not None:
            self._process.kill()
            self._end()

    def wait(self) -> int:
        """Until it ends by itself."""
        assert self._process is not None, "it was not started"
        return self._process.wait()

    def __enter__(self) -> HBase:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _end(self) -> None:
        assert self._process is not None
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        self._process = None

    def _wait_ready(self, process: subprocess.Popen[str]) -> None:
        lines: queue.Queue[str] = queue.Queue()
        assert process.stdout is not None
        reader = threading.Thread(target=_first_line, args=(process.stdout, lines), daemon=True)
        reader.start()
        try:
            line = lines.get(timeout=START_S_MAX)
        except queue.Empty:
            line = ""
        if not line.startswith("READY"):
            process.kill()
            reader.join()
            raise RuntimeError(f"HBase did not come up; its logs are in {self.data / 'logs'}")

    def _command(self) -> list[str]:
        self._write_configuration()
        tables = (
            f"{table_name(space, table)}:{BUCKETS if table != 'meta' else 1}"
            for space in self.namespaces
            for table in TABLES
        )
        return [*self._java(), "Standalone", *tables]

    def _write_configuration(self) -> None:
        configuration = self.data / "conf"
        for folder in (configuration, self.data / "logs", self.data / "tmp"):
            folder.mkdir(parents=True, exist_ok=True)
        (configuration / "hbase-site.xml").write_text(self._site())
        shutil.copy(kit.SOURCES / "log4j2.properties", configuration)

    def _java(self, logs: Path | None = None) -> list[str]:
        """The command up to the name of the class."""
        configuration, logs, temporary = self.data / "conf", logs or self.data / "logs", self.data / "tmp"
        return [
            kit.java(),
            f"-Xmx{self.heap}",
            *self._flags,
            "-XX:MaxDirectMemorySize=512m",
            f"-XX:ErrorFile={logs}/java-error.log",
            *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in (*_OPENED, *_OPENED_TOO)),
            *(f"--add-exports={package}=ALL-UNNAMED" for package in _EXPORTED),
            "--add-modules=jdk.unsupported",
            "-Dorg.apache.hbase.thirdparty.io.netty.tryReflectionSetAccessible=true",
            "-Djava.net.preferIPv4Stack=true",
            "-Dzookeeper.admin.enableServer=false",
            f"-Djava.io.tmpdir={temporary}",
            f"-Dhbase.log.dir={logs}",
            f"-Dlog4j2.configurationFile={configuration}/log4j2.properties",
            "-cp",
            os.pathsep.join([str(configuration), kit.class_path()]),
        ]

    def _site(self) -> str:
        site = (kit.SOURCES / "hbase-site.xml.in").read_text()
        for name, value in {**self._ports, "DATA": self.data}.items():
            site = site.replace(f"@{name}@", str(value))
        return site


def _first_line(stream: object, lines: queue.Queue[str]) -> None:
    lines.put(next(iter(stream), ""))  # type: ignore[call-overload]  # a text stream iterates over its lines


def _remembered_ports(data: Path, thrift_port: int | None) -> dict[str, int]:
    file = data / "ports.json"
    if file.exists():
        ports: dict[str, int] = json.loads(file.read_text())
    else:
        ports = _free_ports("ZOOKEEPER_PORT", "MASTER_PORT", "REGION_SERVER_PORT", "THRIFT_PORT")
    if thrift_port is not None:
        ports["THRIFT_PORT"] = thrift_port
    data.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(ports))
    return ports


def _free_ports(*names: str) -> dict[str, int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in names]
    try:
        return {name: bound.getsockname()[1] for name, bound in zip(names, sockets, strict=True)}
    finally:
        for bound in sockets:
            bound.close()


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def main() -> int:
    parser = argparse.ArgumentParser(description="Runs a real HBase with a Thrift server on this machine.")
    parser.add_argument("command", choices=["run", "fetch"], help="run it, or only fetch what it needs")
    parser.add_argument("--data", default="rillet-data/hbase", help="folder for its data and logs")
    parser.add_argument("--port", type=int, default=9090, help="port of the Thrift server")
    parser.add_argument(
        "--namespace", action="append", help="make the tables of this store, pre-split (default: rillet)"
    )
    parser.add_argument("--heap", default="512m", help="Java heap")
    options = parser.parse_args()
    try:
        kit.class_path()  # before a folder is made
        if options.command == "fetch":
            return 0
        return run(HBase(options.data, options.port, options.namespace or ["rillet"], options.heap))
    except kit.MissingTool as missing:
        print(missing, file=sys.stderr)
        return 1


def run(server: HBase) -> int:
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        server.start()
        print(f"READY hbase://127.0.0.1:{server.thrift_port}/{server.namespaces[0]}", flush=True)
        return server.wait()
    except KeyboardInterrupt:
        return 0
    finally:
        server.stop()


if __name__ == "__main__":
    sys.exit(main())
