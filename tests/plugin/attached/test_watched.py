"""A watched dataset against one that nobody watches: the same results, and the exact change of each operation."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rdflib import Dataset, Graph
from rdflib.graph import ConjunctiveGraph
from rdflib.plugins.stores.auditable import AuditableStore
from rdflib.plugins.stores.memory import Memory
from rdflib.plugins.stores.sparqlstore import SPARQLUpdateStore

from plugin.attached.held import EVERY_GRAPH
from plugin.attached.quads import QuadReader
from plugin.attached.watched_graphs import handle, watched
from plugin.attached.watched_store import WatchedStore
from plugin.store import RilletStore
from stream_ext.clock import SystemClock
from stream_ext.service.service import Service
from tests.endpoint.live import Live, live
from tests.plugin.attached.held_sets import ALL, HeldSet, as_committed
from tests.plugin.attached.operations import EX, Operation, do, operations

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning:rdflib"),
    pytest.mark.filterwarnings("ignore:.*is deprecated:DeprecationWarning"),
]

Make = Callable[[], Graph]
PATTERNS = [
    ALL,
    ((b"", b"<http://ex/p>", b"", b""),),
    ((b"", b"", b"", b"<http://ex/g>"), (b"<http://ex/a>", b"", b"", b"")),
    ((b"", b"<http://ex/q>", b'"x"', EVERY_GRAPH), (b"", b"<http://ex/p>", b"<http://ex/b>", b"")),
    (),
]
KINDS: dict[str, Make] = {
    "graph": Graph,
    "named graph": lambda: Graph(identifier=EX.only),
    "conjunctive graph": ConjunctiveGraph,
    "dataset": Dataset,
    "union dataset": lambda: Dataset(default_union=True),
    "oxigraph dataset": lambda: Dataset(store="Oxigraph"),
    "oxigraph union dataset": lambda: Dataset(store="Oxigraph", default_union=True),
    "oxigraph graph": lambda: Graph(store="Oxigraph", identifier=EX.only),
    "transactions": lambda: ConjunctiveGraph(store=AuditableStore(Memory())),
}


class Watched:
    """A dataset with its watched form, beside an equal one that nobody watches."""

    def __init__(self, make: Make, patterns: Any = ALL) -> None:
        self.original, self.twin = make(), make()
        self.held = HeldSet(self.original, patterns)
        self.store = WatchedStore(self.original, self.held, handle)
        self.dataset = watched(self.original, self.store)

    def check(self, operation: Operation) -> None:
        expected = do(self.twin, operation)
        assert do(self.dataset, operation) == expected, operation
        assert quads_of(self.original) == quads_of(self.twin), operation
        self.store.take_over()
        if not self.store._pending and not self.store._unsent:
            assert self.held.quads == self.held.present(), operation

    def check_committed(self) -> None:
        self.check(("commit",))
        if self.store._unsent:
            return  # an edit that the server refuses stays, and all that come after it
        self.store.take_over()
        assert self.held.quads == self.held.present()


def quads_of(graph: Graph) -> set[Any]:
    reader = QuadReader(graph)
    with as_committed(graph):
        found = set(reader.quads((None, None, None)))
    own = None if isinstance(graph, Dataset) else graph.identifier  # generated, so each has another
    return {(s, p, o, None if g is None else "its own" if g == own else str(g)) for s, p, o, g in found}


@pytest.mark.parametrize("kind", KINDS)
@given(done=operations, patterns=st.sampled_from(PATTERNS))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_watched_graph_does_the_same_and_reports_the_exact_change(
    kind: str, done: list[Operation], patterns: Any
) -> None:
    both = Watched(KINDS[kind], patterns)
    for operation in done:
        both.check(operation)
    both.check_committed()


@contextmanager
def berkeley() -> Iterator[Graph]:
    pytest.importorskip("berkeleydb", reason="BerkeleyDB is not installed (it needs libdb's headers)")
    with tempfile.TemporaryDirectory() as folder:
        graph = ConjunctiveGraph(store="BerkeleyDB")
        graph.open(folder, create=True)
        yield graph
        graph.close()


@pytest.mark.parametrize("patterns", [ALL, PATTERNS[1]])
@given(done=operations)
@settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_watched_graph_of_berkeley_db_does_the_same(patterns: Any, done: list[Operation]) -> None:
    with berkeley() as one, berkeley() as other:
        made = iter((one, other))
        both = Watched(lambda: next(made), patterns)
        for operation in done:
            both.check(operation)
        both.check_committed()


@pytest.fixture(scope="module")
def services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Service]]:
    folders = [tmp_path_factory.mktemp("ours") for _ in range(2)]
    opened = [
        Service.open(f"lmdb:{folder}", base="http://ex/", clock=SystemClock(), engine="inline") for folder in folders
    ]
    yield opened
    for service in opened:
        service.close()


@pytest.mark.parametrize("is_union", [False, True])
@given(done=operations, patterns=st.sampled_from(PATTERNS))
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_watched_dataset_on_our_own_store_does_the_same(
    services: list[Service], is_union: bool, done: list[Operation], patterns: Any
) -> None:
    for service in services:
        service.update("DROP ALL")
    left = iter(services)
    both = Watched(lambda: Dataset(store=RilletStore(next(left)), default_union=is_union), patterns)
    for operation in done:
        both.check(operation)
    both.check_committed()


@pytest.mark.parametrize("autocommit", [True, False])
@given(done=operations, patterns=st.sampled_from([ALL, PATTERNS[1]]))
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_watched_dataset_of_a_server_does_the_same(
    servers: list[Live], autocommit: bool, done: list[Operation], patterns: Any
) -> None:
    for server in servers:
        server.update("DROP ALL")
    left = iter(servers)
    both = Watched(lambda: remote(next(left), autocommit), patterns)
    for operation in done:
        both.check(operation)
    both.check_committed()


def remote(server: Live, autocommit: bool) -> Dataset:
    store = SPARQLUpdateStore(f"{server.url}/sparql", f"{server.url}/update", autocommit=autocommit)
    return Dataset(store=store)


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Live]]:
    with live(tmp_path_factory.mktemp("one")) as one, live(tmp_path_factory.mktemp("other")) as other:
        yield [one, other]


def test_quads_that_are_parsed_leave_the_default_graph_of_our_own_store_as_it_is(services: list[Service]) -> None:
    """rdflib's parser of N-Quads removes the default graph first, which it takes for a new one."""
    services[0].update("DROP ALL")
    dataset = Dataset(store=RilletStore(services[0]))
    dataset.add((EX.a, EX.p, EX.b))
    store = WatchedStore(dataset, HeldSet(dataset), handle)
    watched(dataset, store).parse(data="<http://ex/b> <http://ex/p> <http://ex/a> <http://ex/g> .", format="nquads")
    assert quads_of(dataset) == {(EX.a, EX.p, EX.b, None), (EX.b, EX.p, EX.a, "http://ex/g")}
