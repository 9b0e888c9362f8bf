"""A real HBase of several processes on this machine: ZooKeeper, a master, two region servers and a Thrift server, each
of which a test may kill or stop. They need some 2 GB of memory, and half a minute to start."""

from __future__ import annotations

import signal
import socket
import subprocess
import threading
from pathlib import Path
from typing import IO

from endpoint.trial_hbase.server import HBase

START_S_MAX = 300
_ADMIN_S_MAX = 180
_MAIN = {
    "zookeeper": ("org.apache.hadoop.hbase.zookeeper.HQuorumPeer", "ZOOKEEPER_PORT"),
    "master": ("org.apache.hadoop.hbase.master.HMaster", "MASTER_PORT"),
    "thrift": ("org.apache.hadoop.hbase.thrift.ThriftServer", "THRIFT_PORT"),
}
_REGION_SERVER = "org.apache.hadoop.hbase.regionserver.HRegionServer"
#: For so long a region server that was killed goes unnoticed.
_SESSION_MS = 10_000
_SETTINGS = {
    "hbase.cluster.distributed": "true",
    "zookeeper.session.timeout": _SESSION_MS,
    "hbase.zookeeper.property.clientPortAddress": "127.0.0.1",
    "hbase.zookeeper.property.tickTime": _SESSION_MS // 5,
    "hbase.master.wait.on.regionservers.mintostart": 2,
    "hbase.master.wait.on.regionservers.maxtostart": 2,
}


class Cluster(HBase):
    """Two region servers, "region0" and "region1"."""

    def __init__(self, data: Path, heap: str = "256m") -> None:
        super().__init__(data, heap=heap)
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._region_ports = [_free_port() for _ in range(2)]

    def start(self) -> Cluster:
        self._write_configuration()
        try:
            self._run("zookeeper")
            self._run("master", awaited=False)
            for number in range(2):
                self.start_region_server(number)
            self._run("thrift")
        except BaseException:
            self.kill()
            raise
        return self

    def start_region_server(self, number: int) -> None:
        port = f"hbase.regionserver.port={self._region_ports[number]}"
        self._launch(f"region{number}", _REGION_SERVER, "-D", port, "start")

    def kill_region_server(self, number: int) -> None:
        process = self._processes.pop(f"region{number}")
        process.kill()
        process.wait()

    def suspend(self, name: str) -> None:
        self._processes[name].send_signal(signal.SIGSTOP)

    def resume(self, name: str) -> None:
        self._processes[name].send_signal(signal.SIGCONT)

    def admin(self, *words: str) -> int:
        """Does what an administrator would (`ClusterAdmin.java`); the number of region servers that are alive."""
        command = [*self._java(), str(Path(__file__).with_name("ClusterAdmin.java")), *words]
        with self._errors() as errors:
            done = subprocess.run(command, check=True, stdout=subprocess.PIPE, timeout=_ADMIN_S_MAX, stderr=errors)
        return int(done.stdout)

    def stop(self) -> None:
        """In the order in which regions can still be closed; then whatever is left is killed."""
        for name in ("thrift", "region0", "region1", "master", "zookeeper"):
            if (process := self._processes.get(name)) is not None:
                process.send_signal(signal.SIGCONT)
                process.terminate()
                try:
                    process.wait(30)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
        self._processes.clear()

    def kill(self) -> None:
        for process in self._processes.values():
            process.kill()
            process.wait()
        self._processes.clear()

    def _site(self) -> str:
        properties = "".join(
            f"<property><name>{name}</name><value>{value}</value></property>" for name, value in _SETTINGS.items()
        )
        return super()._site().replace("</configuration>", f"{properties}</configuration>")

    def _run(self, name: str, awaited: bool = True) -> None:
        main, port = _MAIN[name]
        process = self._launch(name, main, "start")
        waited = threading.Event()
        for _ in range(START_S_MAX * 10 if awaited else 0):
            if _accepts(self._ports[port]):
                return
            if process.poll() is not None:
                break
            waited.wait(0.1)
        if awaited:
            raise RuntimeError(f"{name} did not come up; see the logs in {self.data / 'logs'}")

    def _launch(self, name: str, main: str, *words: str) -> subprocess.Popen[bytes]:
        logs = self.data / "logs" / name
        logs.mkdir(exist_ok=True)
        command = [*self._java(logs), main, *words]
        with self._errors() as errors:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=errors, stderr=errors, start_new_session=True
            )
        self._processes[name] = process
        return process

    def _errors(self) -> IO[bytes]:
        return (self.data / "logs" / "stderr.log").open("ab")


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as bound:
        port: int = bound.getsockname()[1]
        return port


def _accepts(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
