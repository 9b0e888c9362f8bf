"""Two checkouts of Rillet, asked over HTTP by turns: the CPU time of the server for a request.

python -m tests.benchmarks.texts_by_turns OLD_CHECKOUT [--json FILE] [--rounds N]

A server for each checkout, with the same data. By turns each is asked for two seconds: the same text again and again,
and texts that nobody asked before; on one connection and on 16. What a request takes of a core is what to compare: the
clock says what else the machine does."""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from statistics import median
from typing import Any

from tests.benchmarks import http
from tests.benchmarks.server import Server

HERE = Path(__file__).parents[2]
_SECONDS, _TEXTS, _CONNECTIONS = 2.0, 24_000, (1, 16)
_round = count()


def _cpu_s(pid: int) -> float:
    """Of all threads of the process."""
    spent = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        spent += int((task / "schedstat").read_text().split()[0])
    return spent / 1e9


def _asked(server: Server, kind: str, connections: int) -> tuple[float, int]:
    """Microseconds of a core a request, and requests a second."""
    texts = http.SAME if kind == "same" else http._new(f"{next(_round)}-", _TEXTS)
    before = _cpu_s(server.pid)
    answered = http.measured(server.port, connections, _SECONDS, texts)["requests_per_s"]
    return (_cpu_s(server.pid) - before) * 1e6 / max(1.0, answered * _SECONDS), answered


def run(old: Path, rounds: int) -> dict[str, Any]:
    figures: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="rillet-turns-") as name, ExitStack() as stack:
        data = Path(name) / "small.nt"
        data.write_text("".join(http._people(http.PEOPLE)))
        servers = {}
        for which, checkout in (("old", old), ("new", HERE)):
            store = http._loaded(Path(name) / which, data)
            servers[which] = stack.enter_context(Server(store, "inline", checkout=checkout))
        cases = [(kind, connections) for kind in ("same", "new") for connections in _CONNECTIONS]
        for turn in range(rounds + 1):
            for kind, connections in cases:
                for which, server in servers.items():
                    took_us, a_second = _asked(server, kind, connections)
                    if turn:  # the first one warms up
                        found = figures.setdefault(f"{kind}_{connections}", {}).setdefault(which, [])
                        found.append([round(took_us, 1), a_second])
    return {"unit": "[microseconds of a core a request, requests a second] of each round", "rounds": figures}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    load = os.getloadavg()[0]
    found = run(arguments.old, arguments.rounds)
    found["load"] = (
        f"{min(load, os.getloadavg()[0]):.0f} to {max(load, os.getloadavg()[0]):.0f} on {os.cpu_count()} cores"
    )
    for case, both in found["rounds"].items():
        print(case, *(f"{which} {median(us for us, _ in each):.0f} us" for which, each in both.items()))
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
