"""Range sums: what becomes of the rows of all ranges of a divided query once they are summed.

SELECT ?a (COUNT(*) AS ?n) { ... } GROUP BY ?a ORDER BY DESC(?n) LIMIT 3
=>  two columns are shown, ordered by the second one, descending; three rows are left"""

from __future__ import annotations

from msgspec.structs import replace

from stream_ext.language.algebra.algebra import Form, Query
from stream_ext.language.algebra.terms import Constant
from stream_ext.language.algebra.walk import template_of
from stream_ext.plan.logic import Select
from stream_ext.plan.properties.features import makes_terms
from stream_ext.plan.properties.partial_groups import in_range
from stream_ext.plan.properties.result_columns import columns_of
from stream_ext.windows.part import RangeSums


def sums_of(query: Query, select: Select, partial_groups: bool = False) -> RangeSums:
    """Of a query that `division_of` divides, and whose rows are summed."""
    sums = _sums_of(query, select)
    return replace(sums, partial_groups=len(in_range(select).names)) if partial_groups else sums


def _sums_of(query: Query, select: Select) -> RangeSums:
    shown = columns_of(query)
    if query.form is not Form.SELECT:
        constants = _constants_of(query) if query.form is Form.CONSTRUCT else []
        return RangeSums(query.emits.value, len(shown), is_set=True, asks=query.form is Form.ASK, constants=constants)
    names = list(dict.fromkeys((*shown, *(name for name, _ in select.order))))
    order = [(names.index(name), descending) for name, descending in select.order]
    is_hidden = len(names) > len(shown)
    return RangeSums(
        query.emits.value, len(shown), order, select.distinct and not is_hidden, select.distinct and is_hidden,
        select.offset, select.limit, select.is_cut and makes_terms(select),
    )  # fmt: skip


def _constants_of(query: Query) -> list[bytes]:
    nodes = [node for quad in template_of(query) for node in (quad.subject, quad.predicate, quad.object)]
    return list(dict.fromkeys(node.text for node in nodes if isinstance(node, Constant)))
