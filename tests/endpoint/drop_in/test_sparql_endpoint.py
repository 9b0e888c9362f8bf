"""`endpoint.SparqlEndpoint`: on its path as rdflib-endpoint, elsewhere as our application."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest
from rdflib import Dataset, Graph, Literal, Namespace, URIRef
from rdflib.plugins.stores.memory import Memory
from rdflib_endpoint import DatasetExt

from endpoint import SparqlEndpoint
from plugin.store import RilletStore
from tests.endpoint.drop_in.running import running

#: rdflib's own evaluator asks for what rdflib warns of.
pytestmark = pytest.mark.filterwarnings("ignore:Dataset.default_context is deprecated:DeprecationWarning")

EX = Namespace("http://ex/")
TRIPLE = (EX.z1, EX.partOf, EX.city)
NEAR = """PREFIX ex: <http://ex/>
REGISTER RSTREAM near AS SELECT ?taxi ?zone
FROM NAMED WINDOW ex:w ON STREAM taxis [RANGE 10s STEP 1s]
WHERE { WINDOW ex:w { ?taxi ex:in ?zone } }"""


@contextmanager
def served(graph: Graph | None = None, **settings: Any) -> Iterator[tuple[SparqlEndpoint, httpx.Client]]:
    app = SparqlEndpoint(graph=graph, **settings)
    with running(app) as client:
        yield app, client


def filled() -> Dataset:
    dataset = Dataset()
    dataset.add(TRIPLE)
    dataset.graph(EX.fleet).add((EX.taxi7, EX.seats, Literal(4)))
    return dataset


class Counted(Memory):
    """A memory store that counts how often it is read."""

    reads = 0

    def triples(self, *args: Any, **more: Any) -> Any:
        self.reads += 1
        return super().triples(*args, **more)


def values(client: httpx.Client, query: str, path: str = "/") -> list[dict[str, str]]:
    answer = client.get(path, params={"query": query}, headers={"accept": "application/sparql-results+json"})
    assert answer.status_code == 200, answer.text
    return [{name: term["value"] for name, term in row.items()} for row in answer.json()["results"]["bindings"]]


# ---- on the path -------------------------------------------------------------------------------------------------


def test_nothing_of_the_graph_is_read_at_start() -> None:
    store = Counted()
    dataset = Dataset(store=store)
    dataset.add(TRIPLE)
    store.reads = 0
    with served(dataset):
        assert store.reads == 0


def test_xml_is_what_a_client_gets_that_names_nothing_that_is_written() -> None:
    with served(filled()) as (_, client):
        for accept in ("", "*/*", "application/unknown"):
            answer = client.get("/", params={"query": "SELECT * { ?s ?p ?o }"}, headers={"accept": accept})
            assert answer.headers["content-type"] == "application/sparql-results+xml"
            assert answer.headers["server-timing"].startswith("total;dur=")


def test_a_description_is_written_as_a_graph() -> None:
    """There it is XML under the media type of solutions."""
    with served(filled()) as (_, client):
        answer = client.get("/", params={"query": "DESCRIBE <http://ex/z1>"}, headers={"accept": "text/turtle"})
        assert answer.headers["content-type"].startswith("text/turtle")
        assert set(Graph().parse(data=answer.text)) == {TRIPLE}


def test_a_form_is_decoded_once() -> None:
    """There it is decoded twice, and what was `%25` is lost."""
    with served() as (_, client):
        answer = client.post("/", data={"query": 'ASK { FILTER("100%25" = "100%" ) }'}, headers={"accept": "text/json"})
        assert answer.json()["boolean"] is False


def test_a_message_in_json_says_what_was_wrong() -> None:
    with served(filled()) as (_, client):
        for request, status in (
            ({"params": {"query": "SELECT * { ?s ?p"}}, 400),
            ({"params": {"query": "SELECT * { SERVICE <http://127.0.0.1:9/> { ?s ?p ?o } }"}}, 403),
            ({"params": {"update": "CLEAR ALL"}}, 400),
        ):
            answer = client.get("/", **request)
            assert (answer.status_code, list(answer.json())) == (status, ["message"]), answer.text
        for body, media_type, status in (
            (b"CLEAR ALL", "application/sparql-update", 403),
            (b"ASK {}", "text/plain", 415),
            (b"query=ASK {}&update=CLEAR ALL", "application/x-www-form-urlencoded", 400),
        ):
            answer = client.post("/", content=body, headers={"content-type": media_type})
            assert (answer.status_code, list(answer.json())) == (status, ["message"]), answer.text


def test_from_names_a_graph_of_the_dataset_and_is_never_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    def fetched(*_: object, **__: object) -> None:
        raise AssertionError("something was fetched")

    monkeypatch.setattr("urllib.request.urlopen", fetched)
    monkeypatch.setattr("rdflib.parser._urlopen", fetched)
    with served(filled(), enable_update=True) as (app, client):
        assert values(client, "SELECT ?s FROM <http://ex/fleet> { ?s ?p ?o }") == [{"s": "http://ex/taxi7"}]
        assert values(client, "SELECT ?s FROM <http://far/g> { ?s ?p ?o }") == []
        assert values(client, "SELECT ?g FROM NAMED <http://ex/fleet> { GRAPH ?g { } }") == [{"g": "http://ex/fleet"}]
        text = "INSERT { ?s ex:was ?o } USING <http://far/g> WHERE { ?s ?p ?o }".replace("ex:was", "<http://ex/was>")
        assert client.post("/", data={"update": text}).status_code == 204
        assert (None, EX.was, None) not in app.graph
        assert client.post("/", data={"update": "LOAD <http://far/g>"}).status_code == 403


def test_graphs_that_the_protocol_names_are_the_dataset_of_the_query() -> None:
    with served(filled()) as (_, client):
        parameters = {"query": "SELECT ?s { ?s ?p ?o }", "default-graph-uri": "http://ex/fleet"}
        answer = client.get("/", params=parameters, headers={"accept": "text/csv"})
        assert answer.text.split() == ["s", "http://ex/taxi7"]


def test_an_update_is_not_taken_from_a_page_of_another_origin() -> None:
    with served(filled(), enable_update=True) as (app, client):
        update = {"update": "CLEAR DEFAULT"}
        assert client.post("/", data=update, headers={"origin": "http://evil.net"}).status_code == 403
        assert TRIPLE in app.graph
        assert client.post("/", data=update).status_code == 204
        assert TRIPLE not in app.graph


def test_an_update_of_the_default_graph_is_one_of_this_graph_only() -> None:
    """rdflib's evaluator cannot insert into that of a Dataset, and clears all graphs with it."""
    with served(filled(), enable_update=True) as (_, client):
        for text in ("INSERT DATA { <http://ex/a> <http://ex/p> 1 }", "CLEAR DEFAULT"):
            assert client.post("/", data={"update": text}).status_code == 204
        assert values(client, "SELECT ?s { ?s ?p ?o }") == []
        assert values(client, "SELECT ?s { GRAPH ?g { ?s ?p ?o } }") == [{"s": "http://ex/taxi7"}]


def test_pages_of_others_may_read_only_if_cors_is_enabled() -> None:
    query = {"query": "ASK {}"}
    for settings, allowed in (({}, None), ({"cors_enabled": True}, "*")):
        with served(filled(), **settings) as (_, client):
            for path in ("/", "/sparql"):
                answer = client.get(path, params=query, headers={"origin": "http://other.net"})
                assert answer.headers.get("access-control-allow-origin") == allowed
                assert "access-control-allow-credentials" not in answer.headers


def test_a_browser_gets_the_query_page_which_runs_nothing_by_itself() -> None:
    with served(filled()) as (_, client):
        answer = client.get("/", params={"query": "ASK {}"}, headers={"accept": "text/html"})
        assert (answer.status_code, answer.headers["location"]) == (303, "/console/query?query=ASK+%7B%7D")
        assert client.get(answer.headers["location"]).status_code == 200


def test_what_the_application_adds_itself_comes_before_our_routes() -> None:
    app = SparqlEndpoint(graph=filled(), path="/rdf")

    @app.get("/streams")
    def streams() -> str:
        return "its own"

    with running(app) as client:
        assert client.get("/streams").json() == "its own"
        assert client.get("/queries").json() == {"queries": []}
        assert client.get("/nothing").status_code == 404
        assert values(client, "SELECT ?s { ?s ?p ?o }", "/rdf/") == [{"s": "http://ex/z1"}]


def test_a_text_that_is_too_long_is_refused_before_it_is_parsed() -> None:
    with served() as (_, client):
        answer = client.post("/", content=b"#" * (5 << 20), headers={"content-type": "application/sparql-query"})
        assert answer.status_code == 413


# ---- functions in Python -----------------------------------------------------------------------------------------


def test_functions_are_called_over_an_empty_dataset_too_and_leave_other_terms_as_they_are() -> None:
    """There an empty Dataset is taken for none, and every other BIND makes a literal of its IRI."""

    def twice(rows: list[Any], context: Any, part: Any, solution: Any) -> Any:
        rows += [solution.merge({part.var: Literal(number)}) for number in (1, 2)]
        return rows, context, part, solution

    with served(Dataset(), functions={"http://ex/twice": twice}) as (_, client):
        rows = values(client, "SELECT * { BIND(<http://ex/z1> AS ?z) BIND(<http://ex/twice>(?z) AS ?n) }")
        assert rows == [{"z": "http://ex/z1", "n": "1"}, {"z": "http://ex/z1", "n": "2"}]
        answer = client.get("/", params={"query": "SELECT ?z { BIND(<http://ex/z1> AS ?z) }"})
        assert "<uri>http://ex/z1</uri>" in answer.text


def test_a_graph_that_a_function_makes_is_gone_when_the_query_has_ended() -> None:
    dataset = DatasetExt()

    @dataset.graph_function()
    def halves(text: str) -> Graph:
        made = Graph()
        made.add((EX.it, EX.half, Literal(text[: len(text) // 2])))
        return made

    with served(dataset) as (_, client):
        query = 'SELECT ?h { BIND(<urn:sparql-function:halves>("abcd") AS ?g) GRAPH ?g { ?it <http://ex/half> ?h } }'
        assert values(client, query) == [{"h": "ab"}]
        assert len(dataset) == 0


def test_functions_read_what_our_own_store_has_too() -> None:
    dataset = DatasetExt()
    dataset.add((EX.z1, EX.name, Literal("a b")))

    @dataset.extension_function()
    def words(text: str) -> list[str]:
        return text.split()

    query = "SELECT ?w { ?z <http://ex/name> ?n BIND(<urn:sparql-function:words>(?n) AS ?w) } ORDER BY ?w"
    with served(dataset) as (app, client):
        assert [row["w"] for row in values(client, query)] == ["a", "b"]
        ours = Graph(store=RilletStore(app.attached.service))
        ours.add((EX.z2, EX.name, Literal("c d")))
        ours.add((EX.z1, EX.name, Literal("a b")))
        ours.commit()
        assert [row["w"] for row in values(client, query)] == ["a", "b", "c", "d"]
        assert [row["w"] for row in values(client, query.replace("SELECT", "SELECT DISTINCT"))] == ["a", "b", "c", "d"]


# ---- elsewhere ---------------------------------------------------------------------------------------------------


def test_streams_and_registered_queries_are_next_to_it() -> None:
    with served(filled(), enable_update=True) as (_, client):
        text = {"content-type": "application/sparql-query"}
        assert client.post("/queries", content=NEAR, headers=text).status_code == 201
        pushed = client.post(
            "/streams/taxis?timestamp=1000",
            content="<http://ex/t1> <http://ex/in> <http://ex/z1> .",
            headers={"content-type": "application/n-triples"},
        )
        assert pushed.status_code == 202
        client.post("/streams/taxis/heartbeat?timestamp=2000&wait=evaluated")
        found = client.get("/queries/near/results").json()["results"]["bindings"]
        assert [row["taxi"]["value"] for row in found] == ["http://ex/t1"]


def test_our_own_routes_read_and_write_the_graph_that_is_served() -> None:
    with served(filled(), enable_update=True) as (app, client):
        assert values(client, "SELECT ?s { ?s <http://ex/partOf> ?o }", "/sparql") == [{"s": "http://ex/z1"}]
        text = "INSERT DATA { <http://ex/z2> <http://ex/partOf> <http://ex/city> }"
        assert client.post("/update", data={"update": text}).status_code == 204
        assert values(client, "SELECT ?s { ?s ?p ?o } ORDER BY ?s") == [{"s": "http://ex/z1"}, {"s": "http://ex/z2"}]
        dataset = app.graph
        assert isinstance(dataset, Dataset)
        assert (EX.z2, EX.partOf, EX.city) in dataset.default_graph


@pytest.mark.parametrize("path", ["/streams/taxis", "/queries", "/update"])
def test_who_may_not_update_may_not_push_or_register_either(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RDFLIB_APIKEY", raising=False)
    bodies = {"/streams/taxis": b"", "/queries": NEAR.encode(), "/update": b"CLEAR ALL"}
    types = {"/streams/taxis": "text/turtle", "/queries": "application/sparql-query"}
    headers = {"content-type": types.get(path, "application/sparql-update")}
    with served(filled()) as (_, client):
        assert client.post(path, content=bodies[path], headers=headers).status_code == 403
    with served(filled(), enable_update=True) as (_, client):
        monkeypatch.setenv("RDFLIB_APIKEY", "key")
        assert client.post(path, content=bodies[path], headers=headers).status_code == 401
        right = {**headers, "authorization": "Bearer key"}
        assert client.post(path, content=bodies[path], headers=right).status_code not in (401, 403)


def test_the_service_is_closed_when_the_server_stops() -> None:
    with served(filled()) as (app, client):
        assert client.get("/$/ping").text.strip() == "pong"
        service = app.attached.service
    with pytest.raises(Exception, match="clos"):
        service.create_stream("late", {})


def test_it_is_an_endpoint_of_rdflib_endpoint() -> None:
    from rdflib_endpoint import SparqlEndpoint as Stock

    app = SparqlEndpoint(graph=Graph())
    assert isinstance(app, Stock)
    assert isinstance(app.graph, Graph)
    assert URIRef(app.attached.service.base) == URIRef("http://127.0.0.1:8000/")
    app.close()
