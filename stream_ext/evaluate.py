"""One answer: a query over one snapshot, or a windowed one at one time of it.

The same network that runs for ever is stepped once, with the whole store (and whole windows) as the change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from hbase_store import Store
from stream_ext.arrivals import history
from stream_ext.control import Control
from stream_ext.network import Network
from stream_ext.operators.moment import Moment
from stream_ext.part import Ids
from stream_ext.plan.algebra import R2S, Form, Query
from stream_ext.query_run import reach
from stream_ext.schedule import ScheduledWindow
from stream_ext.zset import repeated


@dataclass(frozen=True, slots=True)
class Answer:
    """The whole answer at a snapshot: columns of ids for SELECT, a boolean for ASK."""

    variables: tuple[str, ...]
    columns: list[Ids]
    boolean: bool | None
    sn: int


@dataclass(frozen=True, slots=True)
class Instant:
    """When windows are looked at: at `time`, with what had arrived up to the push of snapshot `sn`; without them, with
    all that had arrived in the snapshot that is read, all of which must be retained."""

    time: int
    sn: int | None = None
    push: int | None = None


def evaluate(
    store: Store,
    query: Query,
    sn: int,
    windows: Sequence[ScheduledWindow] = (),
    at: Instant | None = None,
    ranked: bytes | None = None,
    control: Control = Control.FREE,
) -> Answer:
    """The answer before R2S. A query with windows needs `at`; the store must have taken `sn` in.

    `ranked` is the order of first appearance that LIMIT cuts, where the query has been evaluated before."""
    snapshot = store.at(sn)
    by_name = {window.name: window for window in windows}

    network = Network(replace(query, r2s=R2S.RSTREAM), by_name, snapshot, store.ids, store.terms)
    if at is not None:
        _fill(network, store, sn, windows, at)
    columns, weights = network.step(Moment(at.time if at else 0, snapshot, None, last=True, control=control))
    if ranked is not None and network.answer.ranking is not None:
        network.answer.ranking.restore(ranked)
        columns, weights = network.answer.whole()
    if query.form is Form.ASK:
        return Answer((), [], bool(len(weights)), sn)
    return Answer(query.variables, list(repeated(columns, weights)), None, sn)


def _fill(network: Network, store: Store, sn: int, windows: Sequence[ScheduledWindow], at: Instant) -> None:
    for stream, oldest in reach(windows, at.time).items():
        for arrival in history(store, stream, sn if at.sn is None else at.sn, oldest, whole=at.sn is None):
            if at.push is None or (arrival.sn, arrival.push) <= (at.sn, at.push):
                network.arrive(arrival.stream, arrival.s, arrival.p, arrival.o, arrival.times)
