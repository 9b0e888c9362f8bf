"""What a test expects: a result file in any of its forms, read into a table, a yes or no, or a graph."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pyoxigraph

from stream_ext.rdf import parse_rdf
from stream_ext.rdf.canonical import canonical
from tests.conformance.sameness import Row
from tests.stream_ext.w3c import RDF_TYPE, Node, Properties, graph

_RESULT_SET = "http://www.w3.org/2001/sw/DataAccess/tests/result-set#"
_FORMATS = {
    ".srx": pyoxigraph.QueryResultsFormat.XML,
    ".srj": pyoxigraph.QueryResultsFormat.JSON,
    ".tsv": pyoxigraph.QueryResultsFormat.TSV,
}
_GRAPHS = {".ttl": "text/turtle", ".rdf": "application/rdf+xml"}


@dataclass(frozen=True)
class Expected:
    """One of the three; rows by the names in `variables`."""

    variables: tuple[str, ...] = ()
    rows: tuple[Row, ...] | None = None
    boolean: bool | None = None
    triples: tuple[Row, ...] | None = None
    ordered: bool = False  # the file itself says which row is which


def read_expected(path: Path) -> Expected:
    if path.suffix == ".csv":
        return csv_result(path.read_text(encoding="utf-8"))
    if path.suffix in _FORMATS:
        return standard_result(path.read_bytes(), path.suffix)
    subjects = graph(path)
    kinds = {node.value: key for key, p in subjects.items() for node in p.get(RDF_TYPE, [])}
    if _RESULT_SET + "ResultSet" in kinds:
        return result_set(subjects, subjects[kinds[_RESULT_SET + "ResultSet"]])
    return Expected(triples=tuple(triples_of(path)))


def standard_result(data: bytes, suffix: str) -> Expected:
    """JSON, XML and TSV, as pyoxigraph reads them: what we write is read back through here as well."""
    results = pyoxigraph.parse_query_results(data, format=_FORMATS[suffix])
    if isinstance(results, pyoxigraph.QueryBoolean):
        return Expected(boolean=bool(results))
    names = [variable.value for variable in results.variables]
    return Expected(tuple(names), tuple(tuple(term_bytes(row[name]) for name in names) for row in results))


def csv_result(text: str) -> Expected:
    """CSV keeps no kinds: the cells are compared as they are, and one that begins with _: is a blank node."""
    head, *rows = csv.reader(io.StringIO(text, newline=""))
    return Expected(tuple(head), tuple(tuple(cell.encode() for cell in row) for row in rows))


def term_bytes(term: object) -> bytes | None:
    return None if term is None else canonical(str(term).encode())


def result_set(subjects: dict[Node, Properties], root: Properties) -> Expected:
    """The vocabulary in which SPARQL 1.0 wrote results as a graph."""
    if root.get(_RESULT_SET + "boolean"):
        return Expected(boolean=root[_RESULT_SET + "boolean"][0].value == "true")
    names = tuple(node.value for node in root[_RESULT_SET + "resultVariable"])
    solutions = [subjects[node] for node in root[_RESULT_SET + "solution"]]
    ordered = bool(solutions) and all(_RESULT_SET + "index" in solution for solution in solutions)
    if ordered:
        solutions.sort(key=lambda solution: int(solution[_RESULT_SET + "index"][0].value))
    rows = [bindings(subjects, solution[_RESULT_SET + "binding"]) for solution in solutions]
    return Expected(names, tuple(tuple(row.get(name) for name in names) for row in rows), ordered=ordered)


def bindings(subjects: dict[Node, Properties], nodes: Iterable[Node]) -> dict[str, bytes | None]:
    pairs = [subjects[node] for node in nodes]
    return {p[_RESULT_SET + "variable"][0].value: term_bytes(p[_RESULT_SET + "value"][0]) for p in pairs}


def triples_of(path: Path) -> list[Row]:
    parsed = parse_rdf(path.read_bytes(), _GRAPHS[path.suffix], path.as_uri())
    rows = zip(parsed.s.tolist(), parsed.p.tolist(), parsed.o.tolist(), strict=True)
    return [tuple(parsed.terms[i] for i in row) for row in rows]
