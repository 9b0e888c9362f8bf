"""Two checkouts of Rillet, by turns: the CPU seconds of the same workloads, old, new, old, new ...

python -m tests.benchmarks.by_turns OLD_CHECKOUT [--rounds 5] [--json FILE] [WORKLOAD ...]

Each checkout has its own .venv. A machine that others use too makes times longer, for both alike; CPU time suffers
less, and medians of interleaved runs less again."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from statistics import median

from tests.benchmarks.workloads import WORKLOADS

HERE = Path(__file__).parents[2]


def cpu_s(checkout: Path, workload: str) -> float:
    """In a process of its own, with the packages of this checkout."""
    program = HERE / "tests" / "benchmarks" / "workloads.py"
    command = [str(checkout / ".venv" / "bin" / "python"), "-P", str(program), workload]
    environment = {**os.environ, "PYTHONPATH": str(checkout)}
    done = subprocess.run(command, cwd=checkout, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    return float(json.loads(done.stdout.splitlines()[-1])["cpu_s"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=Path)
    parser.add_argument("workloads", nargs="*", default=list(WORKLOADS))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    found: dict[str, dict[str, list[float]]] = {}
    for name in arguments.workloads:
        runs: dict[str, list[float]] = {"old": [], "new": []}
        for _ in range(arguments.rounds):
            runs["old"].append(cpu_s(arguments.old, name))
            runs["new"].append(cpu_s(HERE, name))
        found[name] = runs
        ratio = median(runs["new"]) / median(runs["old"])
        print(
            f"{name}: old {median(runs['old']):.2f} s, new {median(runs['new']):.2f} s, new/old {ratio:.3f}", flush=True
        )
        print(f"  {runs}", file=sys.stderr, flush=True)
    if arguments.json is not None:
        medians = {name: {side: median(runs) for side, runs in each.items()} for name, each in found.items()}
        retained = {"bench": "by_turns", "unit": "CPU seconds", "medians": medians, "runs": found}
        arguments.json.write_text(json.dumps(retained, indent=2) + "\n")


if __name__ == "__main__":
    main()
