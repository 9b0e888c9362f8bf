"""Capacities so low that operators lay out anew, and clean, what they remember at almost every step.

What they do above some thousand rows is otherwise never seen by tests whose data are small enough to be understood."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from unittest.mock import patch

#: (module, constant, value): where something begins to be done otherwise.
LOW = (
    ("stream_ext.rows.content_ring", "_LEAST_CAPACITY", 2),
    ("stream_ext.network.operators.answers.distinct", "_LEAST_CAPACITY", 2),
    ("stream_ext.rows.expiry_wheel", "_LEAST_CAPACITY", 2),
    ("stream_ext.rows.expiry_wheel", "_SECTORS", 4),
    ("stream_ext.network.operators.groups.group", "_CLEAN_LEAST", 2),
    ("stream_ext.network.operators.joins.join", "_FEW", 0),
    ("stream_ext.rows.key_table", "_LEAST_CAPACITY", 2),
    ("stream_ext.network.operators.scans.occurrence_scan", "_CLEAN_LEAST", 2),
    ("stream_ext.network.operators.answers.ordered_rows", "_SUM_LEAST", 2),
    ("stream_ext.network.operators.paths.path_pairs", "_UNUSED_STARTS_MIN", 2),
    ("stream_ext.rows.row_index", "_LEAST_CAPACITY", 2),
    ("stream_ext.network.operators.groups.tallies", "_CLEAN_LEAST", 2),
)


#: (constant, value): where the plan of a query begins to be another one, for it has very many parts.
SMALL_PLANS = (("WIDE", 2), ("RUN", 2), ("SMALL", 0), ("MERGED_MAX", 2), ("ASSIGNED_MAX", 1), ("MANY_MAX", 2))


@contextmanager
def small_plans() -> Iterator[None]:
    """Queries are planned as if they had thousands of parts."""
    with ExitStack() as stack:
        for name, value in SMALL_PLANS:
            stack.enter_context(patch(f"stream_ext.network.building.sizes.{name}", value))
        yield


@contextmanager
def low_capacities() -> Iterator[None]:
    patches = [patch(f"{module}.{name}", value) for module, name, value in LOW]
    patches.append(patch("stream_ext.continuous.run.TERMS_CREATED_MAX", 5))
    for one in patches:
        one.start()
    try:
        yield
    finally:
        for one in patches:
            one.stop()
