"""The words of the language: functions and how many arguments they take, words that are no names, and hints."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Final

AGGREGATES: Final = frozenset({"COUNT", "SUM", "MIN", "MAX", "AVG", "SAMPLE", "GROUP_CONCAT"})

_MANY = 1 << 30
_BY_COUNT: Final = {
    (0, 0): "RAND NOW UUID STRUUID",
    (0, 1): "BNODE",
    (1, 1): (
        "STR LANG DATATYPE BOUND IRI URI ABS CEIL FLOOR ROUND STRLEN UCASE LCASE ENCODE_FOR_URI YEAR MONTH DAY HOURS "
        "MINUTES SECONDS TIMEZONE TZ MD5 SHA1 SHA256 SHA384 SHA512 ISIRI ISURI ISBLANK ISLITERAL ISNUMERIC"
    ),
    (2, 2): "LANGMATCHES CONTAINS STRSTARTS STRENDS STRBEFORE STRAFTER STRLANG STRDT SAMETERM",
    (2, 3): "REGEX SUBSTR",
    (3, 3): "IF",
    (3, 4): "REPLACE",
    (0, _MANY): "CONCAT COALESCE",
}
#: Each function's name and the least and greatest number of its arguments.
FUNCTIONS: Final = {name: counts for counts, names in _BY_COUNT.items() for name in names.split()}
#: Two names of one function.
SYNONYMS: Final = {"URI": "IRI", "ISURI": "ISIRI"}

#: Elements of a group that other engines have and nothing here has a meaning for yet.
FOREIGN_ELEMENTS: Final = frozenset({"SEQ", "PAST", "FUTURE"})

#: Words that begin a query or a clause, and so cannot be the name that is missing before them.
_STARTS = "AS SELECT ASK CONSTRUCT DESCRIBE PREFIX BASE COMPUTED FROM WHERE RANGE ON STREAM NAMED USING UNDER"
NO_NAMES: Final = frozenset(_STARTS.split())

_KEYWORDS = """ADD ALL AS ASC ASK BASE BIND BOUNDS BY CLEAR COMPUTED CONSTRUCT CONTENT_CHANGE COPY COUNT CREATE DATA
DEFAULT DELETE DESC DESCRIBE DISTINCT DROP DSTREAM ELEMENTS EMIT END EVERY EXISTS EXPLAIN FILTER FROM GRAPH GROUP HAVING
INSERT INTO ISTREAM LATENESS LIMIT LOAD MAXDELAY MINUS MOVE NAMED NON_EMPTY_CONTENT NOW OFFSET OPTIONAL ORDER PERIODIC
PREFIX QUERIES QUERY RANGE REDUCED REGISTER REPORT ROWS RSTREAM SELECT SERVICE SHOW SILENT SLIDE SLIDING START STATIC
STEP STREAM STREAMS TRIPLES TUMBLING UNDEF UNION UNREGISTER USING VALUES WHERE WINDOW WINDOW_CLOSE WITH"""
#: Words that mean something somewhere: what a mistyped one is compared with.
KEYWORDS: Final = tuple(_KEYWORDS.split())

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

_MEANT_CHARACTERS_MAX = 32


def meant(written: str, known: Iterable[str] = KEYWORDS) -> str:
    """A suggestion for an unknown word."""
    word, words = written.upper(), tuple(known)
    if not 3 <= len(word) <= _MEANT_CHARACTERS_MAX or word in words:
        return ""
    near = difflib.get_close_matches(word, words, n=1, cutoff=0.7)
    return f"; did you mean {near[0]}?" if near else ""
