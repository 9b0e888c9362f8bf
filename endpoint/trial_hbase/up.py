"""`rillet hbase up` runs a trial HBase until it is ended; `down` ends that of a data folder.

Who runs it holds a lock on a file of the folder, in which its process number is: so nobody starts a second one over the
same data, and `down` never ends a process that has nothing to do with it."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from endpoint.trial_hbase import kit
from endpoint.trial_hbase.server import STOP_S_MAX, HBase
from stream_ext.errors import RilletError

_LOCK = "up.lock"
_WARNING = """\
THIS HBASE IS FOR TRYING OUT: one Java process with {heap} of heap on this machine, reachable from this machine only.
What it acknowledged survives its end, but not a power failure. Keep nothing there that you cannot load again.
Its data and logs: {data}"""
_STARTING = "starting it; the first time, Maven downloads some 80 MB ..."
_ADVICE = "For data that matters use an HBase of your own, or a store on LMDB (--store lmdb:PATH), which needs no Java."


def bring_up(data: str, port: int, namespace: str, heap: str) -> int:
    """Runs an HBase until SIGTERM, Ctrl-C or its own end."""
    try:
        kit.java()  # before a folder is made
    except kit.MissingTool as missing:
        raise RilletError(f"{missing}. {_ADVICE}") from missing
    folder = Path(data).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    with _held(folder):
        _check_free(port)
        print(_WARNING.format(heap=heap, data=folder), _STARTING, sep="\n", file=sys.stderr, flush=True)
        signal.signal(signal.SIGTERM, _interrupt)
        server = HBase(folder, port, [namespace], heap)
        try:
            server.start()
            print(f"READY hbase://127.0.0.1:{port}/{namespace}", flush=True)
            status = server.wait()
        except KeyboardInterrupt:
            return 0
        except kit.MissingTool as missing:
            raise RilletError(f"{missing}. {_ADVICE}") from missing
        finally:
            server.stop()
    raise RilletError(f"HBase ended by itself (status {status}); its logs are in {folder / 'logs'}")


def bring_down(data: str) -> None:
    """Ends the HBase of a data folder, and returns when it has written what it had in memory."""
    path = Path(data).resolve() / _LOCK
    try:
        with path.open() as file:
            process = int(file.read() or 0)
            if not process or _take(file.fileno()):
                raise _not_running(path.parent)
            os.kill(process, signal.SIGTERM)
            _wait_until_free(file.fileno(), process, path.parent)
    except FileNotFoundError as error:
        raise _not_running(path.parent) from error


def _not_running(folder: Path) -> RilletError:
    return RilletError(f"no HBase that `rillet hbase up` has started runs over {folder}; is it another --data?")


@contextmanager
def _held(folder: Path) -> Iterator[None]:
    with (folder / _LOCK).open("a+") as file:
        if not _take(file.fileno()):
            file.seek(0)
            raise RilletError(
                f"an HBase runs over {folder} already (process {file.read() or 'unknown'}); end it with "
                f"rillet hbase down --data {folder}, or use another --data"
            )
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        try:
            yield
        finally:
            file.truncate(0)


def _take(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _wait_until_free(descriptor: int, process: int, folder: Path) -> None:
    waited = threading.Event()
    for _ in range(2 * STOP_S_MAX * 10):
        if _take(descriptor):
            return
        waited.wait(0.1)
    raise RilletError(
        f"process {process} has not ended HBase within {2 * STOP_S_MAX} s; see the logs in {folder / 'logs'}"
    )


def _check_free(port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            raise RilletError(f"port {port} is taken, by an HBase perhaps: use another --port") from error


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt
