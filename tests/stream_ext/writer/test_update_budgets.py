"""The budget of an update: whatever an operation holds is counted, its time is looked at, and nothing of it stays."""

from __future__ import annotations

import itertools
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

import hbase_store
from hbase_store.layout.terms import iri
from stream_ext.errors import DeadlineExceeded, QueryCancelled, QueryTooLarge
from stream_ext.evaluation_budget import Control
from stream_ext.remote.allowed_urls import AllowedUrls, places
from stream_ext.service.service import Service
from stream_ext.writer.graph_store import Document
from tests.stream_ext.opened import EX, NT, opened

HEAD = f"PREFIX : <{EX}>\n"
PREDICATES = 4
ROWS = 10_000

G, H = f"{EX}g", f"{EX}h"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """Half of what there is lies in runs, and half in slabs."""
    folder = tmp_path_factory.mktemp("budgets")
    with opened(folder, allowed_urls=AllowedUrls(load=places(folder.as_uri() + "/"))) as service:
        (folder / "much.nt").write_bytes(triples(ROWS))
        for half in range(2):
            for graph in (None, G):
                service.merge_graph(graph, [document(half * ROWS // 2, (half + 1) * ROWS // 2)])
            if half == 0:
                service.store.fold()
        yield service


def triples(end: int, start: int = 0, subject: str = "s") -> bytes:
    lines = (f"<{EX}{subject}{n}> <{EX}p{n % PREDICATES}> <{EX}o{n % 100}> .\n" for n in range(start, end))
    return "".join(lines).encode()


def document(start: int, end: int, subject: str = "s") -> Document:
    return Document(triples(end, start, subject), NT, EX)


def data(count: int, subject: str) -> str:
    return " . ".join(f":{subject}{n} :p{n % PREDICATES} :o{n % 100}" for n in range(count))


Write = Callable[[Service, Control], object]


def text(update: str) -> Write:
    """Never twice the same: what was read before may be remembered."""
    number = itertools.count()
    return lambda service, control: service.update(f"{HEAD}{update} # {next(number)}", control=control)


def of_the_folder(update: str) -> Write:
    def write(service: Service, control: Control) -> object:
        folder = Path(service.store.url.removeprefix("lmdb:")).parent
        return service.update(HEAD + update.replace("$", folder.as_uri()), control=control)

    return write


WRITES: dict[str, Write] = {
    "COPY": text("COPY :g TO :h"),
    "COPY of the default graph": text("COPY DEFAULT TO :h"),
    "COPY over another": text("COPY :g TO DEFAULT"),
    "MOVE": text("MOVE :g TO :h"),
    "ADD": text("ADD :g TO :h"),
    "CLEAR": text("CLEAR GRAPH :g"),
    "CLEAR SILENT": text("CLEAR SILENT GRAPH :g"),
    "CLEAR DEFAULT": text("CLEAR DEFAULT"),
    "CLEAR NAMED": text("CLEAR NAMED"),
    "CLEAR ALL": text("CLEAR ALL"),
    "DROP": text("DROP GRAPH :g"),
    "INSERT DATA": text(f"INSERT DATA {{ {data(ROWS, 'i')} }}"),
    "DELETE DATA": text(f"DELETE DATA {{ {data(ROWS, 's')} }}"),
    "DELETE WHERE": text("DELETE WHERE { ?s ?p ?o }"),
    "INSERT by a pattern": text("INSERT { GRAPH :h { ?s ?p ?o } } WHERE { ?s ?p ?o }"),
    "DELETE by a pattern": text("DELETE { ?s ?p ?o } WHERE { ?s ?p ?o }"),
    "LOAD": of_the_folder("LOAD <$/much.nt> INTO GRAPH :h"),
    "LOAD SILENT": of_the_folder("LOAD SILENT <$/much.nt> INTO GRAPH :h"),
    "PUT": lambda service, control: service.replace_graph(G, [document(0, 10)], control=control),
    "PUT of much": lambda service, control: service.replace_graph(H, [document(0, ROWS, "i")], control=control),
    "POST": lambda service, control: service.merge_graph(H, [document(0, ROWS, "i")], control=control),
    "POST of quads": lambda service, control: service.add_quads([document(0, ROWS, "i")], control=control),
    "DELETE": lambda service, control: service.drop_graph(G, control=control),
}
each_write = pytest.mark.parametrize("write", WRITES.values(), ids=WRITES.keys())


@each_write
def test_what_a_write_holds_is_counted(service: Service, write: Write) -> None:
    """A copy of a graph of any size was done in a budget of 1 MiB."""
    head = service.head()
    with pytest.raises(
        QueryTooLarge, match=r"^the update (needs more than its memory limit of 1 MiB:|would make) .*--query-bytes"
    ):
        write(service, Control(bytes_max=1 << 20, what="update"))
    assert service.head() == head


def test_operations_of_one_request_share_a_budget(service: Service) -> None:
    """Each is small, and the batch holds what all of them say; the first one is not done, either."""
    head = service.head()
    operation = "INSERT { GRAPH :h { ?s :q%d ?o } } WHERE { ?s :p0 ?o }"
    update = "INSERT DATA { :first :p 1 } ; " + " ; ".join(operation % n for n in range(20))
    text(operation % 0 + " ; " + operation % 1)(service, Control(bytes_max=8 << 20))
    with pytest.raises(QueryTooLarge):
        text(update)(service, Control(bytes_max=8 << 20))
    assert service.head() == head + 1
    text("DROP GRAPH :h")(service, Control())


def test_documents_of_one_request_share_a_budget(service: Service) -> None:
    """All of them are read before the first of them is written."""
    head = service.head()
    update = " ; ".join(["LOAD <$/much.nt> INTO GRAPH :h"] * 30)
    with pytest.raises(QueryTooLarge):
        of_the_folder(update)(service, Control(bytes_max=24 << 20))
    assert service.head() == head


class Ticking:
    """A clock that is looked at so many times before the time is up."""

    def __init__(self, looks: int | None = None, then: Callable[[], None] = lambda: None) -> None:
        self.looks, self.seen, self._then = looks, 0, then

    def __call__(self) -> float:
        self.seen += 1
        if self.looks is None or self.seen <= self.looks:
            return 0.0
        self._then()
        return 2.0


@each_write
def test_the_time_of_a_write_is_looked_at_all_along(service: Service, write: Write) -> None:
    """Also while what it says is put into the form in which it is stored."""
    clock, before = Ticking(), -1
    while clock.seen != before:  # the first time there are new terms
        clock, before = Ticking(), clock.seen
        write(service, Control(1.0, clock=clock))
        restore(service)
    assert clock.seen > 2 * PREDICATES, "once a predicate where it is read, and where it is written"
    head = service.head()
    for looks in sorted({1, *range(2, clock.seen - 1, max(1, clock.seen // 5)), clock.seen - 1}):
        with pytest.raises(DeadlineExceeded):
            write(service, Control(1.0, clock=Ticking(looks)))
        assert service.head() == head, "nothing of it is done"


@each_write
def test_a_write_is_cancelled_while_it_is_made(service: Service, write: Write) -> None:
    clock = Ticking(4, lambda: control.cancel())
    control = Control(10.0, clock=clock)
    head = service.head()
    with pytest.raises(QueryCancelled):
        write(service, control)
    assert service.head() == head


def restore(service: Service) -> None:
    service.update(HEAD + "CLEAR ALL")
    for graph in (None, G):
        service.merge_graph(graph, [document(0, ROWS)])


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """100,000 triples in the default graph and in another, all of one predicate, in a run."""
    folder = tmp_path_factory.mktemp("large")
    with closing(hbase_store.open(f"lmdb:{folder / 'store'}", folding=False)) as store:
        batch = store.begin()
        p, g, *nodes = batch.encode([iri(EX + name) for name in ("p", "g", *(f"s{n}" for n in range(100_000)))])
        for graph in (0, g):
            batch.insert(nodes, p, nodes, graph)
        store.commit(batch)
        store.fold()
    return folder


@pytest.mark.parametrize("operation", ["COPY :g TO :h", "COPY DEFAULT TO :h", "CLEAR ALL", "DROP GRAPH :g"])
def test_a_graph_that_does_not_fit_is_not_gathered(large: Path, operation: str) -> None:
    """No more of it is read than there is room for: 2.4 MB of 50 million triples would be 1.2 GB."""
    with opened(large) as service:  # nothing of it is in the cache
        tracemalloc.start()
        try:
            with pytest.raises(QueryTooLarge):
                service.update(HEAD + operation, control=Control(bytes_max=1 << 20))
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert peak < 1 << 20, peak
