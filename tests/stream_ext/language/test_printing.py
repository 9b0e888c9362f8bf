"""What is printed is read again as the same: by our parser, and as plain SPARQL by pyoxigraph and rdflib."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pyoxigraph
import pytest
from rdflib.plugins.sparql import prepareUpdate

import stream_ext
from stream_ext.errors import BadArgument
from stream_ext.language.algebra.algebra import Query
from stream_ext.language.algebra.statements import Load, Unit, Update
from stream_ext.language.printing import cache_key, to_canonical, to_rdflib, to_sparql
from stream_ext.language.syntax import parse
from tests.stream_ext.language.corpora import FAULTS, texts
from tests.stream_ext.language.roundtrip import BASE, check_roundtrip
from tests.stream_ext.language.test_w3c import syntax_tests
from tests.stream_ext.w3c import folder, text_of

#: What rdflib cannot read though it is SPARQL, and why.
RDFLIB_FAULTS = {
    "syntax-update-38.ru": "no operation after a prologue",
    "syntax-update-39.ru": "no operation after a prologue",
    "syntax-update-40.ru": "no operation after a prologue",
    "service03.rq": "recurses without end on SERVICE with a variable",
    "service06.rq": "recurses without end on SERVICE with a variable",
    "syntax-general-08.rq": "works out '- (1.0)' while it translates, and fails",
}


#: Files that no manifest names: paths that count (:p{2,4}) were dropped from SPARQL 1.1.
COUNTED_PATHS = frozenset(["path-2-1", "path-2-3", "path-3-1", "path-3-2", "path-3-4", "pp04", "pp05", "pp13", "pp15"])


def legal_texts() -> Iterator[tuple[Path, str]]:
    left_out = {path for legal, path in syntax_tests() if not legal}
    for version in ("sparql10", "sparql11"):
        for path in sorted((folder() / version).rglob("*.r[qu]")):
            if path not in left_out and path.stem not in COUNTED_PATHS:
                yield path, text_of(path)


def units() -> Iterator[tuple[str, Unit, str]]:
    """Of all texts that there are: the W3C's, evaluation tests included, and those of others."""
    for path, text in legal_texts():
        yield path.name, parse(text, path.as_uri()), path.as_uri()
    for name, text in texts():
        if name not in FAULTS:
            yield name, parse(text, BASE), BASE


def test_a_text_and_its_canonical_spelling_are_one_unit() -> None:
    count = 0
    for _, unit, base in units():
        check_roundtrip(unit, base)
        count += 1
    assert count > 1000


def test_plain_sparql_is_read_by_pyoxigraph() -> None:
    store = pyoxigraph.Store()
    for name, unit, _ in units():
        plain = to_sparql(unit)
        if isinstance(unit, Update):
            if not any(isinstance(operation, Load) for operation in unit.operations):
                read(name, plain, store.update)
        else:
            read(name, plain, store.query)


def read(name: str, text: str, execute: Callable[[str], object]) -> None:
    try:
        execute(text)
    except SyntaxError as error:
        pytest.fail(f"{name}: {error}\n{text}")
    except (OSError, RuntimeError, ValueError) as error:  # it was read; graphs, functions and services are not there
        assert "not" in str(error) or "SERVICE" in str(error) or "service" in str(error), (name, error)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
def test_plain_sparql_is_read_by_rdflib() -> None:
    """Every seventh text, for rdflib takes its time."""
    for number, (name, unit, _) in enumerate(units()):
        if number % 7 or name in RDFLIB_FAULTS:
            continue
        if isinstance(unit, Update):
            prepareUpdate(to_sparql(unit))
        else:
            to_rdflib(unit)


# ---- by hand -----------------------------------------------------------------------------------------------------

PREFIX = "PREFIX : <http://ex/> "


def canonical(text: str) -> str:
    return check_roundtrip(parse(PREFIX + text, BASE))


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("ASK { ?s :p 1, -2.5 ; a :T }", "?s <http://ex/p> 1 .\n  ?s <http://ex/p> -2.5 .\n  ?s a <http://ex/T> ."),
        ("ASK { ?s :p ?o FILTER(?o > 1 && !(?o = 3 || ?s != ?o)) }", "FILTER (?o > 1 && !(?o = 3 || ?s != ?o))"),
        ("ASK { FILTER(1 - (2 - 3) - 4 * (5 + 6)) }", "FILTER (1 - (2 - 3) - 4 * (5 + 6))"),
        ("ASK { FILTER(- 3 + -(-3)) }", 'FILTER (-"3"^^<http://www.w3.org/2001/XMLSchema#integer> + -"-3"^^'),
        ("ASK { ?s (:p/^:q|!(:r|^a))* ?o }", "?s (<http://ex/p>/^<http://ex/q>|!(<http://ex/r>|^a))* ?o ."),
        ("ASK { ?s ^:p+ ?o }", "?s ^<http://ex/p>+ ?o ."),
        ("ASK { ?s (^:p)+ ?o }", "?s (^<http://ex/p>)+ ?o ."),
        ("ASK { FILTER NOT EXISTS { ?s :p [] } }", "FILTER NOT EXISTS {\n    ?s <http://ex/p> _:b1 .\n  }"),
        ("SELECT (GROUP_CONCAT(?x; separator='\\n') AS ?y) {}", 'GROUP_CONCAT(?x ; SEPARATOR = "\\n")'),
        ("SELECT * FROM wiki FROM DEFAULT { ?s ?p ?o }", "FROM <http://base/wiki>\nFROM NAMED <http://base/wiki>\nFROM"),
        ("SELECT * { BIND(IRI('x') AS ?y) }", "BASE <http://base/>\nSELECT ?y"),
        ("ASK FROM NAMED WINDOW :w ON s [RANGE 90m BOUNDS (] T0 5] { WINDOW :w { } }", "[RANGE 90m T0 5 BOUNDS (]]"),
        ("ASK FROM s [TUMBLING 2000 EMIT ON_UPDATE] { GRAPH s { } }", "[RANGE 2s STEP 2s REPORT CONTENT_CHANGE]"),
        ("ASK { STREAM [COUNT 3 SLIDE 2] ?s { } }", "STREAM ?s [TRIPLES 3 STEP 2] { }"),
        ("ASK FROM NAMED STREAM :s [NOW - 10 s TO NOW - 2 s] { }", "[FROM NOW - 10s TO NOW - 2s]"),
        ("REGISTER DSTREAM q COMPUTED EVERY PT5S AS SELECT * { ?s ?p ?o }", "REGISTER QUERY q COMPUTED EVERY 5s AS\nS"),
        ("EXPLAIN CREATE STREAM :s WITH (timeless = true, lateness = '5s')", 'WITH (timeless = true, lateness = "5s")'),
        ("UNREGISTER QUERY q", "DROP QUERY q"),
        ("INSERT DATA { :s :p [] GRAPH :g { _:x :p _:x } }", "_:t1 .\n  GRAPH <http://ex/g> {\n    _:t2"),
        ("WITH :g DELETE { ?s ?p ?o } USING NAMED :h WHERE { ?s ?p ?o }", "WITH <http://ex/g>\nDELETE {\n  ?s ?p ?o ."),
        ("COPY SILENT DEFAULT TO :g ; CLEAR NAMED", "COPY SILENT DEFAULT TO GRAPH <http://ex/g> ;\nCLEAR NAMED"),
    ],
)  # fmt: skip
def test_the_canonical_spelling(text: str, printed: str) -> None:
    assert printed in canonical(text)


def test_groups_keep_their_braces_where_they_mean_something() -> None:
    for text in (
        "{ { ?s :p ?o } { ?s :q ?o } }",
        "{ ?s :p ?o { ?s :q ?o { ?s :r ?o } } { ?s :t ?o } ?s :u ?o }",
        "{ { ?s :p ?o FILTER(?o) } OPTIONAL { { ?s :q ?z FILTER(?z) } } }",
        "{ ?s :p ?o OPTIONAL { ?s :q ?z FILTER(?z) FILTER(?o) } { } ?s :r ?o }",
        "{ { { SELECT ?s { ?s ?p ?o } } UNION { } } UNION { { BIND(1 AS ?x) } MINUS { } } }",
        "{ { SELECT * { ?s :p* ?o } } FILTER(?s) }",
        "{ { ?a :p ?b OPTIONAL { ?b :p ?c } } ?c :p ?d . { ?d :p ?e MINUS { ?e :p ?f } } }",
        "{ _:x :p 1 . _:x :q* 2 { _:y :p 1 . _:y :q* 2 } }",
    ):
        canonical("ASK " + text)


def test_windows_are_graphs_in_plain_sparql() -> None:
    text = """PREFIX : <http://ex/> REGISTER ISTREAM q AS SELECT * FROM NAMED :g
        FROM NAMED WINDOW :w ON s [RANGE 1s] WHERE { WINDOW :w { ?s :p ?o } WINDOW ?v { ?s :q ?o } }"""
    plain = to_sparql(parse(text, BASE))
    assert plain.splitlines() == [
        "SELECT ?s ?o ?v",
        "FROM NAMED <http://ex/g>",
        "FROM NAMED <http://ex/w>",
        "FROM <urn:rillet:ns#default>",
        "WHERE {",
        "  GRAPH <http://ex/w> {",
        "    ?s <http://ex/p> ?o .",
        "  }",
        "  GRAPH ?v {",
        "    ?s <http://ex/q> ?o .",
        "  }",
        "}",
    ]


@pytest.mark.parametrize(
    ("dataset", "default"),
    [
        ("FROM STREAM :s [RANGE 3s STEP 1s] FROM STREAM :t [RANGE 3s STEP 1s] FROM :g", {1, 2, 3}),
        ("FROM STREAM :s [RANGE 3s STEP 1s] FROM NAMED STREAM :t [RANGE 3s STEP 1s]", {1, 2}),
        ("FROM s [RANGE 3s STEP 1s]", {1, 4}),
    ],
)
def test_the_windows_of_c_sparql_are_merged_with_what_from_names(dataset: str, default: set[int]) -> None:
    """Each graph of a store holds its own number: those that the plain text reads are those of the text's scope."""
    text = f"PREFIX : <http://ex/> REGISTER QUERY q AS SELECT ?n {dataset} WHERE {{ :is :number ?n }}"
    plain = to_sparql(parse(text, BASE))
    store = pyoxigraph.Store()
    graphs = ["urn:rillet:window:1", "urn:rillet:window:2", "http://ex/g", "urn:rillet:ns#default"]
    for number, graph in enumerate(graphs, 1):
        store.update(f"INSERT DATA {{ GRAPH <{graph}> {{ <http://ex/is> <http://ex/number> {number} }} }}")
    found = store.query(plain)
    assert isinstance(found, pyoxigraph.QuerySolutions)
    assert {int(row[0].value) for row in found} == default, plain


def test_an_update_changes_its_base_where_the_text_does() -> None:
    text = """BASE <http://a/> INSERT { ?s ?p ?x } WHERE { BIND(URI('1') AS ?x) } ;
        BASE <http://b/> INSERT { ?s ?p ?x } WHERE { BIND(URI('1') AS ?x) } ; CLEAR ALL"""
    assert canonical(text).count("BASE") == 2


def test_administration_has_no_plain_form() -> None:
    with pytest.raises(BadArgument, match="cannot be written in plain SPARQL"):
        to_sparql(parse("SHOW STREAMS", BASE))


def test_the_public_face_has_the_printers() -> None:
    unit = stream_ext.parse("SELECT * { ?s ?p ?o }", BASE)
    assert stream_ext.to_sparql(unit) == stream_ext.to_canonical(unit) == "SELECT ?s ?p ?o\nWHERE {\n  ?s ?p ?o .\n}"
    assert stream_ext.to_rdflib(unit).algebra.name == "SelectQuery"


def test_texts_that_differ_in_constants_have_one_cache_key() -> None:
    first, second, third = (
        cache_key(parse(f"PREFIX {p}: <http://ex/> SELECT ?o {{ {p}:{s} {p}:p ?o FILTER(?o > {n}) }} {limit}", BASE))
        for p, s, n, limit in (("a", "s", 1, ""), ("b", "t", 22, ""), ("a", "s", 1, "LIMIT 5"))
    )
    assert first.template == second.template != third.template
    assert second.constants[0] == b"<http://ex/t>"
    assert len(first.constants) == 2


def test_the_window_belongs_to_the_cache_key() -> None:
    texts = [f"ASK FROM NAMED WINDOW <w> ON s [RANGE {n}s] {{ WINDOW <w> {{ ?s ?p ?o }} }}" for n in (1, 2)]
    assert len({cache_key(parse(text, BASE)).template for text in texts}) == 2


def test_a_long_group_prints_in_one_pair_of_braces() -> None:
    query = parse("ASK {" + " { ?s ?p ?o FILTER(?o) }" * 999 + "}", BASE)
    assert isinstance(query, Query)
    printed = to_canonical(query)
    assert max(len(line) - len(line.lstrip()) for line in printed.splitlines()) == 4
    check_roundtrip(query)
