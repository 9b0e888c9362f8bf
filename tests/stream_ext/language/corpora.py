"""Query texts of others, where a folder of them is at hand (`data` and `bench` of RILLET_SHARED)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

#: Texts that are at fault themselves: what is wrong with each, as our message says it.
FAULTS = {
    "data/citybench/rspql_query/csparql2/q12.rspql": "?p is neither a key of GROUP BY nor inside an aggregate",
    "data/citybench/rspql_query/yasper/Q2.rspql": "found '>' (it closes an IRI",  # observedBy>
    "data/citybench/rspql_query/yasper/Q9.rspql": "found '>' (it closes an IRI",
    "data/citybench/rspql_query/yasper/pollution_weather_1.txt": "found '>' (it closes an IRI",
    "data/citybench/rspql_query/yasper/Q7.rspql": "expected ON and the stream",  # ONses:AarhusParkingData...
    "data/citybench/rspql_query/yasper/location_parking_1.txt": "found 'ELECT'",
    "data/lsbench/queries/csparql_squall/query4.csparql": "expected a stream",  # <{TEST_FILE}>
    "data/lsbench/queries/csparql_squall/query9_sib_explore.csparql": "expected a stream",
    "data/lsbench/queries/rspql_yasper/q2.rspql": "?post is neither a key of GROUP BY nor inside an aggregate",
    "data/lsbench/queries/rspql_yasper/q3.rspql": "?post is neither a key of GROUP BY nor inside an aggregate",
    "data/srbench/queries_rspql/q1.sparql": "expected a length after STEP",  # [RANGE 1h STEP]
    "data/srbench/queries_rspql/q2.sparql": "expected a length after STEP",
    "data/srbench/queries_rspql/q4.sparql": "expected a length after STEP",
    "data/srbench/queries_rspql/q5.sparql": "expected a length after STEP",
    "data/srbench/queries_rspql/q10.sparql": "expected a length after STEP",
}

_FOLDERS = (
    "data/citybench/cqels_query",
    "data/citybench/csparql_query",
    "data/citybench/rspql_query",
    "data/conference/queries",
    "data/lsbench/queries",
    "data/srbench",
    "bench/lsbench",
    "bench/social",
)
_ENDINGS = frozenset({".txt", ".rspql", ".sparql", ".cqels", ".csparql", ".rq"})  # .rif is another language


def shared() -> Path:
    """The folder of shared data; the test that asks for it is skipped, loudly, where there is none."""
    root = Path(os.environ.get("RILLET_SHARED", Path(__file__).parents[3].parent / "shared"))
    if not (root / "data").is_dir():
        if "RILLET_SHARED" in os.environ:
            pytest.fail(f"RILLET_SHARED is set, and {root / 'data'} is not there")
        pytest.skip(f"THE TEXTS OF OTHERS WERE NOT READ: no {root}; set RILLET_SHARED to the folder above `data`")
    return root


def texts() -> Iterator[tuple[str, str]]:
    """Each text with its path below the shared folder."""
    root = shared()
    for folder in _FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in _ENDINGS:
                yield str(path.relative_to(root)), path.read_text()
