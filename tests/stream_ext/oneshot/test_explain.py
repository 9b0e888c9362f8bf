"""EXPLAIN texts, compared with those on file; RILLET_GOLDEN=write puts new ones there after a change that is meant."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from stream_ext.language.syntax import parse
from stream_ext.oneshot.explain_text import explain_text
from stream_ext.oneshot.explanation import explain
from stream_ext.oneshot.question import Question

FOLDER = Path(__file__).with_name("explained")
BASE = "http://base/"

TEXTS = {
    "cqels": """PREFIX : <http://ex/> SELECT ?s ?o ?z WHERE { STREAM <http://ex/s1> [RANGE 3s SLIDE 1s] {?s :p ?o}
        STREAM <http://ex/s2> [TRIPLES 10] {?s :q ?z}  GRAPH <http://ex/kb> {?s a :Room} }""",
    "csparql": """REGISTER QUERY rooms AS PREFIX : <http://ex/> SELECT ?s ?o ?z
        FROM STREAM <http://ex/s1> [RANGE 3s STEP 1s] FROM STREAM <http://ex/s2> [RANGE TRIPLES 10] FROM <http://ex/kb>
        WHERE { ?s :p ?o . ?s :q ?z . ?s a :Room }""",
    "rspql": """PREFIX : <http://ex/> REGISTER RSTREAM :out AS SELECT ?s ?o ?z FROM <http://ex/kb>
        FROM NAMED WINDOW :w1 ON <http://ex/s1> [RANGE PT3S STEP PT1S]
        FROM NAMED WINDOW :w2 ON <http://ex/s2> [ELEMENTS 10]
        WHERE { WINDOW :w1 {?s :p ?o} WINDOW :w2 {?s :q ?z} ?s a :Room }""",
    "written_policy": """REGISTER QUERY q COMPUTED EVERY 5s AS SELECT DSTREAM * FROM STREAM s
        [RANGE 1h STEP 10m T0 60000 BOUNDS (] LATENESS 5s REPORT NON_EMPTY_CONTENT, WINDOW_CLOSE] { ?s ?p ?o }""",
    "runs": """REGISTER RSTREAM near AS SELECT ?taxi ?city FROM NAMED WINDOW <w> ON STREAM taxis [RANGE 1s STEP 100ms]
        WHERE { WINDOW <w> { ?taxi <in> ?zone } ?zone <partOf> ?city FILTER(?taxi != ?city) }""",
    "summed": """REGISTER RSTREAM top AS SELECT ?a ?u FROM NAMED WINDOW <w> ON s [RANGE 10s STEP 1s]
        FROM NAMED WINDOW <x> ON s [RANGE 5s STEP 1s]
        WHERE { WINDOW <w> { ?a <u> ?u } WINDOW <x> { ?b <v> ?v } FILTER(?u < ?v) } ORDER BY DESC(?u) LIMIT 10""",
    "sparql": """PREFIX : <http://ex/> SELECT DISTINCT ?org (COUNT(DISTINCT ?p) + 1 AS ?n) (SAMPLE(?age) AS ?one) {
        ?org :subOrgOf+/^:part :top . OPTIONAL { ?p :org ?org ; :age ?age FILTER(?age > 55) }
        { { ?p a :Person } UNION { ?p a :Robot } } MINUS { ?p :left ?day } BIND(STR(?p) AS ?name)
        FILTER NOT EXISTS { ?p :hidden true } VALUES ?org { :a :b }
        { SELECT ?p { GRAPH ?g { ?p :in ?x } SERVICE SILENT <http://far/> { ?x ?y ?z } } LIMIT 10 } }
        GROUP BY ?org HAVING (COUNT(*) > 3) ORDER BY DESC(?n) ?org LIMIT 5 OFFSET 2""",
    "update": """PREFIX : <http://ex/> INSERT DATA { :s :p _:x } ;
        WITH :g DELETE { ?s :p ?o } INSERT { ?s :q ?o } WHERE { ?s :p ?o } ; CLEAR SILENT NAMED""",
    "administration": "EXPLAIN CREATE STREAM <http://ex/s> WITH (timeless = true, lateness = '5s')",
}  # fmt: skip


@pytest.mark.parametrize("name", TEXTS)
def test_the_plan_is_explained_as_it_is_on_file(name: str) -> None:
    found, path = explain_text(parse(TEXTS[name], BASE)), FOLDER / f"{name}.txt"
    if os.environ.get("RILLET_GOLDEN") == "write":
        path.write_text(found)
    assert found == path.read_text()


def test_the_explanation_as_json_says_how_the_query_would_be_divided() -> None:
    shards = explain(Question.read(TEXTS["summed"], BASE))["policy"]["shards"]
    assert shards == {
        "divided_by": "a", "summed": True, "reads_all": True, "partial_groups": False, "why_not": None,
    }  # fmt: skip
    at_arrivals = "REGISTER QUERY q AS SELECT * WHERE { STREAM s [RANGE 3s] { ?a <p> ?b } }"
    assert explain(Question.read(at_arrivals, BASE))["policy"]["shards"]["divided_by"] == "a"
    sharing = at_arrivals.replace("?b", "<b>")
    assert "share its network" in explain(Question.read(sharing, BASE))["policy"]["shards"]["why_not"]


def test_the_explanation_as_json_names_dialect_policy_and_what_is_refused() -> None:
    explained = explain(Question.read(TEXTS["csparql"], BASE))
    assert (explained["unit"], explained["dialect"], explained["query"]) == ("registration", "C-SPARQL", "rooms")
    assert explained["policy"]["scope"] == {
        "value": "the windows merged with the graphs of FROM",
        "origin": "written",
    }
    assert "refused" not in explained
    bounded = TEXTS["csparql"].replace("TRIPLES 10", "TRIPLES 10 BOUNDS []")
    refused = explain(Question.read(bounded, BASE))["refused"]
    assert refused["name"] == "BOUNDS of a window that is no length of time"


def test_the_explanation_says_which_arrivals_are_evaluated_in_one_step_and_why_others_are_not() -> None:
    text = "SELECT {} WHERE {{ STREAM <s> [NOW] {{ ?s ?p ?o }} {} }}"
    for select, more, why in [
        ("*", "?o <of> ?x FILTER(?x != ?s)", None),
        ("*", "OPTIONAL { ?o <of> ?x } MINUS { ?s <of> ?o }", None),
        ("*", "OPTIONAL { ?s <of> ?x } OPTIONAL { ?o <of> ?x }", "OPTIONAL by what may be unbound"),
        ("*", "FILTER NOT EXISTS { ?o <of> ?x }", None),
        ("*", "BIND(EXISTS { ?o <of> ?x } AS ?e)", "EXISTS"),
        ("DISTINCT ?s", "", None),
        ("(COUNT(*) AS ?n)", "", None),
        ("DISTINCT (COUNT(*) AS ?n)", "", "DISTINCT of groups"),
        ("*", "} LIMIT 1 #", "ORDER BY, LIMIT or OFFSET"),
        ("DSTREAM *", "", "it does not emit what CQELS-QL calls new, nor its whole answer in that language"),
    ]:
        policy = explain(Question.read(text.format(select, more), BASE))["policy"]
        assert policy["arrivals"] == {"together": why is None, "why_not": why}
    assert "arrivals" not in explain(Question.read(TEXTS["csparql"], BASE))["policy"]


def test_the_word_explain_changes_nothing_of_the_explanation() -> None:
    assert explain(Question.read("EXPLAIN EXPLAIN ASK { ?s ?p ?o }", BASE)) == explain(
        Question.read("                ASK { ?s ?p ?o }", BASE)
    )
