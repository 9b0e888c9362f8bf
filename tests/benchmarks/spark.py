"""Many different queries on one and on two shards of Spark, inline, and as one plain Structured Streaming program.

Each query counts the arrivals of its own predicate in a sliding window, by object, and emits the few objects that come
often: so nearly all of the work is done where the queries are evaluated. The emissions of all runs are compared byte by
byte. The CPU is that of all processes: the server's, the JVM's and the workers'."""

from __future__ import annotations

import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from stream_ext.clock import SystemClock
from stream_ext.runners.spark.settings import SparkSettings
from stream_ext.service.opened import Limits
from stream_ext.service.service import Service

Figures = dict[str, Any]

_EX = "http://ex/"
_OBJECTS = 12
_STEP_MS, _RANGE_MS = 1_000, 10_000
_OFTEN = 4
_TICKS = os.sysconf("SC_CLK_TCK")
_STARTS_S = 120.0


@dataclass(frozen=True)
class Load:
    queries: int
    batches: int
    triples: int  # in a batch

    def batch(self, number: int) -> list[tuple[int, str, int, str]]:
        """(time, subject, number of the predicate, object) of each triple."""
        chance = random.Random(number)
        return [
            (
                number * _STEP_MS + place % _STEP_MS,
                f"a{chance.randrange(1_000)}",
                chance.randrange(self.queries),
                f"b{chance.randrange(_OBJECTS)}",
            )
            for place in range(self.triples)
        ]

    def texts(self) -> list[str]:
        return [
            f"PREFIX : <{_EX}> REGISTER RSTREAM q{number} AS SELECT ?b (COUNT(?a) AS ?n) FROM NAMED WINDOW :w ON s "
            f"[RANGE PT{_RANGE_MS // 1000}S STEP PT{_STEP_MS // 1000}S] WHERE {{ WINDOW :w {{ ?a :p{number} ?b }} }} "
            f"GROUP BY ?b HAVING (COUNT(?a) >= {_OFTEN})"
            for number in range(self.queries)
        ]


def run(quick: bool) -> Figures:
    load = Load(20, 20, 200) if quick else Load(200, 120, 1_000)
    rounds = 1 if quick else 3
    figures: Figures = {"queries": load.queries, "batches": load.batches, "triples_a_batch": load.triples}
    runs: dict[str, list[Figures]] = {"inline": [], "one": [], "two": []}
    emitted = None
    for _ in range(rounds):  # by turns, because the machine may have other work
        for name, shards in (("inline", 0), ("one", 1), ("two", 2)):
            with tempfile.TemporaryDirectory(prefix="rillet-bench-") as folder:
                found, emissions = _run(load, Path(folder), shards)
            assert emitted is None or emissions == emitted, f"{name} emits something else"
            emitted = emissions
            runs[name].append(found)
            print(name, json.dumps(found), file=sys.stderr, flush=True)
    for name, all_of_them in runs.items():
        figures[name] = {key: statistics.median(each[key] for each in all_of_them) for key in all_of_them[0]}
    one, two = figures["one"], figures["two"]
    figures["speed_up"] = round(one["wall_s"] / two["wall_s"], 2)
    figures["cpu_of_two_over_one"] = round(two["cpu_s"] / one["cpu_s"], 2)
    figures["structured_streaming"] = _plain(load)
    return figures


def summary(figures: Figures) -> str:
    said = {
        **{f"{name}_batches_per_s": figures[name]["batches_per_s"] for name in ("inline", "one", "two")},
        "structured_streaming_batches_per_s": figures["structured_streaming"]["batches_per_s"],
        **{name: figures[name] for name in ("speed_up", "cpu_of_two_over_one")},
        "larger_shard": figures["two"]["larger_shard"],
    }
    return " ".join(f"{name}={figure}" for name, figure in said.items())


def _run(load: Load, folder: Path, shards: int) -> tuple[Figures, dict[str, list[bytes]]]:
    spark = SparkSettings(epoch_s=30, warmup_epochs=3, shards=shards or 1)
    engine: Literal["spark", "inline"] = "spark" if shards else "inline"
    service = Service.open(
        f"lmdb:{folder / 'store'}", base="http://rillet/", clock=SystemClock(), engine=engine, spark=spark, batch_ms=0,
        limits=Limits(lag_ms=600_000, evaluated_s=600.0),  # all is pushed at once
    )  # fmt: skip
    try:
        service.create_stream("s", {})
        for text in load.texts():
            service.register(text)
        _push(service, load, range(1, 3))
        if shards:
            _wait_for_spark(service)
        _push(service, load, range(3, 6))
        before, workers = _cpu_s(service), _worker_cpu_s(service)
        began = time.perf_counter()
        _push(service, load, range(6, load.batches))
        wall_s = time.perf_counter() - began
        cpu_s = _cpu_s(service) - before
        of_shards = [now - then for now, then in zip(_worker_cpu_s(service), workers, strict=True)]
        found = {
            "wall_s": round(wall_s, 3),
            "cpu_s": round(cpu_s, 3),
            "batches_per_s": round((load.batches - 6) / wall_s, 1),
            "larger_shard": round(max(of_shards) / sum(of_shards), 2) if sum(of_shards) else 1.0,
        }
        names = [query.name for query in service.queries()]
        return found, {name: [each.json for each in service.emissions(name, 0, None)] for name in names}
    finally:
        service.close()


def _push(service: Service, load: Load, numbers: range) -> None:
    """Without waiting for each: the last one waits until everything is evaluated."""
    for number in numbers:
        lines = [
            f'{{"timestamp":{at},"data":"<{_EX}{s}> <{_EX}p{p}> <{_EX}{o}> ."}}' for at, s, p, o in load.batch(number)
        ]
        wait: Literal["published", "evaluated"] = "evaluated" if number == numbers[-1] else "published"
        body = "\n".join(lines).encode()
        service.push("s", body, "application/x-ndjson", wait=wait)


def _wait_for_spark(service: Service) -> None:
    until = time.monotonic() + _STARTS_S
    while not all(shard["runner"] == "spark" for shard in _shards(service)):
        if time.monotonic() > until:
            raise TimeoutError(f"Spark is not up: {service.status()['spark']}")
        time.sleep(0.05)


def _shards(service: Service) -> Sequence[Figures]:
    spark = service.status()["spark"]
    return spark["shards"] if spark else ()


def _worker_cpu_s(service: Service) -> list[float]:
    return [_cpu_of(shard["pid"]) for shard in _shards(service)]


def _cpu_s(service: Service) -> float:
    """Of this process and of all that it has started."""
    driver = (service.status()["spark"] or {}).get("driver_pid")
    return time.process_time() + sum(_cpu_of(pid) for pid in _family(driver))


def _family(pid: int | None) -> list[int]:
    if pid is None:
        return []
    children = Path(f"/proc/{pid}/task").glob("*/children")
    return [pid, *(below for file in children for child in file.read_text().split() for below in _family(int(child)))]


def _cpu_of(pid: int | None) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0  # it has ended
    return (int(fields[11]) + int(fields[12])) / _TICKS


# ---- the same questions as one program of Structured Streaming ---------------------------------------------------


def _plain(load: Load) -> Figures:
    """In a process of its own, as a user would run it; a file is a micro-batch."""
    with tempfile.TemporaryDirectory(prefix="rillet-bench-") as folder:
        data = Path(folder, "data")
        data.mkdir()
        for number in range(1, load.batches):
            rows = [json.dumps({"at": at, "a": s, "p": p, "b": o}) for at, s, p, o in load.batch(number)]
            path = data / f"{number:06}.json"
            path.write_text("\n".join(rows))
            os.utime(path, (number, number))  # Spark takes the oldest first
        done = subprocess.run(
            [sys.executable, "-m", "tests.benchmarks.spark_plain", folder, str(_OFTEN)],
            capture_output=True, text=True, timeout=900, check=False,
        )  # fmt: skip
        if done.returncode:
            raise RuntimeError(f"the plain program failed: {done.stderr[-2_000:]}")
        found: Figures = json.loads(done.stdout.splitlines()[-1])
    seconds = found["median_batch_s"]
    return {**found, "batches_per_s": round(1 / seconds, 2) if seconds else 0.0}
