"""`attach`: streams and registered queries over datasets of rdflib, which go on being written to."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from rdflib import BNode, Dataset, Graph, Literal, Namespace
from rdflib.graph import ConjunctiveGraph
from rdflib.plugins.stores.auditable import AuditableStore
from rdflib.plugins.stores.memory import Memory
from rdflib.plugins.stores.sparqlstore import SPARQLUpdateStore
from rdflib_endpoint import DatasetExt

from plugin import attach
from plugin.attached.attached import Attached
from stream_ext.clock import SystemClock
from stream_ext.errors import RilletError
from stream_ext.service.service import Service
from tests.endpoint.drop_in.running import running
from tests.endpoint.live import Live, live
from tests.parts.waiting import PATIENCE_S, until

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*is deprecated:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:ConjunctiveGraph:DeprecationWarning"),
]

EX = Namespace("http://ex/")
HEAD = "PREFIX ex: <http://ex/> "
NEAR = """PREFIX ex: <http://ex/>
REGISTER RSTREAM near AS SELECT ?zone ?city
FROM NAMED WINDOW ex:w ON STREAM taxis [RANGE 100000s STEP 1s]
WHERE { WINDOW ex:w { ?taxi ex:in ?zone } ?zone ex:partOf ?city }"""
IN_GRAPHS = NEAR.replace("?zone ex:partOf ?city }", "GRAPH ?g { ?zone ex:partOf ?city } }").replace("near", "graphs")
ELEMENT = "<http://ex/t> <http://ex/in> <http://ex/z1>, <http://ex/z2>, <http://ex/z3> ."
Make = Callable[[], Graph]
KINDS: dict[str, Make] = {
    "graph": Graph,
    "conjunctive graph": ConjunctiveGraph,
    "dataset": Dataset,
    "union dataset": lambda: Dataset(default_union=True),
    "oxigraph": lambda: Dataset(store="Oxigraph"),
}


class Fleet:
    """An attached dataset with registered queries, whose windows are closed one second after the other."""

    def __init__(self, attached: Attached, *texts: str) -> None:
        self.attached, self.now = attached, 1000
        for text in texts or (NEAR,):
            attached.register(text)
        attached.push("taxis", ELEMENT, timestamp=self.now)

    def evaluated(self, query: str = "near") -> list[tuple[str, str]]:
        """What is emitted at the end of the next second."""
        self.now += 1000
        self.attached.heartbeat("taxis", self.now, wait="evaluated")
        *_, last = self.attached.subscribe(query, follow=False)
        assert last["time"] == self.now
        return sorted((row["zone"]["value"][10:], row["city"]["value"]) for row in last["results"]["bindings"])


@contextmanager
def fleet(graph: Graph, *texts: str, **settings: Any) -> Iterator[Fleet]:
    with attach(graph, **settings) as attached:
        yield Fleet(attached, *texts)


def cities(*pairs: str) -> list[tuple[str, str]]:
    """`z1 bern` -> ("z1", "http://ex/bern")."""
    return sorted((zone, f"http://ex/{city}") for zone, city in map(str.split, pairs))


def default_of(graph: Any) -> Graph:
    if isinstance(graph, Dataset):
        return graph.default_graph
    return graph.default_context if isinstance(graph, ConjunctiveGraph) else graph


@pytest.mark.parametrize("kind", KINDS)
def test_registered_queries_read_the_dataset_as_it_is_written(kind: str) -> None:
    graph = KINDS[kind]()
    default_of(graph).add((EX.z1, EX.partOf, EX.bern))
    with fleet(graph) as there:
        dataset = there.attached.dataset
        assert there.evaluated() == cities("z1 bern")
        default_of(dataset).add((EX.z2, EX.partOf, EX.thun))
        assert there.evaluated() == cities("z1 bern", "z2 thun")
        default_of(dataset).set((EX.z1, EX.partOf, EX.biel))
        assert there.evaluated() == cities("z1 biel", "z2 thun")
        default_of(dataset).remove((None, EX.partOf, EX.thun))
        assert there.evaluated() == cities("z1 biel")
        dataset.parse(data="<http://ex/z3> <http://ex/partOf> <http://ex/chur> .", format="turtle")
        assert there.evaluated() == cities("z1 biel", "z3 chur")
        there.attached.update(HEAD + "INSERT DATA { ex:z2 ex:partOf ex:thun }")
        assert there.evaluated() == cities("z1 biel", "z2 thun", "z3 chur")
    assert (EX.z3, EX.partOf, EX.chur) in default_of(graph)


def test_each_handle_that_it_gives_out_writes_through_it() -> None:
    graph = Dataset()
    graph.graph(EX.g).add((EX.other, EX.p, EX.o))
    with fleet(graph, IN_GRAPHS) as there:
        dataset = there.attached.dataset
        assert isinstance(dataset, Dataset)
        (by_context,) = [each for each in dataset.contexts() if each.identifier == EX.g]
        (_, _, _, of_quad), *_ = dataset.quads((EX.other, None, None, None))
        handles = [
            dataset.graph(EX.g),
            dataset.get_context(EX.g),
            by_context,
            Graph(store=dataset.store, identifier=EX.g),
            dataset.get_context(of_quad),
        ]
        for number, handle in enumerate(handles):
            handle.add((EX.z1, EX.partOf, EX[f"c{number}"]))
            assert there.evaluated("graphs") == cities(f"z1 c{number}")
            handle.remove((EX.z1, None, None))


def test_the_default_graph_of_a_union_has_the_triples_of_all_graphs() -> None:
    graph = Dataset(default_union=True)
    graph.graph(EX.g).add((EX.z1, EX.partOf, EX.bern))
    with fleet(graph, NEAR, IN_GRAPHS) as there:
        dataset = there.attached.dataset
        dataset.graph(EX.h).add((EX.z1, EX.partOf, EX.bern))
        assert there.evaluated() == cities("z1 bern")
        dataset.graph(EX.g).remove((None, None, None))
        assert there.evaluated() == cities("z1 bern")
        dataset.remove_graph(EX.h)
        assert there.evaluated() == []


def test_what_was_written_past_it_is_found_by_a_refresh() -> None:
    graph = Dataset()
    with fleet(graph) as there:
        graph.add((EX.z1, EX.partOf, EX.bern))
        assert there.evaluated() == []
        there.attached.refresh()
        assert there.evaluated() == cities("z1 bern")


def test_nothing_is_known_of_what_was_not_committed() -> None:
    graph = ConjunctiveGraph(store=AuditableStore(Memory()))
    with fleet(graph) as there:
        dataset = there.attached.dataset
        dataset.add((EX.z1, EX.partOf, EX.bern))
        assert there.evaluated() == []
        dataset.rollback()
        dataset.add((EX.z2, EX.partOf, EX.thun))
        dataset.add((EX.z3, EX.partOf, EX.chur))
        assert there.evaluated() == []
        dataset.commit()
        assert there.evaluated() == cities("z2 thun", "z3 chur")


def test_blank_nodes_are_the_same_in_each_answer() -> None:
    city = BNode()
    graph = Dataset()
    graph.add((EX.z1, EX.partOf, city))
    with fleet(graph) as there:
        ((_, first),) = there.evaluated()
        there.attached.dataset.add((EX.z2, EX.partOf, city))
        (_, one), (_, other) = there.evaluated()
        assert first == one == other
        there.attached.dataset.remove((None, None, city))
        assert there.evaluated() == []


def test_each_evaluation_shows_a_beginning_of_what_was_written() -> None:
    """A writer counts, in steps that consist of two operations each; nobody ever sees half of one."""
    graph = Dataset()
    graph.add((EX.z1, EX.partOf, Literal(0)))
    with fleet(graph) as there:
        dataset, ended = there.attached.dataset, threading.Event()

        def count() -> None:
            for number in range(1, 400):
                if number % 2:
                    dataset.default_graph.set((EX.z1, EX.partOf, Literal(number)))
                else:
                    text = f"DELETE {{ ex:z1 ex:partOf ?n }} INSERT {{ ex:z1 ex:partOf {number} }}"
                    dataset.update(f"{HEAD} {text} WHERE {{ ex:z1 ex:partOf ?n }}")
            ended.set()

        writer = threading.Thread(target=count)
        writer.start()
        seen = []
        while not ended.is_set():
            seen += [there.evaluated()]
        writer.join()
        seen += [there.evaluated()]
    numbers = [int(city) for ((_, city),) in seen]
    assert numbers == sorted(numbers)
    assert numbers[-1] == 399


def test_a_query_that_is_registered_while_one_writes_misses_nothing() -> None:
    graph = Dataset()
    for number in range(50):
        graph.add((EX[f"y{number}"], EX.partOf, EX.bern))
    with attach(graph) as attached:
        attached.stream("taxis")
        source = attached.service.sources.main
        assert source is not None
        select = source.select

        def interrupted(text: str, control: Any) -> Any:
            """After the answer is made, and before it is taken in, somebody writes."""
            answer = list(select(text, control))
            if "COUNT" not in text:
                attached.dataset.add((EX.z2, EX.partOf, EX.thun))
                attached.dataset.remove((EX.y7, None, None))
            yield from answer

        source.select = interrupted  # type: ignore[method-assign]  # once
        there = Fleet(attached, NEAR)
        source.select = select  # type: ignore[method-assign]
        assert there.evaluated() == cities("z2 thun")
        assert (b"<http://ex/y7>", b"<http://ex/bern>") not in held_pairs(attached)


def held_pairs(attached: Attached) -> list[tuple[bytes, ...]]:
    attached.register(NEAR.replace("?taxi ex:in ?zone", "?taxi ex:near ?any").replace("near AS", "pairs AS"))
    attached.push("taxis", "<http://ex/t> <http://ex/near> <http://ex/all> .", timestamp=50_000)
    attached.heartbeat("taxis", 51_000, wait="evaluated")
    return attached.service.decode(attached.service.latest("pairs"))  # type: ignore[return-value]  # none is unbound


def test_a_graph_that_a_function_makes_is_never_taken_over() -> None:
    dataset = DatasetExt()

    @dataset.graph_function()
    def guessed(zone: str) -> Graph:
        made = Graph()
        made.add((EX[zone], EX.partOf, EX.guess))
        return made

    with fleet(dataset, IN_GRAPHS) as there:
        attached = there.attached
        text = 'SELECT ?c { BIND(<urn:sparql-function:guessed>("z1") AS ?g) GRAPH ?g { ?z <http://ex/partOf> ?c } }'
        head = attached.service.head()
        for ask in (attached.query, attached.dataset.query):
            assert [str(row.c) for row in ask(text)] == ["http://ex/guess"]
        assert attached.service.head() == head
        attached.refresh()
        assert there.evaluated("graphs") == []


def test_an_update_may_call_functions_of_the_dataset() -> None:
    dataset = DatasetExt()
    dataset.add((EX.z1, EX.names, Literal("bern thun")))

    @dataset.extension_function()
    def words(text: str) -> list[str]:
        return [str(EX[word]) for word in text.split()]

    text = "INSERT { ?z ex:partOf ?c } WHERE { ?z ex:names ?n BIND(<urn:sparql-function:words>(?n) AS ?c) }"
    with fleet(dataset) as there:
        there.attached.dataset.update(HEAD + text)
        assert there.evaluated() == cities("z1 bern", "z1 thun")


def test_one_shots_read_the_dataset_and_our_own_store_as_one() -> None:
    graph = Dataset()
    graph.add((EX.z1, EX.partOf, EX.bern))
    with attach(graph) as attached:
        attached.stream("homes", timeless=True)
        attached.push("homes", "<http://ex/t7> <http://ex/livesIn> <http://ex/z1> .", timestamp=1)
        rows = attached.query(HEAD + "SELECT ?t ?c { ?t ex:livesIn ?z . ?z ex:partOf ?c }")
        assert [tuple(map(str, row)) for row in rows] == [("http://ex/t7", "http://ex/bern")]
    assert len(graph) == 1


def test_an_update_reads_both_and_writes_the_dataset() -> None:
    graph = Dataset()
    graph.add((EX.z1, EX.partOf, EX.bern))
    with fleet(graph) as there:
        attached = there.attached
        attached.stream("homes", timeless=True)
        attached.push("homes", "<http://ex/t7> <http://ex/livesIn> <http://ex/z1> .", timestamp=1)
        attached.update(HEAD + "INSERT { ?z ex:partOf ?t } WHERE { ?t ex:livesIn ?z . ?z ex:partOf ?c }")
        assert set(graph.default_graph) == {(EX.z1, EX.partOf, EX.bern), (EX.z1, EX.partOf, EX.t7)}
        assert there.evaluated() == cities("z1 bern", "z1 t7")
        with pytest.raises(RilletError, match="livesIn"):
            attached.update(HEAD + "DELETE WHERE { ?t ex:livesIn ?z } ; INSERT DATA { ex:z2 ex:partOf ex:thun }")
        assert (EX.z2, None, None) not in graph.default_graph


def test_windows_and_the_dataset_are_asked_once_by_the_engine() -> None:
    graph = Dataset()
    graph.add((EX.z1, EX.partOf, EX.bern))
    with fleet(graph) as there:
        text = NEAR[NEAR.index("SELECT") :]
        rows = there.attached.query(HEAD + text, at=2000)
        assert [tuple(map(str, row)) for row in rows] == [("http://ex/z1", "http://ex/bern")]


def test_functions_read_windows_as_graphs() -> None:
    dataset = DatasetExt()
    dataset.add((EX.z1, EX.names, Literal("bern thun")))

    @dataset.extension_function()
    def words(text: str) -> list[str]:
        return text.split()

    text = """PREFIX ex: <http://ex/> PREFIX f: <urn:sparql-function:>
        SELECT ?taxi ?w FROM NAMED WINDOW ex:w ON STREAM taxis [RANGE 10s STEP 1s]
        WHERE { WINDOW ex:w { ?taxi ex:in ?z } ?z ex:names ?n BIND(f:words(?n) AS ?w) } ORDER BY ?w"""
    with attach(dataset) as attached:
        attached.stream("taxis")
        attached.push("taxis", ELEMENT, timestamp=1000)
        attached.heartbeat("taxis", 2000, wait="evaluated")
        assert [str(row.w) for row in attached.query(text, at=2000)] == ["bern", "thun"]
        attached.heartbeat("taxis", 20_000, wait="evaluated")
        assert list(attached.query(text, at=20_000)) == []


def test_the_dataset_stays_open_and_ours_stays_where_it_was_sent(tmp_path: Path) -> None:
    graph = Dataset()
    graph.add((EX.z1, EX.partOf, EX.bern))
    store = f"lmdb:{tmp_path / 'own'}"
    with fleet(graph, store=store) as there:
        assert there.evaluated() == cities("z1 bern")
    graph.add((EX.z2, EX.partOf, EX.thun))
    with attach(graph, store=store) as attached:
        attached.refresh()
        attached.heartbeat("taxis", 3000, wait="evaluated")
        first, second = attached.subscribe("near", follow=False)
        assert (first["emission"], second["emission"], second["time"]) == (1, 2, 3000)
        assert len(second["results"]["bindings"]) == 2


def test_a_subscriber_waits_for_emissions_and_ends_with_the_query() -> None:
    graph = Dataset()
    graph.add((EX.z1, EX.partOf, EX.bern))
    with fleet(graph) as there:
        received: list[int] = []
        listener = threading.Thread(
            target=lambda: received.extend(each["emission"] for each in there.attached.subscribe("near"))
        )
        listener.start()
        there.evaluated()
        there.evaluated()
        until(lambda: len(received) == 2, "two emissions")
        there.attached.service.drop_query("near")
        listener.join(PATIENCE_S)
        assert not listener.is_alive()
        assert received == [1, 2]


def test_the_application_serves_the_same_streams_and_queries() -> None:
    graph = Dataset()
    graph.add((EX.z1, EX.partOf, EX.bern))
    with fleet(graph) as there, running(there.attached.app()) as client:
        there.evaluated()
        found = client.get("/queries/near/results").json()["results"]["bindings"]
        assert [row["city"]["value"] for row in found] == ["http://ex/bern"]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Live]:
    with live(tmp_path / "other") as running_server:
        yield running_server


@pytest.mark.parametrize("autocommit", [True, False])
def test_a_store_that_is_a_client_of_a_server_is_attached_like_any_other(server: Live, autocommit: bool) -> None:
    server.update(HEAD + "INSERT DATA { ex:z1 ex:partOf ex:bern }")
    store = SPARQLUpdateStore(f"{server.url}/sparql", f"{server.url}/update", autocommit=autocommit)
    with fleet(Dataset(store=store)) as there:
        dataset = there.attached.dataset
        assert there.evaluated() == cities("z1 bern")
        dataset.add((EX.z2, EX.partOf, EX.thun))
        dataset.remove((EX.z1, EX.partOf, None, default_of(dataset)))
        dataset.commit()
        assert there.evaluated() == cities("z2 thun")
        server.update(HEAD + "INSERT DATA { ex:z3 ex:partOf ex:chur }")
        there.attached.refresh()
        assert there.evaluated() == cities("z2 thun", "z3 chur")


def test_a_store_of_ours_is_attached_like_any_other(tmp_path: Path) -> None:
    from plugin.store import RilletStore

    with Service.open(f"lmdb:{tmp_path / 'data'}", base="http://ex/", clock=SystemClock(), engine="inline") as data:
        graph = Dataset(store=RilletStore(data))
        graph.add((EX.z1, EX.partOf, EX.bern))
        graph.commit()
        with fleet(graph) as there:
            dataset = there.attached.dataset
            assert there.evaluated() == cities("z1 bern")
            dataset.add((EX.z2, EX.partOf, EX.thun))
            assert there.evaluated() == cities("z1 bern")
            dataset.commit()
            assert there.evaluated() == cities("z1 bern", "z2 thun")
            dataset.remove((EX.z1, None, None))
            dataset.rollback()
            dataset.update(HEAD + "INSERT DATA { ex:z3 ex:partOf ex:chur }")
            assert there.evaluated() == cities("z1 bern", "z2 thun", "z3 chur")
