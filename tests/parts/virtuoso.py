"""The Virtuoso of a test run: a SPARQL store with habits of its own. Its default graph is the union of all others, it
answers at most 10,000 rows, and numbers and truth values come out otherwise than they went in.

Debian has it (`apt-get install virtuoso-opensource-7-bin`). Mark such tests with `virtuoso`, and with
`xdist_group("virtuoso")`."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.parts.missing import missing

ROWS_MAX = 10_000
START_S_MAX = 120
_SETTINGS = f"""\
[Database]
DatabaseFile = virtuoso.db
ErrorLogFile = virtuoso.log
LockFile = virtuoso.lck
TransactionFile = virtuoso.trx
xa_persistent_file = virtuoso.pxa
[TempDatabase]
DatabaseFile = virtuoso-temp.db
TransactionFile = virtuoso-temp.trx
[Parameters]
ServerPort = 127.0.0.1:%d
ServerThreads = 10
NumberOfBuffers = 10000
MaxDirtyBuffers = 6000
CheckpointInterval = 0
[HTTPServer]
ServerPort = 127.0.0.1:%d
ServerThreads = 5
[SPARQL]
ResultSetMaxRows = {ROWS_MAX}
"""


class Virtuoso:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        with socket.create_server(("127.0.0.1", 0)) as sql, socket.create_server(("127.0.0.1", 0)) as http:
            self._sql_port, self._http_port = sql.getsockname()[1], http.getsockname()[1]
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def query_url(self) -> str:
        return f"http://127.0.0.1:{self._http_port}/sparql"

    def update(self, text: str) -> None:
        httpx.post(self.query_url, data={"query": text}, timeout=60).raise_for_status()

    def start(self) -> None:
        program = shutil.which("virtuoso-t")
        client = shutil.which("isql-vt")
        if program is None or client is None:
            missing("VIRTUOSO", "there is no virtuoso-t on the PATH (apt-get install virtuoso-opensource-7-bin)")
        (self._folder / "virtuoso.ini").write_text(_SETTINGS % (self._sql_port, self._http_port))
        with (self._folder / "out.log").open("wb") as log:
            self._process = subprocess.Popen(
                [program, "+foreground", "+configfile", "virtuoso.ini"], cwd=self._folder, stdout=log, stderr=log
            )
        try:
            self._wait_ready()
            grants = "GRANT SPARQL_UPDATE TO \"SPARQL\"; DB.DBA.RDF_DEFAULT_USER_PERMS_SET ('nobody', 7);"
            command = [client, str(self._sql_port), "dba", "dba", f"exec={grants}"]
            subprocess.run(command, check=True, capture_output=True, timeout=60)
        except BaseException:
            self.stop()
            raise

    def _wait_ready(self) -> None:
        assert self._process is not None
        until = time.monotonic() + START_S_MAX
        while time.monotonic() < until and self._process.poll() is None:
            try:
                if httpx.get(self.query_url, params={"query": "ASK {}"}, timeout=10).is_success:
                    return
            except httpx.TransportError:
                time.sleep(0.1)
        raise RuntimeError(f"Virtuoso did not come up; its logs are in {self._folder}")

    def stop(self) -> None:
        """There is nothing in it that anybody wants again."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


@pytest.fixture(scope="session")
def virtuoso(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Virtuoso]:
    server = Virtuoso(tmp_path_factory.mktemp("virtuoso"))
    server.start()
    yield server
    server.stop()
