"""Over HTTP: what a registered CONSTRUCT says is read as a stream and as a graph, whoever answers questions."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.endpoint.live import SPARQL_QUERY, live

BUSY = """PREFIX ex: <http://ex/>
REGISTER STREAM busy AS CONSTRUCT { ?zone ex:has ?taxi }
FROM NAMED WINDOW ex:w ON STREAM taxis [RANGE 1s STEP 1s] WHERE { WINDOW ex:w { ?taxi ex:in ?zone } }"""
OVER = """PREFIX ex: <http://ex/>
REGISTER QUERY over AS SELECT ?zone
FROM STREAM <http://ex.org/queries/busy> [RANGE 1s STEP 1s T0 0]
WHERE { ?zone ex:has ?taxi }"""
GRAPH = "GRAPH <http://ex.org/queries/busy> { ?zone <http://ex/has> ?taxi }"
#: Heavy enough for a worker.
HEAVY = f"SELECT (COUNT(*) AS ?n) {{ {GRAPH} ?a <http://ex/p> ?b . ?c <http://ex/p> ?b }}"


@pytest.mark.parametrize("workers", [0, 1])
def test_what_a_construct_says_is_read_as_a_stream_and_as_a_graph(workers: int, tmp_path: Path) -> None:
    with live(tmp_path / "store", query_workers=workers) as server:
        triples = " ".join(f"<http://ex/s{n}> <http://ex/p> {n % 2} ." for n in range(300))
        server.update(f"INSERT DATA {{ {triples} }}")
        assert server.register(BUSY).status_code == 201
        assert server.register(OVER).status_code == 201
        for time in (100, 1100, 2100):
            server.push(time).raise_for_status()
        lines = server.http.get("/queries/over/results", params={"since": 0}).text.splitlines()
        zones = [
            (e["time"], [row["zone"]["value"] for row in e["results"]["bindings"]]) for e in map(json.loads, lines)
        ]
        assert zones == [(2000, ["http://ex/z1"])]
        answer = server.http.get(
            "/sparql", params={"query": f"SELECT ?taxi {{ {GRAPH} }}"}, headers={"accept": "text/csv"}
        )
        assert answer.text.split() == ["taxi", "http://ex/t1"]
        answer = server.http.get("/sparql", params={"query": HEAVY}, headers={"accept": "text/csv"})
        assert answer.text.split() == ["n", "45000"]
        named = {"query": "SELECT ?taxi { ?zone ?p ?taxi }", "default-graph-uri": "http://ex.org/queries/busy"}
        answer = server.http.get("/sparql", params=named, headers={"accept": "text/csv"})
        assert answer.text.split() == ["taxi", "http://ex/t1"]
        assert server.http.get("/queries/busy").json()["stream"] == "busy"
        assert server.http.get("/streams/busy").json()["query"] == "busy"
        assert server.http.post("/streams/busy", content="", headers=SPARQL_QUERY).status_code in (400, 415)
        assert server.http.delete("/queries/busy").status_code == 409
