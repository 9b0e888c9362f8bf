"""Folding a store on HBase while it is pushed to: how long folds and merges take, and how long pushes wait meanwhile.

    python -m tests.benchmarks.folds [--triples N] [--changed N] [--json FILE]

A stored graph; a client that pushes one element after the other, each with one evaluation that is awaited; another one
that changes the store, batch by batch, so that its changes are folded, runs are merged, and at last all runs into one.
HBase is the one of the tests: stand-alone, in one Java process on this machine."""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from endpoint.trial_hbase.server import HBase
from hbase_store.writing import upkeep
from hbase_store.writing.upkeep import Upkeep
from stream_ext.clock import SystemClock
from stream_ext.service.service import Service

Figures = dict[str, Any]

#: No triple comes twice: these have no common divisor but 1.
_VERTICES, _OBJECTS, _PREDICATES, _A_BATCH = 200_000, 500_003, 10, 5_000
_PAUSE_S = 0.02
_QUERY = (
    "PREFIX : <http://ex/> REGISTER RSTREAM q AS SELECT (COUNT(*) AS ?n) FROM NAMED WINDOW :w ON s "
    "[RANGE 1s STEP 100ms] WHERE { WINDOW :w { ?x :v ?v } }"
)


class Work:
    """The folds and merges of a store: when each began, how long it took by the clock, and of CPU."""

    def __init__(self) -> None:
        self.done: list[Figures] = []
        self.under_way = ""
        for name in ("_fold_slabs", "_merge_runs"):
            setattr(Upkeep, name, self._timed(name, getattr(Upkeep, name)))

    def _timed(self, name: str, work: Callable[..., bool]) -> Callable[..., bool]:
        def timed(upkeep: Upkeep, *arguments: Any) -> bool:
            before, began_s, cpu_s = self.under_way, time.perf_counter(), time.thread_time()
            self.under_way = name
            try:
                did = work(upkeep, *arguments)
            finally:
                self.under_way = before
            if did:
                took_s, used_s = time.perf_counter() - began_s, time.thread_time() - cpu_s
                newest = upkeep._edges.list.runs[-1]
                self.done.append(
                    {"what": name.strip("_"), "s": round(took_s, 2), "cpu_s": round(used_s, 2), "rows": newest.rows}
                )
            return did

        return timed


def lines(first: int, count: int) -> Iterator[str]:
    """N-Triples of a graph in which each vertex has about as many edges as any other."""
    for number in range(first, first + count):
        s, p, o = number * 7919 % _VERTICES, number % _PREDICATES, number * 104_729 % _OBJECTS
        yield f"<http://ex/x{s}> <http://ex/p{p}> <http://ex/x{o}> .\n"


class Pushing:
    """Pushes until it is stopped, and notes how long each push waits, and what the store is doing then."""

    def __init__(self, service: Service, work: Work) -> None:
        self._service, self._work = service, work
        self._stopped = threading.Event()
        self.waits: dict[str, list[float]] = {}
        self._thread = threading.Thread(target=self._run, name="pushing")

    @contextmanager
    def going_on(self) -> Iterator[None]:
        self._thread.start()
        try:
            yield
        finally:
            self._stopped.set()
            self._thread.join()

    def _run(self) -> None:
        number = 0
        while not self._stopped.wait(_PAUSE_S):
            number += 1
            body = f'<http://ex/x{number % 50}> <http://ex/v> "{number}" .'.encode()
            during, began_s = self._work.under_way, time.perf_counter()
            self._service.push("s", body, "application/n-triples", timestamp=number * 100, wait="evaluated")
            during = during or self._work.under_way
            self.waits.setdefault(during, []).append((time.perf_counter() - began_s) * 1000)

    def summary(self) -> Figures:
        return {each.strip("_") or "nothing": _percentiles(waits) for each, waits in sorted(self.waits.items())}


def _percentiles(waits: list[float]) -> Figures:
    ordered = sorted(waits)
    p99 = ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))]
    return {
        "pushes": len(waits), "p50_ms": round(statistics.median(waits), 1), "p99_ms": round(p99, 1),
        "max_ms": round(ordered[-1], 1),
    }  # fmt: skip


def run(triples: int, changed: int) -> Figures:
    figures: Figures = {"triples": triples, "changed": changed, "load_before": round(os.getloadavg()[0], 1)}
    with tempfile.TemporaryDirectory(prefix="rillet-bench-") as name:
        folder, work = Path(name), Work()
        with HBase(folder / "hbase", heap="1g") as hbase:
            store = f"hbase://127.0.0.1:{hbase.thrift_port}/folds"
            figures["load_s"] = _load(store, folder / "some.nt", triples)
            print("loaded", figures, file=sys.stderr)
            with closing(
                Service.open(store, base="http://ex/", clock=SystemClock(), engine="inline", batch_ms=0)
            ) as service:
                _measure(service, work, figures, triples, changed)
    figures["load_after"] = round(os.getloadavg()[0], 1)
    return figures


def _load(store: str, file: Path, triples: int) -> float:
    with file.open("w") as out:
        out.writelines(lines(0, triples))
    began_s = time.perf_counter()
    subprocess.run([sys.executable, "-m", "endpoint", "load", str(file), "--store", store], check=True)
    return round(time.perf_counter() - began_s, 1)


def _measure(service: Service, work: Work, figures: Figures, triples: int, changed: int) -> None:
    service.create_stream("s", {})
    service.register(_QUERY)
    work.done.clear()
    pushing, store = Pushing(service, work), service._opened.store
    with pushing.going_on():
        time.sleep(10)
        for number, first in enumerate(range(0, changed, _A_BATCH)):
            verb = "DELETE" if number % 3 == 2 else "INSERT"
            at = first if verb == "DELETE" else triples + first
            service.update(f"{verb} DATA {{ {''.join(lines(at, _A_BATCH))} }}")
            time.sleep(0.2)
        store.fold()
        figures["as_it_is"] = list(work.done)
        work.done.clear()
        vars(upkeep)["runs_to_merge"] = lambda cover: cover if len(cover) > 1 else ()
        store.fold()
        figures["all_into_one"] = list(work.done)
        time.sleep(3)
    figures["pushes"] = pushing.summary()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--triples", type=int, default=3_000_000)
    parser.add_argument("--changed", type=int, default=300_000)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    figures = run(arguments.triples, arguments.changed)
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=2) + "\n")
    print(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
