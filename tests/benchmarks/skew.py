"""Three windows whose data change their mind: first the one has many rows for each key, then the other.

Joined by the operator that finds its order batch by batch, and by two chains of joins of two, each in an order that is
good for one half. What they find is compared at each batch. Medians are told of each half, without the windows in which
both have many rows."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from stream_ext.network.operators.core.moment import Moment
from stream_ext.network.operators.joins.join import JoinOperator
from stream_ext.network.operators.joins.many_join import ManyJoin
from stream_ext.rows.zset import ZSet

Figures = dict[str, Any]
Step = Callable[[Moment, list[ZSet]], ZSet]

_SPAN = 10
_FIRST, _MANY, _FEW = ("x",), ("x", "y"), ("x", "z")


def measure(batches: int, keys: int = 2_000) -> Figures:
    """A batch has half as many rows of each as there are keys; those of the one are spread over all keys and some more,
    those of the other stand at a few."""
    made = [_batch(b, keys, b < batches // 2) for b in range(batches)]
    took = {name: _run(step, made) for name, step in _ways().items()}
    observed = {name: _observed(seconds, batches) for name, (seconds, _) in took.items()}
    if len({tuple(found) for _, found in took.values()}) != 1:
        raise AssertionError("the ways to join do not find the same")
    both = {name: each["batch_ms_p50_before"] + each["batch_ms_p50_after"] for name, each in observed.items()}
    best = min(ms for name, ms in both.items() if name != "live")
    return {**observed, "best_fixed_over_live": round(best / both["live"], 2)}


def _ways() -> dict[str, Step]:
    many, chains = ManyJoin((_FIRST, _MANY, _FEW)), {}
    for name, parts in {"many_first": (_MANY, _FEW), "few_first": (_FEW, _MANY)}.items():
        first = JoinOperator(_FIRST, parts[0])
        second = JoinOperator(first.variables, parts[1])
        chains[name] = _chain(first, second, 1 if parts[0] == _MANY else 2)
    return {"live": lambda moment, rows: many.step(moment, *rows), **chains}


def _chain(first: JoinOperator, second: JoinOperator, place: int) -> Step:
    return lambda moment, rows: second.step(moment, first.step(moment, rows[0], rows[place]), rows[3 - place])


def _batch(b: int, keys: int, first_half: bool) -> list[ZSet]:
    chance = np.random.default_rng(b)
    count = keys // 2
    dense, rare = chance.integers(1, keys, 4 * count), chance.integers(1, 200 * keys, count)
    sides = (dense, rare) if first_half else (rare, dense)
    rows = [[chance.integers(1, keys, count)]]
    rows += [[side, np.arange(len(side)) + b * 4 * count + 1] for side in sides]
    return [
        ZSet(
            tuple(column.astype(np.uint64) for column in part), len(part[0]), None, np.full(len(part[0]), b + _SPAN - 1)
        )
        for part in rows
    ]


def _run(step: Step, made: list[list[ZSet]]) -> tuple[list[float], list[tuple[int, int]]]:
    seconds, found = [], []
    for b, rows in enumerate(made):
        moment = Moment(b, None, None)  # type: ignore[arg-type]  # no part reads the store
        began = time.perf_counter()
        joined = step(moment, rows)
        seconds.append(time.perf_counter() - began)
        found.append((joined.count, int(sum(int(column.sum()) for column in joined.columns))))
    return seconds, found


def _observed(seconds: list[float], batches: int) -> Figures:
    half = batches // 2
    return {
        "batch_ms_p50_before": round(statistics.median(seconds[_SPAN:half]) * 1e3, 3),
        "batch_ms_p50_after": round(statistics.median(seconds[half + _SPAN :]) * 1e3, 3),
    }
