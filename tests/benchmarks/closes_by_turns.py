"""Two checkouts of Rillet, close by close in turns: the CPU time of a close of queries of `rillet bench small`.

python -m tests.benchmarks.closes_by_turns OLD_CHECKOUT [--json FILE] [WORKLOAD ...]

A process for each checkout; one waits while the other steps a close. So whatever else the machine does slows both
alike, and a difference of some hundredths shows on a busy machine. Answers are compared by `rillet bench small`."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from tests.benchmarks import replay, small
from tests.benchmarks.tape import source

HERE = Path(__file__).parents[2]
#: Milliseconds of each close: of the step, and of step and merge.
Closes = dict[str, list[float]]
_STEPS = ("Q1", "Q2", "Q10", "L1", "L2", "L3", "L4")


def workloads() -> Mapping[str, Callable[[Path], Any]]:
    found: dict[str, Callable[[Path], Any]] = {
        "all_touched": partial(small.templates, 200, small.KINDS, small.PREDICATES, False),
        "some_touched": partial(small.templates, 200, small._JOINS, 2, False),
        "many_some_touched": partial(small.templates, 2_000, small._JOINS, 2, False),
        "watchers": lambda folder: small.watchers(source(5_000, shared=None), False, folder),  # steady: the 1,000
    }
    return found | {name: partial(_single, name) for name in _STEPS}


def _single(name: str, folder: Path) -> None:
    small._QUIET, small._WIDE = ((name,), ()) if name in small._QUIET else ((), (name,))  # type: ignore[assignment]
    small.steps(source(5_000, shared=None), False, folder)


def play(workload: str, mine: int, other: int, is_first: bool) -> Closes:
    """Steps a close after each byte of the pipe `mine`, and then writes one into the pipe of the other process."""
    if not is_first:
        os.read(mine, 1)
    found: list[replay.Stepped] = []
    stepped = replay._stepped

    def in_turn(*given: Any) -> replay.Stepped:
        found.append(stepped(*given))
        if _sent(other):
            os.read(mine, 1)
        return found[-1]

    replay._stepped = in_turn  # type: ignore[assignment]  # it passes on what it is given
    replay.Replay.check = lambda *given: replay.Checked(1, 0.0)  # type: ignore[method-assign]  # `bench small` compares
    with tempfile.TemporaryDirectory(prefix="rillet-turns-") as folder:
        workloads()[workload](Path(folder))
    _sent(other)
    os.close(other)
    steady = found[len(found) // 2 :]
    return {"step": [each.cpu * 1e3 for each in steady], "merge": [each.stored_cpu * 1e3 for each in steady]}


def _sent(pipe: int) -> bool:
    try:
        return os.write(pipe, b"x") == 1
    except BrokenPipeError:  # the other has finished
        return False


def by_turns(old: Path, workload: str) -> dict[str, Any]:
    """Medians, and what a tenth of the closes is below, of both checkouts; each has a .venv, or has that of this
    one."""
    (read_old, write_new), (read_new, write_old) = os.pipe(), os.pipe()
    players = []
    for checkout, mine, other in ((old, read_old, write_old), (HERE, read_new, write_new)):
        own = checkout / ".venv" / "bin" / "python"
        python = str(own if own.exists() else HERE / ".venv" / "bin" / "python")
        command = [python, "-P", str(Path(__file__)), "--play", workload, str(mine), str(other), str(checkout is old)]
        environment = {**os.environ, "PYTHONPATH": str(checkout)}
        player = subprocess.Popen(
            command, cwd=checkout, env=environment, pass_fds=(mine, other), stdout=subprocess.PIPE, text=True
        )
        players.append(player)
    for pipe in (read_old, read_new, write_old, write_new):
        os.close(pipe)
    closes: list[Closes] = [json.loads(player.communicate()[0].splitlines()[-1]) for player in players]
    figures = [
        {f"{part}_ms": [round(median(ms), 3), round(quantiles(ms, n=10)[0], 3)] for part, ms in each.items()}
        for each in closes
    ]
    return {"workload": workload, "old": figures[0], "new": figures[1]}


def main() -> None:
    if sys.argv[1:2] == ["--play"]:
        workload, mine, other, is_first = sys.argv[2:]
        print(json.dumps(play(workload, int(mine), int(other), is_first == "True")))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=Path)
    parser.add_argument("workloads", nargs="*", default=list(workloads()))
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    found = []
    for workload in arguments.workloads:
        found.append(by_turns(arguments.old, workload))
        print(json.dumps(found[-1]), flush=True)
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
