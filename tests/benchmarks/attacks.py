"""Attacks on a server, one after the other, while somebody asks `ASK {}` all the time.

    status     how the attack was answered; None: it was cut off
    took_s     how long that took
    peak_mb    by how much the memory of the server and its processes was above what it was before, at most
    ask_ms     the slowest one in a hundred, and the slowest, of the ASKs meanwhile

The server has a quarter of the usual memory for a query (512 MiB). On a quiet machine p99 should be below 100 ms."""

from __future__ import annotations

import http.client
import json
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from tests.benchmarks.server import Server, tree_rss_mb
from tests.stream_ext.oneshot.attacked import EX, ROWS, TERMS
from tests.stream_ext.rdf.bombs import OF_IRIS, OF_MEMORY, OF_TIME

Figures = dict[str, Any]

_SUBJECTS = 20_000
_LOOK_S = 0.02
_TURTLE = "text/turtle"


def run(quick: bool) -> Figures:
    with tempfile.TemporaryDirectory(prefix="rillet-bench-") as name:
        flags = ("--query-bytes", "512M", "--query-timeout", "20s")
        with Server(Path(name) / "store", "inline", *flags) as server:
            _fill(server, 4_000 if quick else _SUBJECTS)
            _ask(server, 1.0, threading.Event())
            alone = _ask(server, 2.0, threading.Event())
            figures: Figures = {"alone": _observed(alone)}
            for attack, send in _attacks(server, quick).items():
                figures[attack] = _under(server, send)
                print(attack, json.dumps(figures[attack]), file=sys.stderr)
            assert b'"boolean":true' in _answer(server, "ASK {}"), "it answers after all of them"
    return figures


def summary(figures: Figures) -> str:
    attacks = [figure for name, figure in figures.items() if name != "alone"]
    answered = sum(figure["status"] is not None for figure in attacks)
    return (
        f"attacks={len(attacks)} answered={answered} peak_mb={max(figure['peak_mb'] for figure in attacks)} "
        f"ask_ms_p99_alone={figures['alone']['p99']} ask_ms_p99_max={max(f['ask_ms']['p99'] for f in attacks)}"
    )


def _attacks(server: Server, quick: bool) -> Mapping[str, Callable[[], int | None]]:
    """Those on queries, then those on parsers."""
    documents, texts = OF_MEMORY | OF_IRIS | OF_TIME, TERMS | ROWS | _long_texts()
    if quick:
        texts = {name: texts[name] for name in ("REPLACE in REPLACE", "CONCAT caught", "a hub", "VALUES of many terms")}
        documents = dict(list(documents.items())[::3])
    queries = {name: partial(_query, server, text) for name, text in texts.items()}
    graph = f"/data?graph={EX}g"
    return queries | {name: partial(_post, server, graph, *document) for name, document in documents.items()}


def _long_texts() -> dict[str, str]:
    prefix = f"PREFIX p: <{EX}{'x' * 100_000}>"
    return {
        "VALUES of many terms": f"ASK {{ VALUES ?a {{ {' '.join(map(str, range(140_000)))} }} }}",
        "a long prefix in a text": f"{prefix} ASK {{ {'?s p:a ?o . ' * 50_000} }}",
    }


# ---- a server, from outside ------------------------------------------------------------------------------------


def _fill(server: Server, subjects: int) -> None:
    lines = [f'<{EX}q> <{EX}one> "aaaaaaaa" .']
    for i in range(subjects):
        lines.append(
            f"<{EX}s{i}> <{EX}n> {i + 1} ; <{EX}m> {i + 1} ; <{EX}h> <{EX}hub> ; <{EX}k> <{EX}s{(i + 1) % subjects}> ."
        )
    status = _post(server, "/data?default", _TURTLE, "\n".join(lines).encode())
    assert status is not None and status < 300, status


def _post(server: Server, path: str, media_type: str, body: bytes) -> int | None:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=120)
    try:
        connection.request("POST", path, body, {"Content-Type": media_type, "Accept": "*/*"})
        answer = connection.getresponse()
        answer.read()
        return answer.status
    except OSError:
        return None
    finally:
        connection.close()


def _query(server: Server, text: str) -> int | None:
    kind = "update" if text.startswith("INSERT") else "query"
    return _post(server, "/sparql", f"application/sparql-{kind}", text.encode())


def _answer(server: Server, text: str) -> bytes:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=120)
    connection.request("POST", "/sparql", text, {"Content-Type": "application/sparql-query"})
    found = connection.getresponse().read()
    connection.close()
    return found


def _under(server: Server, send: Callable[[], int | None]) -> Figures:
    over, asked = threading.Event(), list[float]()
    before = sum(tree_rss_mb(server.pid).values())
    peaks = [before]

    def look() -> None:
        while not over.is_set():
            peaks.append(sum(tree_rss_mb(server.pid).values()))
            time.sleep(_LOOK_S)

    threads = [threading.Thread(target=look), threading.Thread(target=lambda: asked.extend(_ask(server, 600.0, over)))]
    for thread in threads:
        thread.start()
    began = time.perf_counter()
    try:
        status = send()
    finally:
        took_s = time.perf_counter() - began
        over.set()
        for thread in threads:
            thread.join()
    return {"status": status, "took_s": round(took_s, 2), "peak_mb": max(peaks) - before, "ask_ms": _observed(asked)}


def _ask(server: Server, seconds: float, over: threading.Event) -> list[float]:
    """The time of each answer, in milliseconds; at least of one."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=120)
    took: list[float] = []
    end = time.perf_counter() + seconds
    number = 0
    while not took or (time.perf_counter() < end and not over.is_set()):
        number += 1
        began = time.perf_counter()
        connection.request("GET", f"/sparql?query=ASK%20%7B%7D%20%23{number}", headers={"Accept": "text/csv, */*"})
        connection.getresponse().read()
        took.append((time.perf_counter() - began) * 1000)
    connection.close()
    return took


def _observed(took: list[float]) -> dict[str, float]:
    p99 = statistics.quantiles(took, n=100)[98] if len(took) > 1 else took[0]
    return {
        "asks": len(took),
        "p50": round(statistics.median(took), 2),
        "p99": round(p99, 2),
        "max": round(max(took), 1),
    }
