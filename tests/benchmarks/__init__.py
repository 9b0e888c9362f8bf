"""The benchmarks of `rillet bench`: each a module with `run(quick)`, which measures, and `summary`, its last line."""

from __future__ import annotations

import json
import os
import platform
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Bench:
    module: str
    what: str
    watches: bool = False  # a server's memory, for as many minutes as it is told; and may ask beside a large store

    def load(self) -> Any:
        return import_module(self.module)

    def keep(self, file: str, quick: bool, figures: dict[str, Any]) -> None:
        """The raw figures, with what one must know to compare them."""
        from hbase_store.version import __version__

        retained = {
            "bench": self.module.rpartition(".")[2],
            "date": datetime.now(UTC).isoformat(timespec="seconds"),
            "quick": quick,
            "rillet": __version__,
            "python": platform.python_version(),
            "machine": f"{platform.machine()}, {os.cpu_count()} processors",
            "figures": figures,
        }
        Path(file).write_text(json.dumps(retained, indent=2) + "\n")


BENCHES = {
    "attach": Bench("tests.benchmarks.attach", "a stream joined with an attached store, which is held; beside a loop"),
    "attacks": Bench("tests.benchmarks.attacks", "what an attack costs a server, and those who ask it meanwhile"),
    "hbase": Bench("tests.benchmarks.hbase", "queries cold and warm, updates, pushes on a real HBase; beside LMDB"),
    "http": Bench("tests.benchmarks.http", "requests a second, beside others, large answers; beside rdflib-endpoint"),
    "language": Bench("tests.benchmarks.language", "reading texts: the social queries and INSERT DATA, beside rdflib"),
    "line": Bench("tests.benchmarks.line", "load, publish, join, push to subscriber, start-up, memory: end to end"),
    "oneshot": Bench(
        "tests.benchmarks.oneshot", "one-shot questions: social graph, LSBench, a shop, beside other engines"
    ),
    "papers": Bench(
        "tests.benchmarks.papers", "the figures of the papers on CQELS: many queries, streams, large windows"
    ),
    "small": Bench("tests.benchmarks.small", "small steps, many different queries, look-ups, small pushes"),
    "spark": Bench(
        "tests.benchmarks.spark", "many queries on one and two shards, inline, and beside a plain Spark program"
    ),
    "store": Bench("tests.benchmarks.store", "bulk load, reads, publishing and readers, beside pyoxigraph"),
    "streams": Bench(
        "tests.benchmarks.streams", "continuous questions: W1-W3, windows of many batches, LSBench, over HTTP", True
    ),
}
