"""Effort: what evaluating a query took the last time, and whether it may be tried where nobody can wait.

Texts that differ in constants of their patterns share a plan, and so share this: what was quick for one of them mostly
is for the next."""

from __future__ import annotations

import math

from stream_ext.language.algebra.algebra import Bgp, Form, Query, ServicePattern
from stream_ext.language.algebra.formulas import Aggregate, FunctionCall
from stream_ext.language.algebra.walk import Part, query_parts, walk

#: Calls that take no longer for one row than for another.
_SHORT_CALLS = frozenset(
    ["BOUND", "DATATYPE", "ISBLANK", "ISIRI", "ISLITERAL", "ISNUMERIC", "ISURI", "LANG", "SAMETERM", "STR"]
)
_SHORT_AGGREGATES = frozenset(["AVG", "COUNT", "MAX", "MIN", "SUM"])
#: After so many tries in vain in a row the next one comes as late as after any more.
_VAIN_MAX = 10


class Effort:
    """Any thread may use it: at worst a try is one too many, or one too few."""

    def __init__(self, query: Query) -> None:
        self._is_even = _is_even(query)
        self.seconds = math.inf
        self._vain = self._left_out = 0

    def is_at_most(self, seconds: float) -> bool:
        """Whether it is worth a try, where only that much is to be spent."""
        if not self._is_even or self.seconds > seconds:
            return False
        self._left_out -= self._left_out > 0
        return not self._left_out

    def took(self, seconds: float) -> None:
        """The CPU time of an evaluation."""
        self.seconds = seconds

    def succeeded(self) -> None:
        self._vain = 0

    def failed(self) -> None:
        """A try was in vain: 2, 4, 8 and more of the next ones are left out, as often as that follows."""
        self._vain = min(self._vain + 1, _VAIN_MAX)
        self._left_out = 1 << self._vain


def _is_even(query: Query) -> bool:
    """Whether the number of rows alone says how long it takes: no path, no long text, nobody else is asked."""
    if query.form not in (Form.SELECT, Form.ASK) or query.windows:
        return False
    return all(_is_short(node) for part in query_parts(query) for node in walk(part))


def _is_short(node: Part) -> bool:
    match node:
        case Bgp():
            return not node.paths
        case ServicePattern():
            return False
        case FunctionCall(name):
            return name in _SHORT_CALLS
        case Aggregate(function):
            return function in _SHORT_AGGREGATES
        case _:
            return True
