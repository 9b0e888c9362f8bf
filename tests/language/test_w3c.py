"""The W3C's tests: every text of SPARQL 1.1 is read, every other one refused, and filters keep what they should."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyoxigraph

from hbase_store.arrays import Ids
from stream_ext.errors import QuerySyntaxError, TextError, Unsupported
from stream_ext.plan.algebra import Bgp, Constant, Filter, Form, Join, Pattern, Query, TriplePattern
from stream_ext.plan.expressions import Scope, compile_condition
from stream_ext.plan.refuse import parse_runnable
from stream_ext.rdf import parse_rdf
from stream_ext.syntax import parse
from tests.language.dictionary import Dictionary
from tests.language.w3c import MANIFEST, QUERY, RDF_TYPE, Node, Properties, file_of, graph, manifests, text_of

RESULT_SET = "http://www.w3.org/2001/sw/DataAccess/tests/result-set#"
Triple = tuple[bytes, bytes, bytes]
Solution = dict[str, bytes]


def syntax_tests() -> list[tuple[bool, Path]]:
    found = []
    for subjects in manifests(("sparql10", "sparql11")):
        for properties in subjects.values():
            for kind in properties.get(RDF_TYPE, []):
                if isinstance(kind, pyoxigraph.NamedNode) and "SyntaxTest" in kind.value:
                    found.append(("Positive" in kind.value, file_of(properties[MANIFEST + "action"][0])))
    return found


def test_every_legal_text_is_read() -> None:
    refused, texts = [], [path for legal, path in syntax_tests() if legal]
    for path in texts:
        try:
            parse(text_of(path), path.as_uri())
        except TextError as error:
            refused.append(f"{path}: {error}")
    assert not refused, "\n".join(refused)
    assert len(texts) > 250


def test_every_illegal_text_is_an_error() -> None:
    accepted, texts = [], [path for legal, path in syntax_tests() if not legal]
    for path in texts:
        try:
            parse(text_of(path), path.as_uri())
        except QuerySyntaxError:
            continue
        accepted.append(path)
    assert not accepted
    assert len(texts) > 90


def test_filters_over_small_graphs_answer_as_the_w3c_says() -> None:
    wrong, ran = [], 0
    for subjects in manifests(("sparql10",)):
        for properties in subjects.values():
            judged = judge(subjects, properties)
            ran += judged is not None
            if judged:
                wrong.append(judged)
    assert not wrong, "\n".join(wrong)
    assert ran > 90


def judge(subjects: dict[Node, Properties], properties: Properties) -> str | None:
    """None for a test that is beyond us, "" for one that is right, else what is wrong."""
    if MANIFEST + "action" not in properties or MANIFEST + "result" not in properties:
        return None
    action = subjects.get(properties[MANIFEST + "action"][0], {})
    if QUERY + "query" not in action or QUERY + "data" not in action:
        return None
    text, data = file_of(action[QUERY + "query"][0]), file_of(action[QUERY + "data"][0])
    try:
        query = parse_runnable(text_of(text), text.as_uri())
    except Unsupported:
        return None
    assert isinstance(query, Query)
    if data.suffix != ".ttl" or query.form is Form.ASK or query.distinct or query.limit or not is_small(query.pattern):
        return None
    found = Counter(
        tuple(same_blank(s.get(name, b"")) for name in query.variables) for s in solutions(query.pattern, triples(data))
    )
    expected = Counter(expected_rows(file_of(properties[MANIFEST + "result"][0]), query.variables))
    return "" if found == expected else f"{text}: too many {found - expected}, missing {expected - found}"


def is_small(pattern: Pattern) -> bool:
    if isinstance(pattern, Join):
        return is_small(pattern.left) and is_small(pattern.right)
    return is_small(pattern.inner) if isinstance(pattern, Filter) else isinstance(pattern, Bgp)


def triples(path: Path) -> list[Triple]:
    parsed = parse_rdf(path.read_bytes(), "text/turtle", path.as_uri())
    rows = zip(parsed.s.tolist(), parsed.p.tolist(), parsed.o.tolist(), strict=True)
    return [(parsed.terms[s], parsed.terms[p], parsed.terms[o]) for s, p, o in rows]


def same_blank(text: bytes) -> bytes:
    return b"_:some" if text.startswith(b"_:") else text


# ---- the plainest evaluation there is ----------------------------------------------------------------------------


def solutions(pattern: Pattern, data: list[Triple]) -> list[Solution]:
    if isinstance(pattern, Bgp):
        found: list[Solution] = [{}]
        for triple in pattern.patterns:
            found = [more for s in found for row in data if (more := matched(triple, row, s)) is not None]
        return found
    if isinstance(pattern, Join):
        right = solutions(pattern.right, data)
        left = solutions(pattern.left, data)
        return [a | b for a in left for b in right if all(a[name] == b[name] for name in a.keys() & b.keys())]
    assert isinstance(pattern, Filter)
    return filtered(pattern, solutions(pattern.inner, data))


def matched(pattern: TriplePattern, row: Triple, solution: Solution) -> Solution | None:
    more = dict(solution)
    for node, term in zip((pattern.subject, pattern.predicate, pattern.object), row, strict=True):
        if (node.text if isinstance(node, Constant) else more.setdefault(node.name, term)) != term:
            return None
    return more


def filtered(pattern: Filter, rows: list[Solution]) -> list[Solution]:
    names = tuple(sorted({name for row in rows for name in row}))
    dictionary = Dictionary()
    columns: list[Ids] = [dictionary.encode([row.get(name, b"").decode() for row in rows]) for name in names]
    mask = compile_condition(pattern.condition, names).mask(columns, Scope(dictionary.vocabulary), len(rows))
    return [row for row, held in zip(rows, mask.tolist(), strict=True) if held]


# ---- what is expected ----------------------------------------------------------------------------------------------


def expected_rows(path: Path, variables: tuple[str, ...]) -> list[tuple[bytes, ...]]:
    rows = xml_rows(path) if path.suffix == ".srx" else turtle_rows(path)
    return [tuple(row.get(name, b"") for name in variables) for row in rows]


def xml_rows(path: Path) -> list[Solution]:
    results = pyoxigraph.parse_query_results(path=path, format=pyoxigraph.QueryResultsFormat.XML)
    assert isinstance(results, pyoxigraph.QuerySolutions)
    names = [variable.value for variable in results.variables]
    return [{name: term for name in names if (term := text(row[name]))} for row in results]


def turtle_rows(path: Path) -> list[Solution]:
    subjects = graph(path)
    rows = []
    for properties in list(subjects.values()):
        for solution in properties.get(RESULT_SET + "solution", []):
            bindings = [subjects[binding] for binding in subjects[solution][RESULT_SET + "binding"]]
            rows.append({b[RESULT_SET + "variable"][0].value: text(b[RESULT_SET + "value"][0]) for b in bindings})
    return rows


def text(term: object) -> bytes:
    if term is None:
        return b""
    # Through our own reader, which gives every term its one spelling.
    return same_blank(parse_rdf(f"<x:x> <x:y> {term} .".encode(), "application/n-triples", "").terms[2])
