"""SPARQLWrapper, as it is: each form of query in each format and by each method, updates with all credentials."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from typing import Any

import pytest
from rdflib import Graph, URIRef
from rdflib import Literal as Text
from SPARQLWrapper import (
    BASIC,
    CSV,
    GET,
    JSON,
    JSONLD,
    N3,
    POST,
    POSTDIRECTLY,
    RDFXML,
    TSV,
    TURTLE,
    URLENCODED,
    XML,
    SPARQLWrapper,
)
from SPARQLWrapper.SPARQLExceptions import EndPointNotFound, QueryBadFormed, Unauthorized

from tests.endpoint.live import Live, live

TOKEN = "a-token"
S, P = URIRef("http://ex/s"), URIRef("http://ex/p")
VALUES = {"one", "<&\"'\t,\n", "ü"}

WAYS = [(GET, URLENCODED), (POST, URLENCODED), (POST, POSTDIRECTLY)]


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    with live(tmp_path_factory.mktemp("wrapped"), token=TOKEN) as running:
        literals = ", ".join(Text(value).n3() for value in sorted(VALUES))
        running.service.update(f"INSERT DATA {{ {S.n3()} {P.n3()} {literals} }}")
        yield running


def wrapper(server: Live, way: tuple[str, str], format: str | None, query: str) -> SPARQLWrapper:
    made = SPARQLWrapper(server.url + "/sparql")
    made.setMethod(way[0])
    made.setRequestMethod(way[1])
    if format is not None:
        made.setReturnFormat(format)
    made.setQuery(query)
    return made


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("format", [JSON, XML, CSV, TSV, None])
def test_select_in_every_format(guarded: Live, way: tuple[str, str], format: str | None) -> None:
    answer = wrapper(guarded, way, format, f"SELECT ?o {{ {S.n3()} {P.n3()} ?o }}").query().convert()
    assert values_of(answer, format) == VALUES


def values_of(answer: Any, format: str | None) -> set[str]:
    if format == JSON:
        return {row["o"]["value"] for row in answer["results"]["bindings"]}
    if format in (XML, None):  # what it asks for by itself is XML first
        return {element.firstChild.data for element in answer.getElementsByTagName("literal")}
    if format == CSV:
        return {row[0] for row in list(csv.reader(io.StringIO(answer.decode(), newline="")))[1:]}
    graph = "".join(f"<urn:x:s> <urn:x:p> {line} .\n" for line in answer.decode().splitlines()[1:])
    return {str(value) for value in Graph().parse(data=graph, format="turtle").objects()}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("format", [JSON, XML, CSV, TSV])
def test_ask_in_every_format(guarded: Live, way: tuple[str, str], format: str) -> None:
    for query, expected in ((f"ASK {{ {S.n3()} ?p ?o }}", True), ("ASK { <http://ex/none> ?p ?o }", False)):
        answer = wrapper(guarded, way, format, query).query().convert()
        if format == JSON:
            assert answer["boolean"] is expected
        elif format == XML:
            assert answer.getElementsByTagName("boolean")[0].firstChild.data == str(expected).lower()
        else:
            assert answer.decode().split()[-1] == str(expected).lower()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("format", [TURTLE, N3, RDFXML, XML, JSONLD, None])
@pytest.mark.parametrize("query", [f"CONSTRUCT {{ ?s {P.n3()} ?o }} {{ ?s {P.n3()} ?o }}", f"DESCRIBE {S.n3()}"])
def test_graphs_in_every_format(guarded: Live, way: tuple[str, str], format: str | None, query: str) -> None:
    answer = wrapper(guarded, way, format, query).query()
    media_type = answer.info()["content-type"].partition(";")[0]
    found = answer.response.read().decode()
    if media_type != "application/ld+json":  # rdflib's own reader of JSON-LD uses what rdflib has deprecated
        found_graph = Graph().parse(data=found, format=media_type)
        assert {(s, p, str(o)) for s, p, o in found_graph} == {(S, P, value) for value in VALUES}
    assert (format == JSONLD) == (media_type == "application/ld+json")


@pytest.mark.parametrize("way", WAYS[1:])
@pytest.mark.parametrize("kind", ["basic", "bearer"])
def test_updates_with_each_kind_of_credentials(guarded: Live, way: tuple[str, str], kind: str) -> None:
    node = f"<http://ex/{kind}-{way[1]}>"
    for text, there in ((f"INSERT DATA {{ {node} a 1 }}", True), (f"DELETE WHERE {{ {node} ?p ?o }}", False)):
        client = wrapper(guarded, way, None, text)
        with pytest.raises(Unauthorized):
            client.query()
        if kind == "basic":
            client.setHTTPAuth(BASIC)
            client.setCredentials("whoever", TOKEN)
        else:
            client.addCustomHttpHeader("Authorization", f"Bearer {TOKEN}")
        assert client.query().response.status == 204
        assert (
            wrapper(guarded, (GET, URLENCODED), JSON, f"ASK {{ {node} ?p ?o }}").query().convert()["boolean"] is there
        )


def test_what_is_wrong_reaches_its_users(guarded: Live) -> None:
    with pytest.raises(QueryBadFormed, match="line 1, column 8"):
        wrapper(guarded, WAYS[0], JSON, "SELECT { }").query()
    elsewhere = SPARQLWrapper(guarded.url + "/nowhere")
    elsewhere.setQuery("ASK {}")
    with pytest.raises(EndPointNotFound):
        elsewhere.query()


@pytest.mark.parametrize("way", WAYS)
def test_the_dataset_is_named_next_to_the_text(guarded: Live, way: tuple[str, str]) -> None:
    guarded.service.update("INSERT DATA { GRAPH <http://ex/g> { <http://ex/in> <http://ex/p> 1 } }")
    client = wrapper(guarded, way, JSON, "SELECT ?s { ?s <http://ex/p> 1 }")
    client.addDefaultGraph("http://ex/g")
    assert [row["s"]["value"] for row in client.query().convert()["results"]["bindings"]] == ["http://ex/in"]
