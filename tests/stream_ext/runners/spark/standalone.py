"""A standalone cluster of Spark on this machine, from the installed package: a master, and workers that come and go.

Where this user may make networks, each worker has one of its own, and a host name; it reaches the test by a bridge,
and does not see the folders that are `hidden`. Elsewhere the workers have loopback addresses."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import secrets
import shlex
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

from stream_ext.runners.spark.java import find_java
from tests.benchmarks.server import free_port
from tests.parts.waiting import until
from tests.stream_ext.runners.spark.processes import family

_START_S = 240
_REGISTERED = "Successfully registered with master"


class Standalone:
    """`address`: of this machine, as the workers reach it."""

    def __init__(self, folder: Path, hidden: Sequence[Path] = (), conf: dict[str, str] | None = None) -> None:
        self.folder, self._hidden = folder, hidden
        self._networks = _Networks() if _may_make_networks() else None
        self.address = self._networks.address if self._networks is not None else "127.0.0.1"
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        found = importlib.util.find_spec("pyspark")
        assert found is not None and found.submodule_search_locations
        self._home = Path(found.submodule_search_locations[0])
        (folder / "conf").mkdir(parents=True)
        defaults = "".join(f"{name} {value}\n" for name, value in (conf or {}).items())
        (folder / "conf" / "spark-defaults.conf").write_text(defaults)
        self.port = free_port()

    @property
    def has_networks(self) -> bool:
        return self._networks is not None

    @property
    def url(self) -> str:
        return f"spark://{self.address}:{self.port}"

    def __enter__(self) -> Standalone:
        try:
            if self._networks is not None:
                self._networks.begin()
            where = "--host", self.address, "--port", str(self.port), "--webui-port", "0"
            self._launch("master", "org.apache.spark.deploy.master.Master", where, self.address)
            until(lambda: "I have been elected leader" in self._log("master"), self._log("master"), _START_S)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for name in list(self._processes):
            self.kill(name)
        if self._networks is not None:
            self._networks.end()

    def start_workers(self, *numbers: int, own_processes: bool = False) -> None:
        """Machines with one slot each. `own_processes`: each has a process namespace, too."""
        for number in numbers:
            self._start_worker(number, own_processes)
        names = [f"worker{number}" for number in numbers]
        until(lambda: all(_REGISTERED in self._log(name) for name in names), f"{names} are registered", _START_S)

    def _start_worker(self, number: int, own_processes: bool) -> None:
        name, main = f"worker{number}", "org.apache.spark.deploy.worker.Worker"
        host = self._networks.of_worker(number) if self._networks is not None else f"127.0.0.{number + 1}"
        flags = ["--host", host, "--webui-port", "0", "--cores", "1", "--memory", "1g"]
        before = ()
        if self._networks is not None:
            before = self._networks.inside(number, self._hidden, own_processes)
        work = self.folder / f"{name}-{len(list(self.folder.glob(f'{name}-*')))}"
        self._launch(name, main, (*flags, "--work-dir", str(work), self.url), host, before)

    def kill(self, name: str) -> None:
        """The master or a worker, with all its executors."""
        process = self._processes.pop(name)
        for pid in reversed(family(process.pid)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.wait()

    def executors(self, number: int) -> list[int]:
        """The processes of the executors of a worker."""
        return [pid for pid in family(self._processes[f"worker{number}"].pid) if _is_executor(pid)]

    def _launch(self, name: str, main: str, flags: Sequence[str], host: str, before: Sequence[str] = ()) -> None:
        environ = os.environ | {
            "SPARK_HOME": str(self._home),
            "SPARK_CONF_DIR": str(self.folder / "conf"),
            "SPARK_LOCAL_IP": host,
            "SPARK_DAEMON_MEMORY": "256m",
            "JAVA_HOME": str(find_java(os.environ).home),
        }
        with self._log_file(name).open("wb") as log:
            self._processes[name] = subprocess.Popen(
                [*before, str(self._home / "bin" / "spark-class"), main, *flags],
                stdout=log, stderr=log, env=environ, cwd=self.folder, start_new_session=True,
            )  # fmt: skip

    def _log_file(self, name: str) -> Path:
        return self.folder / f"{name}.log"

    def _log(self, name: str) -> str:
        return self._log_file(name).read_text("utf-8", "replace")


def _is_executor(pid: int) -> bool:
    try:
        return b"CoarseGrainedExecutorBackend" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


class _Networks:
    """A bridge, and a network behind it for each worker. Names and addresses are of this test only."""

    def __init__(self) -> None:
        self._name = f"rl{secrets.token_hex(3)}"
        self._net = f"10.{secrets.randbelow(100) + 100}.{secrets.randbelow(250)}"
        self.address = f"{self._net}.1"
        self._made: set[int] = set()

    def begin(self) -> None:
        _ip("link", "add", self._name, "type", "bridge")
        _ip("addr", "add", f"{self.address}/24", "dev", self._name)
        _ip("link", "set", self._name, "up")

    def end(self) -> None:
        for number in self._made:
            _ip("netns", "del", f"{self._name}n{number}", check=False)
        _ip("link", "del", self._name, check=False)

    def of_worker(self, number: int) -> str:
        return f"{self._net}.{number + 1}"

    def inside(self, number: int, hidden: Sequence[Path], own_processes: bool) -> Sequence[str]:
        """What runs a command in the network of this worker."""
        space = f"{self._name}n{number}"
        if number not in self._made:
            self._made.add(number)
            _ip("netns", "add", space)
            outer = f"{self._name}v{number}"
            _ip("link", "add", outer, "type", "veth", "peer", "name", "eth0", "netns", space)
            _ip("link", "set", outer, "master", self._name, "up")
            for command in (
                ("addr", "add", f"{self.of_worker(number)}/24", "dev", "eth0"),
                ("link", "set", "eth0", "up"),
            ):
                _ip("-n", space, *command)
            _ip("-n", space, "link", "set", "lo", "up")
        covers = "".join(f"mount -t tmpfs none {shlex.quote(str(folder))} && " for folder in hidden)
        script = f'hostname rillet-worker{number} && {covers}exec "$@"'
        apart = ("--pid", "--fork", "--kill-child", "--mount-proc") if own_processes else ()
        return ("ip", "netns", "exec", space, "unshare", "--uts", "--mount", *apart, "sh", "-c", script, "sh")


def _ip(*words: str, check: bool = True) -> None:
    subprocess.run(["ip", *words], check=check, capture_output=True, timeout=30)


def _may_make_networks() -> bool:
    networks = _Networks()
    try:
        networks.begin()
        subprocess.run([*networks.inside(1, (), True), "true"], check=True, capture_output=True, timeout=30)
    except (OSError, subprocess.SubprocessError):
        return False
    finally:
        with contextlib.suppress(OSError):
            networks.end()
    return True
