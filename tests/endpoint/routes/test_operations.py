"""What looks after a server: metrics, the description of the interface, the pages that need no network."""

from __future__ import annotations

import platform
import re
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock
from urllib.parse import urljoin

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families
from rdflib import RDF, Graph, Namespace, URIRef

from endpoint.app import create_app
from endpoint.monitoring import figures
from endpoint.monitoring.last_known import Known
from endpoint.routes import metrics
from endpoint.routes.openapi import OPERATIONS
from endpoint.routes.table import ROUTES
from hbase_store.backends.calls import Calls, Counted
from hbase_store.version import __version__
from stream_ext.clock import ManualClock
from stream_ext.continuous.shard import Shard
from stream_ext.service.service import Service
from tests.docs.pages import DOCS, Page, codes
from tests.endpoint.live import BASE, NEAR, NT, TAXI_IN_ZONE, Live
from tests.parts.waiting import PATIENCE_S

Labels = frozenset[tuple[str, str]]


def samples(server: Live) -> dict[tuple[str, Labels], float]:
    """As prometheus-client reads them."""
    found: dict[tuple[str, Labels], float] = {}
    for family in text_string_to_metric_families(server.http.get("/$/metrics").text):
        for sample in family.samples:
            key = sample.name, frozenset(sample.labels.items())
            assert key not in found, sample
            found[key] = sample.value
    return found


def of(**labels: str) -> Labels:
    return frozenset(labels.items())


# ---- metrics


def test_metrics_are_what_prometheus_reads(server: Live) -> None:
    answer = server.http.get("/$/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    typed = re.findall(r"^# TYPE (\S+) (counter|gauge|histogram)$", answer.text, re.MULTILINE)
    helped = re.findall(r"^# HELP (\S+) .", answer.text, re.MULTILINE)
    assert [name for name, _ in typed] == helped
    assert len(set(helped)) == len(helped)
    families = dict(typed)
    for name, _ in samples(server):
        family = name if name in families else re.sub("_(bucket|sum|count)$", "", name)
        assert families[family] == ("histogram" if family != name else families[family])
        assert family.endswith("_total") == (families[family] == "counter")


def test_a_number_has_all_its_digits(server: Live) -> None:
    """A time of today has ten before the point."""
    server.http.put("/streams/today")
    server.http.post("/streams/today?timestamp=1790000123456", content=TAXI_IN_ZONE, headers=NT).raise_for_status()
    assert samples(server)["rillet_stream_time_seconds", of(stream="today")] == 1790000123.456


def test_metrics_say_what_runs_here(server: Live) -> None:
    (labels,) = (dict(labels) for name, labels in samples(server) if name == "rillet_build_info")
    assert labels == {"version": __version__, "python": platform.python_version(), "store": "lmdb", "engine": "inline"}


def test_metrics_count_what_happens(server: Live) -> None:
    before = samples(server)
    server.http.get("/sparql", params={"query": "ASK {"})
    server.http.put("/streams/counted").raise_for_status()
    server.http.post(
        "/streams/counted?timestamp=7000", content="<a:a> <b:b> 1 .", headers={"content-type": "text/turtle"}
    )
    server.http.request("BREW", "/nowhere")
    after = samples(server)
    bad = ("rillet_http_requests_total", of(route="/sparql", method="GET", status="400"))
    assert after[bad] == before.get(bad, 0) + 1
    assert after["rillet_snapshot", of()] == server.service.head()
    assert after["rillet_stream_batches_total", of(stream="counted")] == 1
    assert after["rillet_stream_elements_total", of(stream="counted")] == 1
    assert after["rillet_stream_time_seconds", of(stream="counted")] == 7
    buckets = {
        float(dict(labels)["le"]): value
        for (name, labels), value in after.items()
        if name.endswith("_bucket") and ("route", "/sparql") in labels
    }
    times = [buckets[bound] for bound in sorted(buckets)]
    assert times == sorted(times)
    assert times[-1] == after["rillet_http_request_seconds_count", of(route="/sparql")]
    assert after["process_resident_memory_bytes", of()] > 1e6


def test_the_time_of_a_request_is_in_seconds(server: Live) -> None:
    route = of(route="/queries/{query}/results")
    server.register(NEAR.replace("near", "slow")).raise_for_status()
    before = samples(server).get(("rillet_http_request_seconds_sum", route), 0)
    server.http.get("/queries/slow/results", params={"since": "0", "wait": "300ms"}).raise_for_status()
    assert 0.29 < samples(server)["rillet_http_request_seconds_sum", route] - before < 30


def test_a_client_that_goes_away_is_counted_as_499(server: Live) -> None:
    server.register(NEAR.replace("near", "gone")).raise_for_status()
    status = ("rillet_http_requests_total", of(route="/streams/{stream}", method="POST", status="499"))
    before = samples(server).get(status, 0)
    with socket.create_connection(("127.0.0.1", int(server.url.rpartition(":")[2])), 20) as client:
        head = "POST /streams/taxis?timestamp=1 HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/n-triples\r\n"
        client.sendall(f"{head}Content-Length: 100\r\n\r\n<a:".encode())
        state, until = server.server._app.app_state, time.monotonic() + 30
        while not state.bodies.nbytes:
            assert time.monotonic() < until
    while samples(server).get(status, 0) != before + 1:
        assert time.monotonic() < until


def test_names_that_have_series_of_their_own_are_bounded(server: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figures, "NAMES_MAX", 1)
    for name in ("one_more", "and_another"):
        server.http.put(f"/streams/{name}").raise_for_status()
    found = samples(server)
    assert len([1 for name, _ in found if name == "rillet_stream_batches_total"]) == 1
    assert found["rillet_streams", of()] > 1


def test_lag_is_reported_in_seconds(tmp_path: Path) -> None:
    """The clock is the test's: what is published at one moment and evaluated much later has waited for that long."""
    clock, gate = ManualClock(1_000_000), threading.Event()
    with Service.open(f"lmdb:{tmp_path}", base=BASE, clock=clock, engine="inline") as service:
        state = create_app(service).app_state
        service.register(NEAR)
        with mock.patch.object(Shard, "step", autospec=True, side_effect=held_until(gate, Shard.step)):
            data = TAXI_IN_ZONE.encode()
            service.push("taxis", data, "application/n-triples", timestamp=1_000_000)
            clock.advance(7_250)
            text = metrics.text(state, Known(figures.read(service), 0.0)).decode()
            gate.set()
            service.heartbeat("taxis", 1_010_000, wait="evaluated")
        after = metrics.text(state, Known(figures.read(service), 0.5)).decode()
    state.close()
    assert "\nrillet_lag_seconds 7.25\n" in text
    assert '\nrillet_query_lag_seconds{query="near"} 7.25\n' in text
    assert '\nrillet_stream_behind_seconds{stream="taxis"} 7.25\n' in text
    assert "\nrillet_figures_age_seconds 0.0\n" in text
    assert "\nrillet_lag_seconds 0.0\n" in after
    assert '\nrillet_query_lag_seconds{query="near"} 0.0\n' in after
    assert '\nrillet_query_time_seconds{query="near"} 1010.0\n' in after
    assert "\nrillet_figures_age_seconds 0.5\n" in after


def held_until(gate: threading.Event, step: Callable[..., Any]) -> Callable[..., Any]:
    def late(*arguments: Any) -> Any:
        assert gate.wait(PATIENCE_S)
        return step(*arguments)

    return late


def test_calls_of_hbase_are_counted_with_their_times() -> None:
    now = iter([0.0, 0.25, 10.0, 10.5, 20.0, 21.0])
    calls = Calls(lambda: next(now))
    for _ in range(2):
        with calls.counted("get_rows"):
            pass
    with pytest.raises(OSError), calls.counted("get_rows"):
        raise OSError
    assert calls.counts() == [Counted("get_rows", 3, 1, 1.75)]


def test_every_metric_has_its_place_in_the_reference(server: Live) -> None:
    server.http.get("/$/metrics")
    named = set(codes(Page(DOCS / "reference" / "http.md").section("GET /$/metrics")))
    assert {re.sub("_(bucket|sum|count)$", "", name) for name, _ in samples(server)} <= named


# ---- the description of the interface


def test_every_route_is_described_and_nothing_else() -> None:
    described = {(path, method) for path, methods in OPERATIONS.items() for method in methods}
    assert described == {(route.path, method) for route in ROUTES for method in route.methods}


def test_the_description_is_whole(server: Live) -> None:
    document = server.http.get("/openapi.json").json()
    assert document["openapi"].startswith("3.1")
    names = []
    for path, methods in document["paths"].items():
        for operation in methods.values():
            names.append(operation["operationId"])
            in_path = {each["name"] for each in operation["parameters"] if each["in"] == "path"}
            assert in_path == set(re.findall(r"{(\w+)}", path))
            assert operation["summary"] and operation["responses"]
            for reference in re.findall(r"'\$ref': '#/([\w/]+)'", str(operation)):
                found: Any = document
                for step in reference.split("/"):
                    found = found[step]
    assert len(names) == len(set(names))


#: What stands in paths.
_NAMES = {"stream": "s", "query": "q", "asset": "docs.js", "source": "main"}


def test_the_parameters_that_are_described_are_taken_and_others_are_not(server: Live) -> None:
    """Each is sent with a value that cannot be right: who knows it does not say that it is unknown."""
    server.http.put("/streams/s")
    server.register(NEAR.replace("near", "q"))
    document = server.http.get("/openapi.json").json()
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            if path == "/queries/{query}/results":
                continue  # it takes what SPARQLWrapper sends
            address = re.sub(r"{(\w+)}", lambda name: _NAMES.get(name[1], name[0]), path)
            body = _body_of(operation)
            asked = {"query": "ASK {}"} if operation["tags"] == ["SPARQL"] and not body else {}
            asked = {"default": ""} if path == "/data" else asked
            unknown = server.http.request(method, address, params={"nonsense": "1", **asked}, **body)
            assert (unknown.status_code, "nonsense=" in unknown.text) == (400, True), (method, path, unknown.text)
            for parameter in operation["parameters"]:
                if parameter["in"] == "query" and parameter["name"] not in ("query", "update", "default"):
                    answer = server.http.request(method, address, params={parameter["name"]: "\u00a7", **asked}, **body)
                    assert "unknown for this request" not in answer.text, (method, path, parameter["name"])


def _body_of(operation: dict[str, Any]) -> dict[str, Any]:
    types = list(operation.get("requestBody", {}).get("content", ()))
    if not types:
        return {}
    text = {"application/sparql-query": "ASK {}", "application/json": "{}"}.get(types[0], "")
    return {"content": text, "headers": {"content-type": types[0]}}


# ---- pages


@pytest.mark.parametrize("path", ["/sparql", "/docs"])
def test_a_page_loads_nothing_from_another_place_and_all_that_it_loads_is_there(server: Live, path: str) -> None:
    page = server.http.get(path, headers={"accept": "text/html"})
    assert page.headers["content-type"].startswith("text/html")
    loaded = re.findall(r"<(?:script|link|img)[^>]*?(?:src|href)=\"([^\"]+)\"", page.text)
    assert len(loaded) >= 3
    for address in loaded:
        if address == "data:,":
            continue
        found = httpx.get(urljoin(server.url + path, address))
        assert (found.status_code, urljoin(server.url, address).startswith(server.url)) == (200, True), address


def test_an_asset_comes_packed_or_not_as_the_client_wants(server: Live) -> None:
    packed = server.http.get("/$/assets/swagger-ui-bundle.js")
    plain = server.http.get("/$/assets/swagger-ui-bundle.js", headers={"accept-encoding": "identity"})
    assert packed.headers["content-encoding"] == "gzip"
    assert "content-encoding" not in plain.headers
    assert packed.content == plain.content
    assert plain.content.startswith(b"/*! For license information")


def test_the_service_description_has_the_streams_in_the_words_of_vocals(server: Live) -> None:
    vocals, dcat = Namespace("http://w3id.org/rsp/vocals#"), Namespace("http://www.w3.org/ns/dcat#")
    server.http.put("/streams/told", json={"iri": "http://ex/streams/told"})
    text = server.http.get("/sparql", headers={"accept": "text/turtle"}).text
    graph, stream = Graph().parse(data=text, format="turtle"), URIRef("http://ex/streams/told")
    assert (stream, RDF.type, vocals.RDFStream) in graph
    (entrance,) = graph.objects(stream, vocals.hasEndpoint)
    assert graph.value(entrance, dcat.accessURL) == URIRef(BASE + "streams/told")
    assert (URIRef(BASE + "sparql"), dcat.dataset, stream) in graph
    server.http.delete("/streams/told")
    assert "streams/told" not in server.http.get("/sparql", headers={"accept": "text/turtle"}).text


@pytest.mark.parametrize("accept", ["application/json", "application/problem+json"])
def test_json_that_people_print_ends_its_line(server: Live, accept: str) -> None:
    """What curl prints ends before the prompt; answers to SPARQL are as their formats have them."""
    server.http.put("/streams/taxis")
    server.register()
    for path in (
        "/streams", "/streams/taxis", "/streams/taxis/late", "/queries", "/queries/near", "/$/stats",
        "/$/queries", "/$/loads", "/openapi.json", "/sparql?query=EXPLAIN%20ASK%7B%7D", "/streams/nope", "/nope",
    ):  # fmt: skip
        answer = server.http.get(path, headers={"accept": accept})
        assert answer.text.endswith("\n"), path
        assert not answer.text.endswith("\n\n"), path
