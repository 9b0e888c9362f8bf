"""Many different queries on one and on two shards of Spark, inline, and as one plain Structured Streaming program.

Each query counts the arrivals of its own predicate in a sliding window, by object, and emits the few objects that come
often: so nearly all of the work is done where the queries are evaluated. The emissions of all runs are compared byte by
byte. The CPU is that of all processes: the server's, the JVM's and the workers'.

A machine that does other work says little by the clock, so there is a second speed-up: of the time that two free cores
would take for the measured CPU, which is never less than what the busiest process took (`two_cores_s`)."""

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
from tests.benchmarks import spark_cluster, spark_divided, spark_placed, spark_served
from tests.benchmarks.spark_served import cpu_of, cpu_of_family, since

Figures = dict[str, Any]

_EX = "http://ex/"
_OBJECTS = 12
_STEP_MS, _RANGE_MS = 1_000, 10_000
_OFTEN = 4
_STARTS_S = 600.0


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

    def body(self, number: int) -> bytes:
        lines = [
            f'{{"timestamp":{at},"data":"<{_EX}{s}> <{_EX}p{p}> <{_EX}{o}> ."}}' for at, s, p, o in self.batch(number)
        ]
        return "\n".join(lines).encode()

    def texts(self) -> list[str]:
        return [
            f"PREFIX : <{_EX}> REGISTER RSTREAM q{number} AS SELECT ?b (COUNT(?a) AS ?n) FROM NAMED WINDOW :w ON s "
            f"[RANGE PT{_RANGE_MS // 1000}S STEP PT{_STEP_MS // 1000}S] WHERE {{ WINDOW :w {{ ?a :p{number} ?b }} }} "
            f"GROUP BY ?b HAVING (COUNT(?a) >= {_OFTEN})"
            for number in range(self.queries)
        ]


def run(quick: bool) -> Figures:
    load = Load(200, 40 if quick else 120, 1_000)
    rounds = 1 if quick else 3
    figures: Figures = {"queries": load.queries, "batches": load.batches, "triples_a_batch": load.triples}
    bodies = [load.body(number) for number in range(1, load.batches)]
    figures["placed"] = spark_placed.measure(load.texts(), bodies, 3)
    print("placed", json.dumps(figures["placed"]), file=sys.stderr, flush=True)
    figures["divided"] = spark_divided.run(20 if quick else 40, 3)
    print("divided", json.dumps(figures["divided"]), file=sys.stderr, flush=True)
    figures["divided_on_spark"] = spark_divided.run_on_spark(20 if quick else 40, spark_divided.ON_SPARK)
    print("divided on Spark", json.dumps(figures["divided_on_spark"]), file=sys.stderr, flush=True)
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
    figures["speed_up_of_two_cores"] = round(one["two_cores_s"] / two["two_cores_s"], 2)
    figures["cpu_of_two_over_one"] = round(two["cpu_s"] / one["cpu_s"], 2)
    figures["structured_streaming"] = _plain(load)
    seconds, elements = (15.0, 216_000) if quick else (60.0, 616_000)
    for name, shards in (("inline", 0), ("one", 1), ("two", 2)):
        figures[f"served_{name}"] = measured = spark_served.measure(shards, seconds, elements)
        print("served", name, json.dumps(measured), file=sys.stderr, flush=True)
    figures["cluster"] = spark_cluster.measure()
    return figures


def summary(figures: Figures) -> str:
    said = {
        **{f"{name}_batches_per_s": figures[name]["batches_per_s"] for name in ("inline", "one", "two")},
        "structured_streaming_batches_per_s": figures["structured_streaming"]["batches_per_s"],
        **{name: figures[name] for name in ("speed_up", "speed_up_of_two_cores", "cpu_of_two_over_one")},
        "larger_shard": figures["two"]["larger_shard"],
        "placed_larger_shard": figures["placed"]["by_load"]["larger_shard"],
        "heavy_query_cpu_of_two_over_one": figures["divided_on_spark"]["many_pairs"]["cpu_of_two_over_one"],
        "push_ms_p50": figures["served_two"]["push_ms"]["p50"],
        "server_us_an_element": figures["served_two"]["elements"]["server_us_an_element"],
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
        _push(service, [load.body(number) for number in range(1, 3)])
        if shards:
            _wait_for_spark(service)
        _push(service, [load.body(number) for number in range(3, 6)])
        bodies = [load.body(number) for number in range(6, load.batches)]  # the client's work, which is not counted
        own, others, workers = time.process_time(), _others_cpu_s(service), _worker_cpu_s(service)
        began = time.perf_counter()
        _push(service, bodies)
        wall_s, own = time.perf_counter() - began, time.process_time() - own
        cpu_s = own + sum(since(others, _others_cpu_s(service)).values())
        of_shards = [now - then for now, then in zip(_worker_cpu_s(service), workers, strict=True)]
        found = {
            "wall_s": round(wall_s, 3),
            "cpu_s": round(cpu_s, 3),
            "server_cpu_s": round(own, 3),
            "shards_cpu_s": round(sum(of_shards), 3),
            "two_cores_s": round(max(cpu_s / 2, own, *of_shards), 3),
            "batches_per_s": round((load.batches - 6) / wall_s, 1),
            "larger_shard": round(max(of_shards) / sum(of_shards), 2) if sum(of_shards) else 1.0,
        }
        names = [query.name for query in service.queries()]
        return found, {name: [each.json for each in service.emissions(name, 0, None)] for name in names}
    finally:
        service.close()


def _push(service: Service, bodies: Sequence[bytes]) -> None:
    """Without waiting for each: the last one waits until everything is evaluated."""
    for number, body in enumerate(bodies, start=1):
        wait: Literal["published", "evaluated"] = "evaluated" if number == len(bodies) else "published"
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
    return [cpu_of(shard["pid"]) for shard in _shards(service)]


def _others_cpu_s(service: Service) -> dict[int, float]:
    """Of all processes that this one has started for Spark."""
    return cpu_of_family((service.status()["spark"] or {}).get("driver_pid"))


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
