"""Registration: what one more query takes, while many are registered, and the memory that it needs.

    present      10,000 are registered, of 210 templates over 15 streams; then a thousand more, one after the other
    at_once      100,000 of one template, without waiting; then batches (`rillet bench streams` has it, too)
    memory       of one more query of a template, and of one that is a template of its own: bytes that Python allocates

`cpu_ms`: of all threads between two registrations, also for what is done once a second; `waited_cpu_ms`: of the two
threads that a registration waits for. The collector is set as in a server.

python -m tests.benchmarks.registering [--json FILE] [PART ...]"""

from __future__ import annotations

import argparse
import gc
import json
import os
import statistics
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from endpoint.serve import COLLECTED_AFTER
from stream_ext.clock import SystemClock
from stream_ext.service.service import Limits, Service
from stream_ext.writer.injector import Injector
from stream_ext.writer.write_queue import QueuedRequest
from tests.benchmarks.papers_plus import road_query
from tests.benchmarks.watchers import at_once

Figures = dict[str, Any]

_BASE = "http://e/"
_NT = "application/n-triples"
_PRESENT, _MORE, _ROADS = 10_000, 1_000, 15
_ALIKE, _OWN = 4_000, 400


def _opened(folder: Path, queries: int) -> Service:
    limits = Limits(queries=queries, evaluated_s=3_600.0, lag_ms=3_600_000)
    return Service.open(f"lmdb:{folder}", base=_BASE, clock=SystemClock(), engine="inline", batch_ms=0, limits=limits)


def _as_a_server() -> None:
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECTED_AFTER)


def present(folder: Path) -> Figures:
    chance = np.random.default_rng(8)
    with _opened(folder, _PRESENT + _MORE) as service:
        for road in range(_ROADS):
            service.create_stream(f"road{road}", {"iri": f"http://deri.org/road{road}"})
        texts = [road_query(chance, _ROADS).text(f"q{n}", "RANGE 3s STEP 1s") for n in range(_PRESENT + _MORE)]
        _as_a_server()
        _register(service, texts[:_PRESENT])
        for second in range(3):
            for road in range(_ROADS):
                _observe(service, f"road{road}", 1_000_000 + 1_000 * second)
        took, cpu_ms, waited_ms = [], [], []
        writer_s = _writer_seconds()
        for text in texts[_PRESENT:]:
            began, worked, own = time.perf_counter(), time.process_time(), time.thread_time()
            service.register(text)
            took.append((time.perf_counter() - began) * 1e3)
            cpu_ms.append((time.process_time() - worked) * 1e3)
            waited_ms.append((time.thread_time() - own + sum(writer_s)) * 1e3)
            writer_s.clear()
        registered = len(service.queries())
    if registered != len(texts):
        raise AssertionError(f"{registered} queries are registered, not {len(texts)}")
    return {
        "present": _PRESENT, "more": _MORE, **_percentiles("ms", took), **_percentiles("cpu_ms", cpu_ms),
        **_percentiles("waited_cpu_ms", waited_ms),
    }  # fmt: skip


def _writer_seconds() -> list[float]:
    """What the writer's thread takes for each group of registrations from now on, of a core."""
    found: list[float] = []
    publish = Injector._publish_registrations

    def timed(injector: Injector, group: Sequence[QueuedRequest]) -> None:
        began = time.thread_time()
        last = group[-1]
        done = last.future.set_result

        def noted(result: object) -> None:
            found.append(time.thread_time() - began)
            done(result)

        last.future.set_result = noted  # type: ignore[method-assign]  # before the client goes on
        publish(injector, group)

    Injector._publish_registrations = timed  # type: ignore[method-assign, assignment]  # only to measure
    return found


def _percentiles(name: str, found: list[float]) -> Figures:
    ordered = sorted(found)
    return {
        f"{name}_p50": round(statistics.median(ordered), 3),
        f"{name}_p99": round(ordered[int(len(ordered) * 0.99)], 3),
        f"{name}_max": round(ordered[-1], 1),
    }


def memory(folder: Path) -> Figures:
    with _opened(folder, 100_000) as service:
        service.create_stream("taxis", {})
        _push(service, 500)
        return {
            "alike": _of_more(service, map(_alike, range(_ALIKE)), map(_alike, range(_ALIKE, 2 * _ALIKE)), 2_000),
            "own": _of_more(service, map(_own, range(50)), map(_own, range(50, 50 + _OWN)), 20_000),
        }


def _of_more(service: Service, before: Iterable[str], texts: Iterable[str], at: int) -> Figures:
    """Bytes of each of these texts, beside others that are registered before."""
    _register(service, before)
    _push(service, at)
    _push(service, at + 1_000)
    tracemalloc.start()
    began = _allocated()
    count = _register(service, texts)
    registered = _allocated()
    _push(service, at + 2_000)
    _push(service, at + 3_000)
    evaluated = _allocated()
    tracemalloc.stop()
    return {
        "registered_bytes": round((registered - began) / count), "evaluated_bytes": round((evaluated - began) / count),
        "queries": count,
    }  # fmt: skip


def _register(service: Service, texts: Iterable[str]) -> int:
    count = sum(1 for _ in service.register_all(texts))
    _await(service)
    return count


def _await(service: Service) -> None:
    """Until all that was registered is stepped."""
    service._engine.await_evaluated(service.head(), 600)


def _allocated() -> int:
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


def _observe(service: Service, road: str, at: int) -> None:
    line = f"<{_BASE}o{at}> <{_BASE}level> <{_BASE}l7> .\n<{_BASE}o{at}> <{_BASE}of> <{_BASE}{road}> ."
    service.push(road, line.encode(), _NT, timestamp=at, wait="evaluated")


def _push(service: Service, at: int) -> None:
    line = b"<http://ex/taxi> <http://ex/in> <http://ex/nowhere> ."
    service.push("taxis", line, _NT, timestamp=at, wait="evaluated")


def _alike(number: int) -> str:
    return (
        f"PREFIX : <http://ex/> REGISTER ISTREAM w{number} AS SELECT ?taxi "
        f"FROM NAMED WINDOW :w ON taxis [RANGE PT10S STEP PT1S] WHERE {{ WINDOW :w {{ ?taxi :in :z{number} }} }}"
    )


def _own(number: int) -> str:
    """The predicate belongs to the template."""
    return (
        f"PREFIX : <http://ex/> REGISTER ISTREAM o{number} AS SELECT ?taxi ?zone "
        f"FROM NAMED WINDOW :w ON taxis [RANGE PT10S STEP PT1S] WHERE {{ WINDOW :w {{ ?taxi :in{number} ?zone }} }}"
    )


PARTS: dict[str, Callable[[Path], Figures]] = {
    "present": present,
    "at_once": lambda folder: at_once(False, folder),
    "memory": memory,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", default=list(PARTS))
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    figures: Figures = {"command": f"python -m tests.benchmarks.registering {' '.join(given.parts)}"}
    for part in given.parts:
        with tempfile.TemporaryDirectory(prefix="rillet-bench-") as folder:
            figures[part] = {
                **PARTS[part](Path(folder) / "store"),
                "load": [round(each, 1) for each in os.getloadavg()],
            }
        print(part, json.dumps(figures[part]), flush=True)
    if given.json is not None:
        given.json.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
