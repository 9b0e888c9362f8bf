"""Unread removals: rows that a group takes back, and that nobody reads, are not made."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from stream_ext.network.operators.groups.grouped import Grouped
from stream_ext.network.operators.rowwise.extend import ExtendOperator
from stream_ext.network.operators.rowwise.project import Project
from stream_ext.network.wires import Stage


def omit_unread_removals(stages: Sequence[Stage], last: int) -> None:
    """Tells groups not to emit removed rows, if their rows reach only the answer, with all columns.

    Example: GROUP BY ?k with (COUNT(*) AS ?n) under ISTREAM: the old value of a changed count is not needed."""
    readers = Counter(i for stage in stages for i in stage.inputs)
    handed_on: list[ExtendOperator | Project] = []
    at = last
    while readers[at] <= (at != last) and isinstance(operator := stages[at].operator, ExtendOperator | Project):
        handed_on.append(operator)
        (at,) = stages[at].inputs
    operator = stages[at].operator
    if readers[at] > (at != last) or not isinstance(operator, Grouped):
        return
    columns: list[int | None] = list(range(len(operator.variables)))
    for each in reversed(handed_on):
        columns = [None if source is None else columns[source] for source in each.sources()]
    operator.emits_removals = not set(columns).issuperset(range(len(operator.variables)))
