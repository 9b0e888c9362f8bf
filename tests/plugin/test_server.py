"""rdflib beside a server: its own client of a running Rillet, and its own endpoint over a store of ours."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from rdflib import Dataset, Graph, Literal, Namespace
from rdflib_endpoint import SparqlEndpoint

from plugin.store import RilletStore
from stream_ext.clock import SystemClock
from stream_ext.service.service import Service
from tests.endpoint.live import live

EX = Namespace("http://ex/")


def test_rdflibs_own_client_reads_and_writes_a_running_server(tmp_path: Path) -> None:
    with live(tmp_path) as server:
        graph = Graph("SPARQLUpdateStore", identifier=EX.g)
        graph.open((f"{server.url}/sparql", f"{server.url}/update"))
        graph.add((EX.a, EX.p, Literal("one", lang="en")))
        graph.add((EX.a, EX.p, EX.b))
        graph.remove((EX.a, EX.p, EX.b))
        graph.commit()
        assert list(graph) == [(EX.a, EX.p, Literal("one", lang="en"))]
        assert graph.query("ASK { ?s ?p 'one'@en }").askAnswer
        assert server.service.query("ASK { GRAPH <http://ex/g> { ?s ?p 'one'@en } }").boolean
        graph.close()


Send = Callable[..., httpx.Response]


@pytest.fixture
def stock(tmp_path: Path) -> Iterator[Send]:
    """rdflib-endpoint as it is, over a Dataset of ours."""
    with Service.open(f"lmdb:{tmp_path}", base="http://ex/", clock=SystemClock(), engine="inline") as service:
        dataset = Dataset(store=RilletStore(service))
        dataset.bind("ex", EX)
        app = SparqlEndpoint(graph=dataset, enable_update=True, path="/")

        async def send(method: str, **more: object) -> httpx.Response:
            async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://stock") as client:
                return await client.request(method, "/", **more)  # type: ignore[arg-type]  # what httpx takes

        yield lambda method, **more: asyncio.run(send(method, **more))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # rdflib-endpoint uses what rdflib would not any more
def test_the_stock_endpoint_runs_on_the_store(stock: Send) -> None:
    update = {"content-type": "application/sparql-update"}
    assert stock("POST", content="INSERT DATA { ex:a ex:p 1, 'zwei'@de }", headers=update).status_code == 204
    for accept in ("application/sparql-results+json", "text/csv", "application/sparql-results+xml"):
        answer = stock("GET", params={"query": "SELECT ?o { ex:a ex:p ?o }"}, headers={"accept": accept})
        assert answer.status_code == 200
        assert "zwei" in answer.text
    asked = stock("GET", params={"query": "ASK { ex:a ex:p 1 }"}, headers={"accept": "application/json"})
    assert asked.json()["boolean"] is True
    assert stock("GET", params={"query": "SELECT ?o { ex:a ex:p"}).status_code == 400
