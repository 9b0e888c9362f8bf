"""The solutions of an update's pattern: the one place where an update asks the evaluator of queries."""

from __future__ import annotations

from hbase_store import Snapshot
from stream_ext.control import Control
from stream_ext.evaluate import Asking, solve, where
from stream_ext.plan.algebra import Pattern
from stream_ext.plan.normalise import STORE
from stream_ext.vocabulary import Vocabulary
from stream_ext.zset import ZSet


def solutions(
    pattern: Pattern, variables: tuple[str, ...], snapshot: Snapshot, vocabulary: Vocabulary, control: Control
) -> ZSet:
    """A row each, with a column for each of the variables (0 where one is unbound)."""
    return solve(where(pattern, variables, STORE), snapshot, vocabulary, Asking(control=control))
