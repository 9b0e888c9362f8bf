"""A real Fuseki on this machine, for the tests and for trying things out: a SPARQL store that is not ours.

    python -m tests.parts.fuseki.server run --port 3030 --data DIR

prints READY and runs until Ctrl-C. Without --data everything is in memory and gone at the end; with it the dataset is
a TDB2 of that folder. As a module it is a context manager with `kill` and `start`, for tests that let it die."""

from __future__ import annotations

import argparse
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import FrameType, TracebackType

import httpx

from endpoint.trial_hbase import jdk
from endpoint.trial_hbase.cache_folder import folder, locked

VERSION = "5.6.0"  # the last ones run on JDK 21 and later only
DATASET = "ds"
START_S_MAX = 120
STOP_S_MAX = 30
_WHAT = "Fuseki"
_ARTIFACT = f"org.apache.jena:jena-fuseki-server:{VERSION}"
_COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy"


def jar() -> Path:
    """Fetched on first use. Test processes that start together wait for one another."""
    jdk.java(_WHAT)  # a clear word about a missing JDK before a long download
    cache = folder("fuseki", "RILLET_FUSEKI")
    found = cache / f"jena-fuseki-server-{VERSION}.jar"
    with locked(cache / "lock"):
        if not found.exists():
            fetching = cache / "fetching"
            jdk.maven(_WHAT, [_COPY, f"-Dartifact={_ARTIFACT}", f"-DoutputDirectory={fetching}"])
            (fetching / found.name).rename(found)
    return found


class Fuseki:
    """One server with one dataset, `/ds`, that anybody on this machine may change."""

    def __init__(
        self,
        home: str | os.PathLike[str],
        port: int = 0,
        data: str | os.PathLike[str] | None = None,
        heap: str = "1g",
        services: bool = False,
        short_lived: bool = False,
    ) -> None:
        """`home`: for its settings and its log. `data`: a folder for TDB2; None: in memory. `services`: it evaluates
        SERVICE, which it does not by itself."""
        self.services = services
        self._flags = jdk.SHORT_LIVED if short_lived else ()
        self.home, self.data, self.heap = Path(home).resolve(), data and Path(data).resolve(), heap
        self.port = port or _free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/{DATASET}"

    @property
    def query_url(self) -> str:
        return f"{self.url}/sparql"

    @property
    def update_url(self) -> str:
        return f"{self.url}/update"

    def update(self, text: str) -> None:
        httpx.post(self.update_url, data={"update": text}, timeout=60).raise_for_status()

    def load(self, quads: bytes, media_type: str = "application/n-quads") -> None:
        """Adds quads."""
        form = {"content-type": media_type}
        httpx.post(self.url, content=quads, headers=form, timeout=300).raise_for_status()

    def empty(self) -> None:
        self.update("DROP ALL")

    def start(self) -> Fuseki:
        """Returns when it answers."""
        self.home.mkdir(parents=True, exist_ok=True)
        if self.data is not None:
            self.data.mkdir(parents=True, exist_ok=True)
        where = ["--mem"] if self.data is None else ["--tdb2", "--loc", str(self.data)]
        java = [jdk.java(_WHAT), f"-Xmx{self.heap}", *self._flags]
        command = [*java, "-jar", str(jar()), "--port", str(self.port), "--localhost"]
        allowed = ["--set", "arq:httpServiceAllowed=true"] if self.services else []
        with (self.home / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [*command, *where, *allowed, "--update", f"/{DATASET}"],
                env=os.environ | {"FUSEKI_BASE": str(self.home)},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        try:
            self._wait_ready(self._process)
        except BaseException:
            self.kill()
            raise
        return self

    def _wait_ready(self, process: subprocess.Popen[bytes]) -> None:
        until = time.monotonic() + START_S_MAX
        while time.monotonic() < until and process.poll() is None:
            try:
                if httpx.get(f"http://127.0.0.1:{self.port}/$/ping", timeout=5).is_success:
                    return
            except httpx.TransportError:
                time.sleep(0.1)
        raise RuntimeError(f"Fuseki did not come up; its log is {self.home / 'log'}")

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(STOP_S_MAX)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None

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

    def __enter__(self) -> Fuseki:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as bound:
        port: int = bound.getsockname()[1]
        return port


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def main() -> int:
    parser = argparse.ArgumentParser(description="Runs a real Apache Jena Fuseki on this machine.")
    parser.add_argument("command", choices=["run", "fetch"], help="run it, or only fetch what it needs")
    parser.add_argument("--home", default="rillet-data/fuseki", help="folder for its settings and its log")
    parser.add_argument("--data", help="folder for its data (TDB2); without it they are in memory")
    parser.add_argument("--port", type=int, default=3030, help="its port")
    parser.add_argument("--heap", default="2g", help="Java heap")
    options = parser.parse_args()
    try:
        jar()  # before a folder is made
    except jdk.MissingTool as missing:
        print(missing, file=sys.stderr)
        return 1
    return 0 if options.command == "fetch" else run(Fuseki(options.home, options.port, options.data, options.heap))


def run(server: Fuseki) -> int:
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        server.start()
        print(f"READY {server.query_url} (queries), {server.update_url} (updates)", flush=True)
        return server.wait()
    except KeyboardInterrupt:
        return 0
    finally:
        server.stop()


if __name__ == "__main__":
    sys.exit(main())
