"""The W3C's tests of the SPARQL Protocol and of service descriptions, over real HTTP."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import httpx
import pytest
from rdflib import RDF, Graph, Namespace, URIRef

from endpoint.trial_hbase.server import HBase
from stream_ext.writer.graph_store import Document
from tests.endpoint.live import BASE, Live, live
from tests.endpoint.w3c_http import Answer, Case, Expected, cases

SD = Namespace("http://www.w3.org/ns/sparql-service-description#")
TABULAR = ("application/sparql-results+json", "application/sparql-results+xml", "text/csv", "text/tab-separated-values")
AS_RDF = ("text/turtle", "application/rdf+xml", "application/n-triples", "application/ld+json")


def w3c_cases() -> list[Case]:
    return cases("protocol/manifest.ttl", "ProtocolTest")


@pytest.fixture
def empty(tmp_path: Path) -> Iterator[Live]:
    with live(tmp_path / "store") as running:
        yield running


def test_all_the_cases_of_the_w3c_are_there() -> None:
    assert len({case.name for case in w3c_cases()}) == 34


@pytest.mark.parametrize("number", range(34))
def test_it_does_as_the_w3c_says(empty: Live, number: int) -> None:
    check_case(empty, w3c_cases()[number])


@pytest.mark.hbase
@pytest.mark.xdist_group("hbase")
def test_it_does_so_with_a_store_on_a_real_hbase(hbase_server: HBase) -> None:
    with live(f"hbase://127.0.0.1:{hbase_server.thrift_port}/protocol_{uuid.uuid4().hex[:8]}") as running:
        for case in w3c_cases():
            running.update("DROP ALL")
            check_case(running, case)


def check_case(empty: Live, case: Case) -> None:
    for graph, file in case.data:
        document = Document(file.read_bytes(), "application/n-triples", "http://ex/")
        empty.service.replace_graph(graph, [document])
    for request, expected in case.steps:
        answer = request.send(empty)
        assert answer.status in expected.statuses, (case.name, request, answer)
        check(answer, expected)


def check(answer: Answer, expected: Expected) -> None:
    if expected.format == "boolean":
        assert boolean_of(answer) == (True if expected.boolean is None else expected.boolean)
    elif expected.format == "tabular":
        assert answer.media_type in TABULAR
    elif expected.format == "RDF":
        assert answer.media_type in AS_RDF
        answer.graph()


def boolean_of(answer: Answer) -> bool:
    if answer.media_type.endswith("json"):
        return bool(json.loads(answer.body)["boolean"])
    found = ElementTree.fromstring(answer.body).find("{http://www.w3.org/2005/sparql-results#}boolean")
    assert found is not None
    return found.text == "true"


# ---- service description


def described(server: Live, path: str = "/sparql") -> Graph:
    answer = httpx.get(server.url + path, headers={"accept": "text/turtle"})
    assert answer.headers["content-type"].startswith("text/turtle")
    return Graph().parse(data=answer.text, format="turtle")


def test_get_on_the_endpoint_returns_rdf(server: Live) -> None:
    for accept in (*AS_RDF, "*/*", ""):
        answer = httpx.get(server.url + "/sparql", headers={"accept": accept} if accept else {})
        assert answer.headers["content-type"].partition(";")[0] in AS_RDF


def test_the_description_has_the_endpoint(server: Live) -> None:
    graph = described(server)
    (service,) = graph.subjects(RDF.type, SD.Service)
    assert (service, SD.endpoint, URIRef(BASE + "sparql")) in graph


#: Properties of the vocabulary, and what the specification says their values are (None: any IRI).
VALUES = {
    SD.endpoint: None,
    SD.feature: {
        SD.DereferencesURIs,
        SD.UnionDefaultGraph,
        SD.RequiresDataset,
        SD.EmptyGraphs,
        SD.BasicFederatedQuery,
    },
    SD.supportedLanguage: {SD.SPARQL10Query, SD.SPARQL11Query, SD.SPARQL11Update},
    SD.languageExtension: None,
    SD.resultFormat: None,
    SD.inputFormat: None,
}


def test_the_description_conforms_to_its_schema(server: Live) -> None:
    graph = described(server)
    (service,) = graph.subjects(RDF.type, SD.Service)
    for predicate, value in graph.predicate_objects(service):
        if predicate in VALUES:
            assert isinstance(value, URIRef), (predicate, value)
            allowed = VALUES[URIRef(predicate)]
            assert allowed is None or value in allowed
        elif str(predicate).startswith(str(SD)):
            assert predicate in (SD.defaultDataset, SD.availableGraphs, SD.extensionFunction), predicate
    (dataset,) = graph.objects(service, SD.defaultDataset)
    assert (dataset, RDF.type, SD.Dataset) in graph
    (default,) = graph.objects(dataset, SD.defaultGraph)
    assert (default, RDF.type, SD.Graph) in graph
