"""The bound: how many rows a query meets at most, where that is told by a few look-ups of one key.

    SELECT ?o { <s> <p> ?o }                  =>  the objects of <s> by <p>
    ASK { ?s <p> "v" . <t> <q> ?o }           =>  their product
    SELECT ?o { ?s <p> ?o }                   =>  not told

Who asks can run what is small at once, where he stands, and send the rest to a thread."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hbase_store import Store
from stream_ext.plan.algebra import PLAIN, Bgp, Constant, Form, Query, TriplePattern

_PATTERNS_MAX = 4


def rows_at_most(store: Store, query: Query, sn: int) -> int | None:
    """None: it is not told."""
    patterns = _looked_up(query)
    if patterns is None:
        return None
    terms = [term.text for each in patterns for term in _key(each)]
    ids = [int(id) for id in store.ids(terms)]
    snapshot, rows = store.at(sn), 1
    for each, predicate, key in zip(patterns, ids[::2], ids[1::2], strict=True):
        if not predicate or not key:
            return 0
        rows *= len(snapshot.values(predicate, key, inverse=not isinstance(each.subject, Constant)))
    return rows


def _looked_up(query: Query) -> Sequence[TriplePattern] | None:
    """The patterns, if each has a predicate and one more constant, and there is nothing else."""
    if query.form not in (Form.SELECT, Form.ASK) or query.windows or replace(query.shape, places=()) != PLAIN:
        return None
    pattern = query.pattern
    if not isinstance(pattern, Bgp) or pattern.paths or not 0 < len(pattern.patterns) <= _PATTERNS_MAX:
        return None
    for each in pattern.patterns:
        if not isinstance(each.predicate, Constant):
            return None
        if not isinstance(each.subject, Constant) and not isinstance(each.object, Constant):
            return None
    return pattern.patterns


def _key(pattern: TriplePattern) -> tuple[Constant, Constant]:
    key = pattern.subject if isinstance(pattern.subject, Constant) else pattern.object
    assert isinstance(pattern.predicate, Constant) and isinstance(key, Constant)
    return pattern.predicate, key
