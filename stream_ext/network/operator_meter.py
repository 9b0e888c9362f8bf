"""A meter of operators: how many rows each operator of a registered query puts out, and how long it takes, while
somebody looks.

The meter stands in for the operators in the steps of the network, and takes itself away when nobody has looked for a
while: a network that nobody looks at is stepped as if there were no meter.

    operator                 steps   rows     ms
    group by ?room              10     80    1.9
    window readings             10  1,000    0.4"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from stream_ext.network.measuring import bytes_of
from stream_ext.network.operators.core.moment import Moment
from stream_ext.network.operators.core.operator import Operator
from stream_ext.network.operators.core.shared_stage import SharedReader
from stream_ext.network.stages import lines_of
from stream_ext.network.wires import Stage, Step
from stream_ext.rows.zset import ZSet

#: Nobody has looked for so long: the meter ends.
LOOKED_AT_S = 10.0
#: The state of an operator is measured so often, at most.
_STATE_EVERY_S = 2.0


@dataclass(frozen=True, slots=True)
class MeteredLine:
    """An operator, after the lines of the tree. `rows`, `ms`: since the meter began; None: the operator has a line
    above, or only shared operators read it. `state_bytes`: what it remembers; None: it was not stepped yet.
    `shared_with`: the other queries that have it, of each template one."""

    text: str
    estimated: float | None = None
    rows: int | None = None
    ms: float | None = None
    state_bytes: int | None = None
    shared_with: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Metered:
    """What a network did since its meter began. `steps`: its evaluations."""

    seconds: float
    steps: int
    ms: float
    lines: list[MeteredLine]


class _MeteredOperator:
    """An operator whose steps are counted."""

    def __init__(self, operator: Operator, meter: OperatorMeter) -> None:
        self._operator, self._meter = operator, meter
        self.variables = operator.variables
        self.rows, self.taken_s = 0, 0.0
        self.state_bytes: int | None = None
        self._looked_s = float("-inf")

    def step(self, moment: Moment, *inputs: ZSet) -> ZSet:
        clock = self._meter.clock
        begun_s = clock()
        change: ZSet = self._operator.step(moment, *inputs)
        now_s = clock()
        self.rows += change.count
        self.taken_s += now_s - begun_s
        if now_s - self._looked_s > _STATE_EVERY_S:
            self.state_bytes, self._looked_s = bytes_of([self._operator]), now_s
        return change


class OperatorMeter:
    """`stages`: those of the network; `steps`: as it steps them; `metered_steps` are the same, counted."""

    def __init__(
        self, stages: Sequence[Stage], steps: Sequence[Step], clock: Callable[[], float] = time.perf_counter
    ) -> None:
        self.clock, self.steps = clock, steps
        self._began_s = self._looked_s = clock()
        self._stages = list(stages)
        self._operators = {at: _MeteredOperator(stage.operator, self) for at, stage, _ in steps}
        self.metered_steps: list[Step] = [
            (at, Stage(self._operators[at], stage.inputs, stage.estimate, stage.label), done)
            for at, stage, done in steps
        ]
        self._steps = 0

    def stepped(self) -> bool:
        """Counts a step of the network. False: nobody looks any more."""
        self._steps += 1
        return self.clock() - self._looked_s < LOOKED_AT_S

    def read(self) -> Metered:
        """What was counted so far. Any thread may call; the meter goes on."""
        self._looked_s = self.clock()
        lines = [self._line(line.text, line.stage) for line in lines_of(self._stages)]
        taken_ms = sum(line.ms or 0.0 for line in lines)
        return Metered(self._looked_s - self._began_s, self._steps, taken_ms, lines)

    def _line(self, text: str, stage: int | None) -> MeteredLine:
        if stage is None:
            return MeteredLine(text)
        found, estimate, others = self._operators.get(stage), self._stages[stage].estimate, self._others(stage)
        if found is None:
            return MeteredLine(text, estimate, shared_with=others)
        return MeteredLine(text, estimate, found.rows, found.taken_s * 1000, found.state_bytes, others)

    def _others(self, stage: int) -> tuple[int, ...]:
        operator = self._stages[stage].operator
        return operator.stage.queries_of_all if isinstance(operator, SharedReader) else ()


def as_json(metered: Metered) -> dict[str, Any]:
    return {
        "seconds": round(metered.seconds, 1),
        "evaluations": metered.steps,
        "ms": round(metered.ms, 3),
        "operators": [
            {"operator": line.text, **_figures(line), **({"shared_with": line.shared_with} if line.shared_with else {})}
            for line in metered.lines
        ],
    }


def _figures(line: MeteredLine) -> dict[str, Any]:
    if line.rows is None:
        return {}
    return {
        "estimated": line.estimated,
        "rows": line.rows,
        "ms": round(line.ms or 0.0, 3),
        "state_bytes": line.state_bytes,
    }
