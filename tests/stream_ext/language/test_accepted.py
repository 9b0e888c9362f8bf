"""What texts mean: the algebra of each."""

from __future__ import annotations

import pytest

from hbase_store.layout import terms
from stream_ext.language.algebra.algebra import (
    R2S,
    And,
    Arithmetic,
    ArithmeticOp,
    Bgp,
    BlankLabel,
    Compare,
    CompareOp,
    Constant,
    Expression,
    Filter,
    Form,
    Graph,
    InWindow,
    Join,
    Negate,
    Node,
    Not,
    Or,
    Pattern,
    Position,
    Query,
    Register,
    TriplePattern,
    Variable,
    WindowClause,
)
from stream_ext.language.algebra.statements import DeleteData, InsertData, Quad, Update
from stream_ext.language.syntax import parse
from stream_ext.language.syntax.cursor import PARTS_MAX

XSD = "http://www.w3.org/2001/XMLSchema#"
RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
BASE = "http://base/dir/file"
HERE = Position(0, 0)


def iri(value: str) -> Constant:
    return Constant(terms.iri(value))


def lit(lexical: str, datatype: str | None = None, language: str | None = None) -> Constant:
    return Constant(terms.literal(lexical, language, XSD + datatype if datatype else None))


def number(value: int) -> Constant:
    return lit(str(value), "integer")


def var(name: str) -> Variable:
    return Variable(name)


def blank(label: str) -> Variable:
    return Variable("_:" + label, hidden=True)


def ex(name: str) -> Constant:
    return iri("http://ex/" + name)


S, P, O = var("s"), var("p"), var("o")  # noqa: E741 - as everywhere in RDF


def query(text: str) -> Query:
    parsed = parse("PREFIX : <http://ex/> PREFIX xsd: <" + XSD + "> " + text, BASE)
    assert isinstance(parsed, Query)
    return parsed


def pattern(text: str) -> Pattern:
    return placeless(query("ASK " + text).pattern)


def condition(text: str) -> Expression:
    filtered = query(f"ASK {{ FILTER({text}) }}").pattern
    assert isinstance(filtered, Filter)
    return filtered.condition


def placeless(node: Pattern) -> Pattern:
    """The same without positions, which have tests of their own."""
    if isinstance(node, Bgp):
        return bgp(*((t.subject, t.predicate, t.object) for t in node.patterns))
    if isinstance(node, Join):
        return Join(placeless(node.left), placeless(node.right))
    if isinstance(node, Filter):
        return Filter(node.condition, placeless(node.inner))
    if isinstance(node, Graph):
        return Graph(node.graph, placeless(node.inner))
    assert isinstance(node, InWindow)
    return InWindow(node.window, placeless(node.inner))


def bgp(*patterns: tuple[Node, Node, Node]) -> Bgp:
    return Bgp(tuple(TriplePattern(s, p, o, HERE) for s, p, o in patterns))


SPO = bgp((S, P, O))
ONE = bgp((S, ex("p"), number(1)))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{}", bgp()),
        ("WHERE { ?s ?p ?o }", SPO),
        ("{ ?s ?p ?o . }", SPO),
        ("{ $s $p $o # a comment\n }", SPO),
        ("{ { ?s ?p ?o } }", SPO),
        ("{ ?s :p 1 , 2 ; :q 3 ; ; . ?o a :T }", bgp(
            (S, ex("p"), number(1)), (S, ex("p"), number(2)), (S, ex("q"), number(3)),
            (O, iri(RDF + "type"), ex("T")),
        )),
        ("{ <a> <../b> <#c> }", bgp((iri("http://base/dir/a"), iri("http://base/b"), iri(BASE + "#c")))),
        ("{ :a.b :%41\\~\\- :c:d }", bgp((ex("a.b"), ex("%41~-"), ex("c:d")))),
        ("{ <http://ex/\\u0061\\U00000062> : <urn:x> }", bgp((ex("ab"), ex(""), iri("urn:x")))),
        ("{ _:x :p [] . [ :q _:x ] }", bgp((blank("x"), ex("p"), blank("[1]")), (blank("[2]"), ex("q"), blank("x")))),
        ("{ [ :p [ :q 1 ] ] :r 2 }", bgp(
            (blank("[2]"), ex("q"), number(1)), (blank("[1]"), ex("p"), blank("[2]")),
            (blank("[1]"), ex("r"), number(2)),
        )),
        ("{ ?s :p () }", bgp((S, ex("p"), iri(RDF + "nil")))),
        ("{ (1 ?o) :p 2 }", bgp(
            (blank("[1]"), iri(RDF + "first"), number(1)), (blank("[1]"), iri(RDF + "rest"), blank("[2]")),
            (blank("[2]"), iri(RDF + "first"), O), (blank("[2]"), iri(RDF + "rest"), iri(RDF + "nil")),
            (blank("[1]"), ex("p"), number(2)),
        )),
        ("{ _:x :p 1 FILTER(1 = 1) _:x :q 2 }", Filter(
            Compare(CompareOp.EQ, number(1), number(1)),
            bgp((blank("x"), ex("p"), number(1)), (blank("x"), ex("q"), number(2))),
        )),
        ("{ ?s :p 1 { ?s ?p ?o } }", Join(ONE, SPO)),
        ("{ ?s :p 1 { ?s ?p ?o } ?s :p 1 }", Join(Join(ONE, SPO), ONE)),
        ("{ FILTER(?o) { ?s ?p ?o } FILTER(?s) ?s :p 1 }", Filter(S, Filter(O, Join(SPO, ONE)))),
        ("{ ?s :p 1 { FILTER(?o) } }", Join(ONE, Filter(O, bgp()))),
        ("{ GRAPH :g { ?s ?p ?o } GRAPH ?g { ?s ?p ?o FILTER(?o) } }", Join(
            Graph(ex("g"), SPO), Graph(var("g"), Filter(O, SPO)),
        )),
        ('{ ?s ?p "a\\t\\"\\u00e9", \'b\', """c"d\n""", \'\'\'e\'\'f\'\'\' }', bgp(
            (S, P, lit('a\t"\u00e9')), (S, P, lit("b")), (S, P, lit('c"d\n')), (S, P, lit("e''f")),
        )),
        ('{ ?s ?p "a"@en-GB, "1"^^xsd:byte, "s"^^xsd:string }', bgp(
            (S, P, lit("a", language="en-gb")), (S, P, lit("1", "byte")), (S, P, lit("s")),
        )),
        ("{ ?s ?p 1, +2, -3, 4.5, -.5, 1e3, -1.5E-3, true, FALSE }", bgp(
            (S, P, number(1)), (S, P, lit("+2", "integer")), (S, P, number(-3)), (S, P, lit("4.5", "decimal")),
            (S, P, lit("-.5", "decimal")), (S, P, lit("1e3", "double")), (S, P, lit("-1.5E-3", "double")),
            (S, P, lit("true", "boolean")), (S, P, lit("false", "boolean")),
        )),
        ("{ ?s ?p 5. }", bgp((S, P, number(5)))),
        ('{ "a" ?p ?o }', bgp((lit("a"), P, O))),
    ],
)  # fmt: skip
def test_the_pattern(text: str, expected: Pattern) -> None:
    assert pattern(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("?s", S),
        ("?s = 1", Compare(CompareOp.EQ, S, number(1))),
        ("?s<?o", Compare(CompareOp.LT, S, O)),
        ("?s && ?p || ?o", Or(And(S, P), O)),
        ("?s || ?p && ?o", Or(S, And(P, O))),
        ("?s && ?p && ?o", And(And(S, P), O)),
        ("!?s && !(?p || ?o)", And(Not(S), Not(Or(P, O)))),
        ("!!?s", Not(Not(S))),
        ("?s + 1 * 2 - ?o", Arithmetic(
            ArithmeticOp.SUBTRACT,
            Arithmetic(ArithmeticOp.ADD, S, Arithmetic(ArithmeticOp.MULTIPLY, number(1), number(2))), O,
        )),
        ("?s-1", Arithmetic(ArithmeticOp.SUBTRACT, S, number(1))),
        ("?s -1", Arithmetic(ArithmeticOp.SUBTRACT, S, number(1))),
        ("?s * -1", Arithmetic(ArithmeticOp.MULTIPLY, S, number(-1))),
        ("- 1", Negate(number(1))),
        ("-?s", Negate(S)),
        ("+?s", Negate(Negate(S))),
        ("?s / 2 / ?o", Arithmetic(ArithmeticOp.DIVIDE, Arithmetic(ArithmeticOp.DIVIDE, S, number(2)), O)),
        ("?s = 1 + 2 && ?o != :x", And(
            Compare(CompareOp.EQ, S, Arithmetic(ArithmeticOp.ADD, number(1), number(2))),
            Compare(CompareOp.NE, O, ex("x")),
        )),
    ],
)  # fmt: skip
def test_the_expression(text: str, expected: Expression) -> None:
    assert condition(text) == expected


def test_select_star_projects_the_visible_variables_in_order_of_appearance() -> None:
    text = "SELECT * { ?b :p [ :q ?a ] FILTER(?unseen) GRAPH ?g { ?a :p _:x, ?c } }"
    assert query(text).variables == ("b", "a", "g", "c")


def test_what_surrounds_the_pattern() -> None:
    found = query("SELECT ISTREAM DISTINCT ?x ?y ?x { ?s ?p ?o } OFFSET 3 LIMIT 5")
    assert (found.form, found.variables, found.distinct) == (Form.SELECT, ("x", "y"), True)
    assert (found.limit, found.offset, found.r2s, found.windows) == (5, 3, R2S.ISTREAM, ())


def test_keywords_know_no_case() -> None:
    assert query("select distinct ?s where { ?s ?p ?o filter(?o > 1) } limit 0").limit == 0


def test_base_and_prefix_take_effect_where_they_are() -> None:
    found = parse("PREFIX a: <x/> BASE <http://other/> PREFIX b: <y/> ASK { a:s b:p <o> }", BASE)
    assert isinstance(found, Query)
    assert placeless(found.pattern) == bgp((iri("http://base/dir/x/s"), iri("http://other/y/p"), iri("http://other/o")))


def test_positions_are_those_of_what_is_written() -> None:
    found = query("\nASK {\r\n  ?s :p 1 ;\n     :q 2,\r 3 }").pattern
    assert isinstance(found, Bgp)
    assert [t.position for t in found.patterns] == [Position(3, 3), Position(4, 6), Position(5, 2)]


# ---- windows ---------------------------------------------------------------------------------------------------------


def window(text: str) -> WindowClause:
    (found,) = query(f"SELECT * FROM NAMED WINDOW :w ON {text} {{ WINDOW :w {{ ?s ?p ?o }} }}").windows
    return found


@pytest.mark.parametrize(
    ("text", "range_ms", "step_ms"),
    [
        ("[RANGE 5s STEP 1s]", 5000, 1000),
        ("[RANGE PT5S STEP PT1S]", 5000, 1000),
        ("RANGE PT5S STEP PT1S", 5000, 1000),
        ("[range pt5s slide 1 S]", 5000, 1000),
        ("[RANGE 5 s SLIDE 500 ms]", 5000, 500),
        ("[RANGE 5000]", 5000, 5000),
        ("[RANGE 1h 30m]", 5_400_000, 5_400_000),
        ("[RANGE 2min STEP 1d]", 120_000, 86_400_000),
        ("[RANGE PT0.25S]", 250, 250),
        ("[RANGE P1DT2H3M4.005S]", 93_784_005, 93_784_005),
        ("[RANGE PT0.5M]", 30_000, 30_000),
        ("[RANGE P2W]", 1_209_600_000, 1_209_600_000),
        ('[RANGE "PT3S"^^xsd:duration STEP "PT1S"^^xsd:dayTimeDuration]', 3000, 1000),
        ("[RANGE 10s TUMBLING]", 10_000, 10_000),
        ("[TUMBLING 10s]", 10_000, 10_000),
        ("[TUMBLING PT10S STEP 10s]", 10_000, 10_000),
        ("[SLIDING 10s STEP 2s]", 10_000, 2000),
        ("[RANGE 2s STEP 2s REPORT WINDOW_CLOSE]", 2000, 2000),
        ("[RANGE 2s] REPORT WINDOW_CLOSE", 2000, 2000),
        ("[RANGE 2s] EMIT ON_CLOSE", 2000, 2000),
    ],
)
def test_the_lengths_of_a_window(text: str, range_ms: int, step_ms: int) -> None:
    found = window(":s " + text)
    assert (found.name, found.range_ms, found.step_ms, found.t0_ms) == ("http://ex/w", range_ms, step_ms, None)


@pytest.mark.parametrize(
    ("text", "t0_ms"),
    [
        ("[RANGE 2s T0 0]", 0),
        ("[RANGE 2s] T0 1700000000000", 1_700_000_000_000),
        ('[RANGE 2s T0 "1970-01-01T00:00:01.5Z"^^xsd:dateTime]', 1500),
        ('[RANGE 2s T0 "1970-01-01T01:00:00+01:00" REPORT WINDOW_CLOSE]', 0),
        ('[RANGE 2s T0 "1969-12-31T23:59:59"]', -1000),
    ],
)
def test_the_origin_of_a_window(text: str, t0_ms: int) -> None:
    assert window("<s> " + text).t0_ms == t0_ms


@pytest.mark.parametrize(
    ("text", "iri", "name"),
    [
        (":s", "http://ex/s", None),
        ("<s>", "http://base/dir/s", None),
        ("STREAM <http://ex/s>", "http://ex/s", None),
        ("my-stream.v2", None, "my-stream.v2"),
        ("STREAM s", None, "s"),
    ],
)
def test_a_stream_is_named_by_iri_or_bare_name(text: str, iri: str | None, name: str | None) -> None:
    found = window(text + " [RANGE 1s]").stream
    assert (found.iri, found.name) == (iri, name)


def test_windows_are_in_the_pattern_where_they_are_used() -> None:
    found = query("""SELECT * FROM NAMED WINDOW :a ON :s [RANGE 1s] FROM NAMED WINDOW :b ON t RANGE 2s
        { WINDOW :a { ?s ?p ?o } WINDOW <http://ex/b> { ?s :p 1 } ?s :p 1 }""")
    assert [w.name for w in found.windows] == ["http://ex/a", "http://ex/b"]
    assert placeless(found.pattern) == Join(Join(InWindow("http://ex/a", SPO), InWindow("http://ex/b", ONE)), ONE)


TAIL = "SELECT * FROM NAMED WINDOW <w> ON s [RANGE 1s] { WINDOW <w> { ?s ?p ?o } }"


@pytest.mark.parametrize(
    ("text", "name", "iri", "r2s"),
    [
        ("REGISTER QUERY q1 AS " + TAIL, "q1", None, None),
        ("REGISTER QUERY q-1.b " + TAIL, "q-1.b", None, None),
        ("REGISTER STREAM <q> AS " + TAIL, None, "http://base/dir/q", None),
        ("register rstream q as " + TAIL, "q", None, R2S.RSTREAM),
        (
            "PREFIX : <http://ex/> REGISTER ISTREAM :out AS PREFIX x: <http://x/> " + TAIL,
            None,
            "http://ex/out",
            R2S.ISTREAM,
        ),
        ("REGISTER QUERY q AS " + TAIL.replace("SELECT", "SELECT RSTREAM"), "q", None, R2S.RSTREAM),
        ("REGISTER ISTREAM q AS " + TAIL.replace("SELECT *", "ASK ISTREAM"), "q", None, R2S.ISTREAM),
    ],
)
def test_a_registration(text: str, name: str | None, iri: str | None, r2s: R2S | None) -> None:
    found = parse(text, BASE)
    assert isinstance(found, Register)
    assert (found.name, found.iri, found.query.r2s) == (name, iri, r2s)


# ---- updates ---------------------------------------------------------------------------------------------------------


def test_data_is_inserted_and_deleted_in_graphs() -> None:
    found = parse(
        """PREFIX : <http://ex/>
        INSERT DATA { :s :p 1, _:x . GRAPH :g { _:x :p [] . } :s :p 2 } ;
        PREFIX : <http://other/>
        DELETE DATA { GRAPH <http://ex/g> { :s :p "a"@en } } ;""",
        BASE,
    )
    s, p, o = (iri("http://other/" + name) for name in "spo")
    assert o != s
    assert found == Update(
        (
            InsertData((
                Quad(ex("s"), ex("p"), number(1), None),
                Quad(ex("s"), ex("p"), BlankLabel("x"), None),
                Quad(BlankLabel("x"), ex("p"), BlankLabel("[1]"), ex("g")),
                Quad(ex("s"), ex("p"), number(2), None),
            ), HERE),
            DeleteData((Quad(s, p, lit("a", language="en"), ex("g")),), HERE),
        )
    )  # fmt: skip


@pytest.mark.parametrize("text", ["", "  # nothing\n", "PREFIX : <http://ex/>"])
def test_an_empty_text_is_an_update_of_nothing(text: str) -> None:
    assert parse(text, BASE) == Update(())


# ---- sizes -----------------------------------------------------------------------------------------------------------


def depth(node: object) -> int:
    children = [getattr(node, name) for name in ("left", "right", "inner", "condition") if hasattr(node, name)]
    return 1 + max(map(depth, children), default=0)


def test_long_texts_are_read_and_stay_shallow() -> None:
    triples = query("ASK { " + "?s ?p ?o . " * (PARTS_MAX - 1) + "}").pattern
    assert isinstance(triples, Bgp)
    assert len(triples.patterns) == PARTS_MAX - 1
    assert depth(condition(" || ".join(f"?s = {n} && ?o" for n in range(5000)))) < 20
    assert depth(pattern("{" + "{ ?s ?p ?o } FILTER(?s) " * 3_000 + "}")) < 70


def test_as_deep_as_is_allowed() -> None:
    assert pattern("{" * 99 + "?s ?p ?o" + "}" * 99) == SPO
    assert condition("(" * 98 + "?s" + ")" * 98) == S
