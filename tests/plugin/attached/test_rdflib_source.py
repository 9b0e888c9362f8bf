"""An rdflib dataset as a source of the engine, against Oxigraph with the same quads."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pyoxigraph as ox
import pytest
from rdflib import BNode, Dataset, Graph, Literal, Namespace
from rdflib.plugins.stores.memory import Memory

from plugin.attached.attached import Attached
from stream_ext.errors import DeadlineExceeded, QueryCancelled, QueryTooLarge
from stream_ext.evaluation_budget import Control
from stream_ext.remote.fetching import CannotFetch
from tests.parts.waiting import PATIENCE_S, until

pytestmark = pytest.mark.filterwarnings("ignore:.*is deprecated:DeprecationWarning")

EX = Namespace("http://ex/")
QUADS = """<http://ex/a> <http://ex/p> <http://ex/b> .
<http://ex/a> <http://ex/p> "x"@en .
<http://ex/a> <http://ex/q> "2000-01-01"^^<http://www.w3.org/2001/XMLSchema#date> .
<http://ex/b> <http://ex/p> "" .
<http://ex/a> <http://ex/p> <http://ex/b> <http://ex/g> .
<http://ex/b> <http://ex/q> 7 <http://ex/g> .
<http://ex/b> <http://ex/q> "l\\n\\"\\\\" <http://ex/h> .
""".replace(" 7 ", ' "7"^^<http://www.w3.org/2001/XMLSchema#integer> ')
TEXTS = [
    "SELECT ?s ?p ?o { ?s ?p ?o }",
    "SELECT ?s ?o { ?s <http://ex/p> ?o }",
    "SELECT ?s ?p ?o ?g { { ?s ?p ?o } UNION { GRAPH ?g { ?s ?p ?o } } }",
    "SELECT ?s ?p ?o ?g { { ?s <http://ex/p> ?o BIND(<http://ex/p> AS ?p) } UNION { GRAPH ?g { ?s ?p ?o } } }",
    "SELECT (COUNT(*) AS ?n) { GRAPH ?g { ?s ?p ?o } }",
    "SELECT ?o { GRAPH <http://ex/g> { ?s <http://ex/q> ?o } }",
    "SELECT ?a ?c { ?a <http://ex/p> ?b OPTIONAL { ?b <http://ex/p> ?c } }",
    "SELECT ?s ?o { VALUES (?s ?o) { (<http://ex/a> <http://ex/b>) (<http://ex/a> UNDEF) } ?s <http://ex/p> ?o }",
    'SELECT ?s { ?s <http://ex/p> ?o FILTER(STR(?o) = "") }',
]  # fmt: skip
KINDS: dict[str, Callable[[], Dataset]] = {
    "memory": Dataset,
    "memory, union": lambda: Dataset(default_union=True),
    "oxigraph": lambda: Dataset(store="Oxigraph"),
    "oxigraph, union": lambda: Dataset(store="Oxigraph", default_union=True),
}


@pytest.fixture
def attached(request: pytest.FixtureRequest) -> Iterator[Attached]:
    graph = KINDS[getattr(request, "param", "memory")]()
    graph.parse(data=QUADS, format="nquads")
    with Attached(graph) as made:
        yield made


def answers(attached: Attached, text: str, control: Control = Control.FREE) -> list[dict[str, bytes]]:
    return [solution for some in attached._source.select(text, control) for solution in some]


def as_oxigraph_says(text: str, is_union: bool) -> list[dict[str, bytes]]:
    store = ox.Store()
    store.load(QUADS.encode(), ox.RdfFormat.N_QUADS)
    found = store.query(text, use_default_graph_as_union=is_union)
    assert isinstance(found, ox.QuerySolutions)
    names = [variable.value for variable in found.variables]
    return [{name: str(row[name]).encode() for name in names if row[name] is not None} for row in found]


def in_order(rows: list[dict[str, bytes]], repeats: bool) -> list[tuple[tuple[str, bytes], ...]]:
    found = [tuple(sorted(row.items())) for row in rows]
    return sorted(set(found) if repeats else found)


@pytest.mark.parametrize("attached", KINDS, indirect=True)
@pytest.mark.parametrize("text", TEXTS)
def test_it_answers_as_oxigraph_does_over_the_same_quads(attached: Attached, text: str) -> None:
    is_union = bool(attached.graph.default_union)
    assert (attached._source.traits.default == "union") == is_union
    expected, repeats = as_oxigraph_says(text, is_union), attached._source.traits.repeats
    assert in_order(answers(attached, text), repeats) == in_order(expected, repeats)


def test_a_single_graph_is_a_default_graph_and_others_in_its_store_are_not_there() -> None:
    for store in (Memory(), "Oxigraph"):
        graph = Graph(store=store, identifier=EX.mine)
        graph.add((EX.a, EX.p, EX.b))
        Graph(store=graph.store, identifier=EX.other).add((EX.x, EX.p, EX.y))
        with Attached(graph) as attached:
            assert answers(attached, "SELECT ?s { ?s ?p ?o }") == [{"s": b"<http://ex/a>"}]
            assert answers(attached, "SELECT ?s { GRAPH ?g { ?s ?p ?o } }") == []


def test_blank_nodes_keep_their_labels(attached: Attached) -> None:
    attached.dataset.default_graph.add((BNode("n7"), EX.r, BNode("n8")))
    assert answers(attached, "SELECT ?s ?o { ?s <http://ex/r> ?o }") == [{"s": b"_:n7", "o": b"_:n8"}]


def test_the_budget_of_the_query_ends_it(attached: Attached) -> None:
    dataset = attached.graph
    assert isinstance(dataset, Dataset)
    for number in range(3_000):
        dataset.default_graph.add((EX[str(number)], EX.r, Literal(number)))
    everything = "SELECT * { ?s ?p ?o . ?a ?b ?c }"
    with pytest.raises(DeadlineExceeded):
        answers(attached, everything, Control(timeout_s=0.2))
    with pytest.raises(QueryTooLarge):
        answers(attached, everything, Control(bytes_max=1 << 20))
    cancelled = Control()
    cancelled.cancel()
    with pytest.raises(QueryCancelled):
        answers(attached, everything, cancelled)


def test_a_dataset_that_fails_is_a_source_that_gives_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = Dataset()

    def failing(*_: object, **__: object) -> None:
        raise OSError("the disk is gone")

    monkeypatch.setattr(graph.store, "triples", failing)
    with Attached(graph) as attached, pytest.raises(CannotFetch, match="the disk is gone"):
        answers(attached, "SELECT * { ?s ?p ?o }")


def test_nobody_writes_while_an_answer_is_made(attached: Attached) -> None:
    entered, written = threading.Event(), threading.Event()

    def write() -> None:
        entered.set()
        attached.dataset.default_graph.add((EX.new, EX.p, EX.b))
        written.set()

    writer = threading.Thread(target=write)
    with attached.dataset.watched_store.still():
        writer.start()
        until(entered.is_set, "the writer begins")
        assert not any(row["s"] == b"<http://ex/new>" for row in answers(attached, TEXTS[0]))
        assert not written.is_set()
    writer.join(PATIENCE_S)
    assert any(row["s"] == b"<http://ex/new>" for row in answers(attached, TEXTS[0]))


def test_an_update_of_the_engine_changes_the_dataset(attached: Attached) -> None:
    attached._source.update(
        "DELETE DATA { <http://ex/a> <http://ex/p> <http://ex/b> } ;\n"
        "INSERT DATA { <http://ex/n> <http://ex/p> 1 . GRAPH <http://ex/g> { <http://ex/n> <http://ex/p> 2 } }"
    )
    graph = attached.graph
    assert isinstance(graph, Dataset)
    assert (EX.a, EX.p, EX.b) not in graph.default_graph
    assert (EX.a, EX.p, EX.b) in graph.graph(EX.g)
    assert list(graph.default_graph.objects(EX.n)) == [Literal(1)]
    assert list(graph.graph(EX.g).objects(EX.n)) == [Literal(2)]
