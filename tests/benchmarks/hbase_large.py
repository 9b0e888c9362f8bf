"""A large relation on a real HBase and on LMDB: loads by one task and by two, opening, random reads with a cache of a
tenth of it; and the CPU time of HBase itself.

    python -m tests.benchmarks.hbase_large --mappings 10000000 --json FILE

The CPU time says what a clock cannot on a machine whose processors HBase and the tasks share."""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.benchmarks import hbase_store, relation
from tests.benchmarks.hbase import cpu_s_of

Figures = dict[str, Any]
_COUNTED = (
    "import sys, hbase_store; store = hbase_store.open(sys.argv[1], read_only=True); "
    "assert store.at().count_all() == int(sys.argv[2]); store.close()"
)


def run(mappings: int) -> Figures:
    from endpoint.trial_hbase.server import HBase

    found: Figures = {}
    with tempfile.TemporaryDirectory(prefix="rillet-bench-") as name:
        folder = Path(name)
        lines = folder / "large.nt"
        relation.write(lines, mappings)
        with HBase(folder / "hbase", heap="2g") as hbase:
            stores = {"hbase": f"hbase://127.0.0.1:{hbase.thrift_port}/large", "lmdb": f"lmdb:{folder}/lmdb"}
            for backend, store in stores.items():
                found[backend] = _of(store, lines, mappings, lambda: cpu_s_of(hbase.pid))
                print(backend, json.dumps(found[backend]), file=sys.stderr, flush=True)
    return found


def _of(store: str, lines: Path, mappings: int, hbase_cpu_s: Callable[[], float]) -> Figures:
    found: Figures = {}
    for tasks in (1, 2):
        words = ["-m", "endpoint", "load", str(lines), "--tasks", str(tasks), "--store", f"{store}{tasks}"]
        before = hbase_cpu_s()
        found[f"tasks_{tasks}"] = {**_ran(words), "hbase_cpu_s": round(hbase_cpu_s() - before, 1)}
    found["open"] = [_ran(["-c", _COUNTED, f"{store}2", str(mappings)]) for _ in range(3)]
    before = hbase_cpu_s()
    small = hbase_store.small_cache(f"{store}2", mappings)
    found["small_cache"] = {**small, "hbase_cpu_s": round(hbase_cpu_s() - before, 2)}
    return found


def _ran(words: list[str]) -> Figures:
    """A Python process with those it starts: its time, CPU time, and the load of the machine."""
    used, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run([sys.executable, *words], check=True, stdout=subprocess.DEVNULL)
    took_s, now = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = now.ru_utime + now.ru_stime - used.ru_utime - used.ru_stime
    return {"s": round(took_s, 2), "cpu_s": round(cpu_s, 2), "load_average": round(os.getloadavg()[0], 1)}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.hbase_large", description=__doc__)
    parser.add_argument("--mappings", type=int, default=10_000_000)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    figures = {"mappings": given.mappings, **run(given.mappings)}
    if given.json is not None:
        given.json.write_text(json.dumps(figures, indent=2) + "\n")
