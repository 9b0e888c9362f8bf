"""The endpoint, measured from outside, with rdflib-endpoint as its peer in the same run.

    trivial    one triple by its subject and predicate, at 1 and 16 connections: the same text again and again (`same`),
               and a text that no one has asked before (`new`)
    beside     a query of a millisecond, alone and beside an aggregate over a join (`join`) or over texts (`text`, which
               holds the interpreter); with a query worker and without
    large      SELECT * of many rows: the first byte, all of them, and the memory that it took
    wrapper    SPARQLWrapper, end to end

Requests a second are of this machine and this moment; the ratios to the peer travel better."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tests.benchmarks.server import Server, free_port, tree_rss_mb

Figures = dict[str, Any]

PEOPLE = 10_000
_JSON = {"accept": "application/sparql-results+json"}
AGGREGATE = "SELECT (COUNT(?a) AS ?n) { ?a <http://ex/of> ?c . ?b <http://ex/of> ?c }"
TEXTS = (
    "SELECT (SUM(STRLEN(CONCAT(STR(?s), STR(?v)))) AS ?n) { { SELECT ?s ?v { ?s <http://ex/row> ?v } LIMIT 100000 } }"
)


def run(quick: bool) -> Figures:
    """All figures, by name."""
    figures: Figures = {}
    with tempfile.TemporaryDirectory(prefix="rillet-bench-") as name:
        folder = Path(name)
        small, large = folder / "small.nt", folder / "large.nt"
        small.write_text("".join(_people(PEOPLE)))
        rows = 100_000 if quick else 1_000_000
        large.write_text("".join(f"<http://ex/r{n}> <http://ex/row> <http://ex/v{n % 5_000}> .\n" for n in range(rows)))
        store, many = _loaded(folder / "small", small), _loaded(folder / "large", large)
        seconds = 2.0 if quick else 6.0
        parts: dict[str, Callable[[], Figures]] = {
            "trivial": partial(trivial, store, small, seconds),
            "beside": partial(beside, store, many),
            "large": partial(large_answer, many),
            "wrapper": partial(wrapper, store, small, 200 if quick else 1_000),
        }
        for part, measure in parts.items():
            print(f"{part} ...", end=" ", flush=True, file=sys.stderr)
            figures[part] = measure()
            print(json.dumps(figures[part]), file=sys.stderr)
    return figures


def summary(figures: Figures) -> str:
    """The last line: name=figure name=figure."""
    ratios, beside_, large = figures["trivial"]["over_peer"], figures["beside"], figures["large"]
    observed = {
        f"{kind}_{connections}_over_peer": ratio for kind, by in ratios.items() for connections, ratio in by.items()
    }
    for name, found in beside_.items():
        observed |= {f"beside_{name}_ms_p99": found["worker"]["beside_ms_p99"]}
    observed |= {"first_byte_ms": large["first_byte_ms"]}
    observed["wrapper_over_peer"] = figures["wrapper"]["over_peer"]
    return " ".join(f"{name}={figure}" for name, figure in observed.items())


def _people(count: int) -> Iterator[str]:
    for n in range(count):
        yield f'<http://ex/p{n}> <http://ex/name> "{n}" .\n<http://ex/p{n}> <http://ex/of> <http://ex/c{n % 3}> .\n'


def _loaded(folder: Path, file: Path) -> Path:
    command = [sys.executable, "-m", "endpoint", "load", str(file), "--store", f"lmdb:{folder}"]
    subprocess.run(command, check=True, capture_output=True)
    return folder


@contextmanager
def _peer(file: Path) -> Iterator[int]:
    """rdflib-endpoint over rdflib's memory store; its port."""
    import httpx

    port = free_port()
    process = subprocess.Popen([sys.executable, "-m", "tests.benchmarks.peer", str(port), str(file)])
    try:
        end = time.monotonic() + 60
        while True:
            try:
                httpx.get(f"http://127.0.0.1:{port}/sparql", params={"query": "ASK {}"})
                break
            except httpx.TransportError:
                if time.monotonic() > end or process.poll() is not None:
                    raise
                time.sleep(0.05)
        yield port
    finally:
        process.terminate()
        process.wait(20)


# ---- trivial -----------------------------------------------------------------------------------------------------


def _asked(texts: Sequence[str]) -> list[list[object]]:
    return [["GET", "/sparql?query=" + quote(text, safe=""), _JSON, ""] for text in texts]


SAME = ["SELECT ?o { <http://ex/p77> <http://ex/name> ?o }"]


def _new(round_: str, count: int) -> list[str]:
    """Texts that differ, for a comment makes another text: nothing of them is known before."""
    return [f"SELECT ?o {{ <http://ex/p{n % PEOPLE}> <http://ex/name> ?o }} #{round_}{n}" for n in range(count)]


def measured(port: int, connections: int, seconds: float, texts: Sequence[str]) -> Figures:
    command = [sys.executable, "-m", "tests.benchmarks.requests", str(port), str(connections), str(seconds)]
    sent = json.dumps(_asked(texts))
    done = subprocess.run(command, input=sent, capture_output=True, text=True, timeout=seconds + 60, check=True)
    figures: Figures = json.loads(done.stdout)
    assert not figures["failed"], f"{figures['failed']} answers were not 200"
    return figures


def trivial(store: Path, file: Path, seconds: float) -> Figures:
    found: Figures = {"rillet": {}, "peer": {}}
    with Server(store, "inline") as server, _peer(file) as peer:
        for name, port in (("peer", peer), ("rillet", server.port)):
            for kind in ("same", "new"):
                for connections in (1, 16):
                    texts = SAME if kind == "same" else _new(f"{name}{connections}-", 100_000)
                    measured(port, connections, 0.3, texts[-50:])
                    found[name].setdefault(kind, {})[str(connections)] = measured(port, connections, seconds, texts)
    found["over_peer"] = {
        kind: {
            connections: round(figures["requests_per_s"] / found["peer"][kind][connections]["requests_per_s"], 2)
            for connections, figures in by.items()
        }
        for kind, by in found["rillet"].items()
    }
    return found


# ---- beside ------------------------------------------------------------------------------------------------------


def beside(people: Path, rows: Path) -> Figures:
    """Of both aggregates, with a query worker and without."""
    cases = {"join": (people, AGGREGATE, _new("beside-", 100_000)), "text": (rows, TEXTS, _new_rows(100_000))}
    return {
        name: {how: _beside(*case, flags) for how, flags in (("worker", ()), ("none", ("--query-workers", "0")))}
        for name, case in cases.items()
    }


def _new_rows(count: int) -> list[str]:
    return [f"SELECT ?v {{ <http://ex/r{n % 1_000}> <http://ex/row> ?v }} #{n}" for n in range(count)]


def _beside(store: Path, aggregate: str, small: Sequence[str], flags: Sequence[str]) -> Figures:
    with Server(store, "inline", *flags) as server, server.client() as client, server.client() as other:
        server.wait_for(lambda: all(one["state"] == "ready" for one in _workers(client)), 60)
        texts = iter(small)

        def ask() -> float:
            began = time.perf_counter()
            client.get("/sparql", params={"query": next(texts)}, headers=_JSON).raise_for_status()
            return (time.perf_counter() - began) * 1e3

        def ask_aggregate(round_: int) -> float:
            began = time.perf_counter()
            other.get("/sparql", params={"query": f"{aggregate} #{round_}"}).raise_for_status()
            return time.perf_counter() - began

        alone = [ask() for _ in range(300)]
        ask_aggregate(0)  # what it reads is cached by this
        took_s: list[float] = []

        def aggregates() -> None:
            while sum(took_s) < 4:
                took_s.append(ask_aggregate(1 + len(took_s)))

        thread = threading.Thread(target=aggregates)
        thread.start()
        besides = []
        while thread.is_alive():
            besides.append(ask())
        thread.join()
    return {
        "aggregate_s": round(statistics.median(took_s), 3),
        **_times("alone", alone),
        **_times("beside", besides),
        "asked_beside": len(besides),
    }


def _workers(client: Any) -> list[dict[str, Any]]:
    workers: list[dict[str, Any]] = client.get("/$/stats").json()["query_workers"]
    return workers


def _times(name: str, times_ms: Sequence[float]) -> Figures:
    ordered = sorted(times_ms)
    return {
        f"{name}_ms_p50": round(statistics.median(ordered), 2),
        f"{name}_ms_p99": round(ordered[len(ordered) * 99 // 100], 2),
        f"{name}_ms_max": round(ordered[-1], 2),
    }


# ---- large -------------------------------------------------------------------------------------------------------


def large_answer(store: Path) -> Figures:
    with Server(store, "inline") as server, server.client() as client:
        client.get("/sparql", params={"query": "SELECT * { ?s ?p ?o } LIMIT 1"}).raise_for_status()
        figures: Figures = {}
        for kind in ("first", "again"):
            before, peak = tree_rss_mb(server.pid)["server"], 0
            began = time.perf_counter()
            rows = 0
            with client.stream(
                "GET", "/sparql", params={"query": f"SELECT * {{ ?s ?p ?o }} #{kind}"}, headers={"accept": "text/csv"}
            ) as answer:
                for number, piece in enumerate(answer.iter_raw()):
                    if not number:
                        first_ms = (time.perf_counter() - began) * 1e3
                    rows += piece.count(b"\n")
                    if number % 50 == 0:
                        peak = max(peak, tree_rss_mb(server.pid)["server"])
            took = time.perf_counter() - began
            figures = {
                "rows": rows - 1,
                "first_byte_ms": round(first_ms, 1),
                "took_s": round(took, 2),
                "rows_per_s": round(rows / took),
                "memory_grew_mb": peak - before,
            }
    return figures


# ---- SPARQLWrapper -----------------------------------------------------------------------------------------------


def wrapper(store: Path, file: Path, count: int) -> Figures:
    with Server(store, "inline") as server, _peer(file) as peer:
        ours = _wrapped(server.url + "/sparql", count)
        theirs = _wrapped(f"http://127.0.0.1:{peer}/sparql", count)
    return {"rillet_per_s": ours, "peer_per_s": theirs, "over_peer": round(ours / theirs, 2)}


def _wrapped(url: str, count: int) -> int:
    from SPARQLWrapper import JSON, SPARQLWrapper

    client = SPARQLWrapper(url)
    client.setReturnFormat(JSON)
    began = time.perf_counter()
    for text in _new("wrapped-", count):
        client.setQuery(text)
        assert len(client.queryAndConvert()["results"]["bindings"]) == 1
    return round(count / (time.perf_counter() - began))
