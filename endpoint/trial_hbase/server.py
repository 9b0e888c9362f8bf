"""A real HBase on this machine, in one Java process, with a Thrift server.

    with HBase("rillet-data/hbase", 9090, ["rillet"]) as hbase:
        ...                             hbase://127.0.0.1:9090/rillet

Its data stays in the folder, and so do its ports, over restarts: clients can reconnect. `kill` and `start` are for
tests that let it die."""

from __future__ import annotations

import json
import os
import queue
import shutil
import socket
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from endpoint.trial_hbase import jdk, kit
from hbase_store.provisioning import regions_at_first
from stream_ext.child_environment import environment

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

    @property
    def pid(self) -> int:
        assert self._process is not None, "it was not started"
        return self._process.pid

    def start(self) -> HBase:
        """Returns when Thrift accepts connections."""
        command = self._command()
        with (self.data / "logs" / "stderr.log").open("ab") as errors:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True,
                start_new_session=True, env=environment(os.environ),
            )  # fmt: skip
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
            f"{table}:{regions}" for space in self.namespaces for table, regions in regions_at_first(space).items()
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
