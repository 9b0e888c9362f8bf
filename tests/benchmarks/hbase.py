"""A store on HBase beside one on LMDB, in one run: queries cold and warm, updates, pushes, a window joined with a
large stored relation, and their calls.

HBase is the one of the tests: stand-alone, in one Java process on this machine, which the server shares with it."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from tests.benchmarks import hbase_store, relation, social
from tests.benchmarks.line import push_to_subscriber
from tests.benchmarks.requests import Sent
from tests.benchmarks.server import Server

Figures = dict[str, Any]
_WRITERS, _PRODUCERS = 8, 16
_TURTLE, _UPDATE = {"content-type": "text/turtle"}, {"content-type": "application/sparql-update"}
_TEXTS = 40_000
#: So long that a load of them is divided.
_LOADED = 5_000_000


def run(quick: bool) -> Figures:
    from endpoint.trial_hbase.server import HBase

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
    loads = hbase["store"]["load"]
    first, next_ = (_cold_over_lmdb(lmdb, hbase, name) for name in ("queries", "queries_of_next_server"))
    return (
        f"updates_per_s={hbase['updates']['per_s']} pushes_per_s={hbase['pushes']['per_s']} "
        f"push_to_emission_ms_p50={hbase['push_to_emission']['push_ms_p50']} "
        f"calls_per_publish={hbase['pushes']['calls']['publish']} cold_over_lmdb_max={first:.1f} "
        f"next_server_cold_over_lmdb_max={next_:.1f} "
        f"two_tasks_over_one={loads['tasks_1']['s'] / loads['tasks_2']['s']:.2f} "
        f"batch_ms={hbase['store']['batches']['new_terms_ms_p50']}"
    )


def _cold_over_lmdb(lmdb: Figures, hbase: Figures, name: str) -> float:
    return max(float(hbase[name][query]["cold_ms"] / lmdb[name][query]["cold_ms"]) for query in hbase[name])


def _of(backend: str, store: str, folder: Path, lines: Path, quick: bool) -> Figures:
    command = [sys.executable, "-m", "endpoint", "load", str(lines), "--store", store]
    began = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    found: Figures = {"load_s": round(time.perf_counter() - began, 2)}
    # The first ones are cold for HBase, too: its Java process has answered nothing like them yet.
    for name in ("queries", "queries_of_next_server"):
        with Server(folder / f"{backend}-server", "inline", store=store) as server:
            found[name] = _queries(server)
    with Server(folder / f"{backend}-server", "inline", store=store) as server:
        found["updates"] = _updates(server, 2 if quick else 15)
        found["pushes"] = _pushes(server, 2 if quick else 15)
    pushes = 100 if quick else 500
    line = folder / f"{backend}-line"
    line.mkdir()
    found["push_to_emission"] = push_to_subscriber(line, "inline", pushes, f"{store}line")
    found["relation"] = _relation(folder, f"{store}relation", 100_000 if quick else 1_000_000)
    found["store"] = hbase_store.run(folder, store, 200_000 if quick else _LOADED)
    return found


def _relation(folder: Path, store: str, mappings: int) -> Figures:
    lines = folder / "relation.nt"
    relation.write(lines, mappings)
    command = [sys.executable, "-m", "endpoint", "load", str(lines), "--store", store]
    began = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    return {"load_s": round(time.perf_counter() - began, 2), **relation.run(folder, store, mappings, 100, _Calls)}


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


def _updates(server: Server, seconds: float) -> Figures:
    """Each inserts a triple of a new subject."""
    texts = [f"INSERT DATA {{ <http://ex/u{number}> <http://ex/p> {number} }}" for number in range(_TEXTS)]
    return _by(server, _WRITERS, seconds, [("POST", "/update", _UPDATE, text) for text in texts])


def _pushes(server: Server, seconds: float) -> Figures:
    with server.client() as client:
        client.put("/streams/bench", json={}).raise_for_status()
    bodies = [f"<http://ex/s{number % 100}> <http://ex/p> {number} ." for number in range(_TEXTS)]
    return _by(server, _PRODUCERS, seconds, [("POST", "/streams/bench", _TURTLE, body) for body in bodies])


def _by(server: Server, connections: int, seconds: float, requests: list[Sent]) -> Figures:
    """By so many connections, each of which sends the next request when the last is answered. Before, a third of the
    time for the Java process of HBase, which compiles what is called often."""
    cut = len(requests) // 4
    _sent(server, connections, seconds / 3, requests[:cut])
    calls, cpu_s = _Calls(server), cpu_s_of(server.pid)
    found = _sent(server, connections, seconds, requests[cut:])
    used_s, count = cpu_s_of(server.pid) - cpu_s, found["requests_per_s"] * seconds
    if found["failed"]:
        raise AssertionError(f"{found['failed']} requests failed")
    return {
        "clients": connections,
        "per_s": found["requests_per_s"],
        "ms_p50": found["ms_p50"],
        "ms_p99": found["ms_p99"],
        "server_cpu_ms_each": round(used_s * 1e3 / count, 3),
        "calls": calls.since(),
    }


def _sent(server: Server, connections: int, seconds: float, requests: list[Sent]) -> Figures:
    command = [sys.executable, "-m", "tests.benchmarks.requests", str(server.port), str(connections), str(seconds)]
    done = subprocess.run(command, input=json.dumps(requests), stdout=subprocess.PIPE, text=True, check=True)
    found: Figures = json.loads(done.stdout)
    return found


def cpu_s_of(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


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
