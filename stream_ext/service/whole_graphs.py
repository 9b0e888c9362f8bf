"""Whole graphs of the one dataset: what our own store has of them, and then what the source main has beside it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import chain

import numpy as np

from stream_ext.errors import BadArgument, NotFound
from stream_ext.evaluation_budget import Control
from stream_ext.oneshot.decoded import Decoded
from stream_ext.oneshot.own_quads import attached_of
from stream_ext.oneshot.source_graphs import graph_of_source
from stream_ext.plan.logic import GraphScope
from stream_ext.remote.source import MAIN
from stream_ext.remote.sources import Sources
from stream_ext.writer.derived_graphs import DerivedGraphs
from stream_ext.writer.graph_store import GraphAnswer

_NO_IDS = np.empty(0, np.uint64)


def of_both(
    own: DerivedGraphs,
    scope: GraphScope | None,
    at_snapshot: bool,
    sources: Sources,
    control: Control,
    read: Callable[[DerivedGraphs], GraphAnswer],
) -> GraphAnswer:
    """A graph, or (`scope` None) all of them; NotFound for a named graph of which neither has a triple. `at_snapshot`:
    a snapshot was asked for by its number, and a source has none."""
    if at_snapshot:
        raise BadArgument(f"snapshot=: graphs are those of the source {MAIN}, too, which has no snapshots")
    more = _of_source(own, scope, sources, control)
    try:
        found = read(own)
    except NotFound:
        if more is None:
            raise
        found = GraphAnswer((_NO_IDS, _NO_IDS, _NO_IDS), own.sn, own.store.terms)
    return found if more is None else replace(found, more=more)


def _of_source(
    own: DerivedGraphs, scope: GraphScope | None, sources: Sources, control: Control
) -> Iterator[Decoded] | None:
    """What only the source has; None: nothing."""
    store, snapshot = own.store, own.store.at(own.sn)
    attached = attached_of(sources, snapshot, lambda term: int(store.ids([term])[0]))
    assert sources.main is not None and attached is not None, "a source is attached"
    rows = graph_of_source(sources.main, attached, scope, store, snapshot, control)
    first = next(rows, None)
    return None if first is None else chain([first], rows)
