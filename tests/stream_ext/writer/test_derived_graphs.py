"""The graph of a registered CONSTRUCT's latest answer: what reads it besides questions, and that nobody writes to it.

The oracle is pyoxigraph, which is given the answer as a graph like any other."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyoxigraph as ox
import pytest

from hbase_store import Loading
from stream_ext.clock import ManualClock
from stream_ext.errors import NameInUse, NotFound, UpdateFailed
from stream_ext.service.service import Service
from stream_ext.upkeep.retention import Retain
from stream_ext.writer.graph_store import Document
from stream_ext.writer.load_records import UnusualLineReader
from tests.stream_ext.opened import BASE, EX, NT, emissions_of, opened, push, registration, triple

Q = f"{BASE}queries/busy"
BUSY = registration("busy", window="RANGE 2s STEP 1s", select="CONSTRUCT { ?y :of ?x }")
STORED = f"""PREFIX : <{EX}> INSERT DATA {{ :a :k :n . :b :k :m . :c :of :d .
    GRAPH :g {{ :here :of :a . :there :of :z . :a :in :here }} GRAPH :h {{ :a :k :l }} }}"""


@pytest.fixture(params=["RSTREAM", "ISTREAM"])
def service(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Service]:
    with opened(tmp_path) as service:
        service.register(BUSY.replace("RSTREAM", request.param))
        service.update(STORED)
        for time, name, place in ((100, "a", "here"), (1200, "b", "here"), (1300, "c", "there"), (2100, "d", "here")):
            push(service, "s", time, triple(name, place))
        yield service


ANSWER = {("here", "a"), ("here", "b"), ("there", "c")}  # at 2000


def node(name: str) -> ox.NamedNode:
    return ox.NamedNode(EX + name)


def oracle() -> ox.Store:
    store = ox.Store()
    store.update(STORED)
    for x, y in ANSWER:
        store.add(ox.Quad(node(x), node("of"), node(y), ox.NamedNode(Q)))
    return store


def of_oracle(store: ox.Store) -> set[str]:
    quads = (quad for quad in store if quad.graph_name != ox.NamedNode(Q))
    return {str(quad).replace(" DEFAULT", "").strip() for quad in quads}


def stored(service: Service) -> set[str]:
    """All quads, but those of the answer."""
    answer = service.read_dataset()
    texts = [answer.decode(column[column != 0]) for column in answer.columns[:3]]
    graphs = iter(answer.decode(answer.columns[3][answer.columns[3] != 0]))
    names = [next(graphs) if graph else b"" for graph in answer.columns[3].tolist()]
    rows = (b" ".join(filter(None, row)).decode() for row in zip(*texts, names, strict=True))
    return {row for row in rows if not row.endswith(f"<{Q}>")}


UPDATES = [
    f"INSERT {{ GRAPH :copy {{ ?x :of ?y }} }} WHERE {{ GRAPH <{Q}> {{ ?x :of ?y }} }}",
    "INSERT { ?x :both ?y } WHERE { GRAPH ?g { ?x :of ?y } }",
    f"INSERT {{ ?x :from ?g }} WHERE {{ GRAPH ?g {{ ?x :of ?y }} FILTER (?g != <{Q}>) }}",
    f"DELETE {{ ?y :k ?z }} INSERT {{ ?x :k ?z }} WHERE {{ GRAPH <{Q}> {{ ?x :of ?y }} ?y :k ?z }}",
    f"DELETE {{ ?y :k ?z }} WHERE {{ ?y :k ?z FILTER NOT EXISTS {{ GRAPH <{Q}> {{ ?x :of ?y }} }} }}",
    f"INSERT {{ GRAPH :copy {{ ?x :of ?y }} }} USING <{Q}> WHERE {{ ?x :of ?y }}",
    f"INSERT {{ GRAPH :copy {{ ?x :of ?y }} }} USING <{Q}> USING :g WHERE {{ ?x :of ?y }}",
    f"INSERT {{ GRAPH :copy {{ ?x ?g ?y }} }} USING NAMED <{Q}> USING NAMED :g WHERE {{ GRAPH ?g {{ ?x :of ?y }} }}",
    "INSERT { GRAPH :copy { ?x ?g ?y } } USING NAMED :g WHERE { GRAPH ?g { ?x :of ?y } }",
    f"WITH :g DELETE {{ ?x :of ?y }} WHERE {{ ?x :of ?y . GRAPH <{Q}> {{ ?x :of ?y }} }}",
    f"WITH <{Q}> INSERT {{ GRAPH :copy {{ ?x :of ?y }} }} WHERE {{ ?x :of ?y }}",
    f"INSERT DATA {{ :d :k :new }} ; DELETE {{ ?y ?p ?z }} WHERE {{ GRAPH <{Q}> {{ ?x :of+ ?y }} ?y ?p ?z }}",
    "DELETE { GRAPH ?g { ?x :of ?y } } WHERE { VALUES ?g { :g :h } GRAPH ?g { ?x :of ?y } }",
    f"COPY <{Q}> TO :g",
    f"ADD <{Q}> TO :g",
    f"ADD <{Q}> TO DEFAULT",
    f"COPY <{Q}> TO DEFAULT ; DELETE WHERE {{ ?x :of :a }}",
]


@pytest.mark.parametrize("text", UPDATES)
def test_an_update_reads_it(service: Service, text: str) -> None:
    text, expected = f"PREFIX : <{EX}> {text}", oracle()
    expected.update(text)
    service.update(text)
    assert stored(service) == of_oracle(expected)
    assert len(service.read_graph(Q).columns[0]) == len(ANSWER)


def test_an_update_that_is_solved_before_its_turn_reads_it(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stream_ext.writer.updates.solving.AHEAD_ROWS", 0.0)
    test_an_update_reads_it(service, UPDATES[3])


def test_a_blank_node_of_it_stays_the_same_node(tmp_path: Path) -> None:
    with opened(tmp_path) as service:
        service.register(BUSY.replace("?y :of ?x", "?x :in [ :is ?y ]"))
        push(service, "s", 100, triple("a", "here"))
        push(service, "s", 1000, triple("b", "here"))
        service.update(f"COPY <{Q}> TO <{EX}saved>")
        service.update(f"INSERT {{ ?x ?p ?y }} WHERE {{ GRAPH <{Q}> {{ ?x ?p ?y }} }}")
        same = f"?a <{EX}in> ?n . GRAPH <{EX}saved> {{ ?a <{EX}in> ?n . ?n <{EX}is> ?b }} GRAPH <{Q}> {{ ?a ?p ?n }}"
        assert service.query(f"SELECT * {{ {same} }}").count == 1


WRITES = [
    f"INSERT DATA {{ :ok :ok :ok GRAPH <{Q}> {{ :x :of :y }} }}",
    f"DELETE DATA {{ GRAPH <{Q}> {{ :here :of :a }} }}",
    f"INSERT {{ GRAPH <{Q}> {{ :x :of :y }} }} WHERE {{ }}",
    f"DELETE {{ GRAPH <{Q}> {{ :x :of :y }} }} WHERE {{ }}",
    f"WITH <{Q}> DELETE {{ ?x :of ?y }} WHERE {{ ?x :of ?y }}",
    f"DELETE WHERE {{ GRAPH <{Q}> {{ ?x :of ?y }} }}",
    "DELETE WHERE { GRAPH ?g { ?x :of ?y } }",
    "DELETE { GRAPH ?g { ?x :of ?y } } WHERE { GRAPH ?g { ?x :of ?y } }",
    "INSERT { GRAPH ?g { ?x :of :new } } WHERE { GRAPH ?g { ?x :of ?y } }",
    f"INSERT {{ GRAPH ?g {{ :x :of :new }} }} WHERE {{ BIND (IRI('{Q}') AS ?g) }}",
    f"CLEAR GRAPH <{Q}>",
    f"DROP SILENT GRAPH <{Q}>",
    f"CREATE GRAPH <{Q}>",
    f"COPY :g TO <{Q}>",
    f"MOVE <{Q}> TO :g",
    f"INSERT DATA {{ :ok :ok :ok }} ; ADD :g TO <{Q}>",
]


@pytest.mark.parametrize("text", WRITES)
def test_an_update_that_writes_to_it_is_refused_by_name(service: Service, text: str) -> None:
    before = stored(service)
    with pytest.raises(UpdateFailed, match=f"the graph <{Q}> is the latest answer of the registered query 'busy'"):
        service.update(f"PREFIX : <{EX}> {text}")
    assert stored(service) == before
    assert len(service.read_graph(Q).columns[0]) == len(ANSWER)


def test_what_clears_all_graphs_of_the_store_leaves_it(service: Service) -> None:
    service.update("CLEAR ALL")
    assert stored(service) == set()
    assert len(service.read_graph(Q).columns[0]) == len(ANSWER)


def test_it_is_read_as_a_whole_and_with_all_others(service: Service) -> None:
    one = service.read_graph(Q)
    texts = [[text.decode() for text in one.decode(column)] for column in one.columns]
    assert set(zip(texts[0], texts[2], strict=True)) == {(f"<{EX}{x}>", f"<{EX}{y}>") for x, y in ANSWER}
    everything = service.read_dataset()
    assert len(everything.columns[0]) == len(stored(service)) + len(ANSWER)
    then = service.stream_status("busy")["batches"]
    assert then
    assert len(service.read_graph(Q, emissions_of(service, "busy")[-1]["snapshot"] + 1).columns[0]) == len(ANSWER)


def test_before_the_first_answer_there_is_no_such_graph(tmp_path: Path) -> None:
    with opened(tmp_path) as service:
        service.register(BUSY)
        with pytest.raises(NotFound, match="there is no graph"):
            service.read_graph(Q)
        with pytest.raises(NameInUse):
            service.drop_graph(Q)


def test_no_whole_graph_is_written_there(service: Service) -> None:
    triples = Document(triple("x", "y").encode(), NT, BASE)
    quad = Document(f"<{EX}x> <{EX}p> <{EX}y> <{Q}> .".encode(), "application/n-quads", BASE)
    for write in (
        lambda: service.replace_graph(Q, [triples]),
        lambda: service.merge_graph(Q, [triples]),
        lambda: service.add_quads([triples, quad]),
        lambda: service.drop_graph(Q),
    ):
        with pytest.raises(NameInUse, match="no request may write to it"):
            write()


@pytest.mark.parametrize("graph", [None, Q])
def test_no_file_is_loaded_there(service: Service, graph: str | None) -> None:
    loading = Loading(UnusualLineReader(quads=True, go_on=False), quads=True)
    terms = [f"<{EX}x>".encode(), f"<{Q}>".encode()]
    columns = [np.array([place], np.int32) for place in (0, 0, 0, 1 if graph is None else -1)]
    loading.add(terms, columns)
    with pytest.raises(NameInUse, match="no request may write to it"):
        service.load(loading, graph, None)


def test_no_stream_is_absorbed_there(service: Service) -> None:
    service.create_stream("facts", {"timeless": True})
    quad = f"<{EX}x> <{EX}p> <{EX}y> <{Q}> .".encode()
    with pytest.raises(NameInUse, match="no request may write to it"):
        service.push("facts", quad, "application/n-quads", timestamp=1)
    service.create_stream("others", {"timeless": True, "graph": Q})
    with pytest.raises(NameInUse, match="no request may write to it"):
        push(service, "others", 1, triple("x", "y"))
    service.drop_query("busy")
    push(service, "others", 1, triple("x", "y"))
    assert len(service.read_graph(Q).columns[0]) == 1


def test_describe_reads_it_where_from_names_it(service: Service) -> None:
    def described(text: str) -> set[tuple[str, str]]:
        answer = service.query(f"PREFIX : <{EX}> DESCRIBE :here {text}")
        assert answer.graph is not None
        s, _, o = (answer.vocabulary.decode(column) for column in answer.graph)
        assert answer.count == len(set(zip(s, o, strict=True)))
        return {(x.decode()[len(EX) + 1 : -1], y.decode()[len(EX) + 1 : -1]) for x, y in zip(s, o, strict=True)}

    here = {pair for pair in ANSWER if pair[0] == "here"}
    assert described("") == set()
    assert described(f"FROM <{Q}>") == here
    assert described(f"FROM <{Q}> FROM :g") == here
    assert described("FROM :g") == {("here", "a")}
    assert described(f"FROM <{Q}> WHERE {{ :here :of ?x }}") == here


@pytest.mark.parametrize("other", ["", " OPTIONAL { ?x :likes ?z }"])
def test_the_answer_of_a_stream_that_fell_silent_is_read_for_as_long_as_it_is_the_latest(
    tmp_path: Path, other: str
) -> None:
    clock = ManualClock(3_600_000)
    with opened(tmp_path, clock, retain=Retain(snapshots_ms=60_000)) as service:
        service.create_stream("s", {"retention": "30s"})
        for time in (100, 1100, 2100):
            push(service, "s", time, triple("old", time))
        clock.advance(60_000)
        push(service, "s", 3000, triple("a", "here"))
        service.collect()
        assert service.status()["retention"]["collected"]["batches"] == 3, "else this proves nothing"
        text = BUSY.replace("RSTREAM", "ISTREAM").replace("RANGE 2s", "RANGE 9s")
        service.register(text.replace("} }", "}" + other + " }") if other else text)
        for time in (3100, 4100, 5100):
            push(service, "s", time, triple("b", "here"))
        for _ in range(2):
            found = service.query(f"SELECT ?x {{ GRAPH <{Q}> {{ ?y ?p ?x }} }}")
            assert sorted(row[0] for row in service.decode(found)) == [f"<{EX}a>".encode(), f"<{EX}b>".encode()]
            clock.advance(600_000)
            service.update(f"INSERT DATA {{ {triple('x', 'y', 'z')} }}", wait="evaluated")
            service.collect()
