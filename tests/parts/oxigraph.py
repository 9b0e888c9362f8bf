"""An Oxigraph behind rdflib-endpoint, as people run it: an rdflib Dataset over oxrdflib, served by uvicorn."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn
from rdflib import Dataset
from rdflib_endpoint import SparqlEndpoint

from endpoint.serve import listen
from tests.parts.waiting import until


class Served:
    def __init__(self, dataset: Dataset, query_url: str) -> None:
        self.dataset, self.query_url = dataset, query_url


@contextmanager
def served(dataset: Dataset | None = None) -> Iterator[Served]:
    """`dataset`: any of rdflib; an Oxigraph in memory if none is given."""
    dataset = Dataset(store="Oxigraph") if dataset is None else dataset
    with warnings.catch_warnings(), listen("127.0.0.1", 0) as socket:
        warnings.simplefilter("ignore", DeprecationWarning)  # rdflib-endpoint asks rdflib in a way that rdflib gives up
        application = SparqlEndpoint(graph=dataset, path="/sparql")
        server = uvicorn.Server(uvicorn.Config(application, log_level="critical", lifespan="off"))
        thread = threading.Thread(target=server.run, args=([socket],), name="rdflib-endpoint")
        thread.start()
        try:
            until(lambda: server.started, "rdflib-endpoint answers")
            yield Served(dataset, f"http://127.0.0.1:{socket.getsockname()[1]}/sparql")
        finally:
            server.should_exit = True
            thread.join(30)
