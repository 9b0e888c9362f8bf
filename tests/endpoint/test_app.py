"""The application as a part of others, and what it does when too much is asked of it."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest
from fastapi import FastAPI
from rdflib_endpoint import SparqlEndpoint

from endpoint.app import create_app
from endpoint.errors import STATUS, describe, status_of
from endpoint.http.workers import Pool
from hbase_store import errors as of_store
from stream_ext import errors as of_engine
from stream_ext.clock import SystemClock
from stream_ext.errors import Overload
from stream_ext.service.service import Service
from tests.endpoint.live import BASE


def test_it_is_an_rdflib_endpoint_that_can_be_mounted_in_another(tmp_path: Path) -> None:
    with Service.open(f"lmdb:{tmp_path / 's'}", base=BASE, clock=SystemClock(), engine="inline") as service:
        app = create_app(service)
        assert isinstance(app, SparqlEndpoint)
        host = FastAPI()
        host.mount("/data/rillet", app)

        async def talk() -> None:
            transport = httpx.ASGITransport(app=host)
            async with httpx.AsyncClient(transport=transport, base_url="http://test/data/rillet") as client:
                answer = await client.get("/sparql", params={"query": "ASK { ?s ?p ?o }"})
                assert answer.json()["boolean"] is False
                iri = "http://ex/a/b"
                made = await client.put("/streams/" + quote(iri, safe=""))
                assert (made.status_code, made.json()["iri"]) == (201, iri)
                assert made.headers["location"] == "http://test/data/rillet/streams/" + quote(iri, safe="")
                assert (await client.get("/openapi.json")).json()["info"]["title"] == "Rillet"
                assert (await client.get("/elsewhere")).status_code == 404

        asyncio.run(talk())
        app.app_state.workers.close()


def test_one_call_too_many_is_asked_to_come_back() -> None:
    async def crowd() -> None:
        pool, hold = Pool("queries", threads=1, waiting=1), threading.Event()
        calls = [asyncio.create_task(pool.run(hold.wait)) for _ in range(2)]
        await asyncio.sleep(0)
        with pytest.raises(Overload, match="try again"):
            await pool.run(hold.wait)
        hold.set()
        assert await asyncio.gather(*calls) == [True, True]
        assert await pool.run(lambda: 7) == 7
        pool.close()

    asyncio.run(crowd())


def test_every_error_has_a_status_and_subclasses_come_first() -> None:
    for module in (of_engine, of_store):
        for found in vars(module).values():
            if isinstance(found, type) and issubclass(found, Exception) and found is not of_store.NotInMemory:
                assert status_of(found.__new__(found)) != 500 or issubclass(found, of_store.StoreError), found
    for place, (kind, _) in enumerate(STATUS):
        assert not any(issubclass(kind, earlier) for earlier, _ in STATUS[:place]), kind


def test_a_fault_of_ours_is_reported_without_its_secrets(caplog: pytest.LogCaptureFixture) -> None:
    problem = describe(KeyError("secret"))
    assert (problem.status, "secret" in problem.detail) == (500, False)
    assert "secret" in caplog.text  # the log has it
