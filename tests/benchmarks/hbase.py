"""A store on HBase beside one on LMDB, in one run: queries cold and warm, updates, pushes, and their calls.

HBase is the one of the tests: stand-alone, in one Java process on this machine, which the server shares with it."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from tests.benchmarks import social
from tests.benchmarks.line import push_to_subscriber
from tests.benchmarks.server import Server

Figures = dict[str, Any]
_WRITERS, _PRODUCERS = 8, 16
_TURTLE = {"content-type": "text/turtle"}


def run(quick: bool) -> Figures:
    from tests.parts.hbase.server import HBase

    figures: Figures = {}
    with tempfile.TemporaryDirectory(prefix="rillet-bench-") as name:
        folder = Path(name)
        lines = folder / "social.nt"
        social.write(lines, 20_000 if quick else 200_000)
        with HBase(folder / "hbase", heap="1g") as hbase:
            stores = {"lmdb": f"lmdb:{folder / 'lmdb'}", "hbase": f"hbase://127.0.0.1:{hbase.thrift_port}/bench"}
            for backend, store in stores.items():
                print(f"{backend} ...", file=sys.stderr)
                figures[backend] = _of(backend, store, folder, lines, quick)
                print(backend, json.dumps(figures[backend]), file=sys.stderr)
    return figures


def summary(figures: Figures) -> str:
    lmdb, hbase = figures["lmdb"], figures["hbase"]
    cold = max(hbase["queries"][name]["cold_ms"] / lmdb["queries"][name]["cold_ms"] for name in hbase["queries"])
    return (
        f"updates_per_s={hbase['updates']['per_s']} pushes_per_s={hbase['pushes']['per_s']} "
        f"push_to_emission_ms_p50={hbase['push_to_emission']['push_ms_p50']} "
        f"calls_per_publish={hbase['pushes']['calls']['publish']} cold_over_lmdb_max={cold:.1f}"
    )


def _of(backend: str, store: str, folder: Path, lines: Path, quick: bool) -> Figures:
    command = [sys.executable, "-m", "endpoint", "load", str(lines), "--store", store]
    began = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    found: Figures = {"load_s": round(time.perf_counter() - began, 2)}
    with Server(folder / f"{backend}-server", "inline", store=store) as server:
        found["queries"] = _queries(server)
    with Server(folder / f"{backend}-server", "inline", store=store) as server:
        found["updates"] = _updates(server, 300 if quick else 3_000)
        found["pushes"] = _pushes(server, 500 if quick else 8_000)
    pushes = 100 if quick else 500
    line = folder / f"{backend}-line"
    line.mkdir()
    found["push_to_emission"] = push_to_subscriber(line, "inline", pushes, f"{store}line")
    return found


def _queries(server: Server) -> Figures:
    """Cold: the first time in a server that was just started; warm: the median of twenty more."""
    found: Figures = {}
    with server.client() as client:
        for name, text in social.QUERIES.items():
            calls = _Calls(server)
            times = [_timed(partial(_ask, client, text)) for _ in range(21)]
            found[name] = {
                "cold_ms": round(times[0] * 1e3, 2),
                "warm_ms": round(statistics.median(times[1:]) * 1e3, 2),
                "calls": calls.since().get("query", 0),
            }
    return found


def _ask(client: Any, text: str) -> None:
    # A comment that differs each time: the cache of answers would answer otherwise.
    answer = client.post("/sparql", data={"query": f"{text}\n# {time.perf_counter_ns()}"})
    answer.raise_for_status()


def _timed(act: Callable[[], None]) -> float:
    began = time.perf_counter()
    act()
    return time.perf_counter() - began


def _updates(server: Server, count: int) -> Figures:
    def update(client: Any, number: int) -> None:
        text = f"INSERT DATA {{ <http://ex/u{number}> <http://ex/p> {number} }}"
        client.post("/update", data={"update": text}).raise_for_status()

    return _by(server, _WRITERS, count, update)


def _pushes(server: Server, count: int) -> Figures:
    with server.client() as client:
        client.put("/streams/bench", json={}).raise_for_status()

    def push(client: Any, number: int) -> None:
        body = f"<http://ex/s{number % 100}> <http://ex/p> {number} ."
        client.post("/streams/bench", content=body, headers=_TURTLE).raise_for_status()

    return _by(server, _PRODUCERS, count, push)


def _by(server: Server, threads: int, count: int, act: Callable[[Any, int], None]) -> Figures:
    """So many requests by so many clients, each of which sends the next when the last is answered."""
    numbers, lock = iter(range(count + threads * 5)), threading.Lock()
    times: list[float] = []

    def client_at_work(left: int) -> None:
        with server.client() as client:
            for _ in range(left):
                with lock:
                    number = next(numbers)
                times.append(_timed(partial(act, client, number)))

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(client_at_work, [5] * threads))  # connections, code that runs for the first time
        times.clear()
        calls, began = _Calls(server), time.perf_counter()
        list(pool.map(client_at_work, [count // threads] * threads))
        seconds = time.perf_counter() - began
    times.sort()
    return {
        "clients": threads,
        "per_s": round(len(times) / seconds),
        "ms_p50": round(statistics.median(times) * 1e3, 2),
        "ms_p99": round(times[int(len(times) * 0.99)] * 1e3, 2),
        "calls": calls.since(),
    }


class _Calls:
    """The calls of HBase by purpose, a time, since this was made; empty on LMDB."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._before = self._read()

    def since(self) -> dict[str, float]:
        now = self._read()
        done = {name: begun - self._before.get(name, (0, 0))[1] for name, (_, begun) in now.items()}
        return {
            name: round((calls - self._before.get(name, (0, 0))[0]) / done[name], 2)
            for name, (calls, _) in now.items()
            if done[name]
        }

    def _read(self) -> dict[str, tuple[float, float]]:
        with self._server.client() as client:
            lines = client.get("/$/metrics").text.splitlines()
        found: dict[str, dict[str, float]] = {"calls": {}, "begun": {}}
        for line in lines:
            for kind, metric in (
                ("calls", "rillet_hbase_purpose_calls_total"),
                ("begun", "rillet_hbase_purposes_total"),
            ):
                if line.startswith(metric + "{"):
                    found[kind][line.partition('purpose="')[2].partition('"')[0]] = float(line.rpartition(" ")[2])
        return {name: (calls, found["begun"][name]) for name, calls in found["calls"].items()}
