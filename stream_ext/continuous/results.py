"""Results: what a network returned for an evaluation, as rows of a bag."""

from __future__ import annotations

from typing import NamedTuple

from stream_ext.evaluation_budget import Control
from stream_ext.language.algebra.algebra import R2S, Form, Query
from stream_ext.language.algebra.windows import Dialect
from stream_ext.rows.zset import Columns, Weights, are_once, repeated
from stream_ext.windows.part import Ids
from stream_ext.windows.scheduled_window import Times

#: The result of an evaluation: columns, boolean, and whether it is an emission at all.
Result = tuple[list[Ids], bool | None, bool]


class ManyResults(NamedTuple):
    """The results of evaluations that were made in one step: the places of those that emit, among all of the step; of
    each, where its rows end; and the columns of all rows."""

    places: Times
    stops: Times
    columns: list[Ids]


#: Fewer rows are not charged before they are repeated.
_MANY_ROWS = 8192
#: The number of arrays of ids that one column needs until it is an emission.
_COPIES = 3


def repeated_within(columns: Columns, weights: Weights, control: Control) -> Columns:
    """The rows of a bag, each as often as its weight says, within the budget. An emission contains each value several
    times: as an id, for other processes, and as a place in the list of its terms."""
    rows = len(weights) if are_once(weights) else int(weights.sum())
    if rows > _MANY_ROWS:
        control.room(rows, _COPIES * len(columns))
    return repeated(columns, weights)


def result_of(query: Query, emitted: tuple[Columns, Weights], control: Control = Control.FREE) -> Result:
    columns, weights = emitted
    if query.form is Form.ASK:  # one empty row or none; ISTREAM and DSTREAM emit only that it came, or went
        boolean = bool(len(weights))
        return [], boolean, boolean or (query.emits is R2S.RSTREAM and query.dialect is not Dialect.CQELS)
    found = list(repeated_within(columns, weights, control))
    if not query.windows and query.r2s in (R2S.ISTREAM, R2S.DSTREAM):
        return found, None, bool(found) and bool(len(found[0]))
    # In CQELS-QL an empty result is not emitted.
    return found, None, bool(len(weights)) or query.dialect is not Dialect.CQELS


def is_empty(result: Result) -> bool:
    columns, boolean, _ = result
    return not boolean and not any(map(len, columns))
