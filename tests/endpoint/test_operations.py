"""What looks after a server: metrics, the description of the interface, the pages that need no network."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urljoin

import httpx
import pytest
from rdflib import RDF, Graph, Namespace, URIRef

from endpoint.openapi import OPERATIONS
from endpoint.routes import ROUTES
from tests.docs.pages import DOCS, Page, codes
from tests.endpoint.live import BASE, NEAR, Live

SAMPLE = re.compile(r'([a-z_]+)(?:\{((?:[a-z]+="(?:[^"\\\n]|\\.)*",?)*)\})? (-?[0-9.e+-]+|\+Inf|NaN)')


def samples(server: Live) -> dict[tuple[str, str], float]:
    text = server.http.get("/$/metrics").text
    assert text.endswith("\n")
    found: dict[tuple[str, str], float] = {}
    for line in text.splitlines():
        if not line.startswith("#"):
            sample = SAMPLE.fullmatch(line)
            assert sample, line
            key = sample[1], sample[2] or ""
            assert key not in found, line
            found[key] = float(sample[3])
    return found


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


def test_metrics_count_what_happens(server: Live) -> None:
    before = samples(server)
    server.http.get("/sparql", params={"query": "ASK {"})
    server.http.put("/streams/counted").raise_for_status()
    server.http.post(
        "/streams/counted?timestamp=7000", content="<a:a> <b:b> 1 .", headers={"content-type": "text/turtle"}
    )
    server.http.request("BREW", "/nowhere")
    after = samples(server)
    bad = ("rillet_http_requests_total", 'route="/sparql",method="GET",status="400"')
    assert after[bad] == before.get(bad, 0) + 1
    assert after["rillet_snapshot", ""] == server.service.head()
    assert after["rillet_stream_batches_total", 'stream="counted"'] == 1
    assert after["rillet_stream_time_seconds", 'stream="counted"'] == 7
    times = [value for (name, labels), value in after.items() if name.endswith("_bucket") and '"/sparql"' in labels]
    assert times == sorted(times)
    assert times[-1] == after["rillet_http_request_seconds_count", 'route="/sparql"']
    assert after["process_resident_memory_bytes", ""] > 1e6


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


def test_the_parameters_that_are_described_are_taken_and_others_are_not(server: Live) -> None:
    """Each is sent with a value that cannot be right: who knows it does not say that it is unknown."""
    server.http.put("/streams/s")
    server.register(NEAR.replace("near", "q"))
    document = server.http.get("/openapi.json").json()
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            if path == "/queries/{query}/results":
                continue  # it takes what SPARQLWrapper sends
            address = path.replace("{stream}", "s").replace("{query}", "q").replace("{asset}", "docs.js")
            body = _body_of(operation)
            asked = {"query": "ASK {}"} if operation["tags"] == ["SPARQL"] and not body else {}
            asked = {"default": ""} if path == "/data" else asked
            unknown = server.http.request(method, address, params={"nonsense": "1", **asked}, **body)
            assert (unknown.status_code, "nonsense=" in unknown.text) == (400, True), (method, path, unknown.text)
            for parameter in operation["parameters"]:
                if parameter["in"] == "query" and parameter["name"] not in ("query", "update", "default"):
                    answer = server.http.request(method, address, params={parameter["name"]: "\u00a7", **asked}, **body)
                    assert "unknown here" not in answer.text, (method, path, parameter["name"])


def _body_of(operation: dict[str, Any]) -> dict[str, Any]:
    types = list(operation.get("requestBody", {}).get("content", ()))
    if not types:
        return {}
    text = {"application/sparql-query": "ASK {}", "application/json": "{}"}.get(types[0], "")
    return {"content": text, "headers": {"content-type": types[0]}}


# ---- pages


@pytest.mark.parametrize("path", ["/sparql", "/docs"])
def test_a_page_loads_nothing_from_elsewhere_and_all_that_it_loads_is_there(server: Live, path: str) -> None:
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
