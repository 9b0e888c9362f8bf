"""The language, measured: how long texts take to be read and printed, beside rdflib's parser on the same texts.

Before a time is given, both have read each text, and rdflib has read the plain SPARQL that we print of it."""

from __future__ import annotations

import statistics
import time
import warnings
from collections.abc import Callable
from typing import Any

Figures = dict[str, Any]

PREFIXES = """PREFIX foaf: <http://xmlns.com/foaf/0.1/>
PREFIX ex: <http://example.org/social/>
PREFIX person: <http://example.org/social/person/>
PREFIX city: <http://example.org/social/city/>
PREFIX org: <http://example.org/social/org/>
"""
#: The six questions of the social benchmark, from a look-up to a path with a sub-select.
SOCIAL = {
    "q0": "SELECT ?name WHERE { person:4711 foaf:name ?name }",
    "q1": "SELECT ?p ?o WHERE { person:4711 ?p ?o }",
    "q2": """SELECT ?p ?name ?age ?org ?mbox WHERE {
  ?p a foaf:Person ; foaf:name ?name ; foaf:age ?age ; ex:city city:7 ; ex:org ?org ; foaf:mbox ?mbox .
}""",
    "q3": """SELECT ?p ?name ?mbox WHERE {
  ?p ex:city city:7 ; foaf:age ?age ; foaf:name ?name .
  OPTIONAL { ?p foaf:mbox ?mbox }
  FILTER(?age > 55)
}""",
    "q4": """SELECT ?city (COUNT(?f) AS ?n) (AVG(?age) AS ?avg) WHERE {
  ?p ex:city ?city ; foaf:age ?age ; foaf:knows ?f .
} GROUP BY ?city HAVING (AVG(?age) > 60) ORDER BY DESC(?n) ?city""",
    "q5": """SELECT ?org ?n WHERE {
  ?org ex:subOrgOf+ org:5 .
  { SELECT ?org (COUNT(?p) AS ?n) WHERE { ?p ex:org ?org ; ex:city city:7 } GROUP BY ?org }
} ORDER BY DESC(?n) ?org""",
}
_TRIPLES = 1000


def run(quick: bool) -> Figures:
    """All figures, by name."""
    repeats = 300 if quick else 2000
    figures: Figures = {name: social(PREFIXES + text, repeats) for name, text in SOCIAL.items()}
    figures["insert"] = insert(5 if quick else 30)
    ratios = [figures[name]["rdflib_ms"] / figures[name]["parse_ms"] for name in SOCIAL]
    figures["rdflib_over_ours_min"] = round(min(ratios), 1)
    figures["rdflib_over_ours_median"] = round(statistics.median(ratios), 1)
    return figures


def summary(figures: Figures) -> str:
    """The last line: name=figure name=figure."""
    slowest = max(figures[name]["parse_ms"] for name in SOCIAL)
    return (
        f"social_parse_ms_max={slowest} insert_{_TRIPLES}_ms={figures['insert']['parse_ms']} "
        f"rdflib_over_ours_min={figures['rdflib_over_ours_min']} "
        f"rdflib_over_ours_median={figures['rdflib_over_ours_median']} "
        f"rdflib_over_ours_insert={figures['insert']['rdflib_over_ours']}"
    )


def social(text: str, repeats: int) -> Figures:
    from rdflib.plugins.sparql import prepareQuery

    from stream_ext.language.printing import cache_key, to_rdflib
    from stream_ext.language.syntax import parse

    unit = parse(text)
    if to_rdflib(unit).algebra.name != prepareQuery(text).algebra.name:
        raise AssertionError(f"rdflib reads another query in what we print of {text!r}")
    return {
        "parse_ms": _best_ms(lambda: parse(text), repeats),
        "cache_key_ms": _best_ms(lambda: cache_key(unit), repeats),
        "rdflib_ms": _best_ms(lambda: prepareQuery(text), max(3, repeats // 100)),
    }


def insert(repeats: int) -> Figures:
    """INSERT DATA of 1,000 triples."""
    from rdflib.plugins.sparql import prepareUpdate

    from stream_ext.language.algebra.statements import InsertData, Update
    from stream_ext.language.syntax import parse

    lines = "\n".join(f'<http://ex/s{i}> <http://ex/p{i % 7}> "v{i}" .' for i in range(_TRIPLES))
    text = f"INSERT DATA {{ {lines} }}"
    unit = parse(text)
    if not isinstance(unit, Update) or not isinstance(unit.operations[0], InsertData):
        raise AssertionError("data is read as something else")
    if len(unit.operations[0].quads) != _TRIPLES:
        raise AssertionError(f"{len(unit.operations[0].quads)} triples of {_TRIPLES}")
    ours = _best_ms(lambda: parse(text), repeats)
    theirs = _best_ms(lambda: prepareUpdate(text), 1)
    return {"triples": _TRIPLES, "parse_ms": ours, "rdflib_ms": theirs, "rdflib_over_ours": round(theirs / ours, 1)}


def _best_ms(work: Callable[[], object], repeats: int) -> float:
    """The best of seven rounds: what the work takes when nothing else wants the processor."""
    rounds = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # rdflib's, about its own use of pyparsing
        for _ in range(7 if repeats > 1 else 1):
            began = time.perf_counter()
            for _ in range(repeats):
                work()
            rounds.append((time.perf_counter() - began) / repeats)
    return round(min(rounds) * 1e3, 4)
