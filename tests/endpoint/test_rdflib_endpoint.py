"""rdflib-endpoint's own tests, from its source distribution, against our subclass of its endpoint.

They run word by word. What they import and make is ours here: an endpoint over a store of our own, a graph of
the plugin over the same store, and a client that finds the endpoint where ours has it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import httpx
import pytest
from rdflib import Graph
from rdflib_endpoint import SparqlEndpoint

from endpoint.app import RilletEndpoint
from plugin.store import RilletStore
from tests.endpoint.live import Live, live
from tests.parts.sources import source_of

VERSION = "0.6.3"
FILES = ("test_rdflib_endpoint", "test_oxrdflib")

_PYTHON = "it registers a function in Python with rdflib's evaluator, which does not evaluate here"
_NO_TEXT = "a POST without a text is a bad request in the SPARQL Protocol (the W3C tests it); here it gets 415"
_NOT_ACCEPTABLE = "a SELECT for a client that takes Turtle alone gets XML there; here 406, as HTTP has it"
#: What is otherwise here, and why.
OTHERWISE = {
    "test_rdflib_endpoint.test_service_description": f"{_PYTHON}; and {_NO_TEXT}",
    "test_oxrdflib.test_service_description": _NO_TEXT,
    "test_rdflib_endpoint.test_custom_concat_json": _PYTHON,
    "test_rdflib_endpoint.test_select_noaccept_xml": f"{_PYTHON}; and JSON is what a client gets that says nothing",
    "test_rdflib_endpoint.test_select_csv": _PYTHON,
    "test_rdflib_endpoint.test_multiple_accept_return_json": _PYTHON,
    "test_rdflib_endpoint.test_multiple_accept_return_json2": _PYTHON,
    "test_rdflib_endpoint.test_select_turtle": _NOT_ACCEPTABLE,
    "test_oxrdflib.test_select_turtle": _NOT_ACCEPTABLE,
    "test_rdflib_endpoint.test_concat_construct_turtle": _PYTHON,
    "test_rdflib_endpoint.test_concat_construct_csv": _PYTHON,
    "test_rdflib_endpoint.test_concat_construct_jsonld": _PYTHON,
    "test_rdflib_endpoint.test_concat_construct_xml": _PYTHON,
    "test_rdflib_endpoint.test_concat_construct_rdf_xml_with_two_accept_options": _PYTHON,
    "test_rdflib_endpoint.test_legacy_functions_are_scoped_to_router_graph": _PYTHON,
    "test_rdflib_endpoint.test_sparql_update[key]": "its token is an environment variable that is read at each update, "
    "and refuses with 403; ours is a setting of the server, and refuses with 401",
}


class Client:
    """As their test client takes it: `data` may be a text, and "/" is where the endpoint is."""

    def __init__(self, server: Live) -> None:
        self._http = httpx.Client(base_url=server.url + "/sparql", timeout=20)

    def close(self) -> None:
        self._http.close()

    def get(self, path: str, **request: Any) -> httpx.Response:
        return self._http.get(path, **request)

    def post(self, path: str, data: Any = None, **request: Any) -> httpx.Response:
        return self._http.post(path, **{"content" if isinstance(data, str) else "data": data}, **request)


class Written(Graph):
    """A graph of the plugin that writes at once: the tests add to it and then ask by HTTP, without a commit."""

    def add(self, triple: Any) -> Written:
        super().add(triple)
        self.commit()
        return self


class Stage:
    """One server for a file of tests, and what its names stand for."""

    def __init__(self, server: Live, ends: ExitStack) -> None:
        self._server, self._ends = server, ends

    def graph(self) -> Graph:
        return Written(store=RilletStore(self._server.service))

    def endpoint(self, **settings: Any) -> RilletEndpoint:
        app = self._server.server._app
        assert isinstance(app, SparqlEndpoint)
        return app

    def client(self, app: RilletEndpoint) -> Client:
        client = Client(self._server)
        self._ends.callback(client.close)
        return client


@pytest.fixture(scope="module", params=FILES)
def suite(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, dict[str, Any]]]:
    with live(tmp_path_factory.mktemp("suite")) as server, ExitStack() as ends:
        stage = Stage(server, ends)
        text = (source_of("rdflib-endpoint", VERSION) / "tests" / f"{request.param}.py").read_text()
        for theirs, ours in (
            ("from fastapi.testclient import TestClient\n", ""),
            ("from rdflib_endpoint import SparqlEndpoint\n", ""),
            ("graph = Graph()\n\n\ndef", "graph = made()\n\n\ndef"),
            ('Graph(store="Oxigraph")', "made()"),
        ):
            text = text.replace(theirs, ours)
        names: dict[str, Any] = {
            "__name__": request.param,
            "TestClient": stage.client,
            "SparqlEndpoint": stage.endpoint,
            "made": stage.graph,
        }
        exec(compile(text, request.param, "exec"), names)
        yield request.param, names


def cases(file: str, names: dict[str, Any]) -> Iterator[tuple[str, Callable[..., None], dict[str, Any]]]:
    for name, test in names.items():
        if not name.startswith("test_"):
            continue
        marks = [mark for mark in getattr(test, "pytestmark", ()) if mark.name == "parametrize"]
        if not marks:
            yield f"{file}.{name}", test, {}
        for mark in marks:
            for values in mark.args[1]:
                given = dict(zip(mark.args[0].split(","), values, strict=True))
                yield f"{file}.{name}" + (f"[{given['api_key']}]" if given["api_key"] else ""), test, given


def test_it_passes_the_tests_of_the_endpoint_that_it_extends(
    suite: tuple[str, dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    file, names = suite
    passed, failed = 0, {}
    for name, test, given in cases(file, names):
        if name in OTHERWISE:
            continue
        if "graph" in names:
            names["graph"].remove((None, None, None))
        try:
            test(**given, **({"monkeypatch": monkeypatch} if given else {}))
            passed += 1
        except AssertionError as error:
            failed[name] = str(error)[:300]
    assert not failed
    assert passed == {"test_rdflib_endpoint": 7, "test_oxrdflib": 6}[file]


def test_what_is_otherwise_is_a_test_of_theirs(suite: tuple[str, dict[str, Any]]) -> None:
    file, names = suite
    there = {name for name, _, _ in cases(file, names)}
    assert {name for name in OTHERWISE if name.startswith(file + ".")} <= there
