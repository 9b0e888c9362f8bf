"""The solutions of an update's pattern: the one place where an update asks the evaluator of queries."""

from __future__ import annotations

from hbase_store import Snapshot
from stream_ext.control import Control
from stream_ext.network import Network
from stream_ext.operators.moment import Moment
from stream_ext.plan.algebra import Form, Pattern, Query
from stream_ext.vocabulary import Vocabulary
from stream_ext.zset import ZSet, repeated


def solutions(
    pattern: Pattern, variables: tuple[str, ...], snapshot: Snapshot, vocabulary: Vocabulary, control: Control
) -> ZSet:
    """A row each, with a column for each of the variables (0 where one is unbound)."""
    query = Query(Form.SELECT, pattern, variables, False, 0, None, (), None)
    network = Network(query, {}, snapshot, vocabulary.encode, vocabulary.decode)
    columns, weights = network.step(Moment(0, snapshot, None, last=True, control=control))
    return ZSet(tuple(repeated(columns, weights)), int(weights.sum()))
