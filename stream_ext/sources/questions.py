"""What a source is asked: how many quads match some patterns, which, and, where it cuts answers short, page by page.

All patterns are one request, so that an answer shows one state of the source, and a blank node has one label in it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hbase_store.layout.terms import literal
from stream_ext.catalog.sources import EVERY_GRAPH, HeldPattern
from stream_ext.language.printing.terms import portable
from stream_ext.network.operators.remote.remote_question import sendable
from stream_ext.plan.sources.shapes import has_value

#: Subject, predicate, object and graph as texts; the default graph is empty.
Quad = tuple[bytes, bytes, bytes, bytes]

VARIABLES = ("s", "p", "o", "g")


def count_of(patterns: Sequence[HeldPattern]) -> str:
    return f"SELECT (COUNT(*) AS ?n) WHERE {_any_of(patterns)}"


def count_up_to(pattern: HeldPattern, most: int) -> str:
    """Counts no further than that: a source may have very many."""
    return f"SELECT (COUNT(*) AS ?n) WHERE {{ SELECT * WHERE {{ {_matching(pattern)} }} LIMIT {most} }}"


def quads_of(patterns: Sequence[HeldPattern]) -> str:
    return f"SELECT ?s ?p ?o ?g WHERE {_any_of(patterns)}"


def quads_of_subjects(patterns: Sequence[HeldPattern], subjects: Sequence[bytes]) -> str | None:
    """Only quads of these subjects; None: no pattern matches any."""
    values = f"VALUES ?s {{ {' '.join(map(_written, subjects))} }} "
    parts = [
        f"{{ {'' if pattern.subject else values}{_matching(pattern)} }}"
        for pattern in patterns
        if not pattern.subject or pattern.subject in subjects
    ]
    return f"SELECT ?s ?p ?o ?g WHERE {{ {' UNION '.join(parts)} }}" if parts else None


def existing_quads(quads: Sequence[Quad]) -> str:
    """Which of some quads the source has."""
    parts = []
    for graph in sorted({quad[3] for quad in quads}):
        rows = (" ".join(map(_written, quad[:3])) for quad in quads if quad[3] == graph)
        values = "VALUES (?s ?p ?o) { " + " ".join(f"({row})" for row in rows) + " }"
        named = f" BIND({_written(graph)} AS ?g)" if graph else ""
        parts.append(f"{{ {values} {_in_graph(graph, '?s ?p ?o')}{named} }}")
    return f"SELECT ?s ?p ?o ?g WHERE {{ {' UNION '.join(parts)} }}"


def changed_since(predicate: bytes, value: bytes) -> str:
    """The subjects that the predicate says have changed, with its values, from that value on."""
    return f"SELECT DISTINCT ?s ?t WHERE {{ {_anywhere(predicate)} FILTER(?t >= {_written(value)}) }}"


def latest_change(predicate: bytes) -> str:
    return f"SELECT (MAX(?t) AS ?n) WHERE {{ {_anywhere(predicate)} }}"


def _anywhere(predicate: bytes) -> str:
    triple = f"?s {predicate.decode()} ?t"
    return f"{{ {triple} }} UNION {{ GRAPH ?g {{ {triple} }} }}"


@dataclass(frozen=True, slots=True)
class Page:
    """Quads of one pattern, those whose `key` is an IRI or literal with a text behind `after`, or those where it is a
    blank node (`blank`): these have no text that says where they stand."""

    pattern: HeldPattern
    key: str
    after: str | None = None
    blank: bool = False

    def question(self, rows: int) -> str:
        inner = _matching(self.pattern)
        if self.blank:
            return f"SELECT ?s ?p ?o ?g WHERE {{ {inner} FILTER(isBlank(?{self.key})) }}"
        behind = "" if self.after is None else f" && STR(?{self.key}) > {_written(literal(self.after))}"
        test = f"FILTER(!isBlank(?{self.key}){behind})"
        return f"SELECT ?s ?p ?o ?g WHERE {{ {inner} {test} }} ORDER BY STR(?{self.key}) LIMIT {rows}"


def key_of(pattern: HeldPattern) -> str | None:
    """The variable by which its quads are cut into pages; None: it has no variable, so it matches one quad."""
    free = [name for name, term in zip(VARIABLES, pattern.terms, strict=False) if not term]
    if free:
        return "s" if "s" in free else free[-1]
    return "g" if pattern.graph == EVERY_GRAPH else None


def _any_of(patterns: Sequence[HeldPattern]) -> str:
    return "{ " + " UNION ".join(f"{{ {_matching(pattern)} }}" for pattern in patterns) + " }"


def _matching(pattern: HeldPattern) -> str:
    """The pattern, with each variable bound, as its other terms are no variables of it. A number, for example, which a
    source may take for others, is one: what is found says which."""
    values = [f"VALUES ?o {{ {_written(pattern.object)} }}"] if has_value(pattern.object) else []
    terms = (pattern.subject, pattern.predicate, b"" if values else pattern.object)
    triple = " ".join(_position(name, term) for name, term in zip(VARIABLES, terms, strict=False))
    bound = list(_bound((*terms, pattern.graph)))
    return " ".join([*values, _in_graph(pattern.graph, triple), *bound])


def _bound(terms: tuple[bytes, bytes, bytes, bytes]) -> Iterator[str]:
    for name, term in zip(VARIABLES, terms, strict=True):
        if term and term != EVERY_GRAPH:
            yield f"BIND({_written(term)} AS ?{name})"


def _in_graph(graph: bytes, triple: str) -> str:
    if not graph:
        return triple
    if graph == EVERY_GRAPH:
        return f"GRAPH ?g {{ {triple} }}"
    return f"GRAPH {_written(graph)} {{ {triple} }}"


def _position(name: str, term: bytes) -> str:
    return _written(term) if term else f"?{name}"


def _written(term: bytes) -> str:
    return portable(sendable(term)).decode()
