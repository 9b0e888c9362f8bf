"""Starting, watching and ending the driver's process.

Spark is always ended by SIGKILL to its process group: it has nothing worth saving, so it is stopped in the same way
as it may die. Spark's Python processes end when their pipe closes."""

from __future__ import annotations

import contextlib
import logging
import os
import select
import signal
import subprocess
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import msgspec

import stream_ext
from stream_ext.child_environment import environment
from stream_ext.runners.spark import class_archive
from stream_ext.runners.spark.class_archive import SparkHome
from stream_ext.runners.spark.driver import DriverJob, DriverReport
from stream_ext.runners.spark.driver_tasks import TaskOrder
from stream_ext.runners.spark.java import Java
from stream_ext.runners.spark.settings import PACKAGE_FOLDER, SparkSettings, executor_environ, is_secret
from stream_ext.runners.spark.wire import Address
from stream_ext.temporary_folder import TemporaryFolder

log = logging.getLogger("rillet.spark")

_TAIL_LINES = 100
_WHY_LINES = 20
_FOLDER_PREFIX = "rillet-spark-"
_PARENT_LENGTH_MAX = 40
#: Another Spark's settings would start another Spark.
_FOREIGN = ("SPARK_HOME", "SPARK_CONF_DIR", "PYSPARK_SUBMIT_ARGS", "PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET")


class DriverProcess:
    def __init__(
        self, settings: SparkSettings, admit: Callable[[Path], Address] | None, java: Java, environ: Mapping[str, str]
    ) -> None:
        """`admit` gives the address of the bell to the tasks of a driver that has this folder; None: there are no
        registered queries."""
        self._folder = TemporaryFolder(_temporary_folder(), _FOLDER_PREFIX)
        folder = self._folder.path
        self.path = folder
        archived = class_archive.find(java, environ)
        home = archived or class_archive.SparkHome(folder / "spark")
        home.link()
        address_file = ""
        if admit is not None:
            address_file = str(folder / "bell.json")
            admit(folder).write(Path(address_file))
        self._tail: deque[str] = deque(maxlen=_TAIL_LINES)
        self._process = subprocess.Popen(
            [sys.executable, "-m", settings.driver_module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=folder,
            env=driver_environ(settings, folder, java, environ) | _own_spark(settings, folder, home),
            start_new_session=True,
        )
        self.pid = self._process.pid
        self._tail_thread = threading.Thread(target=self._read_tail, name="rillet-spark-errors", daemon=True)
        self._tail_thread.start()
        self._sending = threading.Lock()
        self._send(DriverJob(settings, str(folder), address_file, archived.java_options if archived else ""))

    def reports(self, within_s: float) -> Iterator[DriverReport | None]:
        """The reports of the driver until it ends; None whenever it was silent for so long."""
        assert self._process.stdout is not None
        rest, descriptor = b"", self._process.stdout.fileno()
        while True:
            readable, _, _ = select.select([descriptor], [], [], within_s)
            if not readable:
                yield None
                continue
            more = os.read(descriptor, 1 << 16)
            if not more:
                return
            *lines, rest = (rest + more).split(b"\n")
            for line in lines:
                yield msgspec.json.decode(line, type=DriverReport)

    def order(self, order: TaskOrder) -> None:
        """To be called when it has reported that it runs."""
        self._send(order)

    def _send(self, line: DriverJob | TaskOrder) -> None:
        assert self._process.stdin is not None
        # It may have died already, or be removed: its reports say so by ending.
        with self._sending, contextlib.suppress(BrokenPipeError, ValueError):
            self._process.stdin.write(msgspec.json.encode(line) + b"\n")
            self._process.stdin.flush()

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)

    def bury(self) -> str:
        """Called after the last report: removes everything of the driver, and returns how it ended."""
        # Its reports end when it dies, or a moment before: killed now, its exit status would be lost.
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(1)
        self.kill()
        code = self._process.wait()
        self._tail_thread.join(2)
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        self._folder.remove()
        if code < 0:
            return f"its process was ended by {signal.Signals(-code).name}"
        return "\n".join(list(self._tail)[-_WHY_LINES:]) or f"its process ended with status {code}"

    def _read_tail(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self._tail.append(line.decode("utf-8", "replace").rstrip())
            log.debug("Spark says", extra={"fields": {"line": self._tail[-1]}})


def driver_environ(settings: SparkSettings, folder: Path, java: Java, environ: Mapping[str, str]) -> dict[str, str]:
    """Of the driver, and by inheritance of the JVM and of Spark's Python workers."""
    root = str(Path(stream_ext.__path__[0]).parent)
    inherited = {name: value for name, value in environment(environ).items() if name not in _FOREIGN}
    return inherited | {
        "JAVA_HOME": str(java.home),
        # Spark is started by shell scripts, which look for `dirname` and the like.
        "PATH": environ.get("PATH") or os.defpath,
        # The same modules in every process, whether they are installed or lie in a checkout.
        "PYTHONPATH": os.pathsep.join(filter(None, (root, environ.get("PYTHONPATH")))),
        "PYSPARK_PYTHON": f"./{PACKAGE_FOLDER}/bin/python" if settings.package else sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": settings.listens_on[0],
        "TMPDIR": str(folder),
        **(_without_zip() if settings.master == "yarn" else {}),
        **executor_environ(settings),
    }


def _without_zip() -> dict[str, str]:
    """YARN wants to send the zip of pyspark, which our home of Spark has not, and which no machine needs: pyspark is
    there with Rillet. What begins with local: is not sent."""
    return {"PYSPARK_ARCHIVES_PATH": f"local:{class_archive.installed_spark().parent}"}


def _own_spark(settings: SparkSettings, folder: Path, home: SparkHome) -> dict[str, str]:
    """In the environment: which Spark, and where its settings are."""
    # The driver's own Python processes are started by the same relative path as those of the tasks.
    (folder / PACKAGE_FOLDER).symlink_to(sys.prefix)
    conf = _write_secrets(settings, folder)
    return {"SPARK_HOME": str(home.path)} | ({"SPARK_CONF_DIR": str(conf)} if conf else {})


def _write_secrets(settings: SparkSettings, folder: Path) -> Path | None:
    """Secrets among Spark's settings, in a file of its own that only this user can read: what a session is given goes
    onto the command line of its JVM. None: there are none; a folder with a file would keep the JVM from using the
    archive of its classes."""
    secrets = {name: value for name, value in settings.conf.items() if is_secret(name)}
    if not secrets:
        return None
    conf = folder / "conf"
    conf.mkdir(mode=0o700)
    lines = "".join(f"{name} {value}\n" for name, value in secrets.items())
    (conf / "spark-defaults.conf").write_text(lines, "utf-8")
    return conf


def _temporary_folder() -> Path:
    """A name in Spark's folder becomes the address of a Unix socket, which has 108 bytes."""
    parent = tempfile.gettempdir()
    return Path(parent if len(parent) <= _PARENT_LENGTH_MAX else "/tmp")
