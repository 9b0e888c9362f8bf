"""The queries of `rillet bench spark` on shards that are plain objects of this process, without Spark: what each shard
costs. It is CPU time, all ways take turns, and the least of all rounds counts: other work on the machine only adds.

whole       one shard has all queries
by_hash     two shards, by the plan that knows nothing
by_load     two shards, by the plan of an epoch after one in which the queries were measured"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import hbase_store
from stream_ext.catalog.catalog import Catalog, QueryDefinition
from stream_ext.clock import SystemClock
from stream_ext.continuous.assignment import IsAssigned, RangesOf, all_assigned, divides_none
from stream_ext.continuous.shard import Shard
from stream_ext.emissions.accounts import Accounts
from stream_ext.emissions.placement import ShardPlan
from stream_ext.runners.step_loads import Spent, StepLoads
from stream_ext.service.opened import Limits
from stream_ext.service.service import Service

_SHARDS = 2


def measure(texts: Sequence[str], bodies: Sequence[bytes], rounds: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="rillet-bench-") as folder:
        url = f"lmdb:{folder}/store"
        publish(url, texts, bodies)
        store = hbase_store.open(url)
        try:
            return _measured(store, rounds)
        finally:
            store.close()


def publish(url: str, texts: Sequence[str], bodies: Sequence[bytes]) -> None:
    limits = Limits(lag_ms=600_000, evaluated_s=600.0)
    service = Service.open(url, base="http://rillet/", clock=SystemClock(), engine="inline", batch_ms=0, limits=limits)
    try:
        service.create_stream("s", {})
        for text in texts:
            service.register(text)
        for body in bodies:
            service.push("s", body, "application/x-ndjson", wait="evaluated")
    finally:
        service.close()


def _measured(store: hbase_store.Store, rounds: int) -> dict[str, Any]:
    queries = Catalog.read(store, int(store.head())).queries
    times = Accounts(lambda: queries)
    for _ in range(2):  # the first one loads compiled loops, too
        spent = stepped(store, queries.values(), all_assigned)
    times.add(spent.query_ms)
    by_hash = ShardPlan.of(_SHARDS)
    loads = times.recent({query.placement or query.number for query in queries.values()})
    plans = {"by_hash": by_hash, "by_load": by_hash.balanced(loads, is_free=True)}
    whole: list[float] = []
    parts: dict[str, list[list[float]]] = {name: [] for name in plans}
    for _ in range(rounds):
        whole.append(stepped(store, queries.values(), all_assigned).busy_s)
        for name, plan in plans.items():
            is_assigned: list[Callable[[QueryDefinition], bool]] = [
                partial(plan.assigns, shard) for shard in range(_SHARDS)
            ]
            parts[name].append([stepped(store, queries.values(), each).busy_s for each in is_assigned])
    cpu_s = min(whole)
    found: dict[str, Any] = {"whole": {"cpu_s": round(cpu_s, 2)}}
    for name, plan in plans.items():
        shards = [min(each) for each in zip(*parts[name], strict=True)]
        count = [sum(plan.assigns(shard, query) for query in queries.values()) for shard in range(_SHARDS)]
        found[name] = {
            "queries": count,
            "cpu_s": [round(each, 2) for each in shards],
            "cpu_over_whole": round(sum(shards) / cpu_s, 2),
            "larger_shard": round(max(shards) / sum(shards), 3),
            "speed_up_of_two_cores": round(cpu_s / max(shards), 2),
        }
    return found


def stepped(
    store: hbase_store.Store,
    queries: Any,
    is_assigned: IsAssigned,
    ranges_of: RangesOf = divides_none,
    made: list[Any] | None = None,
) -> Spent:
    """Steps everything that was pushed; the parts are finished, as on Spark, or `made` gets them as they are."""
    shard, loads = Shard(store, is_assigned, ranges_of=ranges_of), StepLoads()
    shard.stepping, first = loads.steps, max(query.since for query in queries)
    shard.build({query.number: query.state for query in queries}, first)
    for sn in range(first + 1, int(store.head()) + 1):
        loads.steps(sn)
        parts = shard.step(sn)
        if made is None:
            shard.finished(parts, ())
        else:
            made.append(parts)
    loads.rests()
    return loads.take()
