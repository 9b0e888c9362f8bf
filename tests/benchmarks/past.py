"""The past of a query, replayed by the server itself, by one process beside it and by two; the emissions are compared.

    python -m tests.benchmarks.past [--elements N] [--rounds N] [--in-turn] [--json FILE]

A stream of readings of sensors, one a second; queries with a close each minute, each over all of it. By the clock, from
the registration until the query has ended, in turns, the median of the runs after a first one.

A machine that does other work says little by the clock. With `--in-turn` the tasks run one after the other in this
process, and their CPU is counted: `s` is what is left for the process that has more to do, with a core for each."""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from hbase_store import Store
from stream_ext.clock import ManualClock
from stream_ext.evaluation_budget import Control
from stream_ext.runners.replays import replays
from stream_ext.runners.replays.by_processes import ReplayProcesses
from stream_ext.runners.replays.replay import ReplayJobs
from stream_ext.runners.replays.task import EncodedTask, RunTasks, _tasks, encode
from stream_ext.service import engine
from stream_ext.service.service import Limits, Service

Figures = dict[str, Any]

_SENSORS, _A_PUSH, _MINUTE_MS = 1000, 1000, 60_000
_HEAD = "PREFIX : <http://ex/> REGISTER"
QUERIES = {
    # Each emission has a row for each sensor.
    "means": "RSTREAM {name} AS SELECT ?x (AVG(?v) AS ?m) {window} WHERE {{ WINDOW :w {{ ?x :v ?v }} }} GROUP BY ?x",
    # Each emission has what is new.
    "new": "ISTREAM {name} AS SELECT ?x ?v ?r {window} WHERE {{ WINDOW :w {{ ?x :v ?v }} ?x :room ?r }}",
    # Little comes out, from a join of all with all.
    "high": "RSTREAM {name} AS SELECT ?r (COUNT(*) AS ?n) {window} WHERE {{ WINDOW :w {{ ?x :v ?v }} ?x :room ?r "
    "FILTER(?v > 90) }} GROUP BY ?r",
}


class InTurn:
    """Runs tasks one after the other in this process, and counts the CPU of each."""

    name, limited_by, is_ready = "this process", "nothing", True

    def __init__(self, lanes: int) -> None:
        self.lanes, self.used = lanes, list[float]()
        self.store: Store | None = None  # that of the server

    @contextmanager
    def opened(self) -> Iterator[RunTasks]:
        yield self._run

    def _run(self, tasks: Sequence[EncodedTask], control: Control) -> Generator[bytes, None, None]:
        for task in tasks:
            before = time.thread_time()
            assert self.store is not None, "the server is there"
            result = encode(_tasks.decode(task.encoded).result(self.store))
            self.used.append(time.thread_time() - before)
            yield result

    def busiest(self) -> float:
        """If each lane takes the next task when it is free; the first task comes before all others."""
        first, *used = self.used
        lanes = [0.0] * self.lanes
        for each in used:
            lanes[lanes.index(min(lanes))] += each
        return first + max(lanes)


def fill(folder: Path, elements: int) -> int:
    """A stream of so many elements, and its last time."""
    with closing(_opened(folder)) as service:
        service.update(
            "INSERT DATA { "
            + " ".join(f"<http://ex/x{x}> <http://ex/room> <http://ex/r{x % 40}> ." for x in range(_SENSORS))
            + " }"
        )
        service.create_stream("s", {"retention": "365d"})
        for first in range(0, elements, _A_PUSH):
            lines = (
                json.dumps({"timestamp": each * 1000, "data": _triple(each)})
                for each in range(first, min(elements, first + _A_PUSH))
            )
            service.push("s", "\n".join(lines).encode(), "application/x-ndjson")
    return elements * 1000


def _triple(number: int) -> str:
    value = f'"{number * 31 % 100}"^^<http://www.w3.org/2001/XMLSchema#integer>'
    return f"<http://ex/x{number * 7919 % _SENSORS}> <http://ex/v> {value} ."


def _opened(folder: Path) -> Service:
    return Service.open(
        f"lmdb:{folder / 'store'}", base="http://ex/", clock=ManualClock(1_000_000_000), engine="inline", batch_ms=0,
        limits=Limits(catch_up_ms=10**9),
    )  # fmt: skip


def replayed(folder: Path, text: str, name: str, jobs: ReplayJobs | None) -> tuple[float, float, str, int]:
    """Seconds by the clock and of CPU of this process, until the query has ended; the digest of its emissions, and how
    many they are."""
    replays.LEAST_S = 0.0 if jobs is not None else float("inf")
    vars(engine)["ReplayProcesses"] = lambda lanes: jobs or ReplayProcesses(lanes)
    with closing(_opened(folder)) as service:
        if isinstance(jobs, InTurn):
            jobs.store = service._opened.store
        began, cpu = time.perf_counter(), time.process_time()
        service.register(text)
        while service.query_status(name)["state"] == "running":
            time.sleep(0.05)
        took_s, used_s = time.perf_counter() - began, time.process_time() - cpu
        digest, count = hashlib.sha256(), 0
        for emission in service.emissions(name, 0, None):
            digest.update(re.sub(rb'"snapshot":\d+', b"", emission.json, count=1))  # that of the registration
            count += 1
        service.drop_query(name)
    return took_s, used_s, digest.hexdigest(), count


class _AtATime(ReplayProcesses):
    """So many processes, for a past that is cut for two."""

    def __init__(self, most: int) -> None:
        super().__init__(2)
        self._most = most

    @contextmanager
    def opened(self) -> Iterator[RunTasks]:
        with ReplayProcesses(self._most).opened() as run:
            yield run


def run(elements: int, rounds: int, in_turn: bool) -> Figures:
    figures: Figures = {"elements": elements, "load": round(os.getloadavg()[0], 1)}
    with tempfile.TemporaryDirectory(prefix="rillet-bench-") as place:
        folder = Path(place)
        end = fill(folder, elements)
        window = f"FROM NAMED WINDOW :w ON s [START 0 END {end} STEP {_MINUTE_MS}ms]"
        for name, text in QUERIES.items():
            asked = f"{_HEAD} {text.format(name=name, window=window)}"
            ways = ("inline", "tasks_1", "tasks_2")
            runs: dict[str, list[Figures]] = {way: [] for way in ways}
            for round_ in range(rounds + 1):
                digests = set[tuple[str, int]]()
                for way in ways:
                    found = _in_turn(folder, asked, name, way) if in_turn else _by_clock(folder, asked, name, way)
                    digests.add((found.pop("digest"), found["emissions"]))
                    if round_:  # the first compiles and reads for all
                        runs[way].append(found)
                assert len(digests) == 1, f"{name}: other emissions"
            figures[name] = {way: _median(each) for way, each in runs.items()}
            one, two = figures[name]["tasks_1"]["s"], figures[name]["tasks_2"]["s"]
            figures[name]["speed_up"] = round(one / two, 2)
            print(name, json.dumps(figures[name]), file=sys.stderr)
    return figures


def _by_clock(folder: Path, text: str, name: str, way: str) -> Figures:
    jobs = None if way == "inline" else _AtATime(int(way[-1]))
    took_s, cpu_s, digest, count = replayed(folder, text, name, jobs)
    return {"s": took_s, "server_cpu_s": cpu_s, "digest": digest, "emissions": count}


def _in_turn(folder: Path, text: str, name: str, way: str) -> Figures:
    if way == "inline":
        _, cpu_s, digest, count = replayed(folder, text, name, None)
        return {"s": cpu_s, "server_cpu_s": cpu_s, "digest": digest, "emissions": count}
    jobs = InTurn(2)
    _, cpu_s, digest, count = replayed(folder, text, name, jobs)
    jobs.lanes = int(way[-1])
    own_s, busiest_s = cpu_s - sum(jobs.used), jobs.busiest()
    # The server takes what is found while tasks go on.
    return {"s": max(own_s, busiest_s), "server_cpu_s": own_s, "digest": digest, "emissions": count}


def _median(runs: Sequence[Figures]) -> Figures:
    return {key: round(statistics.median(each[key] for each in runs), 2) for key in runs[0]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--elements", type=int, default=300_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--in-turn", action="store_true", help="without processes: CPU of tasks, one after the other")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    figures = run(arguments.elements, arguments.rounds, arguments.in_turn)
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=2) + "\n")
    print(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
