"""The parent of trials: a process that has imported what a trial needs, and forks one for each.

    server  ->  a byte, and two descriptors: where the trial reads its job, and where it reports
            <-  the number of the trial's process
            <-  when it has ended: its exit code, negative for a signal

Interpreter, imports and compiled loops take more than a second of CPU, which was most of the time that queries waited
in quarantine. The parent has no threads and opens no store, as neither survives a fork. It ends when the server closes
its end of the socket, however the server ends; its trials end with it."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import os
import select
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Callable
from types import TracebackType

from stream_ext.child_environment import program_environment

_NUMBER = struct.Struct("<q")


class TrialParent:
    """The server's end. One trial at a time; `close` may be called by another thread."""

    def __init__(self, factory: str) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "stream_ext.runners.trial", str(theirs.fileno()), factory],
                stdin=subprocess.DEVNULL,
                stdout=2,  # prints are no messages
                pass_fds=(theirs.fileno(),),
                env=program_environment(os.environ),
                start_new_session=True,
            )
        self._socket = ours
        self.pid = self._process.pid

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def fork(self, within_s: float) -> ForkedTrial:
        """A new process, which reads its job; an OSError: there is none within this time."""
        job_end, job = os.pipe()
        report, report_end = os.pipe()
        try:
            self._socket.settimeout(within_s)
            socket.send_fds(self._socket, [b"f"], [job_end, report_end])
            return ForkedTrial(self._socket, self._number(), job, report)
        except BaseException:
            os.close(job)
            os.close(report)
            self.close()
            raise
        finally:
            os.close(job_end)
            os.close(report_end)

    def _number(self) -> int:
        body = self._socket.recv(_NUMBER.size, socket.MSG_WAITALL)
        if len(body) != _NUMBER.size:
            raise ConnectionError("the process that forks trials has ended")
        return int(_NUMBER.unpack(body)[0])

    def close(self) -> None:
        """Idempotent. A trial that runs ends, too."""
        self._process.kill()
        self._process.wait()
        with contextlib.suppress(OSError):  # whoever waits there sees its end
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()


class ForkedTrial:
    """A process that was forked. `report`: the descriptor of what it reports."""

    def __init__(self, parent: socket.socket, pid: int, job: int, report: int) -> None:
        self._parent, self.pid, self._job, self.report = parent, pid, job, report
        self._code: int | None = None

    def begin(self, job: bytes) -> None:
        with contextlib.suppress(BrokenPipeError), os.fdopen(self._job, "wb") as pipe:  # it has died already
            pipe.write(job)

    def kill(self) -> None:
        if self._code is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)

    def wait(self) -> int:
        """Its exit code; as after a SIGKILL if its parent has ended, because it ended then, too."""
        if self._code is None:
            body = b""
            with contextlib.suppress(OSError):  # it is closed
                self._parent.settimeout(None)
                body = self._parent.recv(_NUMBER.size, socket.MSG_WAITALL)
            self._code = int(_NUMBER.unpack(body)[0]) if len(body) == _NUMBER.size else -signal.SIGKILL
        return self._code

    def __enter__(self) -> ForkedTrial:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        self.wait()
        os.close(self.report)


# ---- in that process -------------------------------------------------------------------------------------------


def serve(server: socket.socket, factory: str, run: Callable[[int, int], None]) -> None:
    """Forks a trial whenever the server asks for one; `run` gets where to read the job, and where to report."""
    from stream_ext import warm

    importlib.import_module(factory.partition(":")[0])
    warm.warm()
    gc.collect()
    gc.freeze()
    while True:
        data, descriptors, _, _ = socket.recv_fds(server, 1, 2)
        if not data:
            return
        parent, pid = os.getpid(), os.fork()
        if not pid:
            server.close()
            _end_with(parent)
            run(*descriptors)
            os._exit(0)
        for descriptor in descriptors:
            os.close(descriptor)
        server.sendall(_NUMBER.pack(pid))
        if (code := _awaited(pid, server)) is None:
            return
        server.sendall(_NUMBER.pack(code))


def _awaited(pid: int, server: socket.socket) -> int | None:
    """The exit code of the trial; None: the server has ended before it."""
    trial = os.pidfd_open(pid)
    try:
        readable, _, _ = select.select([trial, server.fileno()], [], [])
    finally:
        os.close(trial)
    if trial not in readable:
        return None
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def _end_with(parent: int) -> None:
    """Asks the kernel to kill this process when its parent ends, which also works in the middle of compiled code."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    if os.getppid() != parent:  # it has ended already
        os._exit(1)
