"""Queries of known shapes, filled from a seed: another kind than those of `generated`, which grow from a grammar.

A shape is a text with places for terms, and for other shapes. The terms are those that engines and stores are apt to
confuse: `01` and `1`, `"a"` and `"a"@en`, an IRI that is a graph, a subject and a predicate."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence

PROLOGUE = "PREFIX : <http://ex/> PREFIX xsd: <http://www.w3.org/2001/XMLSchema#>\n"

NODES = (":a", ":b", ":c", ":d", ":g1", ":p")
PREDICATES = (":p", ":q", ":r", ":s")
GRAPHS = (":g1", ":g2", ":g3")
LITERALS = (
    "1", '"01"^^xsd:integer', "1.5", "2", '"2"', '"1"', '"a"', '"a"@en', '"a"@en-us', '"b"', '""',
    '"\\u00e4\\n\\"\\\\"',
    "true", '"2020-01-01T00:00:00Z"^^xsd:dateTime', '"2020-01-01T01:00:00+01:00"^^xsd:dateTime', '"x"^^:type',
    '"1"^^xsd:int', '"\U0001f600"',
)  # fmt: skip
VARIABLES = ("x", "y", "z", "v", "w")

#: {P} a predicate, {N} a node, {T} any term, {G} a graph, {V} a variable, {S} a whole shape, {E} a condition.
SHAPES = (
    "{V} {P} {V} .",
    "{V} {P} {V} . {V} {P} {V} .",
    "?x {P} ?y . ?y {P} ?z .",
    "?x {P} ?y ; {P} ?z .",
    "?x {P} {T} .",
    "{N} {P} ?y .",
    "?x ?w ?y .",
    "{N} ?w ?y . ?y {P} ?z .",
    "?x {P} ?y OPTIONAL {{ ?y {P} ?z }}",
    "?x {P} ?y OPTIONAL {{ ?y {P} ?z FILTER({E}) }}",
    "?x {P} ?y OPTIONAL {{ {S} }}",
    "?x {P} ?y OPTIONAL {{ ?y {P} ?z OPTIONAL {{ ?z {P} ?w }} }}",
    "OPTIONAL {{ ?x {P} ?y }} OPTIONAL {{ ?x {P} ?z }}",
    "?x {P} ?y MINUS {{ ?x {P} ?z }}",
    "?x {P} ?y MINUS {{ ?z {P} ?w }}",
    "{S} MINUS {{ {S} }}",
    "?x {P} ?y FILTER EXISTS {{ ?y {P} ?z }}",
    "?x {P} ?y FILTER NOT EXISTS {{ ?x {P} ?y }}",
    "?x {P} ?y FILTER NOT EXISTS {{ {S} }}",
    "?x {P} ?y FILTER({E})",
    "?x {P} ?y . ?z {P} ?w FILTER(?y = ?w)",
    "?x {P} ?y . ?z {P} ?w FILTER(sameTerm(?y, ?w))",
    "{S} FILTER({E})",
    "{{ {S} }} UNION {{ {S} }}",
    "{{ ?x {P} ?y }} UNION {{ ?y {P} ?x }} ?x {P} ?z .",
    "GRAPH {G} {{ {S} }}",
    "GRAPH ?v {{ ?x {P} ?y }}",
    "GRAPH ?v {{ ?x {P} ?y }} ?x {P} ?z .",
    "GRAPH ?v {{ ?x {P} ?v }}",
    "?v {P} ?x GRAPH ?v {{ ?y {P} ?z }}",
    "GRAPH ?v {{ ?x {P} ?y OPTIONAL {{ ?y {P} ?z }} }}",
    "GRAPH ?v {{ ?x {P} ?y }} GRAPH ?w {{ ?x {P} ?y }} FILTER(?v != ?w)",
    "GRAPH ?v {{ ?x {P}+ ?y }}",
    "GRAPH ?v {{ {S} }}",
    "?x {P}/{P} ?y .",
    "?x {P}+ ?y .",
    "?x ({P}|{P})+ ?y .",
    "?x {P}* ?y .",
    "{N} {P}* ?y .",
    "{N} ({P}/{P})? ?y .",
    "?x ^{P}/{P} ?y .",
    "?x !({P}|^{P}) ?y .",
    "{N} {P}+ ?y . ?y {P} ?z .",
    "BIND({T} AS ?y) ?x {P} ?y .",
    "?x {P} ?y BIND({K} AS ?z) ?z {P} ?w .",
    "?x {P} ?y BIND({K} AS ?z)",
    "VALUES (?x ?y) {{ ({N} UNDEF) (UNDEF {T}) ({N} {T}) }} ?x {P} ?y .",
    "VALUES ?y {{ {T} {T} {T} }} ?x {P} ?y .",
    "{S} VALUES (?x ?z) {{ ({N} UNDEF) (UNDEF {N}) }}",
    "{{ SELECT ?x (COUNT(?y) AS ?v) {{ ?x {P} ?y }} GROUP BY ?x }} ?x {P} ?z .",
    "{{ SELECT (COUNT(*) AS ?v) {{ {S} }} }}",
    "{{ SELECT DISTINCT ?y {{ ?x {P} ?y }} }} ?y {P} ?z .",
    "{{ SELECT ?y {{ ?x {P} ?y }} }} ?x {P} ?y .",
    "{{ SELECT ?x (MAX(STRLEN(STR(?y))) AS ?v) {{ {S} }} GROUP BY ?x HAVING(COUNT(*) > 1) }}",
    "{{ SELECT ?x {{ ?x {P} ?y GRAPH ?g {{ ?y {P} ?z }} }} }} ?x {P} ?w .",
    "?x {P} ?y . _:n {P} ?y .",
    "?x {P} [ {P} ?y ] .",
)  # fmt: skip

CONDITIONS = (
    "?x = {T}", "?y = {T}", "?y != {T}", "?y < {T}", "?y > {T}", "?z <= {T}", "?y = ?z", "?x != {N}", "?x = {N}",
    "BOUND(?z)", "!BOUND(?z)", "isIRI(?y)", "isLiteral(?y) && ?y = {T}", "isNumeric(?y)", "?y IN ({T}, {T})",
    "?y NOT IN ({N}, {T})", "sameTerm(?y, {T})", "!sameTerm(?y, {T})", 'LANG(?y) = "en"', 'LANGMATCHES(LANG(?y), "EN")',
    "STR(?y) = STR(?z)", 'STR(?y) = "1"', "DATATYPE(?y) = xsd:integer", 'REGEX(STR(?y), "^[a1]")', 'CONTAINS(?y, "a")',
    "?y + 0 = 1", "?y * 2 > 1", "STRLEN(STR(?y)) < 2", "?y = {T} || ?z = {T}", "!(?y = {T})", "EXISTS {{ ?y {P} ?x }}",
    "COALESCE(?z, 1) = 1", "IF(BOUND(?z), ?z, ?y) = {T}", 'REGEX(STR(?y), "^1$")', 'STRSTARTS(STR(?x), "http://ex/")',
    "YEAR(?y) = 2020", "-?y < 0", "ABS(?y) = 1", "isBlank(?y)", 'STRENDS(STR(?y), "1")', "?y", "!?y",
)  # fmt: skip
COMPUTED = ("?y", "STR(?y)", "DATATYPE(?y)", "LANG(?y)", "IRI(STR(?y))", "COALESCE(?v, ?y)", "?y + 1", "{T}", "{N}")

HEADS = (
    "SELECT *", "SELECT DISTINCT *", "SELECT ?x ?y", "SELECT DISTINCT ?y", "SELECT DISTINCT ?x ?z", "ASK",
    "SELECT REDUCED ?x",
    "SELECT (COUNT(*) AS ?n)", "SELECT (COUNT(DISTINCT ?y) AS ?n)", "SELECT (COUNT(DISTINCT *) AS ?n)",
    "SELECT ?x (COUNT(?y) AS ?n) ... GROUP BY ?x", "SELECT ?y (COUNT(*) AS ?n) ... GROUP BY ?y HAVING(COUNT(*) > 1)",
    "SELECT (SUM(?y) AS ?n) (MIN(STR(?x)) AS ?m)", "SELECT ?l (COUNT(*) AS ?n) ... GROUP BY (LANG(?y) AS ?l)",
    "CONSTRUCT {{ ?x :made ?y . ?y :of ?z }}", "SELECT ?x (STR(?y) AS ?n)",
    "SELECT (GROUP_CONCAT(DISTINCT ?l ; separator=' ') AS ?n) ... GROUP BY (STR(?y) AS ?l)",
)  # fmt: skip
FROMS = ("FROM :g1", "FROM :g1 FROM :g2", "FROM NAMED :g1", "FROM :g2 FROM NAMED :g1 FROM NAMED :g3", "FROM :none")

Quad = tuple[str, str, str, str]


class Shapes:
    def __init__(self, chance: random.Random) -> None:
        self._chance = chance

    def query(self) -> str:
        head, _, tail = self._chance.choice(HEADS).partition(" ... ")
        some = " ".join(self.shape(2) for _ in range(self._chance.choice((1, 1, 1, 2))))
        of = self._chance.choice(FROMS) if self._chance.random() < 0.15 else ""
        return f"{PROLOGUE}{head.format()} {of} WHERE {{ {some} }} {tail}"

    def shape(self, depth: int) -> str:
        shapes = SHAPES if depth else [each for each in SHAPES if "{S}" not in each]
        return self._filled(self._chance.choice(shapes), depth)

    def _filled(self, text: str, depth: int) -> str:
        def fill(found: re.Match[str]) -> str:
            match found[1]:
                case "P":
                    return self._chance.choice(PREDICATES)
                case "N":
                    return self._chance.choice(NODES)
                case "T":
                    return self._chance.choice((*NODES[:4], *LITERALS, *LITERALS))
                case "G":
                    return self._chance.choice(GRAPHS)
                case "V":
                    return "?" + self._chance.choice(VARIABLES)
                case "E":
                    return self._filled(self._chance.choice(CONDITIONS), 0)
                case "K":
                    return self._filled(self._chance.choice(COMPUTED), 0)
            return self.shape(depth - 1)

        return re.sub(r"\{([PNTGVEKS])\}", fill, text).replace("{{", "{").replace("}}", "}")


def quads(chance: random.Random, count: int, blanks: bool) -> list[Quad]:
    nodes = (*NODES, "_:x", "_:y") if blanks else NODES

    def quad() -> Quad:
        predicate = chance.choice(PREDICATES)
        literals = {":q": 0.7, ":s": 0.4}.get(predicate, 0.0)
        thing = chance.choice(LITERALS) if chance.random() < literals else chance.choice(nodes)
        return chance.choice(nodes), predicate, thing, chance.choice(("", "", "", *GRAPHS))

    return sorted({quad() for _ in range(count)})


def trig(data: Sequence[Quad]) -> str:
    head = PROLOGUE.replace("PREFIX", "@prefix").replace("> @prefix", "> .\n@prefix").strip() + " .\n"
    return head + "\n".join(f"{g} {{ {s} {p} {o} . }}" for s, p, o, g in data)
