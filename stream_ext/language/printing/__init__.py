"""The algebra as text again: for other engines as plain SPARQL 1.1, for us in one canonical spelling.

A text and its canonical spelling have the same algebra, down to the labels of blank nodes, which are counted anew."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from stream_ext.errors import BadArgument
from stream_ext.language.algebra.algebra import Query, Register
from stream_ext.language.algebra.statements import Unit
from stream_ext.language.printing.units import Units

if TYPE_CHECKING:
    import rdflib.plugins.sparql.sparql

__all__ = ["CacheKey", "cache_key", "to_canonical", "to_rdflib", "to_sparql"]


def to_canonical(unit: Unit) -> str:
    """In our own language, every IRI in full; `parse` makes the same unit of it."""
    return Units(plain=False).unit(unit)


def to_sparql(unit: Unit) -> str:
    """In SPARQL 1.1: a window is the named graph of its name, R2S and REGISTER are gone."""
    return Units(plain=True).unit(unit)


def to_rdflib(unit: Unit) -> rdflib.plugins.sparql.sparql.Query:
    """As rdflib's own prepared query. Its parser gives up (RecursionError) on a few hundred triple patterns."""
    import rdflib.plugins.sparql

    if not isinstance(unit, Query | Register):
        raise BadArgument("rdflib prepares queries only; for an update, use its text (to_sparql)")
    return rdflib.plugins.sparql.prepareQuery(to_sparql(unit))


class CacheKey(NamedTuple):
    """Texts with one `template` have one plan; they differ in their `constants` only."""

    template: str
    constants: tuple[bytes, ...]


def cache_key(unit: Unit) -> CacheKey:
    """The canonical text without the terms of patterns, filters and tables, and these terms in their order.

    Predicates, graphs, windows and LIMIT stay: what a plan costs depends on them."""
    constants: list[bytes] = []
    return CacheKey(Units(plain=False, constants=constants).unit(unit), tuple(constants))
