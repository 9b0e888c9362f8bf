"""rdflib's own semantics, against rdflib's own memory store; and what is ours: snapshots, sharing, one engine."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
import rdflib
from rdflib import RDF, XSD, BNode, Dataset, Graph, Literal, URIRef
from rdflib.compare import isomorphic
from rdflib.plugins.sparql import prepareQuery, prepareUpdate
from rdflib.term import Node

from plugin.store import RilletStore
from stream_ext.clock import SystemClock
from stream_ext.errors import BadArgument, NotAllowed, QuerySyntaxError
from stream_ext.service.service import Service

EX = rdflib.Namespace("http://ex/")
SUBJECTS: list[Node] = [EX.a, EX.b, BNode("mine"), BNode("b1")]
PREDICATES: list[Node] = [EX.p, EX.q, RDF.type]
OBJECTS: list[Node] = [
    *SUBJECTS,
    Literal("x"),
    Literal("x", lang="en-gb"),
    Literal("01", datatype=XSD.integer, normalize=False),
    Literal(1),
    Literal('line\n"two"\t\\'),
    Literal("2024-01-31T12:00:00.000Z", datatype=XSD.dateTime, normalize=False),
]
GRAPHS: list[URIRef | None] = [None, EX.g, EX.h]


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    path = f"lmdb:{tmp_path / 'store'}"
    with Service.open(path, base="http://ex/", clock=SystemClock(), engine="inline") as opened:
        yield opened


@pytest.fixture
def graph(service: Service) -> Graph:
    return Graph(store=RilletStore(service))


# ---- rdflib's semantics


def pattern(chance: random.Random) -> tuple[Node | None, Node | None, Node | None]:
    return tuple(chance.choice([None, *chance.sample(nodes, 1)]) for nodes in (SUBJECTS, PREDICATES, OBJECTS))  # type: ignore[return-value]  # three of them


def triples(found: Iterator[tuple[Node, Node, Node]]) -> list[tuple[str, ...]]:
    return sorted(tuple(node.n3() for node in triple) for triple in found)  # type: ignore[attr-defined]  # terms


def quads(dataset: Dataset, wanted: tuple[Node | None, ...]) -> list[tuple[str, ...]]:
    return sorted(tuple("" if node is None else node.n3() for node in quad) for quad in dataset.quads(wanted))  # type: ignore[arg-type, attr-defined]  # terms


@pytest.mark.parametrize("seed", range(8))
def test_a_dataset_does_what_rdflibs_own_does(seed: int, service: Service) -> None:
    chance = random.Random(seed)
    ours, theirs = Dataset(store=RilletStore(service)), Dataset()
    for _ in range(60):
        name = chance.choice(GRAPHS)
        graphs = [each.default_graph if name is None else each.graph(name) for each in (ours, theirs)]
        kind = chance.random()
        triple = (chance.choice(SUBJECTS), chance.choice(PREDICATES), chance.choice(OBJECTS))
        wanted = pattern(chance)
        for graph in graphs:
            if kind < 0.6:
                graph.add(triple)
            elif kind < 0.8:
                graph.remove(wanted)
            elif kind < 0.85:
                graph.remove(triple)
        if kind < 0.85:
            continue
        ask = pattern(chance)
        assert triples(graphs[0].triples(ask)) == triples(graphs[1].triples(ask)), seed
        # rdflib's memory store also names the other graphs of a triple that was found in the graph asked for.
        there = [quad for quad in quads(theirs, (*ask, name)) if name is None or quad[3] == name.n3()]
        assert quads(ours, (*ask, name)) == there, seed
        assert len(graphs[0]) == len(graphs[1]), seed
        assert (triple in graphs[0]) == (triple in graphs[1]), seed
    assert quads(ours, (None,) * 4) == quads(theirs, (None,) * 4), seed
    assert len(ours.store) == len(theirs.store)
    assert {graph.identifier for graph in ours.graphs()} == {graph.identifier for graph in theirs.graphs()}


def test_terms_come_back_as_they_were_given(graph: Graph) -> None:
    for term in OBJECTS:
        graph.add((EX.s, EX.p, term))
    assert {term.n3() for term in graph.objects(EX.s, EX.p)} == {term.n3() for term in OBJECTS}  # type: ignore[attr-defined]  # terms


def test_a_graph_is_parsed_into_and_serialised_from(graph: Graph) -> None:
    graph.parse(data="@prefix ex: <http://ex/> . ex:a ex:p [ ex:q 1, 'é' ] ; a ex:Thing .", format="turtle")
    copy = Graph().parse(data=graph.serialize(format="turtle"), format="turtle")
    assert isomorphic(graph, copy)
    assert len(graph) == 4
    assert "ex:Thing" in graph.serialize(format="turtle")


def test_a_blank_node_of_the_store_can_be_given_back(service: Service) -> None:
    service.update("INSERT DATA { _:x <http://ex/p> 1 }")
    [label] = [term.removeprefix(b"_:").decode() for (term,) in service.decode(service.query("SELECT ?s { ?s ?p 1 }"))]
    graph = Graph(store=RilletStore(service))
    graph.add((BNode(label), EX.q, Literal(2)))
    assert len(set(graph.subjects())) == 1
    graph.add((BNode("b999999"), EX.p, Literal(3)))  # only looks like one of the store's: a node of its own
    assert len(set(graph.subjects())) == 2
    assert graph.value(predicate=EX.p, object=Literal(3)) == BNode("b999999")


def test_a_language_tag_is_the_same_in_any_case(graph: Graph) -> None:
    graph.add((EX.s, EX.p, Literal("chat", lang="EN-gb")))
    graph.add((EX.s, EX.p, Literal("chat", lang="en-GB")))
    assert len(graph) == 1
    assert (EX.s, EX.p, Literal("chat", lang="en-gb")) in graph
    assert graph.query('ASK { ?s ?p "chat"@EN-GB }').askAnswer


def test_a_graph_that_a_blank_node_names_is_not_the_default_graph(service: Service) -> None:
    service.create_stream("s", {"timeless": True})
    data = b"<http://ex/named> <http://ex/p> <http://ex/o> _:g .\n<http://ex/default> <http://ex/p> <http://ex/o> ."
    service.push("s", data, "application/n-quads", timestamp=1)
    dataset = Dataset(store=RilletStore(service))
    assert {tuple(graph.subjects()) for graph in dataset.graphs()} == {(EX.named,), (EX.default,)}
    dataset.graph(BNode("mine")).add((EX.s, EX.p, EX.o))
    assert list(dataset.default_graph.subjects()) == [EX.default]
    assert list(dataset.graph(BNode("mine")).subjects()) == [EX.s]
    assert len(dataset.graph(BNode("other"))) == 0


@pytest.mark.parametrize(
    "triple", [(Literal("s"), EX.p, EX.o), (EX.s, BNode(), EX.o), (EX.s, Literal("p"), EX.o), (EX.s, EX.p, Graph())]
)
def test_what_is_no_rdf_is_refused(graph: Graph, triple: tuple[Node, Node, Node]) -> None:
    with pytest.raises(BadArgument):
        graph.add(triple)
    assert len(graph) == 0


# ---- snapshots


def test_adds_in_a_loop_are_one_snapshot(service: Service, graph: Graph) -> None:
    before = service.head()
    for number in range(100):
        graph.add((EX.s, EX.p, Literal(number)))
    assert service.head() == before
    graph.commit()
    assert service.head() == before + 1
    graph.add((EX.s, EX.p, EX.o))
    graph.remove((EX.s, EX.p, EX.o))
    assert len(graph) == 100
    assert service.head() == before + 2
    graph.add((EX.s, EX.p, EX.o))
    graph.rollback()
    assert len(graph) == 100


@pytest.mark.parametrize("seed", range(4))
def test_a_rollback_leaves_what_was_there_at_the_last_commit(seed: int, service: Service) -> None:
    chance = random.Random(seed)
    dataset = Dataset(store=RilletStore(service))
    committed: list[tuple[str, ...]] = []
    for _ in range(200):
        name = chance.choice(GRAPHS)
        graph = dataset.default_graph if name is None else dataset.graph(name)
        kind = chance.random()
        if kind < 0.5:
            graph.add((chance.choice(SUBJECTS), chance.choice(PREDICATES), chance.choice(OBJECTS)))
        elif kind < 0.8:
            graph.remove(pattern(chance))
        elif kind < 0.9:
            len(graph)  # a read makes visible what was said, and it can be taken back all the same
        elif kind < 0.95:
            dataset.commit()
            committed = quads(dataset, (None,) * 4)
        else:
            dataset.rollback()
            assert quads(dataset, (None,) * 4) == committed, seed


def test_an_update_commits(graph: Graph) -> None:
    graph.add((EX.a, EX.p, EX.o))
    graph.update("INSERT DATA { <http://ex/b> <http://ex/p> <http://ex/o> }")
    graph.add((EX.c, EX.p, EX.o))
    graph.rollback()
    assert set(graph.subjects()) == {EX.a, EX.b}


def test_addn_adds_all_or_nothing(graph: Graph) -> None:
    with pytest.raises(BadArgument, match="subject"):
        graph.addN([(EX.a, EX.p, EX.o, graph), (Literal(1), EX.p, EX.o, graph)])
    assert len(graph) == 0
    graph.addN((EX.a, EX.p, Literal(number), graph) for number in range(3))
    assert len(graph) == 3


@pytest.mark.parametrize("seed", range(3))
def test_choices_are_those_of_rdflibs_own_store(seed: int, service: Service) -> None:
    chance = random.Random(seed)
    ours, theirs = Graph(store=RilletStore(service)), Graph()
    for _ in range(60):
        triple = (chance.choice(SUBJECTS), chance.choice(PREDICATES), chance.choice(OBJECTS))
        ours.add(triple)
        theirs.add(triple)
    for _ in range(30):
        wanted: list[object] = list(pattern(chance))
        place = chance.randrange(3)
        nodes = (SUBJECTS, PREDICATES, OBJECTS)[place]
        wanted[place] = chance.sample(nodes, chance.randrange(len(nodes)))
        asked = tuple(wanted)
        assert triples(ours.triples_choices(asked)) == triples(theirs.triples_choices(asked)), seed  # type: ignore[arg-type]  # a list in one place
    with pytest.raises(BadArgument, match="only one"):
        list(ours.triples_choices((SUBJECTS, PREDICATES, None)))  # type: ignore[arg-type]  # what is refused


# ---- one engine


def test_queries_and_updates_are_answered_by_our_engine(graph: Graph) -> None:
    graph.bind("ex", EX)
    graph.update("INSERT DATA { ex:a ex:p 'x'@en, 5 }")
    graph.update(prepareUpdate("INSERT DATA { ex:a ex:q ex:b }", initNs={"ex": EX}))
    text = "SELECT ?o { ex:a ex:p ?o }"
    for query in (text, prepareQuery(text, initNs={"ex": EX}), "PREFIX ex: <http://ex/> " + text):
        assert {row.o for row in graph.query(query)} == {Literal("x", lang="en"), Literal(5)}  # type: ignore[union-attr]  # rows
    assert graph.query("ASK { ex:a ex:q ex:b }").askAnswer is True
    assert graph.query("ASK { ex:b ex:q ex:a }").askAnswer is False


def test_a_blank_node_that_a_query_makes_is_one_for_rdflib_too(graph: Graph) -> None:
    graph.update("INSERT DATA { <http://ex/a> <http://ex/p> 1, 2 }")
    rows = list(graph.query("SELECT (BNODE('x') AS ?one) (BNODE('x') AS ?other) (BNODE() AS ?third) { ?s ?p ?o }"))
    assert all(isinstance(node, BNode) for row in rows for node in row)  # type: ignore[union-attr]  # rows
    assert all(row.one == row.other != row.third for row in rows)  # type: ignore[union-attr]
    assert len({node for row in rows for node in row}) == 4  # type: ignore[union-attr]


def test_no_foreign_engine_answers_what_ours_does_not(graph: Graph) -> None:
    graph.add((EX.a, EX.p, EX.b))
    with pytest.raises(NotAllowed):
        graph.query("SELECT * { SERVICE <http://far/> { ?s ?p ?o } }")
    with pytest.raises(NotAllowed):
        graph.update("DELETE { ?s ?p ?o } WHERE { SERVICE <http://far/> { ?s ?p ?o } }")
    with pytest.raises(QuerySyntaxError):
        graph.query("SELECT { }")
    with pytest.raises(BadArgument, match="limit: this store does not know them"):
        graph.query("SELECT * { ?s ?p ?o }", limit=3)
    assert len(graph) == 1


def test_an_error_names_the_place_in_the_text_that_was_written(tmp_path: Path) -> None:
    graph = Graph(store="rillet")
    graph.open(str(tmp_path / "placed"))
    graph.bind("ex", "http://ex/a-long-namespace#")
    text = "SELECT ?zone { ?zone ex:partOf ex:city SERVICE ex:far { ?zone ex:in ?x } }"
    with pytest.raises(NotAllowed) as caught:
        graph.query(text)
    assert (caught.value.line, caught.value.column, caught.value.text) == (1, text.index("SERVICE") + 1, text)
    graph.close()
