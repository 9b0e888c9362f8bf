"""A trial: a fresh process steps some queries without others, to see whether it survives.

The process, which `trial_parent` forks, reads its job from one pipe, and reports its progress on another:

    opened   the store is open; from now on the process must show signs of life
    built    the state of the queries is built
    stepped  all snapshots are stepped
    away     the store does not answer
    failed   with the reason: an error that is not the queries' fault

The results are discarded: if the trial survives, the runner of the other queries repeats these evaluations."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from hbase_store.errors import StoreUnavailable
from stream_ext.continuous.query_budget import Budget
from stream_ext.remote.allowed_urls import AllowedUrls
from stream_ext.runners.quarantine import Outcome
from stream_ext.runners.spark import wire
from stream_ext.runners.spark.settings import SparkSettings
from stream_ext.runners.trial_parent import ForkedTrial, TrialParent, serve
from stream_ext.runners.underway import StepWatch, Underway

#: Interpreter, imports and compiled loops, if they are not there yet, and the store; on a busy machine.
_OPENS_S = 120.0
_LOOK_S = 0.2
_CATCH_UP_S = 5.0
_WHY_BYTES_MAX = 2_000


class TrialJob(msgspec.Struct, frozen=True):
    store_url: str
    base: str
    allowed_urls: AllowedUrls
    budget: Budget
    factory: str
    underway: str
    until: int
    position: int
    #: The state of each query at `position`.
    states: dict[int, msgspec.Raw]


class Process:
    """Runs trials, one after the other, for one store and one factory of shards."""

    def __init__(
        self, store_url: str, base: str, allowed_urls: AllowedUrls, budget: Budget, settings: SparkSettings
    ) -> None:
        self._store_url, self._base, self._allowed_urls, self._budget = store_url, base, allowed_urls, budget
        self._factory, self._timeout_s = settings.shard_factory, settings.step_timeout_s
        self._lock = threading.Lock()
        self._parent: TrialParent | None = None
        self._closed = False

    def prepare(self) -> None:
        """Starts the process that forks trials, so that the first one need not wait for it."""
        with contextlib.suppress(OSError):  # it is tried again for the first trial, which says what is wrong
            self._living_parent()

    def _living_parent(self) -> TrialParent:
        with self._lock:
            if self._closed:
                raise ConnectionError("the service is being closed")
            if self._parent is not None and not self._parent.is_alive:
                self._parent.close()
                self._parent = None
            if self._parent is None:
                self._parent = TrialParent(self._factory)
            return self._parent

    def run(self, states: Mapping[int, Any], position: int, until: int) -> Outcome:
        """Tries the queries, in one process for each position that some of them have."""
        places: dict[int, dict[int, Any]] = {} if states else {position: {}}
        for number, state in states.items():
            places.setdefault(position if state.behind_at is None else state.behind_at, {})[number] = state
        for sn, there in sorted(places.items()):
            outcome = self._run_from(sn, there, until)
            if outcome.end != "survived":
                return outcome
        return Outcome("survived")

    def _run_from(self, sn: int, states: Mapping[int, Any], until: int) -> Outcome:
        with tempfile.TemporaryDirectory(prefix="rillet-trial-") as folder:
            watched = StepWatch(Path(folder) / "underway")
            try:
                return self._run(self._job(states, sn, until, watched.path), watched)
            except OSError as error:
                return Outcome("failed", f"{type(error).__name__}: {error}")
            finally:
                watched.close()

    def close(self) -> None:
        with self._lock:
            self._closed = True
            if self._parent is not None:
                self._parent.close()

    def _job(self, states: Mapping[int, Any], sn: int, until: int, underway: Path) -> TrialJob:
        from_there = {number: msgspec.structs.replace(state, behind_at=None) for number, state in states.items()}
        return TrialJob(
            self._store_url, self._base, self._allowed_urls, self._budget, self._factory, str(underway), until, sn,
            wire.Codec(self._factory).encode_states(from_there),
        )  # fmt: skip

    def _run(self, job: TrialJob, watched: StepWatch) -> Outcome:
        with self._living_parent().fork(_OPENS_S) as process:
            process.begin(msgspec.msgpack.encode(job))
            return self._followed(process, watched)

    def _followed(self, process: ForkedTrial, watched: StepWatch) -> Outcome:
        """The outcome of the process. It is killed if it shows no sign of life for too long."""
        output, changes, alive = b"", 0, time.monotonic()
        while True:
            readable, _, _ = select.select([process.report], [], [], _LOOK_S)
            more = os.read(process.report, 1 << 12) if readable else b""
            if readable and not more:
                return self._ended(process, output, watched)
            output += more
            if more or watched.changes != changes:
                changes, alive = watched.changes, time.monotonic()
            limit_s = self._timeout_s if output else _OPENS_S
            if time.monotonic() - alive > limit_s:
                process.kill()
                process.wait()
                if not output:
                    return Outcome("failed", f"it did not start within {limit_s:g} s")
                return self._died(f"it did not answer for {limit_s:g} s", watched)

    def _ended(self, process: ForkedTrial, output: bytes, watched: StepWatch) -> Outcome:
        code = process.wait()
        last, _, why = output.rstrip(b"\n").rpartition(b"\n")[2].decode("utf-8", "replace").partition(" ")
        if last == "stepped":
            return Outcome("survived")
        if last == "away":
            return Outcome("away", why)
        if last == "failed" or not output:
            return Outcome("failed", why or f"it ended with status {code} before it had opened the store")
        by = signal.Signals(-code).name if code < 0 else f"status {code}"
        return self._died(f"it ended by {by}", watched)

    def _died(self, why: str, watched: StepWatch) -> Outcome:
        stepping = watched.read()
        return Outcome("died", why, None if stepping is None else stepping.numbers)


# ---- in that process -------------------------------------------------------------------------------------------


def main() -> None:
    """The process that forks trials, for the server at the other end of this socket."""
    with socket.socket(fileno=int(sys.argv[1])) as server, contextlib.suppress(ConnectionError):
        serve(server, sys.argv[2], _try)
    os._exit(0)


def _try(job_from: int, report: int) -> None:
    """Steps the queries of the job, and reports how far it came."""
    with os.fdopen(job_from, "rb") as pipe:
        job = msgspec.msgpack.decode(pipe.read(), type=TrialJob)
    try:
        _step(job, lambda word: os.write(report, word.encode() + b"\n"))
    except StoreUnavailable as error:
        os.write(report, f"away {_one_line(error)}\n".encode())
    except Exception as error:  # noqa: BLE001 -- the parent says it
        os.write(report, f"failed {_one_line(error)}\n".encode())


def _one_line(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:_WHY_BYTES_MAX]


def _step(job: TrialJob, report: Callable[[str], object]) -> None:
    codec, underway = wire.Codec(job.factory), Underway(Path(job.underway))
    shard = codec.open_shard(job.store_url, job.base, job.allowed_urls, job.budget, job.states.keys())
    shard.refresh()
    shard.stepping = underway.steps
    underway.steps(job.position)
    report("opened")
    shard.build(codec.decode_states(job.states), job.position)
    report("built")
    for sn in range(job.position + 1, job.until + 1):
        underway.steps(sn)
        shard.step(sn)
    # Many evaluations are done in pieces; the trial does as many pieces as fit into a time.
    until_s = time.monotonic() + _CATCH_UP_S
    while shard.has_more and time.monotonic() < until_s:
        shard.step_one_behind()
    report("stepped")


if __name__ == "__main__":
    main()
