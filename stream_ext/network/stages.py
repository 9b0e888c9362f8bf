"""The operators of a network as a tree, from the answer down to the inputs, for EXPLAIN.

A chain of operators with one input each is a column of lines, the last operator on top; an operator with several inputs
has a branch for each. An operator that several others read is shown once, and named again where it is read again.

    group by city
    ?p <http://ex/age> ?age
    optional
    ├─ ?p <http://ex/city> ?city
    └─ ?p <http://ex/mbox> ?mbox"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from stream_ext.network.operators.core.shared_stage import SharedReader
from stream_ext.network.operators.remote.source_join import SourceJoin
from stream_ext.network.wires import Stage


@dataclass(frozen=True, slots=True)
class Line:
    """One operator, after the lines of the tree; `stage`: its number, None for one that was shown above."""

    text: str
    stage: int | None


def lines_of(stages: Sequence[Stage]) -> Iterator[Line]:
    """The last stage is the answer's."""
    shown: set[int] = set()
    waiting = [(len(stages) - 1, "", "")]
    while waiting:
        at, first, rest = waiting.pop()
        stage = stages[at]
        if at in shown:
            yield Line(f"{first}{_label(stage)} (as above)", None)
            continue
        shown.add(at)
        yield Line(first + _label(stage), at)
        inputs = [each for each in _read(stage) if _read(stages[each]) or len(_read(stage)) > 1 or each != 0]
        if len(inputs) == 1:
            waiting.append((inputs[0], rest, rest))
            continue
        for number, each in reversed(list(enumerate(inputs))):
            last = number == len(inputs) - 1
            waiting.append((each, rest + ("└─ " if last else "├─ "), rest + ("   " if last else "│  ")))


def _read(stage: Stage) -> tuple[int, ...]:
    """What it reads; of a shared operator, what the query would read without the others."""
    return stage.operator.inputs if isinstance(stage.operator, SharedReader) else stage.inputs


def _label(stage: Stage) -> str:
    """What a source is asked is written only where somebody looks at it. `shared by`: so many queries have it, some of
    them perhaps over longer windows, or shorter ones."""
    if isinstance(stage.operator, SharedReader):
        shared = stage.operator.stage
        longer = f"over windows {shared.by_ms} ms longer, " if shared.longer is not None else ""
        return f"{stage.label} ({longer}shared by {shared.readers_of_all})"
    return f"{stage.label}: {stage.operator.question}" if isinstance(stage.operator, SourceJoin) else stage.label
