"""Probing: what a source is, as far as its answers depend on it (`SourceTraits`), found out by small queries.

What cannot be found out is taken for the worse: a default graph that is a union may find a triple as often as graphs
have it, an order that no question could show is none. NoAnswer goes on to the caller: a source that is away is probed
later."""

from __future__ import annotations

from collections.abc import Callable

from hbase_store.layout.terms import parse_term
from stream_ext.errors import RilletError
from stream_ext.remote.fetching import CannotFetch, NoAnswer
from stream_ext.remote.source import DefaultGraph, SourceTraits
from stream_ext.remote.sparql_client import Solution

Select = Callable[[str], list[Solution]]

_XSD = "http://www.w3.org/2001/XMLSchema#"
_MINUS_ZERO = f'"-0.0E0"^^<{_XSD}double>'
#: So many triples are looked at.
_SAMPLE = 500
#: Texts in the order of their code points; other collations mix cases, accents and planes.
_TEXTS = ("", " b", "0", "A", "B", "Z", "_", "a", "b", "é", "\ufb01", "\U0001f600")


def probed(select: Select, default: DefaultGraph | None = None) -> SourceTraits:
    """`default`: what the user says of the default graph."""
    select("SELECT ?s WHERE { ?s ?p ?o } LIMIT 1")  # NoAnswer here: it is away; what fails later is a matter of its own
    if default is None:
        default = "union" if _found(lambda: _is_union(select)) else "own"
    return SourceTraits(
        default=default,
        repeats=default == "union" and not _found(lambda: _finds_once(select)),
        canonical_numbers=_found(lambda: _written(select, f'"01"^^<{_XSD}integer>') != f'"01"^^<{_XSD}integer>'),
        widens_integers=_found(lambda: _written(select, f'"1"^^<{_XSD}int>') == f'"1"^^<{_XSD}integer>'),
        lowers_languages=_found(lambda: _written(select, '"a"@EN-gb') != '"a"@EN-gb'),
        sorts_by_text=_found(lambda: _sorts(select)),
        stable_blanks=_found(lambda: _has_stable_blanks(select)),
        by_value=_found(lambda: not _has_truth_values(select)),
        distinguishes_zeros=_found(lambda: not select(f"SELECT ?x {{ VALUES ?x {{ {_MINUS_ZERO} }} FILTER(?x = 0) }}")),
    )


def _found(look: Callable[[], bool]) -> bool:
    """False for a question that the source does not answer as asked; NoAnswer is no such thing."""
    try:
        return look()
    except NoAnswer:
        raise
    except (CannotFetch, RilletError, LookupError, ValueError):
        return False


def _is_union(select: Select) -> bool:
    named = f"{{ SELECT ?s ?p ?o WHERE {{ GRAPH ?g {{ ?s ?p ?o }} }} LIMIT {_SAMPLE} }}"
    if not select("SELECT ?s WHERE { GRAPH ?g { ?s ?p ?o } } LIMIT 1"):
        return False
    return not select(f"SELECT ?s WHERE {{ {named} FILTER NOT EXISTS {{ ?s ?p ?o }} }} LIMIT 1")


def _finds_once(select: Select) -> bool:
    """Whether a triple that is in two graphs was found once in their union."""
    some = (
        f"{{ SELECT ?s ?p ?o ?g WHERE {{ GRAPH ?g {{ ?s ?p ?o FILTER(isIRI(?s) && isIRI(?o)) }} }} LIMIT {_SAMPLE} }}"
    )
    shared = select(f"SELECT ?s ?p ?o WHERE {{ {some} GRAPH ?h {{ ?s ?p ?o }} FILTER(?g != ?h) }} LIMIT 1")
    if not shared:
        return False
    s, p, o = (shared[0][name].decode() for name in "spo")
    found = select(f"SELECT ?p WHERE {{ {s} ?p {o} FILTER(?p = {p}) }}")
    return len(found) == 1


def _written(select: Select, term: str) -> str:
    return select(f"SELECT ?x WHERE {{ VALUES ?x {{ {term} }} }}")[0]["x"].decode()


def _has_truth_values(select: Select) -> bool:
    """Stores that say 0 for false compare terms by the values that they have for them."""
    found = select("SELECT (sameTerm(1, 1.5) AS ?x) WHERE { }")[0]["x"].decode()
    return found == f'"false"^^<{_XSD}boolean>'


def _sorts(select: Select) -> bool:
    values = " ".join(f'"{text}"' for text in reversed(_TEXTS))
    ordered = select(f"SELECT ?x WHERE {{ VALUES ?x {{ {values} }} }} ORDER BY STR(?x)")
    above = select(f'SELECT ?x WHERE {{ VALUES ?x {{ {values} }} FILTER(STR(?x) > "Z") }}')
    return [_text(row) for row in ordered] == list(_TEXTS) and {_text(row) for row in above} == {*_TEXTS[6:]}


def _text(row: Solution) -> str:
    return parse_term(row["x"]).value if "x" in row else ""


def _has_stable_blanks(select: Select) -> bool:
    """Whether the second of two blank nodes has the same label when it is asked for alone: labels that are counted
    anew in each answer differ then."""
    some = "SELECT DISTINCT ?b WHERE { ?b ?p ?o FILTER(isBlank(?b)) }"
    both = [row["b"] for row in select(f"{some} LIMIT 2")]
    if len(both) < 2:
        return False
    return [row["b"] for row in select(f"{some} OFFSET 1 LIMIT 1")] == both[1:]
