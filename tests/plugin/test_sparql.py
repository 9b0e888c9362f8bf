"""`query` and `update` with all that rdflib says beside the text, against rdflib's own evaluator over its own store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rdflib import BNode, Dataset, Graph, Literal, Namespace, URIRef
from rdflib.plugins.sparql import prepareQuery, prepareUpdate
from rdflib.query import Result
from rdflib.term import Node

from stream_ext.errors import BadArgument

EX = Namespace("http://ex/")
DATA = """@prefix : <http://ex/> .
:a :p 1, 2 ; :q :b . :b :p 2 ; :q :c . :c :p 3 ; :k [ :p 9 ] .
:g { :a :p 5 . :z :p 6 }
:h { :a :p 1 . :y :q :a }"""

#: What an update does is seen by asking for this.
ALL = "SELECT * { GRAPH ?g { ?s ?p ?o } }"

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of rdflib, about its own Dataset


class Both:
    """Our Dataset and rdflib's, with the same in them."""

    def __init__(self, path: Path, union: bool) -> None:
        self.ours = Dataset(store="rillet", default_union=union)
        self.ours.open(str(path))
        self.theirs = Dataset(default_union=union)
        for each in (self.ours, self.theirs):
            each.parse(data=DATA, format="trig")
            each.bind("ex", EX)

    def asked(self, where: str) -> tuple[Graph, Graph]:
        if where == "dataset":
            return self.ours, self.theirs
        if where == "default":
            return self.ours.default_graph, self.theirs.default_graph
        return self.ours.graph(EX[where]), self.theirs.graph(EX[where])


@pytest.fixture(params=[False, True], ids=["default", "union"])
def both(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Both]:
    made = Both(tmp_path / "store", request.param)
    yield made
    made.ours.close()


def observed(result: Result) -> Any:
    """A result without order, and without the labels of blank nodes."""
    if result.type == "ASK":
        return result.askAnswer
    if result.graph is not None:
        return sorted(tuple(map(text, triple)) for triple in result.graph)
    assert result.vars is not None
    return sorted((tuple(text(row[name]) for name in sorted(result.vars)) for row in result), key=str)  # type: ignore[index, misc]  # rows


def text(node: Node | None) -> str:
    return "" if node is None else "_" if isinstance(node, BNode) else node.n3()  # type: ignore[attr-defined]  # a term


# ---- which graph is asked


@pytest.mark.parametrize("where", ["dataset", "default", "g", "nowhere"])
@pytest.mark.parametrize(
    "query",
    [
        "SELECT * { ?s ?p ?o }",
        "SELECT (COUNT(*) AS ?n) { ?s ex:p ?o }",
        "SELECT ?s (SUM(?o) AS ?n) { ?s ex:p ?o } GROUP BY ?s",
        "SELECT ?s (?o + 1 AS ?n) { ?s ex:p ?o } ORDER BY ?n",
        "SELECT * { ?s ex:p ?o OPTIONAL { ?s ex:q ?t } }",
        "SELECT ?s { ?s ex:p ?o FILTER NOT EXISTS { ?s ex:q ?t } }",
        "ASK { ex:y ex:q ex:a }",
        "CONSTRUCT { [] ex:had ?o } { ?s ex:p ?o }",
        "CONSTRUCT WHERE { ?s ex:p ?o }",
        "DESCRIBE ex:a",
    ],
)
def test_a_question_is_answered_by_the_graph_that_it_was_put_to(query: str, where: str, both: Both) -> None:
    ours, theirs = (graph.query(query, initNs={"ex": EX}) for graph in both.asked(where))
    assert ours.type == theirs.type
    assert observed(ours) == observed(theirs)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * { GRAPH ?g { ?s ?p ?o } }",
        "SELECT * { ?s ex:p ?o GRAPH ?g { ?s ex:p ?n } }",
        "ASK { GRAPH ex:h { ?s ex:q ?o } }",
    ],
)
def test_named_graphs_are_seen_wherever_one_asks(query: str, both: Both) -> None:
    ours, theirs = (dataset.query(query, initNs={"ex": EX}) for dataset in both.asked("dataset"))
    assert observed(ours) == observed(theirs)
    # rdflib itself has no named graphs to show where one graph is asked.
    assert observed(both.ours.graph(EX.g).query("SELECT * { GRAPH ?g { ?s ?p ?o } }")) == observed(both.ours.query(ALL))


def test_a_text_that_names_its_dataset_is_given_no_other(both: Both) -> None:
    query = "SELECT ?o FROM ex:h { ex:a ex:p ?o }"
    assert observed(both.ours.graph(EX.g).query(query)) == observed(both.ours.query(query)) == [(text(Literal(1)),)]


# ---- values of variables


@pytest.mark.parametrize("where", ["dataset", "g"])
@pytest.mark.parametrize(
    ("query", "bindings"),
    [
        ("SELECT ?s ?o { ?s ex:p ?o }", {"s": EX.a}),
        ("SELECT ?o { ?s ex:p ?o FILTER(?o > ?m) }", {"m": Literal(1)}),
        ("SELECT ?x { ?x ex:q ?y FILTER EXISTS { ?y ex:p ?v } }", {"v": Literal(2)}),
        ("SELECT ?x { ?x ex:q ?y FILTER NOT EXISTS { ?y ex:p ?v } }", {"v": Literal(2)}),
        ("SELECT ?x { { ?x ex:p ?v } UNION { ?x ex:q ?v } }", {"v": EX.b}),
        ("SELECT ?x ?v { ?x ex:p ?v MINUS { ?x ex:q ?w } }", {"w": EX.b}),
        ("SELECT ?x { ?x ex:q ?y { SELECT ?y { ?y ex:p ?v FILTER(?v >= ?k) } } }", {"k": Literal(2)}),
        ("SELECT ?s (COUNT(*) AS ?n) { ?s ex:p ?o } GROUP BY ?s", {"s": EX.a}),
        ("SELECT ?s ?x { ?s ex:p ?o }", {"x": Literal("hi", lang="en")}),
        ("SELECT ?s { ?s ?p ?o }", {"p": EX.q, "o": EX.b}),
        ("ASK { ?s ex:p ?o }", {"s": EX.nobody}),
        ("CONSTRUCT { ?s ex:r ?o } { ?s ex:p ?o }", {"s": EX.a}),
        ("CONSTRUCT WHERE { ?s ex:p ?o }", {"s": EX.a}),
    ],
)
def test_a_variable_that_is_bound_beforehand_is_its_value_everywhere(
    query: str, bindings: dict[str, URIRef | Literal], where: str, both: Both
) -> None:
    for asked in (query, prepareQuery(query, initNs={"ex": EX})):
        ours, theirs = (graph.query(asked, initNs={"ex": EX}, initBindings=bindings) for graph in both.asked(where))
        assert observed(ours) == observed(theirs)


def test_a_graph_can_be_a_variable_that_is_bound(both: Both) -> None:
    ours, theirs = (dataset.query(ALL, initBindings={"g": EX.h}) for dataset in both.asked("dataset"))
    assert observed(ours) == observed(theirs)
    assert len(observed(ours)) == 2


def test_a_blank_node_can_be_asked_about(both: Both) -> None:
    graph = both.ours.default_graph
    [blank] = graph.objects(EX.c, EX.k)
    assert observed(graph.query("SELECT ?v { ?b ex:p ?v }", initBindings={"b": blank})) == [(text(Literal(9)),)]  # type: ignore[dict-item]  # a blank node
    stranger = BNode("nobody")
    assert observed(graph.query("SELECT ?v { ?b ex:p ?v }", initBindings={"b": stranger})) == []
    [row] = graph.query("SELECT ?b { ex:c ex:p ?v }", initBindings={"b": stranger})
    assert row.b == stranger  # type: ignore[union-attr]  # a row


def test_prefixes_that_rdflib_knows_need_no_declaration(both: Both) -> None:
    both.ours.default_graph.add((EX.a, URIRef("http://www.w3.org/2000/01/rdf-schema#label"), Literal("A")))
    assert observed(both.ours.query("SELECT ?l { ex:a rdfs:label ?l }", initNs={"ex": EX})) == [('"A"',)]
    assert observed(both.ours.query("SELECT ?l { <a> rdfs:label ?l }", base="http://ex/")) == [('"A"',)]


# ---- updates


@pytest.mark.parametrize("where", ["default", "g"])
@pytest.mark.parametrize(
    ("update", "bindings"),
    [
        ("INSERT DATA { ex:new ex:p 1 }", {}),
        ("DELETE DATA { ex:a ex:p 5 }", {}),
        ("DELETE WHERE { ?s ex:p ?o }", {"s": EX.z}),
        ("INSERT { ?s ex:r ?o } WHERE { ?s ex:p ?o }", {"s": EX.a}),
        ("DELETE { ?s ex:p ?o } INSERT { ?s ex:was ?o } WHERE { ?s ex:p ?o FILTER(?o > ?m) }", {"m": Literal(2)}),
    ],
)
def test_an_update_changes_the_graph_that_it_was_put_to(
    update: str, bindings: dict[str, Any], where: str, tmp_path: Path
) -> None:
    both = Both(tmp_path / "store", union=False)
    for graph in both.asked(where):
        graph.update(prepareUpdate(update, initNs={"ex": EX}), initBindings=bindings)
    for query in ("SELECT * { ?s ?p ?o }", ALL):
        ours, theirs = (dataset.query(query) for dataset in both.asked("dataset"))
        assert observed(ours) == observed(theirs)
    both.ours.close()


@pytest.mark.parametrize(
    ("update", "bindings"),
    [
        ("INSERT { ?s ex:r ?o } WHERE { ?s ex:p ?o }", {"s": EX.a}),
        ("DELETE { ?s ex:p ?o } INSERT { ?s ex:was ?o } WHERE { ?s ex:p ?o FILTER(?o > ?m) }", {"m": Literal(2)}),
        ("DELETE WHERE { ?s ex:p ?o }", {"s": EX.c}),
    ],
)
def test_an_update_of_a_dataset_changes_its_default_graph(
    update: str, bindings: dict[str, Any], tmp_path: Path
) -> None:
    both = Both(tmp_path / "store", union=False)
    # rdflib itself would change, for a Dataset, every graph that has such a triple.
    for graph in (both.ours, both.theirs.default_graph):
        graph.update(update, initNs={"ex": EX}, initBindings=bindings)
    for query in ("SELECT * { ?s ?p ?o }", ALL):
        ours, theirs = (dataset.query(query) for dataset in both.asked("dataset"))
        assert observed(ours) == observed(theirs)
    both.ours.close()


def test_over_the_union_an_update_reads_everything_and_writes_into_the_default_graph(tmp_path: Path) -> None:
    both = Both(tmp_path / "store", union=True)
    both.ours.update("INSERT { ?s ex:r ?o } WHERE { ?s ex:p ?o FILTER(?o > 4 && ?o < 9) }")
    assert set(both.ours.default_graph.subject_objects(EX.r)) == {(EX.a, Literal(5)), (EX.z, Literal(6))}
    both.ours.update("DELETE WHERE { ?s ex:p ?o }")
    assert len(list(both.ours.default_graph.subject_objects(EX.p))) == 0
    assert len(both.ours.graph(EX.g)) == 2
    both.ours.close()


def test_an_update_of_one_graph_sees_the_named_graphs_that_its_text_names(tmp_path: Path) -> None:
    both = Both(tmp_path / "store", union=False)
    both.ours.graph(EX.g).update("INSERT { ?s ex:r ?o } WHERE { GRAPH ?h { ?s ex:q ?o } ?o ex:p 5 }")
    assert list(both.ours.graph(EX.g).subject_objects(EX.r)) == [(EX.y, EX.a)]
    both.ours.close()


def test_clearing_the_default_graph_of_a_named_graph_clears_that_graph(tmp_path: Path) -> None:
    both = Both(tmp_path / "store", union=False)
    both.ours.graph(EX.g).update("CLEAR DEFAULT")
    assert len(both.ours.graph(EX.g)) == 0
    assert len(both.ours.default_graph) == 8
    both.ours.close()


def test_a_graph_that_a_blank_node_names_is_updated_once_it_is_there(tmp_path: Path) -> None:
    both = Both(tmp_path / "store", union=False)
    graph = both.ours.graph(BNode("mine"))
    with pytest.raises(BadArgument, match="has no triples yet"):
        graph.update("INSERT DATA { ex:a ex:p 1 }")
    graph.add((EX.a, EX.p, Literal(0)))
    graph.update("INSERT DATA { ex:a ex:p 1 }")
    assert set(graph.objects(EX.a, EX.p)) == {Literal(0), Literal(1)}
    both.ours.close()
