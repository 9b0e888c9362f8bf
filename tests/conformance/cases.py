"""The W3C's evaluation tests as plain values: which query, over which data, has which result.

A manifest is a Turtle file; what it lists under `mf:entries` are its tests. Only those count."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.stream_ext.w3c import MANIFEST, QUERY, RDF_TYPE, Node, Properties, file_of, folder, graph

_RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
_LAX = MANIFEST + "LaxCardinality"
#: The kinds of test that ask a query and compare what it answers.
_ASKING = (MANIFEST + "QueryEvaluationTest", MANIFEST + "CSVResultFormatTest")


@dataclass(frozen=True)
class Case:
    name: str  # version/folder/name, as the ignore list and pytest write it
    query: Path
    data: tuple[Path, ...]
    graphs: tuple[tuple[str, Path], ...]  # the named graphs
    services: tuple[tuple[str, Path], ...]  # the remote endpoints that the query may ask, and what each holds
    result: Path
    lax: bool  # REDUCED: how often a row comes is not said


def is_there() -> bool:
    return bool(os.environ.get("RILLET_SHARED")) or _default().is_dir()


def _default() -> Path:
    return Path(__file__).parents[2].parent / "shared" / "conformance" / "sparql"


@cache
def query_cases(version: str) -> tuple[Case, ...]:
    """Every query evaluation test of a version of SPARQL, but for those of entailment regimes."""
    found = []
    for path in sorted((folder() / version).rglob("manifest*.ttl")):
        if path.parent.name != "entailment":
            found += [case_of(version, path, subjects, node) for subjects, node in asking(path)]
    return tuple(found)


def asking(path: Path) -> Iterator[tuple[dict[Node, Properties], Node]]:
    subjects = graph(path)
    for node in entries(subjects):
        kinds = [kind.value for kind in subjects[node][RDF_TYPE]]
        if set(kinds) & set(_ASKING):
            yield subjects, node


def entries(subjects: dict[Node, Properties]) -> Iterator[Node]:
    heads = [head for properties in list(subjects.values()) for head in properties.get(MANIFEST + "entries", [])]
    for head in heads:
        while head.value != _RDF + "nil":
            (node,), (head,) = subjects[head][_RDF + "first"], subjects[head][_RDF + "rest"]
            yield node


def case_of(version: str, path: Path, subjects: dict[Node, Properties], node: Node) -> Case:
    test = subjects[node]
    action = subjects[test[MANIFEST + "action"][0]]
    services = [subjects[each] for each in action[QUERY + "serviceData"]]
    return Case(
        f"{version}/{path.parent.name}/{node.value.rpartition('#')[2]}",
        file_of(action[QUERY + "query"][0]),
        tuple(file_of(each) for each in action[QUERY + "data"]),
        tuple((each.value, file_of(each)) for each in action[QUERY + "graphData"]),
        tuple((each[QUERY + "endpoint"][0].value, file_of(each[QUERY + "data"][0])) for each in services),
        file_of(test[MANIFEST + "result"][0]),
        any(each.value == _LAX for each in test[MANIFEST + "resultCardinality"]),
    )
