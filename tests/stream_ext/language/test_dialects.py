"""The three dialects: what is read of windows and datasets, and the policy in force with its origins."""

from __future__ import annotations

import pytest

from stream_ext.errors import QuerySyntaxError, TextError, Unsupported
from stream_ext.language.algebra.algebra import Graph, InAnyWindow, InWindow, Query, Register
from stream_ext.language.algebra.policy import Empty, EvaluationTrigger, FirstClose, Origin, PatternScope, policy_of
from stream_ext.language.algebra.windows import R2S, Bounds, Dialect, Extent, Report, Trigger, WindowClause
from stream_ext.language.syntax import parse
from stream_ext.oneshot.advice import warnings_of

BASE = "http://base/"
SECOND = 1000


def query(text: str) -> Query:
    unit = parse("PREFIX : <http://ex/> " + text, BASE)
    found = unit.query if isinstance(unit, Register) else unit
    assert isinstance(found, Query)
    return found


def window(extent: str) -> WindowClause:
    (found,) = query(f"ASK {{ STREAM :s {extent} {{ ?s ?p ?o }} }}").windows
    return found


CQELS = "SELECT * { STREAM :s [RANGE 3s] { ?s ?p ?o } }"
CSPARQL = "SELECT * FROM STREAM :s [RANGE 3s STEP 1s] { ?s ?p ?o }"
RSPQL = "SELECT * FROM NAMED WINDOW :w ON :s [RANGE 3s STEP 1s] { WINDOW :w { ?s ?p ?o } }"
WUKONG = "SELECT * FROM s [RANGE 1s STEP 100ms] { ?s ?p ?o }"


@pytest.mark.parametrize(
    ("text", "dialect", "r2s", "evaluated", "bounds", "t0", "scope", "empty"),
    [
        (
            CQELS,
            Dialect.CQELS,
            R2S.ISTREAM,
            EvaluationTrigger.ARRIVAL,
            "(]",
            0,
            PatternScope.DEFAULT_GRAPH,
            Empty.SILENT,
        ),
        (
            CSPARQL,
            Dialect.CSPARQL,
            R2S.RSTREAM,
            EvaluationTrigger.CLOSE,
            "[)",
            FirstClose.FIRST_PUSH,
            PatternScope.WINDOWS,
            Empty.REPORTED,
        ),
        (
            RSPQL,
            Dialect.RSPQL,
            R2S.RSTREAM,
            EvaluationTrigger.CLOSE,
            "[)",
            0,
            PatternScope.DEFAULT_GRAPH,
            Empty.REPORTED,
        ),
        (
            WUKONG,
            Dialect.CSPARQL,
            R2S.RSTREAM,
            EvaluationTrigger.CLOSE,
            "[)",
            FirstClose.FIRST_PUSH,
            PatternScope.WINDOWS_AND_DEFAULT_GRAPH,
            Empty.REPORTED,
        ),
    ],
)
def test_the_defaults_of_each_dialect(
    text: str,
    dialect: Dialect,
    r2s: R2S,
    evaluated: EvaluationTrigger,
    bounds: str,
    t0: object,
    scope: PatternScope,
    empty: Empty,
) -> None:
    policy = policy_of(query(text))
    (first,) = policy.windows
    assert (policy.dialect, policy.r2s.value, policy.evaluated.value) == (dialect, r2s, (evaluated,))
    assert (first.bounds.value, first.t0.value) == (Bounds(bounds), t0)
    assert (policy.scope.value, policy.empty.value) == (scope, empty)
    answered = (policy.r2s, policy.evaluated, policy.scope, policy.empty, first.bounds, first.t0, first.reports)
    assert {each.origin for each in answered} == {Origin.DEFAULT}


def test_what_is_written_overrides_the_default_and_says_so() -> None:
    text = """REGISTER DSTREAM q AS SELECT * FROM :kb FROM STREAM :s
        [RANGE 3s STEP 1s REPORT NON_EMPTY_CONTENT, PERIODIC 2s BOUNDS [] T0 7 LATENESS 5s] { ?s ?p ?o }"""
    policy = policy_of(query(text))
    (first,) = policy.windows
    answered = (policy.r2s, policy.scope, policy.empty, first.bounds, first.t0, first.lateness_ms, first.reports)
    assert {each.origin for each in answered} == {Origin.WRITTEN}
    assert (policy.r2s.value, policy.scope.value) == (R2S.DSTREAM, PatternScope.WINDOWS_AND_GRAPHS)
    assert (first.bounds.value, first.t0.value, first.lateness_ms.value) == (Bounds.CLOSED, 7, 5 * SECOND)
    assert (policy.evaluated.value, policy.every_ms) == ((EvaluationTrigger.PERIODIC,), (2 * SECOND,))


def test_the_step_of_a_window_is_its_range_but_for_cqels() -> None:
    assert query(CQELS).windows[0].step_ms == 0
    assert query("ASK FROM STREAM :s [RANGE 3s] { }").windows[0].step_ms == 3 * SECOND


def test_computed_every_is_a_period() -> None:
    policy = policy_of(query("REGISTER QUERY q COMPUTED EVERY 5s AS " + CSPARQL))
    assert (policy.evaluated.value, policy.every_ms) == ((EvaluationTrigger.PERIODIC,), (5 * SECOND,))


def test_windows_that_never_close_are_evaluated_at_arrivals_in_any_dialect() -> None:
    text = "SELECT * FROM NAMED WINDOW :w ON :s [TRIPLES 5] { WINDOW :w { ?s ?p ?o } }"
    assert policy_of(query(text)).evaluated.value == (EvaluationTrigger.ARRIVAL,)


def test_c_sparql_without_a_graph_is_warned() -> None:
    assert "reads only its windows and nothing from the store" in warnings_of(query(CSPARQL))[0]
    assert not warnings_of(query(WUKONG))


# ---- windows -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("extent", "expected"),
    [
        ("[NOW]", (Extent.NOW, 0, 0, 0, 0, 0)),
        ("[ALL]", (Extent.ALL, 0, 0, 0, 0, 0)),
        ("[TRIPLES 10]", (Extent.TRIPLES, 0, 0, 10, 0, 0)),
        ("[RANGE COUNT 10 STEP 2]", (Extent.TRIPLES, 0, 0, 10, 2, 0)),
        ("[rows 3 slide 1]", (Extent.ELEMENTS, 0, 0, 3, 1, 0)),
        ("[RANGE 1h 30m]", (Extent.RANGE, 5400 * SECOND, 0, 0, 0, 0)),
        ("[RANGE 3s TUMBLING]", (Extent.RANGE, 3 * SECOND, 3 * SECOND, 0, 0, 0)),
        ("[SLIDING 3s]", (Extent.RANGE, 3 * SECOND, 0, 0, 0, 0)),
        ("[NOW- 10 S SLIDE 5 S]", (Extent.SPAN, 10 * SECOND, 5 * SECOND, 0, 0, 0)),
        ("[FROM NOW - PT10S TO NOW - 2s STEP 1s]", (Extent.SPAN, 10 * SECOND, SECOND, 0, 0, 2 * SECOND)),
        ("[START 5 END 25 STEP 10]", (Extent.HISTORY, 20, 10, 0, 0, 0)),
        ("[START -5 END 15 STEP 10]", (Extent.HISTORY, 20, 10, 0, 0, 0)),
    ],
)
def test_the_extent_of_a_window(extent: str, expected: tuple[object, ...]) -> None:
    found = window(extent)
    assert (
        found.extent, found.range_ms, found.step_ms, found.count, found.count_step, found.until_ms
    ) == expected  # fmt: skip


@pytest.mark.parametrize("time", ["-5", "'-5'", "'1969-12-31T23:59:59.995Z'"])
def test_a_time_may_be_before_1970(time: str) -> None:
    found = window(f"[START {time} END 15 STEP 10 T0 {time}]")
    assert (found.start_ms, found.end_ms, found.t0_ms) == (-5, 15, -5)


@pytest.mark.parametrize("text", ["@:time", "ON :time", "@<http://ex/time>", "ON <http://ex/time>"])
def test_the_time_of_elements_may_come_from_a_predicate(text: str) -> None:
    assert window(f"[RANGE PT2H {text} STEP PT1H]").time_predicate == "http://ex/time"


def test_a_predicate_of_a_named_prefix_may_be_at_the_sign() -> None:
    (found,) = query("PREFIX ex: <http://x/> ASK { STREAM :s [RANGE 2h @ex:time] { } }").windows
    assert found.time_predicate == "http://x/time"


@pytest.mark.parametrize("bounds", ["[)", "(]", "[]"])
def test_bounds_may_be_quoted(bounds: str) -> None:
    assert window(f"[RANGE 1s BOUNDS {bounds}]").bounds == window(f"[RANGE 1s BOUNDS '{bounds}']").bounds == bounds


def test_emit_is_another_name_of_report() -> None:
    assert window("[RANGE 1s EMIT ON_UPDATE]").reports == (Report(Trigger.CONTENT_CHANGE),)


def test_both_orders_of_cqels_are_read() -> None:
    first, second = (query(f"SELECT * {{ STREAM {text} {{ ?s ?p ?o }} }}") for text in (":s [NOW]", "[NOW] :s"))
    assert (first, first.windows[0].stream.iri) == (second, "http://ex/s")


def test_the_form_of_2014_is_that_of_today() -> None:
    old = "SELECT * FROM NAMED WINDOW ON STREAM :s [RANGE 3s STEP 1s] AS :w { WINDOW :w { ?s ?p ?o } }"
    assert query(old) == query(RSPQL)


def test_a_stream_may_be_a_variable_which_the_pattern_binds() -> None:
    assert query("SELECT * { STREAM ?which [NOW] { ?s ?p ?o } }").variables == ("which", "s", "p", "o")


def test_a_variable_ranges_over_the_named_windows() -> None:
    found = query("SELECT * FROM NAMED WINDOW :w ON :s [RANGE 1s] { WINDOW ?w { ?s ?p ?o } }")
    assert isinstance(found.pattern, InAnyWindow)
    assert found.variables == ("w", "s", "p", "o")


@pytest.mark.parametrize("name", [":s", "<http://ex/s>"])
def test_graph_with_a_streams_name_is_its_window_in_c_sparql(name: str) -> None:
    found = query(f"SELECT * FROM STREAM :s [RANGE 1s] {{ GRAPH {name} {{ ?s ?p ?o }} GRAPH :g {{ ?s :q 1 }} }}")
    assert isinstance(found.pattern.left, InWindow) and isinstance(found.pattern.right, Graph)  # type: ignore[union-attr]  # a join


def test_a_bare_name_is_a_stream_with_a_window_and_else_a_graph() -> None:
    found = query("SELECT * FROM s [RANGE 1s] FROM wiki { GRAPH s { ?s ?p ?o } GRAPH wiki { ?s ?p ?z } }")
    assert [clause.graph and clause.graph.text for clause in found.shape.graphs] == [b"<http://base/wiki>"] * 2
    assert [clause.named for clause in found.shape.graphs] == [False, True]
    assert isinstance(found.pattern.left, InWindow) and isinstance(found.pattern.right, Graph)  # type: ignore[union-attr]  # a join


# ---- what is wrong -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("ASK FROM STREAM :s [RANGE 1s] FROM NAMED WINDOW :w ON :s [RANGE 1s] { }", "use one dialect in a query"),
        ("ASK FROM NAMED WINDOW :w ON :s [RANGE 1s] { STREAM :s [NOW] { } }", "use one dialect in a query"),
        ("ASK FROM STREAM :s [RANGE 1s] { WINDOW :w { } }", "WINDOW is RSP-QL"),
        ("ASK { STREAM :s [RANGE 1s REPORT WINDOW_CLOSE] { } }", "needs a window that closes"),
        (
            "ASK FROM STREAM :s [NOW] FROM STREAM :t [RANGE 1s] { }",
            "[NOW] together with a stepped window has no meaning",
        ),
        ("ASK { STREAM :s [ROWS 2 STEP 1] { } STREAM :t [ROWS 2 STEP 2] { } }", "two count windows of different STEPs"),
        ("ASK { STREAM :s [FROM NOW - 2s TO NOW - 2s] { } }", "ends before it begins"),
        ("ASK { STREAM :s [START 5 END 5] { } }", "END is not later than START"),
        ("ASK { STREAM :s [TRIPLES 0] { } }", "a whole number above 0, of 15 digits at most, after TRIPLES"),
        ("ASK { STREAM :s [TRIPLES 2 STEP 9999999999999999] { } }", "of 15 digits at most, after STEP"),
        ("ASK { STREAM :s [RANGE 1s BOUNDS )(] { } }", "'[)', '(]' or '[]' after BOUNDS"),
        ("ASK { STREAM :s [RANGE 1s REPORT SOMETIMES] { } }", "one of WINDOW_CLOSE, CONTENT_CHANGE"),
        ("ASK { STREAM :s [RANGE 1s BOUNDS [) BOUNDS [)] { } }", "BOUNDS is written twice"),
        ("ASK { STREAM :s RANGE 1s { } }", "'[' and the extent of the window"),
        ("CREATE STREAM :s WITH (timeless)", "'=' and a value after timeless"),
        ("CREATE STREAM :s WITH (a = 1, a = 2)", "the option a is written twice"),
        ("SHOW GRAPHS", "STREAMS or QUERIES after SHOW"),
    ],
)
def test_what_has_no_meaning_is_explained(text: str, says: str) -> None:
    with pytest.raises(QuerySyntaxError) as caught:
        query(text)
    assert says in caught.value.message


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("ASK { SEQ(?a, ?b) }", "SEQ"),
        ("ASK { STREAM :s { } }", "STREAM without a window"),
        ("ASK { STREAM :s [RANGE 1s TICK TIME_DRIVEN] { } }", "TICK"),
        ("ASK { STREAM :s [RANGE 1s WITH POLICY x] { } }", "WITH POLICY"),
        ("ASK FROM STREAM :s [SLIDING 1s] { }", "SLIDING without STEP"),
        ("ASK FROM :g UNDER ENTAILMENT REGIME :e { }", "UNDER ENTAILMENT REGIME"),
        ("ASK { STREAM :s [RANGE PT0.0001S] { } }", "a length that is not a whole number of milliseconds"),
        ("ASK FROM STREAM :s [NOW] FROM STREAM :s [ALL] { GRAPH :s { } }", "GRAPH with a stream that has two windows"),
    ],
)
def test_what_no_one_has_built_is_refused_by_name(text: str, name: str) -> None:
    with pytest.raises(Unsupported) as caught:
        query(text)
    assert caught.value.message == f"{name} is not supported yet"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("SELECT (COUNT(?x) AS ?n) ?x { ?x ?p ?o }", "?x is selected together with an aggregate"),
        ("SELECT ?x { ?x ?p ?o } GROUP BY ?o", "?x is neither a key of GROUP BY"),
        ("SELECT (?x + COUNT(?o) AS ?n) { ?x ?p ?o }", "?x is selected together with an aggregate"),
        ("SELECT * { ?x ?p ?o } GROUP BY ?o", "SELECT * is not allowed with GROUP BY or aggregates"),
        ("SELECT (SUM(COUNT(?x)) AS ?n) { }", "but not inside another aggregate"),
        ("ASK { FILTER(COUNT(?x) > 1) }", "it is allowed in SELECT, HAVING and ORDER BY"),
        ("ASK { ?x ?p ?o BIND(1 AS ?x) }", "BIND needs a new variable"),
        ("SELECT (1 AS ?x) { ?x ?p ?o }", "?x has a value in the pattern already"),
        ("SELECT (1 AS ?x) (2 AS ?x) { }", "AS needs a new variable"),
        ("SELECT COUNT(?x) { }", "write an expression as (expression AS ?variable)"),
        ("ASK { FILTER(STR(?x, ?y) = '') }", "STR takes 1 argument, not 2"),
        ("ASK { FILTER(IF(?x, ?y)) }", "IF takes 3 arguments, not 2"),
        ("ASK { FILTER(BOUND(1)) }", "BOUND takes a variable"),
        ("ASK { FILTER(?x IN (1) = 2) }", "cannot be compared again"),
        ("ASK { VALUES (?x ?y) { (1) } }", "a row of 1 values for 2 variables"),
        ("ASK { VALUES (?x ?x) { } }", "written twice"),
        ("CONSTRUCT WHERE { ?s ?p ?o FILTER(?o) }", "CONSTRUCT WHERE takes triples only"),
        ("CONSTRUCT { ?s :p/:q ?o } WHERE { }", "a property path can only find triples"),
        ("DELETE { ?s ?p _:b } WHERE { }", "DELETE cannot contain a blank node"),
        ("DELETE WHERE { ?s ?p [] }", "DELETE cannot contain a blank node"),
        ("INSERT { ?s ?p ?o } { ?s ?p ?o }", "expected WHERE and a pattern"),
        ("CLEAR :g", "GRAPH, DEFAULT, NAMED or ALL after CLEAR"),
        ("COPY :g :h", "expected TO and another graph"),
        ("INSERT DATA { } ; SELECT * { }", "SELECT cannot be part of an update"),
        ("ASK { UNION { } }", "UNION connects two groups"),
        ("ASK { ?s ?p ?o SELECT ?s { } }", "a sub-SELECT needs a group of its own"),
        ("ASK { ?s :p> ?o }", "it closes an IRI, not a prefixed name"),
    ],
)
def test_the_notes_of_the_grammar_are_retained(text: str, says: str) -> None:
    with pytest.raises(TextError) as caught:
        parse("PREFIX : <http://ex/> " + text, BASE)
    assert says in caught.value.message


# ---- escapes -----------------------------------------------------------------------------------------------------


def test_escapes_mean_characters_of_the_grammar_outside_of_strings_too() -> None:
    plain = "SELECT ?x { ?x :naïve 'a\\u0027b' }"
    escaped = "SEL\\u0045CT ?\\u0078 { ?x :na\\U000000EFve 'a\\u0027b' }"
    assert query(plain) == query(escaped)


def test_behind_an_escape_positions_are_those_of_the_text() -> None:
    with pytest.raises(QuerySyntaxError) as caught:
        parse("ASK { \\u003Fs ?p\n\\u003Fo ?? }", BASE)
    assert (caught.value.line, caught.value.column) == (2, 9)
