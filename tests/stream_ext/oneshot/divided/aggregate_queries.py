"""Random data and queries with groups or DISTINCT; and a way to run tasks without Spark."""

from __future__ import annotations

import pickle
import random
from collections.abc import Generator, Sequence

from pyspark import cloudpickle

from stream_ext.evaluation_budget import Control
from stream_ext.oneshot.divided.task import QueryTask, evaluated

PREFIX = "PREFIX : <http://e/>\n"
_XSD = "http://www.w3.org/2001/XMLSchema#"
_VALUES = [
    "1", "2.5", "3e2", '"x"', "true", f'"7"^^<{_XSD}float>', "-4", "0.1", f'"2020-01-01"^^<{_XSD}date>', ":z", '"y"@en',
    "99999999999999999999", "1e308", f'"NaN"^^<{_XSD}double>', "1E-20", "0.000000000000000000001",
]  # fmt: skip
_AGGREGATES = [
    "COUNT(*)", "COUNT(?x)", "SUM(?x)", "AVG(?x)", "MIN(?x)", "MAX(?x)", "COUNT(DISTINCT ?x)", "SUM(DISTINCT ?x)",
    "AVG(DISTINCT ?x)", "SAMPLE(?x)", "GROUP_CONCAT(?x)", "GROUP_CONCAT(DISTINCT ?x;SEPARATOR='|')",
    "COUNT(DISTINCT *)", "SUM(?x*2)", "MIN(STR(?x))", "MAX(?x+?y)", "COUNT(?y)",
]  # fmt: skip
_PATTERNS = [
    "?k :v ?x", "?k :w ?x", "?k :d ?x", "?k :q ?z . ?z :v ?x", "?k a ?t . ?k :v ?x", "?k ?p ?x",
    "?k :v ?x OPTIONAL { ?k :w ?y }", "?k :q ?z OPTIONAL { ?z :v ?x FILTER(?x > 2) }",
    "?k :w ?y . ?k :d ?x FILTER(?y > 10)", "?k :v ?x FILTER EXISTS { ?k :q ?m . ?m :w ?y }",
    "?k :v ?x FILTER NOT EXISTS { ?k a :C1 }", "?k :v ?x MINUS { ?k a :C2 }", "?k :q ?z . ?z :q ?k . ?k :v ?x",
    "?k :v ?x BIND(STR(?x) AS ?y)", "?k a :C1 . ?k :v ?x", "?k :v ?x VALUES ?x {1 2.5 :z}",
    "{SELECT DISTINCT ?k ?x { ?k :q ?m . ?m :v ?x}}",
    "?k :v ?x . {SELECT ?k (COUNT(*) AS ?y) {?k :q ?m} GROUP BY ?k}", "{?k :v ?x} UNION {?k :w ?x}", "?k :q* ?x",
    "?a :q ?k . ?k :v ?x . ?k :w ?y", "?k :v ?x . ?k :nosuch ?y", "?x :v ?x",
]  # fmt: skip
_KEYS = ["?k", "?x", "?t", "", "(STR(?k) AS ?kk)", "(?y+1 AS ?kk)", "(DATATYPE(?x) AS ?kk)"]
_DISTINCT = ["?k", "?x", "?k ?x", "(STR(?x) AS ?u)"]


class RunHere:
    """Runs tasks one after the other, in this process, each as it would come out of another one."""

    def __init__(self, lanes: int = 2) -> None:
        self.lanes = lanes

    def run(self, tasks: Sequence[QueryTask], control: Control) -> Generator[bytes, None, None]:
        for task in tasks:
            yield evaluated(pickle.loads(cloudpickle.dumps(task)))


def random_data(chance: random.Random, count: int) -> list[str]:
    """Triples of some 60 subjects, in Turtle."""
    triples = []
    for _ in range(count):
        subject = f":s{chance.randrange(60)}"
        triples.append(
            chance.choice(
                [
                    f"{subject} :v {chance.choice(_VALUES)} .",
                    f"{subject} :q :s{chance.randrange(60)} .",
                    f"{subject} a :C{chance.randrange(3)} .",
                    f"{subject} :w {chance.randrange(-5, 30)} .",
                    f"{subject} :d {chance.randrange(1000) / 100} .",
                ]
            )
        )
    return triples


def random_query(chance: random.Random) -> str:
    pattern = chance.choice(_PATTERNS)
    if chance.random() < 0.15:
        return f"{PREFIX}SELECT DISTINCT {chance.choice(_DISTINCT)} {{ {pattern} }}"
    aggregates = " ".join(f"({chance.choice(_AGGREGATES)} AS ?a{i})" for i in range(chance.randrange(1, 4)))
    key = chance.choice(_KEYS)
    shown = "?kk" if key.startswith("(") else key
    groups = f" GROUP BY {key}" if key else ""
    having = " HAVING (COUNT(*) > 1)" if chance.random() < 0.2 else ""
    tail = chance.choice(["", "", f" ORDER BY DESC(?a0) {shown}", " ORDER BY ?a0 LIMIT 3", " LIMIT 2"])
    return f"{PREFIX}SELECT {shown} {aggregates} {{ {pattern} }}{groups}{having}{tail}"
