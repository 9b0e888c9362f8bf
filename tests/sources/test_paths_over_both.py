"""A path over the source main and our own store is followed step by step: only edges of nodes that it comes to are
asked for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

import hbase_store
from hbase_store import Store
from stream_ext.remote.endpoint_source import SparqlEndpointSource
from stream_ext.remote.source import SourceSettings
from stream_ext.remote.sources import Sources
from tests.sources.scripted import Scripted, scripted
from tests.sources.test_shapes_over_both import asked, asked_of, loaded

EX = "http://ex/"
_LENGTH = 30


def edge(start: str, end: str, predicate: str = "p") -> str:
    return f"<{EX}{start}> <{EX}{predicate}> <{EX}{end}> .\n"


def in_graph(triple: str, graph: str) -> str:
    return triple.replace(" .", f" <{EX}{graph}> .")


#: A chain whose edges are in the source and here by turns, some in both; and a store full of other edges.
CHAIN = [edge(f"n{i}", f"n{i + 1}") for i in range(_LENGTH)]
THEIRS = "".join(CHAIN[::2]) + edge("n5", "side", "q") + "".join(edge(f"a{i}", f"b{i}") for i in range(2_000))
OWN = "".join(each for i, each in enumerate(CHAIN) if i % 2 or i % 6 == 0)


@pytest.fixture
def source() -> Iterator[Scripted]:
    with scripted() as running:
        running.add(THEIRS)
        yield running


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Store]:
    with closing(hbase_store.open(f"lmdb:{tmp_path / 'own'}", folding=False)) as store:
        loaded(store, OWN.encode(), "application/n-triples")
        yield store


@pytest.mark.parametrize(
    "path",
    [
        f"<{EX}n20> <{EX}p>+ ?x",
        f"<{EX}n22> <{EX}p>* ?x",
        f"?x <{EX}p>+ <{EX}n7>",
        f"<{EX}n0> <{EX}p>/<{EX}p>/<{EX}p> ?x",
        f"<{EX}n3> (<{EX}p>|^<{EX}p>)? ?x",
        f"<{EX}n3> <{EX}p>+ <{EX}n9> BIND(1 AS ?x)",
        f"<{EX}n5> <{EX}p>?/<{EX}q> ?x",
        f"<{EX}n4> !<{EX}q> ?x",
        f"VALUES ?s {{ <{EX}n2> <{EX}n25> <{EX}nowhere> }} ?s <{EX}p>? ?x",
    ],
)
def test_only_edges_of_nodes_on_the_way_are_asked_for(source: Scripted, own: Store, path: str) -> None:
    with closing(SparqlEndpointSource(SourceSettings("main", source.url), 20.0)) as endpoint:
        endpoint.traits  # noqa: B018  probed: what is asked from now on are edges
        source.texts.clear()
        found = asked(own, f"SELECT ?x {{ {path} }}", Sources([endpoint], EX))
        texts = [*source.texts]
    received = sum(len(list(source.store.query(text))) for text in texts)  # type: ignore[arg-type]
    source.add(OWN)
    expected = asked_of(source.store, f"SELECT ?x {{ {path} }}")
    assert sorted(found.rows, key=str) == sorted(expected.rows, key=str)
    assert found.rows and received <= 60, "of some two thousand edges"


@pytest.mark.parametrize(
    "path",
    [
        f"GRAPH ?g {{ <{EX}n20> <{EX}p>+ ?x }}",
        f"GRAPH ?g {{ ?x <{EX}p>+ <{EX}n7> }}",
        f"VALUES ?s {{ <{EX}n22> <{EX}nowhere> <{EX}a7> }} GRAPH ?g {{ ?s <{EX}p>* ?x }}",
        f"VALUES ?s {{ <{EX}n2> <{EX}only> }} GRAPH ?g {{ ?s (<{EX}p>/^<{EX}p>)? ?x }}",
        f"VALUES ?s {{ <{EX}n5> <{EX}n8> }} GRAPH ?g {{ ?s !<{EX}p> ?x }}",
        f"GRAPH <{EX}g1> {{ <{EX}n20> <{EX}p>* ?x }}",
        f"{{ GRAPH <{EX}none> {{ <{EX}n20> <{EX}p>* ?x }} }} UNION {{ GRAPH <{EX}g3> {{ <{EX}a7> <{EX}p>* ?x }} }}",
    ],
)
def test_so_it_is_in_each_graph(source: Scripted, own: Store, path: str) -> None:
    """A chain in the graphs g1 and g2, of which g2 has every third edge only; and all others in g3, which is theirs."""
    theirs = "".join(in_graph(each, "g1") for each in CHAIN[::2]) + in_graph(edge("n5", "side", "q"), "g2")
    theirs += "".join(in_graph(each, "g3") for each in [edge("only", "n1"), *THEIRS.splitlines(True)[-2_000:]])
    mine = "".join(in_graph(each, "g1") for each in CHAIN[1::2]) + "".join(in_graph(c, "g2") for c in CHAIN[::3])
    source.add(theirs)
    loaded(own, mine.encode(), "application/n-quads")
    text = f"SELECT ?g ?x {{ {{ {path} }} }}"
    with closing(SparqlEndpointSource(SourceSettings("main", source.url), 20.0)) as endpoint:
        endpoint.traits  # noqa: B018
        source.texts.clear()
        found = asked(own, text, Sources([endpoint], EX))
        texts = [*source.texts]
    received = sum(len(list(source.store.query(text))) for text in texts)  # type: ignore[arg-type]
    source.add(mine)
    assert sorted(found.rows, key=str) == sorted(asked_of(source.store, text).rows, key=str)
    assert found.rows and received <= 80, "of some two thousand edges"


@pytest.mark.parametrize(("whole_rows", "most"), [(100, 300), (5_000, 2_100)])
def test_a_long_way_is_walked_to_its_end_unless_all_edges_are_few(
    source: Scripted, own: Store, whole_rows: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stream_ext.network.operators.paths.source_edges.WHOLE_ROWS", whole_rows)
    text = f"SELECT ?x {{ <{EX}n0> <{EX}p>+ ?x }}"
    with closing(SparqlEndpointSource(SourceSettings("main", source.url), 20.0)) as endpoint:
        endpoint.traits  # noqa: B018
        source.texts.clear()
        found = asked(own, text, Sources([endpoint], EX))
        texts = [*source.texts]
    received = sum(len(list(source.store.query(text))) for text in texts)  # type: ignore[arg-type]
    assert len(found.rows) == _LENGTH and received <= most
    assert (len(texts) > _LENGTH) == (whole_rows == 100), "one question a round, and one whether all are few"


def test_a_path_from_everywhere_asks_for_all_edges_at_once(source: Scripted, own: Store) -> None:
    text = f"SELECT (COUNT(*) AS ?n) {{ ?x <{EX}p>+ ?y }}"
    with closing(SparqlEndpointSource(SourceSettings("main", source.url), 20.0)) as endpoint:
        endpoint.traits  # noqa: B018
        source.texts.clear()
        found = asked(own, text, Sources([endpoint], EX))
    assert len(source.texts) == 1
    source.add(OWN)
    assert found.rows == asked_of(source.store, text).rows
