"""A query that is far behind: caught up with by the server itself, and by tasks; the parts are compared.

    python -m tests.benchmarks.missed [--elements N] [--rounds N] [--json FILE]

Readings of sensors, one a second, pushed by the thousand after the query was registered, and none of them evaluated;
windows of an hour that close each minute. The tasks run one after the other in this process, and CPU is counted: `s` is
what is left for the process that has more to do, with a core for each."""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from unittest import mock

from hbase_store import Store
from hbase_store import open as open_store
from stream_ext.catalog.catalog import Catalog
from stream_ext.continuous.catching_up.turns import TurnLimits
from stream_ext.continuous.query_budget import USUAL
from stream_ext.continuous.shard import Shard
from stream_ext.emissions.finishing import finish
from stream_ext.runners.inline import InlineRunner
from stream_ext.runners.replays import replays
from stream_ext.runners.replays.replays import QueryReplays
from stream_ext.windows.part import Part
from tests.benchmarks.past import _A_PUSH, _HEAD, _MINUTE_MS, QUERIES, Figures, InTurn, _median, _opened, _triple, fill

_WINDOW = f"FROM NAMED WINDOW :w ON s [RANGE {60 * _MINUTE_MS}ms STEP {_MINUTE_MS}ms]"
_PACE = TurnLimits(1, None, 500, 0.1)


def pushed(folder: Path, name: str, text: str, elements: int) -> None:
    """A store with the query, and what was pushed after it; nothing is evaluated."""
    with mock.patch.object(InlineRunner, "start", lambda self: None):
        fill(folder, 1)
        with closing(_opened(folder)) as service:
            service.register(f"{_HEAD} {text.format(name=name, window=_WINDOW)}")
            for first in range(1, elements, _A_PUSH):
                lines = (
                    json.dumps({"timestamp": each * 1000, "data": _triple(each)})
                    for each in range(first, min(elements, first + _A_PUSH))
                )
                service.push("s", "\n".join(lines).encode(), "application/x-ndjson", wait="published")


def caught_up(store: Store, name: str, lanes: int) -> Figures:
    """By so many tasks at a time; 0: by the shard itself."""
    head = int(store.head())
    catalog = Catalog.read(store, head)
    query = next(each for each in catalog.queries.values() if each.name == name)
    jobs = InTurn(2)  # cut for two
    jobs.store = store
    shard = Shard(store, lambda each: each.number == query.number, pace=_PACE)
    shard.build({}, query.since - 1)
    began_s = time.process_time()
    found: list[Part] = []
    for sn in range(query.since, head + 1):
        found += shard.step(sn)
    if lanes:
        shard.replays = QueryReplays(store, jobs, USUAL, lambda: None, lambda ms: None, _died)
    while shard.behind:
        if shard.has_more:
            found += shard.step_one_behind()
        else:
            time.sleep(0.001)
    done = [each if each.terms is not None else finish(each, store.terms, {}, (), lambda _: None) for each in found]
    cpu_s = time.process_time() - began_s
    jobs.lanes = lanes
    own_s = cpu_s - sum(jobs.used)
    longer_s = max(own_s, jobs.busiest()) if lanes else cpu_s
    return {"s": longer_s, "server_cpu_s": own_s, "stretches": len(jobs.used), "digest": _digest(done)}


def _died(query: int, why: str) -> None:
    raise AssertionError(why)


def _digest(parts: Sequence[Part]) -> str:
    """Of all that is emitted, with numbers and times, and of the rows in their order."""
    digest = hashlib.sha256()
    for part in sorted((part for part in parts if part.emits), key=lambda part: (part.sn, part.k)):
        texts = [None, *(part.terms or [])]
        rows = [[texts[place] for place in column.tolist()] for column in part.columns]
        digest.update(repr((part.sn, part.k, part.time, part.windows, part.before, rows)).encode())
    return digest.hexdigest()


def run(elements: int, rounds: int) -> Figures:
    vars(replays)["LEAST_S"] = 0.1  # so the shard begins itself for a moment
    figures: Figures = {"elements": elements, "load": round(os.getloadavg()[0], 1)}
    for name, text in QUERIES.items():
        with tempfile.TemporaryDirectory(prefix="rillet-bench-") as place:
            folder = Path(place)
            pushed(folder, name, text, elements)
            ways = {"inline": 0, "tasks_1": 1, "tasks_2": 2}
            runs: dict[str, list[Figures]] = {way: [] for way in ways}
            with closing(open_store(f"lmdb:{folder / 'store'}", read_only=True)) as store:
                for round_ in range(rounds + 1):
                    digests = set[str]()
                    for way, lanes in ways.items():
                        found = caught_up(store, name, lanes)
                        digests.add(found.pop("digest"))
                        if round_:  # the first compiles and reads for all
                            runs[way].append(found)
                    assert len(digests) == 1, f"{name}: other emissions"
            figures[name] = {way: _median(each) for way, each in runs.items()}
            figures[name]["over_inline"] = round(figures[name]["inline"]["s"] / figures[name]["tasks_2"]["s"], 2)
            print(name, json.dumps(figures[name]), file=sys.stderr)
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--elements", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    figures = run(arguments.elements, arguments.rounds)
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=2) + "\n")
    print(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
