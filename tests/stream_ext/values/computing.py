"""What an expression is for some rows of terms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from stream_ext.language.algebra.algebra import Query
from stream_ext.language.algebra.formulas import Expression
from stream_ext.language.syntax import parse
from stream_ext.values.expressions import ExpressionContext, compile_value
from tests.stream_ext.dictionary import Dictionary

XSD = "http://www.w3.org/2001/XMLSchema#"
BASE = "http://base/"
PREFIXES = f"PREFIX xsd: <{XSD}> PREFIX : <http://ex/>"


def expression(text: str) -> Expression:
    query = parse(f"{PREFIXES} SELECT ({text} AS ?made) {{}}", BASE)
    assert isinstance(query, Query)
    return query.shape.expressions[0].expression


def computed(
    text: str, variables: Sequence[str] = (), rows: Sequence[Sequence[str]] = ((),), **scope: Any
) -> list[str | None]:
    """The terms, as N-Triples; None for an error. Rows are N-Triples too, "" for unbound."""
    dictionary = Dictionary()
    columns = [dictionary.encode([row[i] for row in rows]) for i in range(len(variables))]
    vocabulary = dictionary.vocabulary
    ids = compile_value(expression(text), tuple(variables)).ids(
        columns, ExpressionContext(vocabulary, **scope), len(rows)
    )
    there = ids != 0
    texts = iter(vocabulary.decode(ids[there]) if there.any() else [])
    return [next(texts).decode() if held else None for held in there.tolist()]


def value(text: str, bindings: Mapping[str, str] | None = None, **scope: Any) -> str | None:
    bindings = bindings or {}
    return computed(text, tuple(bindings), [tuple(bindings.values())], **scope)[0]


def typed(short: str | None) -> str | None:
    """`1^^integer`, `"a"`, `"a"@en`, `<iri>` as N-Triples."""
    if short is None or "^^" not in short or short.endswith(">"):
        return short
    lexical, _, name = short.rpartition("^^")
    return f'"{lexical}"^^<{XSD}{name}>'
