"""Tracing: all stages are evaluated once, and it is noted how many rows each makes, and how long it takes."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from stream_ext.network.change_bytes import MANY, count_alive, with_room
from stream_ext.network.operators.core.moment import Moment
from stream_ext.network.wires import Stage
from stream_ext.rows.zset import ZSet


@dataclass(frozen=True, slots=True)
class Traced:
    """What a stage did in one step."""

    stage: Stage
    rows: int
    ms: float


def traced_stages(stages: Sequence[Stage], moment: Moment) -> tuple[list[ZSet], list[Traced]]:
    """The changes of all stages, and what each did."""
    changes, traces = list[ZSet](), list[Traced]()
    for stage in stages:
        moment.control.check()
        begun = time.perf_counter()
        inputs = [with_room(moment.control, changes[i]) for i in stage.inputs]
        changes.append(stage.operator.step(moment, *inputs))
        traces.append(Traced(stage, changes[-1].count, (time.perf_counter() - begun) * 1000))
        if changes[-1].count > MANY:
            count_alive(moment.control, changes)
    return changes, traces
