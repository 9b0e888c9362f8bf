"""Killed after any push and opened again: the same emissions, and the same elements are late.

A copy of the folder of a running service is what a killed process leaves: what it has acknowledged, and of the states
of its queries only what is stored by then."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any

import pytest

from stream_ext.clock import ManualClock
from stream_ext.service.service import Service
from tests.stream_ext.opened import EX, emissions_of, open_service, push_lines, triple, values

RSP = "FROM NAMED WINDOW :w ON s [{}] WHERE {{ WINDOW :w {{ ?a :p ?b }} }}"
OF_T = "FROM NAMED WINDOW :v ON t [{}] WHERE {{ WINDOW :w {{ ?a :p ?b }} WINDOW :v {{ ?c :p ?b }} }}"
SLIDING = "RANGE PT0.02S STEP PT0.01S"
QUERIES = [
    "QUERY q AS SELECT ?a FROM STREAM s [RANGE 20ms STEP 10ms] WHERE { ?a :p ?b }",
    "QUERY q AS SELECT ?a FROM STREAM s [RANGE 20ms STEP 10ms LATENESS 15ms] FROM STREAM t [RANGE 10ms] { ?a :p ?b }",
    "ISTREAM q AS SELECT ?a " + RSP.format("RANGE PT0.02S STEP PT0.03S"),
    "ISTREAM q AS SELECT ?a " + RSP.format(SLIDING + " REPORT CONTENT_CHANGE"),
    "ISTREAM q AS SELECT ?a " + RSP.format(SLIDING + " REPORT CONTENT_CHANGE, WINDOW_CLOSE, NON_EMPTY_CONTENT"),
    f"DSTREAM q AS SELECT ?a FROM NAMED WINDOW :w ON s [{SLIDING}] " + OF_T.format("ELEMENTS 2"),
    "DSTREAM q AS SELECT ?a FROM NAMED WINDOW :w ON s [TRIPLES 3 STEP 2] " + OF_T.format("ALL"),
    "QUERY q AS SELECT ?a { STREAM s [RANGE 20ms SLIDE 10ms] { ?a :p ?b } STREAM t [RANGE 15ms] { ?c :p ?b } }",
    "QUERY q COMPUTED EVERY 10ms AS SELECT RSTREAM ?a { STREAM s [RANGE 20ms] { ?a :p ?b } }",
    "QUERY q AS SELECT ?a { STREAM s [NOW-20ms TO NOW-5ms] { ?a :p ?b } }",
    "QUERY q AS SELECT (COUNT(*) AS ?n) { STREAM s [ALL] { ?a :p ?b } STREAM t [NOW] { ?c :p ?b } }",
    "QUERY q AS SELECT RSTREAM ?a { STREAM s [TRIPLES 4] { ?a :p ?b } } LIMIT 2",
    "QUERY q AS CONSTRUCT { ?a :p ?b } { STREAM s [ELEMENTS 3 STEP 2] { ?a :p ?b } }",
]


@pytest.mark.parametrize("seed", range(len(QUERIES)))
def test_a_query_goes_on_as_if_it_had_never_been_killed(seed: int, tmp_path: Path) -> None:
    assert lived(tmp_path / "killed", seed, True) == lived(tmp_path / "calm", seed, False), QUERIES[seed]


@pytest.mark.soak
@pytest.mark.parametrize("block", range(20))
def test_hundreds_of_queries_go_on_as_if_they_had_never_been_killed(block: int, tmp_path: Path) -> None:
    for seed in range(1_000 + block * 50, 1_000 + block * 50 + 50):
        folder = tmp_path / str(seed)
        assert lived(folder / "killed", seed, True) == lived(folder / "calm", seed, False), f"seed {seed}"
        shutil.rmtree(folder)


def lived(folder: Path, seed: int, is_killed: bool) -> tuple[list[int], list[dict[str, Any]], list[Any]]:
    """How many elements of each push were late, the emissions, and the late elements."""
    chance, kills, clock = random.Random(seed), random.Random(-seed), ManualClock(1_000_000)
    folder.mkdir(parents=True)
    current = folder / "0"
    service, text = open_service(current, clock), QUERIES[seed % len(QUERIES)]
    options = {"lateness": f"{chance.choice([0, 0, 8])}ms", **({"idle": "1h"} if chance.random() < 0.25 else {})}
    service.create_stream("s", options)
    service.create_stream("t", {})
    service.register(f"PREFIX : <{EX}> REGISTER {text}")
    if "CONSTRUCT" in text:
        service.register(f"PREFIX : <{EX}> REGISTER QUERY over AS SELECT ?a {{ STREAM q [TRIPLES 2] {{ ?a :p ?b }} }}")
    late, now = list[int](), chance.randrange(-50, 50)
    for place in range(14):
        stream = chance.choice("sst")
        if chance.random() < 0.12:
            now += chance.randrange(30)
            late.append(service.heartbeat(stream, now, wait="evaluated").late)
        else:
            elements = []
            for _ in range(chance.randrange(1, 4)):
                now += chance.choice([0, 0, 1, 4, 9, 25])
                data = triple(f"n{chance.randrange(4)}", f"k{chance.randrange(2)}")
                elements.append({"timestamp": now - chance.choice([0, 0, 0, 3, 12, 40]), "data": data})
            late.append(push_lines(service, stream, *elements).late)
        if kills.random() < 0.5 and is_killed:
            current, killed = folder / str(place + 1), current
            shutil.copytree(killed, current)
            service.close()
            service = open_service(current, clock)
    service.update("INSERT DATA { <urn:a> <urn:b> 1 }", wait="evaluated")
    late_ones = [[each["data"] for each in service.late_elements(stream)["elements"]] for stream in "st"]
    found = late, _emitted(service), late_ones
    service.close()
    return found


def _emitted(service: Service) -> list[dict[str, Any]]:
    found = []
    for query in service.queries():
        for emission in emissions_of(service, query.name):
            del emission["snapshot"]
            shown = sorted(emission.pop("graph").splitlines()) if "graph" in emission else values(emission)
            found.append({**emission, "results": shown})
    return found
