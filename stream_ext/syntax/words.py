"""The words of the language: what is known but not built yet, by the name that a refusal uses, and hints."""

from __future__ import annotations

from typing import Final

AGGREGATES: Final = frozenset({"COUNT", "SUM", "MIN", "MAX", "AVG", "SAMPLE", "GROUP_CONCAT"})

_FUNCTIONS = (
    "STR LANG LANGMATCHES DATATYPE BOUND IRI URI BNODE RAND ABS CEIL FLOOR ROUND CONCAT STRLEN UCASE LCASE "
    "ENCODE_FOR_URI CONTAINS STRSTARTS STRENDS STRBEFORE STRAFTER YEAR MONTH DAY HOURS MINUTES SECONDS TIMEZONE TZ "
    "NOW UUID STRUUID MD5 SHA1 SHA256 SHA384 SHA512 COALESCE IF STRLANG STRDT SAMETERM ISIRI ISURI ISBLANK "
    "ISLITERAL ISNUMERIC REGEX SUBSTR REPLACE"
)
FUNCTIONS: Final = frozenset(_FUNCTIONS.split())

#: Elements of a group that are refused, and as what.
GROUP_ELEMENTS: Final = {
    "OPTIONAL": "OPTIONAL",
    "UNION": "UNION",
    "MINUS": "MINUS",
    "BIND": "BIND",
    "VALUES": "VALUES",
    "SERVICE": "SERVICE",
    "SELECT": "a sub-SELECT",
    "STREAM": "STREAM in a pattern (CQELS-QL)",
    "SEQ": "SEQ",
    "PAST": "PAST",
    "FUTURE": "FUTURE",
}

#: After the pattern of a query.
MODIFIERS: Final = {"GROUP": "GROUP BY", "HAVING": "HAVING", "ORDER": "ORDER BY", "VALUES": "VALUES"}

#: The first word of a unit that is refused; CREATE, DROP, INSERT and DELETE depend on the next word.
UNITS: Final = {
    "CONSTRUCT": "CONSTRUCT",
    "DESCRIBE": "DESCRIBE",
    "WITH": "WITH ... DELETE / INSERT",
    "LOAD": "LOAD",
    "CLEAR": "CLEAR",
    "ADD": "ADD",
    "MOVE": "MOVE",
    "COPY": "COPY",
    "SHOW": "SHOW",
    "EXPLAIN": "EXPLAIN",
    "UNREGISTER": "UNREGISTER",
}

#: Words that begin a query or a clause, and so cannot be the name that is missing before them.
NO_NAMES: Final = frozenset(
    {
        "AS",
        "SELECT",
        "ASK",
        "CONSTRUCT",
        "DESCRIBE",
        "PREFIX",
        "BASE",
        "COMPUTED",
        "FROM",
        "WHERE",
        "RANGE",
        "ON",
        "STREAM",
    }
)

XSD: Final = "http://www.w3.org/2001/XMLSchema#"
RDF: Final = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"

WELL_KNOWN_PREFIXES: Final = {
    "rdf": RDF,
    "rdfs": "http://www.w3.org/2000/01/rdf-schema#",
    "xsd": XSD,
    "owl": "http://www.w3.org/2002/07/owl#",
    "foaf": "http://xmlns.com/foaf/0.1/",
    "skos": "http://www.w3.org/2004/02/skos/core#",
    "dc": "http://purl.org/dc/elements/1.1/",
    "dcterms": "http://purl.org/dc/terms/",
    "schema": "https://schema.org/",
    "sosa": "http://www.w3.org/ns/sosa/",
    "ssn": "http://www.w3.org/ns/ssn/",
    "prov": "http://www.w3.org/ns/prov#",
    "geo": "http://www.opengis.net/ont/geosparql#",
    "sioc": "http://rdfs.org/sioc/ns#",
    "dcat": "http://www.w3.org/ns/dcat#",
    "void": "http://rdfs.org/ns/void#",
    "sh": "http://www.w3.org/ns/shacl#",
    "rlt": "urn:rillet:ns#",
}
