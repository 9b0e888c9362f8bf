"""SERVICE in what is registered over HTTP: who may be asked, live queries, and a query that had no answer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from stream_ext.remote.allowed_urls import AllowedUrls, places
from tests.endpoint.live import SPARQL_QUERY, Live, live
from tests.endpoint.routes.test_live_query import listening
from tests.stream_ext.fake_server import FakeServer, Reply, fake_server
from tests.stream_ext.network.test_service_operator import answering, knowing

NAMED = """PREFIX ex: <http://ex/>
SELECT ?taxi ?name
FROM NAMED WINDOW ex:w ON STREAM taxis [RANGE 1s STEP 100ms]
WHERE { WINDOW ex:w { ?taxi ex:in ?zone } SERVICE <there> { ?zone ex:name ?name } }"""


@pytest.fixture
def there() -> Iterator[FakeServer]:
    with fake_server() as server:
        server.replies["/x"] = answering(knowing(":z1 :name 'one'"))
        yield server


@pytest.fixture
def running(tmp_path: Path, there: FakeServer) -> Iterator[Live]:
    with live(tmp_path / "store", allowed_urls=AllowedUrls(service=places(there.url))) as server:
        server.http.put("/streams/taxis").raise_for_status()
        yield server


def test_who_listens_learns_what_a_service_answers(running: Live, there: FakeServer) -> None:
    with listening(running, NAMED.replace("<there>", f"<{there.url}/x>")) as listener:
        running.push(1050)
        running.push(1100)
        (emission,) = listener.emissions(1)
    (row,) = emission["results"]["bindings"]
    assert row["name"]["value"] == "one"


def test_a_service_that_is_not_allowed_is_a_403_at_registration(running: Live) -> None:
    text = NAMED.replace("<there>", "<http://example.org/sparql>")
    answer = running.http.put("/queries/named", content=text, headers=SPARQL_QUERY)
    assert answer.status_code == 403 and "<http://example.org/sparql> is not among" in answer.text
    assert running.http.get("/queries/named").status_code == 404
    answer = running.http.get("/sparql", params={"query": text}, headers={"accept": "text/event-stream"})
    assert answer.status_code == 403


def test_resume_brings_back_a_query_that_had_no_answer(running: Live, there: FakeServer) -> None:
    text = NAMED.replace("<there>", f"<{there.url}/x>")
    running.http.put("/queries/named", content=text, headers=SPARQL_QUERY).raise_for_status()
    there.replies["/x"] = Reply(500, b"no memory")
    running.push(1050)
    running.push(1100)
    status = running.http.get("/queries/named").json()
    assert status["state"] == "waiting" and "answered 500 Internal Server Error: no memory" in status["error"]
    there.replies["/x"] = answering(knowing(":z1 :name 'one'"))
    running.http.post("/queries/named", params={"action": "resume"}).raise_for_status()
    running.push(1250)
    status = running.http.get("/queries/named").json()
    assert (status["state"], status["error"]) == ("running", None)
    first = running.http.get("/queries/named/results", params={"since": "0"}).text
    assert '"gap":true' in first.replace(" ", "") and '"time":1200' in first.replace(" ", "")


def test_a_measured_query_asks_the_services_that_any_query_may_ask(running: Live, there: FakeServer) -> None:
    def answers(service: str) -> list[tuple[int, str]]:
        text = f"SELECT * {{ SERVICE <{service}> {{ ?zone <http://ex/name> ?name }} }}"
        plain, measured = ({"query": text}, {"query": text, "explain": "analyze"})
        found = [running.http.get("/sparql", params=each) for each in (plain, measured)]
        return [(each.status_code, each.text) for each in found]

    run, measured = answers("http://example.org/sparql")
    assert run == measured and run[0] == 403 and "<http://example.org/sparql> is not among" in run[1]
    there.replies["/x"] = Reply(500, b"no memory")
    run, measured = answers(f"{there.url}/x")
    assert run == measured and run[0] == 502 and "no memory" in run[1]
