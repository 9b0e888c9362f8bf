"""An rdflib Graph on a running server, by its address: rdflib's semantics; what HTTP cannot say is refused."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from rdflib import XSD, BNode, Dataset, Graph, Literal, Namespace, URIRef
from rdflib.compare import isomorphic
from rdflib.plugins.sparql import prepareQuery
from rdflib.term import Node

from endpoint.limits import HttpLimits
from plugin import server as plugin_server
from stream_ext.errors import BadArgument, QuerySyntaxError, RilletError
from tests.endpoint.live import Live, live

EX = Namespace("http://ex/")
NAMES: list[Node] = [EX.a, EX.b]
OBJECTS: list[Node] = [
    *NAMES,
    Literal(""),
    Literal(0),
    Literal("x", lang="en-gb"),
    Literal("01", datatype=XSD.integer, normalize=False),
    Literal('a\tb\n"c"\\'),
]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Live]:
    with live(tmp_path / "store") as running:
        yield running


@pytest.fixture
def graph(server: Live) -> Iterator[Graph]:
    opened = Graph(store="rillet")
    opened.open(server.url)
    yield opened
    opened.close()


def sorted_quads(dataset: Dataset, wanted: tuple[Node | None, ...]) -> list[tuple[str, ...]]:
    return sorted(tuple("" if node is None else node.n3() for node in quad) for quad in dataset.quads(wanted))  # type: ignore[arg-type, attr-defined]  # terms


@pytest.mark.parametrize("seed", range(3))
def test_a_dataset_does_what_rdflibs_own_does(server: Live, seed: int) -> None:
    chance = random.Random(seed)
    ours, theirs = Dataset(store="rillet"), Dataset()
    ours.store.open(server.url)
    for _ in range(40):
        triple = (chance.choice(NAMES), chance.choice([EX.p, EX.q]), chance.choice(OBJECTS))
        name = chance.choice([None, EX.g, EX.h])
        graphs = [each.default_graph if name is None else each.graph(name) for each in (ours, theirs)]
        wanted = tuple(chance.choice([None, node]) for node in triple)
        action = chance.choice(["add", "add", "add", "remove", "remove everywhere"])
        for each, dataset in zip(graphs, (ours, theirs), strict=True):
            if action == "add":
                each.add(triple)
            elif action == "remove":
                each.remove(wanted)
            else:
                dataset.remove((*wanted, None))
        assert [len(graphs[0]), len(ours)] == [len(graphs[1]), len(theirs)]
        assert sorted_quads(ours, (*wanted, None)) == sorted_quads(theirs, (*wanted, None))
        assert sorted(graphs[0].triples(wanted)) == sorted(graphs[1].triples(wanted))
    named = {str(each.identifier) for each in theirs.graphs() if len(each)}
    assert {str(each.identifier) for each in ours.graphs() if len(each)} == named
    ours.close()


def test_changes_gather_and_are_one_snapshot(server: Live, graph: Graph) -> None:
    before = server.service.head()
    for n in range(5):
        graph.add((EX.a, EX.p, Literal(n)))
    graph.remove((EX.a, EX.p, Literal(2)))
    assert server.service.head() == before
    graph.commit()
    assert server.service.head() == before + 1
    assert sorted(int(o) for o in graph.objects(EX.a, EX.p)) == [0, 1, 3, 4]
    graph.add((EX.b, EX.p, EX.a))
    graph.rollback()
    assert (EX.b, EX.p, EX.a) not in graph
    assert server.service.head() == before + 1


def test_what_was_emitted_is_seen_by_the_next_question(graph: Graph) -> None:
    graph.add((EX.a, EX.p, Literal("ä")))
    assert graph.query("ASK { ?s ?p 'ä' }").askAnswer is True
    graph.update("INSERT { ?s <http://ex/q> ?o } WHERE { ?s <http://ex/p> ?o }")
    assert len(graph) == 2
    found = graph.query("CONSTRUCT { <http://ex/c> <http://ex/of> ?s } WHERE { ?s <http://ex/q> ?o }")
    assert list(found.graph or ()) == [(EX.c, EX.of, EX.a)]
    assert [tuple(row) for row in graph.query("SELECT ?o ?none { ?s <http://ex/q> ?o }")] == [(Literal("ä"), None)]


def test_prefixes_bindings_and_prepared_queries(graph: Graph) -> None:
    graph.bind("ex", EX)
    graph.update("INSERT DATA { ex:a ex:p 1 . ex:b ex:p 2 }")
    rows = graph.query("SELECT ?s ?o { ?s ex:p ?o }", initBindings={"o": Literal(2)})
    assert [row.s for row in rows] == [EX.b]
    prepared = prepareQuery("SELECT ?o { ?s ex:p ?o }", initNs={"ex": EX})
    assert [row.o for row in graph.query(prepared, initBindings={"s": EX.a})] == [Literal(1)]


@pytest.mark.filterwarnings("ignore:Dataset.default_context:DeprecationWarning")  # Dataset.query's own
def test_a_named_graph_is_asked_and_written_by_itself(server: Live) -> None:
    dataset = Dataset(store="rillet")
    dataset.store.open(server.url)
    named = dataset.graph(EX.g)
    dataset.default_graph.add((EX.a, EX.p, EX.b))
    named.update("INSERT DATA { <http://ex/b> <http://ex/p> 1 }")
    assert [row.s for row in named.query("SELECT ?s { ?s ?p ?o }")] == [EX.b]
    assert [row.s for row in dataset.query("SELECT ?s { ?s ?p ?o }")] == [EX.a]
    assert [row.g for row in dataset.query("SELECT ?g { GRAPH ?g { ?s ?p ?o } }")] == [EX.g]
    dataset.remove_graph(named)
    assert (len(named), len(dataset)) == (0, 1)
    dataset.close()


def test_a_document_with_blank_nodes_arrives_whole(graph: Graph) -> None:
    text = "@prefix : <http://ex/> . :a :knows [ :name 'x' ; :knows [ :name 'y' ] ] ; :list (1 2 3) ."
    graph.parse(data=text)
    assert isomorphic(graph, Graph().parse(data=text))
    assert [int(item) for item in graph.items(graph.value(EX.a, EX.list))] == [1, 2, 3]  # type: ignore[call-overload]  # literals


def test_what_is_too_long_for_one_text_arrives_in_pieces(
    server: Live, graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plugin_server, "_TEXT_CHARACTERS", 2_000)
    monkeypatch.setattr(plugin_server, "_BODY_BYTES", 4_000)
    for n in range(300):
        graph.add((EX[f"s{n}"], EX.p, Literal(n)))
    for n in range(100):
        graph.remove((EX[f"s{n}"], EX.p, Literal(n)))
    graph.remove((None, None, Literal(200)))
    assert len(graph) == 199
    assert sum(int(o) for o in graph.objects()) == sum(range(100, 300)) - 200


def test_what_no_request_can_say_is_refused(graph: Graph) -> None:
    node = BNode()
    graph.add((node, EX.p, Literal(1)))
    assert len(graph) == 1
    (there,) = graph.subjects(EX.p)
    for refused in (
        lambda: graph.add((node, EX.p, Literal(2))),
        lambda: graph.add((there, EX.p, Literal(2))),
        lambda: graph.remove((there, EX.p, Literal(1))),
        lambda: graph.remove((there, None, None)),
        lambda: graph.query("ASK { ?s ?p ?o }", initBindings={"s": there}),
    ):
        with pytest.raises(BadArgument, match="blank node"):
            refused()
    assert len(graph) == 1
    graph.remove((None, EX.p, None))
    assert len(graph) == 0


def test_all_graphs_together_are_not_asked_over_http(server: Live) -> None:
    dataset = Dataset(store="rillet", default_union=True)
    dataset.store.open(server.url)
    with pytest.raises(BadArgument, match="default_union"):
        dataset.query("SELECT * { ?s ?p ?o }")
    dataset.close()


def test_the_servers_errors_are_reported(graph: Graph) -> None:
    with pytest.raises(QuerySyntaxError, match="line 1"):
        graph.query("SELECT ?s { ?s ?p")
    with pytest.raises(BadArgument, match="SERVICE is off"):
        graph.query("SELECT ?s { SERVICE <http://far/> { ?s ?p ?o } }")


def test_a_refused_change_is_not_forgotten(tmp_path: Path) -> None:
    with live(tmp_path / "small", limits=HttpLimits(text_bytes=300)) as server:
        graph = Graph(store="rillet")
        graph.open(server.url)
        graph.add((EX.a, EX.p, Literal("x" * 500)))
        with pytest.raises(BadArgument, match="413"):
            graph.commit()
        graph.rollback()
        graph.close()


def test_a_token_goes_with_the_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with live(tmp_path / "guarded", token="secret") as server:
        graph = Graph(store="rillet")
        graph.open(server.url)
        graph.add((EX.a, EX.p, EX.b))
        with pytest.raises(BadArgument, match="RILLET_TOKEN"):
            graph.commit()
        graph.rollback()
        graph.close()
        graph.open(server.url.replace("http://", "http://:secret@") + "/sparql")
        graph.add((EX.a, EX.p, EX.b))
        assert len(graph) == 1
        graph.close()


def test_what_is_no_server_is_reported_at_once() -> None:
    graph = Graph(store="rillet")
    with pytest.raises(RilletError, match=r"no server answers at http://127\.0\.0\.1:1 "):
        graph.open("http://127.0.0.1:1")
    with pytest.raises(BadArgument, match="is not the address"):
        graph.open("http://:x")
    with pytest.raises(BadArgument, match="DROP ALL"):
        graph.destroy("http://127.0.0.1:1")


def test_the_address_of_another_endpoint_is_distinguished_from_ours(server: Live) -> None:
    with pytest.raises(BadArgument, match="SPARQLUpdateStore"):
        Graph(store="rillet").open(f"{server.url}/elsewhere")


def test_types_of_terms_come_back_as_they_were(graph: Graph) -> None:
    for node in OBJECTS:
        graph.add((EX.a, EX.p, node))
    assert sorted(node.n3() for node in graph.objects()) == sorted(node.n3() for node in OBJECTS)  # type: ignore[attr-defined]  # terms
    assert URIRef("http://ex/a") in set(graph.objects())
    assert list(graph.triples_choices((None, EX.p, [Literal(""), Literal(0)]))) != []
    assert len(list(graph.triples((None, None, Literal(""))))) == 1
