"""The bytes of changes: whether the budget of an evaluation allows what its operators make."""

from __future__ import annotations

from collections.abc import Sequence

from stream_ext.evaluation_budget import Control
from stream_ext.rows.zset import Deferred, ZSet

#: Smaller changes are not looked at one by one: few of them are alive at a time.
MANY = 8192
#: Bytes that are remembered are counted as they come, and the operators are looked at when these have come to one part
#: in so many of the budget.
LOOKS = 16
#: Bytes of an id; and cells of a row beside its columns: a weight, a validity.
_CELL, _WITH_EACH = 8, 2
#: Cells a row that an operator needs beside its columns, for what it makes of each: places, a table, an order.
_CELLS_WITH_ROW = 8


def with_room(control: Control, change: ZSet) -> ZSet:
    """The change, if the budget allows its readers to copy it: columns that share an array may be copied."""
    if change.count > MANY:
        control.room(change.count, change.width + _CELLS_WITH_ROW)
    return change


def count_alive(control: Control, changes: Sequence[ZSet]) -> None:
    """Charges the bytes of changes; the arrays that they share are found only if the sum is large."""
    most = 0
    for each in changes:
        most += each.count * (len(each.stored) + _WITH_EACH)
    most *= _CELL
    control.alive(most if most < control.left // LOOKS else _bytes_of(changes))


def _bytes_of(changes: Sequence[ZSet]) -> int:
    """The bytes of their arrays, each counted once: changes share columns."""
    sizes: dict[int, int] = {}
    for change in changes:
        for column in change.stored:
            for array in column.arrays() if isinstance(column, Deferred) else (column,):
                sizes[id(array)] = array.nbytes
        for extra in (change.weights, change.untils):
            if extra is not None and extra.strides != (0,):
                sizes[id(extra)] = extra.nbytes
    return sum(sizes.values())
