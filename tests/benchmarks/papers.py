"""What the papers on CQELS measured, as far as one machine can: their figures, beside ours.

    plus_5       CQELS+ (2017), figure 5: LSBench's Q2, Q3, Q5, Q6, asked by 1 to 1,000; the same texts, or varied
    plus_400     section 4.2: 400 queries, of four kinds mixed
    plus_7       figure 7: 400 queries over 3 to 240 streams
    plus_8       figure 8: what it takes to register 400 queries, one after the other
    cloud_6      CQELS Cloud (2013), figure 6: 10,000 and 100,000 patterns; a 5-way join; a large group; a large store
    cloud_7      figure 7: Q1, Q4, Q5, Q10, asked by 10 to 10,000 with other constants and windows
    cqels_exp3   CQELS (2011), experiment 3: Q1, Q3, Q4 of the conference, asked by 1 to 1,024

The papers' machines had 4 cores of 2012, their windows were evaluated at arrivals; ours is one core, and evaluates at
closes unless it says so. What is compared with an oracle says so (`checked`). Throughput is triples for a second of
CPU.

python -m tests.benchmarks.papers [--json FILE] [PART | PART/NAME ...]

measures these parts only, or these of a part (`cloud_7/Q4` is Q4_10 to Q4_10000), each in a process of its own. Figures
that FILE has of others stay there."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.benchmarks.papers_cloud import cloud_6, cloud_7
from tests.benchmarks.papers_conference import cqels_exp3
from tests.benchmarks.papers_plus import plus_5, plus_7, plus_8, plus_400
from tests.benchmarks.papers_replay import Measures

Figures = dict[str, Any]
#: The figures of the papers; of those that are pictures only, what their text says. Triples a second.
PAPER: dict[str, Any] = {
    "plus_5": {"Q2_1000": 60_000, "Q3_1000": 60_000, "Q5_1000": 2_300, "Q6_1000": 1_300, "cqels_Q5_25": 2_200},
    "plus_400": {"latency_s_1_instance": 4.5},
    "plus_7": "latency rises with the streams; with more than 30 the engine often stops responding",
    "plus_8": "figure 8, a picture: grows with the number of queries",
    "cloud_6": "10,000 patterns and the group: more than 100,000 inputs/s on 8 nodes",
    "cloud_7": {"Q4_Q10_10_queries": 24_000, "Q4_Q10_100_queries": 21_000, "nodes": 32},
    "cqels_exp3": "1,000 queries: about one second for each evaluation",
}
PARTS = {
    "plus_5": plus_5,
    "plus_400": plus_400,
    "plus_7": plus_7,
    "plus_8": plus_8,
    "cloud_6": cloud_6,
    "cloud_7": cloud_7,
    "cqels_exp3": cqels_exp3,
}


def run(quick: bool, only: Sequence[str] = ()) -> Figures:
    """`only`: these parts, or names of a part; none: all of them."""
    figures: Figures = {}
    for part, name, _ in _chosen(quick, only):
        figures.setdefault(part, {"paper": PAPER[part]})[name] = _measured(quick, part, name)
        print(part, name, json.dumps(figures[part][name]), file=sys.stderr, flush=True)
    return figures


def _chosen(quick: bool, only: Sequence[str]) -> Iterator[tuple[str, str, Any]]:
    for part, measures in PARTS.items():
        for name, measure in measures(quick).items():
            if not only or any(f"{part}/{name}_".startswith((f"{each}/", f"{each}_")) for each in only):
                yield part, name, measure


def _measured(quick: bool, part: str, name: str) -> Figures:
    measures: Measures = PARTS[part](quick)
    with tempfile.TemporaryDirectory(prefix="rillet-bench-") as folder:
        return measures[name](Path(folder) / "store")


def summary(figures: Figures) -> str:
    """The last line: name=figure name=figure."""
    shown = {
        f"{part}_{name}": each["triples_per_cpu_s"]
        for part, found in figures.items()
        for name, each in found.items()
        if isinstance(each, dict) and "triples_per_cpu_s" in each
    }
    if "plus_8" in figures:
        shown["plus_8_ms_p99"] = figures["plus_8"]["registered"]["register_ms_p99"]
    return " ".join(f"{name}={figure}" for name, figure in shown.items())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("only", nargs="*")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--single", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.single:
        ((part, name, _),) = [each for each in _chosen(given.quick, ()) if f"{each[0]}/{each[1]}" == given.only[0]]
        print(json.dumps(_measured(given.quick, part, name)))
        return
    for part, name, _ in _chosen(given.quick, given.only):
        command = [sys.executable, "-m", "tests.benchmarks.papers", "--single", f"{part}/{name}"]
        done = subprocess.run([*command, *["--quick"] * given.quick], stdout=subprocess.PIPE, text=True)
        load = [round(each, 1) for each in os.getloadavg()]
        found = json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 else {"failed": done.returncode}
        found = {**found, "load": load}
        print(part, name, json.dumps(found), flush=True)
        if given.json is not None:
            _add(given.json, part, name, found, given.quick)


def _add(file: Path, part: str, name: str, found: Figures, quick: bool) -> None:
    known: Figures = json.loads(file.read_text()) if file.exists() else {"bench": "papers"}
    own = f"python -m tests.benchmarks.papers {'--quick ' * quick}{part}/{name}"
    known.setdefault("figures", {}).setdefault(part, {"paper": PAPER[part]})[name] = {"command": own, **found}
    file.write_text(json.dumps(known, indent=2) + "\n")


if __name__ == "__main__":
    main()
