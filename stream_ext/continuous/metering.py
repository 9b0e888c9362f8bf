"""Metering: what the operators of one registered query do, while somebody looks.

The caller is another thread than the one that steps the queries: it only looks things up, and never goes through what
that thread may change meanwhile."""

from __future__ import annotations

from typing import Any

from stream_ext.continuous.run import Run
from stream_ext.continuous.shard import Shard
from stream_ext.network.operator_meter import as_json


def metered(shard: Shard, number: int) -> dict[str, Any] | None:
    """The networks of the query, each with the rows and the time of its operators since somebody looked first; None:
    the shard does not evaluate the query now."""
    run = _run_of(shard, number)
    if run is None:
        return None
    evaluator = run.evaluator
    found = [
        {"evaluated": _when(run, triggered is evaluator.at_arrivals), **as_json(triggered.network.meter().read())}
        for triggered in evaluator.networks
    ]
    return {"shared_by": len(run.numbers), "networks": found}


def _run_of(shard: Shard, number: int) -> Run | None:
    if (run := shard.runs.of.get(number)) is not None:
        return run
    unit = shard.all_behind.unit_of(number)
    return None if unit is None or unit.own_shard is None else unit.own_shard.runs.of.get(number)


def _when(run: Run, at_arrivals: bool) -> str:
    if run.plan.is_over_store:
        return "when the store changes"
    return "at arrivals" if at_arrivals else "when windows close"
