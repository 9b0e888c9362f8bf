"""Literals over the source main and our own store: what the source takes for the same term is told apart by what it
shows, as a copy of it in our own store would.

    ?s :literal "1.0"^^xsd:double      does not find what an Oxigraph shows as "1"^^xsd:double

Stores write numbers and times in their own way; Virtuoso even finds 1.0 and true for 1."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from stream_ext.evaluation_budget import Control
from stream_ext.oneshot.evaluate import Asking
from stream_ext.remote.endpoint_source import SparqlEndpointSource
from stream_ext.remote.source import SourceSettings
from stream_ext.remote.sources import Sources
from tests.parts.fuseki.server import Fuseki
from tests.parts.virtuoso import Virtuoso
from tests.sources.scripted import scripted
from tests.sources.test_attached_real_stores import answered
from tests.stream_ext.generated import EX
from tests.stream_ext.opened import emissions_of, opened, push, values
from tests.stream_ext.peers import Ours

_XSD = "http://www.w3.org/2001/XMLSchema#"
_TEXTS = {
    "double": ("1", "1.0", "1.0E0", "1e0", "0.1", "1.0E-1", "1E8", "NaN", "INF", "-0.0E0", "0.30000000000000004"),
    "float": ("1", "1.0", "1.5"),
    "decimal": ("1", "1.0", "01.5", "1.5"),
    "integer": ("1", "01", "+1", "0"),
    "boolean": ("true", "1", "false"),
    "int": ("1", "01"),
    "dateTime": (
        "2020-01-01T00:00:00Z",
        "2020-01-01T00:00:00+00:00",
        "2020-01-01T00:00:00.000Z",
        "2020-01-01T01:00:00+01:00",
        "2020-01-01T00:00:00",
    ),
    "date": ("2020-01-01", "2020-01-01Z"),
}
LITERALS = [f'"{text}"^^<{_XSD}{name}>' for name, texts in _TEXTS.items() for text in texts]
LITERALS += ['"x"', '"x"@en', '"1"']
#: What the source has, and our own store: the same literals, under other predicates; no other test of the same Virtuoso
#: has these.
THEIRS = [(f":s{i}", ":literal", literal, "") for i, literal in enumerate(LITERALS)]
OWN = [(f":o{i}", ":p", literal, "") for i, literal in enumerate(LITERALS)]
OWN += [(f":s{i}", ":is", ":there", "") for i in range(len(LITERALS))]


class Store:
    """A source with these literals, and what it shows of them."""

    def __init__(self, url: str) -> None:
        self.url = url
        form = {"accept": "application/sparql-results+json"}
        text = f"SELECT ?s ?o {{ {{ ?s <{EX}literal> ?o }} UNION {{ GRAPH ?g {{ ?s <{EX}literal> ?o }} }} }}"
        rows = httpx.post(url, data={"query": text}, headers=form).raise_for_status().json()["results"]["bindings"]
        self.shown = {row["s"]["value"].removeprefix(EX): _text(row["o"]) for row in rows}
        assert len(self.shown) == len(LITERALS)


def _text(value: dict[str, str]) -> str:
    tag = f"@{value['xml:lang']}" if "xml:lang" in value else ""
    datatype = value.get("datatype", f"{_XSD}string")
    return f'"{value["value"]}"{tag}' + (f"^^<{datatype}>" if not tag and datatype != f"{_XSD}string" else "")


def triples() -> str:
    return "".join(f"<{EX}{s[1:]}> <{EX}literal> {o} .\n" for s, _, o, _ in THEIRS)


@pytest.fixture(
    params=[
        "oxigraph",
        pytest.param("fuseki", marks=[pytest.mark.fuseki, pytest.mark.xdist_group("fuseki")]),
        pytest.param("virtuoso", marks=[pytest.mark.virtuoso, pytest.mark.xdist_group("virtuoso")]),
    ]
)
def store(request: pytest.FixtureRequest) -> Iterator[Store]:
    match request.param:
        case "oxigraph":
            with scripted() as running:
                running.add(triples())
                yield Store(running.url)
        case "fuseki":
            fuseki: Fuseki = request.getfixturevalue("fuseki")
            fuseki.empty()
            fuseki.load(triples().encode())
            yield Store(fuseki.query_url)
        case _:
            yield request.getfixturevalue("over_virtuoso")


@pytest.fixture
def asking(store: Store) -> Iterator[Asking]:
    with closing(SparqlEndpointSource(SourceSettings("main", store.url), 20.0)) as source:
        yield Asking(EX, control=Control(60.0), sources=Sources([source], EX))


@pytest.fixture(scope="module")
def over_virtuoso(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """A Virtuoso of its own, as that of all tests has many rows of others. It is filled once, and one by one: it fails
    where equal literals are inserted at once, or again."""
    server = Virtuoso(tmp_path_factory.mktemp("virtuoso"))
    server.start()
    try:
        for triple in triples().splitlines():
            server.update(f"INSERT DATA {{ GRAPH <{EX}literals> {{ {triple} }} }}")
        yield Store(server.query_url)
    finally:
        server.stop()


def names(own: Ours, asking: Asking, query: str) -> list[tuple[str, ...]]:
    rows = answered(own, asking, query)
    return sorted(tuple((term or b"").decode().removeprefix(f"<{EX}")[:-1] for term in row) for row in rows)


def test_a_literal_finds_what_the_source_shows_so(store: Store, asking: Asking, tmp_path: Path) -> None:
    with closing(Ours(tmp_path / "own", OWN)) as own:
        for literal in LITERALS:
            expected = sorted((s,) for s, text in store.shown.items() if text == literal)
            assert names(own, asking, f"SELECT ?s {{ ?s :literal {literal} }}") == expected, literal
            tested = f"SELECT ?s {{ ?s :is :there ; :literal ?v FILTER(sameTerm(?v, {literal})) }}"
            assert names(own, asking, tested) == expected, literal


def test_values_are_compared_as_here(store: Store, asking: Asking, tmp_path: Path) -> None:
    """Of what the source shows: how it compares its own does not matter."""
    copied = [(f":{s}", ":literal", text, "") for s, text in store.shown.items()]
    alone = Asking(EX, control=Control(60.0))
    with closing(Ours(tmp_path / "own", OWN)) as own, closing(Ours(tmp_path / "all", OWN + copied)) as whole:
        for condition in ("?v = 1", "?v = true", "?v IN (1.5, 0)", "?v < 1", "?v = 0.1e0", "?v = 1 || ?v = 0"):
            query = f"SELECT ?s ?v {{ ?s :literal ?v FILTER({condition}) }}"
            assert answered(own, asking, query) == answered(whole, alone, query), condition


def test_joins_are_of_what_both_show(store: Store, asking: Asking, tmp_path: Path) -> None:
    with closing(Ours(tmp_path / "own", OWN)) as own:
        pairs = [
            (f"o{i}", s) for i, literal in enumerate(LITERALS) for s, text in store.shown.items() if text == literal
        ]
        assert names(own, asking, "SELECT ?o ?s { ?o :p ?v . ?s :literal ?v }") == sorted(pairs)


def test_what_is_held_of_a_literal_is_what_the_source_shows_so(store: Store, tmp_path: Path) -> None:
    for literal in (f'"1.0"^^<{_XSD}double>', f'"1"^^<{_XSD}integer>', f'"01"^^<{_XSD}integer>', '"x"'):
        source = SparqlEndpointSource(SourceSettings("main", store.url), 20.0)
        with opened(tmp_path / str(LITERALS.index(literal)), sources=[source]) as service:
            service.register(
                f"PREFIX : <{EX}> REGISTER RSTREAM same AS SELECT ?s FROM NAMED WINDOW :w ON things [RANGE 1s STEP 1s] "
                f"{{ WINDOW :w {{ ?s :seen :now }} ?s :literal {literal} }}"
            )
            push(service, "things", 500, *(f"<{EX}{s}> <{EX}seen> <{EX}now> ." for s in store.shown))
            service.heartbeat("things", 1_000, wait="evaluated")
            (emission,) = emissions_of(service, "same")
            assert values(emission) == sorted((s,) for s, text in store.shown.items() if text == literal), literal
