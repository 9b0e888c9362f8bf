"""Workloads for `by_turns`: each prints its CPU seconds. It runs in any checkout: it uses faces of the packages only.

python -P tests/benchmarks/workloads.py line"""

from __future__ import annotations

import http.client
import json
import os
import random
import subprocess
import sys
import tempfile
import time
import urllib.parse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

EX = "http://ex/"
NT, SPARQL = "application/n-triples", "application/sparql-query"
_TICKS = os.sysconf("SC_CLK_TCK")


@contextmanager
def service() -> Iterator[Any]:
    from stream_ext import Service
    from stream_ext.clock import SystemClock

    with (
        tempfile.TemporaryDirectory(prefix="rillet-turns-") as folder,
        Service.open(f"lmdb:{folder}/store", base=EX, clock=SystemClock(), engine="inline") as opened,
    ):
        yield opened


def zones(count: int) -> str:
    return "".join(f"<{EX}z{n}> <{EX}partOf> <{EX}c{n % 20}> . " for n in range(count))


def taxis(chance: random.Random, count: int, step: int) -> bytes:
    lines = (f"<{EX}t{chance.randrange(5000)}> <{EX}in> <{EX}z{chance.randrange(200)}> .\n" for _ in range(count))
    return f'<{EX}batch{step}> <{EX}number> "{step}" .\n'.encode() + "".join(lines).encode()


def line() -> float:
    """Pushes, a join of a window with stored data, emissions: all in one process."""
    chance = random.Random(1)
    with service() as opened:
        opened.update(f"INSERT DATA {{ {zones(200)} }}")
        opened.create_stream("taxis", {})
        opened.register(
            f"""PREFIX ex: <{EX}> REGISTER RSTREAM near AS SELECT ?taxi ?zone ?city
            FROM NAMED WINDOW ex:w ON STREAM taxis [RANGE 1s STEP 100ms]
            WHERE {{ WINDOW ex:w {{ ?taxi ex:in ?zone }} ?zone ex:partOf ?city }}"""
        )
        return measured(
            lambda step: opened.push("taxis", taxis(chance, 50, step), NT, timestamp=step * 50, wait="evaluated"), 2400
        )


def streams() -> float:
    """Queries of one template, a group, and a join of two windows."""
    chance = random.Random(2)
    with service() as opened:
        opened.update(f"INSERT DATA {{ {zones(200)} }}")
        opened.create_stream("taxis", {})
        window = "FROM NAMED WINDOW ex:w ON STREAM taxis [RANGE 10s STEP 1s]"
        for number in range(100):
            opened.register(
                f"PREFIX ex: <{EX}> REGISTER ISTREAM of{number} AS SELECT ?taxi {window} "
                f"WHERE {{ WINDOW ex:w {{ ?taxi ex:in ex:z{number} }} }}"
            )
        opened.register(
            f"PREFIX ex: <{EX}> REGISTER RSTREAM counts AS SELECT ?city (COUNT(?taxi) AS ?n) {window} "
            "WHERE { WINDOW ex:w { ?taxi ex:in ?zone } ?zone ex:partOf ?city } GROUP BY ?city"
        )
        opened.register(
            f"PREFIX ex: <{EX}> REGISTER DSTREAM pairs AS SELECT ?a ?b {window} "
            "FROM NAMED WINDOW ex:v ON STREAM taxis [RANGE 2s STEP 1s] "
            "WHERE { WINDOW ex:v { ?a ex:in ?zone } WINDOW ex:w { ?b ex:in ?zone } FILTER(?a = ?b) }"
        )
        return measured(
            lambda step: opened.push("taxis", taxis(chance, 500, step), NT, timestamp=step * 250, wait="evaluated"), 600
        )


def oneshot() -> float:
    """Questions over stored data, each text a new one."""
    chance = random.Random(3)
    people = 5000
    with service() as opened:
        for start in range(0, people, 500):
            triples = [
                f'<{EX}p{n}> <{EX}name> "person {n}" ; <{EX}age> {chance.randrange(90)} ; '
                + " ; ".join(f"<{EX}knows> <{EX}p{chance.randrange(people)}>" for _ in range(8))
                for n in range(start, start + 500)
            ]
            opened.update(f"INSERT DATA {{ {' . '.join(triples)} }}")
        texts = (
            "SELECT ?n { ex:p%d ex:knows/ex:name ?n }",
            "SELECT ?b (COUNT(*) AS ?n) { ex:p%d ex:knows ?a . ?a ex:knows ?b } GROUP BY ?b ORDER BY DESC(?n) LIMIT 10",
            "SELECT ?a ?n { ex:p%d ex:knows ?a OPTIONAL { ?a ex:name ?n } FILTER NOT EXISTS { ?a ex:knows ex:p1 } }",
            "CONSTRUCT { ?a ex:of ?x } { ?a ex:age ?x FILTER(?x > 40) } LIMIT %d",
            "ASK { ex:p%d ex:knows+ ex:p7 }",
            "SELECT DISTINCT ?x { { ex:p%d ex:age ?x } UNION { ?a ex:age ?x MINUS { ?a ex:knows ex:p2 } } }",
        )

        def ask(step: int) -> None:
            answer = opened.query(f"PREFIX ex: <{EX}> " + texts[step % len(texts)] % chance.randrange(1, people))
            columns = answer.columns if answer.graph is None else answer.graph
            for _ in opened.decoded(columns, answer):
                pass

        return measured(ask, 4000)


def http_requests() -> float:
    """CPU seconds of a server: small questions, pushes and updates over HTTP."""
    with tempfile.TemporaryDirectory(prefix="rillet-turns-") as folder:
        command = [sys.executable, "-m", "endpoint", "serve", "--engine", "inline", "--port", "0"]
        command += ["--store", f"lmdb:{folder}/store"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as server:
            try:
                port = _port_of(server)
                connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
                _request(connection, "PUT", "/streams/taxis", b"{}", "application/json")
                _request(connection, "POST", "/update", f"INSERT DATA {{ {zones(200)} }}".encode(), SPARQL_UPDATE)
                chance = random.Random(4)

                def step(number: int) -> None:
                    text = f"SELECT ?c {{ <{EX}z{chance.randrange(200)}> <{EX}partOf> ?c }}"
                    _request(connection, "GET", "/sparql?" + urllib.parse.urlencode({"query": text}))
                    if number % 4 == 0:
                        _request(connection, "POST", f"/streams/taxis?timestamp={number}", taxis(chance, 5, number), NT)

                for number in range(100):
                    step(number)
                began = _cpu_s(server.pid)
                for number in range(100, 2500):
                    step(number)
                return _cpu_s(server.pid) - began
            finally:
                server.terminate()
                server.wait(60)


SPARQL_UPDATE = "application/sparql-update"


def _port_of(server: subprocess.Popen[str]) -> int:
    assert server.stdout is not None
    for text in server.stdout:
        _, found, rest = text.partition("http://127.0.0.1:")
        if found:
            return int("".join(c for c in rest.partition("/")[0] if c.isdigit()))
    raise RuntimeError("the server has not started")


def _request(
    connection: http.client.HTTPConnection, method: str, path: str, body: bytes = b"", media_type: str = ""
) -> None:
    connection.request(method, path, body or None, {"Content-Type": media_type} if media_type else {})
    answer = connection.getresponse()
    data = answer.read()
    if answer.status >= 400:
        raise RuntimeError(f"{method} {path}: {answer.status} {data[:300]!r}")


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def measured(step: Callable[[int], object], count: int) -> float:
    """CPU seconds of all threads of this process, for `count` steps; the first quarter warms up."""
    for number in range(count // 4):
        step(number)
    began = time.process_time()
    for number in range(count // 4, count):
        step(number)
    return time.process_time() - began


WORKLOADS: dict[str, Callable[[], float]] = {
    "line": line,
    "oneshot": oneshot,
    "streams": streams,
    "http": http_requests,
}

if __name__ == "__main__":
    print(json.dumps({"cpu_s": round(WORKLOADS[sys.argv[1]](), 3)}))
