"""The shop workload: products, offers, reviews, and questions as a web shop asks them, after the Berlin benchmark.

Its own generator and its own questions, ten of the shapes that such a shop has: search by features, comparison,
similar products, offers and reviews of one product, and what a manager wants to know. Every cut answer has an order
without ties, so that all engines must give the same rows."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

BASE = "http://example.org/shop/"
_TYPE = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>"
_LABEL = "<http://www.w3.org/2000/01/rdf-schema#label>"
_SUB_CLASS = "<http://www.w3.org/2000/01/rdf-schema#subClassOf>"
_XSD = "http://www.w3.org/2001/XMLSchema#"
_FEATURES, _PRODUCERS, _VENDORS, _REVIEWERS, _CLASSES = 200, 50, 40, 300, 63
_COUNTRIES = ("DE", "US", "GB", "JP", "FR")
_LANGUAGES = ("en", "de", "fr", "en-gb")
_LINES_A_PRODUCT = 41


def write(path: Path, lines: int) -> None:
    """About so many lines of N-Triples."""
    chance = random.Random(20261118)
    with path.open("w") as out:
        out.writelines(_reference(chance))
        for number in range(max(200, lines // _LINES_A_PRODUCT)):
            out.writelines(_product(chance, number))


def _iri(kind: str, number: int) -> str:
    return f"<{BASE}{kind}/{number}>"


def _is(subject: str, name: str, value: str) -> str:
    predicate = name if name.startswith("<") else f"<{BASE}{name}>"
    return f"{subject} {predicate} {value} .\n"


def _typed(value: object, datatype: str) -> str:
    return f'"{value}"^^<{_XSD}{datatype}>'


def _day(chance: random.Random) -> str:
    date = f"{chance.randrange(2019, 2025)}-{chance.randrange(1, 13):02}-{chance.randrange(1, 29):02}"
    return _typed(f"{date}T{chance.randrange(24):02}:00:00Z", "dateTime")


def _reference(chance: random.Random) -> Iterator[str]:
    """A tree of classes, features, producers, vendors and reviewers."""
    for number in range(1, _CLASSES):
        yield _is(_iri("class", number), _SUB_CLASS, _iri("class", (number - 1) // 2))
    for number in range(_FEATURES):
        yield _is(_iri("feature", number), _LABEL, f'"feature {number}"@en')
    for kind, count in (("producer", _PRODUCERS), ("vendor", _VENDORS), ("reviewer", _REVIEWERS)):
        for number in range(count):
            yield _is(_iri(kind, number), _LABEL, f'"{kind} {number}"')
            yield _is(_iri(kind, number), "country", f"<{BASE}country/{chance.choice(_COUNTRIES)}>")


def _product(chance: random.Random, number: int) -> Iterator[str]:
    product = _iri("product", number)
    yield _is(product, _TYPE, _iri("class", chance.randrange(_CLASSES // 2, _CLASSES)))
    yield _is(product, _LABEL, f'"product {number} {chance.choice(("red", "blue", "green"))}"')
    yield _is(product, "producer", _iri("producer", int(_PRODUCERS * chance.random() ** 2)))
    for feature in sorted({int(_FEATURES * chance.random() ** 2) for _ in range(chance.randrange(3, 12))}):
        yield _is(product, "feature", _iri("feature", feature))
    yield _is(product, "size", _typed(chance.randrange(1, 2000), "integer"))
    yield _is(product, "weight", _typed(f"{chance.randrange(1, 400)}.{chance.randrange(1, 10)}", "decimal"))
    if chance.random() < 0.7:
        yield _is(product, "power", _typed(chance.randrange(1, 500), "integer"))
    for offer in range(chance.randrange(1, 6)):
        yield from _offer(chance, product, _iri("offer", 10 * number + offer))
    for review in range(chance.choice((0, 1, 2, 3, 5))):
        yield from _review(chance, product, _iri("review", 10 * number + review))


def _offer(chance: random.Random, product: str, offer: str) -> Iterator[str]:
    yield _is(offer, "product", product)
    yield _is(offer, "vendor", _iri("vendor", int(_VENDORS * chance.random() ** 2)))
    yield _is(
        offer,
        "price",
        _typed(f"{chance.randrange(5, 9000)}.{chance.randrange(10)}{chance.randrange(1, 10)}", "decimal"),
    )
    yield _is(offer, "days", _typed(chance.randrange(1, 15), "integer"))
    yield _is(offer, "until", _day(chance))


def _review(chance: random.Random, product: str, review: str) -> Iterator[str]:
    yield _is(review, "about", product)
    yield _is(review, "reviewer", _iri("reviewer", int(_REVIEWERS * chance.random() ** 2)))
    yield _is(review, "title", f'"review {review[-9:-1]}"@{chance.choice(_LANGUAGES)}')
    yield _is(review, "date", _day(chance))
    for name in ("rating1", "rating2"):
        if chance.random() < 0.7:
            yield _is(review, name, _typed(chance.randrange(1, 11), "integer"))


_PROLOGUE = f"""PREFIX : <{BASE}>
PREFIX rdfs: <http://www.w3.org/2000/01/rdf-schema#>
PREFIX xsd: <{_XSD}>
"""
_SHAPES = {
    "search": """SELECT DISTINCT ?product ?label {
  ?product rdfs:label ?label ; a ?class ; :feature <feature/1>, <feature/4> ; :size ?size . FILTER(?size > 300)
} ORDER BY ?label ?product LIMIT 10""",
    "one": """SELECT ?label ?producer ?feature ?size ?weight ?power {
  <product/42> rdfs:label ?label ; :producer ?p ; :feature ?f ; :size ?size ; :weight ?weight .
  ?p rdfs:label ?producer . ?f rdfs:label ?feature . OPTIONAL { <product/42> :power ?power }
}""",
    "without": """SELECT ?product ?label {
  ?product rdfs:label ?label ; :feature <feature/2> ; :size ?size . FILTER(?size < 900)
  OPTIONAL { ?product :feature <feature/7> . BIND(true AS ?has) } FILTER(!BOUND(?has))
} ORDER BY ?label ?product LIMIT 10""",
    "either": """SELECT DISTINCT ?product ?label {
  { ?product :feature <feature/3>, <feature/9> } UNION { ?product :feature <feature/5> ; :power ?w . FILTER(?w > 450) }
  ?product rdfs:label ?label
} ORDER BY ?label ?product OFFSET 5 LIMIT 10""",
    "similar": """SELECT DISTINCT ?other ?label {
  <product/42> :feature ?f ; :size ?mine . ?other :feature ?f ; :size ?size ; rdfs:label ?label .
  FILTER(?other != <product/42> && ?size < ?mine + 120 && ?size > ?mine - 120)
} ORDER BY ?label ?other LIMIT 5""",
    "offers": """SELECT ?offer ?price ?vendor ?review ?rating {
  { ?offer :product <product/42> ; :price ?price ; :vendor ?v ; :until ?until . ?v rdfs:label ?vendor .
    FILTER(?until > "2020-06-01T00:00:00Z"^^xsd:dateTime) }
  OPTIONAL { ?review :about <product/42> ; :reviewer ?r . OPTIONAL { ?review :rating1 ?rating } }
}""",
    "reviews": """SELECT ?title ?name ?rating {
  ?review :about <product/42> ; :title ?title ; :date ?date ; :reviewer ?r . ?r rdfs:label ?name .
  FILTER(LANGMATCHES(LANG(?title), "en")) OPTIONAL { ?review :rating2 ?rating }
} ORDER BY DESC(?date) ?title LIMIT 20""",
    "cheap": """SELECT ?offer ?price {
  ?offer :price ?price ; :days ?days ; :vendor [ :country <country/US> ] ; :until ?until .
  FILTER(?days <= 3 && ?until > "2023-01-01T00:00:00Z"^^xsd:dateTime)
} ORDER BY ?price ?offer LIMIT 10""",
    "ratings": """SELECT ?producer (COUNT(?review) AS ?n) (AVG(?rating) AS ?avg) (MAX(?rating) AS ?best) {
  ?review :about ?product ; :rating1 ?rating . ?product :producer ?producer
} GROUP BY ?producer HAVING(AVG(?rating) > 5.4) ORDER BY DESC(?n) ?producer""",
    "unreviewed": """SELECT ?vendor (COUNT(DISTINCT ?product) AS ?n) {
  ?offer :vendor ?vendor ; :product ?product . FILTER NOT EXISTS { ?review :about ?product }
} GROUP BY ?vendor ORDER BY DESC(?n) ?vendor""",
    "below": """SELECT ?class (COUNT(?product) AS ?n) (MIN(?weight) AS ?least) {
  ?class rdfs:subClassOf+ <class/1> . ?product a ?class ; :weight ?weight .
  MINUS { ?product :feature <feature/0> }
} GROUP BY ?class ORDER BY ?class""",
}
QUERIES = {name: f"BASE <{BASE}>\n{_PROLOGUE}{text}" for name, text in _SHAPES.items()}
