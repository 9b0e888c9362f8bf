"""What a group sees, and what it does not: questions whose answers the specification's algebra decides.

The differential test found them: here we answer otherwise than a peer, or once did. Each says the sentence of SPARQL
1.1 that decides; the rows were worked out by hand from it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.stream_ext.generated import PROLOGUE, Quad
from tests.stream_ext.peers import Ours

Y_P, X_R = (":y", ":p", ":y", ""), (":x", ":r", ":x", "")
ZERO = b'"integer 0'


class Text:
    """A question as it is written."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __str__(self) -> str:
        return f"{PROLOGUE} {self._text}"


@pytest.mark.parametrize(
    ("sentence", "data", "text", "rows"),
    [
        (
            "18.2.2: a group is translated by itself, so its filter does not see what is joined to it",
            [Y_P, (":y", ":r", ":x", "")],
            "SELECT ?b { ?a :p ?b . { OPTIONAL { ?b :r ?a . FILTER(isNumeric(?b)) } FILTER(!BOUND(?b)) } }",
            [(b"<http://ex/y>",)],
        ),
        (
            "18.2.2, inside of GRAPH",
            [Y_P, (":y", ":r", ":x", ":g1")],
            "SELECT ?b { ?a :p ?b . GRAPH ?g { OPTIONAL { ?b :r ?a . FILTER(isNumeric(?b)) } FILTER(!BOUND(?b)) } }",
            [(b"<http://ex/y>",)],
        ),
        (
            "18.6: EXISTS is asked for the solutions of its own group, in which ?b may be unbound",
            [(":y", ":n", "0", ""), X_R],
            "SELECT ?e { ?b :n ?e . { FILTER EXISTS { ?b :r ?b } { ?b :q ?b } UNION { BIND(1/0 AS ?v) } } }",
            [(ZERO,)],
        ),
        (
            "18.6, where the variable is bound around the group only",
            [(":b", ":p", ":f", ""), (":c", ":n", "0", ""), (":c", ":p", ":c", "")],
            "SELECT ?b { ?b :p ?c . { ?b :n ?d . FILTER EXISTS { :b :p ?c . } } }",
            [(b"<http://ex/c>",)],
        ),
        (
            "18.3.1: a solution has no blank node of its pattern, so solutions that differ there are no distinct ones",
            [(":x", ":p", ":y", ""), (":x", ":p", ":z", ""), (":y", ":p", ":b", ""), (":z", ":p", ":b", "")],
            "SELECT (COUNT(DISTINCT *) AS ?n) { :x :p [ :p ?b ] }",
            [(b'"integer 1',)],
        ),
        (
            "18.2.2.4: nor one of the fresh variable between the steps of a path",
            [(":x", ":p", ":y", ""), (":x", ":p", ":z", ""), (":y", ":p", ":b", ""), (":z", ":p", ":b", "")],
            "SELECT (COUNT(DISTINCT *) AS ?n) (COUNT(*) AS ?m) { ?a :p/:p ?b }",
            [(b'"integer 1', b'"integer 2')],
        ),
        (
            "18.5, Extend: the expression is evaluated for the solutions of its own group",
            [(":y", ":p", ":x", ""), (":y", ":q", ":x", "")],
            "SELECT ?v { ?a :p ?b . { ?a :q ?c . BIND(?b AS ?v) } }",
            [(None,)],
        ),
        (
            "18.5, Minus: dom(mu) and dom(mu') are disjoint, so mu stays",
            [(":a", ":p", ":x", ""), (":x", ":p", ":a", "")],
            "SELECT ?a { ?a :p ?c . FILTER EXISTS { MINUS { ?b :p ?a . } } }",
            [(b"<http://ex/a>",), (b"<http://ex/x>",)],
        ),
        (
            "18.5, Minus, on the right of OPTIONAL",
            [(":x", ":n", "0", ""), (":y", ":p", ":y", "")],
            "SELECT ?d { ?a :p ?c . OPTIONAL { { SELECT ?d { ?z :n ?d } } MINUS { ?b :p ?b . } } }",
            [(ZERO,)],
        ),
        (
            "18.4: eval(Path(X, alt(P, Q), Y)) = Union(eval(Path(X, P, Y)), eval(Path(X, Q, Y))), a bag",
            [(":y", ":r", ":x", "")],
            "SELECT ?b { ?a (!(:p)|:r+) ?b . }",
            [(b"<http://ex/x>",)] * 2,
        ),
        (
            "9.3: !(:p|^:q) stands for !:p | !^:q, so a pair that is found both ways is there twice",
            [(":y", ":r", ":y", "")],
            "SELECT ?b { ?a !(:p|^:q) ?b . }",
            [(b"<http://ex/y>",)] * 2,
        ),
        (
            "18.6: eval(D(G), Graph(IRI, P)) is empty if IRI is no graph name in D, whatever P is",
            [(":f", ":r", ":c", "")],
            "SELECT ?d { GRAPH :g2 { VALUES ?d { 0 } } }",
            [],
        ),
        (
            "18.6: EXISTS is asked of the active graph, also of a group that looks for no triple itself",
            [(":f", ":p", ":c", ":g1"), (":y", ":r", ":a", ":g2")],
            "SELECT ?g { GRAPH ?g { FILTER NOT EXISTS { ?c :p ?a } } }",
            [(b"<http://ex/g2>",)],
        ),
        (
            "18.4: what is reached from 1 by (:q*)+ is reached by :q* first, which has it reach itself",
            [],
            "SELECT ?b { ?b (:q*)+ 1 }",
            [(b'"integer 1',)],
        ),
        (
            "18.4, ALP: a path of length zero leads from a term to itself, whether or not a triple has it",
            [],
            'SELECT ?a { "a"@en :q* ?a }',
            [(b'"a"@en',)],
        ),
        (
            "18.4: an alternative is a Union, a bag, also of two parts that are the same",
            [(":c", ":r", ":b", ""), (":f", ":r", ":c", "")],
            "SELECT ?e { ?a (:r|:r)/:r ?e }",
            [(b"<http://ex/b>",)] * 2,
        ),
        (
            "18.5.1.2, Count: errors are removed, and what is left is counted",
            [(":f", ":p", ":c", "")],
            "SELECT (COUNT(?a + 1) AS ?n) { ?a :p ?b } HAVING(COUNT(?a + 1) < 1)",
            [(ZERO,)],
        ),
        (
            "18.6, in EXISTS: the graph is the value of ?a, which the pattern inside has, too",
            [(":a", ":p", ":b", ":g2"), (":b", ":r", ":b", ""), (":g1", ":r", ":g1", ""), (":a", ":p", ":g1", ":g1")],
            "SELECT ?a { ?a :r ?a . FILTER EXISTS { GRAPH ?a { ?b :p ?a } } }",
            [(b"<http://ex/g1>",)],
        ),
        (
            "18.6: Graph(var, P) joins P in each graph with {var -> its name}, so ?a is the name of a graph",
            [(":x", ":q", "1", ""), (":f", ":r", ":b", ":g1")],
            "SELECT ?a { ?b :q ?a . GRAPH ?a { VALUES ?d { 0 } } }",
            [],
        ),
        (
            "18.6, where the graph inside is another one",
            [(":f", ":p", ":b", ""), (":f", ":r", ":b", ":g1")],
            "SELECT ?a { ?a :p ?c . GRAPH ?a { GRAPH :g1 { ?a :r ?b } } }",
            [],
        ),
        (
            "17.3: no operator >= takes two literals with a language",
            [(":b", ":q", '"a"@en', "")],
            "SELECT ?d { ?b :q ?d . FILTER(?d >= ?d) }",
            [],
        ),
        (
            "17.2.2: a plain literal of non-zero length is true, and one with a language tag is plain",
            [],
            'SELECT (1 AS ?v) { FILTER("b"@en) }',
            [(b'"integer 1',)],
        ),
        (
            "17.3: no operator >= takes two IRIs; the error of one side of || leaves the other",
            [],
            "SELECT (0 AS ?v) { FILTER((:c >= :c) || true) FILTER(!BOUND(?x)) }",
            [(ZERO,)],
        ),
    ],
)
def test_a_group_sees_what_the_algebra_says(
    sentence: str, data: list[Quad], text: str, rows: list[tuple[bytes | None, ...]], tmp_path: Path
) -> None:
    ours = Ours(tmp_path / "store", data)
    answered = ours.ask(Text(text))  # type: ignore[arg-type]  # it is written as it is
    ours.close()
    assert not answered.error
    assert sorted(answered.rows, key=repr) == sorted(rows, key=repr), sentence
