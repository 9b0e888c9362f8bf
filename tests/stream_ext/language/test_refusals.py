"""What is not run is refused by its name, what is no language is explained; both with line and column."""

from __future__ import annotations

import pytest

from stream_ext.errors import QuerySyntaxError, TextError, Unsupported
from stream_ext.plan.refused_syntax.refuse import parse_runnable

HEAD = "PREFIX : <http://ex/>\n"
WINDOW = "SELECT * FROM NAMED WINDOW :w ON :s "


def error_of(text: str) -> TextError:
    with pytest.raises(TextError) as caught:
        parse_runnable(text, "http://base/")
    return caught.value


#: Texts, what each is refused as, and where in its second line.
REFUSED = [
    (WINDOW + "[RANGE 5s] { SERVICE :s { WINDOW :w { ?s ?p ?o } } }", "a window inside SERVICE", 63),
    ("ASK { FILTER (<http://ex/f>(1)) }", "the function <http://ex/f>", 15),
    ("SELECT (1 + <http://ex/f>(1) AS ?x) { }", "the function <http://ex/f>", 13),
    ("ASK { FILTER (<http://ex/f>(DISTINCT 1)) }", "DISTINCT in a function", 15),
    ("ASK { GRAPH :g { STREAM :s [RANGE 1s] { ?s ?p ?o } } }", "WINDOW inside GRAPH", 18),
    (
        "ASK { STREAM :s [RANGE 2s SLIDE 1s REPORT WINDOW_CLOSE, CONTENT_CHANGE] { ?s ?p ?o } }",
        "CQELS-QL that is evaluated at closes or periods, and at arrivals too",
        7,
    ),
    ("ASK { STREAM :s [RANGE 1s T0 5] { ?s ?p ?o } }", "T0 of a window without a step", 27),
    ("REGISTER QUERY q AS DESCRIBE :x", "a registered DESCRIBE", 21),
    ("ASK { ?s ?p ?o FILTER(<urn:rillet:ns#timestamp>(?s, ?p, ?o)) }", "a timestamp outside windows", 23),
    (
        WINDOW + "[RANGE 5s] { WINDOW :w { ?s ?p ?o FILTER(<urn:rillet:ns#timestamp>(?s)) } }",
        "a timestamp of something that is not a triple of variables and terms",
        78,
    ),
    (WINDOW + "[NOW BOUNDS []] { }", "BOUNDS of a window that is no length of time", 42),
    (WINDOW + "[TRIPLES 3 BOUNDS []] { }", "BOUNDS of a window that is no length of time", 48),
    (WINDOW + "[SLIDING 5s] { }", "SLIDING without STEP", 38),
    (WINDOW + "[TUMBLING 5s STEP 2s] { }", "a TUMBLING window whose STEP is not its length", 50),
    (
        WINDOW + "[START 0 END 5] FROM NAMED WINDOW :v ON :s [RANGE 5s] { }",
        "a START ... END window together with a window without END",
        38,
    ),
    (WINDOW + "[START 0 END 5 REPORT CONTENT_CHANGE] { }", "CONTENT_CHANGE of a START ... END window", 38),
    ("REGISTER QUERY q COMPUTED EVERY 5s AS ASK { }", "COMPUTED EVERY for a query without windows", 18),
    (WINDOW + "[RANGE PT0.0005S] { }", "a length that is not a whole number of milliseconds", 44),
    (
        "SELECT ?s FROM STREAM ?s [RANGE 5s] { ?x ?y ?z }",
        "a variable of FROM STREAM that no GRAPH names, and others do",
        23,
    ),
    (
        "ASK FROM STREAM ?s [RANGE 5s] FROM STREAM ?s [RANGE 9s] { GRAPH ?s { ?x ?y ?z } }",
        "GRAPH with a stream that has two windows",
        43,
    ),
    ("ASK FROM STREAM ?s [RANGE 5s] { GRAPH :g { GRAPH ?s { } } }", "WINDOW inside GRAPH", 44),
    (
        "REGISTER QUERY q AS SELECT * FROM NAMED WINDOW :w ON ?s [RANGE 5s ON :t] { }",
        "RANGE ... ON a predicate for streams named by a variable in a registered query",
        54,
    ),
    (WINDOW + "[RANGE 5s] { GRAPH :g { WINDOW :w { } } }", "WINDOW inside GRAPH", 61),
]


@pytest.mark.parametrize(("text", "name", "column"), REFUSED)
def test_what_is_not_built_is_refused_by_name(text: str, name: str, column: int) -> None:
    error = error_of(HEAD + text)
    assert (error.line, error.column) == (2, column)
    assert isinstance(error, Unsupported)
    assert error.message == f"{name} is not supported yet"


@pytest.mark.parametrize(
    ("text", "line", "column", "says"),
    [
        ("SELECT ?x, ?y { }", 1, 10, "separated by blanks"),
        ("SELECT { ?s ?p ?o }", 1, 8, "expected variables or '*'"),
        ("ASK { ?s ?p }", 1, 13, "expected an object"),
        ("ASK {\n ?s ?p 1 2 }", 2, 10, "expected '.' between two triples"),
        ("ASK { ?s ?p ?o", 1, 15, "the end of the text"),
        ("ASK { } }", 1, 9, "expected the end of the text, found '}'"),
        ("ASK { ?s foaf:name ?o }", 1, 10, "did you mean PREFIX foaf: <http://xmlns.com/foaf/0.1/> ?"),
        ("ASK { ?s nope:name ?o }", 1, 10, "the prefix 'nope:' is not declared"),
        ("PREFIX ex <http://ex/> ASK { }", 1, 8, "expected a prefix and its colon"),
        ("PREFIX ex: ASK { }", 1, 12, "the <IRI> that the prefix 'ex:' stands for"),
        ("ASK { ?s ?p 'abc }", 1, 13, "a string that is not closed"),
        ("ASK { ?s ?p 'a\\q' }", 1, 15, "\\q is no escape"),
        ("ASK { ?s ?p '\\uD800' }", 1, 14, "not a Unicode character"),
        ("ASK { ?s ?p <http://a b> }", 1, 13, "if it begins an IRI"),
        ("ASK { ?s <x\\u0020y> ?o }", 1, 10, "a character that is not allowed in an IRI"),
        ("ASK { ?s 'p' ?o }", 1, 10, "expected a predicate"),
        ("ASK { FILTER ?x > 1 }", 1, 14, "a condition in parentheses"),
        ("ASK { FILTER(?x = 1 = 2) }", 1, 21, "cannot be compared again"),
        ("ASK { FILTER(?x +) }", 1, 18, "expected an operand"),
        ("ASK { FILTER(foo(?x)) }", 1, 14, "there is no function foo"),
        ("ASK { FILTER(BOUND ?x) }", 1, 14, "its arguments in parentheses are missing"),
        ("ASK { _:a ?p ?o . GRAPH <g> { ?x ?y ?z } _:a ?p ?o }", 1, 42, "_:a is used in two groups"),
        ("ASK { } LIMIT -1", 1, 15, "a whole number after LIMIT"),
        ("ASK { } LIMIT 1 LIMIT 1", 1, 17, "LIMIT is written twice"),
        ("ASK { ?s ?p ?o LIMIT 1 }", 1, 16, "stands behind the '}'"),
        ("FETCH ?x", 1, 1, "expected SELECT, ASK, REGISTER"),
        ("INSERT DATA { ?s <p> <o> }", 1, 15, "a variable is not allowed"),
        ("INSERT DATA { 'a' <p> <o> }", 1, 15, "a literal cannot be the subject"),
        ("INSERT DATA { GRAPH ?g { } }", 1, 21, "the IRI of a graph"),
        ("DELETE DATA { _:a <p> <o> }", 1, 15, "DELETE DATA cannot contain a blank node"),
        ("DELETE DATA { [] <p> <o> }", 1, 15, "DELETE DATA cannot contain a blank node"),
        ("DELETE DATA { <s> <p> (1) }", 1, 23, "DELETE DATA cannot contain a blank node"),
        ("INSERT DATA { _:a <p> <o> } ; INSERT DATA { _:a <p> <o> }", 1, 45, "_:a is used in two groups"),
        ("ASK { WINDOW <w> { } }", 1, 14, "no window <http://base/w> is declared"),
        ("SELECT ?x AVG(?y) AS ?mean { ?x <p> ?y }", 1, 11, "write an expression as (expression AS ?variable)"),
        ("CREATE STREAM s (lateness = '5s')", 1, 17, "WITH before the options"),
        ("CREATE STREAM s WITH (lateness = 5s)", 1, 35, "a duration is a string: '5s'"),
        ("REGISTER QUERY AS ASK { }", 1, 16, "the name of the query"),
        ("REGISTER RSTREAM SELECT * { }", 1, 18, "expected the name of the query"),
        ("REGISTER RSTREAM named AS ASK { }", 1, 18, "named is a word of the language and cannot be a bare name"),
        ("REGISTER RSTREAM range ASK { }", 1, 18, "range is a word of the language and cannot be a bare name"),
        ("REGISTER q AS ASK { }", 1, 10, "QUERY, STREAM, RSTREAM, ISTREAM or DSTREAM"),
        (
            "REGISTER RSTREAM q AS ASK ISTREAM FROM NAMED WINDOW <w> ON s [RANGE 1s] { }",
            1,
            23,
            "REGISTER has RSTREAM, but the query has ISTREAM",
        ),
        ("ASK FROM WINDOW <w> ON s [RANGE 1s] { }", 1, 5, "declared by FROM NAMED WINDOW"),
        ("ASK { ?s ?p 1\ud800 }", 1, 14, "half a surrogate pair"),
        ("ASK " + "{" * 200, 1, 105, "nested more than 100 deep"),
        ("ASK { FILTER(" + "(" * 200, 1, 112, "nested more than 100 deep"),
        ("ASK { ?s ?p " + "[ ?p " * 200, 1, 508, "nested more than 100 deep"),
        ("ASK { FILTER(1" + " + 1" * 300 + ") }", 1, 5, "nested too deep"),
    ],
)
def test_what_is_no_language_is_explained(text: str, line: int, column: int, says: str) -> None:
    error = error_of(text)
    assert isinstance(error, QuerySyntaxError)
    assert (error.line, error.column) == (line, column)
    assert says in error.message


@pytest.mark.parametrize(
    ("text", "column", "says"),
    [
        ("[RANGE 0s]", 44, "RANGE must be longer than 0"),
        ("[RANGE -5s]", 44, "RANGE cannot be negative"),
        ("[RANGE 5s STEP 0]", 52, "STEP must be longer than 0"),
        ("[RANGE 5s STEP PT0S]", 52, "STEP must be longer than 0"),
        ("[RANGE 5s STEP]", 51, "a length after STEP"),
        ("[RANGE]", 43, "a length after RANGE"),
        ("[RANGE 5 parsecs]", 46, "']' to close the window (or STEP, T0, REPORT; a length is 5s"),
        ("[RANGE 5x]", 45, "'x' is not a unit of time"),
        ("[RANGE 1.5s]", 44, "PT1.5S"),
        ("[RANGE P1M]", 44, "years and months have no fixed length"),
        ("[RANGE 'PT5S']", 44, "needs its datatype"),
        ("[RANGE 99999999999999999 d]", 44, "is longer than"),
        ("[RANGE 5s T0 -'5']", 51, "a time after T0"),
        ("[RANGE 5s T0 'noon']", 50, "is not a time"),
        ("[RANGE 5s T0 0] T0 0", 53, "T0 is written twice"),
        ("[RANGE 5s", 47, "']' to close the window"),
        ("5s", 37, "the extent of the window"),
    ],
)
def test_a_window_that_is_none_is_explained(text: str, column: int, says: str) -> None:
    error = error_of(HEAD + WINDOW + text + " { }")
    assert isinstance(error, QuerySyntaxError)
    assert says in error.message
    assert (error.line, error.column) == (2, column)


def test_a_window_is_declared_once() -> None:
    error = error_of(HEAD + WINDOW + "[RANGE 5s]\n FROM NAMED WINDOW :w ON :t [RANGE 1s] { }")
    assert (error.line, error.column) == (3, 20)
    assert "declared twice (first in line 2)" in error.message


def test_a_window_in_the_pattern_must_be_one_that_is_declared() -> None:
    error = error_of(HEAD + WINDOW + "[RANGE 5s] { WINDOW :v { } }")
    assert "; declared: <http://ex/w>" in error.message


def test_an_error_shows_the_line_and_points_at_the_place() -> None:
    shown = str(error_of("ASK {\n  ?s ?p\n}")).splitlines()
    assert shown == [
        "line 3, column 1: expected an object (an IRI, a prefixed name, a variable, a literal or a blank node), "
        "found '}'",
        "  }",
        "  ^",
    ]


@pytest.mark.parametrize(
    "text", ["'" + "a" * 100_000, "<" + "a" * 100_000, "'''" + "a'" * 50_000, " " * 100_000 + "\x01"]
)
def test_what_does_not_end_is_noticed_in_linear_time(text: str) -> None:
    assert isinstance(error_of("ASK { ?s ?p " + text), QuerySyntaxError)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("ASK { ?s ?p ?o } LIMT 10", "LIMIT"),
        (WINDOW + "[RANGE 10s SLDE 5s] { }", "SLIDE"),
        (WINDOW + "[RANEG 10s] { }", "RANGE"),
        ("ASK FROM NAMED WINDOW <w> ON STREM s [RANGE 10s] { }", "STREAM"),
        ("ASK FROM NAMED WINDOW <w> ON STRAEM <s> [RANGE 10s] { }", "STREAM"),
        ("SELECT * FORM <g> { }", "FROM"),
        ("SELCT * { }", "SELECT"),
        ("ASK { OPTINAL { } }", "OPTIONAL"),
        ("SELECT * { } ODER BY ?s", "ORDER"),
        ("CLAER ALL", "CLEAR"),
        ("REGISTER RSTREM q AS SELECT * { }", "RSTREAM"),
        ("SELECT (CONUT(*) AS ?n) { }", "COUNT"),
        ("ASK { FILTER(strstart(?x, 'a')) }", "STRSTARTS"),
    ],
)
def test_a_mistyped_word_is_corrected(text: str, meant: str) -> None:
    assert error_of(HEAD + text).message.endswith(f"; did you mean {meant}?")


@pytest.mark.parametrize("extent", ["[RANGE 10s]", "RANGE 10s", "TUMBLING 10s"])
def test_a_stream_may_be_called_nearly_stream(extent: str) -> None:
    text = f"ASK FROM NAMED WINDOW <w> ON streams {extent} {{ WINDOW <w> {{ ?s ?p ?o }} }}"
    assert parse_runnable(text, "http://base/").windows[0].stream.name == "streams"


@pytest.mark.parametrize(
    "text", ["ASK { ?s ?p ?o } LIMIT ?x", "ASK { xyzzyx }", "ASK WHERE WHERE { }", "ASK { " + "a" * 99 + " }"]
)
def test_where_nothing_is_near_nothing_is_proposed(text: str) -> None:
    assert "did you mean" not in error_of(text).message
