"""The solutions of an update's pattern: the one place where an update asks the evaluator of queries."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stream_ext.evaluate import solve, where
from stream_ext.plan.algebra import Modify, Pattern
from stream_ext.plan.logic import GraphScope
from stream_ext.plan.normalise import STORE, Dataset, dataset
from stream_ext.updates.templates import Solved
from stream_ext.updates.working import Working
from stream_ext.vocabulary import Vocabulary


def solutions(pattern: Pattern, variables: Sequence[str], of: Dataset, working: Working) -> Solved:
    """Over the store with all that the operations before did."""
    vocabulary = Vocabulary(working.preview.ids, working.preview.terms)
    found = solve(where(pattern, variables, of), working.snapshot, vocabulary, working.asking)
    weights = found.weight_array()
    columns = found.columns if found.weights is None else tuple(np.repeat(column, weights) for column in found.columns)
    return Solved(dict(zip(variables, columns, strict=True)), int(weights.sum()), vocabulary)


def dataset_of(operation: Modify) -> Dataset:
    """USING says what the pattern is solved over; without it WITH does, for the default graph."""
    if operation.using:
        return dataset(operation.using, windowed=False)
    if operation.graph is not None:
        return Dataset(GraphScope(graphs=(operation.graph,)), None)
    return STORE
