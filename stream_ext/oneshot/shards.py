"""Shards: how the query of a text would be divided among them, once it is registered."""

from __future__ import annotations

from stream_ext.language.algebra.algebra import Query
from stream_ext.language.algebra.windows import Extent
from stream_ext.plan.pipeline import logic_of
from stream_ext.plan.properties.divisible import KeyDivision, division_of
from stream_ext.plan.templates.parameters import parametrised

_WITHOUT_LENGTH = (Extent.ALL, Extent.TRIPLES, Extent.ELEMENTS)


def division_of_text(query: Query) -> KeyDivision:
    """As of the registered query."""
    select = logic_of(query)
    has_lengths = not any(window.extent in _WITHOUT_LENGTH for window in query.windows)
    return division_of(query, select, has_lengths and parametrised(query, select, ()) is not None)
