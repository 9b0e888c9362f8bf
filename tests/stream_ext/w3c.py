"""The W3C's SPARQL tests, where a checkout of them is at hand (folder `conformance/sparql` of RILLET_SHARED)."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pyoxigraph
import pytest

RDF_TYPE = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"
MANIFEST = "http://www.w3.org/2001/sw/DataAccess/tests/test-manifest#"
QUERY = "http://www.w3.org/2001/sw/DataAccess/tests/test-query#"

Node = pyoxigraph.NamedNode | pyoxigraph.BlankNode | pyoxigraph.Literal
Properties = dict[str, list[Node]]


def folder() -> Path:
    found = Path(os.environ.get("RILLET_SHARED", Path(__file__).parents[2].parent / "shared"), "conformance", "sparql")
    if not found.is_dir():
        if "RILLET_SHARED" in os.environ:
            pytest.fail(f"RILLET_SHARED is set, and {found} is not there")
        pytest.skip(f"THE W3C TESTS DID NOT RUN: no {found}; set RILLET_SHARED to the folder above `conformance`")
    return found


def manifests(versions: tuple[str, ...]) -> Iterator[dict[Node, Properties]]:
    """Each manifest's subjects with their properties."""
    for version in versions:
        for path in sorted((folder() / version).rglob("manifest*.ttl")):
            yield graph(path)


def graph(path: Path) -> dict[Node, Properties]:
    subjects: dict[Node, Properties] = defaultdict(lambda: defaultdict(list))
    form = pyoxigraph.RdfFormat.RDF_XML if path.suffix == ".rdf" else pyoxigraph.RdfFormat.TURTLE
    for quad in pyoxigraph.parse(path=path, format=form, base_iri=path.as_uri()):
        subjects[quad.subject][quad.predicate.value].append(quad.object)
    return subjects


def file_of(node: Node) -> Path:
    assert isinstance(node, pyoxigraph.NamedNode)
    return Path(node.value.removeprefix("file://"))


def text_of(path: Path) -> str:
    return path.read_bytes().decode()
