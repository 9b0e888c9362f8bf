"""The columns of a query's answer, by name."""

from __future__ import annotations

from stream_ext.language.algebra.algebra import Form, Query

#: The columns of CONSTRUCT and DESCRIBE.
TRIPLE = ("s", "p", "o")


def columns_of(query: Query) -> tuple[str, ...]:
    """The columns of a query's answer."""
    if query.form is Form.CONSTRUCT:
        return TRIPLE
    return query.variables if query.form is Form.SELECT else ()
