"""Texts drawn from the grammar: what Hypothesis makes queries of."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

Text = st.SearchStrategy[str]


def joined(*parts: str | Text, by: str = " ") -> Text:
    return st.tuples(*(st.just(part) if isinstance(part, str) else part for part in parts)).map(by.join)


def several(part: Text, by: str = " ", least: int = 0, most: int = 3) -> Text:
    return st.lists(part, min_size=least, max_size=most).map(by.join)


def maybe(part: Text) -> Text:
    return st.one_of(st.just(""), part)


variables = st.sampled_from(["?a", "?b", "$c", "?d1"])
names = st.sampled_from(["<http://ex/a>", ":b", "x:c", "<rel#f>", ":d.e", "a:\\~f"])
numbers = st.sampled_from(["0", "1", "+2", "-3", "4.5", "-.5", "1e3", "-2.5E-1"])
strings = st.sampled_from(["'x'", '"y\\n\\u00e9"', "'''l'o'ng'''", '"z"@en-GB', '"7"^^x:int', '""'])
literals = st.one_of(numbers, strings, st.sampled_from(["true", "FALSE"]))
terms_ = st.one_of(names, literals)
comments = st.sampled_from([" ", "\n", " # why\n", "\t"])

# ---- paths, triples

path_names = st.one_of(names, st.just("a"))
paths: Text = st.recursive(
    st.one_of(path_names, joined("!", path_names, by=""), joined("!(", several(path_names, "|^", 1), ")", by="")),
    lambda inner: st.one_of(
        joined("(", several(inner, "/", 1), ")", by=""),
        joined("(", several(inner, "|", 1), ")", by=""),
        joined("^(", inner, ")", by=""),
        joined("(", inner, ")", st.sampled_from("*+?"), by=""),
    ),
    max_leaves=4,
)
nodes: Text = st.recursive(
    st.one_of(variables, terms_, st.just("[]"), st.just("()")),
    lambda inner: st.one_of(joined("[", st.one_of(names, paths), inner, "]"), joined("(", several(inner, " ", 1), ")")),
    max_leaves=3,
)
verbs = st.one_of(variables, path_names, paths)
triples = joined(st.one_of(variables, names, literals, st.just("[]")), verbs, several(nodes, " , ", 1), ".")
data_triples = joined(names, names, several(terms_, " , ", 1), ".")
template_triples = joined(variables, st.one_of(variables, names), st.one_of(variables, terms_, st.just("[]")), ".")

# ---- expressions, patterns (which hold one another)

functions = st.sampled_from(["STR({})", "bound(?a)", "IF({},{},{})", "COALESCE({},{})", "REGEX({},{})", "x:f({})"])
binary = st.sampled_from(["||", "&&", "=", "!=", "<", ">=", "+", "-", "*", "/"])


def expressions_over(groups: Text) -> Text:
    def grown(inner: Text) -> Text:
        return st.one_of(
            joined("(", inner, binary, inner, ")"),
            joined(inner, st.sampled_from(["&&", "||"]), inner).map(lambda text: f"({text})"),
            joined("!", inner, by="").map(lambda text: text),
            joined("(", inner, st.sampled_from(["IN", "NOT IN"]), "(", several(inner, ", "), "))"),
            st.tuples(functions, st.lists(inner, min_size=3, max_size=3)).map(lambda f: f[0].format(*f[1])),
            joined(st.sampled_from(["EXISTS", "NOT EXISTS"]), groups).map(lambda text: f"({text})"),
        )

    return st.recursive(st.one_of(variables, terms_, joined("(-", variables, ")", by="")), grown, max_leaves=5)


def groups_over(inner: Text, windows: Text) -> Text:
    expressions = expressions_over(inner)
    fresh = st.integers(0, 999_999).map(lambda n: f"?new{n}")
    elements = st.one_of(
        triples,
        inner,
        joined("OPTIONAL", inner),
        joined("MINUS", inner),
        joined(inner, "UNION", several(inner, " UNION ", 1, 2)),
        joined("FILTER(", expressions, ")"),
        joined("BIND(", expressions, "AS", fresh, ")"),
        joined("GRAPH", st.one_of(variables, names), inner),
        joined("SERVICE", maybe(st.just("SILENT")), names, inner),
        joined("VALUES (?v ?w) {", several(joined("(", terms_, st.one_of(terms_, st.just("UNDEF")), ")")), "}"),
        joined("{ SELECT", maybe(st.just("DISTINCT")), "* ", inner, maybe(st.just("LIMIT 3")), "}"),
        joined(windows, inner),
    )
    return joined("{", several(elements, " "), "}")


def groups(windows: Text) -> Text:
    return st.recursive(joined("{", several(triples), "}"), lambda inner: groups_over(inner, windows), max_leaves=5)


# ---- windows

durations = st.sampled_from(["5s", "10 ms", "PT1M", "1h 30m", "250", '"PT2S"^^xsd:duration'])
steps = maybe(joined(st.sampled_from(["STEP", "slide"]), st.sampled_from(["1s", "PT0.5S", "100"])))
policies = maybe(
    st.sampled_from(["BOUNDS (]", "BOUNDS '[]'", "T0 5", "T0 -5", "T0 '1970-01-01T00:00:00Z'", "LATENESS 2s",
                     "MAXDELAY PT1S", "REPORT CONTENT_CHANGE, PERIODIC 5s", "REPORT NON_EMPTY_CONTENT EMIT ON_UPDATE"])
)  # fmt: skip
extents = st.one_of(
    joined("RANGE", durations, steps),
    joined("RANGE", st.just("5s"), st.sampled_from(["TUMBLING", "@:time", "ON x:time"])),
    joined("TUMBLING", st.just("5s")),
    joined("NOW -", st.just("10s"), maybe(st.just("TO NOW - 2s")), steps),
    st.sampled_from(["TRIPLES 10", "RANGE COUNT 3", "ROWS 5", "ELEMENTS 2", "ALL"]),
    joined("START 0 END 100", steps),
)
brackets = joined("[", extents, policies, "]")
streams = st.sampled_from([":s", "<http://ex/t>", "bare-name.v1", "?which"])


def dialects() -> st.SearchStrategy[tuple[str, Text]]:
    """What stands among the FROMs, and what stands before a group in the pattern."""
    named = st.sampled_from(["s1", ":s2"])
    none = st.tuples(st.just(""), st.just(joined("GRAPH", names)))
    cqels = st.tuples(st.just(""), st.just(joined("STREAM", streams, brackets)))
    declared = joined("FROM", maybe(st.just("NAMED")), "STREAM", named, brackets)
    csparql = declared.map(lambda t: (t, joined("GRAPH", named)))
    bare = joined("FROM s1", brackets).map(lambda t: (t, joined("GRAPH", st.just("s1"))))
    rspql = joined("FROM NAMED WINDOW :w ON", streams, brackets, policies).map(
        lambda t: (t, st.sampled_from(["WINDOW :w", "WINDOW ?any"]))
    )
    return st.one_of(none, cqels, csparql, bare, rspql)


# ---- units

from_clauses = ["FROM :g", "FROM NAMED <h>", "FROM STATIC :g", "FROM DEFAULT", "FROM NAMED GRAPH :g", "FROM wiki"]
graphs = several(st.sampled_from(from_clauses))
whole_graphs = ["CLEAR SILENT ALL", "DROP GRAPH :g", "CREATE GRAPH :g", "COPY DEFAULT TO :g", "LOAD <x> INTO GRAPH :g"]
PROLOGUE = (
    "BASE <http://base/dir/> PREFIX : <http://ex/> PREFIX x: <y/> PREFIX a: <urn:a:> "
    "PREFIX xsd: <http://www.w3.org/2001/XMLSchema#>\n"
)
r2s = maybe(st.sampled_from(["ISTREAM", "rstream", "DSTREAM"]))
aggregates = st.sampled_from(["COUNT(*)", "SUM(DISTINCT ?a)", "GROUP_CONCAT(?b; SEPARATOR=',')", "(AVG(?a) + 1)"])


@st.composite
def queries(draw: st.DrawFn) -> str:
    dataset, windows = draw(dialects())
    group = draw(groups(windows))
    behind = draw(maybe(st.just("ORDER BY DESC(?a) ?b"))) + " " + draw(maybe(st.just("OFFSET 2 LIMIT 5")))
    form = draw(st.sampled_from(["SELECT", "SELECT DISTINCT", "ASK", "CONSTRUCT", "DESCRIBE", "groups"]))
    emitted = draw(r2s)
    head: Any = {
        "SELECT": f"SELECT {emitted} *",
        "SELECT DISTINCT": f"SELECT {emitted} DISTINCT ?a ?b ({draw(expressions_over(st.just('{ }')))} AS ?made)",
        "ASK": f"ASK {emitted}",
        "CONSTRUCT": f"CONSTRUCT {emitted} {{ {draw(several(template_triples))} }}",
        "DESCRIBE": "DESCRIBE ?a <http://ex/b>",
        "groups": f"SELECT {emitted} ?a ({draw(aggregates)} AS ?made)",
    }[form]
    if form == "groups":
        behind = "GROUP BY ?a HAVING (COUNT(?b) > 1) " + behind
    return f"{PROLOGUE}{head} {dataset} {draw(graphs)} WHERE{draw(comments)}{group} {behind}"


@st.composite
def updates(draw: st.DrawFn) -> str:
    data = several(st.one_of(data_triples, joined("GRAPH :g {", several(data_triples), "}")))
    quads = several(st.one_of(template_triples, joined("GRAPH ?g {", several(template_triples), "}")))
    deleted = several(joined(variables, names, st.one_of(variables, terms_), "."))
    operation = st.one_of(
        joined("INSERT DATA {", data, "}"),
        joined("DELETE DATA {", data, "}"),
        joined("DELETE WHERE {", deleted, "}"),
        joined(maybe(st.just("WITH :g")), "DELETE {", deleted, "} INSERT {", quads, "} USING :g WHERE",
               groups(joined("GRAPH", names))),
        st.sampled_from(whole_graphs),
    )  # fmt: skip
    return PROLOGUE + draw(several(operation, " ;\n", 1))
