"""A window joined with a large stored relation: which person each tag belongs to, asked for the tags of each push.

The tags are drawn at random from all there are, so at first each one lies in a block that was not read yet; later all
blocks are in memory. The answers are compared with the formula that the relation was made by."""

from __future__ import annotations

import json
import random
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.benchmarks.line import subscriber
from tests.benchmarks.server import Server

Figures = dict[str, Any]
_TAGS = 100  # of a push
_QUERY = """PREFIX ex: <http://ex/>
REGISTER RSTREAM near AS SELECT ?tag ?person
FROM NAMED WINDOW ex:w ON STREAM seen [RANGE 100ms STEP 100ms]
WHERE { WINDOW ex:w { ?tag ex:at ?door } ?tag ex:owner ?person }"""


def write(path: Path, mappings: int) -> None:
    with path.open("w") as out:
        out.writelines(_lines(mappings))


def _lines(mappings: int) -> Iterator[str]:
    for tag in range(mappings):
        yield f"<http://ex/tag{tag}> <http://ex/owner> <http://ex/person{owner(tag, mappings)}> .\n"


def owner(tag: int, mappings: int) -> int:
    return tag * 7919 % (mappings // 5)


def run(folder: Path, store: str, mappings: int, pushes: int, calls: Callable[[Server], Any]) -> Figures:
    """`calls` counts the calls of the store for each purpose from when it is called; its `since` says how many."""
    began = time.perf_counter()
    with Server(folder / "relation", "inline", store=store) as server:
        ready_s = time.perf_counter() - began
        first = _timed(server, _lookup(0))
        client = server.client()
        client.post("/queries", content=_QUERY, headers={"content-type": "application/sparql-query"}).raise_for_status()
        chance, start_ms = random.Random(mappings), time.time_ns() // 10**8 * 100
        with subscriber(server) as arrived:
            times: list[float] = []
            counted = calls(server)
            for number in range(2 + pushes):
                tags = chance.sample(range(mappings), _TAGS)
                body = "".join(f"<http://ex/tag{tag}> <http://ex/at> <http://ex/door> .\n" for tag in tags)
                # The evaluation at the end of the window before is due with this push, and has its tags.
                began = time.perf_counter()
                client.post(
                    "/streams/seen", params={"timestamp": start_ms + 100 * number}, content=body,
                    headers={"content-type": "application/n-triples"},
                ).raise_for_status()  # fmt: skip
                if number:
                    times.append(arrived.wait_for(start_ms + 100 * number, 60) - began)
                    assert arrived.rows(start_ms + 100 * number) == _TAGS
            of_calls = counted.since()
        _check(client, mappings)
    return {
        "mappings": mappings,
        "ready_s": round(ready_s, 2),
        "first_lookup_ms": round(first * 1e3, 1),
        "tags_of_a_push": _TAGS,
        "ms": [round(each * 1e3, 1) for each in times[:10]],
        "ms_p50_of_first_10": round(statistics.median(times[:10]) * 1e3, 1),
        "ms_p50_of_last_half": round(statistics.median(times[len(times) // 2 :]) * 1e3, 1),
        "calls": of_calls,
    }


def _lookup(tag: int) -> str:
    return f"SELECT ?person {{ <http://ex/tag{tag}> <http://ex/owner> ?person }}"


def _timed(server: Server, text: str) -> float:
    with server.client() as client:
        began = time.perf_counter()
        client.post("/sparql", data={"query": text}).raise_for_status()
        return time.perf_counter() - began


def _check(client: Any, mappings: int) -> None:
    """The first emission is what the relation says."""
    answer = client.get("/queries/near/results", params={"since": 0, "limit": 1})
    answer.raise_for_status()
    rows = json.loads(answer.text.splitlines()[0])["results"]["bindings"]
    for row in rows:
        tag, person = (int("".join(filter(str.isdigit, row[name]["value"]))) for name in ("tag", "person"))
        assert person == owner(tag, mappings), (tag, person)
    assert len(rows) == _TAGS
