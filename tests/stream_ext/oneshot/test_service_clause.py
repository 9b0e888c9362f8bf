"""SERVICE in queries and updates: what it answers is what pyoxigraph answers, over the same endpoint on loopback."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyoxigraph
import pytest

from stream_ext.errors import NotAllowed, QueryCancelled, ServiceFailed, Unsupported
from stream_ext.evaluation_budget import Control
from stream_ext.rdf.canonical import canonical
from stream_ext.remote.allowed_urls import AllowedUrls, places
from stream_ext.service.service import Service
from tests.stream_ext.fake_server import Asked, FakeServer, Reply, fake_server
from tests.stream_ext.network.test_service_operator import answering, knowing
from tests.stream_ext.opened import EX, opened
from tests.stream_ext.writer.test_updates import quads

OURS = ":x :mayor :a . :y :mayor :a . :z :mayor :b , :d . :z :size 5"
THEIRS = ":a :born 1 , 2 . :b :born 3 ; :knows :a . :c :born 4 . _:n :born 5"


@pytest.fixture
def there() -> Iterator[FakeServer]:
    with fake_server() as server:
        server.replies["/x"] = answering(knowing(THEIRS))
        yield server


@pytest.fixture
def service(tmp_path: Path, there: FakeServer) -> Iterator[Service]:
    with opened(tmp_path, allowed_urls=AllowedUrls(service=places(there.url))) as running:
        running.update(f"PREFIX : <{EX}> INSERT DATA {{ {OURS} . :here :at <{there.url}/x> , <{there.url}/none> }}")
        yield running


def written(there: FakeServer, text: str) -> str:
    return f"PREFIX : <{EX}> " + text.replace("<x>", f"<{there.url}/x>").replace("<none>", f"<{there.url}/none>")


def bag(rows: Iterator[Any]) -> Counter[tuple[bytes | None, ...]]:
    """A blank node as one mark: there is one."""
    return Counter(tuple(b"_" if term is not None and term[:2] == b"_:" else term for term in row) for row in rows)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * { ?city :mayor ?p SERVICE <x> { ?p :born ?y } }",
        "SELECT * { SERVICE <x> { ?p :born ?y } }",
        "SELECT * { ?city :mayor ?p OPTIONAL { SERVICE <x> { ?p :born ?y FILTER(?y > 1) } } }",
        "SELECT * { ?city :mayor ?p MINUS { SERVICE <x> { ?p :born 1 } } }",
        "SELECT * { ?city :mayor ?p FILTER EXISTS { SERVICE <x> { ?p :born 3 } } }",
        "SELECT * { ?city :mayor ?p FILTER NOT EXISTS { SERVICE <x> { ?p :born ?y } } }",
        "SELECT * { { ?city :mayor ?p } UNION { SERVICE <x> { ?p :knows ?city } } }",
        "SELECT * { ?city :mayor ?p { SELECT ?p (COUNT(*) AS ?n) { SERVICE <x> { ?p :born ?y } } GROUP BY ?p } }",
        "SELECT * { ?city :mayor ?p SERVICE <x> { SELECT ?p (MAX(?y) AS ?last) { ?p :born ?y } GROUP BY ?p } }",
        "SELECT * { ?c :mayor ?p SERVICE <x> { ?p :born ?y OPTIONAL { ?p :knows ?q } } SERVICE <x> { ?q :born ?z } }",
        "SELECT ?city { ?city :mayor ?p SERVICE <x> { ?p :knows [] } }",
        "SELECT * { ?city :mayor ?p SERVICE SILENT <none> { ?p :born ?y } }",
        "SELECT * { ?city :mayor ?p OPTIONAL { ?city :size ?y } SERVICE <x> { ?p :born ?y } }",
        "SELECT * { ?city :mayor ?p SERVICE <x> { ?p :born ?y BIND(?y * 2 AS ?twice) } FILTER(?twice > 2) }",
        "SELECT * { VALUES (?p ?y) { (:a UNDEF) (UNDEF 3) } SERVICE <x> { ?p :born ?y } }",
        "SELECT * { ?city :mayor ?p SERVICE <x> { } }",
    ],
)
def test_the_answer_is_pyoxigraphs(service: Service, there: FakeServer, text: str) -> None:
    other = pyoxigraph.Store()
    other.update(written(there, f"INSERT DATA {{ {OURS} . :here :at <x> , <none> }}"))
    text = written(there, text)
    expected: Any = other.query(text)
    names = [variable.value for variable in expected.variables]
    answer = service.query(text)
    assert set(answer.variables) == set(names)
    found = [tuple(row[answer.variables.index(name)] for name in names) for row in service.decode(answer)]
    observed = [tuple(None if row[n] is None else canonical(str(row[n]).encode()) for n in names) for row in expected]
    assert bag(iter(found)) == bag(iter(observed))
    assert found


def test_a_variable_names_a_service_for_each_solution(service: Service, there: FakeServer) -> None:
    """pyoxigraph is no witness here: it asks before it knows the variable."""
    text = written(there, "SELECT ?p ?q ?s { :here :at ?s SERVICE SILENT ?s { ?p :knows ?q } }")
    here, nowhere = f"<{there.url}/x>".encode(), f"<{there.url}/none>".encode()
    b, a = (f"<{EX}{name}>".encode() for name in "ba")
    assert set(service.decode(service.query(text))) == {(b, a, here), (None, None, nowhere)}
    with pytest.raises(ServiceFailed, match="answered 404"):
        service.query(text.replace("SILENT", ""))


def test_only_the_values_that_are_there_are_sent(service: Service, there: FakeServer) -> None:
    service.query(written(there, "SELECT * { SERVICE <x> { ?p :born ?y } ?city :mayor ?p FILTER(?city != :z) }"))
    (asked,) = there.asked
    assert asked.headers["content-type"] == "application/x-www-form-urlencoded"
    assert asked.headers["accept"].startswith("application/sparql-results+json")
    assert b"ex%2Fa%3E" in asked.body
    assert b"ex%2Fd%3E" not in asked.body


def test_a_query_that_is_asked_again_asks_again(service: Service, there: FakeServer) -> None:
    text = written(there, "SELECT ?y { :x :mayor ?p SERVICE <x> { ?p :born ?y } }")
    assert len(service.decode(service.query(text))) == 2
    there.replies["/x"] = answering(knowing(":a :born 'another'"))
    assert service.decode(service.query(text)) == [(b'"another"',)]


def test_an_error_shows_its_place(service: Service, there: FakeServer) -> None:
    text = f"ASK {{ ?s ?p ?o\n  SERVICE <{there.url}/none> {{ ?s ?p ?o }} }}"
    with pytest.raises(ServiceFailed) as failed:
        service.query(text)
    assert (failed.value.line, failed.value.column) == (2, 3)
    assert "answered 404" in str(failed.value)
    with pytest.raises(ServiceFailed, match="answered 404"):
        service.query(f"ASK {{ SERVICE <{there.url}/none> {{ ?s ?p ?o }} }}")
    with pytest.raises(NotAllowed, match=r"line 1, column 7: <http://example\.org/> is not among"):
        service.query("ASK { SERVICE <http://example.org/> { ?s ?p ?o } }")
    for text in ("ASK {{ ?s {nobody} ?o {asks} }}", "INSERT {{ ?s ?p 1 }} WHERE {{ ?s {nobody} ?o {asks} }}"):
        text = text.format(nobody=f"<{EX}nobody>", asks="SERVICE <http://example.org/> { ?s ?p ?o }")
        with pytest.raises(NotAllowed, match="is not among"):
            (service.update if "INSERT" in text else service.query)(text)


def test_service_is_off_unless_it_is_allowed(tmp_path: Path, there: FakeServer) -> None:
    with opened(tmp_path) as service:
        with pytest.raises(NotAllowed, match="SERVICE is off"):
            service.query(f"ASK {{ SERVICE <{there.url}/x> {{ ?s ?p ?o }} }}")
        assert service.query(f"ASK {{ SERVICE SILENT <{there.url}/x> {{ ?s ?p ?o }} }}").boolean is True
    assert there.asked == []


def test_an_update_takes_from_another_place_what_its_pattern_asks_for(service: Service, there: FakeServer) -> None:
    done = service.update(
        written(there, "INSERT { ?p :year ?y } WHERE { ?city :mayor ?p SERVICE <x> { ?p :born ?y } }")
    )
    assert done.inserted == 3
    assert {("a", "year", "1"), ("a", "year", "2"), ("b", "year", "3")} <= quads(service)
    before = service.head()
    with pytest.raises(ServiceFailed, match=r"line 1, column .*operation 2 of 2: .*answered 404"):
        service.update(written(there, "CLEAR ALL ; INSERT { ?s ?p ?o } WHERE { SERVICE <none> { ?s ?p ?o } }"))
    assert service.head() == before


def test_a_query_that_is_cancelled_asks_no_more(service: Service, there: FakeServer) -> None:
    control = Control()

    def cancels(asked: Asked) -> Reply:
        control.cancel()
        return Reply(body=b'{"results": {"bindings": []}}')

    there.replies["/x"] = cancels
    with pytest.raises(QueryCancelled):
        service.query(written(there, "SELECT * { SERVICE <x> { ?a ?b ?c } SERVICE <x> { ?c ?d ?e } }"), control=control)
    assert len(there.asked) == 1


def test_what_service_cannot_do_is_refused_by_name(service: Service, there: FakeServer) -> None:
    window = f"FROM NAMED WINDOW <{EX}w> ON s [RANGE 1s]"
    with pytest.raises(Unsupported, match="a window inside SERVICE"):
        service.query(f"ASK {window} {{ SERVICE <{EX}> {{ WINDOW <{EX}w> {{ ?s ?q ?r }} }} }}", at=5)
